//! What the legs of a plan hold of each link while it stages in, runs and stages out.

use crate::{
    option::Choice,
    problem::{Problem, Span},
};
use std::collections::BTreeMap;

/// Rates held on each link, in kbit/s: while staging in, and from start to finish.
#[derive(Debug, Clone, Default)]
pub(crate) struct Load {
    inbound: BTreeMap<u32, u64>,
    /// While running, and while staging out.
    run: BTreeMap<u32, u64>,
    outbound: BTreeMap<u32, u64>,
}

impl Load {
    /// `false`: some link would be overfull; nothing is added then.
    pub fn add(&mut self, problem: &Problem, span: Span, choice: &Choice) -> bool {
        let free = |edge: u32| problem.net.edges[edge as usize].free;
        // what runs is still held while the results are moved out
        let phases: Vec<&mut BTreeMap<u32, u64>> = match span {
            Span::Inbound => vec![&mut self.inbound],
            Span::Run => vec![&mut self.run, &mut self.outbound],
            Span::Outbound => vec![&mut self.outbound],
        };
        let fits = |phase: &BTreeMap<u32, u64>| {
            choice
                .loads()
                .all(|(e, kbps)| phase.get(&e).copied().unwrap_or(0).checked_add(kbps).is_some_and(|k| k <= free(e)))
        };
        if !phases.iter().all(|p| fits(p)) {
            return false;
        }
        for phase in phases {
            choice.loads().for_each(|(e, kbps)| *phase.entry(e).or_insert(0) += kbps);
        }
        true
    }

    /// Whether no link would be overfull.
    pub fn fits(&self, problem: &Problem, span: Span, choice: &Choice) -> bool {
        choice.loads().all(|(edge, kbps)| kbps <= self.left(problem, span, edge))
    }

    /// What a link still has for a leg of this span.
    pub fn left(&self, problem: &Problem, span: Span, edge: u32) -> u64 {
        let phases: &[&BTreeMap<u32, u64>] = match span {
            Span::Inbound => &[&self.inbound],
            Span::Run => &[&self.run, &self.outbound],
            Span::Outbound => &[&self.outbound],
        };
        let most = phases.iter().filter_map(|p| p.get(&edge)).max().copied().unwrap_or(0);
        problem.net.edges[edge as usize].free.saturating_sub(most)
    }

    pub fn remove(&mut self, span: Span, choice: &Choice) {
        let phases: Vec<&mut BTreeMap<u32, u64>> = match span {
            Span::Inbound => vec![&mut self.inbound],
            Span::Run => vec![&mut self.run, &mut self.outbound],
            Span::Outbound => vec![&mut self.outbound],
        };
        for phase in phases {
            choice.loads().for_each(|(e, kbps)| *phase.entry(e).or_insert(0) -= kbps);
        }
    }
}
