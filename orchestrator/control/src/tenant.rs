//! Tenants, what each may hold, and the log of what administrators did.

use crate::{caller::Caller, desk::Desk, error::DeskError};
use rhumb_model::{Action, TenantName};
use rhumb_store::{AuditFilter, AuditRecord, Conflict, Held, Intent, Quota, Store, TenantRecord};

impl<S: Store> Desk<S> {
    pub async fn create_tenant(&self, caller: &Caller, name: &TenantName) -> Result<TenantRecord, DeskError> {
        caller.may(Action::ManageTenants)?;
        let created = self.now();
        let record = TenantRecord { name: name.clone(), created, closed: None, quota: Quota::default() };
        let entry = caller.entry(created, "tenant.create", name, Some(name));
        let refused = |why: &Conflict| match why {
            Conflict::Exists(_) => DeskError::Conflict(format!(
                "tenant {name} exists already, or did: names of tenants are not used again"
            )),
            why => DeskError::refused(why),
        };
        self.administer_or(Intent::PutTenant(record.clone()), entry, refused).await?;
        Ok(record)
    }

    /// Those that the caller may see, by name, at most 200 of those after `after`.
    pub async fn tenants(
        &self,
        caller: &Caller,
        after: Option<&TenantName>,
        limit: u32,
    ) -> Result<Vec<TenantRecord>, DeskError> {
        caller.may(Action::ReadTenants)?;
        match caller.only()? {
            None => Ok(self.inner.store.tenants(after, limit).await?),
            Some(own) if after.is_none_or(|after| *after < own) => {
                Ok(self.inner.store.tenant(&own).await?.into_iter().collect())
            }
            Some(_) => Ok(Vec::new()),
        }
    }

    /// With what it holds now. Another tenant's record does not exist for a tenant's administrator.
    pub async fn tenant(&self, caller: &Caller, name: &TenantName) -> Result<(TenantRecord, Held), DeskError> {
        caller.may(Action::ReadTenants)?;
        let missing = || DeskError::NotFound { kind: "tenant", id: name.to_string() };
        if !caller.sees(name) {
            return Err(missing());
        }
        let record = self.inner.store.tenant(name).await?.ok_or_else(missing)?;
        let held = self.inner.store.held(name).await?;
        Ok((record, held))
    }

    /// Nothing new is taken from it, and its tokens open nothing any more; what runs goes on.
    pub async fn close_tenant(&self, caller: &Caller, name: &TenantName) -> Result<(), DeskError> {
        caller.may(Action::ManageTenants)?;
        let at = self.now();
        let entry = caller.entry(at, "tenant.close", name, Some(name));
        let close = Intent::CloseTenant { name: name.clone(), at };
        self.administer_known(close, entry, "tenant", name.to_string()).await
    }

    pub async fn set_quota(&self, caller: &Caller, name: &TenantName, quota: Quota) -> Result<(), DeskError> {
        caller.may(Action::ManageTenants)?;
        let mut entry = caller.entry(self.now(), "quota.set", name, Some(name));
        entry.detail = serde_json::json!({
            "accelerators": quota.accelerators, "orders": quota.orders, "quotes": quota.quotes,
        });
        let set = Intent::SetQuota { tenant: name.clone(), quota };
        self.administer_known(set, entry, "tenant", name.to_string()).await?;
        // what waits for room in it may have some now
        self.inner.hub.wake_placer_for_all();
        Ok(())
    }

    /// Newest first, at most 200; a tenant's administrator sees what concerns his tenant.
    pub async fn audit_log(
        &self,
        caller: &Caller,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<AuditRecord>, DeskError> {
        caller.may(Action::ReadAuditLog)?;
        let filter = AuditFilter { tenant: caller.only()?, before, limit };
        Ok(self.inner.store.audit_log(&filter).await?)
    }
}
