//! The placing loop: decides on every order that waits, holds what was decided, begins its saga.

use crate::{desk::Desk, error::DeskError, hub::Pulse, sagas::Mail};
use jiff::{SignedDuration, Timestamp};
use rhumb_federation::View;
use rhumb_model::{ComponentName, Order, OrderState, Phase, Plan, order::Spread};
use rhumb_placement::{Decision, Request, never_fits, place};
use rhumb_provision::{Saga, saga::Placement};
use rhumb_store::{
    Conflict, DecisionRecord, Grant, Intent, LinkWant, NewEvent, OrderChange, OrderRecord, Outcome, ReplicaWant,
    Reservation, Store,
};
use std::{collections::BTreeMap, sync::PoisonError, time::Duration};

/// A decision that lost a race is made anew on a fresh view at most this often in a row.
const TRIES: usize = 8;
/// Without a reason to look, waiting orders are looked at this often: figures and price windows change by themselves.
const IDLE: Duration = Duration::from_secs(3);

pub(crate) fn spawn<S: Store>(desk: &Desk<S>) {
    let desk = desk.clone();
    let tracker = desk.inner.tasks.clone();
    tracker.spawn(async move {
        loop {
            tokio::select! {
                () = desk.inner.stop.cancelled() => return,
                () = desk.inner.hub.place.notified() => {}
                () = tokio::time::sleep(IDLE) => {}
            }
            if let Err(error) = desk.place_waiting().await {
                tracing::error!(%error, "waiting orders could not be placed");
            }
        }
    });
}

impl<S: Store> Desk<S> {
    /// Highest priority first, then the oldest.
    async fn place_waiting(&self) -> Result<(), DeskError> {
        let live = self.inner.store.live_orders().await?;
        let mut waiting = Vec::new();
        for order in live {
            match order.state {
                OrderState::Acknowledged | OrderState::Pending => waiting.push(order),
                // held for later, or a stop came between the reservation and the saga's first record
                OrderState::Held | OrderState::InProgress if order.saga.is_none() => self.begin_if_due(order).await?,
                _ => {}
            }
        }
        waiting.sort_by_key(|o| (std::cmp::Reverse(o.document.terms.priority.unwrap_or(50)), o.id));
        for order in waiting {
            if self.inner.stop.is_cancelled() {
                return Ok(());
            }
            let id = order.id;
            if let Err(error) = self.place_one(order).await {
                tracing::error!(%error, order = %id, "order could not be placed");
            }
        }
        Ok(())
    }

    async fn place_one(&self, mut order: OrderRecord) -> Result<(), DeskError> {
        for attempt in 0..TRIES {
            // the first decision is made as of the order's own instant, later ones as of now
            let fresh = attempt == 0 && order.state == OrderState::Acknowledged;
            let submit = if fresh { order.created } else { self.now() };
            let view = self.view(submit, &self.avoided(&order)).await?;
            let decision = self.decide(&order.document, &view, submit);
            let Ok(plan) = &decision.outcome else {
                return self.wait_or_reject(&order, &view, decision, submit).await;
            };
            match self.reserve(&order, plan.clone(), record(&decision, &view, submit)).await? {
                Ok(()) => return Ok(()),
                Err(Conflict::Version(..) | Conflict::Final(_)) => match self.inner.store.order(order.id).await? {
                    Some(now) if matches!(now.state, OrderState::Acknowledged | OrderState::Pending) => order = now,
                    _ => return Ok(()),
                },
                Err(conflict) => {
                    metrics::counter!("rhumb_placement_conflicts_total").increment(1);
                    tracing::debug!(order = %order.id, %conflict, "a decision lost a race: deciding again");
                }
            }
        }
        tracing::warn!(order = %order.id, "an order lost every race: it waits for the next round");
        self.inner.hub.place.notify_one();
        Ok(())
    }

    pub(crate) fn decide(&self, order: &Order, view: &View, submit: Timestamp) -> Decision {
        let begun = std::time::Instant::now();
        let decision = place(view, &Request::new(order, submit), &self.inner.config.policy);
        metrics::histogram!("rhumb_decision_seconds").record(begun.elapsed().as_secs_f64());
        decision
    }

    async fn wait_or_reject(
        &self,
        order: &OrderRecord,
        view: &View,
        decision: Decision,
        submit: Timestamp,
    ) -> Result<(), DeskError> {
        let reasons = decision.outcome.as_ref().err().cloned().unwrap_or_default();
        let request = Request::new(&order.document, submit);
        let never = order.generation == 0 && never_fits(view, &request, &self.inner.config.policy);
        let state = if never { OrderState::Rejected } else { OrderState::Pending };
        if order.state == state && order.reasons == reasons {
            return Ok(());
        }
        let first = reasons
            .first()
            .map_or_else(String::new, |r| format!(": {} (needed {}, free {})", r.reason, r.needed, r.free));
        let message = match state {
            OrderState::Rejected => format!("order could not fit even an empty federation{first}"),
            _ => format!("order waits{first}"),
        };
        let change = OrderChange {
            state: Some(state),
            reasons: Some(reasons),
            decision: Some(record(&decision, view, submit)),
            events: vec![NewEvent {
                kind: "state".into(),
                phase: None,
                message,
                detail: serde_json::json!({ "state": state.as_str() }),
            }],
            ..OrderChange::nothing(order.id, order.version, self.now())
        };
        // a refused change means that somebody else was quicker, a cancel for example
        self.inner.store.commit(vec![Intent::Change(Box::new(change))]).await?;
        self.inner.hub.pulse(Pulse::Order(order.id));
        Ok(())
    }

    async fn reserve(
        &self,
        order: &OrderRecord,
        plan: Plan,
        record: DecisionRecord,
    ) -> Result<Result<(), Conflict>, DeskError> {
        let now = self.now();
        let generation = order.generation + 1;
        let due = Self::due(&order.document, &plan);
        let later = due > now + SignedDuration::from_secs(2);
        let state = if later { OrderState::Held } else { OrderState::InProgress };
        let message = if later { format!("order is held until {due}") } else { "order is placed".to_owned() };
        let mut change = OrderChange {
            state: Some(state),
            phase: Some((!later).then_some(Phase::Reserving)),
            reasons: Some(Vec::new()),
            attention: Some(None),
            plan: Some(Some(plan.clone())),
            cost: Some(Some(plan.cost)),
            generation: Some(generation),
            decision: Some(record),
            ..OrderChange::nothing(order.id, order.version, now)
        };
        change.events.push(NewEvent {
            kind: "placed".into(),
            phase: change.phase.flatten(),
            message,
            detail: serde_json::json!({
                "state": state.as_str(),
                "generation": generation,
                "total_micros": plan.cost.total_micros,
                "lower_bound_micros": plan.lower_bound_micros,
            }),
        });
        let reservation = reservation(&order.document, &plan);
        let intent = Intent::Reserve { order: order.id, generation, reservation, change: Box::new(change) };
        match self.inner.store.commit(vec![intent]).await?.pop() {
            Some(Outcome::Reserved { version, grants }) => {
                metrics::counter!("rhumb_orders_placed_total").increment(1);
                let mut record = order.clone();
                record.plan = Some(plan);
                record.generation = generation;
                record.version = version;
                record.state = state;
                record.updated = now;
                self.inner.hub.pulse(Pulse::Order(order.id));
                if !later {
                    self.begin(record, &grants).await?;
                }
                Ok(Ok(()))
            }
            Some(Outcome::Refused(conflict)) => Ok(Err(conflict)),
            other => Err(DeskError::Internal(format!("the store answered a reservation with {other:?}"))),
        }
    }

    /// When provisioning has to begin so that everything has arrived at the plan's start.
    fn due(order: &Order, plan: &Plan) -> Timestamp {
        let inbound = plan.flows.iter().filter(|l| {
            let flow = order.flows.get(l.flow as usize);
            l.volume_bytes > 0 && flow.is_some_and(|f| matches!(f.to, rhumb_model::order::End::Component(_)))
        });
        let longest_us = inbound
            .map(|l| l.latency_us + l.volume_bytes.saturating_mul(8_000) / l.rate_kbps.max(1))
            .max()
            .unwrap_or(0);
        plan.start.checked_sub(SignedDuration::from_micros(longest_us as i64)).unwrap_or(plan.start)
    }

    /// An order that holds its devices and links enters its saga, if it is time.
    async fn begin_if_due(&self, order: OrderRecord) -> Result<(), DeskError> {
        let Some(plan) = order.plan.clone() else { return Ok(()) };
        if Self::due(&order.document, &plan) > self.now() {
            return Ok(());
        }
        let held = self.inner.store.holdings().await?;
        let grants: Vec<Grant> = held
            .replicas
            .into_iter()
            .filter(|h| h.holder == rhumb_store::Holder::Order(order.id) && h.generation == order.generation)
            .map(|h| Grant {
                component: h.component,
                replica: h.replica,
                site: h.site,
                node: h.node,
                devices: h.devices,
            })
            .collect();
        self.begin(order, &grants).await
    }

    async fn begin(&self, mut record: OrderRecord, grants: &[Grant]) -> Result<(), DeskError> {
        let now = self.now();
        let plan = record.plan.clone().ok_or_else(|| DeskError::Internal("a reserved order has no plan".into()))?;
        let placements: Vec<Placement> = grants
            .iter()
            .map(|g| Placement {
                component: g.component.clone(),
                replica: g.replica,
                site: g.site.clone(),
                node: g.node.clone(),
                devices: g.devices.clone(),
            })
            .collect();
        let ends = |link: &rhumb_model::LinkId| self.inner.base.ends(link);
        let saga = Saga::begin(&record.document, &plan, &placements, record.generation, now, ends)
            .ok_or_else(|| DeskError::Internal("a plan names what its order or the federation does not".into()))?;
        let change = OrderChange {
            state: Some(OrderState::InProgress),
            phase: Some(Some(saga.phase)),
            saga: Some(Some(saga.clone())),
            events: vec![NewEvent {
                kind: "phase".into(),
                phase: Some(saga.phase),
                message: format!("order is {}", saga.phase),
                detail: serde_json::json!({ "generation": saga.generation }),
            }],
            ..OrderChange::nothing(record.id, record.version, now)
        };
        if let Some(Outcome::Changed { version }) =
            self.inner.store.commit(vec![Intent::Change(Box::new(change))]).await?.pop()
        {
            record.version = version;
            record.state = OrderState::InProgress;
            record.phase = Some(saga.phase);
            record.saga = Some(saga);
            self.inner.mail.send(Mail::Begun(Box::new(record))).await.map_err(|_| DeskError::Stopping)?;
        }
        Ok(())
    }

    fn avoided(&self, order: &OrderRecord) -> Vec<rhumb_model::SiteName> {
        let now = self.now();
        let mut avoid = self.inner.avoid.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sites) = avoid.get_mut(&order.id) else { return Vec::new() };
        sites.retain(|_, until| *until > now);
        sites.keys().cloned().collect()
    }
}

/// What is kept of a decision.
pub(crate) fn record(decision: &Decision, view: &View, submit: Timestamp) -> DecisionRecord {
    let export = rhumb_federation::export::export(view, submit);
    DecisionRecord {
        at: submit,
        sites: decision.sites.clone(),
        reasons: decision.outcome.as_ref().err().cloned().unwrap_or_default(),
        would_fit_if: decision.would_fit_if.clone(),
        view: serde_json::to_string(&export).unwrap_or_default(),
    }
}

/// What a plan needs held: every replica by itself, every link at its busiest phase.
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
    let links = rhumb_placement::held(plan, order).into_iter().map(|(link, rate)| LinkWant { link, rate }).collect();
    Reservation { replicas, links }
}
