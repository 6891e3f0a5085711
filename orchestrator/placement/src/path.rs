//! Path search on edges: exact label setting over (cost, links, latency), parallel links apart.
//!
//! A `Tree` holds, for every point, the cheapest and the quickest way to a set of roots. With it as an exact estimate of
//! what remains, a search from one point opens only labels that can still end well: `routes` gives all loop-free paths
//! to the roots that no other path beats in cost and latency, cheapest first.

use crate::network::{Direction, Hop, Network, Price};
use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    sync::{Arc, OnceLock},
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
    pub fn takes(&self, net: &Network, edge: u32) -> bool {
        self.allowed[edge as usize] && net.edges[edge as usize].free >= self.kbps
    }
}

/// Distance of every point to the nearest root, walking as the ask says.
#[derive(Debug)]
pub(crate) struct Tree {
    cheapest: OnceLock<Arc<[Near]>>,
    quickest: OnceLock<Arc<[u64]>>,
    roots: Box<[u32]>,
    /// What the links of the tree carry: at most what those that use it ask.
    kbps: u64,
}

/// (price, links) of the cheapest way, fewest links on a tie; `FAR`: none.
type Near = (i64, u32);

const FAR: Near = (i64::MAX, u32::MAX);

impl Tree {
    /// Distances are worked out when they are first asked for.
    pub fn new(ask: &Ask, roots: &[u32]) -> Self {
        Self { cheapest: OnceLock::new(), quickest: OnceLock::new(), roots: roots.into(), kbps: ask.kbps }
    }

    /// The same tree where only delays have changed.
    pub fn without_latencies(&self) -> Self {
        let roots = self.roots.clone();
        Self { cheapest: self.cheapest.clone(), quickest: OnceLock::new(), roots, kbps: self.kbps }
    }

    fn nearest(&self, net: &Network, ask: &Ask) -> &[Near] {
        self.cheapest.get_or_init(|| {
            let ask = Ask { kbps: self.kbps, ..*ask };
            let zero = self.roots.iter().map(|r| (*r, (0_i64, 0_u32)));
            let near = distances(net, &ask, zero, FAR, FAR, |(cost, links), hop| {
                Some((cost.checked_add(hop.price(ask.price))?, links + 1))
            });
            near.into()
        })
    }

    fn latencies(&self, net: &Network, ask: &Ask) -> &[u64] {
        self.quickest.get_or_init(|| {
            let ask = Ask { kbps: self.kbps, ..*ask };
            let zero = self.roots.iter().map(|r| (*r, 0_u64));
            distances(net, &ask, zero, u64::MAX, u64::MAX, |latency, hop| latency.checked_add(hop.latency)).into()
        })
    }

    /// (price, links) of the cheapest way from `point`; `ask` is the one that the tree was made with, but for its rate.
    pub fn cheapest(&self, net: &Network, ask: &Ask, point: u32) -> Option<(i64, u32)> {
        let near = self.nearest(net, ask)[point as usize];
        (near != FAR).then_some(near)
    }

    /// Latency of the quickest way from `point`, in microseconds.
    pub fn quickest(&self, net: &Network, ask: &Ask, point: u32) -> Option<u64> {
        let latency = self.latencies(net, ask)[point as usize];
        (latency != u64::MAX).then_some(latency)
    }

    /// Whether a link that came or went changes what is known; `ask` has the rate of the tree.
    pub fn touched(&self, net: &Network, ask: &Ask, edge: u32, came: bool) -> bool {
        if !ask.allowed[edge as usize] {
            return false;
        }
        let e = &net.edges[edge as usize];
        let (near, far) = match ask.walk {
            Direction::Along => (e.to as usize, e.from as usize),
            Direction::Against => (e.from as usize, e.to as usize),
        };
        // a way over the link that is as short as the one known: it is that way, if the link went
        let cost = self.cheapest.get().is_some_and(|all| {
            let over = all[near].0.checked_add(ask.price.of(e)).map(|cost| (cost, all[near].1.saturating_add(1)));
            all[near] != FAR && over.is_some_and(|over| if came { over < all[far] } else { over <= all[far] })
        });
        cost || self.quickest.get().is_some_and(|all| {
            let over = all[near].checked_add(e.latency);
            over.is_some_and(|over| if came { over < all[far] } else { over <= all[far] })
        })
    }

    fn is_root(&self, point: u32) -> bool {
        self.roots.contains(&point)
    }
}

/// For every point the least of: a root's own cost, and the way to it at `weight` for a unit of price, shifted up by 32
/// bits and rounded down link by link. Costs above `limit` may come out as anything from it up. `i64::MAX`: no way.
pub(crate) fn potential(net: &Network, ask: &Ask, roots: &[(u32, i64)], weight: u64, limit: i64) -> Vec<i64> {
    distances(net, ask, roots.iter().copied(), i64::MAX, limit, |cost, hop| {
        let price = u128::from(hop.price(ask.price) as u64);
        cost.checked_add(i64::try_from((price * u128::from(weight)) >> 32).ok()?)
    })
}

/// Dijkstra from the roots and their first distances, against the walk; `far` is what no way has. Distances above `limit`
/// may be too short, but not below it. A sum that overflows is no path.
fn distances<D: Copy + Ord>(
    net: &Network,
    ask: &Ask,
    roots: impl Iterator<Item = (u32, D)>,
    far: D,
    limit: D,
    add: impl Fn(D, &Hop) -> Option<D>,
) -> Vec<D> {
    let mut best: Vec<D> = vec![far; net.points()];
    let mut first: Vec<Reverse<(D, u32)>> = Vec::new();
    for (root, cost) in roots {
        if cost < best[root as usize] {
            best[root as usize] = cost;
            first.push(Reverse((cost, root)));
        }
    }
    let mut heap = BinaryHeap::from(first);
    let back = ask.walk.reverse();
    while let Some(Reverse((distance, point))) = heap.pop() {
        if best[point as usize] != distance {
            continue;
        }
        if distance > limit {
            // what is not settled is farther than the limit, by a way that may not be known yet
            best.iter_mut().filter(|d| **d > limit).for_each(|d| *d = limit);
            break;
        }
        for hop in net.hops(point, back) {
            if hop.free < ask.kbps || !ask.allowed[hop.edge as usize] {
                continue;
            }
            if let Some(d) = add(distance, hop)
                && d < best[hop.end as usize]
            {
                best[hop.end as usize] = d;
                heap.push(Reverse((d, hop.end)));
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
    /// Every one that none beats in both cost and latency; with a limit, of those that cost no more than the cheapest, and
    /// so much for each microsecond that it takes, and so much.
    Front(Option<(i64, i64)>),
}

const NONE: u32 = u32::MAX;

/// Estimated (cost, links) of the whole path, then links so far: equals at one point are all known before one is opened.
type Key = (i64, u32, u32, u32);

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
    let mut search = Search {
        net,
        ask,
        tree,
        labels: Vec::new(),
        at: vec![NONE; net.points()],
        heap: BinaryHeap::new(),
        timed: bound.is_some() || matches!(wanted, Wanted::Front(_)),
        most: i64::MAX,
    };
    search.push(start, NONE, NONE, limit, (0, 0, 0));
    while let Some(Reverse((.., index))) = search.heap.pop() {
        let label = search.labels[index as usize];
        if label.cost > search.most {
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
                (Wanted::Front(worth), Some(less)) => {
                    limit = less;
                    if let (Some((each, more)), 1) = (worth, found.len()) {
                        let latency = i64::try_from(label.latency).unwrap_or(i64::MAX);
                        search.most = label.cost.saturating_add(each.saturating_mul(latency)).saturating_add(more);
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
    found
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
}

impl Search<'_> {
    /// Adds a label unless one at the same point is as good in everything; of equals the smaller link ids stay.
    fn push(&mut self, point: u32, parent: u32, edge: u32, limit: u64, (cost, links, latency): (i64, u32, u64)) {
        let Some((estimate, links_left)) = self.estimate(point, limit, cost, latency) else { return };
        let index = self.labels.len() as u32;
        let mut replaced = None;
        let before = self.at[point as usize];
        let mut next = before;
        while next != NONE {
            let other = next;
            let known = &self.labels[other as usize];
            next = known.before;
            if known.beaten || known.latency > latency {
                continue;
            }
            match (known.cost, known.links).cmp(&(cost, links)) {
                Ordering::Less => return,
                Ordering::Equal if known.latency < latency => return,
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
/// than the cheapest might. Opens at most `open` labels.
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
    };
    if let (Some(extra), Some((least, _))) = (extra, tree.cheapest(net, ask, start)) {
        search.most = least.saturating_add(extra);
    }
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
