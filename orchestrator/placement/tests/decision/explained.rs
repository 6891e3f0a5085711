//! What a decision says beside the plan is true: refusals, what would help, and what other sites would cost.

use crate::world::{SUBMIT, order, submit, view};
use rhumb_model::{ReasonKind, refusal::VerdictKind};
use rhumb_placement::{Policy, Request, apply, audit, decide, never_fits, place, place_batch};

/// Two sites far apart, one transit point between them, and a dear direct line.
const PAIR: &str = "
currency: CNY
rates: {USD: 7}
devices:
  H100: {memory: 80GiB, fp16: 1}
  A100: {memory: 40GiB, fp16: 0.5}
sites:
  - {name: east, jurisdiction: CN, prices: {H100: 20 CNY}, nodes: [{count: 2, accelerators: {model: H100, count: 8, islands: [4, 4]}, cpu: 64, memory: 512GiB}]}
  - {name: west, jurisdiction: CN, labels: [gov], prices: {A100: 8 CNY}, nodes: [{count: 1, accelerators: {model: A100, count: 4}, cpu: 32, memory: 256GiB}]}
  - {name: abroad, jurisdiction: SG, prices: {H100: 1 USD}, nodes: [{count: 4, accelerators: {model: H100, count: 8, islands: [8]}, cpu: 64, memory: 512GiB}]}
transit: [{name: pop, jurisdiction: CN}]
links:
  - {id: ep, from: east, to: pop, both_ways: true, capacity: 1Gbps, latency: 5ms, per_gb: 0.1 CNY, jurisdictions: [CN]}
  - {id: pw, from: pop, to: west, both_ways: true, capacity: 1Gbps, latency: 6ms, per_gb: 0.1 CNY, jurisdictions: [CN]}
  - {id: ew, from: east, to: west, both_ways: true, capacity: 100Mbps, latency: 4ms, per_gb: 1 CNY, jurisdictions: [CN], encrypted: true}
  - {id: pa, from: pop, to: abroad, both_ways: true, capacity: 10Gbps, latency: 30ms, per_gb: 0.5 CNY}
datasets: [{name: d, size: 100GB, at: [east]}]
regions: [{name: users, at: pop, access: 1ms}]
";

fn train(count: u32, rest: &str) -> String {
    format!(
        "
name: t
class: training
components: [{{name: main, need: {{accelerators: {{count: {count}, models: [H100]}}}}, work: {{hours: 2, reference: H100}}}}]
{rest}
"
    )
}

/// Reasons of the refusal, and every change proved by making it.
fn refused(file: &str, order_text: &str) -> (Vec<ReasonKind>, Vec<(String, String)>) {
    let (view, order) = (view(file), order(order_text));
    let decision = place(&view, &Request::new(&order, submit()), &Policy::default());
    let reasons = decision.outcome.expect_err("the order fits");
    assert!(reasons.is_sorted_by_key(|r| r.reason), "{reasons:?}");
    assert!(
        decision.sites.iter().all(|s| s.verdict == VerdictKind::Refused && s.reason.is_some()),
        "{:?}",
        decision.sites
    );
    let changes = decision.would_fit_if.into_iter().map(|c| (c.pointer, c.to)).collect();
    (reasons.into_iter().map(|r| r.reason).collect(), changes)
}

fn has(changes: &[(String, String)], pointer: &str, to: &str) {
    assert!(changes.iter().any(|(p, t)| p == pointer && t == to), "{pointer} {to}: {changes:#?}");
}

#[test]
fn the_cheapest_site_is_chosen_and_others_say_what_they_would_cost_more() {
    let (view, order) = (view(PAIR), order(&train(4, "flows: [{from: dataset/d, to: main}]")));
    let request = Request::new(&order, submit());
    let decision = place(&view, &request, &Policy::default());
    let plan = decision.plan().expect("it fits");
    // abroad: 4 x 7 CNY x 2 h and 100 GB over two links at 0.6; at home 4 x 20 x 2 and nothing to move
    assert_eq!(plan.components[0].assignments[0].site.as_str(), "abroad");
    assert_eq!(plan.cost.total_micros, 56_000_000 + 60_000_000);
    assert_eq!(plan.cost.transfer_micros, 60_000_000);
    assert_eq!(audit(plan, &request, &view, &Policy::default()), vec![]);
    let of = |name: &str| decision.sites.iter().find(|s| s.site.as_str() == name).unwrap();
    assert_eq!(of("abroad").verdict, VerdictKind::Chosen);
    assert_eq!(of("east").delta_micros, Some(160_000_000 - 116_000_000));
    assert_eq!(of("east").delta.unwrap().transfer_micros, -60_000_000);
    assert_eq!(of("west").reason.as_ref().unwrap().reason, ReasonKind::Model);
}

#[test]
fn a_node_that_is_too_small_is_named_with_its_largest_fit() {
    // free devices of every node are too few although the sum is enough
    let file = "
currency: CNY
devices: {X: {memory: 80GiB, fp16: 1}}
sites:
  - {name: s1, prices: {X: 1 CNY}, nodes: [{count: 5, accelerators: {model: X, count: 3}}]}
  - {name: s2, prices: {X: 2 CNY}, nodes: [{count: 1, accelerators: {model: X, count: 8}}]}
";
    let order = order(
        "
name: t
class: training
components: [{name: main, need: {accelerators: {count: 4}}, work: {duration: 1h}}]",
    );
    let view = view(file);
    let decision = place(&view, &Request::new(&order, submit()), &Policy::default());
    assert_eq!(decision.plan().unwrap().components[0].assignments[0].site.as_str(), "s2");
    let s1 = decision.sites[0].reason.as_ref().unwrap();
    assert_eq!(s1.reason, ReasonKind::Shape);
    assert!(s1.needed.contains('4') && s1.free.contains('3'), "{s1:?}");
}

#[test]
fn components_are_counted_together_not_one_by_one() {
    // needs 2 x 4 and 3 x 2 devices: 14 in all
    let site = |name: &str, devices: u32| {
        format!(
            "  - {{name: {name}, prices: {{X: 1 CNY}}, nodes: [{{count: {devices}, accelerators: {{model: X, count: 1}}}}]}}\n"
        )
    };
    let file = |nodes: &str| format!("currency: CNY\ndevices: {{X: {{memory: 80GiB, fp16: 1}}}}\nsites:\n{nodes}");
    let whole = "  - {name: s2, prices: {X: 1 CNY}, nodes: [{count: 1, accelerators: {model: X, count: 14}}]}\n";
    let small = "  - {name: s1, prices: {X: 1 CNY}, nodes: [{count: 1, accelerators: {model: X, count: 6}}]}\n";
    let text = "
name: t
class: training
constraints: {max_sites: 1}
components:
  - {name: a, replicas: 2, need: {accelerators: {count: 4}}, work: {duration: 1h}}
  - {name: b, replicas: 3, need: {accelerators: {count: 2}}, work: {duration: 1h}}";
    let order = order(text);
    let request = Request::new(&order, submit());
    let both = view(&file(&format!("{small}{whole}")));
    let decision = decide(&both, &request, &Policy::default());
    let plan = decision.plan().unwrap();
    assert!(plan.components.iter().flat_map(|c| &c.assignments).all(|a| a.site.as_str() == "s2"), "{plan:?}");
    // what is left of s2 is nothing
    let left = apply(&both, plan, &order).unwrap();
    assert!(decide(&left, &request, &Policy::default()).plan().is_none());
    // single devices on fourteen nodes are enough in sum and for nobody
    let (reasons, _) = refused(&file(&site("s2", 14)), text);
    assert_eq!(reasons, [ReasonKind::Shape, ReasonKind::Shape]);
}

#[test]
fn a_refusal_names_what_is_missing_and_the_smallest_change_of_each_kind() {
    let (reasons, changes) = refused(PAIR, &train(16, ""));
    assert_eq!(reasons, [ReasonKind::Shape]);
    has(&changes, "/components/0/need/accelerators/count", "8");

    let (reasons, changes) = refused(PAIR, &train(4, "constraints: {labels: [gov]}"));
    assert_eq!(reasons, [ReasonKind::Model]);
    has(&changes, "/components/0/need/accelerators/models", "A100, H100");
    has(&changes, "/constraints/labels", "none");

    let (reasons, changes) = refused(PAIR, &train(4, "constraints: {jurisdictions: [US]}"));
    assert_eq!(reasons, [ReasonKind::Jurisdiction]);
    has(&changes, "/constraints/jurisdictions", "SG, US");

    let (reasons, changes) = refused(PAIR, &train(4, "terms: {budget: 50 CNY}"));
    assert_eq!(reasons, [ReasonKind::Budget]);
    has(&changes, "/terms/budget", "56.01 CNY");

    let (reasons, changes) = refused(PAIR, &train(4, &format!("terms: {{deadline: {SUBMIT}}}")));
    assert_eq!(reasons, [ReasonKind::Deadline]);
    has(&changes, "/terms/deadline", "2026-11-30T14:17:00Z");

    let nvlink = train(8, "constraints: {not_sites: [abroad]}")
        .replace("models: [H100]", "models: [H100], interconnect: nvlink");
    let (reasons, changes) = refused(PAIR, &nvlink);
    assert_eq!(reasons, [ReasonKind::Interconnect]);
    has(&changes, "/components/0/need/accelerators/interconnect", "node");
    has(&changes, "/constraints/not_sites", "none");
    has(&changes, "/components/0/need/accelerators/count", "4");

    let served = "
name: s
class: inference
components: [{name: web, replicas: 1, need: {cpu: 1}, service: {serves: 10rps, port: 80}}]
constraints: {sites: [west]}
flows: [{from: region/users, to: web, demand: 8rps, rate: 2Gbps, max_latency: 10ms}]
";
    let (reasons, changes) = refused(PAIR, &served.replace("max_latency: 10ms", "max_latency: 20ms"));
    assert_eq!(reasons, [ReasonKind::Bandwidth]);
    has(&changes, "/flows/0/rate", "1Gbps");
    has(&changes, "/links/pw/capacity", "2Gbps");
    let (reasons, changes) = refused(PAIR, &served.replace("2Gbps", "1Mbps").replace("10ms", "6ms"));
    assert_eq!(reasons, [ReasonKind::Latency]);
    has(&changes, "/flows/0/max_latency", "7ms");
    let (reasons, changes) = refused(PAIR, &served.replace("8rps", "25rps"));
    assert_eq!(reasons, [ReasonKind::Capacity]);
    assert!(changes.is_empty() || changes.iter().any(|(p, _)| p == "/flows/0/demand"), "{changes:?}");

    let secret = train(4, "flows: [{from: dataset/d, to: main, encrypted: true}]\nconstraints: {sites: [abroad]}");
    let (reasons, changes) = refused(PAIR, &secret);
    assert_eq!(reasons, [ReasonKind::Encryption]);
    has(&changes, "/flows/0/encrypted", "false");

    let (reasons, _) = refused(PAIR, &train(4, "flows: [{from: dataset/unheard, to: main}]"));
    assert_eq!(reasons, [ReasonKind::NotAllowed]);
}

#[test]
fn residency_binds_paths_too() {
    // the only way from the data to the site leads over links that do not say where they lie
    let text =
        train(4, "flows: [{from: dataset/d, to: main}]\nconstraints: {sites: [abroad], jurisdictions: [CN, SG]}");
    let (reasons, _) = refused(PAIR, &text);
    assert_eq!(reasons, [ReasonKind::Jurisdiction]);
}

#[test]
fn an_order_for_which_no_federation_is_large_enough_never_fits() {
    let file = view(PAIR);
    let policy = Policy::default();
    let (large, small) = (order(&train(16, "")), order(&train(8, "constraints: {sites: [east]}")));
    assert!(never_fits(&file, &Request::new(&large, submit()), &policy));
    let request = Request::new(&small, submit());
    let plan = decide(&file, &request, &policy).outcome.unwrap();
    let once = apply(&file, &plan, &small).unwrap();
    let twice = apply(&once, &decide(&once, &request, &policy).outcome.unwrap(), &small).unwrap();
    let reasons = decide(&twice, &request, &policy).outcome.unwrap_err();
    assert_eq!(reasons[0].reason, ReasonKind::Capacity);
    assert!(!never_fits(&twice, &request, &policy));
    assert!(apply(&twice, &plan, &small).is_err());
}

#[test]
fn a_batch_never_takes_anything_twice_and_does_not_care_for_its_order() {
    let file = view(PAIR);
    let orders: Vec<_> = (0..9)
        .map(|i| {
            let mut o = order(&train(8, "constraints: {sites: [abroad, east]}"));
            o.name = format!("t{i}").parse().unwrap();
            o.terms.priority = Some(i * 10);
            o
        })
        .collect();
    let requests: Vec<_> = orders.iter().map(|o| Request::new(o, submit())).collect();
    let batch = place_batch(&file, &requests, &Policy::default());
    // four nodes abroad, two at home; the least urgent wait
    let placed: Vec<bool> = batch.decisions.iter().map(|d| d.plan().is_some()).collect();
    assert_eq!(placed, [false, false, false, true, true, true, true, true, true]);
    let reversed: Vec<_> = requests.iter().rev().copied().collect();
    let other = place_batch(&file, &reversed, &Policy::default());
    let mut back = other.decisions.clone();
    back.reverse();
    assert_eq!(back, batch.decisions);
    assert!(batch.lower_bound_micros <= batch.total_micros);
    assert_eq!(batch.total_micros, 4 * 112_000_000 + 2 * 320_000_000);
}
