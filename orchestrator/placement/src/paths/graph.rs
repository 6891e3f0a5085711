//! A directed multigraph with costs, delays, capacities and shared risks.

use rhumb_model::quantity::{Bandwidth, Latency};

/// What a link costs, in a unit common to the graph. Whole and from 0 up: no other weight can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Weight(pub u64);

/// A directed link between points, which are numbers below the graph's size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    pub cost: Weight,
    pub latency: Latency,
    pub capacity: Bandwidth,
    /// Shared-risk groups by number, ascending.
    pub risks: Vec<usize>,
}

/// A link's ordinal is its place in the list that made the graph; ties go to the smaller one.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    points: usize,
    edges: Vec<Edge>,
    leaving: Vec<Vec<usize>>,
    entering: Vec<Vec<usize>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    #[error("link {edge} ends at point {point}, but there are {points} points: number them from 0")]
    Point { edge: usize, point: usize, points: usize },
}

/// What every link and the whole path must keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Of the whole path, one way.
    pub latency: Option<Latency>,
    /// Free on every link.
    pub rate: Bandwidth,
}

/// A loop-free path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    pub cost: Weight,
    /// Link ordinals in order; empty where both ends are the same point.
    pub edges: Vec<usize>,
    pub latency: Latency,
}

impl Path {
    /// Smaller is better: cost, links, ordinals.
    pub fn rank(&self) -> (Weight, usize, &[usize]) {
        (self.cost, self.edges.len(), &self.edges)
    }
}

impl Graph {
    pub fn new(points: usize, edges: Vec<Edge>) -> Result<Self, GraphError> {
        let (mut leaving, mut entering) = (vec![Vec::new(); points], vec![Vec::new(); points]);
        for (i, edge) in edges.iter().enumerate() {
            for (point, list) in [(edge.from, &mut leaving), (edge.to, &mut entering)] {
                list.get_mut(point).ok_or(GraphError::Point { edge: i, point, points })?.push(i);
            }
        }
        Ok(Self { points, edges, leaving, entering })
    }

    pub fn points(&self) -> usize {
        self.points
    }

    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Ordinals of the links that leave a point, ascending.
    pub fn leaving(&self, point: usize) -> &[usize] {
        self.leaving.get(point).map_or(&[], Vec::as_slice)
    }

    pub fn entering(&self, point: usize) -> &[usize] {
        self.entering.get(point).map_or(&[], Vec::as_slice)
    }

    /// The path along these links. `None` where they do not join, or a sum does not fit.
    pub fn path(&self, edges: Vec<usize>) -> Option<Path> {
        let (mut cost, mut latency) = (0_u64, Latency::ZERO);
        for pair in edges.windows(2) {
            (self.edges.get(pair[0])?.to == self.edges.get(pair[1])?.from).then_some(())?;
        }
        for edge in &edges {
            let edge = self.edges.get(*edge)?;
            cost = cost.checked_add(edge.cost.0)?;
            latency = latency.checked_add(edge.latency)?;
        }
        Some(Path { cost: Weight(cost), edges, latency })
    }
}
