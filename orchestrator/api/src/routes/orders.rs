//! `/v1/orders`.

use super::{cursor, id, idempotency, if_match, limit, traceparent};
use crate::{
    auth::Principal,
    body::Document,
    problem::Problem,
    router::App,
    views::{EventView, ExplainView, List, LogView, OrderView, UsageView},
};
use axum::{
    Json,
    extract::{Path, Query, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use rhumb_control::intake::Accepted;
use rhumb_model::{Action, Order, OrderState, document};
use rhumb_store::{OrderFilter, OrderRecord};
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    /// One state, or several with commas.
    state: Option<String>,
    name: Option<String>,
    /// `next` of the page before.
    cursor: Option<String>,
    /// 1 to 200, default 50.
    limit: Option<u32>,
}

fn with_etag(status: StatusCode, version: i64, body: impl serde::Serialize) -> Response {
    let mut response = (status, Json(body)).into_response();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

async fn render(app: &App, record: OrderRecord) -> Result<OrderView, Problem> {
    let usage = rhumb_store::Store::usage(app.desk.store(), record.id).await.map_err(rhumb_control::DeskError::from)?;
    Ok(OrderView::new(record, &app.desk, Some(&usage)))
}

/// Orders of the caller's tenant, newest first.
#[utoipa::path(get, path = "/v1/orders", params(ListQuery), tag = "orders",
    responses((status = 200, body = List<OrderView>), (status = 401, body = Problem), (status = 403, body = Problem), (status = 422, body = Problem)))]
pub async fn list(
    State(app): State<App>,
    principal: Principal,
    query: Result<Query<ListQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<List<OrderView>>, Problem> {
    let caller = principal.may(Action::ReadWork)?;
    let Query(query) = query.map_err(|e| Problem::bad_request(e.body_text()))?;
    let states = query.state.as_deref().unwrap_or("").split(',').filter(|s| !s.is_empty());
    let states = states.map(str::parse).collect::<Result<Vec<OrderState>, _>>();
    let states = states.map_err(|e| Problem::field("/state", e.to_string()))?;
    let (before, limit) = (cursor(query.cursor.as_deref())?, limit(query.limit, 50)?);
    let filter = OrderFilter { tenant: None, states, name: query.name, before, limit };
    let page = app.desk.orders(&caller, filter).await?;
    let next = page.next.map(|id| id.to_string());
    let items = page.items.into_iter().map(|o| OrderView::new(o, &app.desk, None)).collect();
    Ok(Json(List { items, next }))
}

/// Orders work: an order document, or `{"quote_id": ...}`. The answer comes as soon as the order is durable.
#[utoipa::path(post, path = "/v1/orders", tag = "orders",
    request_body(content = Object, description = "Order document (JSON or YAML), or {\"quote_id\": ID}"),
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key gives the same order")),
    responses((status = 201, body = OrderView), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 409, body = Problem), (status = 413, body = Problem), (status = 415, body = Problem),
        (status = 422, body = Problem), (status = 429, body = Problem)))]
pub async fn create(
    State(app): State<App>,
    principal: Principal,
    headers: HeaderMap,
    body: Document,
) -> Result<Response, Problem> {
    let caller = principal.may(Action::Order)?;
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct FromQuote {
        quote_id: String,
    }
    let key = idempotency(&headers, "POST /v1/orders", body.sha256)?;
    let trace = traceparent(&headers);
    let accepted = if let Ok(from) = document::read::<FromQuote>(&body.text) {
        let quote = id("quote", &from.quote_id)?;
        app.desk.order_from_quote(&caller, quote, key, trace).await?
    } else {
        let order = Order::read(&body.text).map_err(|e| Problem::document(&e))?;
        app.desk.create_order(&caller, order, key, trace).await?
    };
    let record = match accepted {
        Accepted::New(record) => *record,
        Accepted::Again(id) => app.desk.order(&caller, id).await?,
    };
    let place = format!("/v1/orders/{}", record.id);
    let version = record.version;
    let mut response = with_etag(StatusCode::CREATED, version, OrderView::new(record, &app.desk, None));
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

#[utoipa::path(get, path = "/v1/orders/{id}", tag = "orders", params(("id" = String, Path)),
    responses((status = 200, body = OrderView), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn get(State(app): State<App>, principal: Principal, Path(order): Path<String>) -> Result<Response, Problem> {
    let caller = principal.may(Action::ReadWork)?;
    let record = app.desk.order(&caller, id("order", &order)?).await?;
    let version = record.version;
    Ok(with_etag(StatusCode::OK, version, render(&app, record).await?))
}

/// Cancels: 200 where nothing had begun, 202 while what runs is being stopped.
#[utoipa::path(delete, path = "/v1/orders/{id}", tag = "orders",
    params(("id" = String, Path), ("If-Match" = Option<String>, Header, description = "Only the order as it was with this ETag")),
    responses((status = 200, body = OrderView), (status = 202, body = OrderView), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem),
        (status = 412, body = Problem)))]
pub async fn cancel(
    State(app): State<App>,
    principal: Principal,
    Path(order): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let caller = principal.may(Action::Order)?;
    let order = id("order", &order)?;
    let version = if_match(&headers, app.desk.order(&caller, order).await?.version)?;
    let record = app.desk.cancel(&caller, order, version).await?;
    let status = if record.state.is_final() { StatusCode::OK } else { StatusCode::ACCEPTED };
    let version = record.version;
    Ok(with_etag(status, version, render(&app, record).await?))
}

/// Amends an order that waits to be placed: another order document in the place of its own, decided on anew.
#[utoipa::path(patch, path = "/v1/orders/{id}", tag = "orders",
    request_body(content = Object, description = "Order document (JSON or YAML)"),
    params(("id" = String, Path), ("If-Match" = Option<String>, Header, description = "Only the order as it was with this ETag")),
    responses((status = 200, body = OrderView), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 404, body = Problem), (status = 409, body = Problem), (status = 412, body = Problem),
        (status = 413, body = Problem), (status = 415, body = Problem), (status = 422, body = Problem)))]
pub async fn amend(
    State(app): State<App>,
    principal: Principal,
    Path(order): Path<String>,
    headers: HeaderMap,
    body: Document,
) -> Result<Response, Problem> {
    let caller = principal.may(Action::Order)?;
    let order = id("order", &order)?;
    let version = if_match(&headers, app.desk.order(&caller, order).await?.version)?;
    let document = Order::read(&body.text).map_err(|e| Problem::document(&e))?;
    let record = app.desk.amend(&caller, order, document, version).await?;
    let version = record.version;
    Ok(with_etag(StatusCode::OK, version, render(&app, record).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct ExplainQuery {
    /// With the view that the decision was made on, as a federation file.
    #[serde(default)]
    view: bool,
}

/// Why the order is where it is: chosen, dearer and refused sites, and what would change the answer.
#[utoipa::path(get, path = "/v1/orders/{id}/explain", tag = "orders", params(("id" = String, Path), ExplainQuery),
    responses((status = 200, body = ExplainView), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn explain(
    State(app): State<App>,
    principal: Principal,
    Path(order): Path<String>,
    query: Result<Query<ExplainQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<ExplainView>, Problem> {
    let caller = principal.may(Action::ReadWork)?;
    let Query(query) = query.map_err(|e| Problem::bad_request(e.body_text()))?;
    let (record, decision) = app.desk.decision(&caller, id("order", &order)?).await?;
    let view = render(&app, record).await?;
    Ok(Json(ExplainView::new(view, decision, query.view)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct AfterQuery {
    /// Only what came after this number.
    #[serde(default)]
    after: u64,
    limit: Option<u32>,
}

/// The order's history.
#[utoipa::path(get, path = "/v1/orders/{id}/events", tag = "orders", params(("id" = String, Path), AfterQuery),
    responses((status = 200, body = List<EventView>), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn history(
    State(app): State<App>,
    principal: Principal,
    Path(order): Path<String>,
    query: Result<Query<AfterQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<List<EventView>>, Problem> {
    let caller = principal.may(Action::ReadWork)?;
    let Query(query) = query.map_err(|e| Problem::bad_request(e.body_text()))?;
    let limit = limit(query.limit, 200)?;
    let events = app.desk.events(&caller, id("order", &order)?, query.after, limit).await?;
    let next = (events.len() == limit as usize).then(|| events.last().map(|e| e.number.to_string())).flatten();
    Ok(Json(List { items: events.into_iter().map(EventView::from).collect(), next }))
}

/// Output of the order's replicas as it arrived; `after` counts bytes of text.
#[utoipa::path(get, path = "/v1/orders/{id}/logs", tag = "orders", params(("id" = String, Path), AfterQuery),
    responses((status = 200, body = List<LogView>), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn logs(
    State(app): State<App>,
    principal: Principal,
    Path(order): Path<String>,
    query: Result<Query<AfterQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<List<LogView>>, Problem> {
    let caller = principal.may(Action::ReadWork)?;
    let Query(query) = query.map_err(|e| Problem::bad_request(e.body_text()))?;
    let limit = query.limit.unwrap_or(64 << 10);
    let chunks = app.desk.logs(&caller, id("order", &order)?, query.after, limit).await?;
    let read: usize = chunks.iter().map(|c| c.text.len()).sum();
    let next = (read > 0).then(|| (query.after + read as u64).to_string());
    let view = |l: rhumb_store::record::LogRecord| LogView {
        generation: l.generation,
        component: l.component.to_string(),
        replica: l.replica,
        offset: l.offset,
        text: l.text,
    };
    Ok(Json(List { items: chunks.into_iter().map(view).collect(), next }))
}

/// The bill by item.
#[utoipa::path(get, path = "/v1/orders/{id}/usage", tag = "orders", params(("id" = String, Path)),
    responses((status = 200, body = UsageView), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn usage(
    State(app): State<App>,
    principal: Principal,
    Path(order): Path<String>,
) -> Result<Json<UsageView>, Problem> {
    let caller = principal.may(Action::ReadWork)?;
    let records = app.desk.usage(&caller, id("order", &order)?).await?;
    Ok(Json(UsageView::new(&records, app.desk.base())))
}
