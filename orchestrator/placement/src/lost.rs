//! What a placement makes unusable: devices that stay idle and that the policy's demand mix can no longer use.

use crate::{
    cost::rounded,
    problem::{HOUR, Problem},
    room,
    room::wants,
};
use num_traits::{CheckedDiv, CheckedMul};
use rhumb_model::ratio::Ratio;
use std::collections::BTreeMap;

/// Micro-units, rounded half up: `price` for each device made unusable, for each hour of the longest component. A site that
/// loses nothing, or gains, counts nothing. `None`: out of range.
pub(crate) fn cost(problem: &Problem, placed: &[Vec<(usize, u32)>], price: &Ratio, longest: &Ratio) -> Option<i64> {
    let mut sites: BTreeMap<usize, Vec<(usize, usize, u32)>> = BTreeMap::new();
    for (part, list) in placed.iter().enumerate() {
        for (stand, n) in list {
            sites.entry(problem.parts[part].stands[*stand].site).or_default().push((part, *stand, *n));
        }
    }
    let mut lost = 0;
    for (site, here) in sites {
        let nodes = problem.nodes(site);
        let sum = |nodes: &[rhumb_federation::FreeNodes]| -> i128 {
            nodes.iter().map(|n| problem.mix.lost(&n.shape) * i128::from(n.count)).sum()
        };
        // what does not fit together was refused before
        if let Some(left) = room::pack_by(nodes, &wants(problem, &here), &problem.mix) {
            lost += (sum(&left) - sum(nodes)).max(0);
        }
    }
    let hours = longest.checked_div(&Ratio::from_integer(HOUR))?;
    rounded(problem.mix.devices(lost).checked_mul(price)?.checked_mul(&hours)?)
}
