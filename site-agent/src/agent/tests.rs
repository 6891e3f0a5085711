//! The agent over a runtime without a machine: what it makes of desired states in any order, and of what a site says.

use super::{Agent, Foundation};
use crate::{carrier::Carrier, config::Limits, dataplane::overlay::StagedInput, host::BootTime, store::DatasetStore};
use proptest::prelude::*;
use rhumb_model::{
    Bytes, Cores, DatasetName, LinkId, ModelName, NodeName, OrderId, SliceProfile,
    site::{Device, DeviceSlice, Health, Mig, MigMode, Piece},
};
use rhumb_runtimes::{Runtime, Usage};
use rhumb_wire::{
    Assignment, AssignmentGoal, AssignmentState, AssignmentStatus, Desired, DevicePart, FlowEndpoint, KernelOffer,
    NodeReport, PeerLink, RouteStatus, RunTerms, report::AssignmentKey,
};
use runtime_contract::{FakeRuntime, FakeStand, Program, Stand};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
    sync::Arc,
};
use tempfile::TempDir;
use uuid::Uuid;

struct NoRoutes;

impl Carrier for NoRoutes {
    fn apply(&self, _: &Desired) {}

    fn routes(&self) -> Vec<RouteStatus> {
        Vec::new()
    }

    fn passed(&self, _: &[PeerLink]) -> BTreeMap<LinkId, u64> {
        BTreeMap::new()
    }

    fn kernel(&self) -> Option<KernelOffer> {
        None
    }

    fn endpoint(&self, _: &AssignmentKey, _: &FlowEndpoint) -> Result<PathBuf, String> {
        Err("there are no routes".into())
    }

    fn input(&self, _: OrderId, _: u64, _: &DatasetName) -> Option<StagedInput> {
        None
    }

    fn retain(&self, _: &BTreeSet<(OrderId, u64)>) -> io::Result<()> {
        Ok(())
    }
}

/// A site of fakes, whose agent can be started again with or without its disk.
struct World {
    tokio: tokio::runtime::Runtime,
    stand: FakeStand,
    data: TempDir,
    shared: TempDir,
}

impl World {
    fn new() -> Self {
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (data, shared) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        Self { tokio, stand: FakeStand::default(), data, shared }
    }

    fn agent(&self) -> Agent<FakeRuntime> {
        self.agent_of(node())
    }

    fn agent_of(&self, node: NodeReport) -> Agent<FakeRuntime> {
        let _inside = self.tokio.enter();
        Agent::open(Foundation {
            point: "edge-1".parse().unwrap(),
            data_dir: self.data.path().to_owned(),
            nodes: Some(vec![node]),
            site_nodes: None,
            limits: Limits::default(),
            runtime: self.stand.open("edge-1", self.shared.path()),
            carrier: Arc::new(NoRoutes),
            store: Arc::new(DatasetStore::open(self.data.path()).unwrap()),
            search_path: "/usr/bin:/bin".into(),
        })
        .unwrap()
    }

    fn step(&self, agent: &mut Agent<FakeRuntime>) {
        let _inside = self.tokio.enter();
        agent.step(BootTime::now());
    }

    fn settle(&self, agent: &mut Agent<FakeRuntime>) {
        for _ in 0..4 {
            self.step(agent);
        }
    }

    /// How often anything ran.
    fn count(&self) -> usize {
        std::fs::read_to_string(self.shared.path().join("runs/count")).map_or(0, |text| text.lines().count())
    }
}

fn node() -> NodeReport {
    let device = |index| Device {
        index,
        model: ModelName::new("H100").unwrap(),
        memory: Bytes::from_bytes(80 << 30),
        island: None,
        numa: None,
        pcie: None,
        health: Health::Ok,
        mig: None,
    };
    NodeReport {
        name: NodeName::new("n1").unwrap(),
        devices: (0..4).map(device).collect(),
        cpu: Cores::from_milli(16_000),
        memory: Bytes::from_bytes(64 << 30),
        rack: None,
        nvl_domain: None,
        unknown: Vec::new(),
        ports: Vec::new(),
    }
}

fn key(order: u128, generation: u64) -> AssignmentKey {
    let order = OrderId(Uuid::from_u128(order));
    AssignmentKey { order, generation, component: "trainer".parse().unwrap(), replica: 0 }
}

fn assignment(key: &AssignmentKey, devices: &[u32], program: &Program) -> Assignment {
    let work = program.work(&NodeName::new("n1").unwrap());
    Assignment {
        key: key.clone(),
        goal: AssignmentGoal::Run,
        node: work.node,
        devices: devices.to_vec(),
        part: None,
        cpu: Cores::from_milli(1_000),
        memory: Bytes::from_bytes(1 << 20),
        command: work.command,
        env: work.env,
        inputs: Vec::new(),
        outputs: Vec::new(),
        endpoints: Vec::new(),
        lease_ms: None,
        grace_ms: 1_000,
        checkpoint_signal: None,
        traceparent: None,
        terms: RunTerms::default(),
    }
}

fn desired(generation: u64, assignments: Vec<Assignment>) -> Desired {
    Desired {
        epoch: 1,
        generation,
        assignments,
        routes: Vec::new(),
        probes: Vec::new(),
        pairs: Vec::new(),
        links: Vec::new(),
        peers: Vec::new(),
        probe_key_base64: None,
    }
}

fn status(agent: &Agent<FakeRuntime>, key: &AssignmentKey) -> Option<AssignmentStatus> {
    agent.statuses().into_iter().find(|status| status.key == *key)
}

/// What survives the loss of the agent's disk is what the site itself still has.
#[test]
fn with_an_empty_disk_what_runs_is_read_from_the_runtime_and_not_run_again() {
    let mut world = World::new();
    let (old, new) = (key(1, 1), key(1, 2));
    let wanted = desired(1, vec![assignment(&new, &[0], &Program::Wait(7))]);
    let mut agent = world.agent();
    agent.accept(wanted.clone(), BootTime::now()).unwrap();
    world.settle(&mut agent);
    assert_eq!(status(&agent, &new).unwrap().state, AssignmentState::Running);
    drop(agent);
    world.data = TempDir::new().unwrap();
    let mut agent = world.agent();
    world.settle(&mut agent);
    assert!(agent.statuses().is_empty(), "nobody has said yet what it is");
    // the generation before it is barred by what runs alone
    let mut both = wanted.assignments;
    both.push(assignment(&old, &[1], &Program::Count));
    agent.accept(desired(2, both), BootTime::now()).unwrap();
    world.settle(&mut agent);
    assert_eq!(status(&agent, &new).unwrap().state, AssignmentState::Running);
    let refused = status(&agent, &old).unwrap();
    assert_eq!(refused.state, AssignmentState::Refused);
    assert!(refused.message.contains("generation 2"), "{}", refused.message);
    let folder = agent.base.runtime.folder(&new);
    std::fs::write(folder.path().join("work/end"), "").unwrap();
    world.settle(&mut agent);
    assert_eq!(status(&agent, &new).unwrap().exit_code, Some(7));
    assert_eq!(world.count(), 0);
}

#[test]
fn with_an_empty_disk_what_is_not_wanted_is_ended_once_the_orchestrator_has_spoken() {
    let mut world = World::new();
    let gone = key(1, 1);
    let mut agent = world.agent();
    agent.accept(desired(1, vec![assignment(&gone, &[0], &Program::Wait(7))]), BootTime::now()).unwrap();
    world.settle(&mut agent);
    world.data = TempDir::new().unwrap();
    let mut agent = world.agent();
    world.settle(&mut agent);
    let observe = |agent: &mut Agent<FakeRuntime>| world.tokio.block_on(agent.base.runtime.observe(&gone)).unwrap();
    assert!(matches!(observe(&mut agent), rhumb_runtimes::Observed::Running { .. }), "nobody said that it is to end");
    agent.accept(desired(2, Vec::new()), BootTime::now()).unwrap();
    world.settle(&mut agent);
    assert!(matches!(observe(&mut agent), rhumb_runtimes::Observed::Ended(_)));
}

#[test]
fn a_generation_stays_barred_after_every_record_of_the_later_one_is_gone() {
    let world = World::new();
    let (old, new) = (key(1, 1), key(1, 2));
    let mut agent = world.agent();
    agent.accept(desired(1, vec![assignment(&new, &[0], &Program::Count)]), BootTime::now()).unwrap();
    world.settle(&mut agent);
    agent.accept(desired(2, Vec::new()), BootTime::now()).unwrap();
    world.settle(&mut agent);
    assert!(agent.statuses().is_empty());
    for round in 0..2 {
        let back = desired(3 + round, vec![assignment(&old, &[0], &Program::Count)]);
        agent.accept(back, BootTime::now()).unwrap();
        world.settle(&mut agent);
        assert_eq!(status(&agent, &old).unwrap().state, AssignmentState::Refused);
        drop(agent);
        agent = world.agent();
    }
    assert_eq!(world.count(), 1);
}

/// The replicas of a gang begin together: one that is refused keeps the others from beginning.
#[test]
fn a_gang_begins_whole_or_not_at_all() {
    let world = World::new();
    let first = key(1, 1);
    let second = AssignmentKey { replica: 1, ..first.clone() };
    let gang = |devices: [u32; 2]| {
        let mut both = vec![
            assignment(&first, &devices[..1], &Program::Count),
            assignment(&second, &devices[1..], &Program::Count),
        ];
        for assignment in &mut both {
            assignment.terms.gang = true;
        }
        both
    };
    let mut agent = world.agent();
    agent.accept(desired(1, gang([0, 9])), BootTime::now()).unwrap();
    world.settle(&mut agent);
    assert_eq!(status(&agent, &second).unwrap().state, AssignmentState::Refused);
    assert_eq!(status(&agent, &first).unwrap().state, AssignmentState::Staged);
    assert_eq!(world.count(), 0);
    let whole = gang([0, 1]).into_iter().map(|mut assignment| {
        assignment.key.generation = 2;
        assignment
    });
    agent.accept(desired(2, whole.collect()), BootTime::now()).unwrap();
    world.settle(&mut agent);
    world.settle(&mut agent);
    assert_eq!(world.count(), 2);
}

#[test]
fn what_others_hold_is_subtracted_and_what_cannot_be_read_blocks() {
    let world = World::new();
    let agent = world.agent();
    let mut site = super::Site::new(Some(vec![node()]));
    let held = |devices: &[u32], count| Usage {
        id: "7".into(),
        node: NodeName::new("n1").unwrap(),
        devices: devices.iter().copied().collect(),
        count,
        cpu: Cores::from_milli(2_000),
        memory: Bytes::from_bytes(1 << 30),
    };
    let health = |site: &super::Site| -> Vec<Health> {
        site.judged(agent.allocator.claims()).unwrap()[0].devices.iter().map(|device| device.health).collect()
    };
    site.unmanaged = vec![held(&[1], Some(1)), held(&[], Some(1))];
    assert_eq!(health(&site), [Health::Ok, Health::Unmanaged, Health::Ok, Health::Unmanaged]);
    let judged = &site.judged(agent.allocator.claims()).unwrap()[0];
    assert_eq!((judged.cpu.milli(), judged.memory.bytes()), (12_000, 62 << 30));
    // more than there is: none is free, and nothing else
    site.unmanaged = vec![held(&[], Some(9))];
    assert_eq!(health(&site), [Health::Unmanaged; 4]);
    site.unmanaged = vec![held(&[], None)];
    assert_eq!(health(&site), [Health::Unknown; 4]);
    site.unmanaged.clear();
    assert_eq!(health(&site), [Health::Ok; 4]);
}

#[test]
fn a_leased_device_stays_its_holders_whatever_number_others_name() {
    let world = World::new();
    let mut agent = world.agent();
    agent.accept(desired(1, vec![assignment(&key(1, 1), &[0], &Program::Wait(0))]), BootTime::now()).unwrap();
    world.settle(&mut agent);
    agent.site.unmanaged = vec![Usage {
        id: "7".into(),
        node: NodeName::new("n1").unwrap(),
        devices: [0].into(),
        count: Some(1),
        cpu: Cores::ZERO,
        memory: Bytes::ZERO,
    }];
    let judged = agent.site.judged(agent.allocator.claims()).unwrap();
    let free = judged[0].devices.iter().filter(|device| device.health == Health::Ok).count();
    assert_eq!((judged[0].devices[0].health, free), (Health::Ok, 3), "its own and two that are free");
}

/// A card whose only slice somebody's work is on without a record is as it was leased, not cut anew, and not for others.
#[test]
fn a_slice_whose_work_is_adopted_is_as_it_was() {
    let mut world = World::new();
    let profile: SliceProfile = "3g.40gb".parse().unwrap();
    let memory = Bytes::from_bytes(40 << 30);
    let slice = DeviceSlice { number: 0, profile, memory, uuid: Some("MIG-a".into()) };
    let mut cut = node();
    cut.devices[0].mig = Some(Mig { mode: MigMode::On, slices: vec![slice], open: BTreeMap::new() });
    let number = Piece::Slice { device: 0, slice: 0 }.number().unwrap();
    let part = Some(DevicePart::Slice { profile });
    let wanted = Assignment { part, ..assignment(&key(1, 1), &[number], &Program::Wait(0)) };
    let mut agent = world.agent_of(cut.clone());
    agent.accept(desired(1, vec![wanted.clone()]), BootTime::now()).unwrap();
    world.settle(&mut agent);
    let work = agent.work_with(&wanted, &[], &[]);
    assert_eq!(work.env["CUDA_VISIBLE_DEVICES"], "MIG-a");
    assert_eq!(work.env["RHUMB_ISOLATION"], "enforced");
    drop(agent);
    world.data = TempDir::new().unwrap();
    let mut agent = world.agent_of(cut);
    world.settle(&mut agent);
    agent.accept(desired(2, vec![wanted.clone()]), BootTime::now()).unwrap();
    world.settle(&mut agent);
    assert_eq!(status(&agent, &wanted.key).unwrap().state, AssignmentState::Running);
    agent.site.unmanaged = vec![Usage {
        id: "7".into(),
        node: NodeName::new("n1").unwrap(),
        devices: [0].into(),
        count: Some(1),
        cpu: Cores::ZERO,
        memory: Bytes::ZERO,
    }];
    agent.judge();
    assert!(agent.has_new_nodes());
    let told: Vec<Health> = agent.teller.nodes()[0].devices.iter().map(|device| device.health).collect();
    assert_eq!(told, [Health::Ok, Health::Ok, Health::Ok, Health::Unmanaged]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Answers that are lost, doubled, replayed and out of order end in the newest, and nothing runs twice on the way.
    #[test]
    fn any_order_of_answers_ends_in_the_newest(
        order in Just((1..=6_u64).collect::<Vec<_>>()).prop_shuffle(),
        doubled in proptest::collection::vec(1..=6_u64, 0..6),
        restarts in proptest::collection::vec(any::<bool>(), 12),
    ) {
        let world = World::new();
        // with every generation one order more runs, and the oldest but two is gone
        let states: BTreeMap<u64, Desired> = (1..=6_u64)
            .map(|generation| {
                let orders = generation.saturating_sub(2).max(1)..=generation;
                let wanted = orders.map(|order| assignment(&key(u128::from(order), 1), &[], &Program::Count));
                (generation, desired(generation, wanted.collect()))
            })
            .collect();
        let mut agent = world.agent();
        let mut highest = 0;
        for (place, generation) in order.iter().chain(&doubled).enumerate() {
            let accepted = agent.accept(states[generation].clone(), BootTime::now());
            prop_assert_eq!(accepted.is_ok_and(|new| new), *generation > highest);
            highest = highest.max(*generation);
            world.step(&mut agent);
            if restarts[place] {
                drop(agent);
                agent = world.agent();
            }
        }
        world.settle(&mut agent);
        prop_assert_eq!(agent.version(), (1, 6));
        let listed: BTreeSet<AssignmentKey> = agent.statuses().into_iter().map(|status| status.key).collect();
        let expected: BTreeSet<AssignmentKey> = (4..=6).map(|order| key(order, 1)).collect();
        prop_assert_eq!(listed, expected);
        // each order that was ever wanted ran once at most; those that are wanted now did
        prop_assert!((3..=6).contains(&world.count()), "{}", world.count());
    }
}
