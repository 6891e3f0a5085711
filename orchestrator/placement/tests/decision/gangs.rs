//! Many replicas of one component: at one site, and over several sites that are joined by a flow.

use crate::{
    wide::agree,
    world::{order, submit, view},
};
use proptest::prelude::*;
use rhumb_model::ReasonKind;
use rhumb_placement::{Policy, Request, decide, place};
use serde_json::{Value, json};

/// Sites of one or two models, each pair joined by a link of some width and delay, and a gang with a flow to itself.
fn gangs() -> impl Strategy<Value = (Value, Value)> {
    let site = (prop::collection::vec((1_u32..4, 1_u64..30), 1..3), 0_u8..2);
    let links = prop::collection::vec((1_u64..6, 1_u64..9, 0_u64..5), 3);
    let gang = (2_u32..7, 1_u64..3, prop::option::of(1_u64..9), any::<bool>());
    (prop::collection::vec(site, 3), links, gang).prop_map(|(sites, links, (replicas, rate, near, most))| {
        let sites: Vec<Value> = sites
            .iter()
            .enumerate()
            .map(|(i, (pools, night))| {
                let model = |p: usize| ["H100", "A100"][p];
                let nodes: Vec<Value> = pools
                    .iter()
                    .enumerate()
                    .map(|(p, (count, _))| {
                        json!({"count": count, "accelerators": {"model": model(p), "count": 2}, "cpu": 4, "memory": "8GiB"})
                    })
                    .collect();
                let mut prices = json!({"cpu": "0.5 CNY"});
                pools.iter().enumerate().for_each(|(p, (_, price))| prices[model(p)] = json!(format!("{price} CNY")));
                if *night == 1 {
                    prices["windows"] = json!([{"from": "22:00", "to": "08:00", "tz": "Asia/Shanghai", "factor": 0.5}]);
                }
                json!({"name": format!("s{i}"), "prices": prices, "nodes": nodes})
            })
            .collect();
        let ends = [("s0", "s1"), ("s1", "s2"), ("s0", "s2")];
        let links: Vec<Value> = ends
            .iter()
            .zip(&links)
            .map(|((a, b), (wide, late, price))| {
                json!({"id": format!("{a}-{b}"), "from": a, "to": b, "both_ways": true, "capacity": format!("{wide}Mbps"),
                    "latency": format!("{late}ms"), "per_mbps_hour": format!("{price} CNY")})
            })
            .collect();
        let file = json!({"currency": "CNY", "devices": {"H100": {"memory": "80GiB", "fp16": 1.0}, "A100": {"memory": "40GiB", "fp16": 0.5}},
            "sites": sites, "links": links});
        let mut flow = json!({"from": "g", "to": "g", "rate": format!("{rate}Mbps")});
        if let Some(near) = near {
            flow["max_latency"] = json!(format!("{near}ms"));
        }
        let mut order = json!({"name": "gang", "class": "training", "components": [{"name": "g", "replicas": replicas, "gang": true,
            "need": {"accelerators": {"count": 1, "interconnect": "node"}, "cpu": 1, "memory": "1GiB"},
            "work": {"hours": 2, "reference": "H100"}}], "flows": [flow]});
        if most {
            order["constraints"] = json!({"max_sites": 2});
        }
        (file, order)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_gang_costs_what_trying_everything_finds((file, order) in gangs()) {
        agree(&file, &order)?;
    }
}

/// Two sites with 40 devices each of two models, none of which holds all.
const HALVES: &str = "
currency: CNY
devices: {H100: {memory: 80GiB, fp16: 1.0}, A100: {memory: 40GiB, fp16: 1.0}}
sites:
  - {name: a, prices: {H100: 3 CNY, A100: 2 CNY}, nodes: [{count: 10, accelerators: {model: H100, count: 4}, cpu: 64, memory: 1TiB}, {count: 10, accelerators: {model: A100, count: 4}, cpu: 64, memory: 1TiB}]}
  - {name: b, prices: {H100: 1 CNY}, nodes: [{count: 10, accelerators: {model: H100, count: 4}, cpu: 64, memory: 1TiB}]}
links: [{id: ab, from: a, to: b, both_ways: true, capacity: 10Gbps, latency: 4ms, per_mbps_hour: 0.01 CNY}]
";

fn gang(replicas: u32, flow: &str) -> rhumb_model::Order {
    order(&format!(
        "{{name: g, class: training, components: [{{name: g, replicas: {replicas}, gang: true, need: {{accelerators: {{count: 1}}}}, work: {{duration: 1h}}}}],
          flows: [{{from: g, to: g, {flow}}}]}}"
    ))
}

#[test]
fn a_gang_stays_at_one_site_until_the_flow_between_two_costs_less_than_the_devices() {
    let view = view(HALVES);
    let policy = Policy::default();
    // 60 at one site cost 40 x 2 + 20 x 3; over both 40 x 1 + 20 x 2, and the flow its rate both ways
    for (rate, total) in [("1Gbps", 100), ("1900Mbps", 118), ("3Gbps", 140)] {
        let order = gang(60, &format!("rate: {rate}"));
        let found = decide(&view, &Request::new(&order, submit()), &policy);
        let plan = found.plan().unwrap();
        assert_eq!((plan.cost.total_micros, plan.proven_optimal), (total * 1_000_000, true), "{rate}");
    }
}

#[test]
fn a_gang_that_no_sites_near_each_other_hold_is_refused_for_the_delay_and_told_by_how_much() {
    let view = view(HALVES);
    let policy = Policy::default();
    let order = gang(100, "rate: 1Gbps, max_latency: 2ms");
    let found = place(&view, &Request::new(&order, submit()), &policy);
    let reasons = found.outcome.unwrap_err();
    assert_eq!(reasons.iter().map(|r| r.reason).collect::<Vec<_>>(), [ReasonKind::Latency]);
    let to = |pointer: &str| found.would_fit_if.iter().find(|c| c.pointer == pointer).map(|c| c.to.as_str());
    assert_eq!(to("/flows/0/max_latency"), Some("4ms"));
    assert_eq!(to("/components/0/replicas"), Some("80"));
}
