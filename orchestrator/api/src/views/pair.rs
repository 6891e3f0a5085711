//! Whole ways through transit that nothing is known of.

use super::link::RttView;
use rhumb_control::{Desk, mesh};
use rhumb_store::AnyStore;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub struct PairView {
    pub from: String,
    pub to: String,
    /// Sum of the configured one-way delays of the quickest way.
    pub configured_latency_us: u64,
    /// Measured: half the RTT p50.
    pub latency_us: Option<u64>,
    pub rtt_us: Option<RttView>,
    pub age_ms: Option<u64>,
    pub stale: bool,
}

pub fn pairs(desk: &Desk<AnyStore>) -> Vec<PairView> {
    let now = desk.now();
    let stale_after_ms = desk.config().times.stale_after.micros() / 1_000;
    let state = desk.hub().lock();
    let view = |(from, to, configured): (rhumb_model::PointName, rhumb_model::PointName, rhumb_model::Latency)| {
        let name = |point: &rhumb_model::PointName| point.to_string();
        let (from_name, to_name) = (name(&from), name(&to));
        let known = state.pairs.get(&(from, to));
        let age_ms = known.map(|f| u64::try_from(now.duration_since(f.received_at).as_millis()).unwrap_or(0));
        PairView {
            from: from_name,
            to: to_name,
            configured_latency_us: configured.micros(),
            latency_us: known.map(|f| f.rtt_p50.micros() / 2),
            rtt_us: known.map(|f| RttView {
                min: f.rtt_min.micros(),
                p50: f.rtt_p50.micros(),
                p95: f.rtt_p95.micros(),
            }),
            age_ms,
            stale: age_ms.is_none_or(|age| age > stale_after_ms),
        }
    };
    mesh::ways(desk.base()).into_iter().map(view).collect()
}
