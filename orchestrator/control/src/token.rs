//! Tokens that an administrator makes: shown once, known by their hash from then on.

use crate::{
    desk::{Caller, Desk},
    error::DeskError,
    intake::Idempotency,
    secrets::{new_token, sha256},
};
use jiff::Timestamp;
use rhumb_model::{DocumentError, PointName, TenantName};
use rhumb_store::{Conflict, IdempotencyRecord, Intent, Outcome, Store, TokenKind, TokenRecord};

/// Who a new token is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bearer {
    Tenant(TenantName),
    /// The agent of this point.
    Agent(PointName),
}

/// The only time that the token itself is seen.
#[derive(Clone)]
pub struct NewToken {
    pub token: String,
    pub expires: Option<Timestamp>,
}

impl std::fmt::Debug for NewToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NewToken(secret)")
    }
}

impl<S: Store> Desk<S> {
    /// A request with a key that was answered before is refused: a token is not shown twice.
    pub async fn create_token(
        &self,
        caller: &Caller,
        bearer: &Bearer,
        expires: Option<Timestamp>,
        key: Option<Idempotency>,
    ) -> Result<NewToken, DeskError> {
        if caller.kind != TokenKind::Admin {
            return Err(DeskError::Forbidden("only a platform administrator may make a token".into()));
        }
        let now = self.now();
        if expires.is_some_and(|at| at <= now) {
            return Err(DocumentError::one("/expires", "it has passed: write an instant to come").into());
        }
        let (kind, subject) = match bearer {
            Bearer::Tenant(name) => (TokenKind::Tenant, name.to_string()),
            Bearer::Agent(point) if self.inner.base.agents().any(|p| p == point) => {
                (TokenKind::Agent, point.to_string())
            }
            Bearer::Agent(point) => {
                let reason = format!("point {point} has no agent in the federation: add it there first");
                return Err(DocumentError::one("/subject", reason).into());
            }
        };
        if let Some(key) = key {
            let remembered = Intent::Remember(IdempotencyRecord {
                tenant: caller.tenant.clone(),
                key: key.key,
                body_sha256: key.body_sha256,
                answer: Some((201, "shown".into())),
                at: now,
            });
            if let Some(Outcome::Refused(why)) = self.inner.store.commit(vec![remembered]).await?.pop() {
                return Err(match why {
                    Conflict::Key => DeskError::Conflict(
                        "a token was made with this idempotency key and is not shown again: use a new key".into(),
                    ),
                    other => DeskError::refused(&other),
                });
            }
        }
        let token = new_token().map_err(|e| DeskError::Internal(e.to_string()))?;
        let record = TokenRecord { sha256: sha256(token.as_bytes()), kind, subject, created: now, expires };
        if let Some(Outcome::Refused(why)) = self.inner.store.commit(vec![Intent::PutToken(record)]).await?.pop() {
            return Err(DeskError::refused(&why));
        }
        tracing::info!(?kind, ?bearer, "a token was made");
        Ok(NewToken { token, expires })
    }
}
