//! Branch and bound over the components' sites, models and replicas.
//!
//! Depth first, cheapest stand first, components in document order. A branch ends where its bound is above the best
//! plan known; equal bounds are followed, so that ties are broken by rule and not by the way of the search. When the
//! budget of nodes ends, what was left unexplored gives the lower bound that is reported.

use crate::{
    bound::{self, Bounded},
    field::{Field, GRAINS},
    narrow,
    problem::{Place, Problem, Span},
    room::{self, wants},
    settle::{self, Best, Placed, Solution},
    totals::Totals,
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
    /// It ended without a plan where its patience did, not where its budget did.
    pub impatient: bool,
}

/// Which plans a search is after.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Aim<'t> {
    /// Only plans that use this site.
    pub force: Option<usize>,
    /// Only plans with so many replicas of each component; without it a forced site is tried with the fewest.
    pub totals: Option<&'t [u32]>,
    /// Any plan will do: whether there is one is the question.
    pub any: bool,
    /// Fewer nodes than the policy allows.
    pub nodes: Option<u64>,
    /// Nodes within which there must be a first plan; without it the whole budget.
    pub patience: Option<u64>,
}

/// The cheapest plan.
pub(crate) fn search(problem: &Problem, aim: Aim) -> Outcome {
    let nodes = problem.policy.node_budget;
    let nodes_left = aim.nodes.map_or(nodes, |n| n.min(nodes));
    let patience = aim.patience.map_or(0, |p| nodes_left.saturating_sub(p));
    let mut best = Best { solution: None, nodes_left, patience, opened: 0, open: None, any: aim.any };
    let totals: Box<dyn Iterator<Item = Vec<u32>>> = match (aim.totals, aim.force) {
        (Some(totals), _) => Box::new(std::iter::once(totals.to_vec())),
        (None, Some(_)) => Box::new(Totals::new(problem).take(1)),
        (None, None) => Box::new(Totals::new(problem)),
    };
    for totals in totals {
        if narrow::hopeless(problem) {
            break;
        }
        let forced: Vec<Option<(usize, usize)>> = match aim.force {
            None => vec![None],
            Some(site) => (0..problem.parts.len()).map(|part| Some((part, site))).collect(),
        };
        if let Some(field) = problem.field(&totals) {
            for force in forced {
                narrow::search(problem, &field, &totals, force, &mut best);
            }
        }
        if best.nodes_left == 0 && best.solution.is_none() {
            // other numbers of replicas were not tried
            best.leave(0);
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
    let complete = best.open.is_none();
    let impatient = !complete && best.solution.is_none() && patience > 0;
    Outcome { solution: best.solution, lower_bound, opened: best.opened, complete, impatient }
}

/// What the components placed so far cost at the least.
#[derive(Debug, Clone, Copy)]
struct Sum {
    /// Micro-units without what hangs on stands: of whole components, with the legs between them.
    each: i128,
    bill: i128,
    /// Nanoseconds.
    hours: Ratio,
    inbound: i128,
}

pub(crate) struct Search<'s, 'a> {
    problem: &'s Problem<'a>,
    totals: &'s [u32],
    force: Option<(usize, usize)>,
    stands: Vec<Vec<Bounded>>,
    parent: Vec<Option<usize>>,
    /// By part: least `order` and least bill of the stands from an index on.
    low: Vec<Vec<i128>>,
    low_bill: Vec<Vec<i128>>,
    /// By part: least of it and all later parts that hang on none before them.
    later: Vec<i128>,
    later_bill: Vec<i128>,
    constant: i128,
    /// The value of staging time is counted with the stands.
    staged: bool,
    /// By part: (index into `stands`, replicas).
    chosen: Vec<Vec<(usize, u32)>>,
    /// By part that is being placed: the sum of those before it.
    sums: Vec<Sum>,
    /// By part that is being placed: what parts from it on cost where they hang on those before it.
    hanging: Vec<i128>,
    packed: BTreeMap<Tenants, bool>,
}

/// A site and what stands there: (part, stand, replicas).
type Tenants = (usize, Vec<(usize, usize, u32)>);

impl<'s, 'a> Search<'s, 'a> {
    /// `stands`: by component, cheapest first; those at a forced site before all others.
    pub fn new(
        problem: &'s Problem<'a>,
        field: &Field,
        totals: &'s [u32],
        force: Option<(usize, usize)>,
        stands: Vec<Vec<Bounded>>,
    ) -> Option<Self> {
        for (part, n) in totals.iter().enumerate() {
            let list = &stands[part];
            if force.is_some_and(|(p, site)| p == part && list.first().is_none_or(|b| b.site != site)) {
                return None;
            }
            let room: u64 = list.iter().map(|b| u64::from(b.room)).sum();
            if room < u64::from(*n) {
                return None;
            }
        }
        let (parent, shortest, staged) = (field.parent.clone(), field.longest, field.staged);
        let constant = field.constant.iter().map(|c| i128::from(c / GRAINS)).sum();
        let suffix = |of: fn(&Bounded) -> i128| -> Vec<Vec<i128>> {
            let least = |list: &Vec<Bounded>| {
                let mut low: Vec<i128> = list.iter().map(of).collect();
                (1..low.len()).rev().for_each(|i| low[i - 1] = low[i - 1].min(low[i]));
                low
            };
            stands.iter().map(least).collect()
        };
        let (low, low_bill) = (suffix(|b| b.order), suffix(|b| b.bill));
        let parts = totals.len();
        let mut search = Self {
            problem,
            totals,
            force,
            stands,
            parent,
            low,
            low_bill,
            later: vec![0; parts + 1],
            later_bill: vec![0; parts + 1],
            constant,
            staged,
            chosen: vec![Vec::new(); parts],
            sums: vec![Sum { each: 0, bill: 0, hours: shortest, inbound: 0 }],
            hanging: vec![0],
            packed: BTreeMap::new(),
        };
        for part in (0..parts).rev() {
            let least = search.fill(part, 0, totals[part])?;
            let alone = if search.parent[part].is_none() { least } else { 0 };
            search.later[part] = search.later[part + 1] + alone;
            let bill = search.low_bill[part][0].saturating_mul(i128::from(totals[part]));
            search.later_bill[part] = search.later_bill[part + 1] + bill;
        }
        Some(search)
    }

    /// Least cost of `left` replicas on the stands from `index` on; `None`: no room.
    fn fill(&self, part: usize, index: usize, left: u32) -> Option<i128> {
        if left == 0 {
            return Some(0);
        }
        let list = &self.stands[part];
        if let Some(site) = self.only(part) {
            return self.fill_at(part, index, left, site);
        }
        let first = list.get(index)?;
        let least = self.low[part][index].saturating_mul(i128::from(left));
        if first.room >= left {
            return Some(least);
        }
        // the stands at a forced site come first, whatever they cost
        let sorted = self.force.is_none_or(|(p, site)| p != part || first.site != site);
        let (mut sum, mut rest) = (0_i128, left);
        for b in &list[index..] {
            let n = b.room.min(rest);
            sum = sum.saturating_add(b.order.saturating_mul(i128::from(n)));
            rest -= n;
            if rest == 0 {
                return Some(if sorted { sum } else { least });
            }
        }
        None
    }

    /// The site at which the rest of a component must stand too.
    fn only(&self, part: usize) -> Option<usize> {
        let chosen = self.chosen[part].first().filter(|_| self.problem.parts[part].one_site)?;
        Some(self.stands[part][chosen.0].site)
    }

    /// The same at one site alone.
    fn fill_at(&self, part: usize, index: usize, left: u32, site: usize) -> Option<i128> {
        let (mut sum, mut rest) = (0_i128, left);
        for b in self.stands[part][index..].iter().filter(|b| b.site == site) {
            let n = b.room.min(rest);
            sum = sum.saturating_add(b.order.saturating_mul(i128::from(n)));
            rest -= n;
            if rest == 0 {
                return Some(sum);
            }
        }
        None
    }

    /// Places the components from `part` on.
    pub fn part(&mut self, part: usize, best: &mut Best) {
        if part == self.totals.len() {
            self.leaf(best);
        } else {
            self.stand(part, 0, self.totals[part], best);
        }
    }

    /// Places `left` replicas of a component on its stands from `index` on.
    fn stand(&mut self, part: usize, index: usize, left: u32, best: &mut Best) {
        if left == 0 {
            if self.whole(part)
                && let Some((sum, hanging)) = self.close(part)
            {
                self.sums.push(sum);
                self.hanging.push(hanging);
                if self
                    .bound(part + 1, 0, self.totals.get(part + 1).copied().unwrap_or(0))
                    .is_some_and(|b| !best.beats(b))
                {
                    self.part(part + 1, best);
                }
                self.sums.pop();
                self.hanging.pop();
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
            let last = self.stands[part][at + 1..].iter().all(|b| b.site != site);
            let fewest = if self.problem.parts[part].one_site && last { left } else { 1 };
            for n in (fewest..=most).rev() {
                self.chosen[part].push((at, n));
                if let Some(bound) = self.bound(part, at + 1, left - n)
                    && !best.beats(bound)
                    && self.fits(site)
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

    fn sites(&self, part: usize) -> BTreeSet<usize> {
        self.chosen[part].iter().map(|(s, _)| self.stands[part][*s].site).collect()
    }

    fn tied(&self, part: usize, other: usize) -> bool {
        let (this, that) = (self.problem.parts[part].component, self.problem.parts[other].component);
        this.place.colocate.contains(&that.name) || that.place.colocate.contains(&this.name)
    }

    /// Whether the component may use the site beside those it and others use.
    fn admits(&self, part: usize, site: usize) -> bool {
        let this = &self.problem.parts[part];
        let here = self.uses(part, site);
        if (this.one_site && !self.chosen[part].is_empty() && !here) || (this.spread_site && here) {
            return false;
        }
        if (0..part).any(|other| self.tied(part, other) && !self.uses(other, site)) {
            return false;
        }
        let Some(most) = self.problem.request.order.constraints.max_sites else { return true };
        let mut used: BTreeSet<usize> = (0..self.totals.len()).flat_map(|p| self.sites(p)).collect();
        used.insert(site);
        used.len() <= most as usize
    }

    /// Whether a component whose replicas are all placed keeps to its colocation and to the forced site.
    fn whole(&self, part: usize) -> bool {
        let forced = self.force.is_none_or(|(p, site)| p != part || self.uses(part, site));
        forced && (0..part).all(|other| !self.tied(part, other) || self.sites(part) == self.sites(other))
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
        let (nodes, wants) = (self.problem.nodes(site), wants(self.problem, &key.1));
        let fits = room::surely_fit(nodes, &wants) || room::fits(nodes, &wants);
        self.packed.insert(key, fits);
        fits
    }

    /// What the current component adds to the sum of those before it; `None`: out of range.
    fn add(&self, part: usize, mut sum: Sum, of: impl Fn(&Bounded) -> i128) -> Option<Sum> {
        let list = &self.chosen[part];
        for (at, n) in list {
            let b = &self.stands[part][*at];
            let n = i128::from(*n);
            sum.each = sum.each.checked_add(of(b).checked_mul(n)?)?;
            sum.bill = sum.bill.checked_add(b.bill.checked_mul(n)?)?;
            sum.hours = sum.hours.max(b.hours);
            sum.inbound = sum.inbound.max(b.inbound);
        }
        Some(sum)
    }

    /// What a component that stands, or will stand, on several sites pays at the least for the flows between them.
    fn away(&self, part: usize, left: u32) -> i128 {
        let sites = self.sites(part);
        let alone = || sites.iter().all(|s| self.single(part, *s));
        if sites.len() < 2 && (left == 0 || sites.is_empty() || !alone()) {
            return 0;
        }
        let of = |site: &usize| {
            let here = self.chosen[part].iter().map(|(s, _)| &self.stands[part][*s]).find(|b| b.site == *site);
            here.map_or(0, |b| b.away)
        };
        sites.iter().map(of).fold(0, i128::saturating_add)
    }

    /// The sum with a component that is wholly placed, with its legs to those before it, and what still hangs on them.
    fn close(&self, part: usize) -> Option<(Sum, i128)> {
        let mut sum = self.add(part, self.sums[part], |b| b.each)?;
        let pairs = self.pairs(part)?;
        sum.each = sum.each.checked_add(pairs)?;
        sum.bill = sum.bill.checked_add(pairs)?;
        let mut hanging = 0_i128;
        for later in part + 1..self.totals.len() {
            if let Some(parent) = self.parent[later].filter(|p| *p <= part) {
                for (at, n) in &self.chosen[parent] {
                    hanging =
                        hanging.checked_add(self.stands[parent][*at].hangs[later].checked_mul(i128::from(*n))?)?;
                }
            }
        }
        Some((sum, hanging))
    }

    /// No plan with these choices, and `left` replicas of `part` on its stands from `index` on, totals less.
    /// `None`: there is none.
    fn bound(&self, part: usize, index: usize, left: u32) -> Option<i128> {
        let p = self.problem;
        let parts = self.totals.len();
        let base = self.sums[part.min(self.sums.len() - 1)];
        let (sum, fill, fill_bill, hanging, later) = if part == parts {
            (base, 0, 0, 0, parts)
        } else {
            let fill = self.fill(part, index, left)?;
            let fill_bill = if left == 0 { 0 } else { self.low_bill[part][index].checked_mul(i128::from(left))? };
            let mut sum = self.add(part, base, |b| b.order)?;
            let away = self.away(part, left);
            sum.each = sum.each.checked_add(away)?;
            sum.bill = sum.bill.checked_add(away)?;
            // what hung on those before it is now counted at its own stands
            let own: i128 = match self.parent[part] {
                Some(parent) => self.chosen[parent]
                    .iter()
                    .map(|(at, n)| self.stands[parent][*at].hangs[part].saturating_mul(i128::from(*n)))
                    .sum(),
                None => 0,
            };
            // the greater of two bounds: at its own stands alone, or as reached from where its parent stands
            let placed = self.chosen[part].is_empty() && own > fill;
            let extra = if placed { own - fill } else { 0 };
            (sum, fill + extra, fill_bill, self.hanging[part] - own, part + 1)
        };
        if let Some(budget) = &p.budget {
            let bill = sum.bill.checked_add(fill_bill)?.checked_add(self.later_bill[later])?;
            if Ratio::from_integer(bill) > *budget {
                return None;
            }
        }
        let held = sum.hours + Ratio::from_integer(sum.inbound);
        if let (Some(deadline), None) = (p.deadline, p.late)
            && held > deadline
        {
            return None;
        }
        let held = if self.staged { sum.hours } else { held };
        let time = p.value.checked_mul(&held)?.floor().to_integer();
        [fill, hanging, self.later[later], time, self.constant].iter().try_fold(sum.each, |s, x| s.checked_add(*x))
    }

    /// Least cost of the legs between a component that is wholly placed and those before it, and of its own;
    /// `None` where there is no path.
    fn pairs(&self, part: usize) -> Option<i128> {
        let mut sum = 0_i128;
        for stream in self.problem.streams.iter().filter(|s| s.joins_parts() && s.span == Span::Run) {
            let (Place::Part(a), Place::Part(b)) = (&stream.from, &stream.to) else { continue };
            if *a.max(b) != part {
                continue;
            }
            let own = a == b;
            let divide = if own { 1 } else { u64::from(self.totals[*a]) * u64::from(self.totals[*b]) };
            let shortest = self.sums[0].hours;
            for (i, (s, n)) in self.chosen[*a].iter().enumerate() {
                let from = self.stands[*a][*s].site;
                for (j, (t, m)) in self.chosen[*b].iter().enumerate() {
                    let to = self.stands[*b][*t].site;
                    // of several models at a site, the self-flow is between sites once
                    let again = |list: &[(usize, u32)], p: usize, site| {
                        list.iter().any(|(s, _)| self.stands[p][*s].site == site)
                    };
                    if own
                        && (from == to
                            || again(&self.chosen[*a][..i], *a, from)
                            || again(&self.chosen[*b][..j], *b, to))
                    {
                        continue;
                    }
                    let times = if own { 1 } else { i128::from(*n) * i128::from(*m) };
                    let cost = bound::between(self.problem, stream, from, to, shortest, divide)?;
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
