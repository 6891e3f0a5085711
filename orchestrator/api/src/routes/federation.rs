//! Sites, links, transit points, regions, datasets, and the routes that orders have now.

use super::id;
use crate::{
    auth::Principal,
    problem::Problem,
    router::App,
    views::{
        LinkView, List, RouteView, links as link_views,
        site::{SiteView, TransitView, site as site_view, sites as site_views, transit as transit_views},
    },
};
use axum::{
    Json,
    extract::{Path, Query, State},
};
use rhumb_control::{Caller, DeskError};
use rhumb_model::SiteName;
use rhumb_store::{Holder, OrderFilter, Store, TokenKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::{IntoParams, ToSchema};

/// A tenant sees his own orders named on devices; others' are `held`.
async fn own(app: &App, caller: &Caller) -> Result<impl Fn(&Holder) -> String + use<>, Problem> {
    let live = app.desk.store().live_orders().await.map_err(DeskError::from)?;
    let admin = caller.kind == TokenKind::Admin;
    let mine: BTreeSet<_> = live.iter().filter(|o| admin || o.tenant == caller.tenant).map(|o| o.id).collect();
    Ok(move |holder: &Holder| match holder {
        Holder::Order(id) if mine.contains(id) => id.to_string(),
        Holder::Quote(id) if admin => format!("quote {id}"),
        Holder::Order(_) | Holder::Quote(_) => "held".to_owned(),
    })
}

#[utoipa::path(get, path = "/v1/sites", tag = "federation", responses((status = 200, body = List<SiteView>), (status = 401, body = Problem)))]
pub async fn sites(State(app): State<App>, Principal(caller): Principal) -> Result<Json<List<SiteView>>, Problem> {
    let store = app.desk.store();
    let nodes = store.nodes().await.map_err(DeskError::from)?;
    let points = store.points().await.map_err(DeskError::from)?;
    let held = store.holdings().await.map_err(DeskError::from)?;
    let shown = own(&app, &caller).await?;
    Ok(Json(List::all(site_views(&app.desk, &nodes, &points, &held, &shown))))
}

#[utoipa::path(get, path = "/v1/sites/{name}", tag = "federation", params(("name" = String, Path)),
    responses((status = 200, body = SiteView), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub async fn site(
    State(app): State<App>,
    Principal(caller): Principal,
    Path(name): Path<String>,
) -> Result<Json<SiteView>, Problem> {
    let name: SiteName = id("site", &name)?;
    let store = app.desk.store();
    let nodes = store.nodes().await.map_err(DeskError::from)?;
    let points = store.points().await.map_err(DeskError::from)?;
    let held = store.holdings().await.map_err(DeskError::from)?;
    let shown = own(&app, &caller).await?;
    let found = site_view(&app.desk, &name, &nodes, &points, &held, &shown);
    found.map(Json).ok_or_else(|| Problem::not_found(format!("site {name} does not exist")))
}

/// Configured figures beside measured ones.
#[utoipa::path(get, path = "/v1/links", tag = "federation", responses((status = 200, body = List<LinkView>), (status = 401, body = Problem)))]
pub async fn links(State(app): State<App>, _: Principal) -> Result<Json<List<LinkView>>, Problem> {
    let held = app.desk.store().holdings().await.map_err(DeskError::from)?;
    Ok(Json(List::all(link_views(&app.desk, &held))))
}

#[utoipa::path(get, path = "/v1/links/{id}", tag = "federation", params(("id" = String, Path)),
    responses((status = 200, body = LinkView), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub async fn link(State(app): State<App>, _: Principal, Path(name): Path<String>) -> Result<Json<LinkView>, Problem> {
    let held = app.desk.store().holdings().await.map_err(DeskError::from)?;
    let found = link_views(&app.desk, &held).into_iter().find(|l| l.id == name);
    let shown: String = name.chars().take(40).flat_map(char::escape_default).collect();
    found.map(Json).ok_or_else(|| Problem::not_found(format!("link {shown} does not exist")))
}

#[utoipa::path(get, path = "/v1/transit", tag = "federation", responses((status = 200, body = List<TransitView>), (status = 401, body = Problem)))]
pub async fn transit(State(app): State<App>, _: Principal) -> Json<List<TransitView>> {
    Json(List::all(transit_views(&app.desk)))
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RegionView {
    name: String,
    at: String,
    access_us: u64,
}

#[utoipa::path(get, path = "/v1/regions", tag = "federation", responses((status = 200, body = List<RegionView>), (status = 401, body = Problem)))]
pub async fn regions(State(app): State<App>, _: Principal) -> Json<List<RegionView>> {
    let view = |r: &rhumb_model::federation_file::RegionEntry| RegionView {
        name: r.name.to_string(),
        at: r.at.to_string(),
        access_us: r.access.micros(),
    };
    Json(List::all(app.desk.base().file.regions.iter().map(view).collect()))
}

#[derive(Debug, Serialize, ToSchema)]
pub struct DatasetView {
    name: String,
    size_bytes: u64,
    at: Vec<String>,
}

#[utoipa::path(get, path = "/v1/datasets", tag = "federation", responses((status = 200, body = List<DatasetView>), (status = 401, body = Problem)))]
pub async fn datasets(State(app): State<App>, _: Principal) -> Json<List<DatasetView>> {
    let view = |d: &rhumb_model::federation_file::DatasetEntry| DatasetView {
        name: d.name.to_string(),
        size_bytes: d.size.bytes(),
        at: d.at.iter().map(ToString::to_string).collect(),
    };
    Json(List::all(app.desk.base().file.datasets.iter().map(view).collect()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct RouteQuery {
    /// Also those of orders that have ended.
    #[serde(default)]
    all: bool,
}

/// Routes of the caller's orders, hop by hop.
#[utoipa::path(get, path = "/v1/routes", tag = "federation", params(RouteQuery),
    responses((status = 200, body = List<RouteView>), (status = 401, body = Problem)))]
pub async fn live_routes(
    State(app): State<App>,
    Principal(caller): Principal,
    query: Result<Query<RouteQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<List<RouteView>>, Problem> {
    let Query(query) = query.map_err(|e| Problem::bad_request(e.body_text()))?;
    let live = app.desk.store().live_orders().await.map_err(DeskError::from)?;
    let admin = caller.kind == TokenKind::Admin;
    let mut items: Vec<_> =
        live.iter().filter(|o| admin || o.tenant == caller.tenant).flat_map(RouteView::of).collect();
    if query.all {
        let filter = OrderFilter { limit: 200, ..OrderFilter::default() };
        let page = app.desk.orders(&caller, filter).await?;
        items.extend(
            page.items.iter().filter(|o| o.state.is_final()).flat_map(|o| RouteView::ended(o, app.desk.base())),
        );
    }
    Ok(Json(List::all(items)))
}
