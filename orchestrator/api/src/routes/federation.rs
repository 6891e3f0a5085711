//! Sites, links, transit points, regions, datasets, and the routes that orders have now.

use super::id;
use crate::{
    auth::Principal,
    problem::Problem,
    router::App,
    views::{
        LinkView, List, PairView, RouteView, WindowView, links as link_views, pairs as pair_views,
        site::{SiteView, TransitView, site as site_view, sites as site_views, transit as transit_views},
    },
};
use axum::{
    Json,
    extract::{Path, Query, State},
};
use jiff::Timestamp;
use rhumb_control::{Caller, DeskError};
use rhumb_model::{Action, LinkId, OrderState, SiteName};
use rhumb_store::{Holder, OrderFilter, Store};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A tenant sees his own orders named on devices; others' are `held`.
pub fn shown<'a>(app: &'a App, caller: &'a Caller) -> impl Fn(&Holder) -> String + 'a {
    move |holder: &Holder| match holder {
        Holder::Order(id) if app.desk.may_name(caller, *id) => id.to_string(),
        Holder::Quote(id) if caller.sees_all() => format!("quote {id}"),
        Holder::Order(_) | Holder::Quote(_) => "held".to_owned(),
    }
}

#[utoipa::path(get, path = "/v1/sites", tag = "federation", responses((status = 200, body = List<SiteView>), (status = 401, body = Problem), (status = 403, body = Problem)))]
pub async fn sites(State(app): State<App>, principal: Principal) -> Result<Json<List<SiteView>>, Problem> {
    let caller = principal.may(Action::ReadFederation)?;
    let store = app.desk.store();
    let nodes = store.nodes().await.map_err(DeskError::from)?;
    let points = store.points().await.map_err(DeskError::from)?;
    let held = store.holdings().await.map_err(DeskError::from)?;
    Ok(Json(List::all(site_views(&app.desk, &nodes, &points, &held, &shown(&app, &caller)))))
}

#[utoipa::path(get, path = "/v1/sites/{name}", tag = "federation", params(("name" = String, Path)),
    responses((status = 200, body = SiteView), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn site(
    State(app): State<App>,
    principal: Principal,
    Path(name): Path<String>,
) -> Result<Json<SiteView>, Problem> {
    let caller = principal.may(Action::ReadFederation)?;
    let name: SiteName = id("site", &name)?;
    let store = app.desk.store();
    let nodes = store.nodes().await.map_err(DeskError::from)?;
    let points = store.points().await.map_err(DeskError::from)?;
    let held = store.holdings().await.map_err(DeskError::from)?;
    let found = site_view(&app.desk, &name, &nodes, &points, &held, &shown(&app, &caller));
    found.map(Json).ok_or_else(|| Problem::not_found(format!("site {name} does not exist")))
}

/// Configured figures beside measured ones.
#[utoipa::path(get, path = "/v1/links", tag = "federation", responses((status = 200, body = List<LinkView>), (status = 401, body = Problem), (status = 403, body = Problem)))]
pub async fn links(State(app): State<App>, principal: Principal) -> Result<Json<List<LinkView>>, Problem> {
    principal.may(Action::ReadFederation)?;
    let held = app.desk.store().holdings().await.map_err(DeskError::from)?;
    Ok(Json(List::all(link_views(&app.desk, &held))))
}

#[utoipa::path(get, path = "/v1/links/{id}", tag = "federation", params(("id" = String, Path)),
    responses((status = 200, body = LinkView), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn link(
    State(app): State<App>,
    principal: Principal,
    Path(name): Path<String>,
) -> Result<Json<LinkView>, Problem> {
    principal.may(Action::ReadFederation)?;
    let held = app.desk.store().holdings().await.map_err(DeskError::from)?;
    let found = link_views(&app.desk, &held).into_iter().find(|l| l.id == name);
    let shown: String = name.chars().take(40).flat_map(char::escape_default).collect();
    found.map(Json).ok_or_else(|| Problem::not_found(format!("link {shown} does not exist")))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct HistoryQuery {
    /// Windows that ended after this; a day before `to` where it is not given.
    #[param(value_type = Option<String>)]
    from: Option<Timestamp>,
    /// And up to this; now where it is not given.
    #[param(value_type = Option<String>)]
    to: Option<Timestamp>,
    /// Most windows, neighbours being put together where there are more: 1 to 2,000, default 500.
    points: Option<u32>,
}

/// Windows in one answer.
const MOST_POINTS: u32 = 2_000;
/// What is looked back on where nothing is said.
const DAY: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

/// Windows of what probes said of a link, oldest first.
#[utoipa::path(get, path = "/v1/links/{id}/history", tag = "federation", params(("id" = String, Path), HistoryQuery),
    responses((status = 200, body = List<WindowView>), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub async fn link_history(
    State(app): State<App>,
    principal: Principal,
    Path(name): Path<String>,
    query: Result<Query<HistoryQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<List<WindowView>>, Problem> {
    principal.may(Action::ReadFederation)?;
    let Query(query) = query.map_err(|e| Problem::bad_request(e.body_text()))?;
    let link: LinkId = id("link", &name)?;
    let end = query.to.unwrap_or_else(|| app.desk.now());
    let from = query.from.or_else(|| end.checked_sub(DAY).ok()).unwrap_or(Timestamp::MIN);
    let points = query.points.unwrap_or(500);
    if !(1..=MOST_POINTS).contains(&points) {
        return Err(Problem::field("/points", format!("{points} is out of range: use 1 to {MOST_POINTS}")));
    }
    let windows = app.desk.link_history(&link, from, query.to, points as usize).await?;
    Ok(Json(List::all(windows.into_iter().map(WindowView::from).collect())))
}

/// Whole ways between agents that transit joins of whose links nothing can be measured.
#[utoipa::path(get, path = "/v1/pairs", tag = "federation", responses((status = 200, body = List<PairView>), (status = 401, body = Problem), (status = 403, body = Problem)))]
pub async fn pairs(State(app): State<App>, principal: Principal) -> Result<Json<List<PairView>>, Problem> {
    principal.may(Action::ReadFederation)?;
    Ok(Json(List::all(pair_views(&app.desk))))
}

#[utoipa::path(get, path = "/v1/transit", tag = "federation", responses((status = 200, body = List<TransitView>), (status = 401, body = Problem), (status = 403, body = Problem)))]
pub async fn transit(State(app): State<App>, principal: Principal) -> Result<Json<List<TransitView>>, Problem> {
    principal.may(Action::ReadFederation)?;
    Ok(Json(List::all(transit_views(&app.desk))))
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RegionView {
    name: String,
    at: String,
    access_us: u64,
}

#[utoipa::path(get, path = "/v1/regions", tag = "federation", responses((status = 200, body = List<RegionView>), (status = 401, body = Problem), (status = 403, body = Problem)))]
pub async fn regions(State(app): State<App>, principal: Principal) -> Result<Json<List<RegionView>>, Problem> {
    principal.may(Action::ReadFederation)?;
    let view = |r: &rhumb_model::federation_file::RegionEntry| RegionView {
        name: r.name.to_string(),
        at: r.at.to_string(),
        access_us: r.access.micros(),
    };
    Ok(Json(List::all(app.desk.base().file.regions.iter().map(view).collect())))
}

#[derive(Debug, Serialize, ToSchema)]
pub struct DatasetView {
    name: String,
    size_bytes: u64,
    at: Vec<String>,
}

#[utoipa::path(get, path = "/v1/datasets", tag = "federation", responses((status = 200, body = List<DatasetView>), (status = 401, body = Problem), (status = 403, body = Problem)))]
pub async fn datasets(State(app): State<App>, principal: Principal) -> Result<Json<List<DatasetView>>, Problem> {
    principal.may(Action::ReadFederation)?;
    let view = |d: &rhumb_model::federation_file::DatasetEntry| DatasetView {
        name: d.name.to_string(),
        size_bytes: d.size.bytes(),
        at: d.at.iter().map(ToString::to_string).collect(),
    };
    Ok(Json(List::all(app.desk.base().file.datasets.iter().map(view).collect())))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct RouteQuery {
    /// Also those of orders that have ended.
    #[serde(default)]
    all: bool,
    /// `next` of the page before.
    cursor: Option<String>,
    /// Most orders that one page looks at: 1 to 200, default 200.
    limit: Option<u32>,
}

/// Routes of the caller's orders, hop by hop; youngest order first.
#[utoipa::path(get, path = "/v1/routes", tag = "federation", params(RouteQuery),
    responses((status = 200, body = List<RouteView>), (status = 401, body = Problem), (status = 403, body = Problem), (status = 422, body = Problem)))]
pub async fn live_routes(
    State(app): State<App>,
    principal: Principal,
    query: Result<Query<RouteQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<List<RouteView>>, Problem> {
    let caller = principal.may(Action::ReadWork)?;
    let Query(query) = query.map_err(|e| Problem::bad_request(e.body_text()))?;
    // only what is under way has live routes
    let live = [OrderState::InProgress, OrderState::Cancelling];
    let filter = OrderFilter {
        states: if query.all { Vec::new() } else { live.to_vec() },
        before: super::cursor(query.cursor.as_deref())?,
        limit: super::limit(query.limit, 200)?,
        ..OrderFilter::default()
    };
    let page = app.desk.orders(&caller, filter).await?;
    let routes = page
        .items
        .iter()
        .flat_map(|o| if o.state.is_final() { RouteView::ended(o, app.desk.base()) } else { RouteView::of(o) });
    Ok(Json(List { items: routes.collect(), next: page.next.map(|id| id.to_string()) }))
}
