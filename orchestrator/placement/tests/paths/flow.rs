use crate::world::graph;
use proptest::prelude::*;
use rhumb_model::{Bandwidth, Latency};
use rhumb_placement::paths::{Edge, Graph, Weight, flow::max_flow};

/// The least capacity of any cut, over all sides that a source's party can take.
fn least_cut(graph: &Graph, from: usize, to: usize) -> u64 {
    let sides = (0..1_u32 << graph.points()).filter(|s| s >> from & 1 == 1 && s >> to & 1 == 0);
    let crosses = |side: u32, e: &Edge| side >> e.from & 1 == 1 && side >> e.to & 1 == 0;
    let capacity = |side| graph.edges().iter().filter(|e| crosses(side, e)).map(|e| e.capacity.kbps()).sum();
    sides.map(capacity).min().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_flow_is_the_least_cut_and_the_cut_separates(graph in graph()) {
        let flow = max_flow(&graph, 0, 1, |_| true);
        prop_assert_eq!(flow.value.kbps(), least_cut(&graph, 0, 1));
        let cut: u64 = flow.cut.iter().map(|e| graph.edges()[*e].capacity.kbps()).sum();
        prop_assert_eq!(cut, flow.value.kbps());
        let left = max_flow(&graph, 0, 1, |e| !flow.cut.contains(&e));
        prop_assert_eq!(left.value, Bandwidth::ZERO);
        for point in 0..graph.points() {
            let sum = |list: &[usize]| list.iter().map(|e| flow.carried[*e].kbps()).sum::<u64>();
            let (out, into) = (sum(graph.leaving(point)), sum(graph.entering(point)));
            match point {
                0 => prop_assert_eq!(out - into, flow.value.kbps()),
                1 => prop_assert_eq!(into - out, flow.value.kbps()),
                _ => prop_assert_eq!(out, into),
            }
        }
        for (edge, carried) in graph.edges().iter().zip(&flow.carried) {
            prop_assert!(*carried <= edge.capacity);
        }
    }
}

#[test]
fn capacities_that_fit_may_sum_to_more_than_fits() {
    let edge = |from, to| Edge {
        from,
        to,
        cost: Weight(1),
        latency: Latency::ZERO,
        capacity: Bandwidth::from_kbps(u64::MAX),
        risks: vec![],
    };
    let graph = Graph::new(3, vec![edge(0, 1), edge(0, 1), edge(0, 2), edge(2, 1)]).unwrap();
    let flow = max_flow(&graph, 0, 1, |_| true);
    assert_eq!(flow.value.kbps(), u64::MAX);
    assert_eq!(flow.cut, [0, 1, 2]);
    assert_eq!(max_flow(&graph, 1, 1, |_| true).cut, Vec::<usize>::new());
}
