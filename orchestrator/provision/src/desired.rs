//! The desired state of every point, as a function of the saga.

use crate::saga::{Goal, LegPurpose, LegState, ReplicaState, Saga};
use rhumb_model::{
    ComponentName, Order, OrderId, Phase, Plan, PointName,
    order::{End, Failover},
};
use rhumb_wire::{
    Assignment, AssignmentGoal, FlowEndpoint, InputFile, Role, Route, report::AssignmentKey,
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

/// What a leg asks of the network now.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    pub order: OrderId,
    pub generation: u64,
    pub leg: &'a LegState,
    /// Volumes move only when it is their time.
    pub start: bool,
    pub secrets: &'a LegSecrets,
}

/// One way of carrying a leg, such as the overlay of relays in the agents.
pub trait RouteProvider {
    /// As it stands in routes and tariffs.
    fn name(&self) -> &'static str;
    /// What every point of the leg has to have, so that the leg is carried.
    fn hops(&self, ask: &Ask<'_>) -> Vec<(PointName, Route)>;
}

/// The whole of what an order wants now. `secrets(leg)` derives a leg's keys; `traceparent` goes with the work.
pub fn desired(
    provider: &impl RouteProvider,
    id: OrderId,
    order: &Order,
    plan: &Plan,
    saga: &Saga,
    traceparent: Option<&str>,
    secrets: impl Fn(u32) -> LegSecrets,
) -> BTreeMap<PointName, PointShare> {
    let mut points: BTreeMap<PointName, PointShare> = BTreeMap::new();
    if saga.phase < Phase::Releasing {
        for replica in &saga.replicas {
            let share = points.entry(replica.site.clone()).or_default();
            share.assignments.push(assignment(id, order, plan, saga, replica, traceparent));
        }
    }
    // what is being stopped still has its routes: the last words of the work may be on their way
    if matches!(saga.phase, Phase::Routing | Phase::Staging | Phase::Starting | Phase::Running | Phase::Stopping) {
        for leg in &saga.legs {
            let start = match leg.purpose {
                LegPurpose::Inbound { .. } => saga.phase >= Phase::Staging && saga.goal == Goal::Complete,
                LegPurpose::Outbound { .. } => saga.ran_to.is_some() && saga.goal == Goal::Complete,
                LegPurpose::Stream => false,
            };
            let secrets = secrets(leg.leg);
            let ask = Ask { order: id, generation: saga.generation, leg, start, secrets: &secrets };
            for (hop, route) in provider.hops(&ask) {
                points.entry(hop).or_default().routes.push(route);
            }
        }
    }
    points
}

fn assignment(
    id: OrderId,
    order: &Order,
    plan: &Plan,
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
        cpu: component.map(|c| c.need.cpu).unwrap_or_default(),
        memory: component.map(|c| c.need.memory).unwrap_or_default(),
        command: run.command,
        env: run.env,
        inputs: inputs(order, plan, saga, &replica.component, replica),
        endpoints: endpoints(order, saga, &replica.component, replica),
        lease_ms: match order.terms.failover {
            Failover::Lease(lease) => Some(lease.micros() / 1_000),
            Failover::None => None,
        },
        grace_ms: checkpoint.map_or(2_000, |c| c.grace.micros() / 1_000),
        checkpoint_signal: checkpoint.map(|c| c.signal.clone()),
        traceparent: traceparent.map(str::to_owned),
    }
}

fn inputs(order: &Order, plan: &Plan, saga: &Saga, name: &ComponentName, replica: &ReplicaState) -> Vec<InputFile> {
    let mut offsets: BTreeMap<u32, u64> = BTreeMap::new();
    let mut files = Vec::new();
    for (index, leg) in plan.flows.iter().enumerate() {
        let Some(flow) = order.flows.get(leg.flow as usize) else { continue };
        let offset = if flow.copy { 0 } else { *offsets.entry(leg.flow).or_default() };
        *offsets.entry(leg.flow).or_default() += leg.volume_bytes;
        let (End::Dataset(dataset), End::Component(to)) = (&flow.from, &flow.to) else { continue };
        if to != name || leg.to_site != replica.site {
            continue;
        }
        let crosses = saga.legs.iter().any(|l| l.leg == index as u32);
        files.push(InputFile {
            dataset: dataset.to_string(),
            leg: crosses.then_some(index as u32),
            bytes: leg.volume_bytes,
            offset,
        });
    }
    files
}

fn endpoints(order: &Order, saga: &Saga, name: &ComponentName, replica: &ReplicaState) -> Vec<FlowEndpoint> {
    let mut found = Vec::new();
    for (index, flow) in order.flows.iter().enumerate() {
        let is = |end: &End| matches!(end, End::Component(c) if c == name);
        let region = |end: &End| matches!(end, End::Region(_));
        let dataset = |end: &End| matches!(end, End::Dataset(_));
        if !(is(&flow.from) || is(&flow.to)) || dataset(&flow.from) || dataset(&flow.to) {
            continue;
        }
        if region(&flow.from) && !is(&flow.to) {
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
