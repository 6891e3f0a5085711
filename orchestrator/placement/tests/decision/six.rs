//! Orders of up to six components on up to six sites against a placer that tries everything; and the same documents in
//! another order, for which the same is decided.

use crate::brute::{self, pruned};
use jiff::Timestamp;
use proptest::{
    prelude::*,
    sample::Index,
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use rhumb_federation::View;
use rhumb_model::{FederationFile, Order, quantity::Bandwidth};
use rhumb_placement::{Policy, Request, apply, audit, decide};
use serde_json::{Value, json};

const SUBMIT: &str = "2026-11-30T12:17:00Z";
/// Selections of legs that are tried in one instance, at most.
const SELECTIONS: u64 = 400_000;

/// Instances: RHUMB_INSTANCES, else enough for every day.
fn cases() -> u32 {
    std::env::var("RHUMB_INSTANCES").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

fn federation() -> impl Strategy<Value = Value> {
    let node = (any::<bool>(), 1_u32..4, 2_u32..9);
    let site = (10_u64..60, 5_u64..40, 1_u64..5, prop::collection::vec(node, 1..3), prop::bool::weighted(0.15));
    let link = (0_usize..7, 0_usize..7, 2_u64..12, 1_u64..30, 0_u64..40, 0_u64..40, prop::bool::weighted(0.7));
    (prop::collection::vec(site, 2..7), prop::collection::vec(link, 4..11)).prop_map(|(sites, links)| {
        let points: Vec<String> = (0..sites.len()).map(|i| format!("s{i}")).chain(["t0".to_owned()]).collect();
        let sites: Vec<Value> = (sites.iter().enumerate())
            .map(|(i, (h, a, cpu, nodes, abroad))| {
                let nodes: Vec<Value> = (nodes.iter())
                    .map(|(h, n, cpu)| {
                        let model = if *h { "H100" } else { "A100" };
                        json!({"count": 1, "accelerators": {"model": model, "count": n, "islands": [n]}, "cpu": cpu, "memory": "64GiB"})
                    })
                    .collect();
                json!({"name": format!("s{i}"), "jurisdiction": if *abroad { "SG" } else { "CN" }, "nodes": nodes,
                    "prices": {"H100": format!("{h}.37 CNY"), "A100": format!("{a} CNY"), "cpu": format!("0.{cpu} CNY")}})
            })
            .collect();
        let links: Vec<Value> = (links.iter().enumerate())
            .map(|(i, l)| (i, (l.0 % points.len(), l.1 % points.len()), l))
            .filter(|(_, (from, to), _)| from != to)
            .map(|(i, (from, to), l)| {
                json!({"id": format!("l{i}"), "from": points[from], "to": points[to], "both_ways": i % 3 > 0,
                    "capacity": format!("{}Mbps", l.2), "latency": format!("{}ms", l.3), "per_gb": format!("0.{:02} CNY", l.4),
                    "per_mbps_hour": format!("0.{:03} CNY", l.5), "jurisdictions": ["CN"], "encrypted": l.6})
            })
            .collect();
        json!({"currency": "CNY", "devices": {"H100": {"memory": "80GiB", "fp16": 1}, "A100": {"memory": "40GiB", "fp16": 0.42}},
            "sites": sites, "transit": [{"name": "t0", "jurisdiction": "CN"}], "links": links,
            "datasets": [{"name": "d", "size": "3GB", "at": ["s0"]}, {"name": "two", "size": "700MB", "at": ["s0", "s1"]}]})
    })
}

/// (accelerators, any model, cpu, hours)
type ComponentSpec = (u32, bool, u64, u64);
/// (kind, this component, another, amount, bound in ms, encrypted)
type FlowSpec = (u8, Index, Index, u64, Option<u64>, bool);

fn order() -> impl Strategy<Value = Value> {
    let component = (0_u32..3, any::<bool>(), 1_u64..5, 1_u64..9);
    let bound = prop::option::weighted(0.3, 8_u64..70);
    let flow = (0_u8..7, any::<Index>(), any::<Index>(), 1_u64..4, bound, prop::bool::weighted(0.1));
    let terms = (
        prop::option::weighted(0.5, 0_u64..50),
        prop::option::weighted(0.15, 20_u64..400),
        prop::option::weighted(0.2, 8_u64..14),
        any::<bool>(),
    );
    let rules = (prop::option::weighted(0.15, 1_u32..4), prop::option::weighted(0.15, any::<Index>()));
    let components = prop::collection::vec(component, 1..7);
    (components, prop::collection::vec(flow, 0..6), terms, rules)
        .prop_map(|(components, flows, terms, rules)| document(&components, &flows, terms, rules))
}

fn document(
    components: &[ComponentSpec],
    flows: &[FlowSpec],
    (value, budget, deadline, late): (Option<u64>, Option<u64>, Option<u64>, bool),
    (max_sites, tied): (Option<u32>, Option<Index>),
) -> Value {
    let name = |i: usize| format!("c{i}");
    let mut list: Vec<Value> = (components.iter().enumerate())
        .map(|(i, (count, any, cpu, hours))| {
            let mut need = json!({"cpu": cpu});
            let mut work = json!({"duration": format!("{hours}h")});
            if *count > 0 {
                need["accelerators"] =
                    json!({"count": count, "models": if *any { json!([]) } else { json!(["H100"]) }});
                work = json!({"hours": hours, "reference": "H100"});
            }
            json!({"name": name(i), "need": need, "work": work})
        })
        .collect();
    let last = components.len() - 1;
    if let Some(tied) = tied.filter(|_| last > 0) {
        list[last]["place"] = json!({"colocate": [name(tied.index(last))]});
    }
    let flows: Vec<Value> = (flows.iter())
        .filter_map(|(kind, this, that, amount, bound, encrypted)| {
            let (this, that) = (this.index(components.len()), that.index(components.len()));
            let (from, to) = (name(this), name(that));
            let mut flow = match kind {
                0 => json!({"from": "dataset/d", "to": to, "volume": format!("{amount}GB")}),
                1 => json!({"from": "dataset/two", "to": to}),
                2 => json!({"from": from, "to": "dataset/two", "volume": format!("{amount}00MB"), "rate": "2Mbps"}),
                3 => json!({"from": "dataset/two", "to": to, "rate": format!("{amount}Mbps")}),
                _ if this == that => return None,
                _ => json!({"from": from, "to": to, "rate": format!("{amount}Mbps")}),
            };
            if let Some(bound) = bound {
                flow["max_latency"] = json!(format!("{bound}ms"));
            }
            flow["encrypted"] = json!(encrypted);
            Some(flow)
        })
        .collect();
    let mut terms = json!({});
    if let Some(value) = value {
        terms["value_per_hour"] = json!(format!("{value} CNY"));
    }
    if let Some(budget) = budget {
        terms["budget"] = json!(format!("{budget} CNY"));
    }
    if let Some(hours) = deadline {
        let submit: Timestamp = SUBMIT.parse().unwrap();
        terms["deadline"] = json!((submit + jiff::SignedDuration::from_hours(hours as i64)).to_string());
        if late {
            terms["late_per_hour"] = json!("7 CNY");
        }
    }
    json!({"name": "o", "class": "training", "components": list, "flows": flows, "terms": terms,
        "constraints": {"max_sites": max_sites}})
}

/// The federation with its lists the other way round.
fn turned(file: &Value) -> Value {
    let mut file = file.clone();
    for list in ["sites", "links", "datasets"] {
        file[list].as_array_mut().unwrap().reverse();
    }
    for site in file["sites"].as_array_mut().unwrap() {
        site["nodes"].as_array_mut().unwrap().reverse();
    }
    file
}

fn read(file: &Value) -> View {
    View::from_file(&FederationFile::read(&file.to_string()).unwrap()).unwrap()
}

/// What came of many instances.
#[derive(Debug, Default)]
struct Tally {
    instances: u32,
    plans: u32,
    proven: u32,
    /// Cheapest by the placer that tries everything, proven or not.
    cheapest: u32,
    /// Not compared: more selections than can be tried.
    left_out: u32,
}

/// A fault, in words.
fn check(file: &Value, order: &Value, tally: &mut Tally) -> Result<(), String> {
    let view = read(file);
    let order = Order::read(&order.to_string()).unwrap();
    let submit: Timestamp = SUBMIT.parse().unwrap();
    let policy = Policy { staging_max: Bandwidth::from_mbps(5), ..Policy::default() };
    let request = Request::new(&order, submit);
    let found = decide(&view, &request, &policy);
    let again = decide(&read(&turned(file)), &request, &policy);
    if found.plan() != again.plan() {
        return Err(format!("another plan for the same documents turned round: {found:?} and {again:?}"));
    }
    tally.instances += 1;
    let Ok(best) = pruned::best(&view, &order, submit, policy.staging_max.kbps(), SELECTIONS) else {
        tally.left_out += 1;
        return Ok(());
    };
    let (plan, best) = match (found.plan(), best) {
        (Some(plan), Some(best)) => (plan, best),
        (None, None) => return Ok(()),
        (None, Some(_)) if !found.stats.complete => return Ok(()),
        (plan, best) => return Err(format!("a plan where there is none, or none where there is: {plan:?} {best:?}")),
    };
    let (total, least) = (i128::from(plan.cost.total_micros), i128::from(plan.lower_bound_micros));
    let names: Vec<Vec<String>> =
        plan.components.iter().map(|c| c.assignments.iter().map(|a| a.site.to_string()).collect()).collect();
    tally.plans += 1;
    tally.proven += u32::from(plan.proven_optimal);
    tally.cheapest += u32::from(total == best.total);
    let faults = audit(plan, &request, &view, &policy);
    let sound = faults.is_empty() && apply(&view, plan, &order).is_ok() && least <= best.total && best.total <= total;
    let proof = if plan.proven_optimal { total == best.total && names == best.names } else { !found.stats.complete };
    if sound && proof { Ok(()) } else { Err(format!("{plan:?} {faults:?} and {best:?}")) }
}

#[test]
fn orders_of_six_components_on_six_sites_are_placed_as_cheaply_as_can_be() {
    let mut runner = TestRunner::default();
    let mut tally = Tally::default();
    for _ in 0..cases() {
        let (file, order) = (federation(), order()).new_tree(&mut runner).unwrap().current();
        if let Err(fault) = check(&file, &order, &mut tally) {
            panic!("{fault}\n{file}\n{order}");
        }
    }
    println!("{tally:?}");
    assert!(tally.plans * 4 >= tally.instances, "too few have a plan: {tally:?}");
    // one instance in thousands takes more nodes than there are, or more selections than can be tried
    assert!((tally.plans - tally.proven + tally.left_out) * 200 <= tally.instances, "{tally:?}");
    assert!(tally.cheapest >= tally.proven, "{tally:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Leaving out placements that are too dear changes nothing.
    #[test]
    fn the_placer_that_leaves_out_dear_placements_finds_what_the_other_finds(file in federation(), order in order()) {
        let view = read(&file);
        let order = Order::read(&order.to_string()).unwrap();
        prop_assume!(order.components.len() <= 2);
        let submit: Timestamp = SUBMIT.parse().unwrap();
        let all = brute::best_within(&view, &order, submit, 5_000, SELECTIONS);
        let some = pruned::best(&view, &order, submit, 5_000, SELECTIONS);
        let (Ok(all), Ok(some)) = (all, some) else {
            return Err(TestCaseError::reject("more selections than can be tried"));
        };
        prop_assert_eq!(all, some);
    }
}
