//! Tokens that administrators make: shown once, known by their hash from then on.

use crate::{
    caller::Caller,
    desk::Desk,
    error::DeskError,
    intake::Idempotency,
    secrets::{new_token, sha256},
};
use jiff::Timestamp;
use rhumb_model::{Action, DocumentError, Role, Scope, TokenId};
use rhumb_store::{Conflict, IdempotencyRecord, Intent, Outcome, Store, TokenFilter, TokenRecord};

/// What a new token is to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    pub role: Role,
    /// Of the kind that suits the role.
    pub scope: Scope,
    pub expires: Option<Timestamp>,
}

/// The only time that the token itself is seen.
#[derive(Clone)]
pub struct NewToken {
    pub token: String,
    pub record: TokenRecord,
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
        wish: Wish,
        key: Option<Idempotency>,
    ) -> Result<NewToken, DeskError> {
        caller.may(Action::ManageTokens)?;
        let now = self.now();
        self.check_wish(caller, &wish, now).await?;
        if let Some(key) = key {
            self.claim(caller, key, now).await?;
        }
        let token = new_token().map_err(|e| DeskError::Internal(e.to_string()))?;
        let Wish { role, scope, expires } = wish;
        let record = TokenRecord {
            id: TokenId(uuid::Uuid::now_v7()),
            sha256: sha256(token.as_bytes()),
            role,
            scope,
            created: now,
            created_by: caller.token.to_string(),
            expires,
            revoked: None,
        };
        let mut entry = caller.entry(now, "token.create", record.id, record.scope.tenant());
        entry.detail = serde_json::json!({ "role": role, "expires": expires });
        match &record.scope {
            Scope::Sites(sites) => entry.detail["sites"] = serde_json::json!(sites),
            Scope::Point(point) => entry.detail["point"] = serde_json::json!(point),
            Scope::Tenant(_) => {}
        }
        self.administer(Intent::PutToken(record.clone()), entry).await?;
        tracing::info!(token = %record.id, %role, "a token was made");
        Ok(NewToken { token, record })
    }

    async fn check_wish(&self, caller: &Caller, wish: &Wish, now: Timestamp) -> Result<(), DeskError> {
        let wrong = |pointer: &str, reason: String| Err(DocumentError::one(pointer, reason).into());
        if !caller.role.may_grant(wish.role) {
            let own = caller.role;
            return Err(DeskError::Forbidden(format!("a token of role {own} may not make one of role {}", wish.role)));
        }
        if !wish.scope.suits(wish.role) {
            return wrong("/role", format!("role {} is not of this kind of thing: see its description", wish.role));
        }
        if wish.expires.is_some_and(|at| at <= now) {
            return wrong("/expires", "it has passed: write an instant to come".into());
        }
        match &wish.scope {
            Scope::Tenant(tenant) => {
                // another tenant does not exist for a tenant's administrator
                let known = if caller.sees(tenant) { self.inner.store.tenant(tenant).await? } else { None };
                match known {
                    None => wrong("/tenant", format!("tenant {tenant} does not exist: make it first")),
                    Some(known) if known.closed.is_some() => {
                        wrong("/tenant", format!("tenant {tenant} is closed: no token of it would open anything"))
                    }
                    Some(_) => Ok(()),
                }
            }
            Scope::Sites(sites) if sites.is_empty() => wrong("/sites", "it names no site: name at least one".into()),
            Scope::Sites(sites) => match sites.iter().find(|s| !self.inner.base.agents().any(|p| p == *s)) {
                Some(site) => wrong("/sites", format!("site {site} is not in the federation: add it there first")),
                None => Ok(()),
            },
            Scope::Point(point) if self.inner.base.agents().any(|p| p == point) => Ok(()),
            Scope::Point(point) => {
                wrong("/subject", format!("point {point} has no agent in the federation: add it there first"))
            }
        }
    }

    async fn claim(&self, caller: &Caller, key: Idempotency, now: Timestamp) -> Result<(), DeskError> {
        let remembered = Intent::Remember(IdempotencyRecord {
            tenant: caller.tenant()?.clone(),
            key: key.key,
            body_sha256: key.body_sha256,
            answer: Some((201, "shown".into())),
            at: now,
        });
        match self.inner.store.commit(vec![remembered]).await?.pop() {
            Some(Outcome::Refused(Conflict::Key)) => Err(DeskError::Conflict(
                "a token was made with this idempotency key and is not shown again: use a new key".into(),
            )),
            Some(Outcome::Refused(other)) => Err(DeskError::refused(&other)),
            _ => Ok(()),
        }
    }

    /// Newest first, at most 200; a tenant's administrator sees those of his tenant.
    pub async fn tokens(
        &self,
        caller: &Caller,
        before: Option<TokenId>,
        limit: u32,
    ) -> Result<Vec<TokenRecord>, DeskError> {
        caller.may(Action::ManageTokens)?;
        let filter = TokenFilter { tenant: caller.only()?, before, limit };
        Ok(self.inner.store.tokens(&filter).await?)
    }

    /// From the next request on it opens nothing. What the caller may not see is not there.
    pub async fn revoke_token(&self, caller: &Caller, id: TokenId) -> Result<(), DeskError> {
        caller.may(Action::ManageTokens)?;
        let at = self.now();
        let within = caller.only()?;
        let entry = caller.entry(at, "token.revoke", id, within.as_ref());
        self.administer_known(Intent::RevokeToken { id, within, at }, entry, "token", id.to_string()).await?;
        tracing::info!(token = %id, "a token was revoked");
        Ok(())
    }
}
