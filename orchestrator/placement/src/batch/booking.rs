//! The desk as a market: a column is a pool and a path, a room is what pools and arcs have left.

use super::{
    desk::{Desk, Job, Offer},
    insertion::Market,
    route::Search,
};
use std::rc::Rc;

/// A pool and a path to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Booking {
    /// Into the job's offers.
    pub offer: u32,
    pub pool: u32,
    pub path: Rc<[u32]>,
    pub cost: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct Left {
    pools: Vec<i64>,
    arcs: Vec<i64>,
}

impl Left {
    fn carries(&self, job: &Job, path: &[u32]) -> bool {
        path.iter().all(|a| self.arcs[*a as usize] >= job.rate)
    }
}

#[derive(Debug)]
pub(crate) struct Bookings<'d> {
    desk: &'d Desk,
    search: Search,
    /// By job and site: the cheapest path on an empty network, and its cost.
    alone: Vec<Vec<Option<Way>>>,
    /// By job: nodes of the sites that it may use.
    ends: Vec<Vec<u32>>,
}

impl<'d> Bookings<'d> {
    pub fn new(desk: &'d Desk) -> Self {
        let mut search = Search::default();
        let mut alone = Vec::with_capacity(desk.jobs.len());
        let mut ends = Vec::with_capacity(desk.jobs.len());
        for job in &desk.jobs {
            let nodes = nodes(desk, job);
            search.run(desk, job, &nodes, |a| job.arc_cost[a]);
            alone.push(paths(desk, job, &search, &nodes));
            ends.push(nodes);
        }
        Self { desk, search, alone, ends }
    }
}

/// Distinct nodes of the sites that the job may use.
pub(crate) fn nodes(desk: &Desk, job: &Job) -> Vec<u32> {
    let mut nodes: Vec<u32> = job.offers.iter().map(|o| desk.site_node[o.site as usize]).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// By site: the path that a search found.
fn paths(desk: &Desk, job: &Job, search: &Search, ends: &[u32]) -> Vec<Option<Way>> {
    desk.site_node
        .iter()
        .map(|node| {
            if !ends.contains(node) {
                return None;
            }
            Some(Way::new(job, search.path(*node)?))
        })
        .collect()
}

/// A path and what the job pays for it, without prices on top.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub arcs: Rc<[u32]>,
    pub cost: i64,
}

impl Way {
    pub fn new(job: &Job, arcs: Box<[u32]>) -> Self {
        let cost = arcs.iter().filter_map(|a| job.arc_cost[*a as usize]).fold(0, i64::saturating_add);
        Self { arcs: arcs.into(), cost }
    }
}

impl Market for Bookings<'_> {
    type Room = Left;
    type Column = Booking;

    fn jobs(&self) -> usize {
        self.desk.jobs.len()
    }

    fn whole(&self) -> Left {
        Left {
            pools: self.desk.pools.iter().map(|p| p.capacity).collect(),
            arcs: self.desk.arcs.iter().map(|a| a.capacity).collect(),
        }
    }

    fn without(&self, job: usize) -> i128 {
        self.desk.jobs[job].reject.into()
    }

    fn cost(&self, column: &Booking) -> i128 {
        column.cost.into()
    }

    fn offers(&mut self, room: &Left, at: usize) -> [Option<Booking>; 2] {
        let job = &self.desk.jobs[at];
        let roomy = |o: &Offer| room.pools[o.pool as usize] >= job.gpus;
        // what is cheapest on an empty network is cheapest here, where it still fits
        let blocked = job
            .offers
            .iter()
            .filter(|o| roomy(o))
            .any(|o| self.alone[at][o.site as usize].as_ref().is_some_and(|way| !room.carries(job, &way.arcs)));
        let found;
        let paths = if blocked {
            self.search.run(self.desk, job, &self.ends[at], |a| job.arc_cost[a].filter(|_| room.arcs[a] >= job.rate));
            found = paths(self.desk, job, &self.search, &self.ends[at]);
            &found
        } else {
            &self.alone[at]
        };
        let mut best: [Option<(i64, usize)>; 2] = [None, None];
        for (i, offer) in job.offers.iter().enumerate().filter(|(_, o)| roomy(o)) {
            let Some(way) = &paths[offer.site as usize] else { continue };
            let key = Some((offer.cost.saturating_add(way.cost), i));
            if best[0].is_none() || key < best[0] {
                best = [key, best[0]];
            } else if best[1].is_none() || key < best[1] {
                best[1] = key;
            }
        }
        best.map(|b| {
            let (cost, i) = b?;
            let path = &paths[job.offers[i].site as usize].as_ref()?.arcs;
            Some(Booking { offer: i as u32, pool: job.offers[i].pool, path: Rc::clone(path), cost })
        })
    }

    fn fits(&self, room: &Left, job: usize, column: &Booking) -> bool {
        let job = &self.desk.jobs[job];
        room.pools[column.pool as usize] >= job.gpus && room.carries(job, &column.path)
    }

    fn take(&self, room: &mut Left, job: usize, column: &Booking) -> bool {
        if !self.fits(room, job, column) {
            return false;
        }
        let job = &self.desk.jobs[job];
        room.pools[column.pool as usize] -= job.gpus;
        for arc in &*column.path {
            room.arcs[*arc as usize] -= job.rate;
        }
        true
    }

    fn meets(&self, one: &Booking, other: &Booking) -> bool {
        one.pool == other.pool || one.path.iter().any(|a| other.path.contains(a))
    }

    fn contends(&self, job: usize, other: &Booking) -> bool {
        let wants = |offer: &Offer| {
            let path = self.alone[job][offer.site as usize].as_ref();
            offer.pool == other.pool || path.is_some_and(|way| way.arcs.iter().any(|a| other.path.contains(a)))
        };
        self.desk.jobs[job].offers.iter().any(wants)
    }
}
