//! What a prober says of one link.

use rhumb_probe_session::Figures;
use serde::{Deserialize, Serialize};

/// One link's window. What was not measured is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkFigures {
    /// The link.
    pub link: String,
    /// Length of the window in microseconds.
    pub window_us: u64,
    /// Probes sent in it.
    pub sent: u64,
    /// Of those, answered.
    pub received: u64,
    /// Of those, neither answered nor given up yet.
    pub pending: u64,
    /// Probes per million, of those whose fate is known, that did not reach the reflector (or of whose way nothing is known).
    pub lost_forward_ppm: Option<u32>,
    /// Probes per million whose answer did not come back.
    pub lost_backward_ppm: Option<u32>,
    /// Least round trip in microseconds, the reflector's time taken out.
    pub rtt_min_us: Option<u64>,
    /// Median round trip.
    pub rtt_p50_us: Option<u64>,
    /// 95th percentile of the round trip.
    pub rtt_p95_us: Option<u64>,
    /// 99th percentile of the round trip.
    pub rtt_p99_us: Option<u64>,
    /// Mean difference of successive round trips (RFC 3393) in microseconds.
    pub jitter_us: Option<u64>,
    /// Answers beyond the first.
    pub duplicates: u64,
    /// Answers that came after a later probe's.
    pub reordered: u64,
    /// Answers whose times could not be true.
    pub refused: u64,
    /// Microseconds since any answer came; `None` before the first.
    pub last_reply_age_us: Option<u64>,
}

impl LinkFigures {
    pub(crate) fn new(link: &str, figures: &Figures) -> Self {
        let trips = figures.round_trips.as_ref();
        Self {
            link: link.to_owned(),
            window_us: us(figures.window_ns),
            sent: figures.sent,
            received: figures.received,
            pending: figures.pending,
            lost_forward_ppm: figures.ppm_of_settled(figures.lost_forward),
            lost_backward_ppm: figures.ppm_of_settled(figures.lost_backward),
            rtt_min_us: trips.map(|trips| us(trips.min_ns)),
            rtt_p50_us: trips.map(|trips| us(trips.p50_ns)),
            rtt_p95_us: trips.map(|trips| us(trips.p95_ns)),
            rtt_p99_us: trips.map(|trips| us(trips.p99_ns)),
            jitter_us: trips.map(|trips| us(trips.ipdv_ns)),
            duplicates: figures.duplicates,
            reordered: figures.reordered,
            refused: figures.refused,
            last_reply_age_us: figures.last_reply_age_ns.map(us),
        }
    }
}

pub(crate) fn us(ns: u64) -> u64 {
    ns / 1_000
}
