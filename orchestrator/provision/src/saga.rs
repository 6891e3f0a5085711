//! State of one order's provisioning, one generation at a time.

use jiff::Timestamp;
use rhumb_model::{
    Bandwidth, ComponentName, LinkId, ModelName, NodeName, Order, Phase, Plan, PointName, SiteName,
    order::End,
};
use rhumb_wire::{AssignmentState, RouteEndState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Names a desired state: leadership epoch, then generation within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Stamp {
    pub epoch: u64,
    pub generation: u64,
}

/// What this generation is on its way to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Run to the end, then settle as completed (or failed, if the work failed).
    Complete,
    /// Stop and settle as cancelled.
    Cancel,
    /// Give everything back and place again.
    Replace,
    /// Give everything back and settle as failed.
    Fail,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saga {
    pub generation: u64,
    pub phase: Phase,
    pub goal: Goal,
    /// Why the goal is no longer `Complete`.
    #[serde(default)]
    pub cause: String,
    pub replicas: Vec<ReplicaState>,
    pub legs: Vec<LegState>,
    /// A report counts as confirmation only if it was made on at least this desired state.
    pub barrier: Stamp,
    /// Points that have confirmed what the present phase waits for.
    #[serde(default)]
    pub confirmed: BTreeSet<PointName>,
    /// Sites given up: their lease has ended, nothing of this generation can run there.
    #[serde(default)]
    pub dead: BTreeSet<SiteName>,
    pub phase_since: Timestamp,
    /// When all components were told to start, and when the last replica had ended.
    #[serde(default)]
    pub ran_from: Option<Timestamp>,
    #[serde(default)]
    pub ran_to: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaState {
    pub component: ComponentName,
    pub replica: u32,
    pub site: SiteName,
    pub node: NodeName,
    pub devices: Vec<u32>,
    pub model: Option<ModelName>,
    /// Last heard; `None`: the site has not spoken of it yet.
    #[serde(default)]
    pub seen: Option<AssignmentState>,
    #[serde(default)]
    pub end: Option<RunEnd>,
    #[serde(default)]
    pub ran_us: u64,
    /// A service runs until it is cancelled.
    pub service: bool,
}

/// How a replica's work ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    #[serde(default)]
    pub message: String,
}

impl RunEnd {
    pub fn is_success(&self) -> bool {
        self.exit_code == Some(0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LegPurpose {
    /// Dataset to component: before the start.
    Inbound { dataset: String, offset: u64, bytes: u64 },
    /// Component to dataset: after the end.
    Outbound { dataset: String, offset: u64, bytes: u64 },
    /// As long as the work runs.
    Stream,
}

/// One leg of the plan that crosses the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegState {
    /// Index in `Plan::flows`.
    pub leg: u32,
    pub flow: u32,
    pub links: Vec<LinkId>,
    /// One more than links, source first.
    pub points: Vec<PointName>,
    pub rate: Bandwidth,
    pub purpose: LegPurpose,
    pub encrypted: bool,
    /// Last heard of each point.
    #[serde(default)]
    pub seen: BTreeMap<PointName, RouteEndState>,
    /// Payload bytes at each point, both directions.
    #[serde(default)]
    pub bytes: BTreeMap<PointName, u64>,
}

impl LegState {
    pub fn source(&self) -> &PointName {
        &self.points[0]
    }

    pub fn sink(&self) -> &PointName {
        &self.points[self.points.len() - 1]
    }

    fn is(&self, at: &PointName, state: RouteEndState) -> bool {
        self.seen.get(at) == Some(&state)
    }

    pub fn is_active(&self) -> bool {
        self.is(self.source(), RouteEndState::Active) || self.is_done()
    }

    pub fn is_done(&self) -> bool {
        self.is(self.sink(), RouteEndState::Done) && self.is(self.source(), RouteEndState::Done)
    }

    pub fn route_state(&self, phase: Phase) -> rhumb_model::RouteState {
        use rhumb_model::RouteState as R;
        match phase {
            Phase::Releasing | Phase::Settling => R::Terminated,
            Phase::Unrouting => R::Terminating,
            _ if self.seen.values().any(|s| *s == RouteEndState::Failed) => R::Failed,
            _ if self.seen.values().any(|s| *s == RouteEndState::Degraded) => R::Degraded,
            _ if self.is_active() => R::Active,
            _ => R::Building,
        }
    }
}

/// Where a granted replica stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub component: ComponentName,
    pub replica: u32,
    pub site: SiteName,
    pub node: NodeName,
    pub devices: Vec<u32>,
}

impl Saga {
    /// A new generation, after devices and links have been reserved. `ends` gives the two points of a link.
    pub fn begin(
        order: &Order,
        plan: &Plan,
        placements: &[Placement],
        generation: u64,
        now: Timestamp,
        ends: impl Fn(&LinkId) -> Option<(PointName, PointName)>,
    ) -> Option<Self> {
        let replicas = placements
            .iter()
            .map(|p| {
                let placed = plan.components.iter().find(|c| c.name == p.component)?;
                let assignment = placed.assignments.iter().find(|a| a.site == p.site)?;
                Some(ReplicaState {
                    component: p.component.clone(),
                    replica: p.replica,
                    site: p.site.clone(),
                    node: p.node.clone(),
                    devices: p.devices.clone(),
                    model: assignment.model.clone(),
                    seen: None,
                    end: None,
                    ran_us: 0,
                    service: order.component(&p.component)?.service.is_some(),
                })
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Self {
            generation,
            phase: Phase::Holding,
            goal: Goal::Complete,
            cause: String::new(),
            replicas,
            legs: legs(order, plan, ends)?,
            barrier: Stamp::default(),
            confirmed: BTreeSet::new(),
            dead: BTreeSet::new(),
            phase_since: now,
            ran_from: None,
            ran_to: None,
        })
    }

    /// Every point that has, or may have, something of this generation.
    pub fn points(&self) -> BTreeSet<PointName> {
        let sites = self.replicas.iter().map(|r| r.site.clone());
        sites.chain(self.legs.iter().flat_map(|l| l.points.iter().cloned())).collect()
    }

    pub fn sites(&self) -> BTreeSet<SiteName> {
        self.replicas.iter().map(|r| r.site.clone()).collect()
    }
}

/// The plan's legs that cross the network, with their parts of the datasets.
fn legs(
    order: &Order,
    plan: &Plan,
    ends: impl Fn(&LinkId) -> Option<(PointName, PointName)>,
) -> Option<Vec<LegState>> {
    let mut offsets: BTreeMap<u32, u64> = BTreeMap::new();
    let mut out = Vec::new();
    for (index, leg) in plan.flows.iter().enumerate() {
        let flow = order.flows.get(leg.flow as usize)?;
        // the parts of one flow lie one after the other in the dataset, same-site parts included; a copy is the whole
        let offset = if flow.copy { 0 } else { *offsets.entry(leg.flow).or_default() };
        *offsets.entry(leg.flow).or_default() += leg.volume_bytes;
        if leg.path.is_empty() {
            continue;
        }
        let purpose = match (&flow.from, &flow.to) {
            (End::Dataset(name), _) => {
                LegPurpose::Inbound { dataset: name.to_string(), offset, bytes: leg.volume_bytes }
            }
            (_, End::Dataset(name)) => {
                LegPurpose::Outbound { dataset: name.to_string(), offset, bytes: leg.volume_bytes }
            }
            _ => LegPurpose::Stream,
        };
        let mut points = vec![leg.from_site.clone()];
        for link in &leg.path {
            points.push(ends(link)?.1);
        }
        out.push(LegState {
            leg: index as u32,
            flow: leg.flow,
            links: leg.path.clone(),
            points,
            rate: Bandwidth::from_kbps(leg.rate_kbps),
            purpose,
            encrypted: flow.encrypted || order.constraints.encrypted,
            seen: BTreeMap::new(),
            bytes: BTreeMap::new(),
        });
    }
    Some(out)
}
