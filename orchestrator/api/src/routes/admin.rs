//! `/v1/admin`: for platform administrators.

use super::{id, idempotency, shown_once};
use crate::{auth::Principal, body::Document, problem::Problem, router::App};
use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use jiff::Timestamp;
use rhumb_control::{audit::Audit, token::Bearer};
use rhumb_model::document;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Checks the invariants on the live system.
#[utoipa::path(get, path = "/v1/admin/audit", tag = "administration",
    responses((status = 200, body = Object), (status = 401, body = Problem), (status = 403, body = Problem)))]
pub async fn audit(State(app): State<App>, principal: Principal) -> Result<Json<Audit>, Problem> {
    principal.admin()?;
    Ok(Json(app.desk.audit().await?))
}

/// `drain`: nothing new starts at the site. `undrain`: it takes work again.
#[utoipa::path(post, path = "/v1/admin/sites/{name}/{action}", tag = "administration",
    params(("name" = String, Path), ("action" = String, Path, description = "drain or undrain")),
    responses((status = 204), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn drain(
    State(app): State<App>,
    Principal(caller): Principal,
    Path((name, action)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let draining = match action.as_str() {
        "drain" => true,
        "undrain" => false,
        _ => return Err(Problem::not_found("the actions on a site are drain and undrain")),
    };
    app.desk.drain(&caller, &id("site", &name)?, draining).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BearerKind {
    Tenant,
    Agent,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    pub kind: BearerKind,
    /// Tenant, or the point that the agent is.
    pub subject: String,
    /// RFC 3339; absent: it does not end.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
pub struct TokenView {
    /// Shown this once; only its hash is kept.
    pub token: String,
    pub kind: BearerKind,
    pub subject: String,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires: Option<Timestamp>,
}

/// Makes a token for a tenant or for the agent of a point.
#[utoipa::path(post, path = "/v1/admin/tokens", tag = "administration", request_body = TokenRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key again is refused: a token is shown once")),
    responses((status = 201, body = TokenView), (status = 401, body = Problem), (status = 403, body = Problem), (status = 409, body = Problem),
        (status = 422, body = Problem)))]
pub async fn create_token(
    State(app): State<App>,
    principal: Principal,
    headers: HeaderMap,
    body: Document,
) -> Result<Response, Problem> {
    principal.admin()?;
    let asked: TokenRequest = document::read(&body.text).map_err(|e| Problem::document(&e))?;
    let key = idempotency(&headers, "POST /v1/admin/tokens", body.sha256)?;
    let wrong = |e: rhumb_model::name::NameError| Problem::field("/subject", e.to_string());
    let bearer = match asked.kind {
        BearerKind::Tenant => Bearer::Tenant(asked.subject.parse().map_err(wrong)?),
        BearerKind::Agent => Bearer::Agent(asked.subject.parse().map_err(wrong)?),
    };
    let made = app.desk.create_token(&principal.0, &bearer, asked.expires, key).await?;
    let view = TokenView { token: made.token, kind: asked.kind, subject: asked.subject, expires: made.expires };
    Ok(shown_once(view))
}
