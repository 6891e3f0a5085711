//! Legs that would overfill a link: their paths and rungs are chosen together, by branch and bound over alternatives.

use crate::{
    cost::Carried,
    load::Load,
    option::{self, Choice, Look},
    problem::Span,
    settle::{Best, Settling},
};
use num_traits::{CheckedAdd, CheckedSub};
use rhumb_model::ratio::Ratio;
use std::rc::Rc;

/// `independent`: what each leg would choose alone; cheapest first.
pub(crate) fn settle(settling: &Settling, independent: &[Rc<[Choice]>], best: &mut Best) {
    let most = settling.problem.policy.alternatives as usize;
    let Some(Offer { options, rest, left_out }) = offer(settling, independent, (most.min(FEW), None)) else { return };
    Joint::new(settling, &options, &rest).next(Carried::nothing(), best);
    if left_out.is_empty() {
        return;
    }
    // with a plan in hand no leg needs to look at paths that cost more than what the plan is above the bound
    let bound = settling.compute.bound(settling.least, &rest[0]);
    let extra =
        best.total().zip(bound).map(|(t, b)| ((i128::from(t) - b).max(0) + 2 * SLACK, settling.compute.longest));
    let Some(Offer { options, rest, left_out }) = offer(settling, independent, (most, extra)) else { return };
    for (leg, cost) in left_out {
        let mut least = rest[0];
        let Some(more) = cost.checked_sub(&options[leg][0].cost) else { continue };
        let of = if settling.problem.streams[settling.legs[leg].stream].span == Span::Run {
            &mut least.held
        } else {
            &mut least.path
        };
        if more > Ratio::from_integer(0) {
            *of = of.checked_add(&more).unwrap_or(*of);
        }
        if let Some(bound) = settling.compute.bound(settling.least, &least).filter(|b| !best.beats(b - SLACK)) {
            best.leave(bound - SLACK);
        }
    }
    Joint::new(settling, &options, &rest).next(Carried::nothing(), best);
}

/// Paths of a leg and rate that are tried first.
const FEW: usize = 4;

struct Offer {
    options: Vec<Vec<Choice>>,
    /// What the legs from each one on cost at the least: (volume legs, held per nanosecond).
    rest: Vec<Carried>,
    /// Legs of which something was left out, and what that costs at the least.
    left_out: Vec<(usize, Ratio)>,
}

fn offer(
    settling: &Settling,
    independent: &[Rc<[Choice]>],
    (most, extra): (usize, Option<(i128, Ratio)>),
) -> Option<Offer> {
    let problem = settling.problem;
    let mut options = Vec::with_capacity(settling.legs.len());
    let mut left_out = Vec::new();
    for (index, (leg, alone)) in settling.legs.iter().zip(independent).enumerate() {
        if alone.first().is_none_or(|c| c.edges.is_empty()) {
            options.push(alone.to_vec());
            continue;
        }
        let (choices, rest) = option::choices(problem, leg, Look::Wide(most, extra));
        left_out.extend(rest.into_iter().map(|least| (index, least.cost)));
        options.push(choices);
    }
    let mut rest = vec![Carried::nothing(); options.len() + 1];
    for (i, leg) in settling.legs.iter().enumerate().rev() {
        let span = problem.streams[leg.stream].span;
        let mut first = options[i].first()?.clone();
        first.time = options[i].iter().map(|c| c.time).min().unwrap_or(first.time);
        // the cheapest cost may be split differently between the two terms: their sum is what bounds
        rest[i] = rest[i + 1].with(&first, span)?;
    }
    Some(Offer { options, rest, left_out })
}

/// Rounding each term down once may count the sum of two terms too high by this much.
pub(crate) const SLACK: i128 = 2;

struct Joint<'j, 's, 'a> {
    settling: &'j Settling<'s, 'a>,
    options: &'j [Vec<Choice>],
    rest: &'j [Carried],
    /// Like `rest`, with the least path and the least transfer of each leg, which may be of two different choices.
    apart: Vec<Carried>,
    /// Links that the legs from each one on take at the least.
    links_left: Vec<usize>,
    load: Load,
    chosen: Vec<usize>,
}

impl<'j, 's, 'a> Joint<'j, 's, 'a> {
    fn new(settling: &'j Settling<'s, 'a>, options: &'j [Vec<Choice>], rest: &'j [Carried]) -> Self {
        let links = |i: usize| options[i].iter().map(|c| c.edges.len()).min().unwrap_or(0);
        let mut links_left = vec![0; options.len() + 1];
        (0..options.len()).rev().for_each(|i| links_left[i] = links_left[i + 1] + links(i));
        let mut apart = vec![Carried::nothing(); options.len() + 1];
        for i in (0..options.len()).rev() {
            let span = settling.problem.streams[settling.legs[i].stream].span;
            let mut least = options[i][0].clone();
            least.path = options[i].iter().map(|c| c.path).min().unwrap_or(least.path);
            least.transfer = options[i].iter().map(|c| c.transfer).min().unwrap_or(least.transfer);
            least.time = options[i].iter().map(|c| c.time).min().unwrap_or(least.time);
            // out of range counts for nothing
            apart[i] = apart[i + 1].with(&least, span).unwrap_or(Carried::nothing());
        }
        Self { settling, options, rest, apart, links_left, load: Load::default(), chosen: Vec::new() }
    }

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
        if index > 0 && !self.may_go_on(&carried, best) {
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
            self.chosen.push(pick);
            let worse = self.ties_worse(&next, best);
            self.chosen.pop();
            if worse {
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

    /// Whether the legs that are left, each by itself, can take what the links still have without costing more than the best
    /// plan.
    fn may_go_on(&self, carried: &Carried, best: &Best) -> bool {
        let index = self.chosen.len();
        let (settling, options) = (self.settling, self.options);
        let mut sum = *carried;
        for (leg, options) in options.iter().enumerate().skip(index) {
            let span = settling.problem.streams[settling.legs[leg].stream].span;
            let mut fitting = options.iter().filter(|choice| self.load.fits(settling.problem, span, choice));
            let Some(first) = fitting.next() else { return false };
            if best.solution.is_none() {
                continue;
            }
            let time = fitting.map(|choice| choice.time).fold(first.time, Ratio::min);
            // the cheapest cost may be split differently between the two terms: their sum is what bounds
            let Some(next) = sum.with(&Choice { time, ..first.clone() }, span) else { return true };
            sum = next;
        }
        // without a plan nothing costs too much
        best.solution.is_none()
            || settling.compute.bound(settling.least, &sum).is_none_or(|bound| !best.beats(bound - SLACK))
    }

    /// Whether these choices can at best cost what the best plan does, and lose to it on a tie.
    fn ties_worse(&self, carried: &Carried, best: &Best) -> bool {
        let Some(known) = &best.solution else { return false };
        let index = self.chosen.len();
        let sum = add(carried, &self.apart[index]);
        let least = sum.and_then(|sum| self.settling.compute.rounded_bound(&sum));
        if least.is_none_or(|least| least < known.terms.total) {
            return false;
        }
        let chosen = || self.chosen.iter().zip(self.options).map(|(c, o)| &o[*c]);
        let links = chosen().map(|c| c.edges.len()).sum::<usize>() + self.links_left[index];
        let score = &known.score;
        match (self.settling.compute.sites(), links).cmp(&(score.sites, score.links)) {
            std::cmp::Ordering::Greater => true,
            // of one placement: by paths, then by the earlier start
            std::cmp::Ordering::Equal if *self.settling.placed == known.placed => {
                let ours: Vec<&[u32]> = chosen().map(|c| &*c.edges).collect();
                let theirs: Vec<&[u32]> = known.legs.iter().take(index).map(|(_, c)| &*c.edges).collect();
                match ours.cmp(&theirs) {
                    std::cmp::Ordering::Less => false,
                    std::cmp::Ordering::Greater => true,
                    std::cmp::Ordering::Equal => {
                        !self.settling.compute.may_wait() && carried.inbound > known.times.start
                    }
                }
            }
            std::cmp::Ordering::Less | std::cmp::Ordering::Equal => false,
        }
    }

    /// No completion of these choices costs less.
    fn bound(&self, carried: &Carried, index: usize) -> Option<i128> {
        let sum = add(carried, &self.rest[index])?;
        Some(
            self.settling.compute.bound(self.settling.least, &sum)?
                - if index == self.options.len() { 0 } else { SLACK },
        )
    }
}

fn add(carried: &Carried, rest: &Carried) -> Option<Carried> {
    Some(Carried {
        path: carried.path.checked_add(&rest.path)?,
        transfer: carried.transfer.checked_add(&rest.transfer)?,
        held: carried.held.checked_add(&rest.held)?,
        inbound: carried.inbound.max(rest.inbound),
        outbound: carried.outbound.max(rest.outbound),
    })
}
