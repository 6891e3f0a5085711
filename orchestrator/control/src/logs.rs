//! Output of replicas, taken only from the site that they were given to.

use crate::{desk::Desk, error::DeskError, metrics as names};
use rhumb_model::{OrderId, PointName};
use rhumb_store::{Intent, OrderRecord, Store, record::LogRecord};
use rhumb_wire::{
    LogChunk,
    report::{AssignmentKey, LogAck},
};
use std::collections::BTreeMap;

/// Offsets beyond this are no output's: the store counts in signed numbers.
const MOST: u64 = i64::MAX as u64;

impl<S: Store> Desk<S> {
    /// What need not be sent again: what is stored, and what will never be. Nothing while the store is away.
    pub(crate) async fn keep_logs(&self, point: &PointName, chunks: &[LogChunk]) -> Vec<LogAck> {
        match self.store_logs(point, chunks).await {
            Ok(acks) => acks,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(%point, error, "output could not be stored: it is asked for again");
                Vec::new()
            }
        }
    }

    async fn store_logs(&self, point: &PointName, chunks: &[LogChunk]) -> Result<Vec<LogAck>, DeskError> {
        let mut orders = BTreeMap::new();
        let (mut records, mut acks) = (Vec::new(), Vec::new());
        for chunk in chunks {
            let Some(up_to) = chunk.offset.checked_add(chunk.bytes.max(chunk.text.len() as u64)) else { continue };
            if up_to <= MOST && self.is_of(point, &chunk.key, &mut orders).await? {
                records.push(LogRecord {
                    order: chunk.key.order,
                    generation: chunk.key.generation,
                    component: chunk.key.component.clone(),
                    replica: chunk.key.replica,
                    offset: chunk.offset,
                    text: chunk.text.clone(),
                });
            } else {
                metrics::counter!(names::LOGS_REFUSED).increment(1);
                tracing::debug!(%point, order = %chunk.key.order, "output of work that is not there is not kept");
            }
            acks.push(LogAck { key: chunk.key.clone(), up_to: chunk.offset.saturating_add(chunk.bytes) });
        }
        if !records.is_empty() {
            self.inner.store.commit(vec![Intent::AppendLogs(records)]).await?;
        }
        Ok(acks)
    }

    /// Whether the replica was given to the point: now, or when the order ended.
    async fn is_of(
        &self,
        point: &PointName,
        key: &AssignmentKey,
        orders: &mut BTreeMap<OrderId, Option<OrderRecord>>,
    ) -> Result<bool, DeskError> {
        if self.inner.hub.lock().has_work(point, key) {
            return Ok(true);
        }
        let order = match orders.entry(key.order) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => place.insert(self.inner.store.order(key.order).await?),
        };
        Ok(order.as_ref().is_some_and(|o| had(o, point, key)))
    }
}

fn had(order: &OrderRecord, point: &PointName, key: &AssignmentKey) -> bool {
    if order.generation != key.generation {
        return false;
    }
    let planned = || {
        let mut components = order.plan.iter().flat_map(|p| &p.components);
        components.any(|c| c.name == key.component && c.assignments.iter().any(|a| &a.site == point))
    };
    order.saga.as_ref().map_or_else(planned, |saga| {
        let mine = |r: &rhumb_provision::ReplicaState| {
            (&r.component, r.replica, &r.site) == (&key.component, key.replica, point)
        };
        saga.replicas.iter().any(mine)
    })
}
