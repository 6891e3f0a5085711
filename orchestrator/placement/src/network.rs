//! The view's links by dense ordinal, in the order of their ids, with prices as integers of one scale.
//!
//! The input order of links and points has no trace here: an edge's ordinal is the rank of its id. A network outlives
//! one decision: what is free on a link, its delay and its age change in place, and what was worked out before is kept
//! where the change does not touch it.

use crate::{
    index::Index,
    mask::{Mask, Masks, Signature},
    path::{Ask, Tree},
    trees::Trees,
};
use num_traits::{CheckedMul, ToPrimitive};
use rhumb_federation::View;
use rhumb_model::ratio::Ratio;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A directed link.
#[derive(Debug, Clone)]
pub(crate) struct Edge {
    pub from: u32,
    pub to: u32,
    /// What may still be reserved, in kbit/s.
    pub free: u64,
    /// One way, in microseconds.
    pub latency: u64,
    /// Price per 10^9 bytes, in micro-units times `Network::scale`.
    pub per_gb: i64,
    /// Price per Mbit/s and hour, in micro-units times `Network::scale`.
    pub per_mbps_hour: i64,
    /// Index in the view's graph.
    pub index: u32,
    pub encrypted: bool,
    /// The figures are too old.
    pub stale: bool,
}

/// Points keep the index they have in the view's graph.
#[derive(Debug)]
pub(crate) struct Network {
    pub edges: Vec<Edge>,
    pub scale: i128,
    pub index: Index,
    leaving: Lists,
    entering: Lists,
    /// Ordinal by index in the view's graph; `u32::MAX` where the link is not used.
    ordinals: Vec<u32>,
    /// How many edges have each free capacity: a rate belongs to the class of the first that carries it.
    steps: BTreeMap<u64, u32>,
    /// Free capacity and ordinal of each edge.
    by_free: BTreeSet<(u64, u32)>,
    /// Points whose links all lead to one other point.
    ends: Vec<bool>,
    /// Of one link, more or less: price of a volume, of a rate, and latency.
    typical: [u64; 3],
    /// The greatest delay of one link that there has been.
    slowest: u64,
    masks: RefCell<Masks>,
    trees: RefCell<Trees>,
}

/// Edges by point, each with all that a search asks of it in one place.
#[derive(Debug, Clone)]
struct Lists {
    first: Vec<u32>,
    edges: Vec<u32>,
    hops: Vec<Hop>,
    /// By edge, its place among the hops.
    places: Vec<u32>,
}

/// An edge as a search over all points sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hop {
    pub edge: u32,
    /// The point that it leads to.
    pub end: u32,
    pub free: u64,
    pub latency: u64,
    per_mbps_hour: i64,
    volume: i64,
}

impl Hop {
    pub fn price(&self, price: Price) -> i64 {
        match price {
            Price::Volume => self.volume,
            Price::Rate => self.per_mbps_hour,
            Price::Free => 0,
        }
    }
}

/// Which end of an edge the search stands at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Direction {
    /// From an edge's `from` to its `to`.
    Along,
    Against,
}

impl Direction {
    pub fn reverse(self) -> Self {
        match self {
            Self::Along => Self::Against,
            Self::Against => Self::Along,
        }
    }
}

/// How a leg pays for a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Price {
    /// Per byte moved. A gigabyte is 8000 Mbit, held for 8000/3600 Mbps-hours at whatever rate: 1 x per_gb + 20/9 x per_mbps_hour.
    Volume,
    /// Per Mbps-hour.
    Rate,
    /// Nothing is reserved and nothing moves.
    Free,
}

impl Price {
    pub fn of(self, edge: &Edge) -> i64 {
        match self {
            Self::Volume => 9 * edge.per_gb + 20 * edge.per_mbps_hour,
            Self::Rate => edge.per_mbps_hour,
            Self::Free => 0,
        }
    }
}

/// Prices above this (of one link, scaled) leave no room for exact sums: such a link is not used. The sum over a path of
/// 2^13 links, 29 times the price each, stays below 2^63.
const PRICE_LIMIT: i64 = 1 << 45;

impl Network {
    pub fn new(view: &View) -> Self {
        let mut scale: i128 = 1;
        for link in view.graph.edge_weights() {
            for price in [&link.per_gb_micros, &link.per_mbps_hour_micros] {
                if scale % price.denom() != 0 {
                    scale = lcm(scale, *price.denom()).filter(|s| *s < 1 << 40).unwrap_or(scale);
                }
            }
        }
        let mut edges = Vec::with_capacity(view.links.len());
        let mut ordinals = vec![u32::MAX; view.graph.edge_count()];
        for index in view.links.values() {
            let (Some(link), Some((from, to))) = (view.graph.edge_weight(*index), view.graph.edge_endpoints(*index))
            else {
                continue;
            };
            let (Some(per_gb), Some(per_mbps_hour)) =
                (scaled(&link.per_gb_micros, scale), scaled(&link.per_mbps_hour_micros, scale))
            else {
                continue;
            };
            ordinals[index.index()] = edges.len() as u32;
            edges.push(Edge {
                from: from.index() as u32,
                to: to.index() as u32,
                free: link.free.kbps(),
                latency: link.latency.micros(),
                per_gb,
                per_mbps_hour,
                index: index.index() as u32,
                encrypted: link.encrypted,
                stale: link.stale,
            });
        }
        let points = view.graph.node_count();
        let leaving = Lists::new(points, &edges, Direction::Along);
        let entering = Lists::new(points, &edges, Direction::Against);
        let mut steps = BTreeMap::new();
        for edge in &edges {
            *steps.entry(edge.free).or_insert(0) += 1;
        }
        let slowest = edges.iter().map(|e| e.latency).max().unwrap_or(0);
        let by_free = (0..).zip(&edges).map(|(ordinal, edge)| (edge.free, ordinal)).collect();
        let ends = (0..points as u32).map(|p| leads_to_one(&leaving, &entering, p)).collect();
        let mean = |of: fn(&Edge) -> i64| {
            let sum = edges.iter().map(|e| i128::from(of(e))).sum::<i128>();
            u64::try_from(sum / (edges.len() as i128).max(1)).unwrap_or(0)
        };
        let typical = [mean(|e| Price::Volume.of(e)), mean(|e| Price::Rate.of(e)), mean(|e| e.latency as i64)];
        let trees = RefCell::new(Trees::new(points));
        let (masks, index) = (RefCell::default(), Index::new(view));
        Self { edges, scale, index, leaving, entering, ordinals, steps, by_free, ends, typical, slowest, masks, trees }
    }

    /// The same links with changes: what was worked out of the others is not kept.
    pub fn with(&self, change: impl FnOnce(&mut [Edge])) -> Self {
        let mut edges = self.edges.clone();
        change(&mut edges);
        let (mut steps, mut slowest) = (self.steps.clone(), self.slowest);
        let (mut leaving, mut entering) = (self.leaving.clone(), self.entering.clone());
        for ((ordinal, old), new) in (0..).zip(&self.edges).zip(&edges) {
            slowest = slowest.max(new.latency);
            step(&mut steps, old.free, new.free);
            for lists in [&mut leaving, &mut entering] {
                let hop = lists.hop(ordinal);
                (hop.free, hop.latency) = (new.free, new.latency);
            }
        }
        let by_free = (0..).zip(&edges).map(|(ordinal, edge)| (edge.free, ordinal)).collect();
        Self {
            edges,
            scale: self.scale,
            index: self.index.clone(),
            leaving,
            entering,
            ordinals: self.ordinals.clone(),
            steps,
            by_free,
            ends: self.ends.clone(),
            typical: self.typical,
            slowest,
            masks: RefCell::default(),
            trees: RefCell::new(Trees::new(self.points())),
        }
    }

    /// The links that a signature allows, worked out once.
    pub fn mask(&self, view: &View, signature: Signature) -> Mask {
        self.masks.borrow_mut().of(view, &self.edges, signature)
    }

    /// Distances of all points to `roots` over links that carry the ask's rate rounded down to a rung: never more
    /// than those over links that carry the rate itself. Kept as long as the network.
    pub fn tree(&self, mask: &Mask, ask: &Ask, roots: &[u32]) -> Arc<Tree> {
        self.trees.borrow_mut().of(self, mask, ask, roots)
    }

    /// What is free on the link of this index in the view's graph has changed.
    pub fn set_free(&mut self, index: usize, kbps: u64) {
        let Some(edge) = self.ordinal(index) else { return };
        let old = std::mem::replace(&mut self.edges[edge as usize].free, kbps);
        if old == kbps {
            return;
        }
        for lists in [&mut self.leaving, &mut self.entering] {
            lists.hop(edge).free = kbps;
        }
        step(&mut self.steps, old, kbps);
        self.by_free.remove(&(old, edge));
        self.by_free.insert((kbps, edge));
        self.trees.get_mut().free_changed(edge, old, kbps);
    }

    /// Delay or age of the link of this index in the view's graph have changed.
    pub fn set_figures(&mut self, view: &View, index: usize) {
        let Some(ordinal) = self.ordinal(index) else { return };
        let edge = &mut self.edges[ordinal as usize];
        let Some(link) = view.graph.raw_edges().get(index) else { return };
        let latency = link.weight.latency.micros();
        self.slowest = self.slowest.max(latency);
        for lists in [&mut self.leaving, &mut self.entering] {
            lists.hop(ordinal).latency = latency;
        }
        if std::mem::replace(&mut edge.latency, latency) != latency {
            self.trees.get_mut().latency_changed();
        }
        (edge.encrypted, edge.stale) = (link.weight.encrypted, link.weight.stale);
        self.masks.get_mut().changed(view, edge, ordinal);
    }

    fn ordinal(&self, index: usize) -> Option<u32> {
        self.ordinals.get(index).copied().filter(|o| *o != u32::MAX)
    }

    /// Every distinct free capacity below a rate, ascending, in kbit/s.
    pub fn steps_below(&self, kbps: u64) -> impl Iterator<Item = u64> {
        self.steps.range(..kbps).map(|(step, _)| *step)
    }

    /// Edges whose free capacity is at least the first and below the second, in kbit/s.
    pub fn between(&self, least: u64, below: u64) -> impl Iterator<Item = u32> {
        self.by_free.range((least, 0)..(below, 0)).map(|(_, edge)| *edge)
    }

    /// What one link adds to a price, more or less.
    pub fn typical(&self, price: Price) -> u64 {
        match price {
            Price::Volume => self.typical[0],
            Price::Rate => self.typical[1],
            Price::Free => 0,
        }
    }

    /// What one link adds to a latency, more or less.
    pub fn typical_latency(&self) -> u64 {
        self.typical[2]
    }

    /// Whether all links of the point lead to one other: no way passes through it.
    pub fn is_end(&self, point: u32) -> bool {
        self.ends[point as usize]
    }

    /// No loop-free path takes longer, in microseconds.
    pub fn slowest(&self) -> u64 {
        self.slowest.saturating_mul(self.points() as u64)
    }

    pub fn points(&self) -> usize {
        self.leaving.first.len() - 1
    }

    /// Ordinals of the edges that lead on from `point`.
    pub fn on_from(&self, point: u32, direction: Direction) -> &[u32] {
        match direction {
            Direction::Along => self.leaving.of(point),
            Direction::Against => self.entering.of(point),
        }
    }

    /// The edges that lead on from `point`.
    pub fn hops(&self, point: u32, direction: Direction) -> &[Hop] {
        let lists = match direction {
            Direction::Along => &self.leaving,
            Direction::Against => &self.entering,
        };
        &lists.hops[lists.range(point)]
    }

    /// The point an edge leads to.
    pub fn end(&self, edge: u32, direction: Direction) -> u32 {
        let edge = &self.edges[edge as usize];
        match direction {
            Direction::Along => edge.to,
            Direction::Against => edge.from,
        }
    }

    /// The smallest free capacity that carries `kbps`: rates of one class can take the same links. `None`: no link can.
    pub fn class(&self, kbps: u64) -> Option<u64> {
        if kbps == 0 {
            return Some(0);
        }
        self.steps.range(kbps..).next().map(|(step, _)| *step)
    }
}

/// One edge's free capacity is another.
fn step(steps: &mut BTreeMap<u64, u32>, old: u64, new: u64) {
    if old == new {
        return;
    }
    *steps.entry(new).or_insert(0) += 1;
    if let Some(count) = steps.get_mut(&old) {
        *count -= 1;
        if *count == 0 {
            steps.remove(&old);
        }
    }
}

impl Lists {
    fn new(points: usize, edges: &[Edge], direction: Direction) -> Self {
        let ends = |e: &Edge| if direction == Direction::Along { (e.from, e.to) } else { (e.to, e.from) };
        let mut first = vec![0_u32; points + 1];
        for edge in edges {
            first[ends(edge).0 as usize + 1] += 1;
        }
        for i in 0..points {
            first[i + 1] += first[i];
        }
        let mut next = first.clone();
        let mut order = vec![0_u32; edges.len()];
        let mut places = vec![0_u32; edges.len()];
        for (edge, e) in edges.iter().enumerate() {
            let place = &mut next[ends(e).0 as usize];
            order[*place as usize] = edge as u32;
            places[edge] = *place;
            *place += 1;
        }
        let hop = |edge: &u32| {
            let e = &edges[*edge as usize];
            let (per_mbps_hour, volume) = (Price::Rate.of(e), Price::Volume.of(e));
            Hop { edge: *edge, end: ends(e).1, free: e.free, latency: e.latency, per_mbps_hour, volume }
        };
        let hops = order.iter().map(hop).collect();
        Self { first, edges: order, hops, places }
    }

    fn range(&self, point: u32) -> std::ops::Range<usize> {
        self.first[point as usize] as usize..self.first[point as usize + 1] as usize
    }

    fn of(&self, point: u32) -> &[u32] {
        &self.edges[self.range(point)]
    }

    fn hop(&mut self, edge: u32) -> &mut Hop {
        &mut self.hops[self.places[edge as usize] as usize]
    }
}

fn leads_to_one(leaving: &Lists, entering: &Lists, point: u32) -> bool {
    let mut others =
        [leaving, entering].into_iter().flat_map(|lists| &lists.hops[lists.range(point)]).map(|hop| hop.end);
    let first = others.next();
    others.all(|other| Some(other) == first)
}

fn scaled(price: &Ratio, scale: i128) -> Option<i64> {
    let value = price.checked_mul(&Ratio::from_integer(scale))?;
    // a negative price would break every bound: such a link is no link
    let whole = value.is_integer().then(|| i64::try_from(value.to_integer()).ok()).flatten()?;
    (0..PRICE_LIMIT).contains(&whole).then_some(whole)
}

fn lcm(a: i128, b: i128) -> Option<i128> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x.to_i128()?).checked_mul(b)
}
