//! Path search on edges: exact label setting over (cost, links, latency), parallel links apart.
//!
//! A `Tree` holds, for every point, the cheapest and the quickest way to a set of roots. With it as an exact estimate of
//! what remains, a search from one point opens only labels that can still end well: `routes` gives all loop-free paths
//! to the roots that no other path beats in cost and latency, cheapest first.

mod queue;
mod tree;

pub(crate) use tree::{By, Passing, Scan, Tree, potential};

use crate::network::{Direction, Network, Price};
use std::{
    cell::Cell,
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

/// What a leg asks of every link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    /// By edge ordinal: whether the link is allowed at all (jurisdiction, encryption, age).
    pub allowed: &'a [bool],
    /// Free capacity that each link must have.
    pub kbps: u64,
    pub price: Price,
    /// The way the search walks: `Along` begins at the path's first point.
    pub walk: Direction,
    /// Counts the labels that searches make, and the work on them.
    pub labels: Option<&'a Cell<u64>>,
}

impl Ask<'_> {
    pub fn takes(&self, net: &Network, edge: u32) -> bool {
        self.allowed[edge as usize] && net.edges[edge as usize].free >= self.kbps
    }
}

/// A loop-free path between the start of a search and one of its roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// Edge ordinals from the path's first point to its last.
    pub edges: Vec<u32>,
    /// Where the search ended.
    pub root: u32,
    /// In the units of `Price`.
    pub cost: i64,
    /// Microseconds.
    pub latency: u64,
}

#[derive(Debug, Clone, Copy)]
struct Label {
    point: u32,
    parent: u32,
    edge: u32,
    cost: i64,
    links: u32,
    latency: u64,
    beaten: bool,
    /// The label at the same point that came before.
    before: u32,
}

/// How many of the paths to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The first by (cost, links, link ids).
    Cheapest,
    /// Every one that none beats in both cost and latency, within limits.
    Front(Limits),
}

/// How much more than the cheapest a path may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Limits {
    /// So much for each microsecond that the cheapest takes, and so much.
    pub slope: Option<(i64, i64)>,
    pub extra: Option<i64>,
}

const NONE: u32 = u32::MAX;

/// Estimated (cost, links) of the whole path, then links so far: equals at one point are all known before one is opened.
type Key = (i64, u32, u32, u32);

/// Labels with which a search for more than the cheapest path ends: parallel links can make paths double with every point.
const MOST: u64 = 200_000;
/// Labels at a point with which a new one is compared in about the time that it takes to make one.
const COMPARED: u64 = 16;

/// Paths from `start` to the roots of `tree` with a latency of at most `bound` microseconds, by (cost, links, link ids); and
/// whether these are all that are wanted. The first is always the cheapest; what is left out costs no less than the last.
pub(crate) fn routes(
    net: &Network,
    ask: &Ask,
    tree: &Tree,
    start: u32,
    bound: Option<u64>,
    wanted: Wanted,
) -> (Vec<Route>, bool) {
    let mut found: Vec<Route> = Vec::new();
    let mut all = true;
    let mut limit = bound.unwrap_or(u64::MAX);
    let mut search = Search {
        net,
        ask,
        tree,
        labels: Vec::new(),
        at: vec![NONE; net.points()],
        heap: BinaryHeap::new(),
        timed: bound.is_some() || matches!(wanted, Wanted::Front(_)),
        most: i64::MAX,
        compared: 0,
    };
    search.push(start, NONE, NONE, limit, (0, 0, 0));
    while let Some(Reverse((.., index))) = search.heap.pop() {
        let label = search.labels[index as usize];
        if label.cost > search.most {
            break;
        }
        if search.work() > MOST && !found.is_empty() {
            all = false;
            break;
        }
        let remaining = search.left(label.point).unwrap_or(u64::MAX);
        if label.beaten || label.latency.checked_add(remaining).is_none_or(|l| l > limit) {
            continue;
        }
        if tree.is_root(label.point) {
            found.push(Route {
                edges: search.sequence(index),
                root: label.point,
                cost: label.cost,
                latency: label.latency,
            });
            // what follows costs at least as much, so it must be quicker
            match (wanted, label.latency.checked_sub(1)) {
                (Wanted::Front(limits), Some(less)) => {
                    limit = less;
                    if found.len() == 1 {
                        let latency = i64::try_from(label.latency).unwrap_or(i64::MAX);
                        let saved = limits.slope.map(|(each, more)| each.saturating_mul(latency).saturating_add(more));
                        let more = saved.unwrap_or(i64::MAX).min(limits.extra.unwrap_or(i64::MAX));
                        search.most = label.cost.saturating_add(more);
                    }
                }
                _ => break,
            }
            continue;
        }
        for &edge in net.on_from(label.point, ask.walk) {
            if !ask.takes(net, edge) {
                continue;
            }
            let e = &net.edges[edge as usize];
            let (Some(cost), Some(latency)) =
                (label.cost.checked_add(ask.price.of(e)), label.latency.checked_add(e.latency))
            else {
                continue;
            };
            search.push(net.end(edge, ask.walk), index, edge, limit, (cost, label.links + 1, latency));
        }
    }
    if let Some(labels) = ask.labels {
        labels.set(labels.get().saturating_add(search.work()));
    }
    (found, all)
}

struct Search<'a> {
    net: &'a Network,
    ask: &'a Ask<'a>,
    tree: &'a Tree,
    labels: Vec<Label>,
    /// By point, the latest label there.
    at: Vec<u32>,
    heap: BinaryHeap<Reverse<Key>>,
    /// Whether latency decides anything.
    timed: bool,
    /// What a whole path may cost.
    most: i64,
    /// Labels that new ones were compared with.
    compared: u64,
}

impl Search<'_> {
    /// In labels.
    fn work(&self) -> u64 {
        self.labels.len() as u64 + self.compared / COMPARED
    }

    /// Adds a label unless one at the same point is as good in everything; of equals the smaller link ids stay.
    fn push(&mut self, point: u32, parent: u32, edge: u32, limit: u64, (cost, links, latency): (i64, u32, u64)) {
        let Some((estimate, links_left)) = self.estimate(point, limit, cost, latency) else { return };
        let index = self.labels.len() as u32;
        let mut replaced = None;
        let before = self.at[point as usize];
        let mut next = before;
        while next != NONE {
            let other = next;
            self.compared += 1;
            let known = &self.labels[other as usize];
            next = known.before;
            // where latency decides nothing, no label is kept for it
            if known.beaten || (self.timed && known.latency > latency) {
                continue;
            }
            match (known.cost, known.links).cmp(&(cost, links)) {
                Ordering::Less => return,
                Ordering::Equal if self.timed && known.latency < latency => return,
                Ordering::Equal => {
                    self.labels.push(Label { point, parent, edge, cost, links, latency, beaten: false, before });
                    let smaller = self.sequence(index) < self.sequence(other);
                    self.labels.pop();
                    if !smaller {
                        return;
                    }
                    replaced = Some(other);
                }
                Ordering::Greater => {}
            }
        }
        if let Some(other) = replaced {
            self.labels[other as usize].beaten = true;
        }
        self.labels.push(Label { point, parent, edge, cost, links, latency, beaten: false, before });
        self.at[point as usize] = index;
        self.heap.push(Reverse((estimate, links + links_left, links, index)));
    }

    /// (cost of the whole path, links that remain) at the least; `None`: no way on ends well within the limit.
    fn estimate(&self, point: u32, limit: u64, cost: i64, latency: u64) -> Option<(i64, u32)> {
        let (cost_left, links_left) = self.tree.cheapest(self.net, self.ask, point)?;
        let estimate = cost.checked_add(cost_left).filter(|e| *e <= self.most)?;
        latency.checked_add(self.left(point)?).filter(|l| *l <= limit)?;
        Some((estimate, links_left))
    }

    /// Latency that remains from a point at the least; where no bound is set and only the price counts, none.
    fn left(&self, point: u32) -> Option<u64> {
        if self.timed { self.tree.quickest(self.net, self.ask, point) } else { Some(0) }
    }

    /// The label's edges in the path's own order.
    fn sequence(&self, index: u32) -> Vec<u32> {
        let mut edges = Vec::new();
        let mut label = &self.labels[index as usize];
        while label.parent != NONE {
            edges.push(label.edge);
            label = &self.labels[label.parent as usize];
        }
        if self.ask.walk == Direction::Along {
            edges.reverse();
        }
        debug_assert!(edges.len() <= self.net.points());
        edges
    }
}

/// Up to `most` loop-free paths by (cost, links), cheapest first, and whether these are all that cost at most `extra` more
/// than the cheapest. Opens at most `open` labels.
pub(crate) fn alternatives(
    net: &Network,
    ask: &Ask,
    tree: &Tree,
    start: u32,
    bound: Option<u64>,
    (most, open, extra): (usize, usize, Option<i64>),
) -> (Vec<Route>, bool) {
    let limit = bound.unwrap_or(u64::MAX);
    let mut found = Vec::new();
    let mut search = Search {
        net,
        ask,
        tree,
        labels: Vec::new(),
        at: Vec::new(),
        heap: BinaryHeap::new(),
        timed: bound.is_some(),
        most: i64::MAX,
        compared: 0,
    };
    search.push_any(start, NONE, NONE, limit, (0, 0, 0));
    let mut opened = 0;
    while let Some(Reverse((estimate, .., index))) = search.heap.pop() {
        if estimate > search.most {
            break;
        }
        let label = search.labels[index as usize];
        if tree.is_root(label.point) {
            if found.len() == most {
                return (found, false);
            }
            // the tree may know of cheaper paths that do not carry the rate, so only the first path tells the least
            if let (true, Some(extra)) = (found.is_empty(), extra) {
                search.most = label.cost.saturating_add(extra);
            }
            found.push(Route {
                edges: search.sequence(index),
                root: label.point,
                cost: label.cost,
                latency: label.latency,
            });
            continue;
        }
        opened += 1;
        if opened > open {
            return (found, false);
        }
        for &edge in net.on_from(label.point, ask.walk) {
            let next = net.end(edge, ask.walk);
            if !ask.takes(net, edge) || search.passed(index, next) {
                continue;
            }
            let e = &net.edges[edge as usize];
            if let (Some(cost), Some(latency)) =
                (label.cost.checked_add(ask.price.of(e)), label.latency.checked_add(e.latency))
            {
                search.push_any(next, index, edge, limit, (cost, label.links + 1, latency));
            }
        }
    }
    (found, true)
}

impl Search<'_> {
    fn push_any(&mut self, point: u32, parent: u32, edge: u32, limit: u64, (cost, links, latency): (i64, u32, u64)) {
        let Some((estimate, links_left)) = self.estimate(point, limit, cost, latency) else { return };
        let index = self.labels.len() as u32;
        self.labels.push(Label { point, parent, edge, cost, links, latency, beaten: false, before: NONE });
        self.heap.push(Reverse((estimate, links + links_left, links, index)));
    }

    fn passed(&self, index: u32, point: u32) -> bool {
        let mut label = &self.labels[index as usize];
        loop {
            if label.point == point {
                return true;
            }
            if label.parent == NONE {
                return false;
            }
            label = &self.labels[label.parent as usize];
        }
    }
}

#[cfg(test)]
mod tests;
