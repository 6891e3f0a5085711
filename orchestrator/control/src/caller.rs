//! Who asks, and what he may: asked of `rhumb_model::role`, the one table.

use crate::{desk::Desk, error::DeskError};
use jiff::Timestamp;
use rhumb_model::{Action, Role, Scope, SiteName, TenantName, TokenId, role::permits};
use rhumb_store::{AuditEntry, Conflict, Intent, Outcome, Store};
use std::fmt::Display;

/// The holder of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub token: TokenId,
    pub role: Role,
    pub scope: Scope,
}

impl Caller {
    pub fn may(&self, action: Action) -> Result<(), DeskError> {
        if permits(self.role, action) && self.scope.suits(self.role) {
            return Ok(());
        }
        let what = match action {
            Action::ReadFederation => "read about the federation",
            Action::ReadWork => "read orders",
            Action::Order => "quote, order or cancel",
            Action::ManageTokens => "manage tokens",
            Action::ReadTenants => "read about tenants",
            Action::ManageTenants => "manage tenants",
            Action::OperateSites => "operate sites",
            Action::ManageAuthorities => "manage authorities",
            Action::ReadAuditLog => "read the audit log",
            Action::Inspect => "inspect the whole federation",
            Action::Sync => "speak for a point",
        };
        Err(DeskError::Forbidden(format!("a token of role {} may not {what}: use one that may", self.role)))
    }

    /// Whose orders its own are.
    pub fn tenant(&self) -> Result<&TenantName, DeskError> {
        let none = || DeskError::Forbidden(format!("a token of role {} is of no tenant", self.role));
        self.scope.tenant().ok_or_else(none)
    }

    /// Of all tenants.
    pub fn sees_all(&self) -> bool {
        self.role == Role::PlatformAdmin
    }

    /// Whether what belongs to the tenant is there for him.
    pub fn sees(&self, tenant: &TenantName) -> bool {
        self.sees_all() || self.scope.tenant() == Some(tenant)
    }

    /// `None`: of all tenants.
    pub(crate) fn only(&self) -> Result<Option<TenantName>, DeskError> {
        if self.sees_all() { Ok(None) } else { self.tenant().cloned().map(Some) }
    }

    /// What is done to a site is done by who runs it.
    pub fn operates(&self, site: &SiteName) -> Result<(), DeskError> {
        self.may(Action::OperateSites)?;
        match &self.scope {
            _ if self.sees_all() => Ok(()),
            Scope::Sites(sites) if sites.contains(site) => Ok(()),
            Scope::Sites(_) | Scope::Tenant(_) | Scope::Point(_) => {
                Err(DeskError::Forbidden(format!("this token is not for site {site}: use its operator's")))
            }
        }
    }

    /// The line of the audit log about what he does.
    pub(crate) fn entry(
        &self,
        at: Timestamp,
        action: &str,
        target: impl Display,
        tenant: Option<&TenantName>,
    ) -> AuditEntry {
        AuditEntry {
            at,
            actor: self.token.to_string(),
            role: self.role.to_string(),
            action: action.to_owned(),
            target: target.to_string(),
            tenant: tenant.cloned(),
            detail: serde_json::json!({}),
        }
    }
}

impl<S: Store> Desk<S> {
    /// A change and the line about it, or neither.
    pub(crate) async fn administer(&self, change: Intent, entry: AuditEntry) -> Result<(), DeskError> {
        self.administer_or(change, entry, DeskError::refused).await
    }

    /// As `administer`, where a refusal has words of its own.
    pub(crate) async fn administer_or(
        &self,
        change: Intent,
        entry: AuditEntry,
        refused: impl FnOnce(&Conflict) -> DeskError,
    ) -> Result<(), DeskError> {
        let change = Intent::Administer { change: Box::new(change), entry };
        match self.inner.store.commit(vec![change]).await?.pop() {
            Some(Outcome::Refused(why)) => Err(refused(&why)),
            _ => Ok(()),
        }
    }

    /// As `administer`, of something that has to be there already.
    pub(crate) async fn administer_known(
        &self,
        change: Intent,
        entry: AuditEntry,
        kind: &'static str,
        id: String,
    ) -> Result<(), DeskError> {
        let refused = |why: &Conflict| match why {
            Conflict::Missing(_) => DeskError::NotFound { kind, id },
            why => DeskError::refused(why),
        };
        self.administer_or(change, entry, refused).await
    }
}
