//! The cheapest path within bounds, exactly: label setting with dominance, guided by what remains at the least.

use super::graph::{Bounds, Graph, Path};
use rhumb_model::quantity::Latency;
use std::{cmp::Reverse, collections::BinaryHeap};

/// Links and points that a path must not use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Banned {
    pub edges: Vec<bool>,
    pub points: Vec<bool>,
}

impl Banned {
    pub fn none(graph: &Graph) -> Self {
        Self { edges: vec![false; graph.edges().len()], points: vec![false; graph.points()] }
    }

    fn bans(&self, edge: usize) -> bool {
        self.edges.get(edge).copied().unwrap_or(false)
    }

    fn shuts(&self, point: usize) -> bool {
        self.points.get(point).copied().unwrap_or(false)
    }
}

/// The first path by cost, links and ordinals. `None`: there is none, which is never an endless cost.
pub fn cheapest(graph: &Graph, from: usize, to: usize, bounds: Bounds, banned: &Banned) -> Option<Path> {
    if from >= graph.points() || to >= graph.points() {
        return None;
    }
    let usable = |edge: usize| {
        let e = &graph.edges()[edge];
        e.capacity >= bounds.rate && !banned.bans(edge) && !banned.shuts(e.from) && !banned.shuts(e.to)
    };
    // without a delay bound nothing farther than the start matters
    let until = bounds.latency.is_none().then_some(from);
    let left = remaining(graph, to, until, usable, |edge| graph.edges()[edge].cost.0);
    left[from]?;
    let edges = match bounds.latency {
        None => walk(graph, from, to, usable, &left),
        Some(limit) => within(graph, from, to, limit, usable, &left),
    };
    graph.path(edges?)
}

/// (sum, links) from each point to `to` at the least, by sum and then links. What is farther than `until` may be given too
/// much, never too little.
fn remaining(
    graph: &Graph,
    to: usize,
    until: Option<usize>,
    usable: impl Fn(usize) -> bool,
    figure: impl Fn(usize) -> u64,
) -> Vec<Option<(u64, u32)>> {
    let mut best: Vec<Option<(u64, u32)>> = vec![None; graph.points()];
    best[to] = Some((0, 0));
    let mut heap = BinaryHeap::from([Reverse((0_u64, 0_u32, to))]);
    while let Some(Reverse((sum, links, point))) = heap.pop() {
        if best[point] != Some((sum, links)) {
            continue;
        }
        if until == Some(point) {
            break;
        }
        for &edge in graph.entering(point).iter().filter(|e| usable(**e)) {
            // a sum that does not fit is no way
            let Some(next) = sum.checked_add(figure(edge)) else { continue };
            let at = graph.edges()[edge].from;
            if best[at].is_none_or(|known| (next, links + 1) < known) {
                best[at] = Some((next, links + 1));
                heap.push(Reverse((next, links + 1, at)));
            }
        }
    }
    best
}

/// Follows the least ordinals among the links that keep to the least remainder.
fn walk(
    graph: &Graph,
    from: usize,
    to: usize,
    usable: impl Fn(usize) -> bool,
    left: &[Option<(u64, u32)>],
) -> Option<Vec<usize>> {
    let (mut point, mut edges) = (from, Vec::new());
    while point != to {
        let (sum, links) = left[point]?;
        let next = graph.leaving(point).iter().copied().filter(|e| usable(*e)).find(|edge| {
            let e = &graph.edges()[*edge];
            left[e.to].is_some_and(|(rest, more)| Some(sum) == rest.checked_add(e.cost.0) && links == more + 1)
        })?;
        edges.push(next);
        point = graph.edges()[next].to;
    }
    Some(edges)
}

const ROOT: usize = usize::MAX;

struct Label {
    point: usize,
    parent: usize,
    edge: usize,
    cost: u64,
    links: u32,
    latency: Latency,
}

/// Labels of one search: of two at one point, one that is nowhere better is dropped.
struct Labels<'a> {
    graph: &'a Graph,
    all: Vec<Label>,
    at: Vec<Vec<usize>>,
}

impl Labels<'_> {
    fn sequence(&self, mut index: usize) -> Vec<usize> {
        let mut edges = Vec::new();
        while self.all[index].parent != ROOT {
            edges.push(self.all[index].edge);
            index = self.all[index].parent;
        }
        edges.reverse();
        edges
    }

    /// Keeps a label unless a known one is as quick and comes before it by cost, links and ordinals.
    fn keep(&mut self, label: Label) -> Option<usize> {
        let (point, own) = (label.point, (label.cost, label.links));
        let index = self.all.len();
        self.all.push(label);
        let mut sequence = None;
        for &other in &self.at[point] {
            let known = &self.all[other];
            if known.latency > self.all[index].latency {
                continue;
            }
            let before = match (known.cost, known.links).cmp(&own) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Greater => false,
                std::cmp::Ordering::Equal => {
                    let sequence = sequence.get_or_insert_with(|| self.sequence(index));
                    self.sequence(other) <= *sequence
                }
            };
            if before {
                self.all.pop();
                return None;
            }
        }
        self.at[point].push(index);
        Some(index)
    }
}

/// Under a delay bound.
fn within(
    graph: &Graph,
    from: usize,
    to: usize,
    limit: Latency,
    usable: impl Fn(usize) -> bool,
    left: &[Option<(u64, u32)>],
) -> Option<Vec<usize>> {
    let quickest = remaining(graph, to, None, &usable, |edge| graph.edges()[edge].latency.micros());
    let mut labels = Labels { graph, all: Vec::new(), at: vec![Vec::new(); graph.points()] };
    let mut heap = BinaryHeap::new();
    let estimate = |label: &Label| {
        let (cost, links) = left[label.point]?;
        let late = label.latency.micros().checked_add(quickest[label.point]?.0)? > limit.micros();
        if late { None } else { Some((label.cost.checked_add(cost)?, label.links + links)) }
    };
    let root = Label { point: from, parent: ROOT, edge: ROOT, cost: 0, links: 0, latency: Latency::ZERO };
    let key = estimate(&root)?;
    let index = labels.keep(root)?;
    heap.push(Reverse((key, index)));
    let mut found: Option<((u64, u32), Vec<usize>)> = None;
    while let Some(Reverse((key, index))) = heap.pop() {
        // paths of one cost and number of links are compared by their ordinals: all of them must be seen
        if found.as_ref().is_some_and(|(known, _)| key > *known) {
            break;
        }
        let label = &labels.all[index];
        let (point, cost, links, latency) = (label.point, label.cost, label.links, label.latency);
        if point == to {
            let edges = labels.sequence(index);
            if found.as_ref().is_none_or(|(_, known)| edges < *known) {
                found = Some((key, edges));
            }
            continue;
        }
        for &edge in labels.graph.leaving(point).iter().filter(|e| usable(**e)) {
            let e = &labels.graph.edges()[edge];
            let (Some(cost), Some(latency)) = (cost.checked_add(e.cost.0), latency.checked_add(e.latency)) else {
                continue;
            };
            let label = Label { point: e.to, parent: index, edge, cost, links: links + 1, latency };
            if let Some(key) = estimate(&label)
                && let Some(index) = labels.keep(label)
            {
                heap.push(Reverse((key, index)));
            }
        }
    }
    found.map(|(_, edges)| edges)
}
