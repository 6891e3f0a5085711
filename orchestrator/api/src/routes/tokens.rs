//! `/v1/admin/tokens`: who may do what, until when.

use super::{cursor, id, idempotency, limit, page, shown_once};
use crate::{auth::Principal, body::Document, problem::Problem, router::App, views::List};
use axum::{
    Json,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use jiff::Timestamp;
use rhumb_control::token::Wish;
use rhumb_model::{Action, Role, Scope, document, name::NameError};
use rhumb_store::TokenRecord;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BearerKind {
    Tenant,
    Agent,
}

/// Either `role` with the tenant, sites or point that it is about, or the former form, `kind` with `subject`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// Former form: `tenant` is a member, `agent` an agent.
    #[serde(default)]
    pub kind: Option<BearerKind>,
    /// Former form: tenant, or the point that the agent is.
    #[serde(default)]
    pub subject: Option<String>,
    /// `viewer`, `member`, `tenant-admin`, `site-operator`, `platform-admin` or `agent`.
    #[serde(default)]
    pub role: Option<String>,
    /// Of a viewer, member or tenant administrator; of a platform administrator the one that his own orders are of.
    /// Absent: the caller's.
    #[serde(default)]
    pub tenant: Option<String>,
    /// Of a site operator.
    #[serde(default)]
    pub sites: Option<Vec<String>>,
    /// Of an agent.
    #[serde(default)]
    pub point: Option<String>,
    /// RFC 3339; absent: it does not end.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires: Option<Timestamp>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TokenView {
    pub id: String,
    pub role: String,
    /// Of roles that are of a tenant.
    pub tenant: Option<String>,
    /// Of a site operator.
    pub sites: Option<Vec<String>>,
    /// Of an agent.
    pub point: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub created: Timestamp,
    /// Id of the token that made it, or what else did.
    pub created_by: String,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked: Option<Timestamp>,
}

impl From<TokenRecord> for TokenView {
    fn from(record: TokenRecord) -> Self {
        let (tenant, sites, point) = match record.scope {
            Scope::Tenant(tenant) => (Some(tenant.to_string()), None, None),
            Scope::Sites(sites) => (None, Some(sites.iter().map(ToString::to_string).collect()), None),
            Scope::Point(point) => (None, None, Some(point.to_string())),
        };
        Self {
            id: record.id.to_string(),
            role: record.role.to_string(),
            tenant,
            sites,
            point,
            created: record.created,
            created_by: record.created_by,
            expires: record.expires,
            revoked: record.revoked,
        }
    }
}

#[derive(Serialize, ToSchema)]
pub struct NewTokenView {
    /// Shown this once; only its hash is kept.
    pub token: String,
    /// As asked for in the former form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<BearerKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    #[serde(flatten)]
    pub about: TokenView,
}

/// Makes a token. A tenant's administrator makes those of his tenant, up to his own role.
#[utoipa::path(post, path = "/v1/admin/tokens", tag = "administration", request_body = TokenRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key again is refused: a token is shown once")),
    responses((status = 201, body = NewTokenView), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 403, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem),
        (status = 415, body = Problem), (status = 422, body = Problem)))]
pub async fn create(
    State(app): State<App>,
    principal: Principal,
    headers: HeaderMap,
    body: Document,
) -> Result<Response, Problem> {
    let caller = principal.may(Action::ManageTokens)?;
    let asked: TokenRequest = document::read(&body.text).map_err(|e| Problem::document(&e))?;
    let key = idempotency(&headers, "POST /v1/admin/tokens", body.sha256)?;
    let own = caller.tenant()?.to_string();
    let (kind, subject) = (asked.kind, asked.subject.clone());
    let made = app.desk.create_token(&caller, wish(asked, own)?, key).await?;
    Ok(shown_once(NewTokenView { token: made.token, kind, subject, about: made.record.into() }))
}

fn wish(asked: TokenRequest, own: String) -> Result<Wish, Problem> {
    let wrong = |pointer: &'static str| move |e: NameError| Problem::field(pointer, e.to_string());
    let TokenRequest { kind, subject, role, tenant, sites, point, expires } = asked;
    if let Some(kind) = kind {
        if role.is_some() || tenant.is_some() || sites.is_some() || point.is_some() {
            return Err(Problem::field("/kind", "it goes with subject alone: leave it out where there is a role"));
        }
        let subject =
            subject.ok_or_else(|| Problem::field("/subject", "it is missing: name the tenant or the point"))?;
        let (role, scope) = match kind {
            BearerKind::Tenant => (Role::Member, Scope::Tenant(subject.parse().map_err(wrong("/subject"))?)),
            BearerKind::Agent => (Role::Agent, Scope::Point(subject.parse().map_err(wrong("/subject"))?)),
        };
        return Ok(Wish { role, scope, expires });
    }
    if subject.is_some() {
        return Err(Problem::field("/subject", "it goes with kind: name tenant, sites or point"));
    }
    let role = role.ok_or_else(|| Problem::field("/role", "it is missing: say what the token is for"))?;
    let role: Role = role.parse().map_err(|e: rhumb_model::role::RoleError| Problem::field("/role", e.to_string()))?;
    let given = [("/tenant", tenant.is_some()), ("/sites", sites.is_some()), ("/point", point.is_some())];
    let meant = match role {
        Role::SiteOperator => "/sites",
        Role::Agent => "/point",
        Role::Viewer | Role::Member | Role::TenantAdmin | Role::PlatformAdmin => "/tenant",
    };
    if let Some((pointer, _)) = given.into_iter().find(|(pointer, given)| *given && *pointer != meant) {
        return Err(Problem::field(pointer, format!("a token of role {role} has none: leave it out")));
    }
    let scope = match role {
        Role::SiteOperator => {
            let sites = sites.ok_or_else(|| Problem::field("/sites", "it is missing: name the operator's sites"))?;
            Scope::Sites(sites.iter().map(|s| s.parse()).collect::<Result<_, _>>().map_err(wrong("/sites"))?)
        }
        Role::Agent => {
            let point = point.ok_or_else(|| Problem::field("/point", "it is missing: name the agent's point"))?;
            Scope::Point(point.parse().map_err(wrong("/point"))?)
        }
        Role::Viewer | Role::Member | Role::TenantAdmin | Role::PlatformAdmin => {
            Scope::Tenant(tenant.unwrap_or(own).parse().map_err(wrong("/tenant"))?)
        }
    };
    Ok(Wish { role, scope, expires })
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TokensQuery {
    /// `next` of the page before.
    cursor: Option<String>,
    /// 1 to 200, default 50.
    limit: Option<u32>,
}

/// Tokens, newest first, without what would open anything. A tenant's administrator sees those of his tenant.
#[utoipa::path(get, path = "/v1/admin/tokens", tag = "administration", params(TokensQuery),
    responses((status = 200, body = List<TokenView>), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 403, body = Problem), (status = 422, body = Problem)))]
pub async fn list(
    State(app): State<App>,
    principal: Principal,
    query: Result<Query<TokensQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<List<TokenView>>, Problem> {
    let caller = principal.may(Action::ManageTokens)?;
    let Query(query) = query.map_err(|e| Problem::bad_request(e.body_text()))?;
    let (before, limit) = (cursor(query.cursor.as_deref())?, limit(query.limit, 50)?);
    let found = app.desk.tokens(&caller, before, limit).await?;
    Ok(Json(page(found, limit, |t| t.id.to_string())))
}

/// Revokes a token: the next request with it is refused, and streams that it opened end within seconds.
#[utoipa::path(delete, path = "/v1/admin/tokens/{id}", tag = "administration", params(("id" = String, Path)),
    responses((status = 204), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn revoke(
    State(app): State<App>,
    principal: Principal,
    Path(token): Path<String>,
) -> Result<StatusCode, Problem> {
    let caller = principal.may(Action::ManageTokens)?;
    app.desk.revoke_token(&caller, id("token", &token)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
