//! Health, metrics, and the four figures of the field.

use crate::{auth::Principal, problem::Problem, router::App};
use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use rhumb_control::DeskError;
use rhumb_store::Store;
use serde::Serialize;
use utoipa::ToSchema;

/// The process is alive.
#[utoipa::path(get, path = "/healthz", tag = "operations", security(()), responses((status = 200, body = String)))]
pub async fn healthz() -> &'static str {
    "ok"
}

/// It can take orders: storage answers.
#[utoipa::path(get, path = "/readyz", tag = "operations", security(()), responses((status = 200, body = String), (status = 503, body = Problem)))]
pub async fn readyz(State(app): State<App>) -> Result<&'static str, Problem> {
    app.desk.store().ping().await.map_err(DeskError::from)?;
    Ok("ready")
}

/// Prometheus text format.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, content_type = "text/plain", body = String), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub async fn metrics(State(app): State<App>, principal: Principal) -> Result<Response, Problem> {
    principal.admin()?;
    let handle = app.metrics.ok_or_else(|| Problem::not_found("metrics are switched off"))?;
    let live = app.desk.store().live_orders().await.map_err(DeskError::from)?;
    for state in rhumb_model::OrderState::ALL.iter().filter(|s| !s.is_final()) {
        let count = live.iter().filter(|o| o.state == *state).count();
        metrics::gauge!("rhumb_orders_live", "state" => state.as_str()).set(count as f64);
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], handle.render()).into_response())
}

/// Utilisation, queueing, completion, cost per accelerator-hour.
#[derive(Debug, Serialize, ToSchema)]
pub struct FourView {
    pub utilisation_pct: f64,
    pub queue_s_mean: Option<f64>,
    pub completion_s_mean: Option<f64>,
    pub cost_per_accelerator_hour_micros: Option<i64>,
    pub accelerators_total: u32,
    pub accelerators_held: u32,
    /// How many ended orders the means are of.
    pub orders: u32,
    pub currency: String,
}

/// Over the caller's last 200 completed orders; utilisation is the federation's, now.
#[utoipa::path(get, path = "/v1/metrics/four", tag = "operations", responses((status = 200, body = FourView), (status = 401, body = Problem)))]
pub async fn four(
    State(app): State<App>,
    Principal(caller): Principal,
) -> Result<(StatusCode, Json<FourView>), Problem> {
    let store = app.desk.store();
    let nodes = store.nodes().await.map_err(DeskError::from)?;
    let held = store.holdings().await.map_err(DeskError::from)?;
    let total: usize = nodes.iter().map(|n| n.node.devices.len()).sum();
    let busy: u32 = held.replicas.iter().map(|h| u32::from(h.share) * h.devices.len() as u32).sum();
    let filter = rhumb_store::OrderFilter {
        states: vec![rhumb_model::OrderState::Completed],
        limit: 200,
        ..rhumb_store::OrderFilter::default()
    };
    let page = app.desk.orders(&caller, filter).await?;
    let (mut queue, mut completion, mut micros, mut seconds) = (Vec::new(), Vec::new(), 0_i64, 0.0);
    for order in &page.items {
        let since = |at: jiff::Timestamp| at.duration_since(order.created).as_millis() as f64 / 1e3;
        if let Some(plan) = &order.plan {
            queue.push(since(plan.start).max(0.0));
        }
        completion.push(since(order.updated));
        let usage = crate::views::UsageTotals::of(&app.desk.usage(&caller, order.id).await?);
        micros += usage.cost_micros;
        seconds += usage.accelerator_seconds;
    }
    let mean = |v: &[f64]| (!v.is_empty()).then(|| v.iter().sum::<f64>() / v.len() as f64);
    let view = FourView {
        utilisation_pct: if total == 0 { 0.0 } else { f64::from(busy) / 10.0 / total as f64 },
        queue_s_mean: mean(&queue),
        completion_s_mean: mean(&completion),
        cost_per_accelerator_hour_micros: (seconds > 0.0).then(|| (micros as f64 * 3_600.0 / seconds) as i64),
        accelerators_total: total as u32,
        accelerators_held: busy.div_ceil(1_000),
        orders: page.items.len() as u32,
        currency: app.desk.base().currency().to_string(),
    };
    Ok((StatusCode::OK, Json(view)))
}
