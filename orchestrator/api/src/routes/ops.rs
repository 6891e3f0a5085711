//! Health, metrics, and the four figures of the field.

use crate::{
    auth::Principal,
    problem::Problem,
    router::App,
    views::{UsageTotals, telemetry::device_metrics},
};
use axum::{
    Json,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use rhumb_control::{Caller, DeskError};
use rhumb_model::{Action, OrderState, TenantName};
use rhumb_store::{OrderFilter, Store};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
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
    responses((status = 200, content_type = "text/plain", body = String), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn metrics(State(app): State<App>, principal: Principal) -> Result<Response, Problem> {
    principal.may(Action::Inspect)?;
    let handle = app.metrics.ok_or_else(|| Problem::not_found("metrics are switched off"))?;
    let text = handle.render() + &device_metrics(&app.desk);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

/// Utilisation, queueing, completion, cost per accelerator-hour.
#[derive(Debug, Clone, Serialize, ToSchema)]
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

/// Means over many orders are read at most once in a while for a tenant.
#[derive(Debug, Clone, Default)]
pub struct FourCache(Arc<Mutex<BTreeMap<TenantName, (Instant, FourView)>>>);

/// How long the figures are good for.
const FOUR_LIFE: Duration = Duration::from_secs(5);
/// How many of the last orders the means are of.
const FOUR_ORDERS: u32 = 100;

impl FourCache {
    fn get(&self, tenant: &TenantName) -> Option<FourView> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(tenant).filter(|(at, _)| at.elapsed() < FOUR_LIFE).map(|(_, view)| view.clone())
    }

    fn put(&self, tenant: &TenantName, view: FourView) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, (at, _)| at.elapsed() < FOUR_LIFE);
        kept.insert(tenant.clone(), (Instant::now(), view));
    }
}

/// Over the caller's last 100 completed orders, a few seconds old at most; utilisation is the federation's.
#[utoipa::path(get, path = "/v1/metrics/four", tag = "operations", responses((status = 200, body = FourView), (status = 401, body = Problem), (status = 403, body = Problem)))]
pub async fn four(State(app): State<App>, principal: Principal) -> Result<Json<FourView>, Problem> {
    let caller = principal.may(Action::ReadWork)?;
    // what an administrator sees is of all tenants
    if caller.sees_all() {
        return Ok(Json(read_four(&app, &caller).await?));
    }
    let tenant = caller.tenant()?;
    if let Some(view) = app.four.get(tenant) {
        return Ok(Json(view));
    }
    let view = read_four(&app, &caller).await?;
    app.four.put(tenant, view.clone());
    Ok(Json(view))
}

async fn read_four(app: &App, caller: &Caller) -> Result<FourView, Problem> {
    let store = app.desk.store();
    let (nodes, held) = tokio::try_join!(store.nodes(), store.holdings()).map_err(DeskError::from)?;
    let total: usize = nodes.iter().map(|n| n.node.devices.len()).sum();
    let busy: u32 = held.replicas.iter().map(|h| u32::from(h.share) * h.devices.len() as u32).sum();
    let filter = OrderFilter { states: vec![OrderState::Completed], limit: FOUR_ORDERS, ..OrderFilter::default() };
    let page = app.desk.orders(caller, filter).await?;
    let (mut queue, mut completion, mut micros, mut seconds) = (Vec::new(), Vec::new(), 0_i64, 0.0);
    for order in &page.items {
        let since = |at: jiff::Timestamp| at.duration_since(order.created).as_millis() as f64 / 1e3;
        if let Some(plan) = &order.plan {
            queue.push(since(plan.start).max(0.0));
        }
        completion.push(since(order.updated));
        let usage = UsageTotals::of(&app.desk.store().usage(order.id).await.map_err(DeskError::from)?);
        micros = micros.saturating_add(usage.cost_micros);
        seconds += usage.accelerator_seconds;
    }
    let mean = |v: &[f64]| (!v.is_empty()).then(|| v.iter().sum::<f64>() / v.len() as f64);
    Ok(FourView {
        utilisation_pct: if total == 0 { 0.0 } else { f64::from(busy) / 10.0 / total as f64 },
        queue_s_mean: mean(&queue),
        completion_s_mean: mean(&completion),
        cost_per_accelerator_hour_micros: (seconds > 0.0).then(|| (micros as f64 * 3_600.0 / seconds) as i64),
        accelerators_total: total as u32,
        accelerators_held: busy.div_ceil(1_000),
        orders: page.items.len() as u32,
        currency: app.desk.base().currency().to_string(),
    })
}
