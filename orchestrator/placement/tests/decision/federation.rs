//! Refusals that a change of the federation, or time, would mend: each is made in the files and placed again.

use crate::changes::proved;
use rhumb_federation::View;
use rhumb_model::{FederationFile, Order, ReasonKind, refusal::Change};
use rhumb_placement::{Policy, Request, place};
use serde_json::Value;
use std::{fs, path::Path};

fn value(yaml: &str) -> Value {
    serde_json::to_value(FederationFile::read(yaml).unwrap()).unwrap()
}

/// Two carriers between a home with data and two sites with devices, one of which is taken until the evening.
const FILE: &str = "
currency: CNY
devices: {H100: {memory: 80GiB, fp16: 1}}
sites:
  - {name: home, jurisdiction: CN, nodes: [{count: 1, cpu: 4}], prices: {cpu: 1 CNY}}
  - name: near
    jurisdiction: CN
    prices: {H100: 10 CNY}
    nodes: [{count: 1, accelerators: {model: H100, count: 6, busy: 2}, cpu: 64, memory: 512GiB}]
    installed: [{count: 1, accelerators: {model: H100, count: 8}, cpu: 64, memory: 512GiB}]
  - name: away
    jurisdiction: CN
    state: draining
    prices: {H100: 12 CNY}
    nodes: [{count: 1, accelerators: {model: H100, count: 8}, cpu: 64, memory: 512GiB}]
links:
  - {id: a-near, from: home, to: near, both_ways: true, capacity: 1Gbps, latency: 9ms, per_gb: 0.1 CNY, provider: a}
  - {id: b-near, from: home, to: near, both_ways: true, capacity: 1Gbps, latency: 7ms, per_gb: 0.3 CNY, provider: b, encrypted: true, stale: true}
  - {id: a-away, from: home, to: away, both_ways: true, capacity: 2Gbps, latency: 4ms, per_gb: 0.1 CNY, provider: a}
datasets: [{name: d, size: 10GB, at: [home]}]
releases:
  - {at: 2026-11-30T14:10:00Z, order: nightly, sites: [{name: near, nodes: [{count: 1, accelerators: {model: H100, count: 8}, cpu: 64, memory: 512GiB}]}]}
  - {at: 2026-11-30T18:00:00Z, order: later, links: [{id: a-near, capacity: 1Gbps}]}
";

fn order(count: u32, flow: &str, rest: &str) -> Value {
    let text = format!(
        "{{name: o, class: training, components: [{{name: main, need: {{accelerators: {{count: {count}}}}}, work: {{duration: 1h}}}}], \
         flows: [{{from: dataset/d, to: main{flow}}}]{rest}}}"
    );
    serde_json::to_value(Order::read(&text).unwrap()).unwrap()
}

fn of<'c>(changes: &'c [Change], pointer: &str) -> &'c Change {
    changes.iter().find(|c| c.pointer == pointer).unwrap_or_else(|| panic!("{pointer}: {changes:#?}"))
}

#[test]
fn room_comes_with_an_end_with_devices_or_with_a_site_that_takes_work_again() {
    let changes = proved(&order(8, "", ""), &value(FILE), &Policy::default());
    let end = of(&changes, "/at");
    assert_eq!((end.to.as_str(), end.when.as_deref()), ("2026-11-30T14:10:00Z", Some("order nightly ends")));
    assert_eq!(of(&changes, "/sites/away/state").to, "ready");
    let nodes: Vec<&str> = changes.iter().filter(|c| c.pointer == "/sites/near/nodes").map(|c| c.to.as_str()).collect();
    assert!(nodes.contains(&"2 more H100 on one node"), "{nodes:?}");
    assert_eq!(of(&changes, "/components/0/need/accelerators/count").to, "6");
}

#[test]
fn a_carrier_helps_once_its_figures_are_fresh_or_its_link_is_encrypted() {
    let (file, policy) = (value(FILE), Policy::default());
    // the encrypted link is too old, the fresh one is plain: either would do
    let changes = proved(&order(4, ", encrypted: true", ""), &file, &policy);
    assert_eq!(of(&changes, "/links/b-near/stale").to, "false");
    assert_eq!(of(&changes, "/links/a-near/encrypted").to, "true");
    // 8 ms is between the two carriers
    let changes = proved(&order(4, ", max_latency: 8ms", ""), &file, &policy);
    assert_eq!(of(&changes, "/links/a-near/latency").to, "8ms");
    assert_eq!(of(&changes, "/links/b-near/stale").to, "false");
    assert_eq!(of(&changes, "/flows/0/max_latency").to, "9ms");
    let changes = proved(&order(4, ", rate: 1500Mbps", ""), &file, &policy);
    assert_eq!(of(&changes, "/links/a-near/capacity").to, "1500Mbps");
    assert_eq!(of(&changes, "/flows/0/rate").to, "1Gbps");
}

#[test]
fn a_window_is_widened_by_as_little_as_is_enough() {
    let window = ", terms: {window: {from: '22:00', to: '22:30', tz: Asia/Shanghai}}";
    let changes = proved(&order(4, "", window), &value(FILE), &Policy::default());
    // 80 s of staging at 1 Gbps, then an hour
    assert_eq!(of(&changes, "/terms/window").to, "22:00 to 23:02 Asia/Shanghai");
}

#[test]
fn an_avoided_site_is_not_allowed_and_a_draining_one_drains() {
    let mut view = View::from_file(&FederationFile::read(FILE).unwrap()).unwrap();
    view.avoid.insert("near".parse().unwrap());
    let order = Order::read(&order(4, "", "").to_string()).unwrap();
    let decision = place(&view, &Request::new(&order, crate::world::submit()), &Policy::default());
    let of = |name: &str| decision.sites.iter().find(|s| s.site.as_str() == name).unwrap().reason.clone().unwrap();
    assert_eq!(of("near").reason, ReasonKind::NotAllowed);
    assert!(of("near").free.contains("near"));
    assert_eq!(of("away").reason, ReasonKind::Draining);
    assert_eq!(of("home").reason, ReasonKind::Model);
}

#[test]
fn a_reason_and_the_change_that_mends_it_name_the_same_figure() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = value(&fs::read_to_string(root.join("deploy/demo/federation.yaml")).unwrap());
    let order = Order::read(&fs::read_to_string(root.join("examples/refused.yaml")).unwrap()).unwrap();
    let view = View::from_file(&FederationFile::read(&file.to_string()).unwrap()).unwrap();
    let decision = place(&view, &Request::new(&order, crate::world::submit()), &Policy::default());
    let reasons = decision.outcome.unwrap_err();
    let latency = reasons.iter().find(|r| r.reason == ReasonKind::Latency).unwrap();
    let changes = proved(&serde_json::to_value(&order).unwrap(), &file, &Policy::default());
    assert_eq!(latency.free, format!("{} at the least", of(&changes, "/flows/0/max_latency").to));
    // each site says how far the nearest other is
    let sites: Vec<_> = decision.sites.iter().filter_map(|s| s.reason.as_ref()).collect();
    assert_eq!(sites.len(), decision.sites.len());
    assert!(sites.iter().any(|r| r.reason == ReasonKind::Latency && r.free == latency.free), "{sites:#?}");
}
