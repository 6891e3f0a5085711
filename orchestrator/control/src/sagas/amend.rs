//! A live order gets other rates or delay bounds for its flows; its work goes on.

use super::{Sagas, routes};
use crate::{error::DeskError, hub::Pulse};
use rhumb_model::{Bandwidth, Order, OrderId, Phase};
use rhumb_provision::{Event, Goal, LegTerms, PathRole, Present, Saga, Step, Want, step};
use rhumb_store::{Conflict, Intent, NewEvent, OrderRecord, Outcome, Store};

impl<S: Store> Sagas<S> {
    /// Takes the document over if all its flows can have what it says, in place or by way of another path; else nothing
    /// changes, and the error says why.
    pub(super) async fn amend(
        &mut self,
        id: OrderId,
        document: &Order,
        version: Option<i64>,
    ) -> Result<OrderRecord, DeskError> {
        let missing = || DeskError::NotFound { kind: "order", id: id.to_string() };
        let found = self.desk.inner.store.order(id).await?.ok_or_else(missing)?;
        if version.is_some_and(|v| v != found.version) {
            return Err(DeskError::Stale);
        }
        if &found.document == document {
            return Ok(found);
        }
        self.know(vec![found]);
        let record = self.live.get(&id).cloned().ok_or(DeskError::Stale)?;
        let saga = record.saga.as_ref().ok_or(DeskError::Stale)?;
        if saga.goal != Goal::Complete || saga.phase >= Phase::Stopping {
            return Err(DeskError::Conflict(format!("order {id} is being stopped: it takes no other terms")));
        }
        let terms = self.terms(&record, saga, document)?;
        let in_place = self.take_terms(&record, document, &terms, None).await;
        match in_place {
            Err(Refused::Path(why)) => self.move_to_terms(&record, document, terms, &why).await,
            Err(Refused::Other(error)) => Err(error),
            Ok(record) => Ok(record),
        }
    }

    /// What the document asks of each leg that it asks something else of.
    fn terms(&self, record: &OrderRecord, saga: &Saga, document: &Order) -> Result<Vec<LegTerms>, DeskError> {
        let mut plain = document.clone();
        for (flow, before) in plain.flows.iter_mut().zip(&record.document.flows) {
            if flow.rate.is_some() && before.rate.is_some() {
                flow.rate = before.rate;
            }
            flow.max_latency = before.max_latency;
        }
        if plain != record.document {
            let text = format!(
                "order {} is {}: of what runs only the rate and the max_latency of a flow can be amended; cancel it and \
                 order anew for all else",
                record.id, record.state
            );
            return Err(DeskError::Conflict(text));
        }
        let mut terms = Vec::new();
        for leg in &saga.legs {
            let index = leg.flow as usize;
            let (Some(before), Some(flow)) = (record.document.flows.get(index), document.flows.get(index)) else {
                continue;
            };
            let rate = match before.rate.zip(flow.rate) {
                Some((old, new)) => share(leg.rate, old, new),
                None => leg.rate,
            };
            let bound = self.desk.inner.base.path_bound(document, leg.flow);
            if rate != leg.rate || bound != leg.bound {
                terms.push(LegTerms { leg: leg.leg, rate, bound, paths: Present::Follow });
            }
        }
        Ok(terms)
    }

    /// Over other paths, for the legs whose own do not have it.
    async fn move_to_terms(
        &mut self,
        record: &OrderRecord,
        document: &Order,
        mut terms: Vec<LegTerms>,
        why: &str,
    ) -> Result<OrderRecord, DeskError> {
        let Some(saga) = record.saga.as_ref() else { return Err(DeskError::Stale) };
        let refused = |flow, reason: &str| {
            DeskError::Conflict(format!(
                "order {} stays as it is: flow {flow} cannot have this, {why}, and there is no other path: {reason}",
                record.id
            ))
        };
        let mut paths = Vec::new();
        for of in &mut terms {
            let Some(leg) = saga.legs.iter().find(|l| l.leg == of.leg) else { continue };
            if leg.protected || leg.paths.iter().any(|p| matches!(p.role, PathRole::Next | PathRole::Leaving)) {
                return Err(refused(leg.flow, "it is protected, or being moved at this moment"));
            }
            of.paths = Present::Stay;
            let want = Want {
                leg: of.leg,
                role: PathRole::Next,
                rate: of.rate,
                bound: of.bound,
                not: vec![leg.carry().links.clone()],
                apart: std::collections::BTreeSet::new(),
                held: leg.held_links(),
            };
            match self.detour(record, &want).await? {
                Ok(path) => paths.push(path),
                Err(reason) => return Err(refused(leg.flow, &reason)),
            }
        }
        let moves = paths.into_iter().map(Event::Reroute).collect();
        match self.take_terms(record, document, &terms, Some(moves)).await {
            Ok(record) => Ok(record),
            Err(Refused::Path(why)) => {
                let first = terms.first().and_then(|of| saga.legs.iter().find(|l| l.leg == of.leg));
                Err(refused(first.map_or(0, |l| l.flow), &why))
            }
            Err(Refused::Other(error)) => Err(error),
        }
    }

    /// In one commit: document, holds, and what the points are to have.
    async fn take_terms(
        &mut self,
        record: &OrderRecord,
        document: &Order,
        terms: &[LegTerms],
        moves: Option<Vec<Event>>,
    ) -> Result<OrderRecord, Refused> {
        let saga = record.saga.as_ref().ok_or(Refused::Other(DeskError::Stale))?;
        let now = self.desk.now();
        if moves.is_none() {
            let latencies = self.latencies();
            for of in terms {
                let leg = saga.legs.iter().find(|l| l.leg == of.leg);
                let Some((leg, bound)) = leg.zip(of.bound) else { continue };
                let delay = routes::delay(&leg.carry().links, &latencies);
                if let Some(delay) = delay.filter(|d| *d > bound) {
                    return Err(Refused::Path(format!("its path takes {delay}, {bound} asked")));
                }
            }
        }
        let next = self.desk.inner.hub.lock().next_stamp();
        let mut all = step(saga, Event::Amend { legs: terms.to_vec() }, now, next);
        for event in moves.into_iter().flatten() {
            let Step { saga, changed, desired_changed, notes, .. } = step(&all.saga, event, now, next);
            if !changed {
                return Err(Refused::Other(DeskError::Stale));
            }
            (all.saga, all.changed) = (saga, true);
            all.desired_changed |= desired_changed;
            all.notes.extend(notes);
        }
        self.decide(&mut [(record.id, &mut all)]).await.map_err(|e| Refused::Other(e.into()))?;
        let amended = OrderRecord { document: document.clone(), ..record.clone() };
        let (mut change, after) = self.change(&amended, &all, record.attention.clone(), now, saga);
        change.document = Some(document.clone());
        change.events.insert(
            0,
            NewEvent {
                kind: "amended".into(),
                phase: Some(saga.phase),
                message: "order is amended while it goes on".into(),
                detail: serde_json::json!({ "generation": saga.generation }),
            },
        );
        let done = self.desk.inner.store.commit(vec![Intent::Change(Box::new(change))]).await;
        match done.map_err(|e| Refused::Other(e.into()))?.pop() {
            Some(Outcome::Changed { version }) => {
                let after = OrderRecord { version, ..after };
                if all.desired_changed {
                    self.publish(&after, next);
                }
                self.insert(after.clone());
                self.desk.inner.hub.pulse(Pulse::Order(record.id));
                Ok(after)
            }
            Some(Outcome::Refused(Conflict::Link { link, free, needed })) => {
                Err(Refused::Path(format!("link {link} has {free} free, {needed} needed")))
            }
            Some(Outcome::Refused(why)) => {
                self.reload(record.id).await;
                Err(Refused::Other(DeskError::refused(&why)))
            }
            other => {
                Err(Refused::Other(DeskError::Internal(format!("the store answered an amendment with {other:?}"))))
            }
        }
    }
}

/// Why terms cannot be had where the legs are.
#[derive(Debug)]
enum Refused {
    /// A link has no room, or the path takes too long.
    Path(String),
    Other(DeskError),
}

/// A leg's part of its flow's rate stays the same part of another; rounded up to a kbit/s, as in a plan.
fn share(leg: Bandwidth, old: Bandwidth, new: Bandwidth) -> Bandwidth {
    let part = u128::from(leg.kbps()) * u128::from(new.kbps());
    let kbps = part.div_ceil(u128::from(old.kbps().max(1)));
    Bandwidth::from_kbps(u64::try_from(kbps).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stays_the_same_part() {
        let rate = Bandwidth::from_kbps;
        assert_eq!(share(rate(10_000), rate(10_000), rate(25_000)), rate(25_000));
        assert_eq!(share(rate(3_334), rate(10_000), rate(5_000)), rate(1_667));
    }
}
