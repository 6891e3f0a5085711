//! Two paths that do not fail together, of least total cost.
//!
//! Without a delay bound, pairs that share no link (or no point between their ends) come from two shortest augmentations
//! (Suurballe 1974; Suurballe and Tarjan 1984; Bhandari 1999). Shared-risk groups and delay bounds make the question
//! NP-hard: then Suurballe's pair is a lower bound, and where it breaks a rule each path in order of cost (Yen) takes its
//! cheapest partner, until no later path can be the cheaper one of a better pair, or the budget ends.

use super::{
    cheapest::{Banned, cheapest},
    graph::{Bounds, Edge, Graph, Path, Weight},
    yen::Paths,
};
use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

/// What the two paths must not have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Apart {
    Links,
    /// Neither a link nor a point, but for the ends.
    Points,
    /// Neither a link nor a shared-risk group.
    Risks,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The cheaper one.
    pub first: Path,
    pub second: Path,
    pub cost: Weight,
    /// No pair costs less.
    pub lower_bound: Weight,
}

impl Pair {
    /// Whether no other pair is cheaper for certain.
    pub fn proven(&self) -> bool {
        self.cost == self.lower_bound
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoPair {
    #[error(
        "no two paths are as far apart as asked within their bounds: allow more delay, or another kind of protection"
    )]
    None,
    #[error("the budget of {paths} paths ended without a pair: allow more paths")]
    Limit { paths: usize },
}

/// The cheapest pair. `budget`: paths that are tried as the cheaper one where two augmentations do not settle it.
pub fn pair(
    graph: &Graph,
    (from, to): (usize, usize),
    bounds: Bounds,
    apart: Apart,
    budget: usize,
) -> Result<Pair, NoPair> {
    if from == to {
        let path = graph.path(Vec::new()).ok_or(NoPair::None)?;
        return Ok(Pair { first: path.clone(), second: path, cost: Weight(0), lower_bound: Weight(0) });
    }
    let (first, second) = suurballe(graph, from, to, bounds, apart).ok_or(NoPair::None)?;
    let base = total(&first, &second).ok_or(NoPair::None)?;
    let quick = |path: &Path| bounds.latency.is_none_or(|limit| path.latency <= limit);
    if quick(&first) && quick(&second) && keep_apart(graph, &first, &second, apart) {
        return Ok(Pair { first, second, cost: base, lower_bound: base });
    }
    if apart == Apart::Risks && inevitable_risk(graph, (from, to), bounds).is_some() {
        return Err(NoPair::None);
    }
    let mut best: Option<Pair> = None;
    for (tried, first) in Paths::new(graph, from, to, bounds).enumerate() {
        // later paths cost at least as much, and so do their partners unless they came before
        let least = base.max(Weight(first.cost.0.saturating_mul(2)));
        if let Some(best) = best.as_mut() {
            best.lower_bound = least.min(best.cost);
            if best.proven() {
                break;
            }
        }
        if tried == budget {
            return best.ok_or(NoPair::Limit { paths: budget });
        }
        let Some(second) = cheapest(graph, from, to, bounds, &conflicts(graph, &first, apart)) else { continue };
        let Some(cost) = total(&first, &second) else { continue };
        if best.as_ref().is_none_or(|known| cost < known.cost) {
            let (first, second) = if first.rank() <= second.rank() { (first, second) } else { (second, first) };
            best = Some(Pair { first, second, cost, lower_bound: least.min(cost) });
        }
    }
    // every path was tried, or none that is left can do better
    best.map(|best| Pair { lower_bound: best.cost, ..best }).ok_or(NoPair::None)
}

/// A shared-risk group, by number, that every path within bounds has a link of.
pub fn inevitable_risk(graph: &Graph, (from, to): (usize, usize), bounds: Bounds) -> Option<usize> {
    let mut banned = Banned::none(graph);
    // what every path has, the first one has
    let path = cheapest(graph, from, to, bounds, &banned)?;
    let risks: BTreeSet<usize> = path.edges.iter().flat_map(|e| graph.edges()[*e].risks.iter().copied()).collect();
    risks.into_iter().find(|risk| {
        banned.edges = graph.edges().iter().map(|e| e.risks.contains(risk)).collect();
        cheapest(graph, from, to, bounds, &banned).is_none()
    })
}

fn total(first: &Path, second: &Path) -> Option<Weight> {
    first.cost.0.checked_add(second.cost.0).map(Weight)
}

/// What a partner of the path must not use.
fn conflicts(graph: &Graph, path: &Path, apart: Apart) -> Banned {
    let mut banned = Banned::none(graph);
    let on = path.edges.iter().map(|e| &graph.edges()[*e]);
    for edge in &path.edges {
        banned.edges[*edge] = true;
    }
    match apart {
        Apart::Links => {}
        Apart::Points => on.skip(1).for_each(|edge| banned.points[edge.from] = true),
        Apart::Risks => {
            let mut risks: Vec<usize> = on.flat_map(|edge| edge.risks.iter().copied()).collect();
            risks.sort_unstable();
            for (i, edge) in graph.edges().iter().enumerate() {
                banned.edges[i] |= edge.risks.iter().any(|risk| risks.binary_search(risk).is_ok());
            }
        }
    }
    banned
}

fn keep_apart(graph: &Graph, first: &Path, second: &Path, apart: Apart) -> bool {
    let banned = conflicts(graph, first, apart);
    let shut = second.edges.iter().skip(1).any(|e| banned.points[graph.edges()[*e].from]);
    !shut && !second.edges.iter().any(|e| banned.edges[*e])
}

/// An arc of the network that Suurballe's pair flows in: one unit over each link, and through each point where asked.
struct Unit {
    from: usize,
    to: usize,
    cost: i128,
    link: Option<usize>,
    used: bool,
}

/// The pair of least total cost that shares no link (or point), whatever its delay and risks.
fn suurballe(graph: &Graph, from: usize, to: usize, bounds: Bounds, apart: Apart) -> Option<(Path, Path)> {
    let points = graph.points();
    if from >= points || to >= points {
        return None;
    }
    // a point to keep apart is split in two, joined by one unit; links enter at its number and leave beyond `points`
    let split = apart == Apart::Points;
    let out = |point: usize| if split && point != from && point != to { point + points } else { point };
    let mut units: Vec<Unit> = Vec::with_capacity(graph.edges().len() + if split { points } else { 0 });
    let unit = |from, to, cost, link| Unit { from, to, cost, link, used: false };
    for (i, Edge { from, to, cost, capacity, .. }) in graph.edges().iter().enumerate() {
        if *capacity >= bounds.rate && from != to {
            units.push(unit(out(*from), *to, cost.0.into(), Some(i)));
        }
    }
    if split {
        units.extend((0..points).filter(|p| out(*p) != *p).map(|p| unit(p, p + points, 0, None)));
    }
    let mut touching = vec![Vec::new(); points * 2];
    for (i, unit) in units.iter().enumerate() {
        touching[unit.from].push(i);
        touching[unit.to].push(i);
    }
    let mut potential = vec![0_i128; points * 2];
    for _ in 0..2 {
        augment(&mut units, &touching, &mut potential, from, to)?;
    }
    let first = follow(graph, &mut units, &touching, from, to)?;
    let second = follow(graph, &mut units, &touching, from, to)?;
    Some(if first.rank() <= second.rank() { (first, second) } else { (second, first) })
}

/// Sends one unit along a shortest residual path. Potentials keep residual costs at 0 or more (Johnson 1977).
fn augment(units: &mut [Unit], touching: &[Vec<usize>], potential: &mut [i128], from: usize, to: usize) -> Option<()> {
    let mut distance: Vec<Option<i128>> = vec![None; potential.len()];
    let mut by = vec![usize::MAX; potential.len()];
    distance[from] = Some(0);
    let mut heap = BinaryHeap::from([Reverse((0_i128, from))]);
    while let Some(Reverse((reached, point))) = heap.pop() {
        if distance[point] != Some(reached) {
            continue;
        }
        for &i in &touching[point] {
            let unit = &units[i];
            let (next, cost) = match (unit.used, unit.from == point, unit.to == point) {
                (false, true, _) => (unit.to, unit.cost),
                (true, _, true) => (unit.from, -unit.cost),
                _ => continue,
            };
            let sum = reached + cost + potential[point] - potential[next];
            if distance[next].is_none_or(|known| sum < known) {
                distance[next] = Some(sum);
                by[next] = i;
                heap.push(Reverse((sum, next)));
            }
        }
    }
    let length = distance[to]?;
    let mut point = to;
    while point != from {
        let unit = &mut units[by[point]];
        point = if unit.used { unit.to } else { unit.from };
        unit.used = !unit.used;
    }
    for (potential, distance) in potential.iter_mut().zip(&distance) {
        // beyond the target, its distance keeps residual costs from going below 0
        *potential += distance.unwrap_or(length).min(length);
    }
    Some(())
}

/// Takes one path out of the used units; loops (which cost nothing) are left behind.
fn follow(graph: &Graph, units: &mut [Unit], touching: &[Vec<usize>], from: usize, to: usize) -> Option<Path> {
    let (mut point, mut trail) = (from, Vec::new());
    while point != to {
        let i = touching[point].iter().copied().find(|i| units[*i].used && units[*i].from == point)?;
        units[i].used = false;
        trail.push(i);
        point = units[i].to;
        if let Some(loop_start) = trail.iter().position(|i| units[*i].from == point) {
            trail.truncate(loop_start);
        }
    }
    graph.path(trail.iter().filter_map(|i| units[*i].link).collect())
}
