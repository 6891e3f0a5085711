//! Small random multigraphs, and all of their paths.

use proptest::prelude::*;
use rhumb_model::{Bandwidth, Latency};
use rhumb_placement::paths::{Bounds, Edge, Graph, Path, Weight};

/// Up to 7 points; few distinct costs, so that ties are common; parallel links and loops at a point too.
pub fn graph() -> impl Strategy<Value = Graph> {
    (2..=7_usize).prop_flat_map(|points| {
        let edge =
            (0..points, 0..points, 0..6_u64, 1..8_u64, 1..10_u64, proptest::collection::btree_set(0..4_usize, 0..2));
        proptest::collection::vec(edge, 0..14).prop_map(move |edges| {
            let edges = edges.into_iter().map(|(from, to, cost, ms, mbps, risks)| Edge {
                from,
                to,
                cost: Weight(cost),
                latency: Latency::from_micros(ms * 1_000),
                capacity: Bandwidth::from_mbps(mbps),
                risks: risks.into_iter().collect(),
            });
            Graph::new(points, edges.collect()).unwrap()
        })
    })
}

pub fn bounds() -> impl Strategy<Value = Bounds> {
    (proptest::option::of(1..25_u64), 0..5_u64).prop_map(|(ms, mbps)| Bounds {
        latency: ms.map(|ms| Latency::from_micros(ms * 1_000)),
        rate: Bandwidth::from_mbps(mbps),
    })
}

/// Every loop-free path within bounds, by cost, links, ordinals.
pub fn every_path(graph: &Graph, from: usize, to: usize, bounds: Bounds) -> Vec<Path> {
    fn go(
        graph: &Graph,
        at: usize,
        to: usize,
        seen: &mut Vec<usize>,
        edges: &mut Vec<usize>,
        found: &mut Vec<Vec<usize>>,
    ) {
        if at == to {
            found.push(edges.clone());
            return;
        }
        for (i, edge) in graph.edges().iter().enumerate() {
            if edge.from == at && !seen.contains(&edge.to) {
                seen.push(edge.to);
                edges.push(i);
                go(graph, edge.to, to, seen, edges, found);
                edges.pop();
                seen.pop();
            }
        }
    }
    let mut found = Vec::new();
    go(graph, from, to, &mut vec![from], &mut Vec::new(), &mut found);
    let wide = |edges: &[usize]| edges.iter().all(|e| graph.edges()[*e].capacity >= bounds.rate);
    let paths = found.into_iter().filter(|edges| wide(edges)).filter_map(|edges| graph.path(edges));
    let mut paths: Vec<Path> = paths.filter(|p| bounds.latency.is_none_or(|l| p.latency <= l)).collect();
    paths.sort_by(|a, b| a.rank().cmp(&b.rank()));
    paths
}
