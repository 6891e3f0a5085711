//! Path search on edges: exact label setting over (cost, links, latency), parallel links apart.
//!
//! A `Tree` holds, for every point, the cheapest and the quickest way to a set of roots. With it as an exact estimate of
//! what remains, a search from one point opens only labels that can still end well: `routes` gives all loop-free paths
//! to the roots that no other path beats in cost and latency, cheapest first.

use crate::network::{Direction, Network, Price};
use std::{
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
}

impl Ask<'_> {
    fn takes(&self, net: &Network, edge: u32) -> bool {
        self.allowed[edge as usize] && net.edges[edge as usize].free >= self.kbps
    }
}

/// Distance of every point to the nearest root, walking as the ask says.
#[derive(Debug)]
pub(crate) struct Tree {
    /// (price, links) of the cheapest way, fewest links on a tie.
    pub cheapest: Vec<Option<(i128, u32)>>,
    /// Latency of the quickest way, in microseconds.
    pub quickest: Vec<Option<u64>>,
}

impl Tree {
    pub fn new(net: &Network, ask: &Ask, roots: &[u32]) -> Self {
        let cheapest = distances(net, ask, roots, (0_i128, 0_u32), |(cost, links), edge| {
            Some((cost.checked_add(ask.price.of(&net.edges[edge as usize]))?, links + 1))
        });
        let quickest =
            distances(net, ask, roots, 0_u64, |latency, edge| latency.checked_add(net.edges[edge as usize].latency));
        Self { cheapest, quickest }
    }

    fn is_root(&self, point: u32) -> bool {
        self.cheapest[point as usize].is_some_and(|(_, links)| links == 0)
    }
}

/// Dijkstra from the roots, against the walk. A sum that overflows is no path.
fn distances<D: Copy + Ord>(
    net: &Network,
    ask: &Ask,
    roots: &[u32],
    zero: D,
    add: impl Fn(D, u32) -> Option<D>,
) -> Vec<Option<D>> {
    let mut best: Vec<Option<D>> = vec![None; net.points()];
    let mut heap = BinaryHeap::new();
    for root in roots {
        best[*root as usize] = Some(zero);
        heap.push(Reverse((zero, *root)));
    }
    let back = ask.walk.reverse();
    while let Some(Reverse((distance, point))) = heap.pop() {
        if best[point as usize] != Some(distance) {
            continue;
        }
        for &edge in net.on_from(point, back) {
            if !ask.takes(net, edge) {
                continue;
            }
            let next = net.end(edge, back) as usize;
            if let Some(d) = add(distance, edge)
                && best[next].is_none_or(|known| d < known)
            {
                best[next] = Some(d);
                heap.push(Reverse((d, next as u32)));
            }
        }
    }
    best
}

/// A loop-free path between the start of a search and one of its roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// Edge ordinals from the path's first point to its last.
    pub edges: Vec<u32>,
    /// Where the search ended.
    pub root: u32,
    /// In the units of `Price`.
    pub cost: i128,
    /// Microseconds.
    pub latency: u64,
}

#[derive(Debug, Clone, Copy)]
struct Label {
    point: u32,
    parent: u32,
    edge: u32,
    cost: i128,
    links: u32,
    latency: u64,
    beaten: bool,
}

/// How many of the paths to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The first by (cost, links, link ids).
    Cheapest,
    /// Every one that none beats in both cost and latency.
    Front,
}

const NONE: u32 = u32::MAX;

/// Estimated (cost, links) of the whole path, then links so far: equals at one point are all known before one is opened.
type Key = (i128, u32, u32, u32);

/// Paths from `start` to the roots of `tree` with a latency of at most `bound` microseconds, by (cost, links, link ids).
pub(crate) fn routes(
    net: &Network,
    ask: &Ask,
    tree: &Tree,
    start: u32,
    bound: Option<u64>,
    wanted: Wanted,
) -> Vec<Route> {
    let mut found: Vec<Route> = Vec::new();
    let mut limit = bound.unwrap_or(u64::MAX);
    let mut search =
        Search { net, ask, tree, labels: Vec::new(), at: vec![Vec::new(); net.points()], heap: BinaryHeap::new() };
    search.push(start, NONE, NONE, limit, (0, 0, 0));
    while let Some(Reverse((.., index))) = search.heap.pop() {
        let label = search.labels[index as usize];
        let remaining = tree.quickest[label.point as usize].unwrap_or(u64::MAX);
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
                (Wanted::Front, Some(less)) => limit = less,
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
    found
}

struct Search<'a> {
    net: &'a Network,
    ask: &'a Ask<'a>,
    tree: &'a Tree,
    labels: Vec<Label>,
    at: Vec<Vec<u32>>,
    heap: BinaryHeap<Reverse<Key>>,
}

impl Search<'_> {
    /// Adds a label unless one at the same point is as good in everything; of equals the smaller link ids stay.
    fn push(&mut self, point: u32, parent: u32, edge: u32, limit: u64, (cost, links, latency): (i128, u32, u64)) {
        let (Some((cost_left, links_left)), Some(latency_left)) =
            (self.tree.cheapest[point as usize], self.tree.quickest[point as usize])
        else {
            return;
        };
        let Some(estimate) = cost.checked_add(cost_left) else { return };
        if latency.checked_add(latency_left).is_none_or(|l| l > limit) {
            return;
        }
        let index = self.labels.len() as u32;
        let mut replaced = None;
        for &other in &self.at[point as usize] {
            let known = &self.labels[other as usize];
            if known.beaten || known.latency > latency {
                continue;
            }
            match (known.cost, known.links).cmp(&(cost, links)) {
                Ordering::Less => return,
                Ordering::Equal if known.latency < latency => return,
                Ordering::Equal => {
                    self.labels.push(Label { point, parent, edge, cost, links, latency, beaten: false });
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
        self.labels.push(Label { point, parent, edge, cost, links, latency, beaten: false });
        self.at[point as usize].push(index);
        self.heap.push(Reverse((estimate, links + links_left, links, index)));
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

/// Up to `most` loop-free paths by (cost, links), cheapest first, and whether these are all. Opens at most `open` labels.
pub(crate) fn alternatives(
    net: &Network,
    ask: &Ask,
    tree: &Tree,
    start: u32,
    bound: Option<u64>,
    (most, open): (usize, usize),
) -> (Vec<Route>, bool) {
    let limit = bound.unwrap_or(u64::MAX);
    let mut found = Vec::new();
    let mut search = Search { net, ask, tree, labels: Vec::new(), at: Vec::new(), heap: BinaryHeap::new() };
    search.push_any(start, NONE, NONE, limit, (0, 0, 0));
    let mut opened = 0;
    while let Some(Reverse((.., index))) = search.heap.pop() {
        let label = search.labels[index as usize];
        if tree.is_root(label.point) {
            if found.len() == most {
                return (found, false);
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
    fn push_any(&mut self, point: u32, parent: u32, edge: u32, limit: u64, (cost, links, latency): (i128, u32, u64)) {
        let (Some((cost_left, links_left)), Some(latency_left)) =
            (self.tree.cheapest[point as usize], self.tree.quickest[point as usize])
        else {
            return;
        };
        let Some(estimate) = cost.checked_add(cost_left) else { return };
        if latency.checked_add(latency_left).is_none_or(|l| l > limit) {
            return;
        }
        let index = self.labels.len() as u32;
        self.labels.push(Label { point, parent, edge, cost, links, latency, beaten: false });
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
