//! The view's links by dense ordinal, in the order of their ids, with prices as integers of one scale.
//!
//! The input order of links and points has no trace here: an edge's ordinal is the rank of its id.

use crate::path::{Ask, Tree};
use num_traits::{CheckedMul, ToPrimitive};
use rhumb_federation::View;
use rhumb_model::ratio::Ratio;
use std::{cell::RefCell, collections::HashMap, rc::Rc};

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
    pub index: usize,
}

/// Points keep the index they have in the view's graph.
#[derive(Debug)]
pub(crate) struct Network {
    pub edges: Vec<Edge>,
    pub scale: i128,
    leaving: Lists,
    entering: Lists,
    /// Every distinct free capacity, ascending: a rate belongs to the class of the first that carries it.
    steps: Vec<u64>,
    masks: RefCell<Vec<Rc<[bool]>>>,
    trees: RefCell<HashMap<TreeKey, Rc<Tree>>>,
}

/// A set of allowed links, by edge ordinal; equal sets have one number.
#[derive(Debug, Clone)]
pub(crate) struct Mask {
    number: usize,
    pub allowed: Rc<[bool]>,
}

/// A tree's question: mask, roots, walk, price, class of free capacity.
type TreeKey = (usize, Rc<[u32]>, Direction, Price, u64);

/// Edge ordinals by point.
#[derive(Debug, Clone)]
struct Lists {
    first: Vec<u32>,
    edges: Vec<u32>,
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
            edges.push(Edge {
                from: from.index() as u32,
                to: to.index() as u32,
                free: link.free.kbps(),
                latency: link.latency.micros(),
                per_gb,
                per_mbps_hour,
                index: index.index(),
            });
        }
        let points = view.graph.node_count();
        let leaving = Lists::new(points, edges.iter().map(|e| e.from));
        let entering = Lists::new(points, edges.iter().map(|e| e.to));
        let mut steps: Vec<u64> = edges.iter().map(|e| e.free).collect();
        steps.sort_unstable();
        steps.dedup();
        Self { edges, scale, leaving, entering, steps, masks: RefCell::default(), trees: RefCell::default() }
    }

    /// The same links with changes.
    pub fn with(&self, change: impl FnOnce(&mut [Edge])) -> Self {
        let mut edges = self.edges.clone();
        change(&mut edges);
        let mut steps: Vec<u64> = edges.iter().map(|e| e.free).collect();
        steps.sort_unstable();
        steps.dedup();
        let (leaving, entering) = (self.leaving.clone(), self.entering.clone());
        Self {
            edges,
            scale: self.scale,
            leaving,
            entering,
            steps,
            masks: RefCell::default(),
            trees: RefCell::default(),
        }
    }

    pub fn mask(&self, allowed: Vec<bool>) -> Mask {
        let mut masks = self.masks.borrow_mut();
        let number = masks.iter().position(|m| **m == *allowed).unwrap_or(masks.len());
        if number == masks.len() {
            masks.push(allowed.into());
        }
        Mask { number, allowed: Rc::clone(&masks[number]) }
    }

    /// Distances of all points to `roots`, kept as long as the network.
    pub fn tree(&self, mask: &Mask, ask: &Ask, roots: &Rc<[u32]>) -> Rc<Tree> {
        let key = (mask.number, Rc::clone(roots), ask.walk, ask.price, ask.kbps);
        let mut trees = self.trees.borrow_mut();
        Rc::clone(trees.entry(key).or_insert_with(|| Rc::new(Tree::new(self, ask, roots))))
    }

    /// Every distinct free capacity, ascending, in kbit/s.
    pub fn steps(&self) -> &[u64] {
        &self.steps
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
        self.steps.get(self.steps.partition_point(|step| *step < kbps)).copied()
    }
}

impl Lists {
    fn new(points: usize, ends: impl Iterator<Item = u32> + Clone) -> Self {
        let mut first = vec![0_u32; points + 1];
        for end in ends.clone() {
            first[end as usize + 1] += 1;
        }
        for i in 0..points {
            first[i + 1] += first[i];
        }
        let mut next = first.clone();
        let mut edges = vec![0_u32; *first.last().unwrap_or(&0) as usize];
        for (edge, end) in ends.enumerate() {
            edges[next[end as usize] as usize] = edge as u32;
            next[end as usize] += 1;
        }
        Self { first, edges }
    }

    fn of(&self, point: u32) -> &[u32] {
        &self.edges[self.first[point as usize] as usize..self.first[point as usize + 1] as usize]
    }
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
