//! What the probes of a window say together.

use serde::Serialize;

use crate::{Now, NtpTime};

/// A probe is lost after this long without an answer, at the least.
const LEAST_LOSS_NS: u64 = 3_000_000_000;
/// A probe is lost after this many times the 99th percentile of the round trip.
const LOSS_FACTOR: u64 = 2;
/// And after this long at the most: a window must be able to see its own losses.
const MOST_LOSS_NS: u64 = 8_000_000_000;

/// Counts and statistics of one window. A probe belongs to the window it was sent in, and so do its answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Length of the window in nanoseconds.
    pub window_ns: u64,
    /// Probes sent.
    pub sent: u64,
    /// Probes answered.
    pub received: u64,
    /// Probes neither answered nor given up.
    pub pending: u64,
    /// Probes that did not reach the reflector, or of whose way nothing is known because no answer came after them.
    pub lost_forward: u64,
    /// Probes whose answers did not come back.
    pub lost_backward: u64,
    /// Answers beyond the first.
    pub duplicates: u64,
    /// First answers that came after the answer to a later probe.
    pub reordered: u64,
    /// Answers whose times could not be true: received, but without a round trip.
    pub refused: u64,
    /// Octets from the reflector's address that were no answer to a probe of the window, since the session began.
    pub strays: u64,
    /// Round trips; `None` if there was none.
    pub round_trips: Option<RoundTrips>,
    /// Nanoseconds since the last answer of the session; `None` before the first.
    pub last_reply_age_ns: Option<u64>,
}

/// Round-trip times in nanoseconds, the reflector's own time taken out. Percentiles are by nearest rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RoundTrips {
    /// The least.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Delay variation (RFC 3393, against the least): 95th percentile less the least.
    pub pdv_ns: u64,
    /// Mean difference, without sign, of successive round trips; 0 if there is one only.
    pub ipdv_ns: u64,
}

/// One probe of the window.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    pub(crate) sent_ns: u64,
    pub(crate) sent: NtpTime,
    pub(crate) outcome: Option<Outcome>,
}

/// What became of an answered probe.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) rtt_ns: Option<u64>,
    pub(crate) reflector_sequence: u32,
    pub(crate) reordered: bool,
    pub(crate) duplicates: u32,
}

impl Probe {
    pub(crate) fn new(now: Now) -> Self {
        Self { sent_ns: now.monotonic_ns, sent: now.wall, outcome: None }
    }
}

impl Figures {
    /// Probes given up.
    pub fn lost(&self) -> u64 {
        self.lost_forward + self.lost_backward
    }

    /// Parts per million of `count` among the probes whose fate is known; `None` if there is none.
    pub fn ppm_of_settled(&self, count: u64) -> Option<u32> {
        let settled = self.sent - self.pending;
        // at most 1e6: counts are parts of what is settled
        (count * 1_000_000).checked_div(settled).map(|ppm| ppm.min(1_000_000) as u32)
    }

    pub(crate) fn of<'a>(probes: impl Iterator<Item = &'a Probe> + Clone, now_ns: u64, window_ns: u64) -> Self {
        let outcomes = probes.clone().filter_map(|probe| probe.outcome.as_ref());
        let received = outcomes.clone().count() as u64;
        let losses = Losses::count(probes.clone(), now_ns);
        let sent = probes.clone().count() as u64;
        Self {
            window_ns,
            sent,
            received,
            pending: sent - received - losses.forward - losses.backward,
            lost_forward: losses.forward,
            lost_backward: losses.backward,
            duplicates: outcomes.clone().map(|outcome| u64::from(outcome.duplicates)).sum(),
            reordered: outcomes.clone().filter(|outcome| outcome.reordered).count() as u64,
            refused: outcomes.filter(|outcome| outcome.rtt_ns.is_none()).count() as u64,
            strays: 0,
            round_trips: RoundTrips::of(probes),
            last_reply_age_ns: None,
        }
    }
}

impl RoundTrips {
    fn of<'a>(probes: impl Iterator<Item = &'a Probe>) -> Option<Self> {
        let mut trips: Vec<_> = rtts(probes).collect();
        let steps = trips.windows(2).map(|pair| pair[0].abs_diff(pair[1]));
        let ipdv_ns = steps.sum::<u64>().checked_div(trips.len().saturating_sub(1) as u64).unwrap_or(0);
        trips.sort_unstable();
        let min_ns = *trips.first()?;
        let p95_ns = percentile(&trips, 95)?;
        Some(Self {
            min_ns,
            p50_ns: percentile(&trips, 50)?,
            p95_ns,
            p99_ns: percentile(&trips, 99)?,
            pdv_ns: p95_ns - min_ns,
            ipdv_ns,
        })
    }
}

/// After how long an unanswered probe counts as lost (RFC 7680 leaves it to the tester): max(3 s, 2 x p99), below the window.
pub(crate) fn loss_after_ns<'a>(probes: impl Iterator<Item = &'a Probe>) -> u64 {
    let mut trips: Vec<_> = rtts(probes).collect();
    trips.sort_unstable();
    let p99_ns = percentile(&trips, 99).unwrap_or(0);
    (LOSS_FACTOR * p99_ns).clamp(LEAST_LOSS_NS, MOST_LOSS_NS)
}

fn rtts<'a>(probes: impl Iterator<Item = &'a Probe>) -> impl Iterator<Item = u64> {
    probes.filter_map(|probe| probe.outcome.as_ref()?.rtt_ns)
}

/// Nearest rank: the least value with at least `percent` of all at or below it.
fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[derive(Debug, Default)]
struct Losses {
    forward: u64,
    backward: u64,
}

impl Losses {
    /// Between two answers, the reflector's own count tells how many of the probes between them it has answered: that many
    /// were lost on the way back, the others on the way there.
    fn count<'a>(probes: impl Iterator<Item = &'a Probe> + Clone, now_ns: u64) -> Self {
        let wait_ns = loss_after_ns(probes.clone());
        let mut losses = Self::default();
        let mut before: Option<u32> = None;
        let (mut lost, mut silent) = (0_u64, 0_u64);
        for probe in probes {
            let Some(outcome) = &probe.outcome else {
                silent += 1;
                lost += u64::from(now_ns.saturating_sub(probe.sent_ns) >= wait_ns);
                continue;
            };
            let reflected =
                before.map(|before| u64::from(outcome.reflector_sequence.wrapping_sub(before).wrapping_sub(1)));
            // more than the probes between them: the reflector was restarted, or answers passed each other
            let backward = reflected.filter(|reflected| *reflected <= silent).unwrap_or(0).min(lost);
            losses.backward += backward;
            losses.forward += lost - backward;
            before = Some(outcome.reflector_sequence);
            (lost, silent) = (0, 0);
        }
        losses.forward += lost;
        losses
    }
}
