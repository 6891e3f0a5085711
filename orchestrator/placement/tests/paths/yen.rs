use crate::world::{bounds, every_path, graph};
use proptest::prelude::*;
use rhumb_model::{Bandwidth, Latency};
use rhumb_placement::paths::{
    Bounds, Edge, Graph, Weight,
    cheapest::{Banned, cheapest},
    yen::{Paths, k_shortest},
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_paths_are_all_there_are_in_order(graph in graph(), bounds in bounds()) {
        let expected = every_path(&graph, 0, 1, bounds);
        let found: Vec<_> = Paths::new(&graph, 0, 1, bounds).take(expected.len() + 1).collect();
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(cheapest(&graph, 0, 1, bounds, &Banned::none(&graph)), expected.first().cloned());
        prop_assert_eq!(k_shortest(&graph, 0, 1, 3, bounds), expected.into_iter().take(3).collect::<Vec<_>>());
    }
}

/// Two carriers between the same two points are two paths, and a loop is none.
#[test]
fn parallel_links_are_paths_of_their_own_and_walks_with_loops_are_none() {
    let edge = |from, to, cost| Edge {
        from,
        to,
        cost: Weight(cost),
        latency: Latency::ZERO,
        capacity: Bandwidth::from_mbps(1),
        risks: vec![],
    };
    let graph = Graph::new(2, vec![edge(0, 1, 2), edge(1, 0, 1), edge(0, 1, 1)]).unwrap();
    let found = k_shortest(&graph, 0, 1, 5, Bounds::default());
    assert_eq!(found.iter().map(|p| p.edges.clone()).collect::<Vec<_>>(), [vec![2], vec![0]]);
    let here = k_shortest(&graph, 0, 0, 5, Bounds::default());
    assert_eq!(here.len(), 1);
    assert!(here[0].edges.is_empty());
}
