//! Tenants, tokens, and the log of what administrators did.

use crate::{
    codec::{Reader, bound},
    error::Fault,
    record::{AuditEntry, AuditFilter, AuditRecord, Held, Quota, TenantRecord, TokenFilter, TokenRecord},
    session::{Dialect, Row, Session, Value, args},
};
use rhumb_model::{Role, Scope, TenantName, TokenId};
use uuid::Uuid;

type Found<T> = Result<T, Fault>;

pub const TENANTS: &str =
    "SELECT name, created_us, closed_us, most_accelerators, most_orders, most_quotes FROM tenants";
const TOKENS: &str =
    "SELECT id, sha256, role, tenant, sites, point, created_us, created_by, expires_us, revoked_us FROM tokens";
/// Longest page.
const PAGE: u32 = 200;

pub async fn tenant(session: &mut Session<'_>, name: &TenantName) -> Found<Option<TenantRecord>> {
    let sql = format!("{TENANTS} WHERE name = $1");
    session.all_built(sql, args![name.as_str()]).await?.first().map(tenant_row).transpose()
}

/// By name, those after `after`.
pub async fn tenants(session: &mut Session<'_>, after: Option<&TenantName>, limit: u32) -> Found<Vec<TenantRecord>> {
    let sql = format!("{TENANTS} WHERE name > $1 ORDER BY name LIMIT $2");
    let after = after.map_or("", TenantName::as_str);
    session.all_built(sql, args![after, limit.clamp(1, PAGE)]).await?.iter().map(tenant_row).collect()
}

pub fn tenant_row(row: &Row) -> Found<TenantRecord> {
    let r = Reader::new("tenants", row);
    let most = |column: &'static str| -> Found<Option<u32>> {
        let value: Option<i64> = row.get(column)?;
        let value = value.map(|v| u32::try_from(v).map_err(|_| r.corrupt(column, format_args!("{v} is no count"))));
        value.transpose()
    };
    Ok(TenantRecord {
        name: r.parsed("name")?,
        created: r.time("created_us")?,
        closed: r.time_or_null("closed_us")?,
        quota: Quota {
            accelerators: most("most_accelerators")?,
            orders: most("most_orders")?,
            quotes: most("most_quotes")?,
        },
    })
}

pub async fn held(session: &mut Session<'_>, tenant: &TenantName) -> Found<Held> {
    Ok(Held {
        accelerators_milli: accelerators(session, tenant).await?,
        orders: live_orders(session, tenant).await?,
        quotes: live_quotes(session, tenant).await?,
    })
}

pub async fn live_orders(session: &mut Session<'_>, tenant: &TenantName) -> Found<u32> {
    let sql = "SELECT count(*) AS n FROM orders WHERE tenant = $1 \
               AND state IN ('acknowledged', 'pending', 'held', 'inProgress', 'cancelling')";
    number("orders", session, sql, tenant).await
}

pub async fn live_quotes(session: &mut Session<'_>, tenant: &TenantName) -> Found<u32> {
    let sql = "SELECT count(*) AS n FROM quotes WHERE ended_us IS NULL AND binding AND tenant = $1";
    number("quotes", session, sql, tenant).await
}

/// Thousandths of accelerators that a tenant's orders and quotes hold.
pub async fn accelerators(session: &mut Session<'_>, tenant: &TenantName) -> Found<u64> {
    let sql = match session.dialect() {
        Dialect::Sqlite => {
            "SELECT coalesce(sum(json_array_length(devices) * share_permille), 0) AS n FROM replica_holds WHERE \
             (holder_kind = 'order' AND holder IN (SELECT id FROM orders WHERE tenant = $1 \
              AND state IN ('acknowledged', 'pending', 'held', 'inProgress', 'cancelling'))) OR \
             (holder_kind = 'quote' AND holder IN (SELECT id FROM quotes WHERE ended_us IS NULL AND tenant = $1))"
        }
        Dialect::Postgres => {
            "SELECT coalesce(sum(json_array_length(devices::json) * share_permille), 0)::bigint AS n FROM replica_holds \
             WHERE (holder_kind = 'order' AND holder IN (SELECT id FROM orders WHERE tenant = $1 \
              AND state IN ('acknowledged', 'pending', 'held', 'inProgress', 'cancelling'))) OR \
             (holder_kind = 'quote' AND holder IN (SELECT id FROM quotes WHERE ended_us IS NULL AND tenant = $1))"
        }
    };
    number("replica_holds", session, sql, tenant).await
}

async fn number<T: TryFrom<i64> + Default>(
    table: &'static str,
    session: &mut Session<'_>,
    sql: &'static str,
    tenant: &TenantName,
) -> Found<T> {
    match session.first(sql, args![tenant.as_str()]).await? {
        Some(row) => Reader::new(table, &row).count("n"),
        None => Ok(T::default()),
    }
}

/// A token of a tenant that is unknown or closed is none.
pub async fn token(session: &mut Session<'_>, hash: &[u8; 32]) -> Found<Option<TokenRecord>> {
    let sql = format!(
        "{TOKENS} WHERE sha256 = $1 AND (tenant IS NULL OR role = 'platform-admin' OR EXISTS \
         (SELECT 1 FROM tenants n WHERE n.name = tokens.tenant AND n.closed_us IS NULL))"
    );
    session.all_built(sql, args![hash.as_slice()]).await?.first().map(token_row).transpose()
}

pub async fn tokens(session: &mut Session<'_>, filter: &TokenFilter) -> Found<Vec<TokenRecord>> {
    let sql = format!(
        "{TOKENS} WHERE ($1 OR (tenant = $2 AND role <> 'platform-admin')) AND ($3 OR id < $4) ORDER BY id DESC LIMIT $5"
    );
    let args: Vec<Value> = args![
        filter.tenant.is_none(),
        filter.tenant.as_ref().map(ToString::to_string),
        filter.before.is_none(),
        filter.before.map_or(Uuid::nil(), |t: TokenId| t.0),
        filter.limit.clamp(1, PAGE),
    ];
    session.all_built(sql, args).await?.iter().map(token_row).collect()
}

fn token_row(row: &Row) -> Found<TokenRecord> {
    let r = Reader::new("tokens", row);
    let role: Role = r.parsed("role")?;
    let scope = match role {
        Role::Agent => Scope::Point(r.parsed("point")?),
        Role::SiteOperator => Scope::Sites(r.json("sites")?),
        Role::Viewer | Role::Member | Role::TenantAdmin | Role::PlatformAdmin => Scope::Tenant(r.parsed("tenant")?),
    };
    Ok(TokenRecord {
        id: TokenId(r.uuid("id")?),
        sha256: r.sha256("sha256")?,
        role,
        scope,
        created: r.time("created_us")?,
        created_by: r.text("created_by")?,
        expires: r.time_or_null("expires_us")?,
        revoked: r.time_or_null("revoked_us")?,
    })
}

pub async fn audit_log(session: &mut Session<'_>, filter: &AuditFilter) -> Found<Vec<AuditRecord>> {
    let sql = "SELECT seq, at_us, actor, role, action, target, tenant, detail FROM audit_log \
               WHERE ($1 OR tenant = $2) AND seq < $3 ORDER BY seq DESC LIMIT $4";
    let args = args![
        filter.tenant.is_none(),
        filter.tenant.as_ref().map(ToString::to_string),
        filter.before.map_or(i64::MAX, bound),
        filter.limit.clamp(1, PAGE),
    ];
    session.all(sql, args).await?.iter().map(audit_row).collect()
}

fn audit_row(row: &Row) -> Found<AuditRecord> {
    let r = Reader::new("audit_log", row);
    Ok(AuditRecord {
        seq: r.count("seq")?,
        entry: AuditEntry {
            at: r.time("at_us")?,
            actor: r.text("actor")?,
            role: r.text("role")?,
            action: r.text("action")?,
            target: r.text("target")?,
            tenant: r.parsed_or_null("tenant")?,
            detail: r.json("detail")?,
        },
    })
}
