//! From what is held to a saga: the first record of an order's provisioning.

use crate::{desk::Desk, error::DeskError, hub::Pulse, placer::state_event, reserve::due, sagas::Mail};
use jiff::SignedDuration;
use rhumb_model::{LinkId, OrderState};
use rhumb_provision::{Saga, saga::Placement};
use rhumb_store::{Grant, Holder, Holdings, Intent, NewEvent, OrderChange, OrderRecord, Outcome, Store};

/// An order with a window or a deadline that could not be begun this long after it was due would miss it.
const MISSED: SignedDuration = SignedDuration::from_secs(60);

impl<S: Store> Desk<S> {
    /// An order that holds its devices and links enters its saga, if it is time.
    pub(crate) async fn begin_if_due(&self, order: OrderRecord, held: &Holdings) -> Result<(), DeskError> {
        let Some(plan) = &order.plan else {
            return Err(DeskError::Internal("the order holds something without a plan".into()));
        };
        let (due, now) = (due(&order.document, plan), self.now());
        if due > now && order.state == OrderState::Held {
            return Ok(());
        }
        // what was quoted may be ordered later than it was decided on
        let terms = &order.document.terms;
        let timed = terms.window.is_some() || (terms.deadline.is_some() && order.quote_id.is_none());
        if timed && now.duration_since(due) > MISSED {
            return self.miss(&order).await;
        }
        let mine =
            |h: &&rhumb_store::ReplicaHold| h.holder == Holder::Order(order.id) && h.generation == order.generation;
        let grants: Vec<Grant> = held
            .replicas
            .iter()
            .filter(mine)
            .cloned()
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

    pub(crate) async fn begin(&self, mut record: OrderRecord, grants: &[Grant]) -> Result<(), DeskError> {
        let now = self.now();
        let plan = record.plan.as_ref().ok_or_else(|| DeskError::Internal("a reserved order has no plan".into()))?;
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
        let ends = |link: &LinkId| self.inner.base.ends(link);
        let document = self.sized(&record.document);
        let saga = Saga::begin(&document, plan, &placements, record.generation, now, ends)
            .ok_or_else(|| DeskError::Internal("what is held is not what the order's plan says".into()))?
            .under(self.inner.config.routes, |flow| self.inner.base.path_bound(&document, flow))
            .from_checkpoints(&record.checkpoints);
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
        // refused: cancelled meanwhile, or begun by a commit whose answer was lost
        if let Some(Outcome::Changed { version }) =
            self.inner.store.commit(vec![Intent::Change(Box::new(change))]).await?.pop()
        {
            record.version = version;
            record.state = OrderState::InProgress;
            record.phase = Some(saga.phase);
            record.saga = Some(saga);
            record.updated = now;
            self.inner.mail.send(Mail::Known(vec![record])).await.map_err(|_| DeskError::Stopping)?;
        }
        Ok(())
    }

    /// Gives back what is held and waits for another time.
    async fn miss(&self, order: &OrderRecord) -> Result<(), DeskError> {
        let change = OrderChange {
            state: Some(OrderState::Pending),
            phase: Some(None),
            events: vec![state_event(OrderState::Pending, "its time was missed: placing again".into())],
            release: vec![order.generation],
            ..OrderChange::nothing(order.id, order.version, self.now())
        };
        self.inner.store.commit(vec![Intent::Change(Box::new(change))]).await?;
        self.inner.hub.wake_placer_for_all();
        self.inner.hub.pulse(Pulse::Order(order.id));
        Ok(())
    }
}
