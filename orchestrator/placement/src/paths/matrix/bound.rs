//! A lower bound of the largest utilisation, from any lengths of arcs.

use super::{Matrix, Utilisation, tree::Tree};

/// Carrying every demand costs at least its amount times the shortest length between its ends; at utilisation u the arcs
/// hold at most u times their capacity, each at its length. So u >= sum(amount x distance) / sum(capacity x length):
/// linear programming duality. Lengths are below 2^56, amounts and capacities add up to at most 2^56: no sum overflows.
pub(super) fn lower_bound(matrix: &Matrix, tree: &mut Tree, length: impl Fn(u32) -> u64) -> Utilisation {
    let mut carried = 0_u128;
    for group in matrix.wanted.chunk_by(|a, b| a.from == b.from) {
        tree.grow(matrix, group[0].from, None, &length);
        for want in group {
            carried += u128::from(want.amount) * u128::from(tree.distance[want.to as usize].min(1 << 60));
        }
    }
    let held = matrix.arcs.iter().zip(0..).map(|(arc, i)| u128::from(arc.capacity) * u128::from(length(i))).sum();
    Utilisation::at_least(carried, held)
}
