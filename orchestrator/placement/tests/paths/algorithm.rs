//! Weights that no path may have, unreachable points, and sums that do not fit.

use rhumb_federation::View;
use rhumb_model::{Bandwidth, FederationFile, Latency, PointName, ReasonKind};
use rhumb_placement::{
    Between, path_between,
    paths::{Bounds, Edge, Graph, Weight, cheapest, disjoint, yen::k_shortest},
};

/// Links a-b, b-c and a-c as a federation file, with the latencies and prices written.
fn file(ab: &str, bc: &str, ac: &str) -> String {
    format!(
        "currency: CNY
sites: [{{name: a}}, {{name: b}}, {{name: c}}, {{name: d}}]
links:
  - {{id: ab, from: a, to: b, capacity: 1Gbps, latency: 1ms, per_gb: {ab}}}
  - {{id: bc, from: b, to: c, capacity: 1Gbps, latency: 1ms, per_gb: {bc}}}
  - {{id: ac, from: a, to: c, capacity: 1Gbps, latency: 1ms, per_gb: {ac}}}
"
    )
}

fn between(text: &str, to: &str) -> Result<Between, ReasonKind> {
    let view = View::from_file(&FederationFile::read(text).unwrap()).unwrap();
    let point = |n: &str| PointName::new(n).unwrap();
    path_between(&view, &point("a"), &point(to), Bandwidth::ZERO, None, 1).map_err(|r| r.reason)
}

#[test]
fn negative_nan_and_infinite_weights_are_refused_where_they_are_written() {
    let wrong = [
        ("5 CNY", "-4 CNY"),
        ("5 CNY", ".nan"),
        ("5 CNY", "NaN CNY"),
        ("5 CNY", ".inf"),
        ("5 CNY", "inf CNY"),
        ("1e308 CNY", "1e308 CNY"),
        ("99999999999999999999 CNY", "1 CNY"),
    ];
    for (ab, bc) in wrong {
        let error = FederationFile::read(&file(ab, bc, "3 CNY")).expect_err(bc).to_string();
        assert!(error.contains("/links/") && error.contains("per_gb"), "{ab} {bc}: {error}");
    }
    for latency in ["-4ms", ".nan", "NaN", "1e308ms", ".inf", "61s"] {
        let text = file("5 CNY", "4 CNY", "3 CNY").replacen("latency: 1ms", &format!("latency: {latency}"), 1);
        let error = FederationFile::read(&text).expect_err(latency).to_string();
        assert!(error.contains("/links/0/latency"), "{latency}: {error}");
    }
}

#[test]
fn a_weight_of_zero_is_a_weight_and_no_path_is_said_to_be_none() {
    let direct = between(&file("5 CNY", "0 CNY", "3 CNY"), "c").unwrap();
    assert_eq!((direct.links.len(), direct.transfer_micros), (1, 3_000_000));
    let around = between(&file("2 CNY", "0 CNY", "3 CNY"), "c").unwrap();
    assert_eq!((around.links.len(), around.transfer_micros), (2, 2_000_000));
    assert_eq!(between(&file("5 CNY", "0 CNY", "3 CNY"), "d"), Err(ReasonKind::NoPath));
}

#[test]
fn a_sum_that_does_not_fit_is_never_ranked() {
    let edge = |from, to, cost| Edge {
        from,
        to,
        cost: Weight(cost),
        latency: Latency::from_micros(1),
        capacity: Bandwidth::from_mbps(1),
        risks: vec![],
    };
    let most = u64::MAX;
    let graph = Graph::new(4, vec![edge(0, 1, most), edge(1, 2, most), edge(0, 2, most)]).unwrap();
    for latency in [None, Some(Latency::from_micros(10))] {
        let bounds = Bounds { latency, ..Bounds::default() };
        let found = k_shortest(&graph, 0, 2, 9, bounds);
        assert_eq!(found.iter().map(|p| p.edges.clone()).collect::<Vec<_>>(), [vec![2]]);
        assert_eq!(cheapest::cheapest(&graph, 0, 3, bounds, &cheapest::Banned::none(&graph)), None);
        let pair = disjoint::pair(&graph, (0, 2), bounds, disjoint::Apart::Links, 9);
        assert_eq!(pair, Err(disjoint::NoPair::None));
    }
}
