//! Links: configured figures beside measured ones.

use rhumb_control::Desk;
use rhumb_model::{LinkId, Slots, ratio::whole_micros};
use rhumb_provision::Prices;
use rhumb_store::{AnyStore, Holdings};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub struct LinkView {
    pub id: String,
    pub from: String,
    pub to: String,
    pub configured_latency_us: u64,
    /// Measured: half the RTT p50.
    pub latency_us: Option<u64>,
    pub rtt_us: Option<RttView>,
    /// Of the window, this direction.
    pub loss_ppm: Option<u64>,
    pub jitter_us: Option<u64>,
    pub capacity_kbps: u64,
    /// Capacity less what is reserved at present.
    pub available_kbps: u64,
    pub reserved_kbps: u64,
    /// Of the last reply to a probe.
    pub age_ms: Option<u64>,
    pub stale: bool,
    /// The figures are configured ones: no agent at an end, or not measured yet.
    pub estimated: bool,
    pub provider: Option<String>,
    pub per_gb_micros: i64,
    pub per_mbps_hour_micros: i64,
    pub jurisdictions: Vec<String>,
    pub encrypted: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RttView {
    pub min: u64,
    pub p50: u64,
    pub p95: u64,
}

pub fn links(desk: &Desk<AnyStore>, holdings: &Holdings) -> Vec<LinkView> {
    let mut reserved: BTreeMap<&LinkId, u64> = holdings.reserved.iter().map(|(l, r, _)| (l, r.kbps())).collect();
    let present = Slots::from(desk.now()).first();
    for (link, _, booked) in holdings.slots.iter().filter(|(_, slot, _)| slot.first() == present) {
        *reserved.entry(link).or_default() += booked.kbps();
    }
    let stale_after_ms = desk.config().times.stale_after.micros() / 1_000;
    let now = desk.now();
    let state = desk.hub().lock();
    desk.base()
        .links
        .values()
        .map(|link| {
            // a window without a reply leaves the last known figure, ageing
            let known = state.figures.figure(&link.id);
            let age_ms = known.map(|f| u64::try_from(now.duration_since(f.received_at).as_millis()).unwrap_or(0));
            let window = state.raw_figures.get(&link.id);
            let reserved_kbps = reserved.get(&link.id).copied().unwrap_or(0);
            LinkView {
                id: link.id.to_string(),
                from: link.from.to_string(),
                to: link.to.to_string(),
                configured_latency_us: link.latency.micros(),
                latency_us: known.map(|f| f.rtt_p50.micros() / 2),
                rtt_us: known.map(|f| RttView {
                    min: f.rtt_min.micros(),
                    p50: f.rtt_p50.micros(),
                    p95: f.rtt_p95.micros(),
                }),
                loss_ppm: window.and_then(|f| f.loss_forward_ppm),
                jitter_us: known.map(|f| f.jitter.micros()),
                capacity_kbps: link.capacity.kbps(),
                available_kbps: link.capacity.kbps().saturating_sub(reserved_kbps),
                reserved_kbps,
                age_ms,
                stale: age_ms.is_none_or(|a| a > stale_after_ms),
                estimated: known.is_none(),
                provider: link.provider.as_ref().map(ToString::to_string),
                per_gb_micros: whole_micros(desk.base().per_gb(&link.id)),
                per_mbps_hour_micros: whole_micros(desk.base().per_mbps_hour(&link.id)),
                jurisdictions: link.jurisdictions.iter().map(ToString::to_string).collect(),
                encrypted: link.encrypted,
            }
        })
        .collect()
}
