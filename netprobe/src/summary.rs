//! What a run of probes found, as it is printed.

use rhumb_probe_session::{ClockSource, DirectCounts, FarClock, Figures, Reported, Variation};
use serde::{Deserialize, Serialize};

use crate::figures::{us, us_measured};

/// What a run found. Times in microseconds; `None` where nothing was received, or nothing can be said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendSummary {
    /// Probes sent.
    pub sent: u64,
    /// Probes answered.
    pub received: u64,
    /// Probes that did not reach the reflector, or of whose way nothing is known.
    pub lost_forward: u64,
    /// Probes whose answer did not come back.
    pub lost_backward: u64,
    /// Answers beyond the first.
    pub duplicates: u64,
    /// Answers that came after a later probe's.
    pub reordered: u64,
    /// Least round trip, the reflector's time taken out.
    pub rtt_min_us: Option<u64>,
    /// Median round trip.
    pub rtt_p50_us: Option<u64>,
    /// 95th percentile of the round trip.
    pub rtt_p95_us: Option<u64>,
    /// 99th percentile of the round trip.
    pub rtt_p99_us: Option<u64>,
    /// Delay variation: 95th percentile less the least.
    pub pdv_us: Option<u64>,
    /// Mean difference of successive round trips.
    pub ipdv_us: Option<u64>,
    /// Longest round trip.
    #[serde(default)]
    pub rtt_max_us: Option<u64>,
    /// 99th percentile less the least.
    #[serde(default)]
    pub pdv_p99_us: Option<u64>,
    /// What there is more to say of each direction.
    #[serde(default)]
    pub forward: WaySummary,
    /// The way back.
    #[serde(default)]
    pub backward: WaySummary,
    /// Answers the reflector sent that did not arrive, those to copies of a probe included; `None` if it keeps no count.
    #[serde(default)]
    pub replies_lost: Option<u64>,
    /// What the reflector's clock was good for.
    #[serde(default)]
    pub far_clock: Option<FarClock>,
    /// How far the reflector's clock is ahead, by the fastest round trip.
    #[serde(default)]
    pub clock_ahead_us: Option<i64>,
    /// That figure may be wrong by this much.
    #[serde(default)]
    pub clock_ahead_bound_us: Option<u64>,
    /// Packets of the session as both ends count them, if that was asked for and understood.
    #[serde(default)]
    pub counts: Option<DirectCounts>,
    /// What the reflector's clock follows, if that was asked for and understood.
    #[serde(default)]
    pub clock_source: Option<ClockSource>,
    /// Probes still in flight: neither answered nor lost.
    #[serde(default)]
    pub pending: u64,
    /// Answers whose times could not be true.
    #[serde(default)]
    pub refused: u64,
    /// Packets from the reflector's address that were no answer of the run.
    #[serde(default)]
    pub strays: u64,
}

/// One direction of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WaySummary {
    /// Copies beyond the first that arrived.
    pub duplicates: u64,
    /// Packets that arrived after one sent later.
    pub reordered: u64,
    /// Least one-way delay; `None` unless both clocks follow UTC and their errors together are below a tenth of it.
    pub delay_min_us: Option<u64>,
    /// Median one-way delay.
    pub delay_p50_us: Option<u64>,
    /// Delay variation, 95th percentile less the least; needs no synchronised clock.
    pub pdv_us: Option<u64>,
    /// 99th percentile less the least.
    pub pdv_p99_us: Option<u64>,
    /// Mean difference of successive delays.
    pub ipdv_us: Option<u64>,
    /// Time to live the last packet arrived with.
    pub ttl: Option<u8>,
    /// Class the last packet arrived in; for the way there only if the probes asked for it.
    pub dscp: Option<u8>,
}

impl SendSummary {
    pub(crate) fn new(figures: &Figures, reported: Reported) -> Self {
        let trips = figures.round_trips.as_ref();
        let one_way = figures.one_way.as_ref();
        Self {
            sent: figures.sent,
            received: figures.received,
            lost_forward: figures.lost_forward,
            lost_backward: figures.lost_backward,
            duplicates: figures.duplicates,
            reordered: figures.reordered,
            rtt_min_us: trips.map(|trips| us_measured(trips.min_ns)),
            rtt_p50_us: trips.map(|trips| us_measured(trips.p50_ns)),
            rtt_p95_us: trips.map(|trips| us_measured(trips.p95_ns)),
            rtt_p99_us: trips.map(|trips| us_measured(trips.p99_ns)),
            pdv_us: trips.map(|trips| us(trips.pdv_ns)),
            ipdv_us: trips.map(|trips| us(trips.ipdv_ns)),
            rtt_max_us: trips.map(|trips| us_measured(trips.max_ns)),
            pdv_p99_us: trips.map(|trips| us(trips.pdv_p99_ns)),
            forward: WaySummary {
                duplicates: figures.duplicates_forward,
                reordered: figures.reordered_forward,
                delay_min_us: one_way.map(|delays| us_measured(delays.forward_min_ns)),
                delay_p50_us: one_way.map(|delays| us_measured(delays.forward_p50_ns)),
                ttl: figures.path.ttl_forward,
                dscp: figures.path.dscp_forward,
                ..WaySummary::varying(figures.variation_forward)
            },
            backward: WaySummary {
                duplicates: figures.duplicates_backward,
                reordered: figures.reordered_backward,
                delay_min_us: one_way.map(|delays| us_measured(delays.backward_min_ns)),
                delay_p50_us: one_way.map(|delays| us_measured(delays.backward_p50_ns)),
                ttl: figures.path.ttl_backward,
                dscp: figures.path.dscp_backward,
                ..WaySummary::varying(figures.variation_backward)
            },
            replies_lost: figures.replies_lost,
            far_clock: figures.far_clock,
            clock_ahead_us: figures.clock_offset.map(|offset| offset.ahead_ns / 1_000),
            clock_ahead_bound_us: figures.clock_offset.map(|offset| us_measured(offset.bound_ns)),
            counts: reported.direct,
            clock_source: reported.clock_source,
            pending: figures.pending,
            refused: figures.refused,
            strays: figures.strays,
        }
    }
}

impl WaySummary {
    fn varying(variation: Option<Variation>) -> Self {
        Self {
            pdv_us: variation.map(|variation| us(variation.p95_ns)),
            pdv_p99_us: variation.map(|variation| us(variation.p99_ns)),
            ipdv_us: variation.map(|variation| us(variation.successive_ns)),
            ..Self::default()
        }
    }
}
