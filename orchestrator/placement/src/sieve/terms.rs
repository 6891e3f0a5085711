//! Sites at which an order cannot keep its budget or its deadline, whatever the rest of the plan.

use super::{Kept, Sieve, Test};
use crate::{
    index::PRICE_FINE,
    network::Direction,
    part::Part,
    problem::{HOUR, Place, Problem, Span},
    reach::FAR,
};
use rhumb_model::ratio::Ratio;

impl Sieve<'_, '_> {
    /// Drops sites that are too dear or too late.
    pub(super) fn terms(&self, kept: &mut Kept) {
        let problem = self.problem;
        if let Some(budget) = problem.budget {
            let bills = bills(problem);
            for (sites, bills) in kept.iter_mut().zip(bills) {
                let affordable = |bill: Option<i128>| bill.is_some_and(|b| Ratio::from_integer(b) <= budget);
                sites.iter_mut().zip(bills).for_each(|(keep, bill)| *keep &= affordable(bill));
            }
        }
        if let Some(open) = longest_opening(problem) {
            for (sites, part) in kept.iter_mut().zip(&problem.parts) {
                let mut short = vec![false; sites.len()];
                part.open().for_each(|(stand, _)| short[stand.site] |= part.hours_of(stand) <= open);
                sites.iter_mut().zip(short).for_each(|(keep, short)| *keep &= short);
            }
        }
        if let (Some(deadline), None) = (problem.deadline, problem.late) {
            for (part, sites) in kept.iter_mut().enumerate() {
                let timely = |finish: Option<Ratio>| finish.is_some_and(|f| f <= deadline);
                sites.iter_mut().zip(self.finish(part)).for_each(|(keep, finish)| *keep &= timely(finish));
            }
        }
    }

    /// By site: nothing with the part there finishes earlier, in nanoseconds after submission. `None`: it cannot stand there.
    pub fn finish(&self, part: usize) -> Vec<Option<Ratio>> {
        let problem = self.problem;
        let of = &problem.parts[part];
        let mut finish: Vec<Option<Ratio>> = vec![None; problem.view.sites.len()];
        let fastest = |part: &Part| part.open().map(|(s, _)| part.hours_of(s)).min();
        let Some(others) = problem.parts.iter().filter_map(fastest).max() else { return finish };
        for (stand, _) in of.open() {
            let hours = of.hours_of(stand).max(others);
            let known = &mut finish[stand.site];
            *known = Some(known.map_or(hours, |k| k.min(hours)));
        }
        let mut staged = vec![0_i128; finish.len()];
        for Test { stream, table } in self.fixed_tests(part) {
            let s = &problem.streams[stream];
            let (Place::Points(roots), Span::Inbound) = (&s.from, s.span) else { continue };
            let wide = self.reach.widest(s, self.rules, roots, Direction::Against);
            // of several replicas the smallest part, and rates round up to a kbit/s
            let divide = if s.copy { 1 } else { i128::from(of.most.max(1)) };
            for (site, staged) in staged.iter_mut().enumerate() {
                let point = problem.site_point(site) as usize;
                let us = table[point];
                if us == FAR || us == 0 {
                    continue;
                }
                let rung =
                    || problem.rungs.iter().copied().find(|r| !self.rules.bandwidth || s.split || *r <= wide[point]);
                let rate = match s.kbps {
                    Some(kbps) => i128::from(kbps) + divide,
                    None => i128::from(rung().unwrap_or(1)).saturating_mul(divide),
                };
                *staged = (*staged).max(i128::from(s.volume) * 8_000_000 / rate.max(1) + i128::from(us) * 1000);
            }
        }
        finish.iter_mut().zip(staged).for_each(|(f, staged)| *f = f.map(|f| f + Ratio::from_integer(staged)));
        finish
    }
}

/// Nanoseconds for which the order's window is open at the most, if it has one.
pub(crate) fn longest_opening(problem: &Problem) -> Option<Ratio> {
    problem.window.as_ref()?;
    let window = problem.request.order.terms.window.as_ref()?;
    let (from, to) = (i128::from(window.from.minutes()), i128::from(window.to.minutes()));
    // a clock change can make an opening an hour longer
    let open = ((to - from - 1).rem_euclid(24 * 60) + 1) * HOUR / 60 + HOUR;
    Some(Ratio::from_integer(open))
}

/// By part, by site: no plan with the part there has a lower bill, in micro-units: compute alone, each replica rounded down.
pub(crate) fn bills(problem: &Problem) -> Vec<Vec<Option<i128>>> {
    let mut bills = replicas(problem);
    let cheapest: Vec<i128> = bills.iter().map(|b| b.iter().flatten().min().copied().unwrap_or(0)).collect();
    let times = |n: u32, each: i128| each.saturating_mul(i128::from(n));
    let all = problem.parts.iter().zip(&cheapest).fold(0_i128, |sum, (p, c)| sum.saturating_add(times(p.fewest, *c)));
    for (list, cheapest) in bills.iter_mut().zip(&cheapest) {
        list.iter_mut().flatten().for_each(|own| *own = all.saturating_add(*own - cheapest));
    }
    bills
}

/// By part, by site: what a replica's compute costs at the least, in micro-units rounded down.
pub(crate) fn replicas(problem: &Problem) -> Vec<Vec<Option<i128>>> {
    let of = |part: &Part| {
        let mut by_site: Vec<Option<i128>> = vec![None; problem.view.sites.len()];
        // nanoseconds at factor 1 that a run is paid for, by kind and tariff
        let tariffs = problem.net.index.tariffs();
        let mut paid: Vec<Option<Option<i128>>> = vec![None; part.kinds().len() * tariffs];
        for (stand, _) in part.open() {
            let tariff = problem.net.index.sites[stand.site].tariff as usize;
            let paid = paid[usize::from(stand.kind) * tariffs + tariff].get_or_insert_with(|| {
                problem.least(stand.site, &part.hours_of(stand)).map(|hours| hours.floor().to_integer())
            });
            let cost = paid.and_then(|paid| Some(paid.checked_mul(stand.least.into())? / (HOUR * PRICE_FINE)));
            // out of range counts as nothing: a bound may be too low
            let cost = cost.unwrap_or(0);
            let known = &mut by_site[stand.site];
            *known = Some(known.map_or(cost, |k| k.min(cost)));
        }
        by_site
    };
    problem.parts.iter().map(of).collect()
}
