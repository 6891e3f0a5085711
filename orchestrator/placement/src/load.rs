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
        let fits = self.fits(problem, span, choice);
        if fits {
            self.each(span, |phase| choice.loads().for_each(|(e, kbps)| *phase.entry(e).or_insert(0) += kbps));
        }
        fits
    }

    pub fn remove(&mut self, span: Span, choice: &Choice) {
        self.each(span, |phase| choice.loads().for_each(|(e, kbps)| *phase.entry(e).or_insert(0) -= kbps));
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

    /// Of the phases in which a leg of this span holds its links; what runs is still held while the results are moved out.
    fn each(&mut self, span: Span, change: impl Fn(&mut BTreeMap<u32, u64>)) {
        match span {
            Span::Inbound => change(&mut self.inbound),
            Span::Run => {
                change(&mut self.run);
                change(&mut self.outbound);
            }
            Span::Outbound => change(&mut self.outbound),
        }
    }
}
