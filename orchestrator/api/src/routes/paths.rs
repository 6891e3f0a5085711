//! `/v1/paths`: what placement would use between two points.

use super::id;
use crate::{auth::Principal, problem::Problem, router::App};
use axum::{
    Json,
    extract::{Query, State},
};
use rhumb_model::{Bandwidth, Latency, PointName};
use rhumb_placement::path_between;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct PathQuery {
    from: String,
    to: String,
    /// Rate that the path must have free, in Mbit/s.
    #[serde(default)]
    mbps: u64,
    /// Upper bound of the one-way delay, such as `20ms`.
    max_latency: Option<String>,
    /// Volume to be moved, in 10^9 bytes.
    #[serde(default)]
    gb: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct PathView {
    pub from: String,
    pub to: String,
    /// Link ids in order; empty for the same point.
    pub path: Vec<String>,
    pub points: Vec<String>,
    pub latency_us: u64,
    pub free_kbps: u64,
    /// For the volume asked, and for one hour at the rate asked.
    pub transfer_micros: i64,
    pub path_micros_per_hour: i64,
    pub currency: String,
}

/// The cheapest path under the bounds, or why there is none.
#[utoipa::path(get, path = "/v1/paths", tag = "federation", params(PathQuery),
    responses((status = 200, body = PathView), (status = 401, body = Problem), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub async fn paths(
    State(app): State<App>,
    _: Principal,
    query: Result<Query<PathQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<PathView>, Problem> {
    let Query(query) = query.map_err(|e| Problem::bad_request(e.body_text()))?;
    let from: PointName = id("point", &query.from)?;
    let to: PointName = id("point", &query.to)?;
    let bound = query.max_latency.as_deref().map(str::parse::<Latency>).transpose();
    let bound = bound.map_err(|e| Problem::field("/max_latency", e.to_string()))?;
    for (pointer, figure, most) in [("/mbps", query.mbps, 100_000_000), ("/gb", query.gb, 1_000_000_000)] {
        if figure > most {
            return Err(Problem::field(pointer, format!("{figure} is out of range: use at most {most}")));
        }
    }
    let turn = app.desk.turn().await?;
    let view = app.desk.view(app.desk.now()).await?;
    for point in [&from, &to] {
        if !view.points.contains_key(point) {
            return Err(Problem::not_found(format!("point {point} does not exist")));
        }
    }
    let rate = Bandwidth::from_mbps(query.mbps);
    let ends = (from.clone(), to.clone());
    let search = move || path_between(&view, &ends.0, &ends.1, rate, bound, query.gb);
    let found = tokio::task::spawn_blocking(search).await;
    drop(turn);
    let found = found.map_err(|_| Problem::bare(axum::http::StatusCode::INTERNAL_SERVER_ERROR))?.map_err(|reason| {
        let detail = format!("no path: {} (needed {}, free {})", reason.reason, reason.needed, reason.free);
        let mut problem =
            Problem::new(axum::http::StatusCode::UNPROCESSABLE_ENTITY, "refused", "There is no such path", detail);
        problem.refusals.push(reason);
        problem
    })?;
    let base = app.desk.base();
    let hops = found.links.iter().filter_map(|l| base.ends(l)).map(|(_, to)| to.to_string());
    Ok(Json(PathView {
        from: from.to_string(),
        to: to.to_string(),
        points: std::iter::once(from.to_string()).chain(hops).collect(),
        path: found.links.iter().map(ToString::to_string).collect(),
        latency_us: found.latency.micros(),
        free_kbps: found.free.kbps(),
        transfer_micros: found.transfer_micros,
        path_micros_per_hour: found.path_micros_per_hour,
        currency: base.currency().to_string(),
    }))
}
