//! `/v1/quotes`.

use super::{id, idempotency};
use crate::{auth::Principal, body::Document, problem::Problem, router::App, views::QuoteView};
use axum::{
    Json,
    extract::{Path, Query, RawQuery, State},
    http::{HeaderMap, StatusCode},
};
use rhumb_model::{Action, Order, Span};
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct QuoteQuery {
    /// How long a binding quote holds, such as `5min`.
    hold: Option<String>,
    /// Decide, hold nothing.
    #[serde(default)]
    dry_run: bool,
}

/// Asks for a price, a place and a path. A binding quote holds them until it expires.
#[utoipa::path(post, path = "/v1/quotes", tag = "quotes",
    params(QuoteQuery, ("Idempotency-Key" = Option<String>, Header, description = "The same key gives the same quote")),
    request_body(content = Object, description = "Order document (JSON or YAML)"),
    responses((status = 201, body = QuoteView), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 409, body = Problem), (status = 413, body = Problem), (status = 415, body = Problem),
        (status = 422, body = Problem), (status = 429, body = Problem), (status = 503, body = Problem)))]
pub async fn create(
    State(app): State<App>,
    principal: Principal,
    RawQuery(asked): RawQuery,
    query: Result<Query<QuoteQuery>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
    body: Document,
) -> Result<(StatusCode, Json<QuoteView>), Problem> {
    let caller = principal.may(Action::Order)?;
    let Query(query) = query.map_err(|e| Problem::bad_request(e.body_text()))?;
    let hold = query.hold.as_deref().map(str::parse::<Span>).transpose();
    let hold = hold.map_err(|e| Problem::field("/hold", e.to_string()))?;
    if hold.is_some_and(|h| h.micros() < 1_000_000) {
        return Err(Problem::field("/hold", "a quote holds for at least a second: use 1s or more, or dry_run"));
    }
    let key = idempotency(&headers, &format!("POST /v1/quotes?{}", asked.unwrap_or_default()), body.sha256)?;
    let order = Order::read(&body.text).map_err(|e| Problem::document(&e))?;
    let quote = app.desk.request_quote(&caller, order, hold, query.dry_run, key).await?;
    Ok((StatusCode::CREATED, Json(quote.into())))
}

#[utoipa::path(get, path = "/v1/quotes/{id}", tag = "quotes", params(("id" = String, Path)),
    responses((status = 200, body = QuoteView), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn get(
    State(app): State<App>,
    principal: Principal,
    Path(quote): Path<String>,
) -> Result<Json<QuoteView>, Problem> {
    let caller = principal.may(Action::ReadWork)?;
    Ok(Json(app.desk.quote(&caller, id("quote", &quote)?).await?.into()))
}

/// Gives back what the quote holds.
#[utoipa::path(delete, path = "/v1/quotes/{id}", tag = "quotes", params(("id" = String, Path)),
    responses((status = 204), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub async fn end(
    State(app): State<App>,
    principal: Principal,
    Path(quote): Path<String>,
) -> Result<StatusCode, Problem> {
    let caller = principal.may(Action::Order)?;
    app.desk.end_quote(&caller, id("quote", &quote)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
