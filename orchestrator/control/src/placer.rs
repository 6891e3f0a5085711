//! The placing loop: decides on every order that waits, holds what was decided, begins its saga.

use crate::{
    desk::Desk,
    error::{DeskError, over_quota},
    hub::Pulse,
    judgement::{Judgement, Question, same_kinds},
    live_view::Sight,
    metrics as names,
    sagas::Mail,
};
use rhumb_model::{OrderId, OrderState, Reason, SiteName};
use rhumb_store::{Conflict, Intent, NewEvent, OrderChange, OrderRecord, Picture, Store};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};
use tracing::Instrument;

/// A decision that lost a race is made anew on a fresh view at most this often in a row.
const TRIES: usize = 8;
/// Without a reason to look, waiting orders are looked at this often: figures and price windows change by themselves.
const IDLE: Duration = Duration::from_secs(3);
/// An order that could not be decided on or begun because of a fault in it is given up after so many rounds.
const FAULTS: u32 = 3;
/// An order that was acknowledged this short a time ago is decided on as of its own instant.
const FRESH: jiff::SignedDuration = jiff::SignedDuration::from_secs(5);
/// Figures in an order's reasons are written anew this often; what changes of the reasons themselves, at once.
const FIGURES: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);

pub(crate) fn spawn<S: Store>(desk: &Desk<S>) {
    desk.keep_running("placer", run);
}

async fn run<S: Store>(desk: Desk<S>) {
    let mut faults = BTreeMap::new();
    let mut all = true;
    let mut looked = Instant::now();
    loop {
        let begun = Instant::now();
        if all {
            looked = begun;
        }
        if let Err(error) = desk.place_waiting(all, &mut faults).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "waiting orders could not be looked at");
        }
        metrics::histogram!(names::ROUND_SECONDS).record(begun.elapsed().as_secs_f64());
        all = tokio::select! {
            () = desk.inner.stop.cancelled() => return,
            // many new orders must not keep the others from their turn
            all = desk.inner.hub.woken() => all || looked.elapsed() >= IDLE,
            () = tokio::time::sleep(IDLE.saturating_sub(looked.elapsed())) => true,
        };
    }
}

impl<S: Store> Desk<S> {
    /// Highest priority first, then the oldest. `all`: also those that had to wait before.
    async fn place_waiting(&self, all: bool, faults: &mut BTreeMap<OrderId, u32>) -> Result<(), DeskError> {
        let youngest = self.roll().youngest();
        let Picture { orders, holdings, nodes, points, .. } = self.inner.store.picture().await?;
        self.roll().replace_orders(&orders, youngest);
        count(&orders);
        let ids: BTreeSet<OrderId> = orders.iter().map(|o| o.id).collect();
        let mut sight = Some(Sight::new(&holdings, nodes, points, &orders));
        faults.retain(|id, _| ids.contains(id));
        let (mut waiting, mut reserved, mut begun) = (Vec::new(), Vec::new(), Vec::new());
        for order in orders {
            match order.state {
                _ if order.saga.is_some() => begun.push(order),
                OrderState::Acknowledged => waiting.push(order),
                OrderState::Pending if all && !self.is_paused(&order) => waiting.push(order),
                // held for later, or a stop came between the reservation and the saga's first record
                OrderState::Held | OrderState::InProgress => reserved.push(order),
                _ => {}
            }
        }
        // a saga whose first record was stored while its answer was lost is taken up here
        self.inner.mail.send(Mail::Known(begun)).await.map_err(|_| DeskError::Stopping)?;
        for order in reserved {
            let (id, span) = (order.id, span(&order));
            let done = self.begin_if_due(order, &holdings).instrument(span).await;
            self.mind(id, done, faults).await;
        }
        waiting.sort_by_key(|o| (std::cmp::Reverse(o.document.terms.priority.unwrap_or(50)), o.id));
        for order in waiting {
            if self.inner.stop.is_cancelled() {
                return Ok(());
            }
            let (id, span) = (order.id, span(&order));
            let done = self.place_one(order, &mut sight).instrument(span).await;
            self.mind(id, done, faults).await;
        }
        Ok(())
    }

    /// What went wrong with one order concerns that order alone; a fault in it is not tried for ever.
    async fn mind(&self, id: OrderId, done: Result<(), DeskError>, faults: &mut BTreeMap<OrderId, u32>) {
        let why = match done {
            Ok(()) => {
                faults.remove(&id);
                return;
            }
            Err(DeskError::Stopping) => return,
            Err(DeskError::Internal(why)) => why,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(order = %id, error, "order could not be placed: it is tried again");
                return;
            }
        };
        let count = faults.entry(id).or_default();
        *count += 1;
        tracing::error!(order = %id, why, times = *count, "order cannot be placed because of a fault");
        if *count < FAULTS {
            return;
        }
        if let Err(error) = self.give_up(id, &why).await {
            tracing::warn!(order = %id, error = &error as &dyn std::error::Error, "order could not be given up");
        }
    }

    /// An order without a saga that is at fault fails, and holds nothing.
    async fn give_up(&self, id: OrderId, why: &str) -> Result<(), DeskError> {
        let Some(order) = self.inner.store.order(id).await? else { return Ok(()) };
        if order.saga.is_some() || order.state.is_final() {
            return Ok(());
        }
        let message = format!("given up after {FAULTS} attempts: {why}; the orchestrator's log says more");
        let change = OrderChange {
            state: Some(OrderState::Failed),
            phase: Some(None),
            attention: Some(Some(message.clone())),
            events: vec![state_event(OrderState::Failed, message)],
            release: (order.generation > 0).then_some(order.generation).into_iter().collect(),
            ..OrderChange::nothing(id, order.version, self.now())
        };
        self.inner.store.commit(vec![Intent::Change(Box::new(change))]).await?;
        self.avoid().remove(&id);
        metrics::counter!(names::ORDERS_ENDED, "state" => OrderState::Failed.as_str()).increment(1);
        self.inner.hub.wake_placer_for_all();
        self.inner.hub.pulse(Pulse::Order(id));
        Ok(())
    }

    async fn place_one(&self, mut order: OrderRecord, sight: &mut Option<Sight>) -> Result<(), DeskError> {
        for attempt in 0..TRIES {
            let now = self.now();
            // the first decision is made as of the order's own instant, later ones as of now
            let fresh =
                attempt == 0 && order.state == OrderState::Acknowledged && now.duration_since(order.created) < FRESH;
            let submit = if fresh { order.created } else { now };
            let seen = match sight.take() {
                Some(seen) if !seen.is_old() => seen,
                _ => self.sight().await?,
            };
            let question = Question {
                order: order.document.clone(),
                view: self.view_on(&seen, submit, &self.avoided(&order)),
                submit,
                may_reject: order.generation == 0,
                known: (order.state == OrderState::Pending).then(|| order.reasons.clone()),
                // figures that move are no news: they are written anew now and then
                refresh: now.duration_since(order.updated) >= FIGURES,
            };
            let judgement = self.judge(question).await?;
            let Ok(plan) = &judgement.decision.outcome else {
                *sight = Some(seen);
                return self.wait_or_reject(&order, judgement).await;
            };
            let Some(record) = judgement.record else {
                return Err(DeskError::Internal("a plan came without its record".into()));
            };
            // whatever comes of it, what was seen is no longer what is
            match self.reserve(&order, plan.clone(), record).await? {
                Ok(()) => return Ok(()),
                Err(Conflict::Version(..) | Conflict::Final(_)) => match self.inner.store.order(order.id).await? {
                    Some(now) if matches!(now.state, OrderState::Acknowledged | OrderState::Pending) => order = now,
                    _ => return Ok(()),
                },
                Err(Conflict::Quota { kind, needed_milli, free_milli }) => {
                    return self.wait_for_quota(&order, over_quota(kind, needed_milli, free_milli)).await;
                }
                Err(conflict) => {
                    metrics::counter!(names::PLACEMENT_CONFLICTS).increment(1);
                    tracing::debug!(%conflict, "a decision lost a race: deciding again");
                }
            }
        }
        tracing::warn!("an order lost every race: it waits for the next round");
        Ok(())
    }

    /// It fits, and its tenant may not have it now.
    async fn wait_for_quota(&self, order: &OrderRecord, reason: Reason) -> Result<(), DeskError> {
        if order.state == OrderState::Pending && order.reasons == std::slice::from_ref(&reason) {
            return Ok(());
        }
        let message = format!("order waits: {} (needed {}, free {})", reason.reason, reason.needed, reason.free);
        let change = OrderChange {
            state: Some(OrderState::Pending),
            reasons: Some(vec![reason]),
            events: vec![state_event(OrderState::Pending, message)],
            ..OrderChange::nothing(order.id, order.version, self.now())
        };
        self.inner.store.commit(vec![Intent::Change(Box::new(change))]).await?;
        self.inner.hub.pulse(Pulse::Order(order.id));
        Ok(())
    }

    async fn wait_or_reject(&self, order: &OrderRecord, judgement: Judgement) -> Result<(), DeskError> {
        let Judgement { decision, never, record: Some(record) } = judgement else { return Ok(()) };
        let reasons = decision.outcome.err().unwrap_or_default();
        let state = if never { OrderState::Rejected } else { OrderState::Pending };
        let same = order.state == state && same_kinds(&order.reasons, &reasons);
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
            decision: Some(record),
            events: (!same).then(|| state_event(state, message)).into_iter().collect(),
            ..OrderChange::nothing(order.id, order.version, self.now())
        };
        // a refused change means that somebody else was quicker, a cancel for example
        self.inner.store.commit(vec![Intent::Change(Box::new(change))]).await?;
        if never {
            metrics::counter!(names::ORDERS_ENDED, "state" => state.as_str()).increment(1);
        }
        self.inner.hub.pulse(Pulse::Order(order.id));
        Ok(())
    }

    fn avoided(&self, order: &OrderRecord) -> BTreeSet<SiteName> {
        let now = self.now();
        let avoid = self.avoid();
        let sites = avoid.get(&order.id).into_iter().flat_map(|a| &a.sites);
        sites.filter(|(_, until)| **until > now).map(|(site, _)| site.clone()).collect()
    }

    fn is_paused(&self, order: &OrderRecord) -> bool {
        let now = self.now();
        self.avoid().get(&order.id).and_then(|a| a.not_before).is_some_and(|at| at > now)
    }
}

/// All that is logged within belongs to the order.
pub(crate) fn span(order: &OrderRecord) -> tracing::Span {
    tracing::info_span!("order", order = %order.id, traceparent = order.traceparent.as_deref())
}

pub(crate) fn state_event(state: OrderState, message: String) -> NewEvent {
    let detail = serde_json::json!({ "state": state.as_str() });
    NewEvent { kind: "state".into(), phase: None, message, detail }
}

fn count(orders: &[OrderRecord]) {
    for state in OrderState::ALL.iter().filter(|s| !s.is_final()) {
        let count = orders.iter().filter(|o| o.state == *state).count();
        metrics::gauge!(names::ORDERS_LIVE, "state" => state.as_str()).set(count as f64);
    }
}
