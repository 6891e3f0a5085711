//! A decision becomes what is held: in one commit with the order's change, or not at all.

use crate::{desk::Desk, error::DeskError, hub::Pulse, metrics as names};
use jiff::{SignedDuration, Timestamp};
use rhumb_model::{ComponentName, Order, OrderState, Phase, Plan, order::Spread};
use rhumb_placement::booking::{self, Booking, LegPhase};
use rhumb_store::{
    Conflict, DecisionRecord, Intent, LinkWant, NewEvent, OrderChange, OrderRecord, Outcome, ReplicaWant, Reservation,
    Store,
};
use std::collections::BTreeMap;

/// Provisioning that is due within this is begun at once.
const SOON: SignedDuration = SignedDuration::from_secs(2);

impl<S: Store> Desk<S> {
    pub(crate) async fn reserve(
        &self,
        order: &OrderRecord,
        plan: Plan,
        decision: DecisionRecord,
    ) -> Result<Result<(), Conflict>, DeskError> {
        let now = self.now();
        let generation = order.generation + 1;
        let due = due(&order.document, &plan);
        let later = due > now + SOON;
        let state = if later { OrderState::Held } else { OrderState::InProgress };
        let phase = (!later).then_some(Phase::Reserving);
        let message = if later { format!("order is held until {due}") } else { "order is placed".to_owned() };
        let placed = NewEvent {
            kind: "placed".into(),
            phase,
            message,
            detail: serde_json::json!({
                "state": state.as_str(),
                "generation": generation,
                "total_micros": plan.cost.total_micros,
                "lower_bound_micros": plan.lower_bound_micros,
            }),
        };
        let change = OrderChange {
            state: Some(state),
            phase: Some(phase),
            reasons: Some(Vec::new()),
            attention: Some(None),
            plan: Some(Some(plan.clone())),
            cost: Some(Some(plan.cost)),
            generation: Some(generation),
            decision: Some(decision),
            events: vec![placed],
            ..OrderChange::nothing(order.id, order.version, now)
        };
        let reservation = reservation(&order.document, &plan);
        let intent = Intent::Reserve { order: order.id, generation, reservation, change: Box::new(change) };
        match self.inner.store.commit(vec![intent]).await?.pop() {
            Some(Outcome::Reserved { version, grants }) => {
                metrics::counter!(names::ORDERS_PLACED).increment(1);
                self.inner.hub.pulse(Pulse::Order(order.id));
                if later {
                    return Ok(Ok(()));
                }
                let record = OrderRecord {
                    state,
                    phase,
                    attention: None,
                    reasons: Vec::new(),
                    cost: Some(plan.cost),
                    plan: Some(plan),
                    generation,
                    version,
                    updated: now,
                    ..order.clone()
                };
                self.begin(record, &grants).await?;
                Ok(Ok(()))
            }
            Some(Outcome::Refused(conflict)) => Ok(Err(conflict)),
            other => Err(DeskError::Internal(format!("the store answered a reservation with {other:?}"))),
        }
    }
}

/// When provisioning has to begin so that everything has arrived at the plan's start.
pub(crate) fn due(order: &Order, plan: &Plan) -> Timestamp {
    let inbound = plan.flows.iter().filter(|l| LegPhase::of(order, l) == LegPhase::Inbound);
    let longest = SignedDuration::from_micros(inbound.map(booking::micros).max().unwrap_or(0));
    plan.start.checked_sub(longest).unwrap_or(plan.start)
}

pub(crate) fn link_want(Booking { link, slots, rate }: Booking) -> LinkWant {
    LinkWant { link, slots, rate }
}

/// What a plan needs held: every replica by itself, every link as long as a phase needs it.
pub(crate) fn reservation(order: &Order, plan: &Plan) -> Reservation {
    let mut next: BTreeMap<ComponentName, u32> = BTreeMap::new();
    let mut replicas = Vec::new();
    for placed in &plan.components {
        let Some(component) = order.component(&placed.name) else { continue };
        for assignment in &placed.assignments {
            for _ in 0..assignment.replicas {
                let number = next.entry(placed.name.clone()).or_default();
                replicas.push(ReplicaWant {
                    component: placed.name.clone(),
                    replica: *number,
                    site: assignment.site.clone(),
                    model: assignment.model.clone(),
                    need: component.need.clone(),
                    own_node: component.place.spread.is_some_and(|s| s != Spread::Site),
                });
                *number += 1;
            }
        }
    }
    Reservation { replicas, links: booking::bookings(plan, order).into_iter().map(link_want).collect() }
}
