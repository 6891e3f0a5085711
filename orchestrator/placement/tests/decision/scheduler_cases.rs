//! Wrong placements of other schedulers as their users reported them, decided on here. The inputs are read from
//! `cases/open.json` beside the data folder (`RHUMB_DATA`, else `../shared/data` beside the project).

use crate::world::{order, submit, view};
use public_data::case;
use rhumb_model::{ReasonKind, refusal::VerdictKind};
use rhumb_placement::{Decision, Policy, Request, audit, place};
use serde_json::{Value, json};

/// One node for each number of free accelerators.
fn nodes(free: &[Value]) -> Value {
    let node = |n: &Value| json!({"accelerators": {"model": "H100", "count": n}, "cpu": 96, "memory": "1TiB"});
    free.iter().map(node).collect()
}

fn decided(federation: &Value, document: &Value) -> Decision {
    let (view, order) = (view(&federation.to_string()), order(&document.to_string()));
    let request = Request::new(&order, submit());
    let decision = place(&view, &request, &Policy::default());
    if let Some(plan) = decision.plan() {
        assert_eq!(audit(plan, &request, &view, &Policy::default()), Vec::new());
    }
    decision
}

/// H-O03: one replica stands on one node, however much the site has in sum.
#[test]
fn a_site_whose_nodes_are_all_too_small_is_not_chosen_for_its_sum() {
    let Some(case) = case("H-O03") else { return };
    let sites = case["sites"].as_array().unwrap();
    let mut federation = json!({
        "currency": "CNY",
        "devices": {"H100": {"memory": "80GiB", "fp16": 1}},
        "sites": [{"name": "home", "nodes": [{"cpu": 4, "memory": "8GiB"}]}],
        "links": [],
        "datasets": [{"name": "d", "size": "1GB", "at": ["home"]}],
    });
    for site in sites {
        let name = site["id"].as_str().unwrap();
        let nodes = nodes(site["nodes_free"].as_array().unwrap());
        let per_gb = format!("{} CNY", case["path_cost"][name]);
        federation["sites"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": name, "prices": {"H100": "1 CNY"}, "nodes": nodes}));
        federation["links"]
            .as_array_mut()
            .unwrap()
            .push(json!({"id": format!("home-{name}"), "from": "home", "to": name,
            "capacity": "10Gbps", "latency": "1ms", "per_gb": per_gb}));
    }
    let document = json!({
        "name": "one", "class": "training",
        "components": [{"name": "worker", "replicas": case["order"]["replicas"],
            "need": {"accelerators": {"count": case["order"]["gpus_per_replica"]}}, "work": {"duration": "1h"}}],
        "flows": [{"from": "dataset/d", "to": "worker"}],
    });
    let decision = decided(&federation, &document);
    let plan = decision.plan().expect("a node of s2 takes it");
    assert_eq!(plan.components[0].assignments[0].site.as_str(), "s2");
    let s1 = decision.sites.iter().find(|s| s.site.as_str() == "s1").unwrap();
    let reason = s1.reason.as_ref().unwrap();
    assert_eq!((s1.verdict, reason.reason), (VerdictKind::Refused, ReasonKind::Shape));
    // needed four, and the largest node has three
    assert!(reason.needed.contains("4 x H100") && reason.free.contains("at most 3 x H100"), "{reason:?}");
}

/// H-S07: what an order needs is the sum over its components, not what a single count of replicas says.
#[test]
fn components_with_counts_of_their_own_are_all_counted() {
    let Some(case) = case("H-S07") else { return };
    let parts = case["components"].as_array().unwrap();
    let needed: u64 = parts.iter().map(|c| c["n"].as_u64().unwrap() * c["gpus"].as_u64().unwrap()).sum();
    let free = case["free"].as_object().unwrap();
    assert_eq!((needed, free["s2"].as_u64()), (14, Some(14)));
    // the small site is the cheaper one
    let site = |name: &str, price: &str| json!({"name": name, "prices": {"H100": price}, "nodes": nodes(&[free[name].clone()])});
    let federation = json!({
        "currency": "CNY",
        "devices": {"H100": {"memory": "80GiB", "fp16": 1}},
        "sites": [site("s1", "1 CNY"), site("s2", "2 CNY")],
    });
    let component = |(i, c): (usize, &Value)| {
        json!({"name": format!("part-{i}"), "replicas": c["n"], "need": {"accelerators": {"count": c["gpus"]}},
            "work": {"duration": "1h"}})
    };
    let document = json!({
        "name": "parts", "class": "training",
        "components": parts.iter().enumerate().map(component).collect::<Vec<_>>(),
        "constraints": {"max_sites": 1},
    });
    let decision = decided(&federation, &document);
    let plan = decision.plan().expect("s2 takes all of it");
    let assignments = || plan.components.iter().flat_map(|c| &c.assignments);
    assert!(assignments().all(|a| a.site.as_str() == "s2"), "{plan:?}");
    let taken: u32 = assignments().map(|a| a.replicas * a.devices_per_replica).sum();
    assert_eq!(u64::from(taken), needed);
    let s1 = decision.sites.iter().find(|s| s.site.as_str() == "s1").unwrap();
    assert_eq!(s1.verdict, VerdictKind::Refused, "{s1:?}");
}
