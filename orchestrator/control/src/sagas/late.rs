//! Work that takes longer than planned keeps its links for as long as it does.

use super::{Sagas, routes::held_plan};
use crate::reserve::link_want;
use rhumb_model::{OrderId, Phase};
use rhumb_placement::booking::{self, LegPhase};
use rhumb_store::{Conflict, Intent, OrderRecord, Outcome, Store};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// How often orders are looked at: several times in a slot, of which one is always held ahead.
const LOOK: Duration = Duration::from_mins(4);

/// Orders that could not have their links for longer.
#[derive(Debug, Default)]
pub(super) struct Late {
    looked: Option<Instant>,
    full: BTreeMap<OrderId, String>,
}

impl Late {
    pub(super) fn attention(&self, order: OrderId) -> Option<&str> {
        self.full.get(&order).map(String::as_str)
    }
}

impl<S: Store> Sagas<S> {
    /// Holds this slot and the next for what is still moving after its planned end.
    pub(super) async fn hold_longer(&mut self) {
        if self.late.looked.is_some_and(|at| at.elapsed() < LOOK) {
            return;
        }
        self.late.looked = Some(Instant::now());
        let now = self.desk.now();
        let intents: Vec<Intent> = self.live.values().filter_map(|record| extension(record, now)).collect();
        if intents.is_empty() {
            self.late.full.clear();
            return;
        }
        let orders: Vec<OrderId> = intents
            .iter()
            .filter_map(|i| if let Intent::Extend { order, .. } = i { Some(*order) } else { None })
            .collect();
        match self.desk.inner.store.commit(intents).await {
            Ok(outcomes) => {
                let full = orders.into_iter().zip(outcomes).filter_map(|(order, outcome)| match outcome {
                    Outcome::Refused(Conflict::Link { link, free, needed }) => Some((
                        order,
                        format!("work takes longer than planned, and others have booked link {link}: {needed} needed, {free} free"),
                    )),
                    _ => None,
                });
                self.late.full = full.collect();
            }
            Err(error) => {
                tracing::warn!(%error, "links of late orders could not be held for longer: it is tried again");
                self.late.looked = None;
            }
        }
    }
}

fn extension(record: &OrderRecord, at: jiff::Timestamp) -> Option<Intent> {
    let (plan, saga) = (record.plan.as_ref()?, record.saga.as_ref()?);
    let phase = match saga.phase {
        Phase::Reserving | Phase::Holding | Phase::Routing | Phase::Staging => LegPhase::Inbound,
        Phase::Starting | Phase::Running => LegPhase::Run,
        Phase::Stopping => LegPhase::Outbound,
        Phase::Unrouting | Phase::Releasing | Phase::Settling => return None,
    };
    let links: Vec<_> =
        booking::overdue(&held_plan(plan, saga), &record.document, phase, at).into_iter().map(link_want).collect();
    (!links.is_empty()).then(|| Intent::Extend { order: record.id, generation: record.generation, links, at })
}
