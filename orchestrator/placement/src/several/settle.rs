//! Placements of which some leg has a backup or may divide: every leg's choices with what was left out of them.

use super::joint;
use crate::{
    cost::Compute,
    joint::SLACK,
    legs::{self, Leg, Sites},
    option::{self, Choice, Cut, Look},
    problem::{Problem, Span},
    settle::{Best, Placed, SERVINGS, Settling},
};
use num_traits::CheckedAdd;
use rhumb_model::ratio::Ratio;
use std::rc::Rc;

/// Whether some leg may take more than one path.
pub(crate) fn concerns(problem: &Problem) -> bool {
    problem.streams.iter().any(|s| s.protected || s.split)
}

/// Finds the cheapest legs for a placement and offers the plan.
pub(crate) fn settle(problem: &Problem, placed: &Placed, sites: &Sites, compute: &Compute, best: &mut Best) {
    let Some(least) = compute.least() else { return };
    let (ways, more) = legs::servings(problem, sites, SERVINGS, true);
    let several = ways.len() > 1 || more;
    let mut bound: Option<i128> = None;
    for served in &ways {
        let legs = legs::legs(problem, sites, served);
        let settling = Settling { problem, placed, compute, least, legs: &legs, served };
        if let Some((at_best, _)) = settling.at_best().filter(|_| several) {
            bound = Some(bound.map_or(at_best, |b| b.min(at_best)));
        }
        settling.run_several(best);
    }
    // a share of the demand that was not tried may be cheaper, but not cheaper than every leg alone
    if let Some(bound) = bound.filter(|b| !best.beats(*b)) {
        best.leave(bound);
    }
}

impl Settling<'_, '_> {
    fn run_several(&self, best: &mut Best) {
        let streams = &self.problem.streams;
        let span = |leg: &Leg| streams[leg.stream].span;
        let held = self.legs.iter().any(|l| span(l) == Span::Run && l.kbps.is_some());
        let matter = |wanted: Span| self.compute.matter(wanted, held);
        let mut options: Vec<Rc<[Choice]>> = Vec::with_capacity(self.legs.len());
        let mut floors: Vec<Choice> = Vec::with_capacity(self.legs.len());
        let mut left_out: Vec<Vec<Choice>> = Vec::with_capacity(self.legs.len());
        for leg in self.legs {
            let (choices, rest) = option::choices(self.problem, leg, Look::Best(matter(span(leg)), Cut::default()));
            // none: there is no way to carry it, and that is known
            let Some(least) = choices.iter().chain(&rest).min_by(|a, b| a.cost.cmp(&b.cost)) else { return };
            floors.push(option::timeless(least.clone()));
            left_out.push(rest);
            options.push(choices.into());
        }
        let open = left_out.iter().any(|l| !l.is_empty());
        if open {
            best.leave(self.left_out(&floors, &left_out).map_or(self.least, |b| b - SLACK));
        }
        if options.iter().any(|o| o.is_empty()) {
            return;
        }
        let running = self.legs.iter().zip(&options).filter(|(leg, _)| span(leg) == Span::Run);
        let rate = running.fold(Ratio::from_integer(0), |sum, (_, o)| sum.checked_add(&o[0].path).unwrap_or(sum));
        // a limit at which the legs overfill a link may hold a cheaper plan than those at which they do not
        if self.select(&options, &rate, best).shared {
            joint::settle(self, &options, &floors, best);
        }
    }

    /// No plan with a choice that was left out costs less: of each such leg by itself, its rates one by one, with all other
    /// legs at their least.
    fn left_out(&self, floors: &[Choice], left_out: &[Vec<Choice>]) -> Option<i128> {
        let with = |leg: usize, other: &Choice| {
            let mut chosen: Vec<&Choice> = floors.iter().collect();
            chosen[leg] = other;
            self.compute.bound(self.least, &self.carried(&chosen)?)
        };
        let of_leg = |leg: usize| left_out[leg].iter().filter_map(|other| with(leg, other)).min();
        (0..floors.len()).filter_map(of_leg).min()
    }
}
