//! Branch and bound over the components' sites, models and replicas.
//!
//! Depth first, cheapest stand first, components in document order. A branch ends where its bound is above the best
//! plan known; equal bounds are followed, so that ties are broken by rule and not by the way of the search. When the
//! budget of nodes ends, what was left unexplored gives the lower bound that is reported.

use crate::{
    bound::{self, Bounded},
    problem::{Problem, Span},
    room::{self, Want},
    settle::{self, Best, Placed, Solution},
};
use num_traits::CheckedMul;
use rhumb_model::ratio::Ratio;
use std::collections::{BTreeMap, BTreeSet};

/// How a search ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub solution: Option<Solution>,
    /// No plan totals less.
    pub lower_bound: Option<i128>,
    pub opened: u64,
    /// Nothing was left unexplored.
    pub complete: bool,
}

/// The cheapest plan; with `force`, of those that use that site.
pub(crate) fn search(problem: &Problem, force: Option<usize>) -> Outcome {
    let mut best = Best { solution: None, nodes_left: problem.policy.node_budget, opened: 0, open: None };
    for totals in Totals::new(problem) {
        let forced: Vec<Option<(usize, usize)>> = match force {
            None => vec![None],
            Some(site) => (0..problem.parts.len()).map(|part| Some((part, site))).collect(),
        };
        for force in forced {
            if let Some(mut search) = Search::new(problem, &totals, force) {
                search.part(0, &mut best);
            }
        }
        if best.solution.is_some() || best.nodes_left == 0 {
            break;
        }
    }
    let total = best.total().map(i128::from);
    let lower_bound = match (total, best.open) {
        (Some(t), Some(o)) => Some(t.min(o.max(0))),
        (t, o) => t.or(o),
    };
    Outcome { solution: best.solution, lower_bound, opened: best.opened, complete: best.open.is_none() }
}

/// Replicas of each component to try: the fewest first, then one more in all, and so on.
struct Totals {
    fewest: Vec<u32>,
    /// How many more each may have.
    spare: Vec<u32>,
    queue: Vec<Vec<u32>>,
    extra: u32,
}

/// Numbers of replicas that are tried for one order, at most.
const EXTRAS: u32 = 256;

impl Totals {
    fn new(problem: &Problem) -> Self {
        let fewest: Vec<u32> = problem.parts.iter().map(|p| p.fewest).collect();
        let possible = problem.parts.iter().all(|p| p.fewest <= p.most);
        // more replicas only help where they divide what a flow asks of links
        let divides = |part: usize| {
            let this = crate::problem::Place::Part(part);
            problem.streams.iter().any(|s| (s.from == this) != (s.to == this))
        };
        let spare = problem
            .parts
            .iter()
            .enumerate()
            .map(|(i, p)| if divides(i) { p.most.saturating_sub(p.fewest) } else { 0 })
            .collect();
        let queue = if possible { vec![fewest.clone()] } else { Vec::new() };
        Self { fewest, spare, queue, extra: 0 }
    }

    /// All ways to give `extra` more replicas to components from `index` on.
    fn spread(&self, index: usize, extra: u32, now: &mut Vec<u32>, found: &mut Vec<Vec<u32>>) {
        if found.len() >= EXTRAS as usize {
            return;
        }
        if index == self.fewest.len() {
            if extra == 0 {
                found.push(now.clone());
            }
            return;
        }
        for more in 0..=extra.min(self.spare[index]) {
            now.push(self.fewest[index] + more);
            self.spread(index + 1, extra - more, now, found);
            now.pop();
        }
    }
}

impl Iterator for Totals {
    type Item = Vec<u32>;

    fn next(&mut self) -> Option<Vec<u32>> {
        if self.queue.is_empty() {
            return None;
        }
        let next = self.queue.remove(0);
        if self.queue.is_empty() && self.extra < EXTRAS {
            self.extra += 1;
            let mut found = Vec::new();
            self.spread(0, self.extra, &mut Vec::new(), &mut found);
            self.queue = found;
        }
        Some(next)
    }
}

struct Search<'s, 'a> {
    problem: &'s Problem<'a>,
    totals: &'s [u32],
    force: Option<(usize, usize)>,
    stands: Vec<Vec<Bounded>>,
    /// By part: least bound of the stands from an index on.
    low: Vec<Vec<i128>>,
    low_bill: Vec<Vec<i128>>,
    /// By part: least of it and all later parts, (with time, bill).
    later: Vec<(i128, i128)>,
    /// No part takes less, in nanoseconds.
    shortest: Ratio,
    /// By part: (index into `stands`, replicas).
    chosen: Vec<Vec<(usize, u32)>>,
    packed: BTreeMap<(usize, Vec<(usize, usize, u32)>), bool>,
}

impl<'s, 'a> Search<'s, 'a> {
    fn new(problem: &'s Problem<'a>, totals: &'s [u32], force: Option<(usize, usize)>) -> Option<Self> {
        let mut stands: Vec<Vec<Bounded>> = Vec::new();
        for (part, n) in totals.iter().enumerate() {
            let mut list = bound::bounded(problem, part, *n);
            if let Some((_, site)) = force.filter(|(p, _)| *p == part) {
                list.sort_by_key(|b| b.site != site);
                if list.first().is_none_or(|b| b.site != site) {
                    return None;
                }
            }
            let room: u64 = list.iter().map(|b| u64::from(b.room)).sum();
            if room < u64::from(*n) {
                return None;
            }
            stands.push(list);
        }
        let suffix = |of: fn(&Bounded) -> i128| -> Vec<Vec<i128>> {
            let least = |list: &Vec<Bounded>| {
                let mut low: Vec<i128> = list.iter().map(of).collect();
                (1..low.len()).rev().for_each(|i| low[i - 1] = low[i - 1].min(low[i]));
                low
            };
            stands.iter().map(least).collect()
        };
        let (low, low_bill) = (suffix(|b| b.each), suffix(|b| b.bill));
        let mut search = Self {
            problem,
            totals,
            force,
            stands,
            low,
            low_bill,
            later: vec![(0, 0); totals.len() + 1],
            shortest: Ratio::from_integer(0),
            chosen: vec![Vec::new(); totals.len()],
            packed: BTreeMap::new(),
        };
        for part in (0..totals.len()).rev() {
            let (each, bill) = search.fill(part, 0, totals[part])?;
            let (e, b) = search.later[part + 1];
            search.later[part] = (e + each, b + bill);
            let quick = search.stands[part].iter().map(|b| b.hours).min()?;
            search.shortest = search.shortest.max(quick);
        }
        Some(search)
    }

    /// Least cost of `left` replicas on the stands from `index` on; `None`: no room.
    fn fill(&self, part: usize, index: usize, left: u32) -> Option<(i128, i128)> {
        if left == 0 {
            return Some((0, 0));
        }
        let list = &self.stands[part];
        let sorted = self.force.is_none_or(|(p, _)| p != part);
        let lone = list.get(index)?;
        if !sorted || lone.room >= left {
            let room: u64 =
                if sorted { u64::from(lone.room) } else { list[index..].iter().map(|b| u64::from(b.room)).sum() };
            return (room >= u64::from(left)).then_some((
                self.low[part][index].saturating_mul(i128::from(left)),
                self.low_bill[part][index].saturating_mul(i128::from(left)),
            ));
        }
        let (mut sum, mut rest) = (0_i128, left);
        for b in &list[index..] {
            let n = b.room.min(rest);
            sum = sum.saturating_add(b.each.saturating_mul(i128::from(n)));
            rest -= n;
            if rest == 0 {
                return Some((sum, self.low_bill[part][index].saturating_mul(i128::from(left))));
            }
        }
        None
    }

    /// Places the components from `part` on.
    fn part(&mut self, part: usize, best: &mut Best) {
        if part == self.totals.len() {
            self.leaf(best);
        } else {
            self.stand(part, 0, self.totals[part], best);
        }
    }

    /// Places `left` replicas of a component on its stands from `index` on.
    fn stand(&mut self, part: usize, index: usize, left: u32, best: &mut Best) {
        if left == 0 {
            if self.whole(part) {
                self.part(part + 1, best);
            }
            return;
        }
        for at in index..self.stands[part].len() {
            let Some(bound) = self.bound(part, at, left) else { return };
            if best.beats(bound) {
                return;
            }
            let (site, room) = (self.stands[part][at].site, self.stands[part][at].room);
            if let Some((p, forced)) = self.force
                && p == part
                && site != forced
                && !self.uses(part, forced)
            {
                return;
            }
            if !self.admits(part, site) {
                continue;
            }
            let most = if self.problem.parts[part].spread_site { 1 } else { room.min(left) };
            let fewest = if self.problem.parts[part].one_site && self.single(part, site) { left } else { 1 };
            for n in (fewest..=most).rev() {
                self.chosen[part].push((at, n));
                if self.fits(site)
                    && let Some(bound) = self.bound(part, at + 1, left - n)
                    && !best.beats(bound)
                    && !self.late()
                    && best.open(bound)
                {
                    self.stand(part, at + 1, left - n, best);
                }
                self.chosen[part].pop();
            }
        }
    }

    fn uses(&self, part: usize, site: usize) -> bool {
        self.chosen[part].iter().any(|(s, _)| self.stands[part][*s].site == site)
    }

    /// Whether the site has only one stand of the part, so that all its replicas stand there or none.
    fn single(&self, part: usize, site: usize) -> bool {
        self.stands[part].iter().filter(|b| b.site == site).count() == 1
    }

    fn used_sites(&self) -> BTreeSet<usize> {
        self.chosen
            .iter()
            .zip(&self.stands)
            .flat_map(|(list, stands)| list.iter().map(|(s, _)| stands[*s].site))
            .collect()
    }

    fn sites(&self, part: usize) -> BTreeSet<usize> {
        self.chosen[part].iter().map(|(s, _)| self.stands[part][*s].site).collect()
    }

    /// Whether the component may use the site beside those it and others use.
    fn admits(&self, part: usize, site: usize) -> bool {
        let this = &self.problem.parts[part];
        let here = self.uses(part, site);
        if (this.one_site && !self.chosen[part].is_empty() && !here) || (this.spread_site && here) {
            return false;
        }
        let colocated = |other: usize| {
            let that = &self.problem.parts[other];
            this.component.place.colocate.contains(&that.component.name)
                || that.component.place.colocate.contains(&this.component.name)
        };
        if (0..part).any(|other| colocated(other) && !self.uses(other, site)) {
            return false;
        }
        match self.problem.request.order.constraints.max_sites {
            Some(most) => {
                let mut used = self.used_sites();
                used.insert(site);
                used.len() <= most as usize
            }
            None => true,
        }
    }

    /// Whether a component whose replicas are all placed keeps to its colocation and to the forced site.
    fn whole(&self, part: usize) -> bool {
        if let Some((p, site)) = self.force
            && p == part
            && !self.uses(part, site)
        {
            return false;
        }
        let this = &self.problem.parts[part];
        (0..part).all(|other| {
            let that = &self.problem.parts[other];
            let tied = this.component.place.colocate.contains(&that.component.name)
                || that.component.place.colocate.contains(&this.component.name);
            !tied || self.sites(part) == self.sites(other)
        })
    }

    /// Whether everything that now stands at the site fits its nodes together.
    fn fits(&mut self, site: usize) -> bool {
        let mut here: Vec<(usize, usize, u32)> = Vec::new();
        for (part, list) in self.chosen.iter().enumerate() {
            for (at, n) in list {
                let b = &self.stands[part][*at];
                if b.site == site {
                    here.push((part, b.stand, *n));
                }
            }
        }
        // one alone is within its room
        if here.len() < 2 {
            return true;
        }
        let key = (site, here);
        if let Some(known) = self.packed.get(&key) {
            return *known;
        }
        let fits = room::pack(self.problem.nodes(site), &wants(self.problem, &key.1)).is_some();
        self.packed.insert(key, fits);
        fits
    }

    /// Hours and staging alone pass a hard deadline.
    fn late(&self) -> bool {
        let p = self.problem;
        let (Some(deadline), None) = (p.deadline, p.late) else { return false };
        self.longest() + Ratio::from_integer(self.inbound()) > deadline
    }

    fn longest(&self) -> Ratio {
        let hours =
            self.chosen.iter().zip(&self.stands).flat_map(|(list, stands)| list.iter().map(|(s, _)| stands[*s].hours));
        hours.max().map_or(self.shortest, |h| h.max(self.shortest))
    }

    fn inbound(&self) -> i128 {
        let times = self
            .chosen
            .iter()
            .zip(&self.stands)
            .flat_map(|(list, stands)| list.iter().map(|(s, _)| stands[*s].inbound));
        times.max().unwrap_or(0)
    }

    /// No plan with these choices, and `left` replicas of `part` on its stands from `index` on, totals less.
    /// `None`: there is none.
    fn bound(&self, part: usize, index: usize, left: u32) -> Option<i128> {
        let (fill, fill_bill) = self.fill(part, index, left)?;
        let (later, later_bill) = self.later[part + 1];
        let (mut sum, mut bill) = (fill + later, fill_bill + later_bill);
        for (p, list) in self.chosen.iter().enumerate() {
            let mut sites = BTreeSet::new();
            for (at, n) in list {
                let b = &self.stands[p][*at];
                let once = if sites.insert(b.site) { b.once } else { 0 };
                sum = sum.checked_add(b.each.checked_mul(i128::from(*n))?)?.checked_add(once)?;
                bill = bill.checked_add(b.bill.checked_mul(i128::from(*n))?)?.checked_add(once)?;
            }
        }
        let pairs = self.pairs(left == 0, part)?;
        if let Some(budget) = &self.problem.budget
            && Ratio::from_integer(bill.checked_add(pairs)?) > *budget
        {
            return None;
        }
        let held = self.longest() + Ratio::from_integer(self.inbound());
        let time = self.problem.value.checked_mul(&held)?.floor().to_integer();
        sum.checked_add(pairs)?.checked_add(time)
    }

    /// Least cost of the legs between components that are wholly placed; `None` where there is no path.
    fn pairs(&self, done: bool, part: usize) -> Option<i128> {
        use crate::problem::Place;
        let last = if done { part + 1 } else { part };
        let mut sum = 0_i128;
        for stream in self.problem.streams.iter().filter(|s| s.joins_parts()) {
            let (Place::Part(a), Place::Part(b)) = (&stream.from, &stream.to) else { continue };
            if *a >= last || *b >= last || stream.span != Span::Run {
                continue;
            }
            let divide = if a == b { 1 } else { i128::from(self.totals[*a]) * i128::from(self.totals[*b]) };
            let counted = |p: usize| {
                let mut sites = BTreeMap::new();
                self.chosen[p].iter().for_each(|(s, n)| *sites.entry(self.stands[p][*s].site).or_insert(0_u32) += n);
                sites
            };
            let (from, to) = (counted(*a), counted(*b));
            for (i, n) in &from {
                for (j, m) in to.iter().filter(|(j, _)| a != b || *j != i) {
                    let times = if a == b { 1 } else { i128::from(*n) * i128::from(*m) };
                    let cost = bound::between(self.problem, stream, *i, *j, self.shortest, divide)?;
                    sum = sum.checked_add(cost.checked_mul(times)?)?;
                }
            }
        }
        Some(sum)
    }

    fn leaf(&mut self, best: &mut Best) {
        let placed: Placed = self
            .chosen
            .iter()
            .zip(&self.stands)
            .map(|(list, stands)| {
                let mut list: Vec<(usize, u32)> = list.iter().map(|(s, n)| (stands[*s].stand, *n)).collect();
                list.sort_unstable();
                list
            })
            .collect();
        settle::settle(self.problem, &placed, best);
    }
}

/// What stands at one site, from (part, stand, replicas).
pub(crate) fn wants<'p>(problem: &'p Problem, here: &[(usize, usize, u32)]) -> Vec<Want<'p>> {
    let mut wants: BTreeMap<usize, Want<'p>> = BTreeMap::new();
    for (part, stand, n) in here {
        let part_of = &problem.parts[*part];
        wants
            .entry(*part)
            .or_insert_with(|| Want { component: part_of.component, replicas: Vec::new() })
            .replicas
            .push((part_of.stands[*stand].model, *n));
    }
    wants.into_values().collect()
}
