//! What a prober says of one link.

use rhumb_probe_session::{Change, FarClock, Figures, PathSeen, Record, Trend};
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
    /// Of the answers beyond the first, those to copies that reached the reflector.
    #[serde(default)]
    pub duplicates_forward: u64,
    /// Of the answers beyond the first, copies of one answer.
    #[serde(default)]
    pub duplicates_backward: u64,
    /// Probes that reached the reflector after a later one.
    #[serde(default)]
    pub reordered_forward: u64,
    /// Answers that came after one sent later.
    #[serde(default)]
    pub reordered_backward: u64,
    /// Median one-way delay there, if both clocks follow UTC well enough.
    #[serde(default)]
    pub delay_forward_us: Option<u64>,
    /// Median one-way delay back.
    #[serde(default)]
    pub delay_backward_us: Option<u64>,
    /// Delay variation there: 95th percentile less the least; needs no synchronised clock.
    #[serde(default)]
    pub pdv_forward_us: Option<u64>,
    /// Delay variation back.
    #[serde(default)]
    pub pdv_backward_us: Option<u64>,
    /// What the reflector's clock is good for.
    #[serde(default)]
    pub far_clock: Option<FarClock>,
    /// Marks of the path.
    #[serde(default)]
    pub path: PathSeen,
    /// Least round trip that the path is known by, over the recorded windows.
    #[serde(default)]
    pub floor_us: Option<u64>,
    /// Whether the last three recorded windows measured nothing: the figures are old, not zero and not endless.
    #[serde(default)]
    pub stale: bool,
    /// Whether the least round trip moved for good with the last recorded window: from and to.
    #[serde(default)]
    pub min_moved_us: Option<(u64, u64)>,
    /// Whether the last recorded window came by another path: more or fewer hops, or a moved least round trip.
    #[serde(default)]
    pub path_changed: bool,
}

/// One recorded window of a link. Windows of one link add up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkWindow {
    /// The link.
    pub link: String,
    /// When it began, in milliseconds since 1970.
    pub start_unix_ms: u64,
    /// How long ago it ended, by the clock that only runs forward.
    pub ended_ms_ago: u64,
    /// What was measured.
    pub record: Record,
    /// What it shows of the path, beside the windows before it.
    pub change: Change,
}

impl LinkFigures {
    pub(crate) fn new(link: &str, figures: &Figures, trend: &Trend) -> Self {
        let change = trend.change();
        let trips = figures.round_trips.as_ref();
        Self {
            link: link.to_owned(),
            window_us: us(figures.window_ns),
            sent: figures.sent,
            received: figures.received,
            pending: figures.pending,
            lost_forward_ppm: figures.ppm_of_settled(figures.lost_forward),
            lost_backward_ppm: figures.ppm_of_settled(figures.lost_backward),
            rtt_min_us: trips.map(|trips| us_measured(trips.min_ns)),
            rtt_p50_us: trips.map(|trips| us_measured(trips.p50_ns)),
            rtt_p95_us: trips.map(|trips| us_measured(trips.p95_ns)),
            rtt_p99_us: trips.map(|trips| us_measured(trips.p99_ns)),
            jitter_us: trips.map(|trips| us(trips.ipdv_ns)),
            duplicates: figures.duplicates,
            reordered: figures.reordered,
            refused: figures.refused,
            last_reply_age_us: figures.last_reply_age_ns.map(us),
            duplicates_forward: figures.duplicates_forward,
            duplicates_backward: figures.duplicates_backward,
            reordered_forward: figures.reordered_forward,
            reordered_backward: figures.reordered_backward,
            delay_forward_us: figures.one_way.map(|delays| us_measured(delays.forward_p50_ns)),
            delay_backward_us: figures.one_way.map(|delays| us_measured(delays.backward_p50_ns)),
            pdv_forward_us: figures.variation_forward.map(|variation| us(variation.p95_ns)),
            pdv_backward_us: figures.variation_backward.map(|variation| us(variation.p95_ns)),
            far_clock: figures.far_clock,
            path: figures.path,
            floor_us: trend.floor_ns().map(us_measured),
            stale: trend.is_stale(),
            min_moved_us: change.min_moved.map(|(from_ns, to_ns)| (us_measured(from_ns), us_measured(to_ns))),
            path_changed: change.path_changed,
        }
    }
}

/// A delay that was measured: less than a microsecond is the least there is, and not nothing.
pub(crate) fn us_measured(ns: u64) -> u64 {
    us(ns).max(1)
}

pub(crate) fn us(ns: u64) -> u64 {
    ns / 1_000
}
