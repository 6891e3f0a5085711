//! The plan's legs as the saga follows them: what each is for, where it passes, how far it has come.

use crate::{
    carriage::Carriage,
    path::{PathRole, PathState},
    rules::RouteRules,
    saga::{Saga, Stamp},
};
use jiff::{SignedDuration, Timestamp};
use rhumb_model::{
    Bandwidth, Bytes, DatasetName, Latency, Leg, LinkId, Order, Phase, Plan, PointName, RouteState, SiteName,
    order::{End, Flow},
};
use rhumb_wire::RouteEndState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
#[serde(from = "Stored")]
pub struct LegState {
    /// Index in `Plan::flows`.
    pub leg: u32,
    pub flow: u32,
    pub rate: Bandwidth,
    pub purpose: LegPurpose,
    pub encrypted: bool,
    /// One-way delay that its path may have, without a region's access.
    pub bound: Option<Latency>,
    /// It is to have a path that stands by.
    pub protected: bool,
    pub paths: Vec<PathState>,
    /// The path that carries, as the source said last.
    pub carried_by: u32,
    /// Only what is reported on at least this desired state tells of the present paths.
    pub barrier: Stamp,
    /// Rates it had before, each with when it ended.
    pub former_rates: Vec<(Timestamp, Bandwidth)>,
    /// When it was moved, within the last hour.
    pub moves: Vec<Timestamp>,
    /// Why it should have another path; why another backup.
    pub trouble: Option<Trouble>,
    pub bare: Option<Trouble>,
    /// Paths that were tried and did not do, the last few.
    pub refused: Vec<Vec<LinkId>>,
}

/// Why a leg should have another path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    pub cause: String,
    pub since: Timestamp,
    /// There is none, as of then, and why.
    #[serde(default)]
    pub stuck: Option<(Timestamp, String)>,
}

/// As it was written by this and by former releases, which knew one path a leg.
#[derive(Deserialize)]
struct Stored {
    leg: u32,
    flow: u32,
    rate: Bandwidth,
    purpose: LegPurpose,
    encrypted: bool,
    #[serde(default)]
    bound: Option<Latency>,
    #[serde(default)]
    protected: bool,
    #[serde(default)]
    paths: Vec<PathState>,
    #[serde(default)]
    carried_by: u32,
    #[serde(default)]
    barrier: Stamp,
    #[serde(default)]
    former_rates: Vec<(Timestamp, Bandwidth)>,
    #[serde(default)]
    moves: Vec<Timestamp>,
    #[serde(default)]
    trouble: Option<Trouble>,
    #[serde(default)]
    bare: Option<Trouble>,
    #[serde(default)]
    refused: Vec<Vec<LinkId>>,
    #[serde(default)]
    links: Vec<LinkId>,
    #[serde(default)]
    points: Vec<PointName>,
    #[serde(default)]
    seen: BTreeMap<PointName, RouteEndState>,
    #[serde(default)]
    bytes: BTreeMap<PointName, u64>,
}

impl From<Stored> for LegState {
    fn from(s: Stored) -> Self {
        let mut paths = s.paths;
        if paths.is_empty() {
            paths.push(PathState {
                seen: s.seen,
                bytes: s.bytes,
                carriage: Carriage::Relays,
                ..PathState::new(0, s.links, s.points, PathRole::Carry)
            });
        }
        Self {
            leg: s.leg,
            flow: s.flow,
            rate: s.rate,
            purpose: s.purpose,
            encrypted: s.encrypted,
            bound: s.bound,
            protected: s.protected,
            paths,
            carried_by: s.carried_by,
            barrier: s.barrier,
            former_rates: s.former_rates,
            moves: s.moves,
            trouble: s.trouble,
            bare: s.bare,
            refused: s.refused,
        }
    }
}

/// A part of a dataset whose place is the site of the work itself: nothing crosses the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalPart {
    pub flow: u32,
    pub site: SiteName,
    pub purpose: LegPurpose,
}

impl LegState {
    /// A leg with one path.
    pub fn new(leg: u32, flow: u32, path: PathState, rate: Bandwidth, purpose: LegPurpose, encrypted: bool) -> Self {
        Self {
            leg,
            flow,
            rate,
            purpose,
            encrypted,
            bound: None,
            protected: false,
            carried_by: path.path,
            paths: vec![path],
            barrier: Stamp::default(),
            former_rates: Vec::new(),
            moves: Vec::new(),
            trouble: None,
            bare: None,
            refused: Vec::new(),
        }
    }

    /// The path that carries, or is to.
    pub fn carry(&self) -> &PathState {
        self.with_role(PathRole::Carry).expect("a leg has a path that carries at all times")
    }

    pub fn with_role(&self, role: PathRole) -> Option<&PathState> {
        self.paths.iter().find(|p| p.role == role)
    }

    pub(crate) fn path_mut(&mut self, path: u32) -> Option<&mut PathState> {
        self.paths.iter_mut().find(|p| p.path == path)
    }

    pub fn source(&self) -> &PointName {
        self.carry().source()
    }

    pub fn sink(&self) -> &PointName {
        self.carry().sink()
    }

    /// Every point that has, or may have, something of it.
    pub fn points(&self) -> impl Iterator<Item = &PointName> {
        self.paths.iter().filter(|p| p.is_held()).flat_map(|p| &p.points)
    }

    /// What it holds on links, each once: what two of its paths share carries the leg once.
    pub fn held_links(&self) -> BTreeMap<LinkId, Bandwidth> {
        let mut held: BTreeMap<LinkId, Bandwidth> = BTreeMap::new();
        for path in self.paths.iter().filter(|p| p.is_held()) {
            let rate = self.rate_of(path);
            for link in &path.links {
                let most = held.entry(link.clone()).or_default();
                *most = rate.max(*most);
            }
        }
        held
    }

    /// What a path of it carries at the most.
    pub fn rate_of(&self, path: &PathState) -> Bandwidth {
        path.rate.unwrap_or(self.rate)
    }

    pub fn is_active(&self) -> bool {
        self.carry().is_active()
    }

    /// Both ends say that every byte has arrived, over whichever path.
    pub fn is_done(&self) -> bool {
        self.paths.iter().any(PathState::is_done)
    }

    /// All of it stands, and keeps what was promised as far as it was measured.
    pub(crate) fn is_verified(&self, rules: &RouteRules) -> bool {
        let good = |p: &PathState| p.is_active() && (p.is_done() || p.fault(self, rules).is_none());
        let wanted = |p: &&PathState| matches!(p.role, PathRole::Carry | PathRole::Backup);
        let backed = !self.protected || self.with_role(PathRole::Backup).is_some();
        self.is_done() || (backed && self.paths.iter().filter(wanted).all(good))
    }

    /// Whether it has a part in what is yet to be done on the way to completion.
    pub(crate) fn is_needed(&self, saga: &Saga) -> bool {
        match self.purpose {
            LegPurpose::Inbound { .. } => saga.phase < Phase::Starting,
            LegPurpose::Outbound { .. } => !self.is_done(),
            LegPurpose::Stream => saga.ran_to.is_none(),
        }
    }

    pub fn route_state(&self, phase: Phase) -> RouteState {
        let carry = self.carry();
        let says = |state| carry.seen.values().any(|s| *s == state);
        match phase {
            Phase::Releasing | Phase::Settling => RouteState::Terminated,
            Phase::Unrouting => RouteState::Terminating,
            _ if says(RouteEndState::Failed) => RouteState::Failed,
            _ if self.paths.iter().any(|p| matches!(p.role, PathRole::Next | PathRole::Leaving)) => RouteState::Moving,
            _ if self.trouble.is_some() || says(RouteEndState::Degraded) => RouteState::Degraded,
            _ if self.is_active() => RouteState::Active,
            _ => RouteState::Building,
        }
    }

    pub(crate) fn is_inbound(&self) -> bool {
        matches!(self.purpose, LegPurpose::Inbound { .. })
    }

    pub(crate) fn is_outbound(&self) -> bool {
        matches!(self.purpose, LegPurpose::Outbound { .. })
    }

    /// Payload bytes that came out at the leg's far end.
    pub(crate) fn bytes_arrived(&self) -> u64 {
        self.paths.iter().filter_map(|p| p.bytes.get(p.sink())).copied().max().unwrap_or(0)
    }

    /// How long `bytes` take at the leg's rate, in microseconds.
    pub(crate) fn time_us(&self, bytes: u64) -> u64 {
        // 8 bits x 10^6 us / 10^3 bit per kbit
        bytes.saturating_mul(8_000) / self.rate.kbps().max(1)
    }

    /// How long all of an inbound leg takes at its rate.
    pub(crate) fn staging_time(&self) -> Option<SignedDuration> {
        let LegPurpose::Inbound { bytes, .. } = &self.purpose else { return None };
        Some(SignedDuration::from_micros(i64::try_from(self.time_us(*bytes)).unwrap_or(i64::MAX)))
    }
}

/// The order with every dataset flow's volume written out: one with neither volume nor rate moves the whole dataset,
/// of which `size` is what the federation says. With it the parts of a dataset add up to the byte; without it, to the
/// rounding of the plan's volumes.
pub fn sized(order: &Order, size: impl Fn(&DatasetName) -> Option<Bytes>) -> Order {
    let mut order = order.clone();
    for flow in &mut order.flows {
        if let (None, None, Some(dataset)) = (flow.volume, flow.rate, dataset(flow)) {
            flow.volume = size(dataset);
        }
    }
    order
}

fn dataset(flow: &Flow) -> Option<&DatasetName> {
    match (&flow.from, &flow.to) {
        (End::Dataset(name), _) | (_, End::Dataset(name)) => Some(name),
        (End::Component(_) | End::Region(_), End::Component(_) | End::Region(_)) => None,
    }
}

/// The plan's legs: those that cross the network, and the parts of datasets that need not. `None`: the plan is not one
/// for this order and these links.
pub(crate) fn legs(
    order: &Order,
    plan: &Plan,
    ends: impl Fn(&LinkId) -> Option<(PointName, PointName)>,
) -> Option<(Vec<LegState>, Vec<LocalPart>)> {
    let (mut crossing, mut local) = (Vec::new(), Vec::new());
    for (index, (leg, purpose)) in plan.flows.iter().zip(purposes(order, plan)?).enumerate() {
        let flow = order.flows.get(leg.flow as usize)?;
        if leg.path.is_empty() {
            if leg.from_site != leg.to_site {
                return None;
            }
            if purpose != LegPurpose::Stream {
                local.push(LocalPart { flow: leg.flow, site: leg.to_site.clone(), purpose });
            }
            continue;
        }
        let path = |number, links: &[LinkId], role| {
            let points = points(&leg.from_site, &leg.to_site, links, &ends)?;
            Some(PathState::new(number, links.to_vec(), points, role))
        };
        let encrypted = flow.encrypted || order.constraints.encrypted;
        let rate = Bandwidth::from_kbps(leg.rate_kbps);
        let first = path(0, &leg.path, PathRole::Carry)?;
        let mut state = LegState::new(u32::try_from(index).ok()?, leg.flow, first, rate, purpose, encrypted);
        state.bound = flow.max_latency;
        state.protected = flow.protected && !leg.backup.is_empty();
        if !leg.backup.is_empty() {
            state.paths.push(path(1, &leg.backup, PathRole::Backup)?);
        }
        crossing.push(state);
    }
    Some((crossing, local))
}

/// The points of a path. `None`: its links do not lead from `from` to `to`.
pub fn points(
    from: &PointName,
    to: &PointName,
    path: &[LinkId],
    ends: impl Fn(&LinkId) -> Option<(PointName, PointName)>,
) -> Option<Vec<PointName>> {
    let mut points = vec![from.clone()];
    for link in path {
        let (begin, end) = ends(link)?;
        if points.last() != Some(&begin) {
            return None;
        }
        points.push(end);
    }
    (points.last() == Some(to)).then_some(points)
}

/// What each leg of the plan is for. The parts of one flow lie one after the other in the dataset, in the order of the
/// plan; a copy is the whole. A plan's volumes are rounded one by one: where the flow's volume is known, the last part
/// ends where it ends, so that no byte is missing and none beyond the end is asked for.
fn purposes(order: &Order, plan: &Plan) -> Option<Vec<LegPurpose>> {
    // of a copy that is split, the parts that go to one site make the whole
    let whole = |leg: &Leg, flow: &Flow| {
        let of_site = (flow.copy && flow.split).then(|| (leg.from_site.clone(), leg.to_site.clone()));
        (leg.flow, of_site)
    };
    let mut left: BTreeMap<_, u64> = BTreeMap::new();
    for leg in &plan.flows {
        *left.entry(whole(leg, order.flows.get(leg.flow as usize)?)).or_default() += 1;
    }
    let legs_of = left.clone();
    let mut next: BTreeMap<_, u64> = BTreeMap::new();
    let mut purposes = Vec::new();
    for leg in &plan.flows {
        let flow = order.flows.get(leg.flow as usize)?;
        let (Some(dataset), false) = (dataset(flow), flow.volume.is_none() && flow.rate.is_some()) else {
            purposes.push(LegPurpose::Stream);
            continue;
        };
        let whole = whole(leg, flow);
        let left = left.get_mut(&whole)?;
        *left -= 1;
        let (offset, bytes) = if flow.copy && !flow.split {
            (0, leg.volume_bytes)
        } else {
            let next = next.entry(whole.clone()).or_default();
            let offset = *next;
            let rest = flow.volume.map(|all| all.bytes().saturating_sub(offset));
            let bytes = match rest {
                Some(rest) if *left == 0 && rest.abs_diff(leg.volume_bytes) <= *legs_of.get(&whole)? => rest,
                Some(rest) => leg.volume_bytes.min(rest),
                None => leg.volume_bytes,
            };
            *next = offset.checked_add(bytes)?;
            (offset, bytes)
        };
        let dataset = dataset.to_string();
        purposes.push(match &flow.from {
            End::Dataset(_) => LegPurpose::Inbound { dataset, offset, bytes },
            End::Component(_) | End::Region(_) => LegPurpose::Outbound { dataset, offset, bytes },
        });
    }
    Some(purposes)
}
