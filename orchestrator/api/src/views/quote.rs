//! Quotes.

use rhumb_model::{Reason, Verdict, refusal::Change};
use rhumb_store::QuoteRecord;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub struct QuoteView {
    pub id: String,
    #[schema(value_type = String, format = DateTime)]
    pub created: jiff::Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub expires: jiff::Timestamp,
    /// It holds devices and link capacity until then.
    pub binding: bool,
    /// Expired, given back or ordered.
    pub ended: bool,
    pub order_id: Option<String>,
    /// `plan` or `refusal`.
    pub outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub plan: Option<rhumb_model::Plan>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub reasons: Vec<Reason>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub would_fit_if: Vec<Change>,
    #[schema(value_type = Vec<Object>)]
    pub sites: Vec<Verdict>,
}

impl From<QuoteRecord> for QuoteView {
    fn from(q: QuoteRecord) -> Self {
        Self {
            id: q.id.to_string(),
            created: q.created,
            expires: q.expires,
            binding: q.binding,
            ended: q.ended.is_some(),
            order_id: q.order.map(|o| o.to_string()),
            outcome: if q.plan.is_some() { "plan" } else { "refusal" }.to_owned(),
            plan: q.plan,
            reasons: q.decision.reasons,
            would_fit_if: q.decision.would_fit_if,
            sites: q.decision.sites,
        }
    }
}
