//! Link capacity in time: who needs a link at another time gets it, and nobody twice.

use crate::world::{order, submit, view};
use jiff::Timestamp;
use proptest::prelude::*;
use rhumb_federation::View;
use rhumb_model::{Bandwidth, LinkId, Order, ReasonKind, Slots};
use rhumb_placement::{
    Policy, Request, apply, audit,
    booking::{LegPhase, bookings, overdue},
    decide,
};

const FILE: &str = "
currency: CNY
devices: {H100: {memory: 80GiB, fp16: 1}}
sites:
  - {name: data, nodes: [{cpu: 1}]}
  - {name: gpus, prices: {H100: 10 CNY}, nodes: [{count: 40, accelerators: {model: H100, count: 8}, cpu: 96, memory: 1TiB}]}
links:
  - {id: dg, from: data, to: gpus, both_ways: true, capacity: 1Gbps, latency: 1ms, per_mbps_hour: 0.01 CNY}
datasets: [{name: d, size: 90GB, at: [data]}]
";

/// 90 GB at 1 Gbit/s take 12 minutes.
fn staged(terms: &str) -> Order {
    order(&format!(
        "name: staged\nclass: training\ncomponents: [{{name: c, need: {{accelerators: {{count: 8}}}}, work: {{duration: 5h}}}}]\n\
         flows: [{{from: dataset/d, to: c, volume: 90GB, rate: 1Gbps}}]\nterms: {{{terms}}}\n"
    ))
}

fn plain(hours: u32) -> Order {
    order(&format!(
        "name: plain\nclass: training\ncomponents: [{{name: c, need: {{accelerators: {{count: 8}}}}, work: {{duration: {hours}h}}}},\n\
         {{name: f, need: {{cpu: 1}}, work: {{duration: {hours}h}}}}]\nconstraints: {{}}\n\
         flows: [{{from: f, to: c, rate: 600Mbps}}]\n"
    ))
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn taken(view: &View, order: &Order, when: Timestamp) -> View {
    let request = Request::new(order, when);
    let plan = decide(view, &request, &Policy::default()).outcome.expect("the order fits");
    assert_eq!(audit(&plan, &request, view, &Policy::default()), vec![]);
    apply(view, &plan, order).expect("what was decided can be taken")
}

fn refusal(view: &View, order: &Order, when: Timestamp) -> Vec<ReasonKind> {
    let decision = decide(view, &Request::new(order, when), &Policy::default());
    decision.outcome.expect_err("the link is taken").into_iter().map(|r| r.reason).collect()
}

#[test]
fn a_link_is_held_while_something_is_staged_and_free_for_the_next_afterwards() {
    let first = taken(&view(FILE), &staged(""), submit());
    // 12:17 to 12:29 and a slot of grace: until 12:45
    assert_eq!(refusal(&first, &staged(""), submit()), [ReasonKind::Bandwidth]);
    assert_eq!(refusal(&first, &staged(""), at("2026-11-30T12:44:59Z")), [ReasonKind::Bandwidth]);
    taken(&first, &staged(""), at("2026-11-30T12:45:00Z"));
    // the run alone takes five hours and nothing of the link
    let id = LinkId::new("dg").unwrap();
    let link = first.link(&id).unwrap();
    assert_eq!((link.free, link.open()), (Bandwidth::ZERO, Bandwidth::from_mbps(1_000)));
    assert_eq!(link.free_in(Slots::from(at("2026-11-30T12:45:00Z"))), Bandwidth::from_mbps(1_000));
}

#[test]
fn an_order_for_tonight_leaves_the_link_to_one_that_is_over_before() {
    // 22:00 in Shanghai is 14:00Z
    let tonight = taken(&view(FILE), &staged("window: {from: \"22:00\", to: \"06:00\", tz: Asia/Shanghai}"), submit());
    // both sites carry the small component: it stands where the link is not needed unless it has to
    let mut apart = plain(1);
    apart.components[1].place.colocate.clear();
    apart.flows[0].from = "dataset/d".parse().unwrap();
    apart.flows[0].rate = Some(Bandwidth::from_mbps(600));
    apart.flows[0].volume = Some("1GB".parse().unwrap());
    apart.terms.deadline = Some(at("2026-11-30T13:45:00Z"));
    taken(&tonight, &apart, submit());
    // without an end that is known it would have to share the night's slots
    apart.terms.deadline = None;
    assert_eq!(refusal(&tonight, &apart, submit()), [ReasonKind::Bandwidth]);
}

#[test]
fn phases_that_meet_in_a_slot_count_once() {
    // 12 minutes of staging at 1 Gbit/s, then a run that streams 0.9 Gbit/s: together never more than 1 Gbit/s
    let text = "name: both\nclass: training\ncomponents: [{name: c, need: {accelerators: {count: 8}}, work: {duration: 1h}}]\n\
                flows: [{from: dataset/d, to: c, volume: 90GB, rate: 1Gbps}, {from: dataset/d, to: c, rate: 900Mbps}]\n";
    let (view, order) = (view(FILE), order(text));
    let plan = decide(&view, &Request::new(&order, submit()), &Policy::default()).outcome.unwrap();
    let booked: Vec<_> =
        bookings(&plan, &order).into_iter().map(|b| (b.slots.unwrap().times(), b.rate.kbps() / 1_000)).collect();
    let slots = |from, until| (at(from), at(until));
    assert_eq!(
        booked,
        [
            (slots("2026-11-30T12:15:00Z", "2026-11-30T12:45:00Z"), 1_000),
            (slots("2026-11-30T12:45:00Z", "2026-11-30T13:45:00Z"), 900)
        ]
    );
    taken(&view, &order, submit());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// Whatever the order of submissions and their instants, what is decided fits what is booked, in every slot.
    #[test]
    fn nothing_is_ever_booked_twice(asked in proptest::collection::vec((0_u32..600, 1_u32..30, 0_u8..3), 1..14)) {
        let mut now = submit();
        let mut left = view(FILE);
        for (wait, hours, kind) in asked {
            now = now.checked_add(jiff::SignedDuration::from_mins(i64::from(wait))).unwrap();
            let order = match kind {
                0 => staged(""),
                1 => staged("window: {from: \"22:00\", to: \"06:00\", tz: Asia/Shanghai}"),
                _ => plain(hours),
            };
            let request = Request::new(&order, now);
            let decision = decide(&left, &request, &Policy::default());
            if let Ok(plan) = decision.outcome {
                prop_assert_eq!(audit(&plan, &request, &left, &Policy::default()), vec![]);
                left = apply(&left, &plan, &order).unwrap();
            }
            for link in left.graph.edge_weights() {
                prop_assert_eq!(link.open().saturating_sub(link.calendar.highest()), link.free);
            }
        }
    }

    /// An exported view decides as the view itself.
    #[test]
    fn bookings_survive_an_export(wait in 0_i64..200) {
        let first = taken(&view(FILE), &staged(""), submit());
        let now = submit().checked_add(jiff::SignedDuration::from_mins(wait)).unwrap();
        let file = rhumb_federation::export::export(&first, submit());
        let read = rhumb_model::FederationFile::read(&serde_json::to_string(&file).unwrap()).unwrap();
        let again = View::from_file(&read).unwrap();
        let order = staged("");
        let request = Request::new(&order, now);
        let (a, b) = (decide(&first, &request, &Policy::default()), decide(&again, &request, &Policy::default()));
        prop_assert_eq!(a.outcome, b.outcome);
    }
}

#[test]
fn work_that_is_late_needs_its_link_in_this_slot_and_the_next() {
    let order = staged("");
    let view = view(FILE);
    let plan = decide(&view, &Request::new(&order, submit()), &Policy::default()).outcome.unwrap();
    // staged from 12:17 to 12:29; booked until 12:45
    let late = |phase, when| overdue(&plan, &order, phase, at(when));
    assert_eq!(late(LegPhase::Inbound, "2026-11-30T12:29:00Z"), []);
    let more = late(LegPhase::Inbound, "2026-11-30T12:44:00Z");
    assert_eq!(more.len(), 1);
    assert_eq!(more[0].rate, Bandwidth::from_mbps(1_000));
    assert_eq!(more[0].slots.unwrap().times(), (at("2026-11-30T12:30:00Z"), at("2026-11-30T13:00:00Z")));
    // the run itself needs no link, however long it takes
    assert_eq!(late(LegPhase::Run, "2026-12-02T00:00:00Z"), []);
}
