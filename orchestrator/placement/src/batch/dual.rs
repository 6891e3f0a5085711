//! A lower bound of a desk: prices on arcs and on serving each job, and the best reply to them.
//!
//! Arc capacities and "each job once" are priced (Lagrangian relaxation); pools stay hard, so that the reply is one
//! knapsack for each pool over the cheapest priced paths. The bound
//! `sum of job prices - sum of pools' best profits - sum of profits of rejecting - sum of arc prices`
//! is below the optimum for any prices, and all of it is whole nano-dollars, so it is never too high by rounding.

use super::{
    booking::{self, Booking, Way},
    desk::{Desk, SHARE_BITS},
    knapsack::{Bag, Item},
    route::Search,
    scope::Scope,
};
use std::{collections::BTreeMap, rc::Rc};

/// Nano-dollars.
#[derive(Debug, Clone)]
pub(crate) struct Prices {
    /// What serving a job is worth.
    pub job: Vec<i64>,
    /// Of an arc's whole capacity.
    pub arc: Vec<i64>,
}

/// Where priced paths come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paths {
    /// Searched for: the value is a bound.
    Every,
    /// The ones found so far: quick, and at or above the bound.
    Known,
}

#[derive(Debug)]
pub(crate) struct Dual<'d> {
    desk: &'d Desk,
    search: Search,
    ends: Vec<Vec<u32>>,
    /// Paths by job and site.
    known: Vec<Vec<Vec<Way>>>,
    /// Offers of jobs by pool: (job, offer).
    by_pool: Vec<Vec<(u32, u32)>>,
    /// By job and site: the cheapest priced path and its priced cost.
    near: Vec<Vec<Option<(u32, i64)>>>,
    toll: Vec<i64>,
    bag: Bag,
    pub reply: Reply,
    pub often: Often,
    /// Elementary operations so far.
    pub work: u64,
}

/// What is chosen at some prices.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// How often each job is served or rejected.
    pub times: Vec<i64>,
    /// Of each arc, in units of rate.
    pub load: Vec<i64>,
    pub picks: Vec<Pick>,
    rejects: Vec<u32>,
}

/// A job served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pick {
    pub job: u32,
    offer: u32,
    path: u32,
}

/// What the replies of a climb had in common: later ones count more.
#[derive(Debug, Default)]
pub(crate) struct Often {
    /// Flat as in a scope, up to `ALWAYS`.
    pub chosen: Vec<i64>,
    /// Jobs that overfilled an arc when it last was.
    pub over: BTreeMap<u32, Vec<u32>>,
    first: bool,
}

impl Often {
    /// Chosen in every reply.
    pub const ALWAYS: i64 = 1 << 20;

    fn begin(&mut self) {
        self.chosen.fill(0);
        self.over.clear();
        self.first = true;
    }
}

impl<'d> Dual<'d> {
    pub fn new(desk: &'d Desk) -> Self {
        let mut by_pool = vec![Vec::new(); desk.pools.len()];
        for (j, job) in desk.jobs.iter().enumerate() {
            for (o, offer) in job.offers.iter().enumerate() {
                by_pool[offer.pool as usize].push((j as u32, o as u32));
            }
        }
        let (sites, jobs) = (desk.site_node.len(), desk.jobs.len());
        let flat = desk.jobs.iter().map(|j| j.offers.len() + 1).sum();
        Self {
            desk,
            search: Search::default(),
            ends: desk.jobs.iter().map(|j| booking::nodes(desk, j)).collect(),
            known: vec![vec![Vec::new(); sites]; jobs],
            by_pool,
            near: vec![vec![None; sites]; jobs],
            toll: vec![0; desk.arcs.len()],
            bag: Bag::default(),
            reply: Reply { times: vec![0; jobs], load: vec![0; desk.arcs.len()], ..Reply::default() },
            often: Often { chosen: vec![0; flat], ..Often::default() },
            work: 0,
        }
    }

    /// No price on arcs, and on each job what it costs by itself: the bound is their sum.
    pub fn start(&mut self, scope: &Scope) -> Prices {
        let mut prices = Prices { job: vec![0; self.desk.jobs.len()], arc: vec![0; self.desk.arcs.len()] };
        self.price_paths(scope, &prices, Paths::Every);
        for ((price, job), near) in prices.job.iter_mut().zip(&self.desk.jobs).zip(&self.near) {
            let served =
                job.offers.iter().filter_map(|o| near[o.site as usize].map(|(_, path)| o.cost.saturating_add(path)));
            *price = served.fold(job.reject, i64::min);
        }
        prices
    }

    /// Forgets what replies had in common.
    pub fn begin(&mut self) {
        self.often.begin();
    }

    /// What a pick books.
    pub fn booking(&self, pick: &Pick) -> Booking {
        let offer = self.desk.jobs[pick.job as usize].offers[pick.offer as usize];
        let way = &self.known[pick.job as usize][offer.site as usize][pick.path as usize];
        Booking {
            offer: pick.offer,
            pool: offer.pool,
            path: Rc::clone(&way.arcs),
            cost: offer.cost.saturating_add(way.cost),
        }
    }

    /// The bound at these prices, and the reply to them.
    pub fn value(&mut self, scope: &Scope, prices: &Prices, paths: Paths) -> i128 {
        self.price_paths(scope, prices, paths);
        let desk = self.desk;
        let reply = &mut self.reply;
        reply.times.fill(0);
        reply.load.fill(0);
        reply.picks.clear();
        reply.rejects.clear();
        let mut bound: i128 = prices.job.iter().map(|p| i128::from(*p)).sum();
        bound -= prices.arc.iter().map(|p| i128::from(*p)).sum::<i128>();
        for (j, job) in desk.jobs.iter().enumerate() {
            let gain = prices.job[j] - job.reject;
            if scope.open[scope.first[j + 1] - 1] && gain > 0 {
                bound -= i128::from(gain);
                reply.times[j] += 1;
                reply.rejects.push(j as u32);
            }
        }
        for (p, pool) in desk.pools.iter().enumerate() {
            self.bag.clear();
            for &(j, o) in &self.by_pool[p] {
                let job = &desk.jobs[j as usize];
                let offer = &job.offers[o as usize];
                if let Some((_, path)) = self.near[j as usize][offer.site as usize]
                    && scope.open[scope.first[j as usize] + o as usize]
                {
                    let gain = prices.job[j as usize].saturating_sub(offer.cost).saturating_sub(path);
                    if gain > 0 {
                        self.bag.add(Item { job: j, offer: o, weight: job.gpus, gain });
                    }
                }
            }
            bound -= self.bag.fill(pool.capacity);
            self.work += self.bag.work();
            for item in self.bag.chosen() {
                let (j, job) = (item.job as usize, &desk.jobs[item.job as usize]);
                let site = job.offers[item.offer as usize].site as usize;
                let Some((path, _)) = self.near[j][site] else { continue };
                reply.times[j] += 1;
                for arc in &*self.known[j][site][path as usize].arcs {
                    reply.load[*arc as usize] += job.rate;
                }
                reply.picks.push(Pick { job: item.job, offer: item.offer, path });
            }
        }
        self.remember(scope);
        bound
    }

    /// Adds the reply to what replies have in common.
    fn remember(&mut self, scope: &Scope) {
        let often = &mut self.often;
        let whole = Often::ALWAYS;
        // the first counts in full, any other an eighth
        let part = if often.first { whole } else { whole / 8 };
        if !often.first {
            for chosen in &mut often.chosen {
                *chosen -= *chosen / 8;
            }
        }
        often.first = false;
        for pick in &self.reply.picks {
            often.chosen[scope.first[pick.job as usize] + pick.offer as usize] += part;
        }
        for job in &self.reply.rejects {
            often.chosen[scope.first[*job as usize + 1] - 1] += part;
        }
        for (arc, load) in self.reply.load.iter().enumerate() {
            if *load <= self.desk.arcs[arc].capacity {
                continue;
            }
            let jobs = often.over.entry(arc as u32).or_default();
            jobs.clear();
            for pick in &self.reply.picks {
                let site = self.desk.jobs[pick.job as usize].offers[pick.offer as usize].site as usize;
                let path = &self.known[pick.job as usize][site][pick.path as usize].arcs;
                // a job that two pools serve would count twice
                if path.contains(&(arc as u32)) && !jobs.contains(&pick.job) {
                    jobs.push(pick.job);
                }
            }
            let sum: i64 = jobs.iter().map(|j| self.desk.jobs[*j as usize].rate).sum();
            if sum <= self.desk.arcs[arc].capacity {
                often.over.remove(&(arc as u32));
            }
        }
    }

    fn price_paths(&mut self, scope: &Scope, prices: &Prices, paths: Paths) {
        let desk = self.desk;
        for (j, job) in desk.jobs.iter().enumerate() {
            if !scope.open[scope.first[j]..scope.first[j + 1] - 1].contains(&true) {
                continue;
            }
            let toll = &mut self.toll;
            for (t, (price, share)) in toll.iter_mut().zip(prices.arc.iter().zip(&job.share)) {
                *t = if *price == 0 { 0 } else { ((i128::from(*price) * i128::from(*share)) >> SHARE_BITS) as i64 };
            }
            let bans = scope.bans_of(j as u32);
            let banned = |arc: u32| bans.iter().any(|b| b.1 == arc);
            self.work += toll.len() as u64;
            if paths == Paths::Every {
                let weight =
                    |a: usize| job.arc_cost[a].filter(|_| !banned(a as u32)).map(|c| c.saturating_add(toll[a]));
                self.work += 25 * self.search.run(desk, job, &self.ends[j], weight);
                for (site, node) in desk.site_node.iter().enumerate() {
                    let known = &mut self.known[j][site];
                    if !self.ends[j].contains(node) || known.iter().any(|w| self.search.ends_as(*node, &w.arcs)) {
                        continue;
                    }
                    if let Some(path) = self.search.path(*node) {
                        known.push(Way::new(job, path));
                    }
                }
            }
            for (near, known) in self.near[j].iter_mut().zip(&self.known[j]) {
                *near = None;
                for (i, way) in known.iter().enumerate() {
                    self.work += 1 + way.arcs.len() as u64;
                    if !bans.is_empty() && way.arcs.iter().any(|a| banned(*a)) {
                        continue;
                    }
                    let priced = way.arcs.iter().fold(way.cost, |sum, a| sum.saturating_add(toll[*a as usize]));
                    if near.is_none_or(|(_, least)| priced < least) {
                        *near = Some((i as u32, priced));
                    }
                }
            }
        }
    }
}
