//! A whole demand matrix on one network: routes for every demand that keep the fullest link as empty as possible.
//!
//! Amounts and capacities are integers of the matrix's own unit (kbit/s, or whatever the figures are in); utilisation is
//! load over capacity. `split` lets a demand use several paths (a multi-commodity flow, solved to a proved gap);
//! `unsplit` gives each demand one path. Effort is a number of rounds, so the same matrix has the same answer everywhere;
//! points, arcs and demands are first put into an order of their own, so the order in which they came has no say.

mod bound;
mod descent;
mod measure;
mod split;
mod tree;
mod unsplit;

pub use split::{SplitEffort, split};
pub use unsplit::{UnsplitEffort, unsplit};

use std::collections::BTreeMap;

/// Traffic in the matrix's own unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Traffic(pub u64);

/// Load over capacity, in billionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Utilisation {
    pub billionths: u64,
}

impl Utilisation {
    /// For people and JSON.
    pub fn ratio(self) -> f64 {
        self.billionths as f64 / 1e9
    }

    /// Rounded down; with the leading 97 bits of the load, which may be huge.
    fn at_least(load: u128, capacity: u128) -> Self {
        let drop = 31_u32.saturating_sub(load.leading_zeros());
        let capacity = (capacity >> drop) + u128::from(drop > 0);
        Self::of(((load >> drop) * BILLION).checked_div(capacity))
    }

    /// Rounded up. `load` is below 2^97.
    fn at_most(load: u128, capacity: u128) -> Self {
        Self::of((load * BILLION + capacity.saturating_sub(1)).checked_div(capacity))
    }

    fn of(billionths: Option<u128>) -> Self {
        Self { billionths: billionths.and_then(|b| u64::try_from(b).ok()).unwrap_or(u64::MAX) }
    }
}

const BILLION: u128 = 1_000_000_000;

/// A directed link. Parallel arcs stay apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arc {
    pub from: String,
    pub to: String,
    pub capacity: Traffic,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    pub from: String,
    pub to: String,
    pub amount: Traffic,
}

/// A network with what is to be carried, checked.
#[derive(Debug, Clone)]
pub struct Matrix {
    points: usize,
    arcs: Vec<Edge>,
    /// Arcs leaving each point, ascending.
    leaving: Vec<Vec<u32>>,
    /// Routable demands between different points with an amount, in canonical order.
    wanted: Vec<Want>,
    demands: usize,
    unrouted: Vec<usize>,
    widest: Utilisation,
    /// Index in the input by canonical arc.
    given: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    from: u32,
    to: u32,
    capacity: u64,
}

#[derive(Debug, Clone, Copy)]
struct Want {
    from: u32,
    to: u32,
    amount: u64,
    /// Index in the input.
    given: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatrixError {
    #[error("{what} {index} names \"{point}\", which is no point of the network: add the point or correct the name")]
    Point { what: &'static str, index: usize, point: String },
    #[error("point \"{point}\" is named twice: name each point once")]
    Twice { point: String },
    #[error("arc {index} has a capacity of 0: use more, or leave the arc out")]
    Capacity { index: usize },
    #[error("{what} add up to more than 2^56 units: use a coarser unit")]
    Range { what: &'static str },
}

/// The sum of amounts, and of capacities: a utilisation bound sums products of these with path lengths below 2^60.
const LARGEST_SUM: u64 = 1 << 56;

impl Matrix {
    pub fn new(points: &[String], arcs: &[Arc], demands: &[Demand]) -> Result<Self, MatrixError> {
        let mut names: Vec<&String> = points.iter().collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(MatrixError::Twice { point: pair[0].clone() });
        }
        let ordinals: BTreeMap<&str, u32> = names.iter().zip(0..).map(|(name, i)| (name.as_str(), i)).collect();
        let find = |what, index, point: &String| {
            let found = ordinals.get(point.as_str()).copied();
            found.ok_or_else(|| MatrixError::Point { what, index, point: point.clone() })
        };
        let mut edges = Vec::with_capacity(arcs.len());
        for (index, arc) in arcs.iter().enumerate() {
            let (from, to) = (find("arc", index, &arc.from)?, find("arc", index, &arc.to)?);
            if arc.capacity.0 == 0 {
                return Err(MatrixError::Capacity { index });
            }
            // no route uses an arc that leads nowhere else
            if from != to {
                edges.push((Edge { from, to, capacity: arc.capacity.0 }, index));
            }
        }
        edges.sort_unstable();
        let mut wanted = Vec::with_capacity(demands.len());
        for (given, demand) in demands.iter().enumerate() {
            let (from, to) = (find("demand", given, &demand.from)?, find("demand", given, &demand.to)?);
            if from != to && demand.amount.0 > 0 {
                wanted.push(Want { from, to, amount: demand.amount.0, given });
            }
        }
        wanted.sort_unstable_by_key(|w| (w.from, w.to, w.amount, w.given));
        for (what, sum) in [
            ("capacities", edges.iter().try_fold(0_u64, |sum, (e, _)| sum.checked_add(e.capacity))),
            ("demands", wanted.iter().try_fold(0_u64, |sum, w| sum.checked_add(w.amount))),
        ] {
            if sum.is_none_or(|sum| sum > LARGEST_SUM) {
                return Err(MatrixError::Range { what });
            }
        }
        let mut leaving = vec![Vec::new(); points.len()];
        for ((edge, _), i) in edges.iter().zip(0..) {
            leaving[edge.from as usize].push(i);
        }
        let mut matrix = Self {
            points: points.len(),
            given: edges.iter().map(|(_, given)| *given).collect(),
            arcs: edges.into_iter().map(|(edge, _)| edge).collect(),
            leaving,
            wanted,
            demands: demands.len(),
            unrouted: Vec::new(),
            widest: Utilisation::default(),
        };
        matrix.leave_out_unreachable();
        Ok(matrix)
    }

    /// Sets apart demands without any path, and finds what the worst single demand does to its widest path.
    fn leave_out_unreachable(&mut self) {
        let mut widths = BTreeMap::new();
        let mut kept = Vec::with_capacity(self.wanted.len());
        for want in std::mem::take(&mut self.wanted) {
            let width = widths.entry(want.from).or_insert_with(|| tree::widths(self, want.from))[want.to as usize];
            if width == 0 {
                self.unrouted.push(want.given);
            } else {
                self.widest = self.widest.max(Utilisation::at_most(want.amount.into(), width.into()));
                kept.push(want);
            }
        }
        self.unrouted.sort_unstable();
        self.wanted = kept;
    }

    /// Demands given.
    pub fn demands(&self) -> usize {
        self.demands
    }

    /// Demands without any path, by index: routings leave them out.
    pub fn unrouted(&self) -> &[usize] {
        &self.unrouted
    }

    /// No routing on single paths does better: the largest ratio of one demand to the width of its widest path.
    pub fn largest_demand_over_widest_path(&self) -> Utilisation {
        self.widest
    }
}

/// Routes for every demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routing {
    pub max_utilisation: Utilisation,
    /// No routing of the kind asked for is below this.
    pub lower_bound: Utilisation,
    /// By demand as given; no path for one that is unrouted, empty or within one point.
    pub paths: Vec<Vec<Share>>,
    /// Rounds over all demands that were spent.
    pub rounds: u32,
}

/// What one path of a demand carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Arcs in order, by index as given.
    pub arcs: Vec<usize>,
    /// In units of the matrix divided by `parts`: shares of a demand sum to its amount times `parts`.
    pub carried: u128,
    pub parts: u64,
}
