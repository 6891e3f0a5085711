//! How much two points can exchange over all paths together, and the links that limit it.

use super::graph::Graph;
use petgraph::{algo::dinics, graph::DiGraph};
use rhumb_model::quantity::Bandwidth;

/// A largest flow with the cut that proves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaxFlow {
    pub value: Bandwidth,
    /// By link ordinal.
    pub carried: Vec<Bandwidth>,
    /// The full links nearest to the source that every path crosses one of, ascending: their capacities sum to the value.
    pub cut: Vec<usize>,
}

/// `usable` says which links may carry anything. Between a point and itself nothing needs to be carried: the answer is 0
/// with an empty cut, as where no path leads.
pub fn max_flow(graph: &Graph, from: usize, to: usize, usable: impl Fn(usize) -> bool) -> MaxFlow {
    let mut carried = vec![Bandwidth::ZERO; graph.edges().len()];
    if from == to || from.max(to) >= graph.points() {
        return MaxFlow { value: Bandwidth::ZERO, carried, cut: Vec::new() };
    }
    // twice the width: capacities that fit may sum to more than fits
    let mut net = DiGraph::<(), u128>::with_capacity(graph.points(), graph.edges().len());
    let nodes: Vec<_> = (0..graph.points()).map(|_| net.add_node(())).collect();
    let mut ordinals = Vec::new();
    for (i, edge) in graph.edges().iter().enumerate() {
        if usable(i) && edge.from != edge.to && !edge.capacity.is_zero() {
            net.add_edge(nodes[edge.from], nodes[edge.to], edge.capacity.kbps().into());
            ordinals.push(i);
        }
    }
    let (value, flows) = dinics(&net, nodes[from], nodes[to]);
    let fits = |kbps: u128| Bandwidth::from_kbps(u64::try_from(kbps).unwrap_or(u64::MAX));
    for (i, flow) in ordinals.iter().zip(&flows) {
        carried[*i] = fits(*flow);
    }
    // what the source still reaches: over links with room, and back over links that carry something
    let mut side = vec![false; graph.points()];
    side[from] = true;
    let mut open = vec![from];
    while let Some(point) = open.pop() {
        let on = graph.leaving(point).iter().filter(|e| usable(**e) && carried[**e] < graph.edges()[**e].capacity);
        let back = graph.entering(point).iter().filter(|e| !carried[**e].is_zero());
        let next = on.map(|e| graph.edges()[*e].to).chain(back.map(|e| graph.edges()[*e].from));
        for point in next {
            if !std::mem::replace(&mut side[point], true) {
                open.push(point);
            }
        }
    }
    let crosses = |i: &usize| side[graph.edges()[*i].from] && !side[graph.edges()[*i].to];
    MaxFlow { value: fits(value), carried, cut: ordinals.into_iter().filter(crosses).collect() }
}
