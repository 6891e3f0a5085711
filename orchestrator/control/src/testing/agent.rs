//! An agent without a host: it computes what it would report from what it was last told.

use super::FEDERATION;
use rhumb_model::{FederationFile, LinkId, NodeName, Phase, PointName};
use rhumb_wire::{
    AssignmentGoal, AssignmentState, AssignmentStatus, Desired, Duty, KernelOffer, LinkFigures, NodeReport, PROTOCOL,
    Report, Role, Route, RouteEndState, RoutePurpose, RouteStatus, SyncReply,
};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// How an agent does its work.
#[derive(Debug, Clone, Default)]
pub struct Conduct {
    /// What every run ends with.
    pub exit_code: i32,
    /// Every assignment is refused.
    pub refuses: bool,
    /// Whatever would lead out of this phase is not done.
    pub stall: Option<Phase>,
    /// Nodes that are gone, with what ran on them.
    pub lost_nodes: BTreeSet<NodeName>,
    /// What its work names as its last checkpoint when it is stopped.
    pub checkpoint: Option<String>,
    /// Links whose round trip takes so many microseconds.
    pub rtt_us: BTreeMap<LinkId, u64>,
    /// Its kernel carries routes, as it says; without, one that is to fails.
    pub kernel: Option<KernelOffer>,
    /// It does not, whatever it says.
    pub tunnels_fail: bool,
}

#[derive(Debug, Clone)]
pub struct FakeAgent {
    pub point: PointName,
    pub boot: Uuid,
    pub seq: u64,
    pub desired: Option<Desired>,
    /// How long every run is said to have taken.
    pub ran_us: u64,
    pub conduct: Conduct,
    pub overlay_port: u16,
    /// What its site has, and which links it measures.
    federation: FederationFile,
}

impl FakeAgent {
    /// # Panics
    /// If `point` is no name.
    pub fn new(point: &str) -> Self {
        Self::of(point, FEDERATION)
    }

    /// An agent of another federation.
    ///
    /// # Panics
    /// If `point` is no name, or the federation is not sound.
    pub fn of(point: &str, federation: &str) -> Self {
        Self {
            point: PointName::new(point).expect("tests name their points well"),
            boot: Uuid::now_v7(),
            seq: 0,
            desired: None,
            ran_us: 6_000_000,
            conduct: Conduct::default(),
            overlay_port: 4_000,
            federation: FederationFile::read(federation).expect("federations of tests are sound"),
        }
    }

    pub fn stall(&mut self, phase: impl Into<Option<Phase>>) {
        self.conduct.stall = phase.into();
    }

    /// The next report; links are well and as long as configured.
    pub fn report(&mut self) -> Report {
        self.seq += 1;
        let file = &self.federation;
        let lost = &self.conduct.lost_nodes;
        let nodes = file.sites.iter().find(|s| s.name == self.point).map(|s| {
            let node = |n: rhumb_model::Node| NodeReport {
                name: n.name,
                devices: n.devices,
                cpu: n.cpu,
                memory: n.memory,
                rack: None,
                nvl_domain: None,
                unknown: Vec::new(),
                ports: Vec::new(),
            };
            s.expand(&file.devices).into_iter().filter(|n| !lost.contains(&n.name)).map(node).collect()
        });
        let slow = &self.conduct.rtt_us;
        let figures = |link: LinkId| {
            let rtt_us = slow.get(&link).copied();
            LinkFigures {
                link,
                window_us: 10_000_000,
                sent: 50,
                received: 50,
                rtt_min_us: rtt_us.or(Some(10_000)),
                rtt_p50_us: rtt_us.or(Some(10_200)),
                rtt_p95_us: rtt_us.or(Some(11_000)),
                loss_forward_ppm: Some(0),
                loss_backward_ppm: Some(0),
                jitter_us: Some(100),
                last_reply_age_us: Some(100_000),
                rtt_p99_us: rtt_us.or(Some(11_500)),
                bandwidths: Vec::new(),
                stale: false,
            }
        };
        let links = file.directed_links().into_iter().filter(|l| l.from == self.point).map(|l| figures(l.id));
        Report {
            protocol: PROTOCOL,
            point: self.point.clone(),
            boot_id: self.boot,
            seq: self.seq,
            epoch: self.desired.as_ref().map_or(0, |d| d.epoch),
            generation: self.desired.as_ref().map_or(0, |d| d.generation),
            wait_ms: 0,
            probe_port: None,
            overlay_port: Some(self.overlay_port),
            kernel: self.conduct.kernel.clone(),
            nodes,
            inventory: rhumb_wire::InventoryUpdate::default(),
            assignments: self.assignments(),
            routes: self.routes(),
            links: links.collect(),
            windows: Vec::new(),
            pairs: Vec::new(),
            trains: Vec::new(),
            logs: Vec::new(),
            datasets: Vec::new(),
            unmanaged: 0,
        }
    }

    /// Takes an answer over, as an agent does: never an older desired state.
    pub fn accept(&mut self, reply: &SyncReply) {
        let version = |d: &Desired| (d.epoch, d.generation);
        if let Some(desired) = &reply.desired
            && self.desired.as_ref().is_none_or(|known| version(known) < version(desired))
        {
            self.desired = Some(desired.clone());
        }
    }

    /// How much it still has.
    pub fn has(&self) -> usize {
        self.desired.as_ref().map_or(0, |d| d.assignments.len() + d.routes.len())
    }

    fn assignments(&self) -> Vec<AssignmentStatus> {
        let stall = self.conduct.stall;
        let state = |goal| match goal {
            _ if self.conduct.refuses => AssignmentState::Refused,
            AssignmentGoal::Lease if stall == Some(Phase::Staging) => AssignmentState::Leased,
            AssignmentGoal::Lease => AssignmentState::Staged,
            AssignmentGoal::Run if stall == Some(Phase::Starting) => AssignmentState::Staged,
            AssignmentGoal::Run if stall == Some(Phase::Running) => AssignmentState::Running,
            AssignmentGoal::Run => AssignmentState::Exited,
            AssignmentGoal::Stop if stall == Some(Phase::Stopping) => AssignmentState::Running,
            AssignmentGoal::Stop => AssignmentState::Stopped,
        };
        let wanted = self.desired.iter().flat_map(|d| &d.assignments);
        wanted
            .filter(|_| stall != Some(Phase::Holding))
            .map(|a| {
                let lost = self.conduct.lost_nodes.contains(&a.node) && a.goal == AssignmentGoal::Run;
                let state = if lost { AssignmentState::Lost } else { state(a.goal) };
                let stopped = state == AssignmentState::Stopped && !self.conduct.lost_nodes.contains(&a.node);
                AssignmentStatus {
                    key: a.key.clone(),
                    state,
                    exit_code: (state == AssignmentState::Exited).then_some(self.conduct.exit_code),
                    signal: None,
                    ran_us: if a.goal == AssignmentGoal::Lease { 0 } else { self.ran_us },
                    started_us: None,
                    staged_bytes: 0,
                    staged_sha256: Vec::new(),
                    checkpoint: self.conduct.checkpoint.clone().filter(|_| stopped),
                    message: String::new(),
                }
            })
            .collect()
    }

    /// Whether it is to do with its kernel what it cannot.
    fn is_beyond(&self, route: &Route) -> bool {
        route.kernel.is_some() && (self.conduct.kernel.is_none() || self.conduct.tunnels_fail)
    }

    fn routes(&self) -> Vec<RouteStatus> {
        let stall = self.conduct.stall;
        let wanted = self.desired.iter().flat_map(|d| &d.routes);
        wanted
            .map(|r| {
                let moved = match &r.purpose {
                    RoutePurpose::Transfer { bytes, start: true, .. } if stall != Some(Phase::Staging) => Some(*bytes),
                    _ => None,
                };
                RouteStatus {
                    key: r.key.clone(),
                    state: match moved {
                        _ if self.is_beyond(r) => RouteEndState::Failed,
                        _ if stall == Some(Phase::Routing) => RouteEndState::Building,
                        Some(_) if r.role != Role::Relay => RouteEndState::Done,
                        _ => RouteEndState::Active,
                    },
                    bytes: moved.unwrap_or(0),
                    bytes_back: 0,
                    message: if self.is_beyond(r) { "no tunnels here".to_owned() } else { String::new() },
                    figures: None,
                    carrying: !self.is_beyond(r) && r.role == Role::Source && r.duty == Duty::Carry,
                }
            })
            .collect()
    }
}
