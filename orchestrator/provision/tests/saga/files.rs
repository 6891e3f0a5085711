//! What the work at each site reads and writes, and what it is told.

use crate::{
    cases::{Case, Lease, PlannedLeg, at, case, ends, point, served, spread},
    world::{World, at_phase},
};
use proptest::prelude::*;
use rhumb_model::{Bytes, DatasetName, Phase, plan::SiteAssignment};
use rhumb_provision::{LegPurpose, Saga, desired, sized};
use rhumb_wire::{Assignment, InputFile, OutputFile, Role};

const NEED: &str = "need: {accelerators: {count: 1}}, work: {duration: 1h}";

fn work(flows: &str, placed: &[(&str, u32)], legs: &[PlannedLeg<'_>]) -> Case {
    let replicas: u32 = placed.iter().map(|(_, n)| n).sum();
    let flows = if flows.is_empty() { " []".to_owned() } else { format!("\n{flows}") };
    let yaml = format!(
        "name: x\nclass: processing\ncomponents:\n- {{name: cleaner, replicas: {replicas}, {NEED}}}\nflows:{flows}\n"
    );
    case(&yaml, &[("cleaner", placed)], legs)
}

fn assignments(case: &Case) -> Vec<Assignment> {
    let world = World::new(case);
    world.share(&world.saga).into_values().flat_map(|s| s.assignments).collect()
}

fn input(dataset: &str, leg: Option<u32>, offset: u64, bytes: u64) -> InputFile {
    InputFile { dataset: dataset.into(), leg, bytes, offset }
}

fn output(dataset: &str, leg: Option<u32>, bytes: u64) -> OutputFile {
    OutputFile { dataset: dataset.into(), leg, bytes }
}

#[test]
fn a_dataset_divides_over_sites_and_replicas_of_one_site_share_its_part() {
    let flows = "- {from: dataset/corpus, to: cleaner, volume: 9kB}";
    let case = work(flows, &[("a", 2), ("b", 1)], &[(0, "c r a", 1_000, 6_000), (0, "c r b", 1_000, 3_000)]);
    let inputs: Vec<_> = assignments(&case).into_iter().map(|a| (a.key.replica, a.inputs)).collect();
    let (first, second) = (input("corpus", Some(0), 0, 6_000), input("corpus", Some(1), 6_000, 3_000));
    assert_eq!(inputs, [(0, vec![first.clone()]), (1, vec![first]), (2, vec![second])]);
}

/// The part that lies at its site takes its place among those that travel.
#[test]
fn a_part_at_its_own_site_needs_no_leg_and_keeps_its_offset() {
    let flows = "- {from: dataset/corpus, to: cleaner, volume: 9kB}";
    let legs = [(0, "a", 0, 3_000), (0, "a r b", 1_000, 3_000), (0, "a r d", 1_000, 3_000)];
    let case = work(flows, &[("a", 1), ("b", 1), ("d", 1)], &legs);
    let inputs: Vec<_> = assignments(&case).into_iter().flat_map(|a| a.inputs).collect();
    let offsets = [(None, 0), (Some(1), 3_000), (Some(2), 6_000)];
    assert_eq!(inputs, offsets.map(|(leg, offset)| input("corpus", leg, offset, 3_000)));
    let saga = case.saga(1, at("2026-11-30T12:00:00Z"));
    let travels: Vec<_> = saga.legs.iter().map(|l| &l.purpose).collect();
    let part = |offset| LegPurpose::Inbound { dataset: "corpus".into(), offset, bytes: 3_000 };
    assert_eq!(travels, [&part(3_000), &part(6_000)]);
}

#[test]
fn a_copy_is_the_whole_at_every_site() {
    let flows = "- {from: dataset/corpus, to: cleaner, volume: 9kB, copy: true}";
    let legs = [(0, "a", 0, 9_000), (0, "a r b", 1_000, 9_000)];
    let case = work(flows, &[("a", 2), ("b", 1)], &legs);
    let inputs: Vec<_> = assignments(&case).into_iter().flat_map(|a| a.inputs).collect();
    let (here, there) = (input("corpus", None, 0, 9_000), input("corpus", Some(1), 0, 9_000));
    assert_eq!(inputs, [here.clone(), here, there]);
}

#[test]
fn results_are_named_with_the_leg_that_takes_them() {
    let flows = "- {from: cleaner, to: dataset/report, volume: 8kB}\n- {from: cleaner, to: dataset/index, volume: 1kB}";
    let legs = [(0, "a r c", 1_000, 4_000), (0, "b r c", 1_000, 4_000), (1, "a", 0, 500), (1, "b a", 1_000, 500)];
    let case = work(flows, &[("a", 1), ("b", 1)], &legs);
    let outputs: Vec<_> = assignments(&case).into_iter().map(|a| (a.inputs, a.outputs)).collect();
    let first = vec![output("report", Some(0), 4_000), output("index", None, 500)];
    let second = vec![output("report", Some(1), 4_000), output("index", Some(3), 500)];
    assert_eq!(outputs, [(vec![], first), (vec![], second)]);
}

/// Only the component that a flow names has to do with it, even where another stands on the same site.
#[test]
fn components_of_one_site_have_their_own_files() {
    let yaml = format!(
        "name: x\nclass: processing\ncomponents:\n- {{name: reader, {NEED}}}\n- {{name: writer, {NEED}}}\n\
         flows:\n- {{from: dataset/corpus, to: reader, volume: 1kB}}\n- {{from: writer, to: dataset/model, volume: 1kB}}\n"
    );
    let legs = [(0, "c a", 1_000, 1_000), (1, "a c", 1_000, 1_000)];
    let case = case(&yaml, &[("reader", &[("a", 1)]), ("writer", &[("a", 1)])], &legs);
    let files: Vec<_> = assignments(&case).into_iter().map(|a| (a.inputs, a.outputs)).collect();
    let (read, written) = (input("corpus", Some(0), 0, 1_000), output("model", Some(1), 1_000));
    assert_eq!(files, [(vec![read], vec![]), (vec![], vec![written])]);
}

/// A dataset flow with a rate and no volume is a stream for as long as the work runs: there is no file to wait for.
#[test]
fn a_dataset_read_as_a_stream_is_no_file() {
    let flows = "- {from: dataset/corpus, to: cleaner, rate: 5Mbps}";
    let case = work(flows, &[("a", 1)], &[(0, "c r a", 5_000, 0)]);
    assert_eq!(assignments(&case)[0].inputs, []);
    assert_eq!(case.saga(1, at("2026-11-30T12:00:00Z")).legs[0].purpose, LegPurpose::Stream);
    let mut world = at_phase(&case, Phase::Running);
    world.until("settling", |w| w.settled);
}

/// Bytes of the dataset, those planned for each site, and offset and bytes of each part.
type Division<'a> = (u64, &'a [u64], &'a [(u64, u64)]);

/// A plan's volumes are rounded one by one: 5 bytes for two sites are planned as 3 and 3.
#[test]
fn parts_end_where_the_dataset_ends() {
    let table: [Division<'_>; 5] = [
        (5, &[3, 3], &[(0, 3), (3, 2)]),
        (50_000_000, &[16_666_667; 3], &[(0, 16_666_667), (16_666_667, 16_666_667), (33_333_334, 16_666_666)]),
        (40_000_000, &[13_333_333; 3], &[(0, 13_333_333), (13_333_333, 13_333_333), (26_666_666, 13_333_334)]),
        (1, &[1, 1], &[(0, 1), (1, 0)]),
        (9_000, &[6_000, 3_000], &[(0, 6_000), (6_000, 3_000)]),
    ];
    for (size, planned, parts) in table {
        let names = ["a", "b", "d"];
        let placed: Vec<_> = names.into_iter().take(planned.len()).map(|n| (n, 1)).collect();
        let paths: Vec<_> = placed.iter().map(|(n, _)| format!("c {n}")).collect();
        let legs: Vec<PlannedLeg<'_>> = paths.iter().zip(planned).map(|(p, n)| (0, p.as_str(), 1_000, *n)).collect();
        let mut case = work("- {from: dataset/corpus, to: cleaner}", &placed, &legs);
        let corpus = DatasetName::new("corpus").unwrap();
        case.order = sized(&case.order, |name| (name == &corpus).then_some(Bytes::from_bytes(size)));
        let found: Vec<_> = assignments(&case).iter().flat_map(|a| &a.inputs).map(|i| (i.offset, i.bytes)).collect();
        assert_eq!(found, parts, "{size} bytes");
    }
}

proptest! {
    /// Whatever the replicas, the parts cover the dataset once, without a gap.
    #[test]
    fn parts_add_up_to_the_dataset(size in 1_u64..10_000_000_000, replicas in prop::collection::vec(1_u32..5, 1..5)) {
        let all: u32 = replicas.iter().sum();
        let names = ["a", "b", "d", "e"];
        let placed: Vec<_> = names.into_iter().zip(replicas.iter().copied()).collect();
        let share = |n: u32| (2 * u128::from(size) * u128::from(n)).div_euclid(u128::from(all)).div_ceil(2) as u64;
        let paths: Vec<_> = placed.iter().map(|(n, _)| format!("c {n}")).collect();
        let legs: Vec<PlannedLeg<'_>> =
            paths.iter().zip(&placed).map(|(p, (_, n))| (0, p.as_str(), 1_000, share(*n))).collect();
        let flow = format!("- {{from: dataset/corpus, to: cleaner, volume: {size}B}}");
        let case = work(&flow, &placed, &legs);
        let mut next = 0;
        for leg in &case.saga(1, at("2026-11-30T12:00:00Z")).legs {
            let LegPurpose::Inbound { offset, bytes, .. } = leg.purpose else { panic!("a dataset comes in") };
            prop_assert_eq!(offset, next);
            next += bytes;
        }
        prop_assert_eq!(next, size);
    }
}

#[test]
fn sizes_are_filled_in_only_where_a_whole_dataset_moves() {
    let flows = "- {from: dataset/whole, to: cleaner}\n- {from: dataset/part, to: cleaner, volume: 1kB}\n\
                 - {from: dataset/live, to: cleaner, rate: 1Mbps}\n- {from: dataset/unknown, to: cleaner}";
    let case = work(flows, &[("a", 1)], &[]);
    let size = |name: &DatasetName| (name.as_str() != "unknown").then_some(Bytes::from_bytes(7));
    let volumes: Vec<_> = sized(&case.order, size).flows.iter().map(|f| f.volume.map(Bytes::bytes)).collect();
    assert_eq!(volumes, [Some(7), Some(1_000), None, None]);
}

#[test]
fn sockets_are_for_flows_between_components_and_users() {
    let world = World::new(&served(Lease::None));
    let endpoints = |name: &str| {
        let shares = world.share(&world.saga);
        let found = shares[&point(name)].assignments[0].endpoints.clone();
        found.into_iter().map(|e| (e.flow, e.legs, e.role)).collect::<Vec<_>>()
    };
    assert_eq!(endpoints("a"), [(1, vec![1], Role::Source)]);
    assert_eq!(endpoints("b"), [(1, vec![1], Role::Sink)]);
    let world = World::new(&spread(Lease::None));
    let shares = world.share(&world.saga);
    let itself = &shares[&point("a")].assignments[0].endpoints;
    assert_eq!(itself.len(), 1);
    assert_eq!((itself[0].flow, itself[0].legs.as_slice(), itself[0].role), (1, [2, 3].as_slice(), Role::Source));
}

#[test]
fn an_assignment_carries_what_the_order_says_of_its_component() {
    let yaml = "name: x\nclass: tuning\ncomponents:\n\
        - {name: cleaner, need: {accelerators: {count: 1}, cpu: 1.5, memory: 2GiB}, work: {duration: 1h}, \
           run: {command: [python, train.py], env: {EPOCHS: '3'}}}\n\
        terms: {failover: {lease: 90s}, checkpoint: {signal: SIGUSR1, grace: 30s}}\n";
    let case = case(yaml, &[("cleaner", &[("a", 1)])], &[]);
    let world = World::new(&case);
    let none = |_| unreachable!("it has no legs");
    let id = rhumb_model::OrderId(uuid::Uuid::nil());
    let shares = desired(&crate::world::Line, id, &case.order, &case.plan, &world.saga, Some("00-1-2-01"), none);
    let a = &shares[&point("a")].assignments[0];
    assert_eq!((a.key.generation, a.node.as_str(), a.devices.as_slice()), (1, "n1", [0].as_slice()));
    assert_eq!((a.cpu.milli(), a.memory.bytes()), (1_500, 2 << 30));
    assert_eq!(a.command, ["python", "train.py"]);
    assert_eq!(a.env["EPOCHS"], "3");
    assert_eq!((a.lease_ms, a.grace_ms), (Some(90_000), 30_000));
    assert_eq!(a.traceparent.as_deref(), Some("00-1-2-01"));
}

#[test]
fn legs_are_encrypted_where_the_flow_or_the_order_asks() {
    let flows =
        "- {from: dataset/a, to: cleaner, volume: 1kB}\n- {from: dataset/b, to: cleaner, volume: 1kB, encrypted: true}";
    let mut case = work(flows, &[("a", 1)], &[(0, "c a", 1_000, 1_000), (1, "c a", 1_000, 1_000)]);
    let sealed = |case: &Case| -> Vec<bool> {
        case.saga(1, at("2026-11-30T12:00:00Z")).legs.iter().map(|l| l.encrypted).collect()
    };
    assert_eq!(sealed(&case), [false, true]);
    case.order.constraints.encrypted = true;
    assert_eq!(sealed(&case), [true, true]);
}

#[test]
fn a_plan_that_is_not_this_orders_begins_nothing() {
    let now = at("2026-11-30T12:00:00Z");
    let begins = |change: fn(&mut Case)| {
        let mut case = spread(Lease::None);
        change(&mut case);
        Saga::begin(&case.order, &case.plan, &case.placements, 1, now, ends).is_some()
    };
    assert!(begins(|_| {}));
    assert!(!begins(|c| drop(c.placements.pop())), "a replica is missing");
    assert!(!begins(|c| c.placements.clear()), "nothing is granted");
    assert!(!begins(|c| c.placements[1].replica = 0), "a replica is granted twice");
    assert!(!begins(|c| c.placements[1].site = point("z")), "a replica stands where the plan has none");
    assert!(!begins(|c| c.placements[1].component = "other".parse().unwrap()), "no such component");
    assert!(!begins(|c| c.plan.flows[0].flow = 9), "no such flow");
    assert!(!begins(|c| c.plan.flows[0].path.swap(0, 1)), "links that do not join");
    assert!(!begins(|c| drop(c.plan.flows[0].path.pop())), "a path that ends early");
    assert!(!begins(|c| c.plan.flows[0].path.clear()), "two sites and nothing between them");
    assert!(!begins(|c| c.plan.flows[0].path[0] = "nowhere".parse().unwrap()), "no such link");
    assert!(!begins(|c| c.plan.flows[0].path[0] = "b-r".parse().unwrap()), "a path that begins elsewhere");
    let nothing = |c: &mut Case| {
        c.placements.clear();
        c.plan.components.clear();
    };
    assert!(!begins(nothing), "nothing is planned");
}

/// One site may have two models of device for one component: each replica is billed by its own.
#[test]
fn replicas_of_two_models_at_one_site_keep_their_models() {
    let mut case = work("", &[("a", 3)], &[]);
    let assignments = &mut case.plan.components[0].assignments;
    assignments[0].replicas = 1;
    let other = SiteAssignment { model: Some("H100".parse().unwrap()), replicas: 2, ..assignments[0].clone() };
    assignments.push(other);
    let saga = case.saga(1, at("2026-11-30T12:00:00Z"));
    let models: Vec<_> = saga.replicas.iter().map(|r| r.model.as_ref().unwrap().as_str()).collect();
    assert_eq!(models, ["L4", "H100", "H100"]);
}
