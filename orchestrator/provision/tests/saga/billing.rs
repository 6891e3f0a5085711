//! Bills worked out by hand.

use crate::{
    cases::{Case, Free, Lease, at, case, point, service, solo, spread},
    world::{World, at_phase, settles},
};
use rhumb_model::{LinkId, ModelName, Phase, Ratio, SiteName, price::PriceBook};
use rhumb_provision::{BillItem, Event, Goal, Prices, Saga, bill};
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;

/// A device 10 CNY, a core 0.2 CNY, a GiB 0.02 CNY an hour; at night in Shanghai six tenths of it, all at every site.
/// Links: 0.02 CNY a GB and 0.01 CNY a Mbit/s and hour; those to `a`: 0.05 CNY a GB and nothing for the rate.
struct Tariff(PriceBook);

impl Tariff {
    fn by_night() -> Self {
        let window = r#"{"windows": [{"from": "22:00", "to": "08:00", "tz": "Asia/Shanghai", "factor": 0.6}]}"#;
        Self(serde_json::from_str(window).unwrap())
    }

    fn flat() -> Self {
        Self(PriceBook::default())
    }
}

impl Prices for Tariff {
    fn book(&self, _: &SiteName) -> Option<&PriceBook> {
        Some(&self.0)
    }

    fn device(&self, _: &SiteName, model: &ModelName) -> Ratio {
        Ratio::from_integer(if model.as_str() == "L4" { 10_000_000 } else { 40_000_000 })
    }

    fn memory(&self, _: &ModelName) -> Option<rhumb_model::Bytes> {
        Some(rhumb_model::Bytes::from_bytes(80 << 30))
    }

    fn core(&self, _: &SiteName) -> Ratio {
        Ratio::from_integer(200_000)
    }

    fn gib(&self, _: &SiteName) -> Ratio {
        Ratio::from_integer(20_000)
    }

    fn per_gb(&self, link: &LinkId) -> Ratio {
        Ratio::from_integer(if link.as_str().ends_with("-a") { 50_000 } else { 20_000 })
    }

    fn per_mbps_hour(&self, link: &LinkId) -> Ratio {
        Ratio::from_integer(if link.as_str().ends_with("-a") { 0 } else { 10_000 })
    }
}

type Line = (&'static str, String, String, i64, i64);

fn lines(items: Vec<BillItem>) -> Vec<Line> {
    items.into_iter().map(|i| (i.kind, i.subject, i.item, i.quantity_micro, i.cost_micros)).collect()
}

fn line(kind: &'static str, subject: &str, item: &str, quantity_micro: i64, cost_micros: i64) -> Line {
    (kind, subject.into(), item.into(), quantity_micro, cost_micros)
}

fn ran(case: &Case, from: &str, ran_us: u64) -> Saga {
    let mut saga = case.saga(1, at(from));
    saga.ran_from = Some(at(from));
    saga.replicas.iter_mut().for_each(|r| r.ran_us = ran_us);
    saga
}

/// One device, two cores and 4 GiB: by the hour 10 CNY, and 0.4 + 0.08 = 0.48 CNY.
#[test]
fn price_windows_are_followed_to_the_second() {
    // from, how long, hours that it counts for in thousandths
    let table = [
        ("2026-11-30T06:00:00Z", HOUR, 1_000),       // 14:00 in Shanghai
        ("2026-11-30T15:00:00Z", HOUR, 600),         // 23:00
        ("2026-11-30T13:30:00Z", HOUR, 800),         // 21:30: half before, half after
        ("2026-11-30T23:30:00Z", HOUR, 800),         // 07:30: the same at the other edge
        ("2026-11-30T13:00:00Z", HOUR, 1_000),       // ends where the window begins
        ("2026-11-30T14:00:00Z", HOUR, 600),         // begins where it begins
        ("2026-11-30T12:00:00Z", 24 * HOUR, 20_000), // 2 h + 10 h x 0.6 + 12 h
        ("2026-11-30T12:00:00Z", 48 * HOUR, 40_000),
        ("2026-11-30T06:00:00Z", 36 * SECOND, 10),
        ("2026-11-30T13:59:42Z", 36 * SECOND, 8),
    ];
    for (from, length, thousandths) in table {
        let case = solo(Lease::None);
        let found = lines(bill(&case.order, &ran(&case, from, length), &Tariff::by_night()));
        let length = length as i64;
        let expected = [
            line("accelerator_seconds", "a", "replica/tuner/0", length, 10_000 * thousandths),
            line("cpu_seconds", "a", "replica/tuner/0", 2 * length, 480 * thousandths),
        ];
        assert_eq!(found, expected, "{from}");
    }
}

#[test]
fn a_share_of_a_device_costs_its_share() {
    let yaml = "name: x\nclass: inference\ncomponents:\n- {name: small, need: {accelerators: {share: 25%, memory: 6GiB}}, work: {duration: 1h}}\n";
    let case = case(yaml, &[("small", &[("a", 1)])], &[]);
    let found = lines(bill(&case.order, &ran(&case, "2026-11-30T06:00:00Z", HOUR), &Tariff::flat()));
    assert_eq!(found, [line("accelerator_seconds", "a", "replica/small/0", HOUR as i64 / 4, 2_500_000)]);
}

/// Slices were billed as whole devices.
#[test]
fn a_slice_costs_its_memorys_part_of_the_device() {
    let yaml = "name: x\nclass: inference\ncomponents:\n- {name: small, need: {accelerators: {mig: 1g.10gb, count: 2}}, work: {duration: 1h}}\n";
    let mut case = case(yaml, &[("small", &[("a", 1)])], &[]);
    case.placements[0].devices = vec![1 << 20, (1 << 20) + 1];
    let found = lines(bill(&case.order, &ran(&case, "2026-11-30T06:00:00Z", HOUR), &Tariff::flat()));
    assert_eq!(found, [line("accelerator_seconds", "a", "replica/small/0", HOUR as i64 / 4, 2_500_000)]);
}

#[test]
fn work_on_processors_alone_has_one_line_with_its_memory() {
    let yaml = "name: x\nclass: processing\ncomponents:\n- {name: cpu, need: {cpu: 0.5, memory: 512MiB}, work: {duration: 1h}}\n";
    let mut case = case(yaml, &[("cpu", &[("a", 1)])], &[]);
    case.plan.components[0].assignments[0].model = None;
    case.placements[0].devices.clear();
    let found = lines(bill(&case.order, &ran(&case, "2026-11-30T06:00:00Z", HOUR), &Tariff::flat()));
    assert_eq!(found, [line("cpu_seconds", "a", "replica/cpu/0", HOUR as i64 / 2, 110_000)]);
}

#[test]
fn replicas_pay_for_their_own_devices_and_times() {
    let mut case = spread(Lease::None);
    (case.order.flows, case.plan.flows) = (Vec::new(), Vec::new());
    case.placements[1].devices = vec![4, 5, 6, 7];
    case.plan.components[0].assignments[1].model = Some("H100".parse().unwrap());
    let mut saga = ran(&case, "2026-11-30T06:00:00Z", HOUR);
    saga.replicas[1].ran_us = HOUR / 2;
    let found = lines(bill(&case.order, &saga, &Tariff::flat()));
    let expected = [
        line("accelerator_seconds", "a", "replica/trainer/0", HOUR as i64, 10_000_000),
        line("cpu_seconds", "a", "replica/trainer/0", 2 * HOUR as i64, 480_000),
        line("accelerator_seconds", "b", "replica/trainer/1", 2 * HOUR as i64, 80_000_000),
        line("cpu_seconds", "b", "replica/trainer/1", HOUR as i64, 240_000),
    ];
    assert_eq!(found, expected);
}

/// Each link is billed for what came out of it: after a loss on the way the two differ.
#[test]
fn a_volume_pays_by_the_gigabyte_and_for_its_time_at_its_rate() {
    let mut case = spread(Lease::None);
    case.order.flows.truncate(1);
    case.plan.flows.truncate(2);
    let mut saga = case.saga(1, at("2026-11-30T06:00:00Z"));
    saga.legs[0].paths[0].bytes =
        [("c", 4_500_000), ("r", 4_500_000), ("a", 1_000_000)].map(|(p, n)| (point(p), n)).into();
    // 4.5 MB are 36 Mbit, so 0.01 Mbit/s-hours; 1 MB are 8 Mbit
    let expected = [
        line("gb_moved", "c-r", "leg/0/0", 4_500, 90),
        line("mbps_hours", "c-r", "leg/0/0", 10_000, 100),
        line("gb_moved", "r-a", "leg/0/1", 1_000, 50),
        line("mbps_hours", "r-a", "leg/0/1", 2_222, 0),
    ];
    assert_eq!(lines(bill(&case.order, &saga, &Tariff::flat())), expected);
}

/// Held from the start until the last byte is out: the longest run, then the longest of the results' transfers.
#[test]
fn a_stream_pays_for_the_longest_run_whatever_it_carried() {
    let case = spread(Lease::None);
    let mut saga = ran(&case, "2026-11-30T06:00:00Z", 3 * SECOND);
    saga.replicas[1].ran_us = 36 * SECOND;
    let of_stream = |saga: &Saga| {
        let items = lines(bill(&case.order, saga, &Tariff::flat()));
        items.into_iter().filter(|(.., item, _, _)| item == "leg/2/0").collect::<Vec<_>>()
    };
    // 10 Mbit/s x 36 s = 0.1 Mbit/s-hours
    assert_eq!(of_stream(&saga), [line("mbps_hours", "a-b", "leg/2/0", 100_000, 1_000)]);
    saga.legs[2].paths[0].bytes = BTreeMap::from([(point("a"), 7_000_000), (point("b"), 7_000_000)]);
    let carried = line("gb_moved", "a-b", "leg/2/0", 7_000, 0);
    assert_eq!(of_stream(&saga), [carried.clone(), line("mbps_hours", "a-b", "leg/2/0", 100_000, 1_000)]);
    // results of 45 MB at 20 Mbit/s move for 18 s after it
    saga.legs[4].paths[0].bytes = BTreeMap::from([(point("c"), 45_000_000)]);
    assert_eq!(of_stream(&saga), [carried, line("mbps_hours", "a-b", "leg/2/0", 150_000, 1_500)]);
}

#[test]
fn a_generation_given_up_pays_for_what_it_used() {
    let mut world = at_phase(&spread(Lease::Minute), Phase::Running);
    world.round();
    world.lease_ended("a");
    settles(&mut world, Goal::Replace);
    let found = lines(bill(&world.case.order, &world.saga, &Tariff::flat()));
    let of = |kind: &str, subject: &str| -> i64 {
        found.iter().filter(|l| l.0 == kind && l.1 == subject).map(|l| l.3).sum()
    };
    for replica in &world.saga.replicas {
        assert!(replica.ran_us > 0);
        assert_eq!(of("accelerator_seconds", replica.site.as_str()), replica.ran_us as i64);
    }
    // both halves came in over c-r; no results went out
    assert_eq!((of("gb_moved", "c-r"), of("gb_moved", "r-a"), of("gb_moved", "r-c")), (9_000, 4_500, 0));
    assert!(found.iter().all(|l| !l.2.starts_with("leg/4") && !l.2.starts_with("leg/5")));
}

#[test]
fn what_never_ran_costs_nothing() {
    let mut world = World::new(&solo(Lease::None));
    world.tell(Event::Cancel);
    settles(&mut world, Goal::Cancel);
    assert_eq!(bill(&world.case.order, &world.saga, &Tariff::flat()), []);
}

#[test]
fn the_same_saga_gives_the_same_bill_and_every_item_once() {
    let mut world = World::new(&spread(Lease::None));
    settles(&mut world, Goal::Complete);
    let found = bill(&world.case.order, &world.saga, &Tariff::by_night());
    assert_eq!(bill(&world.case.order, &world.saga.clone(), &Tariff::by_night()), found);
    let kept: Saga = serde_json::from_str(&serde_json::to_string(&world.saga).unwrap()).unwrap();
    assert_eq!(bill(&world.case.order, &kept, &Tariff::by_night()), found);
    let mut names: Vec<_> = found.iter().map(|i| (i.kind, &i.subject, &i.item)).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), found.len());
    assert!(!found.is_empty() && found.iter().all(|i| i.quantity_micro > 0));
}

/// An agent that claims a run of half a million years is not believed beyond the longest time that an order can have, and
/// the bill is made at once.
#[test]
fn absurd_claims_neither_overflow_nor_take_for_ever() {
    let case = service(Lease::None);
    let mut saga = ran(&case, "2026-11-30T06:00:00Z", u64::MAX);
    saga.legs[0].paths[0].bytes = BTreeMap::from([(point("a"), u64::MAX)]);
    let found = bill(&case.order, &saga, &Tariff::by_night());
    let ten_years = 315_360_000_000_000;
    assert_eq!(found[0].quantity_micro, ten_years);
    // 10 of 24 hours at six tenths are 20 of 24
    assert!(found[0].cost_micros.abs_diff(ten_years / 360 * 20 / 24) < 10_000_000, "{}", found[0].cost_micros);
    assert_eq!(found[2].quantity_micro, (u64::MAX / 1_000) as i64 + 1);
    assert!(bill(&case.order, &saga, &Free).iter().all(|i| i.cost_micros == 0));
}
