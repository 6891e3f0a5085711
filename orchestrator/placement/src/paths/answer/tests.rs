use super::*;
use rhumb_model::FederationFile;

/// Two cheap ways from a to b through one duct, a dear one apart from it, and a narrow last link to c.
fn view() -> View {
    let file = FederationFile::read(
        "currency: CNY
sites: [{name: a}, {name: b}, {name: c}]
transit: [{name: t}, {name: u}]
links:
  - {id: direct, from: a, to: b, capacity: 40Mbps, latency: 5ms, per_gb: 1 CNY, srlg: [duct]}
  - {id: at, from: a, to: t, capacity: 100Mbps, latency: 5ms, per_gb: 0.7 CNY, srlg: [duct]}
  - {id: tb, from: t, to: b, capacity: 50Mbps, latency: 5ms, per_gb: 0.5 CNY, per_mbps_hour: 0.1 CNY}
  - {id: au, from: a, to: u, capacity: 30Mbps, latency: 20ms, per_gb: 3 CNY}
  - {id: ub, from: u, to: b, capacity: 100Mbps, latency: 20ms, per_gb: 3 CNY}
  - {id: bc, from: b, to: c, capacity: 10Mbps, latency: 1ms}
",
    )
    .unwrap();
    View::from_file(&file).unwrap()
}

fn ask(to: &str, apart: Apart, mbps: u64, bound_ms: Option<u64>) -> Result<Answer, Reason> {
    let point = |n: &str| PointName::new(n).unwrap();
    let wish = Wish {
        rate: Bandwidth::from_mbps(mbps),
        bound: bound_ms.map(|ms| Latency::from_micros(ms * 1_000)),
        gigabytes: 10,
        protection: Protection::Pair(apart),
    };
    answer(&view(), &point("a"), &point(to), wish)
}

fn ids(path: &Between) -> Vec<&str> {
    path.links.iter().map(LinkId::as_str).collect()
}

#[test]
fn a_backup_keeps_apart_from_its_path_as_asked() {
    let links = ask("b", Apart::Links, 1, None).unwrap();
    let backup = links.backup.unwrap();
    assert_eq!((ids(&links.path), ids(&backup)), (vec!["direct"], vec!["at", "tb"]));
    assert_eq!((links.path.transfer_micros, backup.transfer_micros), (10_000_000, 12_000_000));
    assert_eq!((backup.path_micros_per_hour, backup.free), (100_000, Bandwidth::from_mbps(50)));
    let risks = ask("b", Apart::Risks, 1, None).unwrap();
    assert_eq!((ids(&risks.path), ids(&risks.backup.unwrap())), (vec!["direct"], vec!["au", "ub"]));
    assert!(risks.proven);
}

#[test]
fn an_answer_says_how_much_all_paths_carry_and_what_limits_it() {
    let all = ask("b", Apart::Links, 1, None).unwrap();
    assert_eq!(all.carries, Bandwidth::from_mbps(120));
    assert_eq!(all.limited_by.iter().map(LinkId::as_str).collect::<Vec<_>>(), ["au", "direct", "tb"]);
    let wide = ask("b", Apart::Links, 60, None).unwrap_err();
    assert_eq!(wide.reason, ReasonKind::Bandwidth);
    assert_eq!(wide.free, "50Mbps at the most; all paths together carry 120Mbps, limited by au, direct, tb");
    let here = ask("a", Apart::Risks, 1, None).unwrap();
    assert_eq!((here.carries, here.backup.unwrap().links.len()), (Bandwidth::ZERO, 0));
}

#[test]
fn without_a_backup_the_rule_that_stands_in_the_way_is_named() {
    let bridge = ask("c", Apart::Links, 1, None).unwrap_err();
    assert_eq!((bridge.reason, bridge.free.as_str()), (ReasonKind::NoPath, "every path crosses link bc"));
    let file = "currency: CNY
sites: [{name: a}, {name: b}]
links:
  - {id: one, from: a, to: b, capacity: 1Gbps, latency: 5ms, srlg: [bridge, north]}
  - {id: two, from: a, to: b, capacity: 1Gbps, latency: 5ms, srlg: [bridge]}
";
    let view = View::from_file(&FederationFile::read(file).unwrap()).unwrap();
    let point = |n: &str| PointName::new(n).unwrap();
    let wish = Wish { rate: Bandwidth::ZERO, bound: None, gigabytes: 0, protection: Protection::Pair(Apart::Risks) };
    let shared = answer(&view, &point("a"), &point("b"), wish).unwrap_err();
    assert_eq!((shared.reason, shared.free.as_str()), (ReasonKind::NoPath, "every path shares the risk of bridge"));
    let slow = ask("b", Apart::Risks, 1, Some(20)).unwrap_err();
    assert_eq!((slow.reason, slow.needed.as_str()), (ReasonKind::Latency, "20ms"));
    let narrow = ask("b", Apart::Risks, 35, None).unwrap_err();
    assert_eq!((narrow.reason, narrow.needed.as_str()), (ReasonKind::Bandwidth, "35Mbps"));
    assert_eq!(ask("nowhere", Apart::Links, 1, None).unwrap_err().reason, ReasonKind::NoPath);
}
