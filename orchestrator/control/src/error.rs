//! What a use case may answer instead of a result. The API turns each variant into one problem type.

use rhumb_model::{DocumentError, Reason, ReasonKind};
use rhumb_store::{Conflict, QuotaKind, StoreError, thousandths};

#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    #[error("{kind} {id} does not exist")]
    NotFound { kind: &'static str, id: String },
    #[error("the document is not valid")]
    Document(#[from] DocumentError),
    #[error("{0}")]
    Credential(&'static str),
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
    #[error("tenant {tenant} has {count} {what}, {limit} are allowed: wait until some have ended, or end some")]
    TooMany { tenant: String, what: &'static str, count: usize, limit: usize },
    #[error("storage is not available")]
    Store(#[from] StoreError),
    #[error("too much is being decided at this moment: ask again in a few seconds")]
    Busy,
    #[error("the orchestrator is stopping")]
    Stopping,
    #[error("an internal step failed: {0}")]
    Internal(String),
}

impl DeskError {
    /// Where an intent of a request was refused: what is missing does not exist, all else is a conflict.
    pub(crate) fn refused(why: &Conflict) -> Self {
        match why {
            Conflict::Quote(id) => Self::QuoteGone(id.to_string()),
            Conflict::Version(..) => Self::Stale,
            Conflict::Tenant(_) => Self::Forbidden(format!("{why}: nothing new is taken from it")),
            Conflict::Quota { kind, needed_milli, free_milli } => {
                Self::Refused(vec![over_quota(*kind, *needed_milli, *free_milli)])
            }
            other => Self::Conflict(other.to_string()),
        }
    }
}

/// What a tenant's quota has not.
pub(crate) fn over_quota(kind: QuotaKind, needed_milli: u64, free_milli: u64) -> Reason {
    Reason {
        reason: ReasonKind::Quota,
        component: None,
        flow: None,
        site: None,
        needed: format!("{} {kind}", thousandths(needed_milli)),
        free: format!("{} of the tenant's quota", thousandths(free_milli)),
    }
}

/// Whether the same may well succeed later; and, of a commit, whether it may have happened all the same.
pub(crate) fn is_passing(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { .. } | StoreError::Closed)
}
