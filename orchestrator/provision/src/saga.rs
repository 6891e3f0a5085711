//! State of one order's provisioning, one generation at a time.

use crate::{
    leg::{self, LegState, LocalPart},
    path::PathRole,
    rules::RouteRules,
};
use jiff::Timestamp;
use rhumb_model::{
    Bandwidth, ComponentName, Latency, LinkId, ModelName, NodeName, Order, Phase, Plan, PointName, SiteName,
    plan::{PlacedComponent, SiteAssignment},
};
use rhumb_wire::AssignmentState;
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
    /// Parts of datasets that lie where the work is.
    #[serde(default)]
    pub local: Vec<LocalPart>,
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
    /// When its legs are moved.
    #[serde(default)]
    pub rules: RouteRules,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaState {
    pub component: ComponentName,
    pub replica: u32,
    pub site: SiteName,
    pub node: NodeName,
    pub devices: Vec<u32>,
    pub model: Option<ModelName>,
    /// Last heard; `None`: the site has not spoken of it yet. An end is never unheard.
    #[serde(default)]
    pub seen: Option<AssignmentState>,
    #[serde(default)]
    pub end: Option<RunEnd>,
    #[serde(default)]
    pub ran_us: u64,
    /// What its work named as its last checkpoint.
    #[serde(default)]
    pub checkpoint: Option<String>,
    /// The checkpoint that it goes on from.
    #[serde(default)]
    pub restart_from: Option<String>,
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
    /// `None`: the placements are not those of the plan, or the plan names what the order or the federation does not.
    pub fn begin(
        order: &Order,
        plan: &Plan,
        placements: &[Placement],
        generation: u64,
        now: Timestamp,
        ends: impl Fn(&LinkId) -> Option<(PointName, PointName)>,
    ) -> Option<Self> {
        let replicas =
            placements.iter().map(|p| ReplicaState::begin(order, plan, p)).collect::<Option<Vec<ReplicaState>>>()?;
        let planned: u64 = plan.components.iter().flat_map(|c| &c.assignments).map(|a| u64::from(a.replicas)).sum();
        let distinct: BTreeSet<_> = placements.iter().map(|p| (&p.component, p.replica)).collect();
        if replicas.is_empty() || distinct.len() != replicas.len() || replicas.len() as u64 != planned {
            return None;
        }
        let (legs, local) = leg::legs(order, plan, ends)?;
        Some(Self {
            generation,
            phase: Phase::Holding,
            goal: Goal::Complete,
            cause: String::new(),
            replicas,
            legs,
            local,
            barrier: Stamp::default(),
            confirmed: BTreeSet::new(),
            dead: BTreeSet::new(),
            phase_since: now,
            ran_from: None,
            ran_to: None,
            rules: RouteRules::default(),
        })
    }

    /// Every point that has, or may have, something of this generation.
    pub fn points(&self) -> BTreeSet<PointName> {
        let sites = self.replicas.iter().map(|r| r.site.clone());
        sites.chain(self.legs.iter().flat_map(|l| l.points().cloned())).collect()
    }

    /// The same, under these rules and with these bounds of its flows' paths.
    #[must_use]
    pub fn under(mut self, rules: RouteRules, bound: impl Fn(u32) -> Option<Latency>) -> Self {
        self.rules = rules;
        self.legs.iter_mut().for_each(|leg| leg.bound = bound(leg.flow));
        self
    }

    /// What its legs hold on links.
    pub fn holds(&self) -> BTreeMap<u32, BTreeMap<LinkId, Bandwidth>> {
        self.legs.iter().map(|l| (l.leg, l.held_links())).collect()
    }

    /// Which paths its legs have, what for and at which rate.
    pub fn ways(&self) -> Vec<(u32, Bandwidth, u32, PathRole)> {
        let paths = self.legs.iter().flat_map(|l| l.paths.iter().map(move |p| (l, p)));
        paths.map(|(l, p)| (l.leg, l.rate, p.path, p.role)).collect()
    }

    /// What its points confirm counts from this desired state on.
    pub fn rebase(&mut self, stamp: Stamp) {
        self.barrier = stamp;
        for leg in &mut self.legs {
            leg.barrier = stamp;
            leg.paths.iter_mut().filter(|p| p.role == PathRole::Closing).for_each(|p| p.barrier = stamp);
        }
    }

    pub fn sites(&self) -> BTreeSet<SiteName> {
        self.replicas.iter().map(|r| r.site.clone()).collect()
    }
}

impl ReplicaState {
    fn begin(order: &Order, plan: &Plan, p: &Placement) -> Option<Self> {
        let placed = plan.components.iter().find(|c| c.name == p.component)?;
        Some(Self {
            component: p.component.clone(),
            replica: p.replica,
            site: p.site.clone(),
            node: p.node.clone(),
            devices: p.devices.clone(),
            model: assignment(placed, p)?.model.clone(),
            seen: None,
            end: None,
            ran_us: 0,
            checkpoint: None,
            restart_from: None,
            service: order.component(&p.component)?.service.is_some(),
        })
    }

    /// Its end by itself, where that is no success: of a service any end.
    pub(crate) fn failure(&self) -> Option<&RunEnd> {
        self.end.as_ref().filter(|end| self.service || !end.is_success())
    }
}

/// Replicas are numbered in the order of the plan's assignments, of which one site may have several, by model.
/// `None`: the plan has nothing of the component at that site.
fn assignment<'a>(placed: &'a PlacedComponent, p: &Placement) -> Option<&'a SiteAssignment> {
    let mut before = 0;
    let mut numbered = None;
    for assignment in &placed.assignments {
        let after = before + assignment.replicas;
        if (before..after).contains(&p.replica) {
            numbered = Some(assignment);
        }
        before = after;
    }
    let here = |a: &&SiteAssignment| a.site == p.site;
    numbered.filter(here).or_else(|| placed.assignments.iter().find(here))
}
