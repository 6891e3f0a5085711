//! `/v1/admin`: for platform administrators.

use super::id;
use crate::{auth::Principal, problem::Problem, router::App};
use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use rhumb_control::audit::Audit;

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
