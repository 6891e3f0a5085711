//! Legs that fill the links which they share: what one takes decides what the next one can.

use crate::{
    brute,
    world::{order, submit, view},
};
use rhumb_model::quantity::Bandwidth;
use rhumb_placement::{Policy, Request, audit, decide};

/// Results of two sites leave over few links, the narrowest of which all of them would take.
const FEW: &str = "
currency: CNY
sites:
  - {name: a, prices: {cpu: 1 CNY}, nodes: [{cpu: 4}]}
  - {name: b, prices: {cpu: 1.1 CNY}, nodes: [{cpu: 4}]}
  - {name: d}
transit: [{name: t}]
links:
  - {id: l0, from: d, to: t, both_ways: true, capacity: 4Mbps, latency: 12ms, per_gb: 0.7 CNY, per_mbps_hour: 0.01 CNY}
  - {id: l1, from: d, to: b, both_ways: true, capacity: 3Mbps, latency: 15ms, per_gb: 0.3 CNY, per_mbps_hour: 0.01 CNY}
  - {id: l2, from: t, to: a, both_ways: true, capacity: 6Mbps, latency: 19ms, per_gb: 0.2 CNY, per_mbps_hour: 0.01 CNY}
  - {id: l3, from: b, to: t, both_ways: true, capacity: 7Mbps, latency: 10ms, per_gb: 0.7 CNY, per_mbps_hour: 0.01 CNY}
  - {id: l4, from: a, to: d, both_ways: true, capacity: 2Mbps, latency: 12ms, per_gb: 0.4 CNY, per_mbps_hour: 0.01 CNY}
  - {id: l5, from: a, to: b, both_ways: true, capacity: 8Mbps, latency: 5ms, per_gb: 0.6 CNY, per_mbps_hour: 0.01 CNY}
datasets: [{name: x, size: 1GB, at: [d]}]
";

const RESULTS: &str = "
name: results
class: processing
components:
  - {name: p, need: {cpu: 2}, work: {duration: 2h}}
  - {name: q, need: {cpu: 2}, replicas: 2, place: {spread: site}, work: {duration: 1h}}
flows:
  - {from: q, to: dataset/x, volume: 3GB}
  - {from: q, to: dataset/x, volume: 2GB}
  - {from: q, to: dataset/x, volume: 3GB, rate: 4Mbps}
terms: {value_per_hour: 6 CNY}
";

#[test]
fn six_legs_on_links_that_they_fill_are_proven_within_the_budget() {
    let (view, order) = (view(FEW), order(RESULTS));
    let policy = Policy { staging_max: Bandwidth::from_mbps(5), ..Policy::default() };
    let request = Request::new(&order, submit());
    let decision = decide(&view, &request, &policy);
    let plan = decision.plan().unwrap();
    // half a million selections of paths, nearly all of which begin with legs that no link carries
    let best = brute::best_within(&view, &order, submit(), policy.staging_max.kbps(), 50_000).unwrap().unwrap();
    assert_eq!(i128::from(plan.cost.total_micros), best.total);
    assert!(plan.proven_optimal && decision.stats.complete, "{:?}", decision.stats);
    assert_eq!(audit(plan, &request, &view, &policy), vec![]);
}

/// Two of each way carry one of the flows; a free one is too narrow for either.
const PAIRS: &str = "
currency: CNY
sites:
  - {name: b, prices: {cpu: 1 CNY}, nodes: [{cpu: 4}]}
  - {name: d}
transit: [{name: t}]
links:
  - {id: dt, from: d, to: t, capacity: 4Mbps, latency: 1ms}
  - {id: dt2, from: d, to: t, capacity: 4Mbps, latency: 1ms, per_gb: 0.2 CNY}
  - {id: tb, from: t, to: b, capacity: 4Mbps, latency: 1ms, per_gb: 0.3 CNY}
  - {id: tb2, from: t, to: b, capacity: 4Mbps, latency: 1ms, per_gb: 0.7 CNY}
  - {id: tb3, from: t, to: b, capacity: 4Mbps, latency: 1ms, per_gb: 0.7 CNY}
  - {id: narrow, from: d, to: b, capacity: 2Mbps, latency: 1ms}
datasets: [{name: x, size: 1GB, at: [d]}]
";

const INPUTS: &str = "
name: inputs
class: processing
components: [{name: p, need: {cpu: 2}, work: {duration: 2h}}]
flows:
  - {from: dataset/x, to: p, volume: 2GB, rate: 3Mbps}
  - {from: dataset/x, to: p, volume: 1GB, rate: 3Mbps}
";

#[test]
fn a_link_too_narrow_for_a_leg_does_not_narrow_its_choice() {
    let (view, order) = (view(PAIRS), order(INPUTS));
    let policy = Policy::default();
    let decision = decide(&view, &Request::new(&order, submit()), &policy);
    let plan = decision.plan().unwrap();
    // the larger flow takes the cheapest of each, at 0.3 for a gigabyte, and leaves 0.9 to the other
    assert_eq!(plan.cost.transfer_micros, 1_500_000);
    assert!(plan.proven_optimal);
}

/// Eight sites that must all serve, each over a link narrower than what it could serve, beside links of sixty other widths.
/// There are more ways of sharing the demand than could ever be listed: the search ends, with a plan.
#[test]
fn demand_over_many_sites_on_full_links_ends_with_a_plan() {
    let sites = (0..8).map(|i| format!("  - {{name: s{i}, prices: {{cpu: {} CNY}}, nodes: [{{cpu: 1}}]}}\n", 1 + i));
    let ways = (0..8).map(|i| format!("  - {{id: way-{i}, from: hub, to: s{i}, capacity: 13Mbps, latency: 1ms}}\n"));
    let others = (0..60)
        .map(|i| format!("  - {{id: other-{i}, from: hub, to: far, capacity: {}kbps, latency: 1ms}}\n", 901 + 97 * i));
    let file = format!(
        "currency: CNY\nsites:\n{}transit: [{{name: hub}}, {{name: far}}]\nregions: [{{name: users, at: hub}}]\nlinks:\n{}{}",
        sites.collect::<String>(),
        ways.collect::<String>(),
        others.collect::<String>(),
    );
    let service = order(
        "name: service\nclass: inference\ncomponents: [{name: s, replicas: 8, need: {cpu: 1}, service: {serves: 10rps, port: 80}}]\n\
         flows: [{from: region/users, to: s, demand: 75rps, rate: 100Mbps}]\n",
    );
    let (view, policy) = (view(&file), Policy::default());
    let request = Request::new(&service, submit());
    let plan = decide(&view, &request, &policy).outcome.unwrap();
    assert_eq!(audit(&plan, &request, &view, &policy), vec![]);
    assert_eq!(plan.flows.len(), 8);
}
