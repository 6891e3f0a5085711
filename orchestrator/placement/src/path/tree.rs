//! Distances of every point to a set of roots: worked out once, and mended where a link comes or goes.

use super::{Ask, queue::Queue};
use crate::network::{Direction, Hop, Network};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Arc, OnceLock},
};

/// Distance of every point to the nearest root, walking as the ask says.
#[derive(Debug)]
pub(crate) struct Tree {
    cheapest: OnceLock<Arc<[Far]>>,
    quickest: OnceLock<Arc<[Far]>>,
    roots: Box<[u32]>,
    /// What the links of the tree carry: at most what those that use it ask.
    kbps: u64,
}

/// A distance: what counts, and below it the links of the way, so that of equals the way with fewer links is nearer and
/// each link leads farther.
pub(super) type Far = u128;

/// No way.
const NEVER: Far = Far::MAX >> 32;

/// Bits for the number of links.
const LINKS: u32 = 32;

fn far(measure: u64) -> Far {
    Far::from(measure) << LINKS
}

pub(super) fn measure(far: Far) -> u64 {
    (far >> LINKS) as u64
}

/// Distances as they were, and where they are others now.
type Mended<'t> = Option<(&'t Arc<[Far]>, Option<Vec<Far>>)>;

/// Links that a tree was made with and that are no longer there, and the other way round.
#[derive(Debug, Clone, Default)]
pub(crate) struct Passing {
    pub gone: Vec<u32>,
    pub came: Vec<u32>,
}

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

    /// The same tree over the links that the ask takes, which differ by those that came and went. `None`: it is as it was.
    pub fn mended(&self, net: &Network, ask: &Ask, passing: &Passing) -> Option<Self> {
        let price = |hop: &Hop| hop.price(ask.price) as u64;
        let latency = |hop: &Hop| hop.latency;
        let cheapest = self.cheapest.get().map(|old| (old, mend(net, ask, old, passing, price)));
        let quickest = self.quickest.get().map(|old| (old, mend(net, ask, old, passing, latency)));
        let same = |mended: &Mended| mended.as_ref().is_none_or(|(_, new)| new.is_none());
        if same(&cheapest) && same(&quickest) && self.kbps == ask.kbps {
            return None;
        }
        let kept = |mended: Mended| match mended {
            Some((old, new)) => OnceLock::from(new.map_or_else(|| Arc::clone(old), Into::into)),
            None => OnceLock::new(),
        };
        Some(Self { cheapest: kept(cheapest), quickest: kept(quickest), roots: self.roots.clone(), kbps: ask.kbps })
    }

    fn all<'t>(
        &self,
        known: &'t OnceLock<Arc<[Far]>>,
        net: &Network,
        ask: &Ask,
        step: u64,
        of: impl Fn(&Hop) -> u64,
    ) -> &'t [Far] {
        known.get_or_init(|| {
            let ask = Ask { kbps: self.kbps, ..*ask };
            let roots = self.roots.iter().map(|r| (*r, 0));
            distances(net, &ask, roots, |_, _| u64::MAX, step, of).into()
        })
    }

    /// (price, links) of the cheapest way from `point`; `ask` is the one that the tree was made with, but for its rate.
    pub fn cheapest(&self, net: &Network, ask: &Ask, point: u32) -> Option<(i64, u32)> {
        let step = net.typical(ask.price);
        let far = self.all(&self.cheapest, net, ask, step, |hop| hop.price(ask.price) as u64)[point as usize];
        (far != NEVER).then_some((measure(far) as i64, far as u32))
    }

    /// Latency of the quickest way from `point`, in microseconds.
    pub fn quickest(&self, net: &Network, ask: &Ask, point: u32) -> Option<u64> {
        let far = self.all(&self.quickest, net, ask, net.typical_latency(), |hop| hop.latency)[point as usize];
        (far != NEVER).then_some(measure(far))
    }

    pub fn is_root(&self, point: u32) -> bool {
        self.roots.contains(&point)
    }
}

/// For every point the least of: a root's own cost, and the way to it at `weight` for a unit of price, shifted up by 32
/// bits and rounded down link by link. Costs above `limit` may come out as anything from it up. `i64::MAX`: no way.
/// The limit may become lower with every point: each is told with its cost, the nearest first; the last limit counts.
pub(crate) fn potential(
    net: &Network,
    ask: &Ask,
    roots: &[(u32, i64)],
    weight: u64,
    mut limit: impl FnMut(Option<u32>, i64) -> i64,
) -> Vec<i64> {
    let price = |hop: &Hop| {
        let price = u128::from(hop.price(ask.price) as u64);
        u64::try_from((price * u128::from(weight)) >> 32).unwrap_or(u64::MAX)
    };
    let limit = |point: Option<u32>, cost: u64| limit(point, cost as i64).max(0) as u64;
    let near = roots.iter().map(|(point, cost)| (*point, (*cost).max(0) as u64));
    let step = u64::try_from((u128::from(net.typical(ask.price)) * u128::from(weight)) >> 32).unwrap_or(u64::MAX);
    let mut limit = limit;
    // not more buckets than there are points
    let range = limit(None, 0).saturating_sub(roots.iter().map(|(_, cost)| (*cost).max(0) as u64).min().unwrap_or(0));
    let step = step.max(if range < NEVER_FAR { range / 256 } else { 0 });
    let all = distances(net, ask, near, limit, step, price);
    all.into_iter().map(|far| i64::try_from(measure(far)).unwrap_or(i64::MAX)).collect()
}

/// A limit beyond which there is no limit.
const NEVER_FAR: u64 = u64::MAX >> 4;

/// Distances from the roots and their first distances, against the walk. Distances above `limit` may be too short, but
/// not below it. A sum that overflows is no way. `step`: what one link adds, more or less.
fn distances(
    net: &Network,
    ask: &Ask,
    roots: impl Iterator<Item = (u32, u64)>,
    mut limit: impl FnMut(Option<u32>, u64) -> u64,
    step: u64,
    of: impl Fn(&Hop) -> u64,
) -> Vec<Far> {
    let mut best: Vec<Far> = vec![NEVER; net.points()];
    let mut queue = Queue::new(step);
    let mut beyond = false;
    let most = limit(None, 0);
    for (root, cost) in roots {
        let cost = far(cost);
        if cost < best[root as usize] {
            best[root as usize] = cost;
            // what lies beyond the limit leads nowhere
            if measure(cost) <= most {
                queue.push(cost, root);
            } else {
                beyond = true;
            }
        }
    }
    let back = ask.walk.reverse();
    let mut most = most;
    while let Some((distance, point)) = queue.pop() {
        if best[point as usize] != distance {
            continue;
        }
        most = limit(Some(point), measure(distance));
        if measure(distance) > most {
            // what is not settled is about as far
            beyond = true;
            continue;
        }
        for hop in net.hops(point, back) {
            if hop.free < ask.kbps || !ask.allowed[hop.edge as usize] {
                continue;
            }
            let Some(d) = longer(distance, of(hop)) else { continue };
            if d < best[hop.end as usize] {
                best[hop.end as usize] = d;
                // an end that only leads back brings nobody nearer
                if measure(d) > most {
                    beyond = true;
                } else if !net.is_end(hop.end) {
                    queue.push(d, hop.end);
                }
            }
        }
    }
    if beyond {
        best.iter_mut().filter(|d| measure(**d) > most).for_each(|d| *d = far(most));
    }
    best
}

/// What a scan goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Price,
    Latency,
}

/// Points by their distance from a root, the nearest first; walking as the ask says, towards the root.
pub(crate) struct Scan<'n> {
    net: &'n Network,
    ask: Ask<'n>,
    by: By,
    best: Vec<Far>,
    heap: BinaryHeap<Reverse<u128>>,
}

impl<'n> Scan<'n> {
    pub fn new(net: &'n Network, ask: Ask<'n>, root: u32, by: By) -> Self {
        let mut best: Vec<Far> = vec![NEVER; net.points()];
        best[root as usize] = far(0);
        Self { net, ask, by, best, heap: BinaryHeap::from([Reverse(entry(far(0), root))]) }
    }
}

impl Iterator for Scan<'_> {
    type Item = (u32, u64);

    fn next(&mut self) -> Option<(u32, u64)> {
        loop {
            let Reverse(next) = self.heap.pop()?;
            let (distance, point) = (next >> 32, next as u32);
            if self.best[point as usize] != distance {
                continue;
            }
            for hop in self.net.hops(point, self.ask.walk.reverse()) {
                if hop.free < self.ask.kbps || !self.ask.allowed[hop.edge as usize] {
                    continue;
                }
                let step = if self.by == By::Price { hop.price(self.ask.price) as u64 } else { hop.latency };
                if let Some(d) = longer(distance, step).filter(|d| *d < self.best[hop.end as usize]) {
                    self.best[hop.end as usize] = d;
                    self.heap.push(Reverse(entry(d, hop.end)));
                }
            }
            return Some((point, measure(distance)));
        }
    }
}

fn entry(far: Far, point: u32) -> u128 {
    (far << 32) | u128::from(point)
}

/// Spreads the distances in the heap.
fn settle(net: &Network, ask: &Ask, best: &mut [Far], mut heap: BinaryHeap<Reverse<u128>>, of: impl Fn(&Hop) -> u64) {
    let back = ask.walk.reverse();
    while let Some(Reverse(next)) = heap.pop() {
        let (distance, point) = (next >> 32, next as u32);
        if best[point as usize] != distance {
            continue;
        }
        for hop in net.hops(point, back) {
            if hop.free < ask.kbps || !ask.allowed[hop.edge as usize] {
                continue;
            }
            if let Some(d) = longer(distance, of(hop)).filter(|d| *d < best[hop.end as usize]) {
                best[hop.end as usize] = d;
                heap.push(Reverse(entry(d, hop.end)));
            }
        }
    }
}

fn longer(distance: Far, by: u64) -> Option<Far> {
    let sum = measure(distance).checked_add(by).filter(|sum| i64::try_from(*sum).is_ok())?;
    Some(far(sum) | Far::from(distance as u32 + 1))
}

/// Distances over links that differ by those that came and went (Ramalingam and Reps, 1996): only points whose nearest way
/// is lost are worked out again. `None`: all stay.
fn mend(net: &Network, ask: &Ask, old: &[Far], passing: &Passing, of: impl Fn(&Hop) -> u64 + Copy) -> Option<Vec<Far>> {
    let back = ask.walk.reverse();
    let takes = |hop: &Hop| hop.free >= ask.kbps && ask.allowed[hop.edge as usize];
    let ends = |edge: u32| match ask.walk {
        Direction::Along => (net.edges[edge as usize].to, net.edges[edge as usize].from),
        Direction::Against => (net.edges[edge as usize].from, net.edges[edge as usize].to),
    };
    let over = |all: &[Far], edge: u32, near: u32| -> Option<Far> {
        let hop = net.hops(near, back).iter().find(|hop| hop.edge == edge)?;
        (all[near as usize] != NEVER).then(|| longer(all[near as usize], of(hop))).flatten()
    };
    let mut lost: BinaryHeap<Reverse<u128>> = BinaryHeap::new();
    for edge in passing.gone.iter().filter(|e| ask.allowed[**e as usize]) {
        let (near, end) = ends(*edge);
        if over(old, *edge, near).is_some_and(|d| d == old[end as usize]) {
            lost.push(Reverse(entry(old[end as usize], end)));
        }
    }
    let came = || passing.came.iter().filter(|e| ask.allowed[**e as usize]).map(|e| (*e, ends(*e)));
    if lost.is_empty() && !came().any(|(e, (near, end))| over(old, e, near).is_some_and(|d| d < old[end as usize])) {
        return None;
    }
    let mut all: Vec<Far> = old.to_vec();
    // each link leads farther, so the nearest are told first; one is lost when no link holds it any more
    let mut gone: Vec<u32> = Vec::new();
    while let Some(Reverse(next)) = lost.pop() {
        let (distance, point) = (next >> 32, next as u32);
        if all[point as usize] != distance {
            continue;
        }
        let holds = |hop: &Hop| {
            takes(hop) && all[hop.end as usize] != NEVER && longer(all[hop.end as usize], of(hop)) == Some(distance)
        };
        if net.hops(point, ask.walk).iter().any(holds) {
            continue;
        }
        all[point as usize] = NEVER;
        gone.push(point);
        for hop in net.hops(point, back).iter().filter(|hop| takes(hop)) {
            if longer(distance, of(hop)) == Some(old[hop.end as usize]) {
                lost.push(Reverse(entry(old[hop.end as usize], hop.end)));
            }
        }
    }
    let mut nearer: Vec<(Far, u32)> = Vec::new();
    for point in &gone {
        let ways = net.hops(*point, ask.walk).iter().filter(|hop| takes(hop) && all[hop.end as usize] != NEVER);
        if let Some(least) = ways.filter_map(|hop| longer(all[hop.end as usize], of(hop))).min() {
            nearer.push((least, *point));
        }
    }
    nearer.extend(came().filter_map(|(e, (near, end))| Some((over(&all, e, near)?, end))));
    let mut heap: BinaryHeap<Reverse<u128>> = BinaryHeap::new();
    for (d, point) in nearer {
        if d < all[point as usize] {
            all[point as usize] = d;
            heap.push(Reverse(entry(d, point)));
        }
    }
    settle(net, ask, &mut all, heap, of);
    Some(all)
}
