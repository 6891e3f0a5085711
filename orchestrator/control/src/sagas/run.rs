//! Events become steps, steps become one commit, and what was stored becomes what the points are told.

use super::{
    Sagas, outcome,
    routes::{carried_plan, link_wants},
};
use crate::{error::is_passing, hub::Pulse, metrics as names, placer::span};
use jiff::{SignedDuration, Timestamp};
use rhumb_model::OrderId;
use rhumb_provision::{Event, Saga, Stamp, Step, step};
use rhumb_store::{Conflict, Intent, NewEvent, OrderChange, OrderRecord, Outcome, Store};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Progress in seconds and bytes is stored this often, so that a bill does not lack more than this after a stop.
const PROGRESS: SignedDuration = SignedDuration::from_secs(15);

/// A step of which nothing is stored yet.
struct Stepped {
    order: OrderId,
    step: Step,
    attention: Option<String>,
    next: Stamp,
    cancel: bool,
}

/// A step that waits for its commit.
struct Pending {
    order: OrderId,
    step: Step,
    next: Stamp,
    /// Its change is this one of the commit's; `None`: nothing of it is stored.
    intent: Option<usize>,
    after: Option<OrderRecord>,
}

/// A fault in one order's step must not stop the others'; its order stays as it is.
fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(work)).ok();
    if done.is_none() {
        metrics::counter!(names::FAULTS, "in" => "step").increment(1);
        tracing::error!("an order's step failed: the order stays as it is");
    }
    done
}

impl<S: Store> Sagas<S> {
    /// Steps every order named, stores what changed in one commit, then lets the points know. False: not all of it could
    /// be stored as it was; those orders are as the store has them now.
    pub(super) async fn run(&mut self, events: Vec<(OrderId, Event)>) -> bool {
        let now = self.desk.now();
        let mut next = self.desk.inner.hub.lock().next_stamp();
        let mut intents = Vec::new();
        let mut pending = Vec::new();
        let mut steps = Vec::new();
        for (id, event) in events {
            let Some(this) = self.stepped(id, event, now, next) else { continue };
            if this.step.desired_changed {
                next.generation += 1;
            }
            steps.push(this);
        }
        let mut all = true;
        let mut undecided: Vec<_> = steps.iter_mut().map(|s| (s.order, &mut s.step)).collect();
        if let Err(error) = self.decide(&mut undecided).await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "no numbers of tunnels could be taken");
            // the next reports and seconds bring the same events again
            let before = steps.len();
            steps.retain(|s| s.step.saga.open_paths().is_empty());
            all = steps.len() == before;
        }
        for this in steps {
            pending.extend(self.planned(this, now, &mut intents));
        }
        let outcomes = self.store(intents).await;
        for this in pending {
            all &= self.apply(this, &outcomes).await;
        }
        all
    }

    /// One order's step; `None`: nothing has changed.
    fn stepped(&self, id: OrderId, event: Event, now: Timestamp, next: Stamp) -> Option<Stepped> {
        let record = self.live.get(&id)?;
        let saga = record.saga.as_ref()?;
        let _span = span(record).entered();
        let (cancel, tick) = (event == Event::Cancel, matches!(event, Event::Tick { .. }));
        let done = guarded(|| {
            let step = step(saga, event, now, next);
            let attention = if tick { self.attention(record, &step.saga, now) } else { record.attention.clone() };
            (step, attention)
        });
        let (step, attention) = done?;
        let calm = !step.changed && attention == record.attention;
        (!calm).then_some(Stepped { order: id, step, attention, next, cancel })
    }

    /// What is to be stored of a step, if it is worth that.
    fn planned(&self, this: Stepped, now: Timestamp, intents: &mut Vec<Intent>) -> Option<Pending> {
        let Stepped { order, step, attention, next, cancel } = this;
        let record = self.live.get(&order)?;
        let saga = record.saga.as_ref()?;
        let _span = span(record).entered();
        let stored = guarded(|| {
            let weighty = step.desired_changed
                || !step.notes.is_empty()
                || step.settled
                || cancel
                || attention != record.attention
                || outcome::differs(saga, &step.saga)
                || now.duration_since(record.updated) > PROGRESS;
            weighty.then(|| self.change(record, &step, attention, now, saga))
        })?;
        let mut this = Pending { order, step, next, intent: None, after: None };
        if let Some((change, after)) = stored {
            this.intent = Some(intents.len());
            this.after = Some(after);
            intents.push(Intent::Change(Box::new(change)));
        }
        Some(this)
    }

    /// `None`: it is not known to be stored.
    async fn store(&self, intents: Vec<Intent>) -> Vec<Option<Outcome>> {
        let store = &self.desk.inner.store;
        let count = intents.len();
        if count == 0 {
            return Vec::new();
        }
        let alone = if count > 1 { intents.clone() } else { Vec::new() };
        let error = match store.commit(intents).await {
            Ok(outcomes) => return outcomes.into_iter().map(Some).collect(),
            Err(error) => error,
        };
        tracing::error!(error = &error as &dyn std::error::Error, "steps of orders could not be stored");
        if is_passing(&error) || count == 1 {
            return vec![None; count];
        }
        // one of them is at fault: the others must not wait for it
        let mut outcomes = Vec::with_capacity(count);
        for intent in alone {
            let done = store.commit(vec![intent]).await;
            outcomes.push(done.ok().and_then(|mut outcomes| outcomes.pop()));
        }
        outcomes
    }

    async fn apply(&mut self, this: Pending, outcomes: &[Option<Outcome>]) -> bool {
        let Some(index) = this.intent else {
            if let Some(record) = self.live.get_mut(&this.order) {
                record.saga = Some(this.step.saga);
            }
            return true;
        };
        match outcomes.get(index) {
            Some(Some(Outcome::Changed { version })) => {
                let Some(mut record) = this.after else { return true };
                record.version = *version;
                if let Some(before) = self.live.get(&this.order).and_then(|o| o.saga.as_ref()) {
                    self.avoid_suspects(this.order, before, &this.step.saga);
                }
                if this.step.settled {
                    self.stray.any |= !this.step.saga.unsure_tunnels().is_empty();
                    self.remove(this.order);
                    self.publish_gone(this.order, &this.step.saga, this.next);
                    self.settled(&record, &this.step.saga);
                } else {
                    if this.step.desired_changed {
                        self.publish(&record, this.next);
                    }
                    self.insert(record);
                }
                self.desk.inner.hub.pulse(Pulse::Order(this.order));
                true
            }
            // nothing was changed here either: the next reports and seconds bring the same events again
            Some(None) | None => false,
            // nor here: what was found for a leg is somebody else's by now
            Some(Some(Outcome::Refused(Conflict::Link { link, free, needed }))) => {
                tracing::info!(order = %this.order, %link, %free, %needed, "a path could not be held");
                false
            }
            Some(Some(outcome)) => {
                tracing::warn!(order = %this.order, ?outcome, "order was changed elsewhere: taking it up again");
                self.reload(this.order).await;
                false
            }
        }
    }

    /// An order as the store has it; one that has ended there ends here.
    pub(super) async fn reload(&mut self, id: OrderId) {
        match self.desk.inner.store.order(id).await {
            Ok(Some(record)) if record.saga.is_some() => self.adopt(record),
            Ok(found) => {
                let Some(saga) = self.live.get(&id).and_then(|o| o.saga.clone()) else { return };
                self.remove(id);
                let stamp = self.desk.inner.hub.lock().next_stamp();
                self.publish_gone(id, &saga, stamp);
                if let Some(record) = found {
                    self.settled(&record, &saga);
                }
                self.desk.inner.hub.pulse(Pulse::Order(id));
            }
            Err(error) => tracing::warn!(%error, order = %id, "order could not be read"),
        }
    }

    /// What is stored of a step from the saga `before`.
    pub(super) fn change(
        &self,
        record: &OrderRecord,
        step: &Step,
        attention: Option<String>,
        now: Timestamp,
        before: &Saga,
    ) -> (OrderChange, OrderRecord) {
        let saga = &step.saga;
        let mut after = OrderRecord {
            phase: Some(saga.phase),
            saga: Some(saga.clone()),
            attention,
            updated: now,
            ..record.clone()
        };
        if saga.goal == rhumb_provision::Goal::Cancel {
            after.state = rhumb_model::OrderState::Cancelling;
        }
        let mut events: Vec<NewEvent> = step
            .notes
            .iter()
            .map(|n| NewEvent {
                kind: n.kind.to_owned(),
                phase: Some(n.phase),
                message: n.message.clone(),
                detail: serde_json::json!({ "generation": saga.generation }),
            })
            .collect();
        if after.attention != record.attention {
            events.extend(outcome::told(after.attention.as_deref(), saga));
        }
        let mut change = OrderChange {
            state: Some(after.state),
            phase: Some(after.phase),
            attention: Some(after.attention.clone()),
            saga: Some(after.saga.clone()),
            ..OrderChange::nothing(record.id, record.version, now)
        };
        if let Some(plan) = record.plan.as_ref().filter(|_| before.ways() != saga.ways()) {
            let carried = carried_plan(plan, saga, &self.latencies(), &self.desk.inner.base);
            let plan = carried.as_ref().unwrap_or(plan);
            if before.holds() != saga.holds() {
                change.rehold = Some(link_wants(&after, plan, saga, now));
            }
            if let Some(plan) = carried {
                (change.cost, after.cost) = (Some(Some(plan.cost)), Some(plan.cost));
                (change.plan, after.plan) = (Some(Some(plan.clone())), Some(plan));
            }
        }
        change.free_tunnels = saga.freed_tunnels(before);
        if step.settled {
            self.settle(&mut after, saga, &mut change, &mut events);
        }
        change.events = events;
        (change, after)
    }
}
