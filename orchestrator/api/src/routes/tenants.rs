//! `/v1/admin/tenants` and `/v1/admin/quotas`.

use super::{cursor, id, limit, page};
use crate::{auth::Principal, body::Document, problem::Problem, router::App, views::List};
use axum::{
    Json,
    extract::{Path, Query, State},
    http::StatusCode,
};
use jiff::Timestamp;
use rhumb_model::{Action, TenantName, document, name::NameError};
use rhumb_store::{Held, Quota, TenantRecord};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantRequest {
    pub name: String,
}

/// What a tenant may hold at most; null: as many as there are.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QuotaView {
    /// Held by its orders and quotes.
    pub accelerators: Option<u32>,
    /// Orders that have not ended.
    pub orders: Option<u32>,
    /// Binding quotes that have not ended.
    pub quotes: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TenantView {
    pub name: String,
    #[schema(value_type = String, format = DateTime)]
    pub created: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub closed: Option<Timestamp>,
    pub quota: QuotaView,
}

/// What a tenant may hold, and what it holds now.
#[derive(Debug, Serialize, ToSchema)]
pub struct QuotaUseView {
    pub tenant: String,
    pub quota: QuotaView,
    pub held: HeldView,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct HeldView {
    /// Thousandths: a device may be shared.
    pub accelerators_milli: u64,
    pub orders: u32,
    pub quotes: u32,
}

fn quota_view(Quota { accelerators, orders, quotes }: Quota) -> QuotaView {
    QuotaView { accelerators, orders, quotes }
}

impl From<TenantRecord> for TenantView {
    fn from(record: TenantRecord) -> Self {
        let TenantRecord { name, created, closed, quota } = record;
        Self { name: name.to_string(), created, closed, quota: quota_view(quota) }
    }
}

fn quota_use(record: &TenantRecord, held: Held) -> QuotaUseView {
    let Held { accelerators_milli, orders, quotes } = held;
    let held = HeldView { accelerators_milli, orders, quotes };
    QuotaUseView { tenant: record.name.to_string(), quota: quota_view(record.quota), held }
}

/// Makes a tenant. Names of tenants that were closed are not used again.
#[utoipa::path(post, path = "/v1/admin/tenants", tag = "administration", request_body = TenantRequest,
    responses((status = 201, body = TenantView), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 403, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem),
        (status = 415, body = Problem), (status = 422, body = Problem)))]
pub async fn create(
    State(app): State<App>,
    principal: Principal,
    body: Document,
) -> Result<(StatusCode, Json<TenantView>), Problem> {
    let caller = principal.may(Action::ManageTenants)?;
    let asked: TenantRequest = document::read(&body.text).map_err(|e| Problem::document(&e))?;
    let name: TenantName = asked.name.parse().map_err(|e: NameError| Problem::field("/name", e.to_string()))?;
    let made = app.desk.create_tenant(&caller, &name).await?;
    Ok((StatusCode::CREATED, Json(made.into())))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TenantsQuery {
    /// `next` of the page before.
    cursor: Option<String>,
    /// 1 to 200, default 50.
    limit: Option<u32>,
}

/// Tenants by name. A tenant's administrator sees his own.
#[utoipa::path(get, path = "/v1/admin/tenants", tag = "administration", params(TenantsQuery),
    responses((status = 200, body = List<TenantView>), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 403, body = Problem), (status = 422, body = Problem)))]
pub async fn list(
    State(app): State<App>,
    principal: Principal,
    query: Result<Query<TenantsQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<List<TenantView>>, Problem> {
    let caller = principal.may(Action::ReadTenants)?;
    let Query(query) = query.map_err(|e| Problem::bad_request(e.body_text()))?;
    let (after, limit) = (cursor::<TenantName>(query.cursor.as_deref())?, limit(query.limit, 50)?);
    let found = app.desk.tenants(&caller, after.as_ref(), limit).await?;
    Ok(Json(page(found, limit, |t| t.name.to_string())))
}

#[utoipa::path(get, path = "/v1/admin/tenants/{name}", tag = "administration", params(("name" = String, Path)),
    responses((status = 200, body = TenantView), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn get(
    State(app): State<App>,
    principal: Principal,
    Path(name): Path<String>,
) -> Result<Json<TenantView>, Problem> {
    let caller = principal.may(Action::ReadTenants)?;
    let (record, _) = app.desk.tenant(&caller, &id("tenant", &name)?).await?;
    Ok(Json(record.into()))
}

/// Closes a tenant: nothing new is taken from it and its tokens open nothing; what runs goes on. For good.
#[utoipa::path(delete, path = "/v1/admin/tenants/{name}", tag = "administration", params(("name" = String, Path)),
    responses((status = 204), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn close(
    State(app): State<App>,
    principal: Principal,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    let caller = principal.may(Action::ManageTenants)?;
    app.desk.close_tenant(&caller, &id("tenant", &name)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What a tenant may hold, and what it holds now.
#[utoipa::path(get, path = "/v1/admin/quotas/{name}", tag = "administration", params(("name" = String, Path)),
    responses((status = 200, body = QuotaUseView), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn quota(
    State(app): State<App>,
    principal: Principal,
    Path(name): Path<String>,
) -> Result<Json<QuotaUseView>, Problem> {
    let caller = principal.may(Action::ReadTenants)?;
    let (record, held) = app.desk.tenant(&caller, &id("tenant", &name)?).await?;
    Ok(Json(quota_use(&record, held)))
}

/// Says what a tenant may hold from here on; what it holds beyond that stays until it ends.
#[utoipa::path(put, path = "/v1/admin/quotas/{name}", tag = "administration", params(("name" = String, Path)), request_body = QuotaView,
    responses((status = 200, body = QuotaUseView), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 403, body = Problem), (status = 404, body = Problem), (status = 413, body = Problem),
        (status = 415, body = Problem), (status = 422, body = Problem)))]
pub async fn set_quota(
    State(app): State<App>,
    principal: Principal,
    Path(name): Path<String>,
    body: Document,
) -> Result<Json<QuotaUseView>, Problem> {
    let caller = principal.may(Action::ManageTenants)?;
    let QuotaView { accelerators, orders, quotes } = document::read(&body.text).map_err(|e| Problem::document(&e))?;
    let name = id("tenant", &name)?;
    app.desk.set_quota(&caller, &name, Quota { accelerators, orders, quotes }).await?;
    let (record, held) = app.desk.tenant(&caller, &name).await?;
    Ok(Json(quota_use(&record, held)))
}
