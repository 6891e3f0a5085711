//! Agents that do at once what they are told, over the same route as real ones.

use crate::desk::{FEDERATION, Rig, request};
use axum::http::{Method, StatusCode};
use rhumb_model::{FederationFile, PointName};
use rhumb_wire::{
    AssignmentGoal, AssignmentState, AssignmentStatus, Desired, LinkFigures, NodeReport, PROTOCOL, Report, Role,
    RouteEndState, RoutePurpose, RouteStatus, SyncReply,
};
use std::collections::BTreeMap;
use uuid::Uuid;

pub struct Agent {
    pub point: PointName,
    token: String,
    pub boot: Uuid,
    pub seq: u64,
    pub desired: Option<Desired>,
    /// How long every run is said to have taken.
    pub ran_us: u64,
    /// What runs and has not ended: keys stay here until `end_runs`.
    pub hold_runs: bool,
}

impl Agent {
    pub fn new(point: &str) -> Self {
        Self {
            point: PointName::new(point).unwrap(),
            token: format!("t-{point}"),
            boot: Uuid::now_v7(),
            seq: 0,
            desired: None,
            ran_us: 6_000_000,
            hold_runs: false,
        }
    }

    pub fn all() -> Vec<Self> {
        ["east", "west", "pop"].map(Self::new).into()
    }

    pub fn report(&mut self) -> Report {
        self.seq += 1;
        let file = FederationFile::read(FEDERATION).unwrap();
        let site = file.sites.iter().find(|s| s.name == self.point);
        let nodes = site.map(|s| {
            s.expand(&file.devices)
                .into_iter()
                .map(|n| NodeReport {
                    name: n.name,
                    devices: n.devices,
                    cpu: n.cpu,
                    memory: n.memory,
                    rack: None,
                    nvl_domain: None,
                })
                .collect()
        });
        let links = file
            .directed_links()
            .into_iter()
            .filter(|l| l.from == self.point)
            .map(|l| LinkFigures {
                link: l.id,
                window_us: 10_000_000,
                sent: 50,
                received: 50,
                rtt_min_us: Some(10_000),
                rtt_p50_us: Some(10_200),
                rtt_p95_us: Some(11_000),
                loss_forward_ppm: Some(0),
                loss_backward_ppm: Some(0),
                jitter_us: Some(100),
                last_reply_age_us: Some(100_000),
            })
            .collect();
        let (assignments, routes) = self.done();
        Report {
            protocol: PROTOCOL,
            point: self.point.clone(),
            boot_id: self.boot,
            seq: self.seq,
            epoch: self.desired.as_ref().map_or(0, |d| d.epoch),
            generation: self.desired.as_ref().map_or(0, |d| d.generation),
            wait_ms: 0,
            probe_port: None,
            overlay_port: None,
            nodes,
            assignments,
            routes,
            links,
            logs: Vec::new(),
            datasets: Vec::new(),
            unmanaged: 0,
        }
    }

    fn done(&self) -> (Vec<AssignmentStatus>, Vec<RouteStatus>) {
        let Some(desired) = &self.desired else { return Default::default() };
        let assignments = desired.assignments.iter().map(|a| {
            let state = match a.goal {
                AssignmentGoal::Lease => AssignmentState::Staged,
                AssignmentGoal::Run if self.hold_runs => AssignmentState::Running,
                AssignmentGoal::Run => AssignmentState::Exited,
                AssignmentGoal::Stop => AssignmentState::Stopped,
            };
            AssignmentStatus {
                key: a.key.clone(),
                state,
                exit_code: (state == AssignmentState::Exited).then_some(0),
                signal: None,
                ran_us: if a.goal == AssignmentGoal::Lease { 0 } else { self.ran_us },
                started_us: None,
                staged_bytes: 0,
                staged_sha256: Vec::new(),
                message: String::new(),
            }
        });
        let routes = desired.routes.iter().map(|r| {
            let moved = match &r.purpose {
                RoutePurpose::Transfer { bytes, start: true, .. } => Some(*bytes),
                _ => None,
            };
            let end = r.role != Role::Relay;
            RouteStatus {
                key: r.key.clone(),
                state: if moved.is_some() && end { RouteEndState::Done } else { RouteEndState::Active },
                bytes: moved.unwrap_or(0),
                bytes_back: 0,
                message: String::new(),
            }
        });
        (assignments.collect(), routes.collect())
    }

    pub async fn post(&mut self, rig: &Rig, report: &Report) -> (StatusCode, Option<SyncReply>) {
        let body = serde_json::to_string(report).unwrap();
        let (status, answer) = rig.send(request(&self.token, Method::POST, "/agent/v1/sync", &body)).await;
        let reply: Option<SyncReply> = serde_json::from_value(answer).ok();
        if let Some(desired) = reply.as_ref().and_then(|r| r.desired.clone()) {
            self.desired = Some(desired);
        }
        (status, reply)
    }

    pub async fn sync(&mut self, rig: &Rig) {
        let report = self.report();
        let (status, _) = self.post(rig, &report).await;
        assert_eq!(status, StatusCode::OK);
    }
}

/// Agents sync until the order has the state asked; panics with its history after too many rounds.
pub async fn until(
    rig: &Rig,
    agents: &mut [Agent],
    id: &str,
    done: impl Fn(&serde_json::Value) -> bool,
) -> serde_json::Value {
    let mut last = serde_json::Value::Null;
    for _ in 0..400 {
        for agent in agents.iter_mut() {
            agent.sync(rig).await;
        }
        last = rig.get("t-admin", &format!("/v1/orders/{id}")).await;
        if done(&last) {
            return last;
        }
        tokio::task::yield_now().await;
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let events = rig.get("t-admin", &format!("/v1/orders/{id}/events")).await;
    panic!("order never got there: {last:#}\n{events:#}");
}

/// Counts what agents still have.
pub fn left_over(agents: &[Agent]) -> BTreeMap<String, usize> {
    let of = |a: &Agent| a.desired.as_ref().map_or(0, |d| d.assignments.len() + d.routes.len());
    agents.iter().map(|a| (a.point.to_string(), of(a))).collect()
}
