//! Tenants, what they may hold, tokens, and the log of what administrators did.

use crate::{
    codec::json,
    error::Fault,
    intent::{Conflict, Outcome, QuotaKind},
    read::admission as read,
    record::{AuditEntry, Quota, TenantRecord, TokenRecord},
    session::{Dialect, Session, args},
};
use jiff::Timestamp;
use rhumb_model::{Scope, TenantName, TokenId};

/// Ends a SELECT of a tenant that must be there, and open, until the transaction ends; closing it waits.
const fn present(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => "",
        Dialect::Postgres => " FOR KEY SHARE",
    }
}

/// As `present`, and nobody is let in meanwhile.
const fn exclusive(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => "",
        Dialect::Postgres => " FOR UPDATE",
    }
}

async fn locked(session: &mut Session<'_>, tenant: &TenantName, lock: &str) -> Result<Option<TenantRecord>, Fault> {
    let sql = format!("{} WHERE name = $1{lock}", read::TENANTS);
    session.all_built(sql, args![tenant.as_str()]).await?.first().map(read::tenant_row).transpose()
}

/// What an open tenant may hold; where it is bounded, others of the tenant wait until this transaction has ended.
pub async fn admit(session: &mut Session<'_>, tenant: &TenantName) -> Result<Quota, Fault> {
    let found = locked(session, tenant, present(session.dialect())).await?;
    match found.filter(|t| t.closed.is_none()) {
        Some(found) if found.quota == Quota::default() => Ok(found.quota),
        Some(_) => bounded(session, tenant).await,
        None => Err(Conflict::Tenant(tenant.clone()).into()),
    }
}

/// What a tenant may hold, closed or not; where it is bounded, others of the tenant wait until this transaction has ended.
pub async fn quota(session: &mut Session<'_>, tenant: &TenantName) -> Result<Quota, Fault> {
    if read::tenant(session, tenant).await?.is_none_or(|t| t.quota == Quota::default()) {
        return Ok(Quota::default());
    }
    bounded(session, tenant).await
}

/// Waits for others of the tenant, and makes them wait.
async fn bounded(session: &mut Session<'_>, tenant: &TenantName) -> Result<Quota, Fault> {
    let found = locked(session, tenant, session.dialect().lock()).await?;
    Ok(found.map_or_else(Quota::default, |t| t.quota))
}

/// Refuses what is one more than the tenant may have.
pub fn one_more(kind: QuotaKind, most: Option<u32>, has: u32) -> Result<(), Fault> {
    match most {
        Some(most) if has >= most => Err(Conflict::Quota { kind, needed_milli: 1_000, free_milli: 0 }.into()),
        _ => Ok(()),
    }
}

/// What a tenant holds whose accelerators are counted.
pub async fn accelerators_before(session: &mut Session<'_>, tenant: &TenantName, quota: Quota) -> Result<u64, Fault> {
    if quota.accelerators.is_none() {
        return Ok(0);
    }
    read::accelerators(session, tenant).await
}

/// Refuses what takes a tenant, which held `before`, beyond its accelerators. The caller holds the tenant's row.
pub async fn within_accelerators(
    session: &mut Session<'_>,
    tenant: &TenantName,
    quota: Quota,
    before: u64,
) -> Result<(), Fault> {
    let Some(most) = quota.accelerators else { return Ok(()) };
    let after = read::accelerators(session, tenant).await?;
    let most = u64::from(most) * 1_000;
    if after > most && after > before {
        let (needed_milli, free_milli) = (after - before, most.saturating_sub(before));
        return Err(Conflict::Quota { kind: QuotaKind::Accelerators, needed_milli, free_milli }.into());
    }
    Ok(())
}

pub async fn put_tenant(session: &mut Session<'_>, tenant: &TenantRecord) -> Result<Outcome, Fault> {
    if insert_tenant(session, tenant).await? == 0 {
        return Err(Conflict::Exists(format!("tenant {}", tenant.name)).into());
    }
    Ok(Outcome::Done)
}

/// One that is there stays as it is.
pub async fn know_tenant(session: &mut Session<'_>, name: &TenantName, at: Timestamp) -> Result<Outcome, Fault> {
    let tenant = TenantRecord { name: name.clone(), created: at, closed: None, quota: Quota::default() };
    insert_tenant(session, &tenant).await?;
    Ok(Outcome::Done)
}

async fn insert_tenant(session: &mut Session<'_>, tenant: &TenantRecord) -> Result<u64, Fault> {
    let sql = "INSERT INTO tenants (name, created_us, closed_us, most_accelerators, most_orders, most_quotes) \
               VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name) DO NOTHING";
    let Quota { accelerators, orders, quotes } = tenant.quota;
    let args = args![
        tenant.name.as_str(),
        tenant.created.as_microsecond(),
        tenant.closed.map(Timestamp::as_microsecond),
        accelerators.map(i64::from),
        orders.map(i64::from),
        quotes.map(i64::from),
    ];
    Ok(session.run(sql, args).await?)
}

/// Its tokens end with it, but for those of platform administrators. Once closed it stays so.
pub async fn close_tenant(session: &mut Session<'_>, name: &TenantName, at: Timestamp) -> Result<Outcome, Fault> {
    if locked(session, name, exclusive(session.dialect())).await?.is_none() {
        return Err(Conflict::Missing(format!("tenant {name}")).into());
    }
    let at = at.as_microsecond();
    let sql = "UPDATE tenants SET closed_us = coalesce(closed_us, $2) WHERE name = $1";
    session.run(sql, args![name.as_str(), at]).await?;
    let sql = "UPDATE tokens SET revoked_us = $2 WHERE tenant = $1 AND role <> 'platform-admin' AND revoked_us IS NULL";
    session.run(sql, args![name.as_str(), at]).await?;
    Ok(Outcome::Done)
}

pub async fn set_quota(session: &mut Session<'_>, name: &TenantName, quota: Quota) -> Result<Outcome, Fault> {
    if locked(session, name, exclusive(session.dialect())).await?.is_none() {
        return Err(Conflict::Missing(format!("tenant {name}")).into());
    }
    let sql = "UPDATE tenants SET most_accelerators = $2, most_orders = $3, most_quotes = $4 WHERE name = $1";
    let Quota { accelerators, orders, quotes } = quota;
    let (a, o, q) = (accelerators.map(i64::from), orders.map(i64::from), quotes.map(i64::from));
    session.run(sql, args![name.as_str(), a, o, q]).await?;
    Ok(Outcome::Done)
}

/// The same token again, which a file may name at each start, keeps its id and stays revoked if it is.
pub async fn put_token(session: &mut Session<'_>, token: &TokenRecord) -> Result<Outcome, Fault> {
    if let Some(tenant) = token.scope.tenant() {
        let found = locked(session, tenant, present(session.dialect())).await?;
        if found.is_none_or(|t| t.closed.is_some()) {
            return Err(Conflict::Tenant(tenant.clone()).into());
        }
    }
    if !token.scope.suits(token.role) {
        return Err(Fault::Range { what: "scope of a token", value: token.role.to_string() });
    }
    let (sites, point) = match &token.scope {
        Scope::Tenant(_) => (None, None),
        Scope::Sites(sites) => (Some(json("sites", sites)?), None),
        Scope::Point(point) => (None, Some(point.to_string())),
    };
    let sql = "INSERT INTO tokens (id, sha256, role, tenant, sites, point, created_us, created_by, expires_us, revoked_us) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (sha256) DO UPDATE SET \
               role = excluded.role, tenant = excluded.tenant, sites = excluded.sites, point = excluded.point, \
               expires_us = excluded.expires_us WHERE tokens.revoked_us IS NULL";
    let args = args![
        token.id.0,
        token.sha256.as_slice(),
        token.role.as_str(),
        token.scope.tenant().map(ToString::to_string),
        sites,
        point,
        token.created.as_microsecond(),
        token.created_by.as_str(),
        token.expires.map(Timestamp::as_microsecond),
        token.revoked.map(Timestamp::as_microsecond),
    ];
    session.run(sql, args).await?;
    Ok(Outcome::Done)
}

/// Within a tenant only those that its administrators may see are there.
pub async fn revoke_token(
    session: &mut Session<'_>,
    id: TokenId,
    within: Option<&TenantName>,
    at: Timestamp,
) -> Result<Outcome, Fault> {
    let sql = "UPDATE tokens SET revoked_us = coalesce(revoked_us, $2) WHERE id = $1 \
               AND ($3 OR (tenant = $4 AND role <> 'platform-admin'))";
    let tenant = within.map(ToString::to_string);
    match session.run(sql, args![id.0, at.as_microsecond(), within.is_none(), tenant]).await? {
        0 => Err(Conflict::Missing(format!("token {id}")).into()),
        _ => Ok(Outcome::Done),
    }
}

pub async fn log(session: &mut Session<'_>, entry: &AuditEntry) -> Result<(), Fault> {
    let sql = "INSERT INTO audit_log (at_us, actor, role, action, target, tenant, detail) \
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let args = args![
        entry.at.as_microsecond(),
        entry.actor.as_str(),
        entry.role.as_str(),
        entry.action.as_str(),
        entry.target.as_str(),
        entry.tenant.as_ref().map(ToString::to_string),
        json("audit detail", &entry.detail)?,
    ];
    session.run(sql, args).await?;
    Ok(())
}
