//! `/agent/v1`: what agents call.

use crate::{
    auth::Agent,
    body::{MAX_REPORT, read},
    problem::Problem,
    router::App,
};
use axum::{
    Json,
    extract::{Request, State},
};
use rhumb_wire::{Report, SyncReply};

/// One call for everything: the agent's report in, its desired state out.
#[utoipa::path(post, path = "/agent/v1/sync", tag = "agents", request_body(content = Object),
    responses((status = 200, body = Object), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem)))]
pub async fn sync(State(app): State<App>, Agent(point): Agent, request: Request) -> Result<Json<SyncReply>, Problem> {
    let body = read(request.into_body(), MAX_REPORT).await?;
    let report: Report =
        serde_json::from_slice(&body).map_err(|e| Problem::bad_request(format!("the report cannot be read: {e}")))?;
    Ok(Json(app.desk.sync(&point, report).await?))
}
