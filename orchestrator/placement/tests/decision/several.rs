//! Flows with a backup, and flows that are split: by hand, and against trying everything.

use crate::{
    brute,
    world::{order, submit, view},
};
use proptest::prelude::*;
use rhumb_federation::{View, export::export};
use rhumb_model::{FederationFile, LinkId, Order, Plan, ReasonKind, quantity::Bandwidth};
use rhumb_placement::{Policy, Request, apply, audit, booking::bookings, decide};
use serde_json::{Value, json};

/// a to b over three ways: short, over t, and over u; the first two share a duct.
const THREE: &str = "
currency: CNY
sites:
  - {name: a, prices: {cpu: 1 CNY}, nodes: [{cpu: 4}]}
  - {name: b, prices: {cpu: 1 CNY}, nodes: [{cpu: 4}]}
transit: [{name: t}, {name: u}]
links:
  - {id: ab, from: a, to: b, both_ways: true, capacity: 100Mbps, latency: 5ms, per_gb: 0.1 CNY, per_mbps_hour: 0.01 CNY, srlg: [duct]}
  - {id: at, from: a, to: t, both_ways: true, capacity: 60Mbps, latency: 3ms, per_gb: 0.1 CNY, per_mbps_hour: 0.02 CNY, srlg: [duct]}
  - {id: tb, from: t, to: b, both_ways: true, capacity: 80Mbps, latency: 3ms, per_mbps_hour: 0.01 CNY}
  - {id: au, from: a, to: u, both_ways: true, capacity: 50Mbps, latency: 8ms, per_gb: 0.2 CNY, per_mbps_hour: 0.03 CNY}
  - {id: ub, from: u, to: b, both_ways: true, capacity: 90Mbps, latency: 8ms, per_mbps_hour: 0.02 CNY}
datasets: [{name: x, size: 9GB, at: [a]}]
regions: [{name: r, at: a, access: 1ms}]
";

fn pair(flow: &str) -> String {
    format!(
        "name: t\nclass: processing\nconstraints: {{sites: [b]}}\ncomponents: [{{name: c, need: {{cpu: 1}}, service: {{serves: 10rps, port: 80}}}}]\nterms: {{horizon: 2h}}\nflows: [{{{flow}}}]"
    )
}

fn try_plan(text: &str) -> Result<(Plan, View, Order), ReasonKind> {
    let (view, order) = (view(THREE), order(text));
    let request = Request::new(&order, submit());
    let plan = decide(&view, &request, &Policy::default()).outcome.map_err(|r| r[0].reason)?;
    assert_eq!(audit(&plan, &request, &view, &Policy::default()), vec![]);
    Ok((plan, view, order))
}

fn ids(path: &[LinkId]) -> Vec<&str> {
    path.iter().map(LinkId::as_str).collect()
}

#[test]
fn a_protected_flow_holds_its_rate_on_two_paths_that_share_no_link_and_no_risk() {
    let (plan, view, order) = try_plan(&pair("from: region/r, to: c, rate: 40Mbps, protected: true")).unwrap();
    let leg = &plan.flows[0];
    // the way over t is cheaper, but lies in the same duct
    assert_eq!((ids(&leg.path), ids(&leg.backup)), (vec!["ab"], vec!["au", "ub"]));
    // 40 Mbps for two hours at 0.01 and at 0.05
    assert_eq!((plan.cost.path_micros, plan.cost.transfer_micros), (800_000 + 4_000_000, 0));
    let held = bookings(&plan, &order);
    assert_eq!(held.len(), 3);
    assert!(held.iter().all(|b| b.rate == Bandwidth::from_mbps(40)));
    // ten of the fifty over u are left: no second one
    let left = apply(&view, &plan, &order).unwrap();
    assert!(decide(&left, &Request::new(&order, submit()), &Policy::default()).outcome.is_err());
    let again =
        View::from_file(&FederationFile::read(&serde_json::to_string(&export(&left, submit())).unwrap()).unwrap());
    assert_eq!(again.unwrap().link(&"au".parse().unwrap()).unwrap().free, Bandwidth::from_mbps(10));
    // both keep the bound: over u it is 17 ms with the access
    assert!(try_plan(&pair("from: region/r, to: c, rate: 40Mbps, protected: true, max_latency: 17ms")).is_ok());
    let late = try_plan(&pair("from: region/r, to: c, rate: 40Mbps, protected: true, max_latency: 16ms"));
    assert_eq!(late.unwrap_err(), ReasonKind::Latency);
    let wide = try_plan(&pair("from: region/r, to: c, rate: 51Mbps, protected: true"));
    assert_eq!(wide.unwrap_err(), ReasonKind::Bandwidth);
}

#[test]
fn bytes_of_a_protected_volume_are_paid_once_and_its_rate_twice() {
    let text = pair("from: dataset/x, to: c, volume: 9GB, rate: 40Mbps, protected: true")
        .replace("service: {serves: 10rps, port: 80}", "work: {duration: 1h}");
    let (plan, ..) = try_plan(&text).unwrap();
    // 9 GB move 20 Mbps-hours, at 0.01 on the path and 0.05 on the backup
    assert_eq!((plan.cost.transfer_micros, plan.cost.path_micros), (900_000, 200_000 + 1_000_000));
    assert_eq!(ids(&plan.flows[0].path), ["ab"]);
}

#[test]
fn a_plan_whose_backup_shares_a_duct_does_not_pass() {
    let (plan, view, order) = try_plan(&pair("from: region/r, to: c, rate: 40Mbps, protected: true")).unwrap();
    let request = Request::new(&order, submit());
    let wrong = |backup: &[&str], what: &str| {
        let mut plan = plan.clone();
        plan.flows[0].backup = backup.iter().map(|id| id.parse().unwrap()).collect();
        let found = audit(&plan, &request, &view, &Policy::default());
        assert!(found.iter().any(|v| v.invariant == what), "{found:?}");
    };
    wrong(&["at", "tb"], "backup");
    wrong(&["ab"], "backup");
    wrong(&[], "backup");
    wrong(&["au"], "path");
}

#[test]
fn a_split_flow_takes_the_cheapest_paths_as_far_as_they_go() {
    let text = |rate: u64, rest: &str| {
        pair(&format!("from: region/r, to: c, demand: 9rps, rate: {rate}Mbps, split: true{rest}"))
    };
    let (plan, ..) = try_plan(&text(100, "")).unwrap();
    assert_eq!((plan.flows.len(), ids(&plan.flows[0].path)), (1, vec!["ab"]));
    let (plan, view, order) = try_plan(&text(180, "")).unwrap();
    let legs: Vec<_> = plan.flows.iter().map(|l| (ids(&l.path), l.rate_kbps, l.demand_mrps, l.latency_us)).collect();
    let expected = [
        (vec!["ab"], 100_000, 5_000, 6_000),
        (vec!["at", "tb"], 60_000, 3_000, 7_000),
        (vec!["au", "ub"], 20_000, 1_000, 17_000),
    ];
    assert_eq!(legs, expected);
    // two hours of 100 at 0.01, 60 at 0.03, 20 at 0.05
    assert_eq!(plan.cost.path_micros, 2_000_000 + 3_600_000 + 2_000_000);
    assert!(plan.proven_optimal);
    assert_eq!(
        apply(&view, &plan, &order).unwrap().link(&"tb".parse().unwrap()).unwrap().free,
        Bandwidth::from_mbps(20)
    );
    // each path keeps the bound; more than all carry is too much
    assert_eq!(try_plan(&text(180, ", max_latency: 16ms")).unwrap_err(), ReasonKind::Latency);
    assert!(try_plan(&text(160, ", max_latency: 16ms")).is_ok());
    assert_eq!(try_plan(&text(211, "")).unwrap_err(), ReasonKind::Bandwidth);
    // a plan whose parts do not sum to the flow does not pass
    let mut wrong = plan.clone();
    wrong.flows[2].rate_kbps -= 1;
    assert!(!audit(&wrong, &Request::new(&order, submit()), &view, &Policy::default()).is_empty());
}

#[test]
fn a_split_volume_divides_as_its_rates_do() {
    let text = pair("from: dataset/x, to: c, split: true, rate: 150Mbps, volume: 9GB")
        .replace("service: {serves: 10rps, port: 80}", "work: {duration: 1h}");
    let (plan, ..) = try_plan(&text).unwrap();
    let legs: Vec<_> = plan.flows.iter().map(|l| (l.rate_kbps, l.volume_bytes)).collect();
    assert_eq!(legs, [(100_000, 6_000_000_000), (50_000, 3_000_000_000)]);
    // 9 GB at 150 Mbit/s and the slower path's 6 ms
    assert_eq!(plan.start.duration_since(submit()).as_millis(), 480_006);
    assert_eq!(plan.cost.transfer_micros, 900_000);
}

#[test]
fn a_flow_is_split_or_protected_and_has_a_rate_to_split() {
    let wrong = |flow: &str| Order::read(&pair(flow)).unwrap_err().to_string();
    assert!(
        wrong("from: region/r, to: c, rate: 1Mbps, split: true, protected: true").contains("keep protected or split")
    );
    assert!(wrong("from: region/r, to: c, max_latency: 9ms, split: true").contains("no rate to split"));
}

#[test]
fn a_leg_without_a_backup_is_written_as_before() {
    let (plan, ..) = try_plan(&pair("from: region/r, to: c, rate: 40Mbps")).unwrap();
    let text = serde_json::to_string(&plan).unwrap();
    assert!(!text.contains("backup"));
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
}

/// One or two flows in a small network, each plain, protected or split.
fn small() -> impl Strategy<Value = (Value, Value)> {
    let link = (0_usize..4, 0_usize..4, 1_u64..6, 1_u64..20, 0_u64..9, 0_u64..9, 0_u8..4);
    let flow = (0_u8..5, 1_u64..5, 0_u8..3, prop::option::weighted(0.4, 5_u64..40), any::<bool>());
    let all =
        (prop::collection::vec(link, 4..8), prop::collection::vec(flow, 1..3), prop::option::weighted(0.3, 1_u64..30));
    all.prop_map(|(links, flows, value)| {
        let points = ["a", "b", "d", "t"];
        let links: Vec<Value> = links
            .iter()
            .filter(|l| l.0 != l.1)
            .enumerate()
            .map(|(i, l)| {
                let srlg: Vec<&str> = match l.6 { 0 => vec!["x"], 1 => vec!["y"], _ => vec![] };
                json!({"id": format!("l{i}"), "from": points[l.0], "to": points[l.1], "both_ways": true, "capacity": format!("{}Mbps", l.2),
                    "latency": format!("{}ms", l.3), "per_gb": format!("0.{} CNY", l.4), "per_mbps_hour": format!("0.0{} CNY", l.5), "srlg": srlg})
            })
            .collect();
        let nodes = json!([{"count": 1, "cpu": 2}]);
        let file = json!({"currency": "CNY", "links": links, "transit": [{"name": "t"}],
            "sites": [{"name": "a", "nodes": nodes, "prices": {"cpu": "1 CNY"}}, {"name": "b", "nodes": nodes, "prices": {"cpu": "1.1 CNY"}}, {"name": "d"}],
            "datasets": [{"name": "x", "size": "1GB", "at": ["d"]}, {"name": "z", "size": "1GB", "at": ["d", "b"]}]});
        let flows: Vec<Value> = flows
            .iter()
            .map(|(kind, amount, mode, bound, rate)| {
                let mut f = match kind {
                    0 => json!({"from": "dataset/x", "to": "p", "volume": format!("{amount}GB")}),
                    1 => json!({"from": "q", "to": "dataset/z", "volume": format!("{amount}GB")}),
                    2 => json!({"from": "p", "to": "q", "rate": format!("{amount}Mbps")}),
                    3 => json!({"from": "dataset/z", "to": "q", "rate": format!("{amount}Mbps")}),
                    _ => json!({"from": "q", "to": "p", "rate": format!("{amount}Mbps")}),
                };
                if *rate && *kind < 2 {
                    f["rate"] = json!(format!("{amount}Mbps"));
                }
                match mode {
                    0 => f["protected"] = json!(true),
                    1 => f["split"] = json!(true),
                    _ => {}
                }
                if let Some(ms) = bound {
                    f["max_latency"] = json!(format!("{ms}ms"));
                }
                f
            })
            .collect();
        let mut order = json!({"name": "o", "class": "processing", "flows": flows, "terms": {},
            "components": [{"name": "p", "need": {"cpu": 2}, "work": {"duration": "2h"}}, {"name": "q", "need": {"cpu": 2}, "work": {"duration": "1h"}}]});
        if let Some(value) = value {
            order["terms"]["value_per_hour"] = json!(format!("{value} CNY"));
        }
        (file, order)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn flows_on_several_paths_are_as_cheap_as_can_be((file, order) in small()) {
        let view = View::from_file(&FederationFile::read(&file.to_string()).unwrap()).unwrap();
        let order = Order::read(&order.to_string()).unwrap();
        let policy = Policy { staging_max: Bandwidth::from_mbps(5), ..Policy::default() };
        let request = Request::new(&order, submit());
        let found = decide(&view, &request, &policy);
        // the placer that tries everything divides rates in whole Mbit/s only
        let best = brute::best(&view, &order, submit(), policy.staging_max.kbps()).map(|b| b.total);
        let splits = order.flows.iter().filter(|f| f.split).count();
        let bound = order.flows.iter().any(|f| f.split && f.max_latency.is_some());
        match (&found.outcome, best) {
            (Ok(plan), best) => {
                let total = i128::from(plan.cost.total_micros);
                prop_assert_eq!(audit(plan, &request, &view, &policy), vec![], "{:?}", plan);
                prop_assert!(best.is_none_or(|b| i128::from(plan.lower_bound_micros) <= b), "{:?} {:?}", plan, best);
                if splits < 2 && !bound {
                    prop_assert_eq!(Some(total), best, "{:?}", plan);
                    prop_assert!(plan.proven_optimal, "{:?}", plan);
                } else if plan.proven_optimal {
                    prop_assert!(best.is_none_or(|b| total <= b), "{:?} {:?}", plan, best);
                }
            }
            (Err(_), None) => {}
            (Err(reasons), Some(best)) => {
                prop_assert!(splits > 1 && reasons.iter().any(|r| r.reason == ReasonKind::SearchLimit), "{:?} {}", reasons, best);
            }
        }
    }
}

/// On networks too large to try everything: every plan passes, and what is printed is for a person to read.
#[test]
fn flows_on_several_paths_in_a_large_network_pass_the_audit() {
    use rhumb_placement::generate::{self, Size};
    let mut file = generate::federation(Size::of(60), 3);
    for link in &mut file.links {
        link.capacity = Bandwidth::from_kbps(link.capacity.kbps() / 50);
    }
    let view = View::from_file(&file).unwrap();
    let policy = Policy::default();
    for mode in ["plain", "protected", "split"] {
        let (mut plans, mut proved, mut several, mut slowest) = (0, 0, 0, std::time::Duration::ZERO);
        for mut order in generate::orders(60, 30, 3) {
            for flow in &mut order.flows {
                flow.protected = mode == "protected";
                flow.split = mode == "split" && (flow.rate.is_some() || flow.volume.is_some());
            }
            let request = Request::new(&order, submit());
            let begun = std::time::Instant::now();
            let decision = decide(&view, &request, &policy);
            slowest = slowest.max(begun.elapsed());
            if let Some(plan) = decision.plan() {
                assert_eq!(audit(plan, &request, &view, &policy), vec![], "{}", order.name);
                plans += 1;
                proved += u32::from(plan.proven_optimal);
                let parts = plan.flows.windows(2).any(|w| {
                    (w[0].flow, &w[0].to_site, &w[0].from_site) == (w[1].flow, &w[1].to_site, &w[1].from_site)
                });
                several += u32::from(parts || plan.flows.iter().any(|l| !l.backup.is_empty()));
            }
        }
        println!(
            "{mode}: {plans} plans, {several} on several paths, {proved} proved, the slowest decision took {slowest:?}"
        );
        assert!(plans > 0 && (mode == "plain" || several > 0));
    }
}
