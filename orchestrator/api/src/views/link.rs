//! Links: configured figures beside measured ones.

use jiff::Timestamp;
use rhumb_control::Desk;
use rhumb_control::history::{HistoryWay, HistoryWindow};
use rhumb_federation::{BandwidthFigure, Limit, Objection};
use rhumb_model::{BandwidthMethod, Confidence, LinkId, Slots, ratio::whole_micros};
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
    /// The figures that decisions rest on: they move only when three windows in a row say so.
    pub held_rtt_us: Option<HeldView>,
    /// The last time that the path was another, as far as is known.
    pub path_changed: Option<PathChangeView>,
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
    /// Nobody probes it: the one-way delay believed of it from what others say.
    pub estimate_us: Option<u64>,
    /// Why the figure is not believed as it is: `faster_than_light` or `ends_disagree`. Decisions use the worse one.
    pub disputed: Option<&'static str>,
    /// What is known of its rate by the most trusted way: the provider's contract, counters, packet trains, a run of TCP.
    pub bandwidth: Option<BandwidthView>,
    /// By each way, the most trusted first.
    pub bandwidths: Vec<BandwidthView>,
    pub provider: Option<String>,
    pub per_gb_micros: i64,
    pub per_mbps_hour_micros: i64,
    pub jurisdictions: Vec<String>,
    pub encrypted: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct BandwidthView {
    /// What the link carries; by counters, what it has left.
    pub rate_kbps: u64,
    /// What of that is free, where the method tells.
    pub available_kbps: Option<u64>,
    /// `reserved`, `counters`, `trains` or `tcp`.
    #[schema(value_type = String)]
    pub method: BandwidthMethod,
    /// `low`, `medium` or `high`.
    #[schema(value_type = String)]
    pub confidence: Confidence,
    pub age_ms: u64,
    /// What held the prober's claim down: `port` or `peer`.
    pub limited_by: Option<&'static str>,
}

/// What probes said of a link over one window.
#[derive(Debug, Serialize, ToSchema)]
pub struct WindowView {
    /// End of the window.
    #[schema(value_type = String)]
    pub at: Timestamp,
    pub window_us: u64,
    pub sent: u64,
    pub received: u64,
    /// `None`: no probe was answered.
    pub rtt_us: Option<BandView>,
    /// Of the way there.
    pub loss_ppm: Option<u64>,
    /// Of the way back.
    pub loss_back_ppm: Option<u64>,
    /// Copies that came beyond the first, both ways.
    pub duplicates: u64,
    /// Packets that came after one sent later, both ways.
    pub reordered: u64,
    /// Delay variation there: the 95th percentile above the least.
    pub pdv_us: Option<u64>,
    /// The same back.
    pub pdv_back_us: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct BandView {
    pub min: u64,
    pub p50: u64,
    pub p95: u64,
    pub p99: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct HeldView {
    pub min: u64,
    pub p95: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct PathChangeView {
    #[schema(value_type = String)]
    pub at: Timestamp,
    /// From and to, where the least round trip has moved for good; `None`: only the number of hops has.
    pub min_from_us: Option<u64>,
    pub min_to_us: Option<u64>,
}

impl From<HistoryWindow> for WindowView {
    fn from(window: HistoryWindow) -> Self {
        let band = |rtt: rhumb_store::WindowRtt| BandView {
            min: rtt.min.micros(),
            p50: rtt.p50.micros(),
            p95: rtt.p95.micros(),
            p99: rtt.p99.micros(),
        };
        let loss = |way: &HistoryWay| way.loss.map(rhumb_model::Ppm::ppm);
        Self {
            at: window.at,
            window_us: window.length.micros(),
            sent: window.sent,
            received: window.received,
            rtt_us: window.rtt.map(band),
            loss_ppm: loss(&window.forward),
            loss_back_ppm: loss(&window.backward),
            duplicates: window.forward.duplicates + window.backward.duplicates,
            reordered: window.forward.reordered + window.backward.reordered,
            pdv_us: window.forward.variation.map(rhumb_model::Latency::micros),
            pdv_back_us: window.backward.variation.map(rhumb_model::Latency::micros),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RttView {
    pub min: u64,
    pub p50: u64,
    pub p95: u64,
}

fn bandwidth(figure: &BandwidthFigure, now: Timestamp) -> BandwidthView {
    let age = now.duration_since(figure.claim.measured_at).as_millis();
    BandwidthView {
        rate_kbps: figure.rate.kbps(),
        available_kbps: figure.available.map(rhumb_model::Bandwidth::kbps),
        method: figure.claim.method,
        confidence: figure.claim.confidence,
        age_ms: u64::try_from(age).unwrap_or(0),
        limited_by: figure.limited_by.map(|limit| match limit {
            Limit::Port => "port",
            Limit::Peer => "peer",
        }),
    }
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
            let window = state.raw_figures.get(&link.id).map(|told| &told.figures);
            // a capacity that a provider sells is a contract; that of one's own line is what its port can do
            let committed = link.provider.as_ref().map(|_| link.capacity);
            let bandwidths = state.bandwidths.figures(&link.id, committed, now);
            let path = state.figures.path(&link.id);
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
                held_rtt_us: known.map(|f| HeldView { min: f.held_min().micros(), p95: f.held_p95().micros() }),
                path_changed: path.map(|news| PathChangeView {
                    at: news.at,
                    min_from_us: news.min_moved.map(|(from, _)| from.micros()),
                    min_to_us: news.min_moved.map(|(_, to)| to.micros()),
                }),
                loss_ppm: window.and_then(|f| f.loss_forward_ppm),
                jitter_us: known.map(|f| f.jitter.micros()),
                capacity_kbps: link.capacity.kbps(),
                available_kbps: link.capacity.kbps().saturating_sub(reserved_kbps),
                reserved_kbps,
                age_ms,
                stale: age_ms.is_none_or(|a| a > stale_after_ms)
                    || state.figures.is_silent(&link.id)
                    || state.figures.review().untrusted.contains_key(&link.id),
                estimated: known.is_none(),
                estimate_us: state.figures.estimate(&link.id).filter(|_| known.is_none()).map(|rtt| rtt.micros() / 2),
                disputed: state.figures.review().objections.get(&link.id).map(|o| match o {
                    Objection::FasterThanLight { .. } => "faster_than_light",
                    Objection::EndsDisagree { .. } => "ends_disagree",
                }),
                bandwidth: bandwidths.first().map(|figure| bandwidth(figure, now)),
                bandwidths: bandwidths.iter().map(|figure| bandwidth(figure, now)).collect(),
                provider: link.provider.as_ref().map(ToString::to_string),
                per_gb_micros: whole_micros(desk.base().per_gb(&link.id)),
                per_mbps_hour_micros: whole_micros(desk.base().per_mbps_hour(&link.id)),
                jurisdictions: link.jurisdictions.iter().map(ToString::to_string).collect(),
                encrypted: link.encrypted,
            }
        })
        .collect()
}
