//! The plan's legs as the saga follows them: what each is for, where it passes, how far it has come.

use jiff::SignedDuration;
use rhumb_model::{
    Bandwidth, Bytes, DatasetName, LinkId, Order, Phase, Plan, PointName, RouteState, SiteName,
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
    /// Last heard of each point. What was done once stays done.
    #[serde(default)]
    pub seen: BTreeMap<PointName, RouteEndState>,
    /// Payload bytes at each point, both directions.
    #[serde(default)]
    pub bytes: BTreeMap<PointName, u64>,
}

/// A part of a dataset whose place is the site of the work itself: nothing crosses the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalPart {
    pub flow: u32,
    pub site: SiteName,
    pub purpose: LegPurpose,
}

impl LegState {
    pub fn source(&self) -> &PointName {
        &self.points[0]
    }

    pub fn sink(&self) -> &PointName {
        &self.points[self.points.len() - 1]
    }

    pub(crate) fn is(&self, at: &PointName, state: RouteEndState) -> bool {
        self.seen.get(at) == Some(&state)
    }

    /// The source has verified the way end to end.
    pub fn is_active(&self) -> bool {
        self.is(self.source(), RouteEndState::Active) || self.is(self.source(), RouteEndState::Done)
    }

    /// Both ends say that every byte has arrived.
    pub fn is_done(&self) -> bool {
        self.is(self.sink(), RouteEndState::Done) && self.is(self.source(), RouteEndState::Done)
    }

    pub fn route_state(&self, phase: Phase) -> RouteState {
        match phase {
            Phase::Releasing | Phase::Settling => RouteState::Terminated,
            Phase::Unrouting => RouteState::Terminating,
            _ if self.seen.values().any(|s| *s == RouteEndState::Failed) => RouteState::Failed,
            _ if self.seen.values().any(|s| *s == RouteEndState::Degraded) => RouteState::Degraded,
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

    /// Payload bytes that came out at the far end of the leg's `link`th link.
    pub(crate) fn bytes_after(&self, link: usize) -> u64 {
        self.points.get(link + 1).and_then(|p| self.bytes.get(p)).copied().unwrap_or(0)
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
        crossing.push(LegState {
            leg: u32::try_from(index).ok()?,
            flow: leg.flow,
            links: leg.path.clone(),
            points: points(&leg.from_site, &leg.to_site, &leg.path, &ends)?,
            rate: Bandwidth::from_kbps(leg.rate_kbps),
            purpose,
            encrypted: flow.encrypted || order.constraints.encrypted,
            seen: BTreeMap::new(),
            bytes: BTreeMap::new(),
        });
    }
    Some((crossing, local))
}

/// The points of a path. `None`: its links do not lead from `from` to `to`.
fn points(
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
    let mut left: BTreeMap<u32, u64> = BTreeMap::new();
    for leg in &plan.flows {
        *left.entry(leg.flow).or_default() += 1;
    }
    let legs_of = left.clone();
    let mut next: BTreeMap<u32, u64> = BTreeMap::new();
    let mut purposes = Vec::new();
    for leg in &plan.flows {
        let flow = order.flows.get(leg.flow as usize)?;
        let (Some(dataset), false) = (dataset(flow), flow.volume.is_none() && flow.rate.is_some()) else {
            purposes.push(LegPurpose::Stream);
            continue;
        };
        let left = left.get_mut(&leg.flow)?;
        *left -= 1;
        let (offset, bytes) = if flow.copy {
            (0, leg.volume_bytes)
        } else {
            let next = next.entry(leg.flow).or_default();
            let offset = *next;
            let rest = flow.volume.map(|all| all.bytes().saturating_sub(offset));
            let bytes = match rest {
                Some(rest) if *left == 0 && rest.abs_diff(leg.volume_bytes) <= *legs_of.get(&leg.flow)? => rest,
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
