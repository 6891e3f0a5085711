//! What a use case may answer instead of a result. The API turns each variant into one problem type.

use rhumb_model::{DocumentError, Reason};
use rhumb_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    #[error("{kind} {id} does not exist")]
    NotFound { kind: &'static str, id: String },
    #[error("the document is not valid")]
    Document(#[from] DocumentError),
    #[error("not allowed: {0}")]
    Forbidden(String),
    #[error("{0}")]
    Conflict(String),
    #[error("idempotency key was used with another body: choose a new key")]
    KeyReused,
    #[error("a request with this idempotency key is in progress: ask again later")]
    KeyBusy,
    #[error("quote {0} has expired or was used: ask for a new one")]
    QuoteGone(String),
    #[error("the order cannot be placed")]
    Refused(Vec<Reason>),
    #[error("an earlier version was changed meanwhile: read it again")]
    Stale,
    #[error("tenant {tenant} has {count} unfinished orders, {limit} are allowed: wait or cancel some")]
    TooMany { tenant: String, count: usize, limit: usize },
    #[error("storage is not available")]
    Store(#[from] StoreError),
    #[error("the orchestrator is stopping")]
    Stopping,
    #[error("an internal step failed: {0}")]
    Internal(String),
}
