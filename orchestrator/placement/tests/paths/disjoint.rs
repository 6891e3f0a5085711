use crate::world::{bounds, every_path, graph};
use proptest::prelude::*;
use rhumb_placement::paths::{
    Bounds, Graph, Path,
    disjoint::{Apart, NoPair, pair},
};

fn apart(graph: &Graph, a: &Path, b: &Path, apart: Apart) -> bool {
    let links = a.edges.iter().all(|e| !b.edges.contains(e));
    let inner = |p: &Path| p.edges.iter().skip(1).map(|e| graph.edges()[*e].from).collect::<Vec<_>>();
    let risks = |p: &Path| p.edges.iter().flat_map(|e| graph.edges()[*e].risks.clone()).collect::<Vec<_>>();
    links
        && match apart {
            Apart::Links => true,
            Apart::Points => inner(a).iter().all(|p| !inner(b).contains(p)),
            Apart::Risks => risks(a).iter().all(|r| !risks(b).contains(r)),
        }
}

fn least(graph: &Graph, bounds: Bounds, kind: Apart) -> Option<u64> {
    let paths = every_path(graph, 0, 1, bounds);
    let pairs = paths.iter().flat_map(|a| paths.iter().map(move |b| (a, b)));
    pairs.filter(|(a, b)| apart(graph, a, b, kind)).map(|(a, b)| a.cost.0 + b.cost.0).min()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_pair_is_the_cheapest_of_all_pairs(graph in graph(), bounds in bounds()) {
        for kind in [Apart::Links, Apart::Points, Apart::Risks] {
            let expected = least(&graph, bounds, kind);
            match pair(&graph, (0, 1), bounds, kind, 1_000) {
                Ok(found) => {
                    prop_assert_eq!(Some(found.cost.0), expected, "{:?}", kind);
                    prop_assert!(found.proven());
                    prop_assert!(apart(&graph, &found.first, &found.second, kind));
                    prop_assert!(found.first.rank() <= found.second.rank());
                    let all = every_path(&graph, 0, 1, bounds);
                    prop_assert!(all.contains(&found.first) && all.contains(&found.second));
                }
                Err(none) => prop_assert_eq!((expected, none), (None, NoPair::None), "{:?}", kind),
            }
        }
    }

    /// A budget that ends early never claims what it has not proved, and its bound holds.
    #[test]
    fn a_short_budget_is_honest(graph in graph(), bounds in bounds(), budget in 0..4_usize) {
        for kind in [Apart::Links, Apart::Risks] {
            let expected = least(&graph, bounds, kind);
            match pair(&graph, (0, 1), bounds, kind, budget) {
                Ok(found) => {
                    let best = expected.unwrap();
                    prop_assert!(found.lower_bound.0 <= best && best <= found.cost.0);
                    prop_assert!(!found.proven() || found.cost.0 == best);
                }
                Err(NoPair::None) => prop_assert_eq!(expected, None),
                Err(NoPair::Limit { paths }) => prop_assert_eq!(paths, budget),
            }
        }
    }
}
