//! Loop-free paths one after the other, cheapest first (Yen 1971, with Lawler's partition: no path is found twice).

use super::{
    cheapest::{Banned, cheapest},
    graph::{Bounds, Graph, Path, Weight},
};
use std::collections::BTreeMap;

/// The first `k` loop-free paths by cost, then links, then ordinals; fewer where there are no more.
pub fn k_shortest(graph: &Graph, from: usize, to: usize, k: usize, bounds: Bounds) -> Vec<Path> {
    Paths::new(graph, from, to, bounds).take(k).collect()
}

/// All loop-free paths within bounds, in order, found as they are asked for.
#[derive(Debug)]
pub struct Paths<'a> {
    graph: &'a Graph,
    from: usize,
    to: usize,
    bounds: Bounds,
    waiting: BTreeMap<(Weight, usize, Vec<usize>), Branch>,
}

/// The part of all paths in which a candidate is the first: those that share its first links and then take none of some.
#[derive(Debug)]
struct Branch {
    shared: usize,
    not: Vec<usize>,
}

impl<'a> Paths<'a> {
    pub fn new(graph: &'a Graph, from: usize, to: usize, bounds: Bounds) -> Self {
        let mut paths = Self { graph, from, to, bounds, waiting: BTreeMap::new() };
        paths.branch(&[], Vec::new());
        paths
    }

    /// Puts the first path of a part among the candidates.
    fn branch(&mut self, shared: &[usize], not: Vec<usize>) {
        let mut banned = Banned::none(self.graph);
        for edge in &not {
            banned.edges[*edge] = true;
        }
        for edge in shared {
            banned.points[self.graph.edges()[*edge].from] = true;
        }
        let spur = shared.last().map_or(self.from, |edge| self.graph.edges()[*edge].to);
        let mut bounds = self.bounds;
        if let Some(limit) = bounds.latency {
            let spent = self.graph.path(shared.to_vec()).and_then(|path| limit.checked_sub(path.latency));
            let Some(rest) = spent else { return };
            bounds.latency = Some(rest);
        }
        let Some(rest) = cheapest(self.graph, spur, self.to, bounds, &banned) else { return };
        let whole = shared.iter().chain(&rest.edges).copied().collect();
        let Some(path) = self.graph.path(whole) else { return };
        let branch = Branch { shared: shared.len(), not };
        self.waiting.insert((path.cost, path.edges.len(), path.edges), branch);
    }
}

impl Iterator for Paths<'_> {
    type Item = Path;

    fn next(&mut self) -> Option<Path> {
        let ((.., edges), branch) = self.waiting.pop_first()?;
        let mut not = branch.not;
        for shared in branch.shared..edges.len() {
            not.push(edges[shared]);
            self.branch(&edges[..shared], std::mem::take(&mut not));
        }
        self.graph.path(edges)
    }
}
