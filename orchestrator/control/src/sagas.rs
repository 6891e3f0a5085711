//! The task through which every order with a saga changes: events in, commits and desired states out.

use crate::{desk::Desk, error::DeskError, hub::Pulse};
use rhumb_model::{OrderId, OrderState, Phase, PointName, SiteName, order::Failover};
use rhumb_naas::Overlay;
use rhumb_provision::{
    Event, Goal, Saga, Stamp, Step, bill, desired,
    step::{PhaseLimit, step},
};
use rhumb_store::{Intent, NewEvent, OrderChange, OrderRecord, Outcome, Store, UsageRecord};
use rhumb_wire::Report;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot};

/// What the task is asked.
#[derive(Debug)]
pub(crate) enum Mail {
    /// An order was reserved: its saga begins (already stored).
    Begun(Box<OrderRecord>),
    Report(Arc<Report>),
    Cancel(OrderId, oneshot::Sender<Result<OrderRecord, DeskError>>),
    /// A site has been silent for this long.
    Silent(PointName, Duration),
    SiteLost(PointName),
    Tick,
}

#[derive(Debug)]
pub(crate) struct Sagas<S> {
    desk: Desk<S>,
    live: BTreeMap<OrderId, OrderRecord>,
}

/// A step that waits for its commit.
struct Pending {
    order: OrderId,
    step: Step,
    next: Stamp,
    intent: Option<usize>,
    after: Option<OrderRecord>,
}

impl<S: Store> Sagas<S> {
    /// From the store: desired states are those of the sagas found there.
    pub(crate) fn take_up(desk: Desk<S>, orders: Vec<OrderRecord>) -> Self {
        let live: BTreeMap<_, _> = orders.into_iter().filter(|o| o.saga.is_some()).map(|o| (o.id, o)).collect();
        let sagas = Self { desk, live };
        let stamp = sagas.desk.inner.hub.lock().stamp;
        for record in sagas.live.values() {
            sagas.publish(record, stamp);
        }
        sagas
    }

    pub(crate) fn spawn(mut self, mut inbox: mpsc::Receiver<Mail>) {
        let stop = self.desk.inner.stop.clone();
        self.desk.inner.tasks.clone().spawn(async move {
            let mut batch = Vec::new();
            loop {
                let read = tokio::select! {
                    () = stop.cancelled() => return,
                    read = inbox.recv_many(&mut batch, 256) => read,
                };
                if read == 0 {
                    return;
                }
                for mail in batch.drain(..) {
                    self.handle(mail).await;
                }
            }
        });
    }

    async fn handle(&mut self, mail: Mail) {
        match mail {
            Mail::Begun(record) => {
                let stamp = self.desk.inner.hub.lock().next_stamp();
                let mut record = *record;
                if let Some(saga) = record.saga.as_mut() {
                    saga.barrier = stamp;
                }
                self.publish(&record, stamp);
                self.live.insert(record.id, record);
            }
            Mail::Report(report) => {
                let events = self.events_of(&report);
                self.run(events).await;
            }
            Mail::Silent(site, age) => {
                let margin = self.desk.inner.config.times.lease_margin.micros();
                let over = |o: &OrderRecord| match o.document.terms.failover {
                    Failover::Lease(lease) => age > Duration::from_micros(lease.micros() + margin),
                    Failover::None => false,
                };
                let events = self.at(&site, over, |site| Event::LeaseEnded { site });
                self.run(events).await;
            }
            Mail::SiteLost(site) => {
                let events = self.at(&site, |_| true, |site| Event::SiteLost { site });
                self.run(events).await;
            }
            Mail::Tick => {
                let limit = jiff::SignedDuration::from_micros(self.desk.inner.config.times.phase_limit.micros() as i64);
                let limit = PhaseLimit { step: limit, staging: limit };
                let events = self.live.keys().map(|id| (*id, Event::Tick { limit })).collect();
                self.run(events).await;
            }
            Mail::Cancel(id, answer) => {
                self.run(vec![(id, Event::Cancel)]).await;
                let result = match self.desk.inner.store.order(id).await {
                    Ok(Some(order)) => Ok(order),
                    Ok(None) => Err(DeskError::NotFound { kind: "order", id: id.to_string() }),
                    Err(e) => Err(e.into()),
                };
                // who asked may be gone
                let _ = answer.send(result);
            }
        }
    }

    fn at(
        &self,
        site: &SiteName,
        concerned: impl Fn(&OrderRecord) -> bool,
        event: impl Fn(SiteName) -> Event,
    ) -> Vec<(OrderId, Event)> {
        let here = |o: &&OrderRecord| o.saga.as_ref().is_some_and(|s| s.points().contains(site)) && concerned(o);
        self.live.values().filter(here).map(|o| (o.id, event(site.clone()))).collect()
    }

    fn events_of(&self, report: &Report) -> Vec<(OrderId, Event)> {
        let seen = Stamp { epoch: report.epoch, generation: report.generation };
        let concerned = |o: &&OrderRecord| o.saga.as_ref().is_some_and(|s| s.points().contains(&report.point));
        self.live
            .values()
            .filter(concerned)
            .map(|o| {
                let generation = o.saga.as_ref().map_or(0, |s| s.generation);
                let mine = |order: OrderId, g: u64| order == o.id && g == generation;
                let event = Event::Report {
                    point: report.point.clone(),
                    seen,
                    assignments: report
                        .assignments
                        .iter()
                        .filter(|a| mine(a.key.order, a.key.generation))
                        .cloned()
                        .collect(),
                    routes: report.routes.iter().filter(|r| mine(r.key.order, r.key.generation)).cloned().collect(),
                };
                (o.id, event)
            })
            .collect()
    }

    /// Steps every order named, stores what changed in one commit, then lets the points know.
    async fn run(&mut self, events: Vec<(OrderId, Event)>) {
        let now = self.desk.now();
        let mut next = self.desk.inner.hub.lock().next_stamp();
        let mut intents = Vec::new();
        let mut pending = Vec::new();
        for (id, event) in events {
            let Some(record) = self.live.get(&id) else { continue };
            let Some(saga) = record.saga.as_ref() else { continue };
            let cancel = event == Event::Cancel;
            let outcome = step(saga, event, now, next);
            if !outcome.changed {
                continue;
            }
            let weighty = outcome.desired_changed || !outcome.notes.is_empty() || outcome.settled || cancel;
            let mut this = Pending { order: id, next, intent: None, after: None, step: outcome };
            if weighty || differs(saga, &this.step.saga) {
                let (change, after) = self.change(record, &this.step, now);
                this.intent = Some(intents.len());
                this.after = Some(after);
                intents.push(Intent::Change(Box::new(change)));
            }
            if this.step.desired_changed {
                next.generation += 1;
            }
            pending.push(this);
        }
        let outcomes = if intents.is_empty() {
            Vec::new()
        } else {
            match self.desk.inner.store.commit(intents).await {
                Ok(outcomes) => outcomes,
                Err(error) => {
                    // nothing was changed here either: the next reports bring the same events again
                    tracing::error!(%error, "steps of orders could not be stored");
                    return;
                }
            }
        };
        for this in pending {
            self.apply(this, &outcomes).await;
        }
    }

    async fn apply(&mut self, this: Pending, outcomes: &[Outcome]) {
        let Some(index) = this.intent else {
            if let Some(record) = self.live.get_mut(&this.order) {
                record.saga = Some(this.step.saga);
            }
            return;
        };
        if let Some(Outcome::Changed { version }) = outcomes.get(index) {
            let Some(mut record) = this.after else { return };
            record.version = *version;
            if this.step.settled {
                self.live.remove(&this.order);
                self.publish_gone(&record, &this.step.saga, this.next);
                self.desk.inner.hub.place.notify_one();
            } else {
                if this.step.desired_changed {
                    self.publish(&record, this.next);
                }
                self.live.insert(this.order, record);
            }
            self.desk.inner.hub.pulse(Pulse::Order(this.order));
            return;
        }
        tracing::warn!(order = %this.order, outcome = ?outcomes.get(index), "order was changed elsewhere: taking it up again");
        match self.desk.inner.store.order(this.order).await {
            Ok(Some(record)) if record.saga.is_some() => {
                self.live.insert(this.order, record);
            }
            Ok(_) => {
                self.live.remove(&this.order);
            }
            Err(error) => tracing::error!(%error, order = %this.order, "order could not be read"),
        }
    }

    fn change(&self, record: &OrderRecord, outcome: &Step, now: jiff::Timestamp) -> (OrderChange, OrderRecord) {
        let mut after = record.clone();
        let saga = &outcome.saga;
        after.updated = now;
        after.phase = Some(saga.phase);
        after.saga = Some(saga.clone());
        let mut events: Vec<NewEvent> = outcome
            .notes
            .iter()
            .map(|n| NewEvent {
                kind: n.kind.to_owned(),
                phase: Some(n.phase),
                message: n.message.clone(),
                detail: serde_json::json!({ "generation": saga.generation }),
            })
            .collect();
        if saga.goal == Goal::Cancel {
            after.state = OrderState::Cancelling;
        }
        let mut usage = Vec::new();
        let mut release = Vec::new();
        if outcome.settled {
            usage = bill(&record.document, saga, &self.desk.inner.base)
                .into_iter()
                .map(|i| UsageRecord {
                    kind: i.kind.to_owned(),
                    subject: i.subject,
                    quantity_micro: i.quantity_micro,
                    cost_micros: i.cost_micros,
                    generation: saga.generation,
                    item: i.item,
                })
                .collect();
            release.push(saga.generation);
            self.settle(&mut after, saga, &mut events);
        }
        let change = OrderChange {
            id: record.id,
            version: record.version,
            at: now,
            state: Some(after.state),
            phase: Some(after.phase),
            attention: Some(after.attention.clone()),
            reasons: None,
            plan: None,
            cost: None,
            saga: Some(after.saga.clone()),
            generation: None,
            decision: None,
            events,
            usage,
            release,
        };
        (change, after)
    }

    /// What an order becomes once its generation is torn down and billed.
    fn settle(&self, after: &mut OrderRecord, saga: &Saga, events: &mut Vec<NewEvent>) {
        after.saga = None;
        let (state, message) = match saga.goal {
            Goal::Complete => (OrderState::Completed, "order is completed and billed".to_owned()),
            Goal::Cancel => (OrderState::Cancelled, "order is cancelled and billed for what it used".to_owned()),
            Goal::Fail => (OrderState::Failed, saga.cause.clone()),
            Goal::Replace if saga.generation >= self.desk.inner.config.limits.attempts => {
                (OrderState::Failed, format!("given up after {} attempts: {}", saga.generation, saga.cause))
            }
            Goal::Replace => (OrderState::Pending, format!("placing again: {}", saga.cause)),
        };
        after.state = state;
        after.phase = match state {
            OrderState::Pending => None,
            _ => Some(Phase::Settling),
        };
        after.attention = (state == OrderState::Failed).then(|| message.clone());
        if state == OrderState::Pending {
            let until =
                self.desk.now() + jiff::SignedDuration::from_micros(self.desk.inner.config.times.avoid.micros() as i64);
            let mut avoid = self.desk.inner.avoid.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let sites = avoid.entry(after.id).or_default();
            sites.extend(saga.dead.iter().map(|s| (s.clone(), until)));
            for r in saga.replicas.iter().filter(|r| r.seen == Some(rhumb_wire::AssignmentState::Refused)) {
                sites.insert(r.site.clone(), until);
            }
        }
        events.push(NewEvent {
            kind: "state".into(),
            phase: after.phase,
            message,
            detail: serde_json::json!({ "state": state.as_str(), "generation": saga.generation }),
        });
    }

    /// Makes the saga's desired states those of its points.
    fn publish(&self, record: &OrderRecord, stamp: Stamp) {
        let (Some(saga), Some(plan)) = (record.saga.as_ref(), record.plan.as_ref()) else { return };
        let secret = &self.desk.inner.secret;
        let shares = desired(&Overlay, record.id, &record.document, plan, saga, record.traceparent.as_deref(), |leg| {
            secret.leg(record.id, saga.generation, leg)
        });
        self.desk.inner.hub.lock().set_share(record.id, shares, stamp, saga.points());
    }

    fn publish_gone(&self, record: &OrderRecord, saga: &Saga, stamp: Stamp) {
        self.desk.inner.hub.lock().set_share(record.id, BTreeMap::new(), stamp, saga.points());
    }
}

/// More than progress in bytes and seconds, which the next reports bring again after a restart.
fn differs(before: &Saga, after: &Saga) -> bool {
    let plain = |s: &Saga| {
        let mut s = s.clone();
        s.replicas.iter_mut().for_each(|r| r.ran_us = 0);
        s.legs.iter_mut().for_each(|l| l.bytes.clear());
        s
    };
    plain(before) != plain(after)
}

/// How often time passes for the sagas.
pub(crate) const TICK: Duration = Duration::from_secs(1);
