//! What comes of a saga: what an order becomes once it is torn down, what a person should look at meanwhile, and which
//! sites are not tried again at once.

use super::Sagas;
use crate::metrics as names;
use jiff::{SignedDuration, Timestamp};
use rhumb_model::{OrderId, OrderState, Phase, PointName, SiteName, order::Failover};
use rhumb_provision::{Goal, LegState, ReplicaState, Saga, bill};
use rhumb_store::{NewEvent, OrderChange, OrderRecord, Store, UsageRecord};
use rhumb_wire::{AssignmentState, RouteEndState};
use std::collections::BTreeSet;

/// A site is avoided at most this many times as long as at first.
const MOST: u32 = 16;
/// First pause of an order that no site can be blamed for.
const PAUSE: SignedDuration = SignedDuration::from_secs(2);

impl<S: Store> Sagas<S> {
    /// What an order becomes once its generation is torn down and billed.
    pub(super) fn settle(
        &self,
        after: &mut OrderRecord,
        saga: &Saga,
        change: &mut OrderChange,
        events: &mut Vec<NewEvent>,
    ) {
        let (state, message) = match saga.goal {
            Goal::Complete => (OrderState::Completed, "order is completed and billed".to_owned()),
            Goal::Cancel => (OrderState::Cancelled, "order is cancelled and billed for what it used".to_owned()),
            Goal::Fail => (OrderState::Failed, saga.cause.clone()),
            Goal::Replace if saga.generation >= self.desk.inner.config.limits.attempts => {
                (OrderState::Failed, format!("given up after {} attempts: {}", saga.generation, saga.cause))
            }
            Goal::Replace => (OrderState::Pending, format!("placing again: {}", saga.cause)),
        };
        let again = state == OrderState::Pending;
        after.saga = None;
        after.state = state;
        after.phase = (!again).then_some(Phase::Settling);
        after.attention = (state == OrderState::Failed).then(|| message.clone());
        events.push(NewEvent {
            kind: "state".into(),
            phase: after.phase,
            message,
            detail: serde_json::json!({ "state": state.as_str(), "generation": saga.generation }),
        });
        change.state = Some(after.state);
        change.phase = Some(after.phase);
        change.attention = Some(after.attention.clone());
        change.saga = Some(None);
        if again {
            after.checkpoints = saga.checkpoints();
            change.checkpoints = Some(after.checkpoints.clone());
            // what it had is no longer where it is
            (after.plan, after.cost) = (None, None);
            (change.plan, change.cost) = (Some(None), Some(None));
        }
        change.release = vec![saga.generation];
        change.keep_tunnels = saga.unsure_tunnels();
        change.usage = bill(&after.document, saga, &self.desk.inner.base)
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
    }

    /// After an order's settling is stored.
    pub(super) fn settled(&self, record: &OrderRecord, saga: &Saga) {
        if record.state.is_final() {
            self.desk.avoid().remove(&record.id);
            self.desk.roll().drop_order(record.id);
            metrics::counter!(names::ORDERS_ENDED, "state" => record.state.as_str()).increment(1);
        } else {
            metrics::counter!(names::REPLACEMENTS).increment(1);
            tracing::info!(order = %record.id, generation = saga.generation, cause = saga.cause, "placing again");
        }
        self.desk.inner.hub.wake_placer_for_all();
    }

    /// Sites that kept a generation from going on are not tried again for this order at once; where it is no site's fault
    /// (a route that broke, for example) the order itself waits a little.
    pub(super) fn avoid_suspects(&self, id: OrderId, before: &Saga, after: &Saga) {
        let suspects = suspects(before, after);
        let gives_up = before.goal != Goal::Replace && after.goal == Goal::Replace;
        if suspects.is_empty() && !gives_up {
            return;
        }
        let doublings = u32::try_from(after.generation.saturating_sub(1)).unwrap_or(u32::MAX).min(MOST.ilog2());
        let within = |first: SignedDuration| {
            self.desk.now().checked_add(first.saturating_mul(1 << doublings)).unwrap_or(Timestamp::MAX)
        };
        let mut avoid = self.desk.avoid();
        let avoid = avoid.entry(id).or_default();
        if suspects.is_empty() {
            avoid.not_before = Some(within(PAUSE));
        }
        let first_us = i64::try_from(self.desk.inner.config.times.avoid.micros()).unwrap_or(i64::MAX);
        let until = within(SignedDuration::from_micros(first_us));
        avoid.sites.extend(suspects.into_iter().map(|site| (site, until)));
    }

    /// What a person should look at while the order goes on.
    pub(super) fn attention(&self, record: &OrderRecord, saga: &Saga, now: Timestamp) -> Option<String> {
        let grace = record.document.terms.checkpoint.as_ref().map_or(0, |c| c.grace.micros());
        let grace = SignedDuration::from_micros(i64::try_from(grace).unwrap_or(i64::MAX));
        let limit = self.phase_limit().step.saturating_add(grace);
        let open = |points: BTreeSet<PointName>| -> Vec<String> {
            let open = points.difference(&saga.confirmed).filter(|p| !saga.dead.contains(*p));
            open.map(ToString::to_string).collect()
        };
        let waits = match saga.phase {
            Phase::Stopping => open(saga.sites()),
            Phase::Unrouting | Phase::Releasing => open(saga.points()),
            _ => Vec::new(),
        };
        if !waits.is_empty() && now.duration_since(saga.phase_since) > limit {
            return Some(format!(
                "{} waits for {} to say that nothing of the order is left there: until then it holds what it held",
                saga.phase,
                waits.join(", ")
            ));
        }
        if let Some(full) = self.late.attention(record.id) {
            return Some(full.to_owned());
        }
        if let Some(told) = saga.route_attention(now) {
            return Some(told);
        }
        let runs = saga.ran_from.is_some() && saga.phase < Phase::Stopping;
        let silent: Vec<String> = saga.sites().intersection(&self.lost).map(ToString::to_string).collect();
        if !runs || silent.is_empty() {
            return None;
        }
        Some(match record.document.terms.failover {
            Failover::None => format!(
                "{} is not heard of: the order may run on there, and is placed nowhere else before it is heard of again",
                silent.join(", ")
            ),
            Failover::Lease(lease) => {
                format!(
                    "{} is not heard of: the order is placed again once its lease of {lease} has ended",
                    silent.join(", ")
                )
            }
        })
    }
}

/// An event that says so when what a person should look at changes.
pub(super) fn told(attention: Option<&str>, saga: &Saga) -> Option<NewEvent> {
    let message = attention?.to_owned();
    let detail = serde_json::json!({ "generation": saga.generation });
    Some(NewEvent { kind: "attention".into(), phase: Some(saga.phase), message, detail })
}

/// Which sites a generation that is given up by this step stumbled over.
fn suspects(before: &Saga, after: &Saga) -> BTreeSet<SiteName> {
    use AssignmentState as A;
    let mut found: BTreeSet<SiteName> = after.dead.difference(&before.dead).cloned().collect();
    if before.goal != Goal::Complete || after.goal != Goal::Replace {
        return found;
    }
    let fell = |r: &&ReplicaState| matches!(r.seen, Some(A::Refused | A::Lost | A::Stopped));
    found.extend(after.replicas.iter().filter(fell).map(|r| r.site.clone()));
    let failed = |l: &LegState| l.carry().seen.values().any(|s| *s == RouteEndState::Failed);
    let broken = after.legs.iter().any(|l| failed(l) || l.trouble.is_some());
    if found.is_empty() && !broken {
        // the phase lasted too long: it waited for these
        let behind = |r: &&ReplicaState| match before.phase {
            Phase::Holding => r.seen.is_none(),
            Phase::Staging => r.seen != Some(A::Staged),
            Phase::Starting => !matches!(r.seen, Some(A::Running | A::Exited)),
            _ => false,
        };
        found.extend(before.replicas.iter().filter(behind).map(|r| r.site.clone()));
    }
    found
}

/// More than progress in bytes and seconds, which the next reports bring again after a restart.
pub(super) fn differs(before: &Saga, after: &Saga) -> bool {
    let plain = |s: &Saga| {
        let mut s = s.clone();
        s.replicas.iter_mut().for_each(|r| r.ran_us = 0);
        for path in s.legs.iter_mut().flat_map(|l| &mut l.paths) {
            path.bytes.clear();
            (path.sight, path.figures) = (None, None);
        }
        s
    };
    plain(before) != plain(after)
}
