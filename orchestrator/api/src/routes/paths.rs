//! `/v1/paths`: what placement would use between two points.

use super::id;
use crate::{auth::Principal, problem::Problem, router::App};
use axum::{
    Json,
    extract::{Query, State},
};
use rhumb_model::{Action, Bandwidth, Latency, LinkId, PointName};
use rhumb_placement::{
    Between,
    paths::{
        Answer, Protection,
        answer::{self, Wish},
        disjoint::Apart,
    },
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
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
    /// Asks for a backup too, which shares none of these with the path.
    #[param(inline)]
    disjoint: Option<Disjoint>,
}

/// What a path and its backup must not share.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Disjoint {
    Links,
    /// Neither a link nor a point, but for the ends.
    Points,
    /// Neither a link nor a shared-risk group.
    Risks,
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
    /// Only where a backup was asked for.
    pub backup: Option<BackupView>,
    /// Whether no other path, or no other pair of paths, is cheaper for certain.
    pub proven_cheapest: bool,
    /// What all paths together have free, whatever their delay.
    pub carries_kbps: u64,
    /// Links that limit it: every path crosses one of them.
    pub limited_by: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct BackupView {
    /// Link ids in order.
    pub path: Vec<String>,
    pub points: Vec<String>,
    pub latency_us: u64,
    pub free_kbps: u64,
    pub transfer_micros: i64,
    pub path_micros_per_hour: i64,
}

/// The cheapest path under the bounds, or why there is none.
#[utoipa::path(get, path = "/v1/paths", tag = "federation", params(PathQuery),
    responses((status = 200, body = PathView), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub async fn paths(
    State(app): State<App>,
    principal: Principal,
    query: Result<Query<PathQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<PathView>, Problem> {
    principal.may(Action::ReadFederation)?;
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
    let apart = query.disjoint.map(|disjoint| match disjoint {
        Disjoint::Links => Apart::Links,
        Disjoint::Points => Apart::Points,
        Disjoint::Risks => Apart::Risks,
    });
    let protection = apart.map_or(Protection::None, Protection::Pair);
    let wish = Wish { rate: Bandwidth::from_mbps(query.mbps), bound, gigabytes: query.gb, protection };
    let ends = (from.clone(), to.clone());
    let search = move || answer::answer(&view, &ends.0, &ends.1, wish);
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
    let points = |path: &Between| {
        let hops = path.links.iter().filter_map(|l| base.ends(l)).map(|(_, to)| to.to_string());
        std::iter::once(from.to_string()).chain(hops).collect()
    };
    let ids = |links: &[LinkId]| links.iter().map(ToString::to_string).collect();
    let Answer { path, backup, proven, carries, limited_by } = found;
    Ok(Json(PathView {
        from: from.to_string(),
        to: to.to_string(),
        points: points(&path),
        path: ids(&path.links),
        latency_us: path.latency.micros(),
        free_kbps: path.free.kbps(),
        transfer_micros: path.transfer_micros,
        path_micros_per_hour: path.path_micros_per_hour,
        currency: base.currency().to_string(),
        backup: backup.map(|backup| BackupView {
            points: points(&backup),
            path: ids(&backup.links),
            latency_us: backup.latency.micros(),
            free_kbps: backup.free.kbps(),
            transfer_micros: backup.transfer_micros,
            path_micros_per_hour: backup.path_micros_per_hour,
        }),
        proven_cheapest: proven,
        carries_kbps: carries.kbps(),
        limited_by: ids(&limited_by),
    }))
}
