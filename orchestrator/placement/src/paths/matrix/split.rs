//! Demands over any number of paths: block descent on the potential, ever sharper, until the bound says near enough.

use super::{
    Matrix, Routing, Share, Utilisation,
    bound::lower_bound,
    descent::{Flow, Marks, balance},
    measure::Measure,
    tree::Tree,
};

/// How long the search goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitEffort {
    /// Ends once the utilisation is proved to be within this of the least, in parts per million of it.
    pub gap_ppm: u64,
    /// Rounds over all demands at the most.
    pub rounds: u32,
}

impl Default for SplitEffort {
    fn default() -> Self {
        Self { gap_ppm: 100, rounds: 400 }
    }
}

/// Loads use this many bits: amounts are scaled by a power of two, so that small parts of a demand are moved exactly.
const LOAD_BITS: u32 = 56;
/// Sharpness for a gap g is this many times the arcs' binary logarithm over g.
const SHARPNESS: u64 = 2;
const SHARPEST: u64 = 1 << 16;
/// Rounds between two looks at the bound.
const LOOK: u32 = 4;

/// The routing with the least largest utilisation, within the gap asked (or as near as the rounds lead).
pub fn split(matrix: &Matrix, effort: SplitEffort) -> Routing {
    let solved = solve(matrix, effort);
    let mut paths = vec![Vec::new(); matrix.demands];
    for (want, flows) in matrix.wanted.iter().zip(&solved.flows) {
        paths[want.given] = flows.iter().map(|f| share(matrix, f, 1 << solved.scale)).collect();
    }
    Routing { max_utilisation: solved.largest, lower_bound: solved.bound, paths, rounds: solved.rounds }
}

pub(super) fn share(matrix: &Matrix, flow: &Flow, parts: u64) -> Share {
    let arcs = flow.arcs.iter().map(|a| matrix.given[*a as usize]).collect();
    Share { arcs, carried: flow.carried.into(), parts }
}

pub(super) struct Solved {
    /// Flows by wanted demand.
    pub flows: Vec<Vec<Flow>>,
    pub largest: Utilisation,
    pub bound: Utilisation,
    pub rounds: u32,
    /// A unit of the matrix is 2^scale units of load.
    pub scale: u32,
}

pub(super) fn solve(matrix: &Matrix, effort: SplitEffort) -> Solved {
    let total: u64 = matrix.wanted.iter().map(|w| w.amount).sum();
    let scale = LOAD_BITS.saturating_sub(u64::BITS - total.leading_zeros());
    let mut measure = Measure::new(matrix);
    let mut flows: Vec<Vec<Flow>> = Vec::with_capacity(matrix.wanted.len());
    let (mut tree, mut path) = (Tree::default(), Vec::new());
    for group in matrix.wanted.chunk_by(|a, b| a.from == b.from) {
        tree.grow(matrix, group[0].from, None, |a| measure.length_at(a, 0));
        for want in group {
            tree.path(matrix, want.to, &mut path);
            let carried = want.amount << scale;
            for arc in &path {
                measure.load[*arc as usize] += carried;
            }
            flows.push(vec![Flow { arcs: path.clone(), carried }]);
        }
    }
    let utilisation = |(load, capacity): (u64, u64)| Utilisation::at_most(load.into(), u128::from(capacity) << scale);
    let mut best = Solved {
        largest: utilisation(measure.fullest()),
        flows: flows.clone(),
        bound: Utilisation::default(),
        rounds: 0,
        scale,
    };
    if matrix.wanted.is_empty() {
        return best;
    }
    let arcs = u64::from(u64::BITS - (matrix.arcs.len() as u64).leading_zeros());
    let mut sharpness = SHARPNESS * arcs;
    let mut marks = Marks::new(matrix.arcs.len());
    while best.rounds < effort.rounds {
        measure.refer(measure.fullest(), sharpness);
        if best.rounds.is_multiple_of(LOOK) {
            best.bound = best.bound.max(lower_bound(matrix, &mut tree, |a| measure.length(a)));
            let gap = best.largest.billionths.saturating_sub(best.bound.billionths);
            let ppm = (u128::from(gap) * 1_000_000).div_ceil(u128::from(best.largest.billionths.max(1))) as u64;
            if ppm <= effort.gap_ppm {
                break;
            }
            sharpness = sharpness.max(SHARPNESS * arcs * 1_000_000 / ppm).min(SHARPEST);
        }
        best.rounds += 1;
        let mut next = 0;
        for group in matrix.wanted.chunk_by(|a, b| a.from == b.from) {
            tree.grow(matrix, group[0].from, None, |a| measure.length(a));
            for want in group {
                tree.path(matrix, want.to, &mut path);
                balance(&mut measure, &mut marks, &mut flows[next], &path);
                next += 1;
            }
        }
        let largest = utilisation(measure.fullest());
        if largest < best.largest {
            best.largest = largest;
            best.flows.clone_from(&flows);
        }
    }
    best
}
