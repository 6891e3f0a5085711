//! `/agent/v1`: what agents call.

use crate::{
    auth::{Agent, By, gone},
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
pub async fn sync(State(app): State<App>, agent: Agent, request: Request) -> Result<Json<SyncReply>, Problem> {
    let body = read(request.into_body(), MAX_REPORT).await?;
    let report: Report =
        serde_json::from_slice(&body).map_err(|e| Problem::bad_request(format!("the report cannot be read: {e}")))?;
    within_ceiling(&app, &agent, &report)?;
    let ended = async {
        match &agent.by {
            By::Certificate(serial) => revoked(&app, serial).await,
            By::Token(hash) => gone(&app, hash).await,
        }
    };
    tokio::select! {
        // what the agent asked for is not answered any more
        () = ended => Err(Problem::unauthorised()),
        reply = app.desk.sync(&agent.point, report) => Ok(Json(reply?)),
    }
}

/// Ends when the certificate is revoked.
async fn revoked(app: &App, serial: &str) {
    let mut trust = app.desk.trust();
    if trust.wait_for(|t| t.as_ref().is_some_and(|t| t.revoked.contains(serial))).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A site cannot grow beyond what it was enrolled for.
fn within_ceiling(app: &App, agent: &Agent, report: &Report) -> Result<(), Problem> {
    let Some(most) = agent.most_devices.filter(|_| report.point == agent.point) else { return Ok(()) };
    let devices = app.desk.accelerators_after(report);
    if devices <= most as usize {
        return Ok(());
    }
    Err(Problem::forbidden(format!(
        "{} reports {devices} accelerators and was enrolled for {most} at most: let it join again with a higher ceiling",
        agent.point
    )))
}
