//! `/v1/admin`: the whole federation's invariants, draining sites, and the log of what administrators did.

use super::{cursor, id, limit, page};
use crate::{auth::Principal, problem::Problem, router::App, views::List};
use axum::{
    Json,
    extract::{Path, Query, State},
    http::StatusCode,
};
use jiff::Timestamp;
use rhumb_control::audit::Audit;
use rhumb_model::Action;
use rhumb_store::AuditRecord;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Checks the invariants on the live system.
#[utoipa::path(get, path = "/v1/admin/audit", tag = "administration",
    responses((status = 200, body = Object), (status = 401, body = Problem), (status = 403, body = Problem)))]
pub async fn audit(State(app): State<App>, principal: Principal) -> Result<Json<Audit>, Problem> {
    principal.may(Action::Inspect)?;
    Ok(Json(app.desk.audit().await?))
}

/// `drain`: nothing new starts at the site. `undrain`: it takes work again.
#[utoipa::path(post, path = "/v1/admin/sites/{name}/{action}", tag = "administration",
    params(("name" = String, Path), ("action" = String, Path, description = "drain or undrain")),
    responses((status = 204), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn drain(
    State(app): State<App>,
    principal: Principal,
    Path((name, action)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let caller = principal.may(Action::OperateSites)?;
    let draining = match action.as_str() {
        "drain" => true,
        "undrain" => false,
        _ => return Err(Problem::not_found("the actions on a site are drain and undrain")),
    };
    app.desk.drain(&caller, &id("site", &name)?, draining).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// `next` of the page before.
    cursor: Option<String>,
    /// 1 to 200, default 50.
    limit: Option<u32>,
}

/// One thing that an administrator did.
#[derive(Debug, Serialize, ToSchema)]
pub struct LogEntryView {
    pub seq: u64,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Id of the token that did it, or what else did.
    pub actor: String,
    pub role: String,
    /// Such as `token.create`.
    pub action: String,
    /// What it was done to.
    pub target: String,
    /// Whom it concerns, if one.
    pub tenant: Option<String>,
    #[schema(value_type = Object)]
    pub detail: serde_json::Value,
}

impl From<AuditRecord> for LogEntryView {
    fn from(AuditRecord { seq, entry }: AuditRecord) -> Self {
        let tenant = entry.tenant.map(|t| t.to_string());
        let (at, actor, role, action) = (entry.at, entry.actor, entry.role, entry.action);
        Self { seq, at, actor, role, action, target: entry.target, tenant, detail: entry.detail }
    }
}

/// What administrators did, newest first: written with what they did, and never changed. A tenant's administrator sees what
/// concerns his tenant.
#[utoipa::path(get, path = "/v1/admin/audit-log", tag = "administration", params(LogQuery),
    responses((status = 200, body = List<LogEntryView>), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 403, body = Problem), (status = 422, body = Problem)))]
pub async fn audit_log(
    State(app): State<App>,
    principal: Principal,
    query: Result<Query<LogQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<List<LogEntryView>>, Problem> {
    let caller = principal.may(Action::ReadAuditLog)?;
    let Query(query) = query.map_err(|e| Problem::bad_request(e.body_text()))?;
    let (before, limit) = (cursor(query.cursor.as_deref())?, limit(query.limit, 50)?);
    let found = app.desk.audit_log(&caller, before, limit).await?;
    Ok(Json(page(found, limit, |r| r.seq.to_string())))
}
