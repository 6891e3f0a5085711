//! Which nodes of a site a replica takes, and what that leaves to others.

use crate::world::{order, submit, view};
use rhumb_federation::View;
use rhumb_model::{Order, fit, order::Need};
use rhumb_placement::{Policy, Request, apply_by, audit, decide};

fn site(nodes: &str) -> String {
    format!(
        "currency: CNY\ndevices: {{H: {{memory: 80GiB, fp16: 1}}}}\nsites: [{{name: a, prices: {{H: 1 CNY}}, nodes: [{nodes}]}}, {{name: b, prices: {{H: 1 CNY}}, nodes: [{{count: 9, accelerators: {{model: H, count: 8, islands: [8]}}, rack: far}}]}}]"
    )
}

fn job(replicas: u32, need: &str, place: &str) -> Order {
    order(&format!(
        "name: t\nclass: training\nconstraints: {{sites: [a]}}\ncomponents: [{{name: c, replicas: {replicas}, need: {{accelerators: {need}}}, work: {{duration: 3h}}, place: {place}}}]"
    ))
}

/// What is left of the site, and the cost of what was made unusable.
fn left(view: &View, order: &Order, policy: &Policy) -> (View, i64) {
    let request = Request::new(order, submit());
    let plan = decide(view, &request, policy).outcome.expect("it fits");
    assert_eq!(audit(&plan, &request, view, policy), vec![]);
    (apply_by(view, &plan, order, policy).unwrap(), plan.cost.fragmentation_micros)
}

fn fit_now(view: &View, need: &str) -> u32 {
    let need: Need = serde_json::from_value(
        serde_json::json!({"accelerators": serde_json::from_str::<serde_json::Value>(need).unwrap()}),
    )
    .unwrap();
    fit::most(&need, Some(&"H".parse().unwrap()), &view.sites[0].nodes)
}

const PAIR: &str = r#"{"count": 2, "interconnect": "nvlink"}"#;

#[test]
fn two_devices_by_nvlink_take_an_intact_pair() {
    // three left of an island, or one of two pairs: the tightest node would strand a device
    let view = view(&site(
        "{accelerators: {model: H, count: 3, islands: [3]}}, {accelerators: {model: H, count: 4, islands: [2, 2]}}",
    ));
    let (after, _) = left(&view, &job(1, "{count: 2, interconnect: nvlink}", "{}"), &Policy::default());
    assert_eq!(fit_now(&after, PAIR), 2);
    assert_eq!(fit_now(&after, r#"{"count": 3, "interconnect": "nvlink"}"#), 1);
    // as many pairs as there are, none over two islands
    assert_eq!(fit_now(&view, PAIR), 3);
}

fn mix(entries: &[(&str, u32)], price: Option<&str>) -> Policy {
    let entries: Vec<_> = entries
        .iter()
        .map(|(need, weight)| serde_json::json!({"weight": weight, "need": {"accelerators": serde_json::from_str::<serde_json::Value>(need).unwrap()}}))
        .collect();
    serde_json::from_value(serde_json::json!({"demand_mix": entries, "fragmentation_per_device_hour": price})).unwrap()
}

#[test]
fn nodes_are_chosen_so_that_the_usual_orders_lose_least() {
    // tightest first breaks the pair of four; orders of four are what comes
    let file = site("{accelerators: {model: H, count: 4}}, {count: 2, accelerators: {model: H, count: 7}}");
    let view = view(&file);
    let one = job(1, "{count: 1}", "{}");
    let four = r#"{"count": 4}"#;
    assert_eq!(fit_now(&left(&view, &one, &Policy::default()).0, four), 2);
    let (after, cost) = left(&view, &one, &mix(&[(four, 3), (r#"{"count": 1}"#, 1)], None));
    assert_eq!((fit_now(&after, four), cost), (3, 0));
    // of seven, three were lost to orders of four before, and two are now: nothing is made unusable
    let (_, cost) = left(&view, &one, &mix(&[(four, 3), (r#"{"count": 1}"#, 1)], Some("4 CNY")));
    assert_eq!(cost, 0);
}

#[test]
fn what_is_made_unusable_costs_by_device_and_hour() {
    let view = view(&site("{accelerators: {model: H, count: 8, islands: [8]}}"));
    let policy = mix(&[(r#"{"count": 8}"#, 1), (r#"{"count": 1}"#, 2)], Some("4 CNY"));
    let (_, cost) = left(&view, &job(1, "{count: 1}", "{}"), &policy);
    // seven devices are lost to a third of the orders, for three hours at 4 CNY
    assert_eq!(cost, 28_000_000);
    let free = Order { constraints: rhumb_model::order::Constraints::default(), ..job(1, "{count: 2}", "{}") };
    // six are lost wherever it goes; a site where two are left over already loses nothing
    let crowded = crate::world::view(
        &site("{accelerators: {model: H, count: 2}}")
            .replace("name: a, prices: {H: 1 CNY}", "name: a, prices: {H: 1.5 CNY}"),
    );
    let request = Request::new(&free, submit());
    let plan = decide(&crowded, &request, &policy).outcome.unwrap();
    assert_eq!((plan.components[0].assignments[0].site.as_str(), plan.cost.fragmentation_micros), ("a", 0));
    assert_eq!(audit(&plan, &request, &crowded, &policy), vec![]);
    let plan = decide(&crowded, &request, &Policy::default()).outcome.unwrap();
    assert_eq!(plan.components[0].assignments[0].site.as_str(), "b");
}

#[test]
fn a_plan_with_another_fragmentation_term_does_not_pass() {
    let view = view(&site("{accelerators: {model: H, count: 8, islands: [8]}}"));
    let policy = mix(&[(r#"{"count": 8}"#, 1)], Some("4 CNY"));
    let order = job(1, "{count: 1}", "{}");
    let request = Request::new(&order, submit());
    let mut plan = decide(&view, &request, &policy).outcome.unwrap();
    plan.cost.fragmentation_micros -= 1;
    plan.cost.total_micros -= 1;
    plan.lower_bound_micros -= 1;
    assert!(audit(&plan, &request, &view, &policy).iter().any(|v| v.detail.starts_with("fragmentation")));
}

#[test]
fn replicas_of_one_domain_take_the_tightest_that_holds_them() {
    let rack = |name: &str, nodes: u32| {
        format!("{{count: {nodes}, accelerators: {{model: H, count: 8}}, rack: {name}, nvl_domain: {name}}}")
    };
    let view = view(&site(&format!("{}, {}, {}", rack("r1", 9), rack("r2", 4), rack("r3", 3))));
    for kind in ["rack", "nvl_domain"] {
        let (after, _) = left(&view, &job(4, &format!("{{count: 8, interconnect: {kind}}}"), "{}"), &Policy::default());
        let racks: Vec<_> = after.sites[0]
            .nodes
            .iter()
            .filter(|n| n.shape.free_devices() == 8)
            .map(|n| (n.shape.rack.as_ref().unwrap().as_str(), n.count))
            .collect();
        assert_eq!(racks, [("r1", 9), ("r3", 3)]);
    }
    // one of each rack, and no two on a node
    let (after, _) = left(&view, &job(3, "{count: 8}", "{spread: rack}"), &Policy::default());
    let free: Vec<u32> = after.sites[0].nodes.iter().filter(|n| n.shape.free_devices() == 8).map(|n| n.count).collect();
    assert_eq!(free, [8, 3, 2]);
    let (after, _) = left(&view, &job(16, "{count: 1}", "{spread: node}"), &Policy::default());
    assert!(after.sites[0].nodes.iter().all(|n| n.shape.free_devices() == 7));
    let request = job(4, "{count: 8}", "{spread: rack}");
    assert!(decide(&view, &Request::new(&request, submit()), &Policy::default()).outcome.is_err());
}

/// How long a large gang takes, to be read by a person: `cargo test -p rhumb-placement large_gangs -- --nocapture`.
#[test]
fn large_gangs_are_placed_by_shape_not_one_by_one() {
    let racks: Vec<String> = (0..64)
        .map(|r| format!("{{count: 20, accelerators: {{model: H, count: 8, islands: [8]}}, cpu: 96, rack: r{r:02}}}"))
        .collect();
    let view = view(&site(&racks.join(", ")));
    for (replicas, need, place) in [
        (512, "{count: 2, interconnect: nvlink}", "{spread: node}"),
        (512, "{count: 8, interconnect: nvlink}", "{}"),
        (64, "{count: 8}", "{spread: rack}"),
        (80, "{count: 2, interconnect: rack}", "{}"),
        (10_000, "{count: 1}", "{}"),
        (10_000, "{share: 50%}", "{}"),
    ] {
        let order = job(replicas, need, place);
        let request = Request::new(&order, submit());
        for policy in [Policy::default(), mix(&[(r#"{"count": 8}"#, 1), (PAIR, 2)], Some("1 CNY"))] {
            let begun = std::time::Instant::now();
            let plan = decide(&view, &request, &policy).outcome.expect("it fits");
            let decided = begun.elapsed();
            let after = apply_by(&view, &plan, &order, &policy).unwrap();
            println!(
                "{replicas} x {need} {place}, mix of {}: decided in {decided:?}, applied in {:?}",
                policy.demand_mix.len(),
                begun.elapsed().saturating_sub(decided)
            );
            assert_eq!(plan.components[0].assignments.iter().map(|a| a.replicas).sum::<u32>(), replicas);
            assert_eq!(audit(&plan, &request, &view, &policy), vec![]);
            assert!(after.sites[0].nodes.len() < 400);
        }
    }
}
