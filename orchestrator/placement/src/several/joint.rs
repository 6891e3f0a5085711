//! Legs that would overfill a link, where some have a backup or divide: chosen together, by branch and bound over
//! alternatives. Legs that divide come last, and each takes what the others have left it.

use crate::{
    cost::Carried,
    joint::SLACK,
    load::Load,
    option::{self, Choice, Look},
    settle::{Best, Settling},
};
use num_traits::CheckedAdd;
use std::rc::Rc;

/// `independent`: what each leg would choose alone, cheapest first; `floors`: what it costs at the least.
pub(crate) fn settle(settling: &Settling, independent: &[Rc<[Choice]>], floors: &[Choice], best: &mut Best) {
    let problem = settling.problem;
    let most = problem.policy.alternatives as usize;
    let mut options = Vec::with_capacity(settling.legs.len());
    let mut floors = floors.to_vec();
    let mut divide = Vec::with_capacity(settling.legs.len());
    let mut complete = true;
    for (index, (leg, alone)) in settling.legs.iter().zip(independent).enumerate() {
        let local = alone.first().is_none_or(|c| c.edges.is_empty());
        divide.push(!local && super::divides(problem, leg));
        if local || divide[index] {
            options.push(alone.to_vec());
            continue;
        }
        let (choices, left_out) = option::choices(problem, leg, Look::Wide(most, None));
        complete &= left_out.is_empty();
        match choices.first() {
            Some(first) if left_out.is_empty() => {
                let time = choices.iter().map(|c| c.time).min().unwrap_or(first.time);
                floors[index] = Choice { time, ..first.clone() };
            }
            None if left_out.is_empty() => return,
            _ => {}
        }
        options.push(choices);
    }
    // one that divides is exact on what is left, but two might share it better
    complete &= divide.iter().filter(|d| **d).count() < 2;
    let mut order: Vec<usize> = (0..options.len()).collect();
    order.sort_by_key(|i| divide[*i]);
    // what the legs from this one on cost at the least: (volume legs, held per nanosecond)
    let mut rest = vec![Carried::nothing(); options.len() + 1];
    for (i, leg) in order.iter().enumerate().rev() {
        let span = problem.streams[settling.legs[*leg].stream].span;
        // the cheapest cost may be split differently between the two terms: their sum is what bounds
        let Some(sum) = rest[i + 1].with(&floors[*leg], span) else { return };
        rest[i] = sum;
    }
    if !complete && let Some(bound) = settling.compute.bound(settling.least, &rest[0]) {
        best.leave(bound - SLACK);
    }
    let load = Load::default();
    let mut joint =
        Joint { settling, options: &options, order: &order, divide: &divide, rest: &rest, load, chosen: Vec::new() };
    joint.next(Carried::nothing(), best);
}

struct Joint<'j, 's, 'a> {
    settling: &'j Settling<'s, 'a>,
    /// By leg.
    options: &'j [Vec<Choice>],
    /// Legs in the order in which they choose.
    order: &'j [usize],
    /// By leg: whether it takes what is left.
    divide: &'j [bool],
    /// By place in the order.
    rest: &'j [Carried],
    load: Load,
    /// In the order in which they were chosen.
    chosen: Vec<Choice>,
}

impl Joint<'_, '_, '_> {
    fn next(&mut self, carried: Carried, best: &mut Best) {
        let index = self.chosen.len();
        let settling = self.settling;
        let Some(bound) = self.bound(&carried, index) else { return };
        if best.beats(bound) {
            return;
        }
        let Some(leg) = self.order.get(index).copied() else {
            if let Some((terms, times)) = settling.compute.best(&carried)
                && best.total().is_none_or(|t| terms.total <= t)
            {
                let mut chosen: Vec<(usize, &Choice)> = self.order.iter().copied().zip(&self.chosen).collect();
                chosen.sort_by_key(|(leg, _)| *leg);
                let chosen: Vec<&Choice> = chosen.into_iter().map(|(_, choice)| choice).collect();
                best.offer(settling.solution(&chosen, terms, times));
            }
            return;
        };
        let span = settling.problem.streams[settling.legs[leg].stream].span;
        let options = self.options;
        let divided;
        let choices: &[Choice] = if self.divide[leg] {
            let room = |edge: u32| self.load.left(settling.problem, span, edge);
            let (found, left_out) = option::remaining(settling.problem, &settling.legs[leg], &room);
            if !left_out.is_empty() {
                best.leave(bound);
            }
            divided = found;
            &divided
        } else {
            &options[leg]
        };
        for choice in choices {
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
            self.chosen.push(choice.clone());
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
