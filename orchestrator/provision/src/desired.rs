//! The desired state of every point, as a function of the saga.

use crate::{
    leg::{LegPurpose, LegState},
    path::{PathRole, PathState},
    saga::{Goal, ReplicaState, Saga},
};
use rhumb_model::{
    Bytes, ComponentName, Order, OrderId, Phase, Plan, PointName,
    order::{Accelerators, End, Failover},
};
use rhumb_wire::{
    Assignment, AssignmentGoal, DevicePart, Duty, FlowEndpoint, InputFile, OutputFile, Role, Route, RunTerms,
    RunVariant, report::AssignmentKey,
};
use std::collections::BTreeMap;

/// What one order wants of one point.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PointShare {
    pub assignments: Vec<Assignment>,
    pub routes: Vec<Route>,
}

/// Secrets of one leg: for the hops to know each other, and for the two ends to seal what passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegSecrets {
    pub hop_base64: String,
    pub seal_base64: String,
}

/// What one path of a leg asks of the network now.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    pub order: OrderId,
    pub generation: u64,
    pub leg: &'a LegState,
    pub path: &'a PathState,
    pub duty: Duty,
    /// Volumes move only when it is their time.
    pub start: bool,
    pub secrets: &'a LegSecrets,
}

/// One way of carrying a leg, such as the overlay of relays in the agents.
pub trait RouteProvider {
    /// As it stands in routes and tariffs.
    fn name(&self) -> &'static str;
    /// What every point of the path has to have, so that it carries the leg.
    fn hops(&self, ask: &Ask<'_>) -> Vec<(PointName, Route)>;
}

/// The whole of what an order wants now. `secrets(leg)` derives a leg's keys; `traceparent` goes with the work.
pub fn desired(
    provider: &impl RouteProvider,
    id: OrderId,
    order: &Order,
    _plan: &Plan,
    saga: &Saga,
    traceparent: Option<&str>,
    secrets: impl Fn(u32) -> LegSecrets,
) -> BTreeMap<PointName, PointShare> {
    let mut points: BTreeMap<PointName, PointShare> = BTreeMap::new();
    if saga.phase < Phase::Releasing {
        for replica in &saga.replicas {
            let share = points.entry(replica.site.clone()).or_default();
            share.assignments.push(assignment(id, order, saga, replica, traceparent));
        }
    }
    if is_routed(saga) {
        for leg in &saga.legs {
            let start = match leg.purpose {
                LegPurpose::Inbound { .. } => saga.phase >= Phase::Staging && saga.goal == Goal::Complete,
                LegPurpose::Outbound { .. } => saga.ran_to.is_some() && saga.goal == Goal::Complete,
                LegPurpose::Stream => false,
            };
            let secrets = secrets(leg.leg);
            for path in leg.paths.iter().filter(|p| p.is_wanted()) {
                let duty = duty(saga.phase, path.role);
                let ask = Ask { order: id, generation: saga.generation, leg, path, duty, start, secrets: &secrets };
                for (hop, route) in provider.hops(&ask) {
                    points.entry(hop).or_default().routes.push(route);
                }
            }
        }
    }
    points
}

/// Nothing takes a path before all paths have been measured.
fn duty(phase: Phase, role: PathRole) -> Duty {
    match role {
        _ if phase <= Phase::Routing => Duty::Measure,
        PathRole::Carry => Duty::Carry,
        PathRole::Backup | PathRole::Next | PathRole::Leaving | PathRole::Closing | PathRole::Gone => Duty::Standby,
    }
}

/// Whether the order's routes are to be there.
fn is_routed(saga: &Saga) -> bool {
    match saga.phase {
        Phase::Routing | Phase::Staging | Phase::Starting | Phase::Running => true,
        // what is being stopped still has its routes: the last words of the work may be on their way
        Phase::Stopping => saga.ran_from.is_some(),
        Phase::Reserving | Phase::Holding | Phase::Unrouting | Phase::Releasing | Phase::Settling => false,
    }
}

fn assignment(
    id: OrderId,
    order: &Order,
    saga: &Saga,
    replica: &ReplicaState,
    traceparent: Option<&str>,
) -> Assignment {
    let component = order.component(&replica.component);
    let goal = match saga.phase {
        Phase::Starting | Phase::Running => AssignmentGoal::Run,
        Phase::Stopping | Phase::Unrouting | Phase::Releasing | Phase::Settling => AssignmentGoal::Stop,
        Phase::Reserving | Phase::Holding | Phase::Routing | Phase::Staging => AssignmentGoal::Lease,
    };
    let run = component.and_then(|c| c.run.clone()).unwrap_or_default();
    let checkpoint = order.terms.checkpoint.as_ref();
    let (inputs, outputs) = files(order, saga, replica);
    Assignment {
        key: AssignmentKey {
            order: id,
            generation: saga.generation,
            component: replica.component.clone(),
            replica: replica.replica,
        },
        goal,
        node: replica.node.clone(),
        devices: replica.devices.clone(),
        part: component.and_then(|c| part(c.need.accelerators.as_ref()?)),
        cpu: component.map(|c| c.need.cpu).unwrap_or_default(),
        memory: component.map(|c| c.need.memory).unwrap_or_default(),
        command: run.command,
        env: run.env,
        inputs,
        outputs,
        endpoints: endpoints(order, saga, &replica.component, replica),
        lease_ms: match order.terms.failover {
            Failover::Lease(lease) => Some(lease.micros() / 1_000),
            Failover::None => None,
        },
        grace_ms: checkpoint.map_or(2_000, |c| c.grace.micros() / 1_000),
        checkpoint_signal: checkpoint.map(|c| c.signal.clone()),
        traceparent: traceparent.map(str::to_owned),
        terms: RunTerms {
            gang: component.is_some_and(|c| c.gang),
            image: run.image,
            variants: run
                .variants
                .into_iter()
                .map(|(family, v)| (family, RunVariant { command: v.command, image: v.image }))
                .collect(),
            restart_from: replica.restart_from.clone(),
        },
    }
}

/// `None`: whole devices.
fn part(asked: &Accelerators) -> Option<DevicePart> {
    match (asked.share, asked.mig) {
        (Some(share), _) => Some(DevicePart::Share {
            thousandths: u16::try_from(share.thousandths()).unwrap_or(u16::MAX),
            memory_bytes: asked.memory.map(Bytes::bytes),
        }),
        (None, Some(profile)) => Some(DevicePart::Slice { profile }),
        (None, None) => None,
    }
}

/// The parts of datasets that a replica reads and writes at its site, in the order of the flows. Replicas of one component
/// at one site share the site's part.
fn files(order: &Order, saga: &Saga, replica: &ReplicaState) -> (Vec<InputFile>, Vec<OutputFile>) {
    let crossing = saga.legs.iter().map(|l| {
        let site = if l.is_outbound() { l.source() } else { l.sink() };
        (l.flow, Some(l.leg), site, &l.purpose)
    });
    let local = saga.local.iter().map(|l| (l.flow, None, &l.site, &l.purpose));
    let mut parts: Vec<_> = crossing.chain(local).filter(|(_, _, site, _)| *site == &replica.site).collect();
    parts.sort_by_key(|(flow, leg, ..)| (*flow, *leg));
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for (flow, leg, _, purpose) in parts {
        let Some(flow) = order.flows.get(flow as usize) else { continue };
        let mine = |end: &End| matches!(end, End::Component(name) if name == &replica.component);
        match purpose {
            LegPurpose::Inbound { dataset, offset, bytes } if mine(&flow.to) => {
                inputs.push(InputFile { dataset: dataset.clone(), leg, bytes: *bytes, offset: *offset });
            }
            LegPurpose::Outbound { dataset, bytes, .. } if mine(&flow.from) => {
                outputs.push(OutputFile { dataset: dataset.clone(), leg, bytes: *bytes });
            }
            LegPurpose::Inbound { .. } | LegPurpose::Outbound { .. } | LegPurpose::Stream => {}
        }
    }
    (inputs, outputs)
}

/// The sockets of a replica: one for each of its component's flows to components and regions.
fn endpoints(order: &Order, saga: &Saga, name: &ComponentName, replica: &ReplicaState) -> Vec<FlowEndpoint> {
    let mut found = Vec::new();
    for (index, flow) in order.flows.iter().enumerate() {
        let is = |end: &End| matches!(end, End::Component(c) if c == name);
        let dataset = |end: &End| matches!(end, End::Dataset(_));
        if !(is(&flow.from) || is(&flow.to)) || dataset(&flow.from) || dataset(&flow.to) {
            continue;
        }
        let legs = saga
            .legs
            .iter()
            .filter(|l| l.flow == index as u32 && (l.source() == &replica.site || l.sink() == &replica.site))
            .map(|l| l.leg)
            .collect();
        let role = if is(&flow.from) { Role::Source } else { Role::Sink };
        found.push(FlowEndpoint { flow: index as u32, legs, role });
    }
    found
}
