//! Legs that would overfill a link: their paths and rungs are chosen together, by branch and bound over alternatives.

use crate::{
    cost::Carried,
    option::{self, Choice, Look},
    settle::{Best, Load, Settling},
};
use num_traits::CheckedAdd;

/// `independent`: what each leg would choose alone; cheapest first.
pub(crate) fn settle(settling: &Settling, independent: &[Vec<Choice>], best: &mut Best) {
    let problem = settling.problem;
    let most = problem.policy.alternatives as usize;
    let mut options = Vec::with_capacity(settling.legs.len());
    let mut complete = true;
    for (leg, alone) in settling.legs.iter().zip(independent) {
        if alone.first().is_none_or(|c| c.edges.is_empty()) {
            options.push(alone.clone());
            continue;
        }
        let (choices, all) = option::choices(problem, leg, Look::Wide(most));
        complete &= all;
        options.push(choices);
    }
    // what the legs from this one on cost at the least: (volume legs, held per nanosecond)
    let mut rest = vec![Carried::nothing(); options.len() + 1];
    for (i, leg) in settling.legs.iter().enumerate().rev() {
        let span = problem.streams[leg.stream].span;
        let Some(first) = options[i].first() else { return };
        let mut first = first.clone();
        first.time = options[i].iter().map(|c| c.time).min().unwrap_or(first.time);
        // the cheapest cost may be split differently between the two terms: their sum is what bounds
        let Some(sum) = rest[i + 1].with(&first, span) else { return };
        rest[i] = sum;
    }
    let mut joint = Joint { settling, options: &options, rest: &rest, load: Load::default(), chosen: Vec::new() };
    if !complete && let Some(bound) = settling.compute.bound(settling.least, &rest[0]) {
        best.leave(bound - SLACK);
    }
    joint.next(Carried::nothing(), best);
}

/// Rounding each term down once may count the sum of two terms too high by this much.
const SLACK: i128 = 2;

struct Joint<'j, 's, 'a> {
    settling: &'j Settling<'s, 'a>,
    options: &'j [Vec<Choice>],
    rest: &'j [Carried],
    load: Load,
    chosen: Vec<usize>,
}

impl Joint<'_, '_, '_> {
    fn next(&mut self, carried: Carried, best: &mut Best) {
        let index = self.chosen.len();
        let settling = self.settling;
        let Some(bound) = self.bound(&carried, index) else { return };
        if best.beats(bound) {
            return;
        }
        if index == self.options.len() {
            if let Some((terms, times)) = settling.compute.best(&carried)
                && best.total().is_none_or(|t| terms.total <= t)
            {
                let chosen: Vec<&Choice> = self.chosen.iter().zip(self.options).map(|(c, o)| &o[*c]).collect();
                best.offer(settling.solution(&chosen, terms, times));
            }
            return;
        }
        let span = settling.problem.streams[settling.legs[index].stream].span;
        let options = self.options;
        for (pick, choice) in options[index].iter().enumerate() {
            let Some(next) = carried.with(choice, span) else { continue };
            let Some(bound) = self.bound(&next, index + 1) else { continue };
            if best.beats(bound) {
                continue;
            }
            if !best.open(bound) {
                return;
            }
            if !self.load.add(settling.problem, span, choice) {
                continue;
            }
            self.chosen.push(pick);
            self.next(next, best);
            self.chosen.pop();
            self.load.remove(span, choice);
        }
    }

    /// No completion of these choices costs less.
    fn bound(&self, carried: &Carried, index: usize) -> Option<i128> {
        let rest = &self.rest[index];
        let sum = Carried {
            path: carried.path.checked_add(&rest.path)?,
            transfer: carried.transfer.checked_add(&rest.transfer)?,
            held: carried.held.checked_add(&rest.held)?,
            inbound: carried.inbound.max(rest.inbound),
            outbound: carried.outbound.max(rest.outbound),
        };
        Some(
            self.settling.compute.bound(self.settling.least, &sum)?
                - if index == self.options.len() { 0 } else { SLACK },
        )
    }
}
