//! Orders: their state, history, output and why they are where they are.

use rhumb_control::Desk;
use rhumb_model::{OrderState, PointName, QuoteId, Reason, Verdict, plan, refusal::Change};
use rhumb_store::{AnyStore, DecisionRecord, EventRecord, OrderRecord, UsageRecord};
use serde::Serialize;
use utoipa::ToSchema;

use super::UsageTotals;

#[derive(Debug, Serialize, ToSchema)]
pub struct OrderView {
    pub id: String,
    pub name: String,
    pub tenant: String,
    pub class: String,
    #[schema(value_type = String)]
    pub state: OrderState,
    #[schema(value_type = Option<String>)]
    pub phase: Option<rhumb_model::Phase>,
    /// What a person should look at.
    pub attention: Option<String>,
    #[schema(value_type = Vec<Object>)]
    pub reasons: Vec<Reason>,
    #[schema(value_type = Option<Object>)]
    pub plan: Option<rhumb_model::Plan>,
    #[schema(value_type = Option<String>)]
    pub quote_id: Option<QuoteId>,
    #[schema(value_type = String, format = DateTime)]
    pub created: jiff::Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated: jiff::Timestamp,
    /// Age of the oldest report that the state rests on; absent while nothing runs.
    pub observed_age_ms: Option<u64>,
    pub stale: bool,
    pub generation: u64,
    pub version: i64,
    #[schema(value_type = Option<Object>)]
    pub cost: Option<plan::Cost>,
    pub usage: Option<UsageTotals>,
}

impl OrderView {
    pub fn new(record: OrderRecord, desk: &Desk<AnyStore>, usage: Option<&[UsageRecord]>) -> Self {
        let limit = desk.config().times.lost_after.micros() / 1_000;
        let points = record.saga.as_ref().map(rhumb_provision::Saga::sites).unwrap_or_default();
        let age = |p: &PointName| desk.hub().age(p).map_or(u64::MAX, |a| a.as_millis() as u64);
        let observed = points.iter().map(age).max();
        Self {
            id: record.id.to_string(),
            name: record.document.name.to_string(),
            tenant: record.tenant.to_string(),
            class: record.document.class.to_string(),
            state: record.state,
            phase: record.phase,
            attention: record.attention,
            reasons: record.reasons,
            plan: record.plan,
            quote_id: record.quote_id,
            created: record.created,
            updated: record.updated,
            observed_age_ms: observed.filter(|a| *a != u64::MAX),
            stale: observed.is_some_and(|a| a > limit),
            generation: record.generation,
            version: record.version,
            cost: record.cost,
            usage: usage.map(UsageTotals::of),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ExplainView {
    #[serde(flatten)]
    pub order: OrderView,
    #[schema(value_type = Vec<Object>)]
    pub sites: Vec<Verdict>,
    #[schema(value_type = Vec<Object>)]
    pub would_fit_if: Vec<Change>,
    /// The instant that the decision was made as of.
    #[schema(value_type = Option<String>)]
    pub decided_at: Option<jiff::Timestamp>,
    /// The view it was made on, as a federation file; only where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub view: Option<serde_json::Value>,
}

impl ExplainView {
    pub fn new(order: OrderView, decision: Option<DecisionRecord>, with_view: bool) -> Self {
        let decided_at = decision.as_ref().map(|d| d.at);
        let view = decision.as_ref().filter(|_| with_view).and_then(|d| serde_json::from_str(&d.view).ok());
        let (sites, would_fit_if) = decision.map(|d| (d.sites, d.would_fit_if)).unwrap_or_default();
        Self { order, sites, would_fit_if, decided_at, view }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct EventView {
    pub seq: u64,
    pub order: String,
    /// Position in the order's history, from 1 without gaps.
    pub number: u64,
    #[schema(value_type = String, format = DateTime)]
    pub at: jiff::Timestamp,
    pub kind: String,
    #[schema(value_type = Option<String>)]
    pub phase: Option<rhumb_model::Phase>,
    pub message: String,
    #[schema(value_type = Object)]
    pub detail: serde_json::Value,
}

impl From<EventRecord> for EventView {
    fn from(e: EventRecord) -> Self {
        Self {
            seq: e.seq,
            order: e.order.to_string(),
            number: e.number,
            at: e.at,
            kind: e.event.kind,
            phase: e.event.phase,
            message: e.event.message,
            detail: e.event.detail,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct LogView {
    pub generation: u64,
    pub component: String,
    pub replica: u32,
    pub offset: u64,
    pub text: String,
}
