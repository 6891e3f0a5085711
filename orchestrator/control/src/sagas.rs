//! The task through which every order with a saga changes: events in, commits and desired states out.

mod amend;
mod carriage;
mod late;
mod outcome;
mod routes;
mod run;

use crate::{desk::Desk, error::DeskError, hub::Targets, metrics as names};
use futures::FutureExt as _;
use late::Late;
use rhumb_model::{Order, OrderId, PointName, SiteName, order::Failover};
use rhumb_naas::AsDecided;
use rhumb_provision::{Event, Goal, Saga, Stamp, desired, step::PhaseLimit};
use rhumb_store::{OrderRecord, Store};
use rhumb_wire::{AssignmentStatus, Report, RouteStatus};
use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// How often time passes for the sagas.
pub(crate) const TICK: Duration = Duration::from_secs(1);
/// A cancel whose order is changed elsewhere at the same time is made anew at most this often.
const TRIES: usize = 4;

/// What the task is asked.
#[derive(Debug)]
pub(crate) enum Mail {
    /// Orders that have a saga in the store. Those that are known here as they are, or later, are left alone.
    Known(Vec<OrderRecord>),
    Report(Arc<Report>),
    Cancel {
        id: OrderId,
        /// The version that the order must have.
        version: Option<i64>,
        answer: oneshot::Sender<Result<OrderRecord, DeskError>>,
    },
    /// Other rates or bounds for flows of what is live.
    Amend {
        id: OrderId,
        version: Option<i64>,
        document: Box<Order>,
        answer: oneshot::Sender<Result<OrderRecord, DeskError>>,
    },
    /// A site has been silent for this long.
    Silent(PointName, Duration),
    SiteLost(PointName),
    /// Points are to probe something else. This task alone gives out stamps.
    Targets(BTreeMap<PointName, Targets>),
    Tick,
}

#[derive(Debug)]
pub(crate) struct Sagas<S> {
    desk: Desk<S>,
    live: BTreeMap<OrderId, OrderRecord>,
    /// Which orders concern a point.
    at: BTreeMap<PointName, BTreeSet<OrderId>>,
    /// Points that are silent for too long.
    lost: BTreeSet<PointName>,
    late: Late,
    stray: carriage::Stray,
}

impl<S: Store> Sagas<S> {
    /// From the store: desired states are those of the sagas found there.
    pub(crate) fn take_up(desk: Desk<S>, orders: Vec<OrderRecord>) -> Self {
        let (live, at, lost) = Default::default();
        let mut sagas = Self { desk, live, at, lost, late: Late::default(), stray: carriage::Stray::default() };
        let stamp = sagas.desk.inner.hub.lock().stamp;
        for record in orders.into_iter().filter(|o| o.saga.is_some()) {
            sagas.publish(&record, stamp);
            sagas.insert(record);
        }
        sagas
    }

    pub(crate) fn spawn(mut self, mut inbox: mpsc::Receiver<Mail>) {
        let stop = self.desk.inner.stop.clone();
        self.desk.inner.tasks.clone().spawn(async move {
            // one that panics is begun anew from what is stored
            while AssertUnwindSafe(self.serve(&mut inbox)).catch_unwind().await.is_err() {
                metrics::counter!(names::FAULTS, "in" => "sagas").increment(1);
                tracing::error!("the task of the sagas failed: it is begun anew");
                loop {
                    match self.desk.inner.store.live_orders().await {
                        Ok(orders) => {
                            (self.live, self.at) = Default::default();
                            self.know(orders);
                            break;
                        }
                        Err(error) => tracing::warn!(%error, "orders could not be read"),
                    }
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = tokio::time::sleep(TICK) => {}
                    }
                }
            }
        });
    }

    async fn serve(&mut self, inbox: &mut mpsc::Receiver<Mail>) {
        let stop = self.desk.inner.stop.clone();
        loop {
            let mail = tokio::select! {
                () = stop.cancelled() => return,
                mail = inbox.recv() => mail,
            };
            match mail {
                Some(mail) => self.handle(mail).await,
                None => return,
            }
        }
    }

    async fn handle(&mut self, mail: Mail) {
        match mail {
            Mail::Known(records) => self.know(records),
            Mail::Report(report) => {
                self.lost.remove(&report.point);
                let moved = self.moved_by(&report);
                if !moved.is_empty() {
                    self.run(moved).await;
                }
                let events = self.events_of(&report);
                self.run(events).await;
            }
            Mail::Silent(site, age) => {
                let margin = self.desk.inner.config.times.lease_margin.micros();
                let over = |o: &OrderRecord| match o.document.terms.failover {
                    Failover::Lease(lease) => age > Duration::from_micros(lease.micros() + margin),
                    Failover::None => false,
                };
                let events = self.concerned(&site, over, |site| Event::LeaseEnded { site });
                self.run(events).await;
            }
            Mail::SiteLost(site) => {
                let events = self.concerned(&site, |_| true, |site| Event::SiteLost { site });
                self.lost.insert(site);
                self.run(events).await;
            }
            Mail::Targets(targets) => self.desk.inner.hub.lock().set_targets(targets),
            Mail::Tick => {
                self.hold_longer().await;
                let limit = self.phase_limit();
                let events = self.live.keys().map(|id| (*id, Event::Tick { limit })).collect();
                self.run(events).await;
                self.mind_routes().await;
                self.sweep_tunnels().await;
            }
            Mail::Amend { id, version, document, answer } => {
                let result = self.amend(id, &document, version).await;
                // who asked may be gone
                let _ = answer.send(result);
            }
            Mail::Cancel { id, version, answer } => {
                let result = self.cancel(id, version).await;
                // who asked may be gone
                let _ = answer.send(result);
            }
        }
    }

    fn phase_limit(&self) -> PhaseLimit {
        let limit = jiff::SignedDuration::from_micros(self.desk.inner.config.times.phase_limit.micros() as i64);
        PhaseLimit { step: limit, staging: limit }
    }

    /// Takes up orders that were begun, or changed by a commit whose answer was lost.
    fn know(&mut self, records: Vec<OrderRecord>) {
        for record in records {
            let newer = self.live.get(&record.id).is_none_or(|o| o.version < record.version);
            if newer && record.saga.is_some() {
                self.adopt(record);
            }
        }
    }

    /// An order as the store has it. What its points confirm counts from a desired state that they have not seen yet.
    fn adopt(&mut self, mut record: OrderRecord) {
        let stamp = self.desk.inner.hub.lock().next_stamp();
        if let Some(saga) = record.saga.as_mut() {
            saga.rebase(stamp);
        }
        self.publish(&record, stamp);
        self.insert(record);
    }

    async fn cancel(&mut self, id: OrderId, version: Option<i64>) -> Result<OrderRecord, DeskError> {
        let missing = || DeskError::NotFound { kind: "order", id: id.to_string() };
        for _ in 0..TRIES {
            let found = self.desk.inner.store.order(id).await?.ok_or_else(missing)?;
            if version.is_some_and(|v| v != found.version) {
                return Err(DeskError::Stale);
            }
            let ending = |s: &Saga| matches!(s.goal, Goal::Cancel | Goal::Fail);
            if found.saga.as_ref().is_none_or(ending) {
                return Ok(found);
            }
            // it may have been begun a moment ago, its mail still on the way
            self.know(vec![found]);
            if self.run(vec![(id, Event::Cancel)]).await {
                return self.desk.inner.store.order(id).await?.ok_or_else(missing);
            }
        }
        Err(DeskError::Stale)
    }

    fn concerned(
        &self,
        site: &SiteName,
        concerned: impl Fn(&OrderRecord) -> bool,
        event: impl Fn(SiteName) -> Event,
    ) -> Vec<(OrderId, Event)> {
        self.at_point(site).filter(|o| concerned(o)).map(|o| (o.id, event(site.clone()))).collect()
    }

    fn at_point(&self, point: &PointName) -> impl Iterator<Item = &OrderRecord> {
        self.at.get(point).into_iter().flatten().filter_map(|id| self.live.get(id))
    }

    fn events_of(&self, report: &Report) -> Vec<(OrderId, Event)> {
        let seen = Stamp { epoch: report.epoch, generation: report.generation };
        let mut said: BTreeMap<OrderId, (Vec<AssignmentStatus>, Vec<RouteStatus>)> = BTreeMap::new();
        for a in &report.assignments {
            said.entry(a.key.order).or_default().0.push(a.clone());
        }
        for r in &report.routes {
            said.entry(r.key.order).or_default().1.push(r.clone());
        }
        self.at_point(&report.point)
            .map(|o| {
                let generation = o.saga.as_ref().map_or(0, |s| s.generation);
                let (mut assignments, mut routes) = said.remove(&o.id).unwrap_or_default();
                assignments.retain(|a| a.key.generation == generation);
                routes.retain(|r| r.key.generation == generation);
                (o.id, Event::Report { point: report.point.clone(), seen, assignments, routes })
            })
            .collect()
    }

    fn insert(&mut self, record: OrderRecord) {
        self.remove(record.id);
        for point in record.saga.iter().flat_map(Saga::points) {
            self.at.entry(point).or_default().insert(record.id);
        }
        self.live.insert(record.id, record);
    }

    fn remove(&mut self, id: OrderId) {
        let Some(saga) = self.live.remove(&id).and_then(|o| o.saga) else { return };
        for point in saga.points() {
            if let Some(orders) = self.at.get_mut(&point) {
                orders.remove(&id);
            }
        }
    }

    /// Makes the saga's desired states those of its points.
    fn publish(&self, record: &OrderRecord, stamp: Stamp) {
        let (Some(saga), Some(plan)) = (record.saga.as_ref(), record.plan.as_ref()) else { return };
        let secret = &self.desk.inner.secret;
        let document = self.desk.sized(&record.document);
        let shares = desired(&AsDecided, record.id, &document, plan, saga, record.traceparent.as_deref(), |leg| {
            secret.leg(record.id, saga.generation, leg)
        });
        self.desk.inner.hub.lock().set_share(record.id, shares, stamp, saga.points());
    }

    fn publish_gone(&self, id: OrderId, saga: &Saga, stamp: Stamp) {
        self.desk.inner.hub.lock().set_share(id, BTreeMap::new(), stamp, saga.points());
    }
}
