//! Many replicas of one component that is alone in its order: which stands, then how many on each.
//!
//! Such an order has no flows but those of the component to itself, at their full rate between every two sites. So at any
//! start a plan's legs depend on the stands alone, and its cost is linear in the replicas on each. Of the cheapest plans
//! one fills all its stands but one: as long as two have room left, replicas of the dearer can move to the other. The
//! search goes over sets of stands that reach each other, and not over numbers of replicas.

use crate::{
    bound::{self, Bounded},
    field::{Field, GRAINS},
    legs,
    load::Load,
    network::Direction,
    option::{self, Cut, Look, Matter},
    problem::{Place, Problem, Span, Stream},
    room,
    settle::{self, Best, Placed},
};
use num_traits::CheckedMul;
use rhumb_model::ratio::Ratio;
use std::{cell::OnceCell, collections::BTreeMap};

/// Stands that the search over several sites looks at before it ends with the bound it has: so many for a whole budget of
/// `BUDGET` nodes, and a part of them for less. With a plan in hand each counts for several.
const LOOKS: u64 = 400_000;
const BUDGET: u64 = 20_000;
const KNOWN: u64 = 25;

/// Legs for which other paths are looked for, where the cheapest ones overfill a link: so many by the points of the
/// network, for all of which each takes a look at.
const LEGS: u64 = 6_000;

/// Nodes of the search for the paths of one set.
const PATHS: u64 = 256;

pub(crate) struct Gang<'g, 'a> {
    problem: &'g Problem<'a>,
    field: &'g Field,
    total: u32,
    /// Cheapest first.
    stands: Vec<Bounded>,
    /// Only sets with this site.
    force: Option<usize>,
    flows: Vec<&'g Stream>,
    most_sites: usize,
    /// By stand: what the flows to the site of each other cost at the least. `None` in it: there is no way.
    ways: Vec<OnceCell<Vec<Option<i64>>>>,
    /// By stand: sites that its links have room for, itself included.
    ports: Vec<OnceCell<usize>>,
    /// What is left of both budgets.
    looks: u64,
    legs: u64,
}

/// The stands chosen so far.
#[derive(Debug, Clone, Default)]
struct Set {
    /// In order, with the replicas that each has room for.
    chosen: Vec<(usize, u32)>,
    sites: Vec<usize>,
    room: u32,
    widest: u32,
    /// Micro-units of the flows between them, at the least, and of those to one site more.
    ways: i128,
    away: i128,
    hours: Ratio,
}

/// Whether this search may be the one for the order.
pub(crate) fn suits(problem: &Problem, totals: &[u32]) -> bool {
    let ([part], [total]) = (problem.parts.as_slice(), totals) else { return false };
    let this = Place::Part(0);
    let plain = |s: &Stream| s.from == this && s.to == this && !s.protected && !s.split && s.demand.is_none();
    let alone = *total > 1 && problem.fragmentation.is_none() && problem.streams.iter().all(plain);
    alone && room::by_nodes(part.component)
}

impl<'g, 'a> Gang<'g, 'a> {
    /// `None`: more hangs on the order than this search knows of.
    pub fn new(
        problem: &'g Problem<'a>,
        field: &'g Field,
        totals: &[u32],
        force: Option<(usize, usize)>,
        lists: &[Vec<Bounded>],
    ) -> Option<Self> {
        let ([part], [list], [total]) = (problem.parts.as_slice(), lists, totals) else { return None };
        if !suits(problem, totals) {
            return None;
        }
        let mut by_site: BTreeMap<usize, Vec<&Bounded>> = BTreeMap::new();
        for b in list {
            by_site.entry(b.site).or_default().push(b);
        }
        for (site, here) in by_site.iter().filter(|(_, here)| here.len() > 1) {
            // models that share nodes, or cost the same, are no stands of their own
            let models: Vec<_> = here.iter().filter_map(|b| part.stands[b.stand].model).collect();
            let prices: Vec<_> = here.iter().map(|b| (part.price(b.stand), b.hours)).collect();
            let same = (1..prices.len()).any(|i| prices[..i].contains(&prices[i]));
            if same || !room::apart(&models, problem.nodes(*site)) {
                return None;
            }
        }
        let mut stands = list.clone();
        stands.sort_by_key(|b| (b.order, b.stand));
        let most_sites = problem.request.order.constraints.max_sites.map_or(usize::MAX, |n| n as usize);
        Some(Self {
            problem,
            field,
            total: *total,
            force: force.map(|(_, site)| site),
            flows: problem.streams.iter().collect(),
            most_sites: if part.one_site { 1 } else { most_sites },
            ways: (0..stands.len()).map(|_| OnceCell::new()).collect(),
            ports: (0..stands.len()).map(|_| OnceCell::new()).collect(),
            stands,
            looks: 0,
            legs: 0,
        })
    }

    pub fn search(mut self, best: &mut Best) {
        let share = |all: u64| all * best.nodes_left.min(BUDGET) / BUDGET;
        (self.looks, self.legs) = (share(LOOKS), share(LEGS) / (self.problem.net.points() as u64).max(1));
        let all: Vec<usize> = (0..self.stands.len()).collect();
        let Some(site) = self.force else {
            // what one site holds has no flows: it is soon found, and soon beats much of the rest
            let most = std::mem::replace(&mut self.most_sites, 1);
            self.add(&Set::default(), &all, best);
            if most > 1 && !(best.any && best.solution.is_some()) {
                self.most_sites = most;
                self.add(&Set::default(), &all, best);
            }
            return;
        };
        // the forced site, full or with what is left over; or with one replica, the rest elsewhere
        self.add(&Set::default(), &all, best);
        for at in 0..self.stands.len() {
            if self.stands[at].site == site && self.stands[at].room > 1 {
                let alone: Vec<usize> =
                    all.iter().copied().filter(|i| self.stands[*i].site != site || *i == at).collect();
                let room = std::mem::replace(&mut self.stands[at].room, 1);
                self.add(&Set::default(), &alone, best);
                self.stands[at].room = room;
            }
        }
    }

    /// Adds one more of the `open` stands, which all chosen ones reach.
    fn add(&mut self, set: &Set, open: &[usize], best: &mut Best) {
        let mut later: u64 = open.iter().map(|i| u64::from(self.stands[*i].room)).sum();
        for (index, at) in open.iter().copied().enumerate() {
            if u64::from(set.room) + later < u64::from(self.total) {
                return;
            }
            later -= u64::from(self.stands[at].room);
            let Some(bound) = self.bound(set, &open[index..]) else { return };
            if best.beats(bound) {
                return;
            }
            let Some(next) = self.with(set, at) else { continue };
            if self.most_sites > 1 {
                if self.looks == 0 {
                    best.leave(bound);
                    return;
                }
                let each = if best.solution.is_some() { KNOWN } else { 1 };
                self.looks = self.looks.saturating_sub(each * self.stands.len() as u64);
            }
            if !best.open(bound) {
                return;
            }
            self.leaves(&next, best);
            // a set in which no stand is needed is dearer than without one
            if next.room - next.widest < self.total {
                let full = next.sites.len() == self.most_sites;
                let rest = &open[index + 1..];
                let open: Vec<usize> = if full {
                    let here = |i: &usize| next.sites.contains(&self.stands[*i].site);
                    rest.iter().copied().filter(here).collect()
                } else {
                    let ways = self.ways(at);
                    rest.iter().copied().filter(|i| ways[*i].is_some()).collect()
                };
                self.add(&next, &open, best);
            }
        }
    }

    /// The set with one more stand; `None`: it may not stand beside the others.
    fn with(&self, set: &Set, at: usize) -> Option<Set> {
        let this = &self.stands[at];
        let again = set.sites.contains(&this.site);
        let count = set.sites.len() + usize::from(!again);
        let narrow = |at: usize| !self.flows.is_empty() && count > 1 && self.port(at) < count;
        if count > self.most_sites || (!again && (narrow(at) || set.chosen.iter().any(|(at, _)| narrow(*at)))) {
            return None;
        }
        let mut next = set.clone();
        let room = this.room.min(self.total);
        next.chosen.push((at, room));
        if !again {
            for site in &set.sites {
                let other = set.chosen.iter().find(|(other, _)| self.stands[*other].site == *site)?.0;
                let (there, back) = (self.ways(other)[at]?, self.ways(at)[other]?);
                next.ways = next.ways.checked_add(i128::from(there))?.checked_add(i128::from(back))?;
            }
            next.sites.push(this.site);
            next.away = next.away.saturating_add(this.away);
        }
        next.room = next.room.saturating_add(room);
        next.widest = next.widest.max(room);
        next.hours = next.hours.max(this.hours);
        Some(next)
    }

    /// All ways to share the replicas over the stands of the set: all but one are full.
    fn leaves(&mut self, set: &Set, best: &mut Best) {
        if set.room < self.total || self.force.is_some_and(|site| !set.sites.contains(&site)) {
            return;
        }
        let several = set.sites.len() > 1;
        for (partly, room) in &set.chosen {
            let others = set.room - room;
            if others >= self.total {
                continue;
            }
            let mut placed: Vec<(usize, u32)> = Vec::with_capacity(set.chosen.len());
            let mut cost = Some(0_i128);
            for (at, room) in &set.chosen {
                let n = if at == partly { self.total - others } else { *room };
                let stand = &self.stands[*at];
                cost = cost.and_then(|c| c.checked_add(stand.order.checked_mul(i128::from(n))?));
                placed.push((stand.stand, n));
            }
            let Some(bound) = cost.and_then(|cost| self.whole(set, cost)) else { continue };
            if best.beats(bound) {
                continue;
            }
            if !best.open(bound) {
                return;
            }
            placed.sort_unstable();
            let placed = vec![placed];
            let shared = several && self.overfills(&placed);
            if shared {
                let legs = (set.sites.len() * (set.sites.len() - 1)) as u64;
                if self.legs < legs {
                    best.leave(bound);
                    return;
                }
                self.legs -= legs;
            }
            let (kept, patience) = (best.nodes_left.saturating_sub(PATHS), std::mem::take(&mut best.patience));
            best.nodes_left -= kept;
            settle::settle(self.problem, &placed, best);
            best.nodes_left += kept;
            best.patience = patience;
            // links that do not carry these stands do not carry them with other numbers either
            if shared && best.solution.is_none() && self.problem.budget.is_none() {
                return;
            }
        }
    }

    /// Whether the cheapest paths between the sites ask a link for more than it has.
    fn overfills(&self, placed: &Placed) -> bool {
        let problem = self.problem;
        let sites = settle::sites_of(problem, placed);
        let (served, _) = legs::servings(problem, &sites, 1, false);
        let Some(served) = served.first().filter(|_| !problem.relax.bandwidth) else { return false };
        let mut load = Load::default();
        let mut carried = legs::legs(problem, &sites, served).into_iter().map(|leg| {
            let (choices, _) = option::choices(problem, &leg, Look::Best(Matter::None, Cut::default()));
            choices.first().is_none_or(|choice| load.add(problem, Span::Run, choice))
        });
        !carried.all(|carries| carries)
    }

    /// No plan with these stands and others from `index` on costs less. `None`: there is none.
    fn bound(&self, set: &Set, open: &[usize]) -> Option<i128> {
        let mut left = self.total;
        // one site more is needed where those chosen have no other stands
        let more = set.room < self.total && !open.iter().any(|at| set.sites.contains(&self.stands[*at].site));
        let mut cost = if more { set.away } else { 0 };
        for at in set.chosen.iter().map(|(at, _)| *at).chain(open.iter().copied()) {
            let n = self.stands[at].room.min(left);
            cost = cost.checked_add(self.stands[at].order.checked_mul(i128::from(n))?)?;
            left -= n;
            if left == 0 {
                return self.whole(set, cost);
            }
        }
        None
    }

    /// The bound of a plan with the set whose replicas cost so much.
    fn whole(&self, set: &Set, cost: i128) -> Option<i128> {
        let problem = self.problem;
        let cost = cost.checked_add(set.ways)?;
        if let Some(budget) = problem.budget.filter(|_| !self.field.staged)
            && Ratio::from_integer(cost) > budget
        {
            return None;
        }
        let hours = set.hours.max(self.field.longest);
        if let (Some(deadline), None) = (problem.deadline, problem.late)
            && hours > deadline
        {
            return None;
        }
        let time = problem.value.checked_mul(&hours)?.floor().to_integer();
        let constant: i128 = self.field.constant.iter().map(|c| i128::from(c / GRAINS)).sum();
        cost.checked_add(time)?.checked_add(constant)
    }

    fn ways(&self, from: usize) -> &[Option<i64>] {
        self.ways[from].get_or_init(|| {
            let site = self.stands[from].site;
            let mut known: Vec<Option<Option<i64>>> = vec![None; self.problem.view.sites.len()];
            let to = |to: &Bounded| -> Option<i64> {
                if self.flows.is_empty() || to.site == site {
                    return Some(0);
                }
                let way = |sum: i64, flow: &&Stream| {
                    let cost = bound::between(self.problem, flow, site, to.site, self.field.longest, 1)?;
                    sum.checked_add(i64::try_from(cost).ok()?)
                };
                *known[to.site].get_or_insert_with(|| self.flows.iter().try_fold(0, way))
            };
            self.stands.iter().map(to).collect()
        })
    }

    /// How many sites the links at the stand's site join at the full rate of all flows, itself included.
    fn port(&self, at: usize) -> usize {
        *self.ports[at].get_or_init(|| {
            let problem = self.problem;
            let rate: u64 = self.flows.iter().filter_map(|s| s.kbps).fold(0, u64::saturating_add);
            if rate == 0 || problem.relax.bandwidth {
                return usize::MAX;
            }
            let point = problem.site_point(self.stands[at].site);
            let room = |walk: Direction| -> u64 {
                let free = problem.net.on_from(point, walk).iter().map(|e| problem.net.edges[*e as usize].free);
                // one flow takes one link whole; several may each take another
                if self.flows.len() == 1 {
                    free.map(|f| f / rate).fold(0, u64::saturating_add)
                } else {
                    free.fold(0, u64::saturating_add) / rate
                }
            };
            let legs = room(Direction::Along).min(room(Direction::Against));
            usize::try_from(legs).unwrap_or(usize::MAX).saturating_add(1)
        })
    }
}
