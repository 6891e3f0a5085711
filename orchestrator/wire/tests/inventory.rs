//! Inventories told in differences over calls that are lost, doubled, late and cut short by restarts, and what that costs.

#![allow(clippy::unwrap_used)] // helpers of tests may fail the test

use proptest::prelude::*;
use rhumb_model::{
    Bytes, Cores, ModelName,
    site::{Device, Health},
};
use rhumb_wire::{DeviceFigures, Fares, Hearer, NodeReport, PROTOCOL, Report, SyncReply, Teller, Telling};
use uuid::Uuid;

fn node(number: usize, devices: u32, sick: Option<u32>) -> NodeReport {
    let device = |index: u32| Device {
        index,
        model: ModelName::new("H100").unwrap(),
        memory: Bytes::from_bytes(81_559 << 20),
        island: Some(0),
        numa: Some(index as u16 / 4),
        pcie: Some(index as u16 / 2),
        health: if sick == Some(index) { Health::Failed } else { Health::Ok },
        mig: None,
    };
    NodeReport {
        name: format!("n{number:03}").parse().unwrap(),
        devices: (0..devices).map(device).collect(),
        cpu: Cores::from_milli(192_000),
        memory: Bytes::from_bytes(2 << 40),
        rack: None,
        nvl_domain: None,
        unknown: Vec::new(),
        ports: Vec::new(),
    }
}

fn report(boot: u128, seq: u64, told: &Telling) -> Report {
    Report {
        protocol: PROTOCOL,
        point: "shanghai-1".parse().unwrap(),
        boot_id: Uuid::from_u128(boot),
        seq,
        epoch: 1,
        generation: 1,
        wait_ms: 3_000,
        probe_port: Some(862),
        overlay_port: Some(863),
        nodes: told.nodes.clone(),
        inventory: told.update.clone(),
        assignments: Vec::new(),
        routes: Vec::new(),
        links: Vec::new(),
        pairs: Vec::new(),
        trains: Vec::new(),
        logs: Vec::new(),
        datasets: Vec::new(),
        unmanaged: 0,
        kernel: None,
        windows: Vec::new(),
    }
}

/// Both ends, and what is between them.
struct Line {
    boot: u128,
    seq: u64,
    nodes: Vec<NodeReport>,
    teller: Teller,
    hearer: Hearer,
    /// Of the last report that counted.
    heard: Option<(u128, u64)>,
    /// Reports that were sent, as they might come again.
    sent: Vec<Report>,
}

/// A report that does not count.
#[derive(Debug)]
struct NotNewer;

impl Line {
    fn new() -> Self {
        let nodes = vec![node(1, 2, None), node(2, 1, None)];
        let teller = Teller::new(nodes.clone());
        Self { boot: 1, seq: 0, nodes, teller, hearer: Hearer::default(), heard: None, sent: Vec::new() }
    }

    /// As the orchestrator does: what is not newer does not count, and a boot that another has followed is over.
    fn hear(&mut self, report: &Report) -> Result<Option<u64>, NotNewer> {
        let at = (report.boot_id.as_u128(), report.seq);
        if self.heard.is_some_and(|heard| at <= heard) {
            return Err(NotNewer);
        }
        self.heard = Some(at);
        self.hearer.hear(report);
        Ok(self.hearer.acknowledged(report))
    }

    fn call(&mut self, arrives: bool, is_answered: bool) {
        self.seq += 1;
        let told = self.teller.tell();
        let report = report(self.boot, self.seq, &told);
        self.sent.push(report.clone());
        let answer = arrives.then(|| self.hear(&report).ok()).flatten();
        if let (Some(known), true) = (answer, is_answered) {
            self.teller.answered(told, known);
        }
    }
}

#[derive(Debug, Clone)]
enum Act {
    Call { arrives: bool, is_answered: bool },
    Again(usize),
    Change { node: usize, devices: u32, sick: Option<u32> },
    Remove(usize),
    Measure { node: usize, device: u32, pct: u8 },
    AgentRestarts,
    OrchestratorRestarts,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (any::<bool>(), any::<bool>()).prop_map(|(arrives, is_answered)| Act::Call { arrives, is_answered }),
        2 => any::<usize>().prop_map(Act::Again),
        4 => (1..5_usize, 0..4_u32, proptest::option::of(0..4_u32))
            .prop_map(|(node, devices, sick)| Act::Change { node, devices, sick }),
        2 => (1..5_usize).prop_map(Act::Remove),
        3 => (1..5_usize, 0..4_u32, 0..=100_u8).prop_map(|(node, device, pct)| Act::Measure { node, device, pct }),
        1 => Just(Act::AgentRestarts),
        1 => Just(Act::OrchestratorRestarts),
    ]
}

proptest! {
    #[test]
    fn both_ends_have_the_same_inventory_after_two_calls_that_work(acts in proptest::collection::vec(act(), 0..60)) {
        let mut line = Line::new();
        for act in acts {
            match act {
                Act::Call { arrives, is_answered } => line.call(arrives, is_answered),
                Act::Again(at) if !line.sent.is_empty() => {
                    let again = line.sent[at % line.sent.len()].clone();
                    // late or doubled: nobody waits for its answer
                    let _ = line.hear(&again);
                }
                Act::Again(_) => {}
                Act::Change { node: at, devices, sick } => {
                    let made = node(at, devices, sick);
                    line.nodes.retain(|n| n.name != made.name);
                    line.nodes.push(made);
                    line.teller.renew(line.nodes.clone());
                }
                Act::Remove(at) => {
                    line.nodes.retain(|n| n.name.as_str() != format!("n{at:03}"));
                    line.teller.renew(line.nodes.clone());
                }
                Act::Measure { node, device, pct } => {
                    let name = format!("n{node:03}");
                    let fares = Fares { utilisation_pct: Some(pct), ..Fares::default() };
                    if line.nodes.iter().any(|n| n.name.as_str() == name && device < n.devices.len() as u32) {
                        line.teller.measure([DeviceFigures { node: name.parse().unwrap(), device, fares }]);
                    }
                }
                Act::AgentRestarts => {
                    (line.boot, line.seq) = (line.boot + 1, 0);
                    line.teller = Teller::new(line.nodes.clone());
                }
                // it remembers boots and numbers of reports, and nothing of what was in them
                Act::OrchestratorRestarts => line.hearer = Hearer::default(),
            }
        }
        line.call(true, true);
        line.call(true, true);
        let mut known = line.hearer.nodes().unwrap().to_vec();
        let mut has = line.nodes.clone();
        known.sort_by(|a, b| a.name.cmp(&b.name));
        has.sort_by(|a, b| a.name.cmp(&b.name));
        prop_assert_eq!(known, has);
        // and from then on nothing is said
        let rest = line.teller.tell();
        prop_assert!(rest.nodes.is_none() && rest.update.changes.is_none() && rest.update.figures.is_empty());
    }
}

#[test]
fn what_changes_travels_alone() {
    let mut line = Line::new();
    line.call(true, true);
    line.nodes[1] = node(2, 1, Some(0));
    assert!(line.teller.renew(line.nodes.clone()) && !line.teller.renew(line.nodes.clone()));
    let told = line.teller.tell();
    let changes = told.update.changes.as_ref().unwrap();
    assert!(told.nodes.is_none() && changes.nodes == [line.nodes[1].clone()] && changes.gone.is_empty());
    // the answer to it is lost: it is told again, and is known already
    line.call(true, false);
    line.call(true, true);
    assert_eq!(line.hearer.nodes().unwrap()[1].devices[0].health, Health::Failed);
    assert!(line.teller.tell().nodes.is_none());
}

#[test]
fn an_agent_that_does_not_know_yet_says_nothing() {
    let mut line = Line::new();
    line.call(true, true);
    (line.boot, line.seq, line.teller) = (2, 0, Teller::waiting());
    line.call(true, true);
    line.call(true, true);
    assert_eq!(line.hearer.nodes().unwrap().len(), 2, "what was there before its start stays");
    line.teller.renew(Vec::new());
    line.call(true, true);
    assert!(line.hearer.nodes().unwrap().is_empty());
}

#[test]
fn an_unknown_base_is_answered_by_asking_for_all() {
    let mut line = Line::new();
    line.call(true, true);
    line.hearer = Hearer::default();
    line.call(true, true);
    assert_eq!(line.hearer.nodes(), None, "what it is a change of is not known");
    assert!(line.teller.tell().nodes.is_some());
    line.call(true, true);
    assert_eq!(line.hearer.nodes().unwrap().len(), 2);
}

#[test]
fn a_card_that_flickers_is_no_news_and_one_that_falls_silent_is() {
    let told =
        Fares { utilisation_pct: Some(0), temperature_mc: Some(31_000), power_mw: Some(70_000), ..Fares::default() };
    assert!(!Fares { temperature_mc: Some(32_000), power_mw: Some(72_500), ..told }.differs_from(&told));
    assert!(Fares { temperature_mc: Some(33_000), ..told }.differs_from(&told));
    assert!(Fares { utilisation_pct: None, ..told }.differs_from(&told));
    assert!(Fares { ecc_uncorrected: Some(0), ..told }.differs_from(&told));
}

/// Bytes of a call over HTTP/1.1 beside its bodies, both ways: request and status line, and headers with a token.
const HEADERS: usize = 700;

/// A site of 1,000 accelerators of which nothing changes, with the reports of a minute as they travel.
#[test]
fn a_thousand_quiet_accelerators_cost_little() {
    let nodes: Vec<NodeReport> = (0..125).map(|n| node(n, 8, None)).collect();
    let mut teller = Teller::new(nodes.clone());
    let mut hearer = Hearer::default();
    let mut exchange = |seq: u64, flicker: bool, teller: &mut Teller| {
        teller.measure(nodes.iter().flat_map(|n| {
            n.devices.iter().map(|d| DeviceFigures {
                node: n.name.clone(),
                device: d.index,
                fares: Fares {
                    utilisation_pct: Some(0),
                    memory_used_bytes: Some(4 << 20),
                    temperature_mc: Some(30_000 + i64::from(flicker) * 1_000),
                    power_mw: Some(70_000 + u64::from(flicker) * 900),
                    ecc_uncorrected: Some(0),
                    processes: Some(0),
                    xid: Some(0),
                },
            })
        }));
        let told = teller.tell();
        let sent = serde_json::to_vec(&report(1, seq, &told)).unwrap();
        let heard: Report = serde_json::from_slice(&sent).unwrap();
        hearer.hear(&heard);
        let inventory = hearer.acknowledged(&heard);
        let reply = SyncReply { seq, desired: None, log_acks: Vec::new(), pause_ms: 0, inventory };
        let back = serde_json::to_vec(&reply).unwrap();
        let reply: SyncReply = serde_json::from_slice(&back).unwrap();
        teller.answered(told, reply.inventory);
        sent.len() + back.len() + HEADERS
    };
    let whole = exchange(1, false, &mut teller);
    // an answer is held for 3 s where nothing is new
    let minute: usize = (0..20).map(|i| exchange(2 + i, i % 2 == 0, &mut teller)).sum();
    eprintln!("1,000 accelerators: {whole} bytes once, {minute} bytes a minute when nothing changes");
    assert!(minute < 50_000, "{minute} bytes");
    assert!(whole < 1_000_000, "{whole} bytes");
}
