//! Whole decisions over parts of devices, several regions, flows of a component to itself and both ways, against a placer
//! that tries everything.

use crate::{brute, world::submit};
use proptest::prelude::*;
use rhumb_federation::View;
use rhumb_model::{FederationFile, Order, ReasonKind, quantity::Bandwidth};
use rhumb_placement::{Policy, Request, audit, decide};
use serde_json::{Value, json};

/// The same total as the placer that tries everything, proved, and a plan that passes; or both have none.
pub fn agree(file: &Value, order: &Value) -> Result<(), TestCaseError> {
    let view = View::from_file(&FederationFile::read(&file.to_string()).unwrap()).unwrap();
    let order = Order::read(&order.to_string()).unwrap();
    let policy = Policy { staging_max: Bandwidth::from_mbps(5), ..Policy::default() };
    let request = Request::new(&order, submit());
    let found = decide(&view, &request, &policy);
    let best = brute::best(&view, &order, submit(), policy.staging_max.kbps());
    if let (Some(plan), Some(best)) = (found.plan().filter(|p| !p.proven_optimal), &best) {
        // links that the flows of several regions fill together: the division is not proved the best, and says so
        prop_assert!(order.flows.iter().filter(|f| f.demand.is_some()).count() > 1, "{:?}", plan);
        prop_assert!(
            i128::from(plan.lower_bound_micros) <= best.total && best.total <= i128::from(plan.cost.total_micros)
        );
        prop_assert_eq!(audit(plan, &request, &view, &policy), vec![]);
        return Ok(());
    }
    if let (Err(reasons), Some(_)) = (&found.outcome, &best) {
        // nor is a plan denied that was not found
        let regions = order.flows.iter().filter(|f| f.demand.is_some()).count();
        prop_assert!(regions > 1 && reasons.iter().any(|r| r.reason == ReasonKind::SearchLimit), "{:?}", reasons);
        return Ok(());
    }
    prop_assert_eq!(found.plan().map(|p| i128::from(p.cost.total_micros)), best.map(|b| b.total), "{:?}", found);
    if let Some(plan) = found.plan() {
        prop_assert_eq!(audit(plan, &request, &view, &policy), vec![]);
    }
    Ok(())
}

const NEEDS: [&str; 7] = [
    r#"{"count": 1}"#,
    r#"{"count": 2, "interconnect": "nvlink"}"#,
    r#"{"share": "40%", "memory": "20GiB"}"#,
    r#"{"share": "30%"}"#,
    r#"{"mig": "3g.40gb"}"#,
    r#"{"mig": "2g.20gb", "count": 2}"#,
    r#"{"mig": "1g.10gb", "count": 3}"#,
];

/// Two sites of a few devices, whole or in slices, and two components that need parts of them.
fn parts() -> impl Strategy<Value = (Value, Value)> {
    let group = (1_u32..3, 0_u8..4, 10_u64..30);
    let site = prop::collection::vec(group, 1..3);
    let component = (0_usize..NEEDS.len(), 1_u32..4, 0_u8..4);
    (prop::collection::vec(site, 2), prop::collection::vec(component, 1..3), any::<bool>()).prop_map(
        |(sites, components, far)| {
            let sites: Vec<Value> = sites
                .iter()
                .enumerate()
                .map(|(i, nodes)| {
                    let price = nodes[0].2;
                    let nodes: Vec<Value> = nodes
                        .iter()
                        .map(|(count, kind, _)| {
                            let mut group = json!({"model": "H100", "count": count, "islands": [count]});
                            match kind {
                                0 | 1 => group["mig"] = json!("any"),
                                2 => group["mig"] = json!({"3g.40gb": 1, "1g.10gb": 2}),
                                _ => {}
                            }
                            json!({"accelerators": group, "cpu": 8, "memory": "64GiB"})
                        })
                        .collect();
                    json!({"name": format!("s{i}"), "prices": {"H100": format!("{price}.7 CNY")}, "nodes": nodes})
                })
                .collect();
            let file = json!({"currency": "CNY", "devices": {"H100": {"memory": "80GiB", "fp16": 1}}, "sites": sites,
                "links": [{"id": "l", "from": "s0", "to": "s1", "both_ways": true, "capacity": "10Mbps", "latency": "3ms", "per_gb": "0.3 CNY"}],
                "datasets": [{"name": "d", "size": "2GB", "at": ["s0"]}]});
            let list: Vec<Value> = components
                .iter()
                .enumerate()
                .map(|(i, (need, replicas, place))| {
                    let mut c = json!({"name": format!("c{i}"), "replicas": replicas, "work": {"duration": "2h"},
                        "need": {"accelerators": serde_json::from_str::<Value>(NEEDS[*need]).unwrap()}});
                    match place {
                        0 => c["place"] = json!({"spread": "node"}),
                        1 if *replicas > 1 && !NEEDS[*need].contains("nvlink") => {
                            c["need"]["accelerators"]["interconnect"] = json!("site");
                        }
                        _ => {}
                    }
                    c
                })
                .collect();
            let flows = if far { json!([{"from": "dataset/d", "to": "c0"}]) } else { json!([]) };
            (file, json!({"name": "o", "class": "tuning", "components": list, "flows": flows}))
        },
    )
}

/// Users in two or three regions, a service over sites of unequal price and room, links that bind.
fn regions() -> impl Strategy<Value = (Value, Value)> {
    let link = (0_usize..5, 0_usize..5, 1_u64..7, 1_u64..20, 0_u64..40);
    let region = (0_usize..5, 1_u64..4, 0_u64..4, prop::option::weighted(0.6, 5_u64..40), any::<bool>());
    let site = (1_u32..3, 5_u64..40);
    let all = (
        prop::collection::vec(link, 4..8),
        prop::collection::vec(region, 2..4),
        prop::collection::vec(site, 3),
        1_u64..3,
        any::<bool>(),
    );
    all.prop_map(|(links, regions, sites, each, spread)| {
        let points = ["s0", "s1", "s2", "t0", "t1"];
        let links: Vec<Value> = links
            .iter()
            .filter(|l| l.0 != l.1)
            .enumerate()
            .map(|(i, l)| {
                json!({"id": format!("l{i}"), "from": points[l.0], "to": points[l.1], "both_ways": true, "capacity": format!("{}Mbps", l.2),
                    "latency": format!("{}ms", l.3), "per_mbps_hour": format!("0.{:02} CNY", l.4)})
            })
            .collect();
        let site_list: Vec<Value> = sites
            .iter()
            .enumerate()
            .map(|(i, (room, price))| {
                json!({"name": format!("s{i}"), "prices": {"cpu": format!("0.{price:02} CNY")}, "nodes": [{"count": room, "cpu": 2}]})
            })
            .collect();
        let region_list: Vec<Value> = regions
            .iter()
            .enumerate()
            .map(|(i, r)| json!({"name": format!("r{i}"), "at": points[r.0], "access": format!("{}ms", r.2)}))
            .collect();
        let file = json!({"currency": "CNY", "links": links, "transit": [{"name": "t0"}, {"name": "t1"}], "sites": site_list, "regions": region_list});
        let flows: Vec<Value> = regions
            .iter()
            .enumerate()
            .map(|(i, (_, demand, _, bound, rated))| {
                let mut f = json!({"from": format!("region/r{i}"), "to": "web", "demand": format!("{demand}rps")});
                if *rated || bound.is_none() {
                    f["rate"] = json!(format!("{demand}Mbps"));
                }
                if let Some(ms) = bound {
                    f["max_latency"] = json!(format!("{ms}ms"));
                }
                f
            })
            .collect();
        let mut web = json!({"name": "web", "replicas": {"min": 1, "max": 5}, "need": {"cpu": 2}, "service": {"serves": format!("{}rps", each + 1), "port": 80}});
        if spread {
            web["place"] = json!({"spread": "site"});
        }
        (file, json!({"name": "o", "class": "inference", "components": [web], "flows": flows, "terms": {"horizon": "4h"}}))
    })
}

/// Replicas on several sites that talk to each other and to another component, both ways, over few narrow links, with
/// data that has copies.
fn talking() -> impl Strategy<Value = (Value, Value)> {
    let link = (0_usize..4, 0_usize..4, 2_u64..9, 1_u64..20, 0_u64..9);
    let all = (
        prop::collection::vec(link, 4..8),
        (1_u64..4, prop::option::weighted(0.5, 5_u64..30), 0_u8..6, 1_u64..4),
        (1_u32..3, 1_u32..3, any::<bool>()),
        0_u64..20,
    );
    all.prop_map(|(links, (own, bound, other, amount), (at_a, at_b, spread), value)| {
        let points = ["a", "b", "d", "t"];
        let links: Vec<Value> = links
            .iter()
            .filter(|l| l.0 != l.1)
            .enumerate()
            .map(|(i, l)| {
                json!({"id": format!("l{i}"), "from": points[l.0], "to": points[l.1], "both_ways": i % 3 != 0, "capacity": format!("{}Mbps", l.2),
                    "latency": format!("{}ms", l.3), "per_gb": format!("0.{} CNY", l.4), "per_mbps_hour": "0.01 CNY"})
            })
            .collect();
        let site = |name: &str, nodes: u32, price: &str| json!({"name": name, "prices": {"cpu": price}, "nodes": [{"count": nodes, "cpu": 2}]});
        let file = json!({"currency": "CNY", "links": links, "transit": [{"name": "t"}],
            "sites": [site("a", at_a, "1 CNY"), site("b", at_b, "1.1 CNY"), site("d", 1, "2 CNY")],
            "datasets": [{"name": "x", "size": "1GB", "at": ["d", "b"]}]});
        let mut flows = vec![json!({"from": "q", "to": "q", "rate": format!("{own}Mbps")})];
        if let Some(ms) = bound {
            flows[0]["max_latency"] = json!(format!("{ms}ms"));
        }
        match other {
            0 => flows.push(json!({"from": "dataset/x", "to": "q"})),
            1 => flows.push(json!({"from": "dataset/x", "to": "q", "volume": format!("{amount}GB"), "copy": true})),
            2 => flows.push(json!({"from": "q", "to": "dataset/x", "volume": format!("{amount}GB")})),
            3 => {
                flows.push(json!({"from": "p", "to": "q", "rate": format!("{amount}Mbps")}));
                flows.push(json!({"from": "q", "to": "p", "rate": format!("{amount}Mbps")}));
            }
            4 => flows.push(json!({"from": "dataset/x", "to": "q", "rate": format!("{amount}Mbps")})),
            _ => {}
        }
        let mut q = json!({"name": "q", "replicas": 2, "need": {"cpu": 2}, "work": {"duration": "1h"}});
        if spread {
            q["place"] = json!({"spread": "site"});
        }
        let order = json!({"name": "o", "class": "training", "flows": flows, "terms": {"value_per_hour": format!("{value} CNY")},
            "components": [q, {"name": "p", "need": {"cpu": 1}, "work": {"duration": "2h"}}]});
        (file, order)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_of_devices_are_placed_as_cheaply_as_can_be((file, order) in parts()) {
        agree(&file, &order)?;
    }

    #[test]
    fn a_service_for_several_regions_stands_where_it_costs_least((file, order) in regions()) {
        agree(&file, &order)?;
    }

    #[test]
    fn replicas_that_talk_to_each_other_and_to_others_are_placed_as_cheaply_as_can_be((file, order) in talking()) {
        agree(&file, &order)?;
    }
}
