//! What the probes of a window say together.

use serde::{Deserialize, Serialize};

use crate::directions::{Before, Directions};
use crate::reflection::{FarCount, Reflection};
use crate::{Apparent, FarClock, Now, NtpTime, OneWay, Sample, Variation};

/// A probe is lost after this long without an answer, at the least.
pub(crate) const LEAST_LOSS_NS: u64 = 3_000_000_000;
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
    /// Of those, answers to copies of the probe that reached the reflector.
    pub duplicates_forward: u64,
    /// Of those, copies of one answer.
    pub duplicates_backward: u64,
    /// First answers that came after the answer to a later probe.
    pub reordered: u64,
    /// Probes that reached the reflector after a later one (RFC 4737).
    pub reordered_forward: u64,
    /// Answers that came after one sent later.
    pub reordered_backward: u64,
    /// Answers sent that did not arrive, those to copies of a probe included; `None` if the reflector keeps no count.
    pub replies_lost: Option<u64>,
    /// Answers whose times could not be true: received, but without a round trip.
    pub refused: u64,
    /// Octets from the reflector's address that were no answer to a probe of the window, since the session began.
    pub strays: u64,
    /// Round trips; `None` if there was none.
    pub round_trips: Option<RoundTrips>,
    /// Delay of each direction; `None` unless both clocks followed UTC well enough (RFC 7679).
    pub one_way: Option<OneWayDelays>,
    /// Delay variation on the way there; `None` without the far end's times.
    pub variation_forward: Option<Variation>,
    /// Delay variation on the way back.
    pub variation_backward: Option<Variation>,
    /// What the far clock was good for, by the last measurement.
    pub far_clock: Option<FarClock>,
    /// How far the far clock is ahead; `None` without the far end's times.
    pub clock_offset: Option<ClockOffset>,
    /// What the packets met.
    pub path: PathSeen,
    /// Nanoseconds since the last answer of the session; `None` before the first.
    pub last_reply_age_ns: Option<u64>,
}

/// One-way delays of a window in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OneWayDelays {
    /// Least delay there.
    pub forward_min_ns: u64,
    /// Median delay there.
    pub forward_p50_ns: u64,
    /// Least delay back.
    pub backward_min_ns: u64,
    /// Median delay back.
    pub backward_p50_ns: u64,
}

/// How far the far clock is ahead of the near one, by the fastest round trip (as the clock filter of RFC 5905 chooses).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// ((T2 - T1) + (T3 - T4)) / 2 in nanoseconds.
    pub ahead_ns: i64,
    /// It may be wrong by this much, if one way took all of the round trip.
    pub bound_ns: u64,
}

/// Marks of the path on the packets of a window, by its last answer; `None` where an end could not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PathSeen {
    /// Time to live the probe reached the reflector with.
    pub ttl_forward: Option<u8>,
    /// Time to live the answer came with.
    pub ttl_backward: Option<u8>,
    /// Class the probe reached the reflector in.
    pub dscp_forward: Option<u8>,
    /// Class the answer came in.
    pub dscp_backward: Option<u8>,
    /// Whether a time to live differed between answers of the window: the path has got longer or shorter.
    pub changed: bool,
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
    /// The most.
    pub max_ns: u64,
    /// Delay variation (RFC 3393, against the least): 95th percentile less the least.
    pub pdv_ns: u64,
    /// The same of the 99th percentile.
    pub pdv_p99_ns: u64,
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
    pub(crate) sample: Option<Sample>,
    pub(crate) reordered: bool,
    /// The answer that came first.
    pub(crate) first: Reflection,
    /// Answers to copies of the probe.
    pub(crate) others: Vec<Reflection>,
    /// Copies of any of these answers.
    pub(crate) copies: u32,
    pub(crate) path: PathSeen,
}

impl Outcome {
    pub(crate) fn reflections(&self) -> impl Iterator<Item = Reflection> + Clone {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }
}

impl Probe {
    pub(crate) fn new(now: Now) -> Self {
        Self { sent_ns: now.monotonic_ns, sent: now.wall, outcome: None }
    }

    /// The last answer the reflector gave to it, of those known.
    pub(crate) fn last_reflection(&self, count: FarCount) -> Option<Reflection> {
        self.outcome.as_ref()?.reflections().max_by_key(|reflection| reflection.order(count))
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

    pub(crate) fn of(probes: &[&Probe], before: Before, count: FarCount, now_ns: u64, window_ns: u64) -> Self {
        let outcomes = probes.iter().filter_map(|probe| probe.outcome.as_ref());
        let received = outcomes.clone().count() as u64;
        let ways = Directions::of(probes, before, count, now_ns, loss_after_ns(probes.iter().copied()));
        let sent = probes.len() as u64;
        let [variation_forward, variation_backward] = variations(probes);
        Self {
            window_ns,
            sent,
            received,
            pending: sent - received - ways.lost_forward - ways.lost_backward,
            lost_forward: ways.lost_forward,
            lost_backward: ways.lost_backward,
            duplicates: outcomes.clone().map(|outcome| outcome.others.len() as u64 + u64::from(outcome.copies)).sum(),
            duplicates_forward: ways.duplicates_forward,
            duplicates_backward: ways.duplicates_backward,
            reordered: outcomes.clone().filter(|outcome| outcome.reordered).count() as u64,
            reordered_forward: ways.reordered_forward,
            reordered_backward: ways.reordered_backward,
            replies_lost: ways.replies_lost,
            refused: outcomes.clone().filter(|outcome| outcome.sample.is_none()).count() as u64,
            strays: 0,
            round_trips: RoundTrips::of(probes.iter().copied()),
            one_way: OneWayDelays::of(probes),
            variation_forward,
            variation_backward,
            far_clock: samples(probes).map(|(_, sample)| sample.far_clock).last(),
            clock_offset: ClockOffset::of(probes),
            path: PathSeen::of(outcomes.map(|outcome| outcome.path)),
            last_reply_age_ns: None,
        }
    }
}

impl OneWayDelays {
    fn of(probes: &[&Probe]) -> Option<Self> {
        let one_way = samples(probes).filter_map(|(_, sample)| sample.one_way);
        let sorted = |of: fn(OneWay) -> u64| {
            let mut delays: Vec<_> = one_way.clone().map(of).collect();
            delays.sort_unstable();
            Some((*delays.first()?, percentile(&delays, 50)?))
        };
        let (forward_min_ns, forward_p50_ns) = sorted(|delays| delays.forward_ns)?;
        let (backward_min_ns, backward_p50_ns) = sorted(|delays| delays.backward_ns)?;
        Some(Self { forward_min_ns, forward_p50_ns, backward_min_ns, backward_p50_ns })
    }
}

impl ClockOffset {
    fn of(probes: &[&Probe]) -> Option<Self> {
        let timed = samples(probes).filter_map(|(_, sample)| Some((sample.rtt_ns, sample.apparent?)));
        let (rtt_ns, apparent) = timed.min_by_key(|(rtt_ns, _)| *rtt_ns)?;
        let twice_ns = i128::from(apparent.forward_ns) - i128::from(apparent.backward_ns);
        // half the difference of two 64-bit numbers is one
        Some(Self { ahead_ns: (twice_ns / 2) as i64, bound_ns: rtt_ns / 2 })
    }
}

impl PathSeen {
    fn of(seen: impl Iterator<Item = Self>) -> Self {
        seen.reduce(|before, last| {
            let differ = |a: Option<u8>, b: Option<u8>| a.is_some() && b.is_some() && a != b;
            let moved = differ(before.ttl_forward, last.ttl_forward) || differ(before.ttl_backward, last.ttl_backward);
            Self { changed: before.changed || moved, ..last }
        })
        .unwrap_or_default()
    }
}

/// Of the way there and the way back.
fn variations(probes: &[&Probe]) -> [Option<Variation>; 2] {
    let points = |of: fn(Apparent) -> i64| {
        samples(probes).filter_map(|(at, sample)| Some((at, of(sample.apparent?)))).collect::<Vec<_>>()
    };
    [Variation::of(&points(|apparent| apparent.forward_ns)), Variation::of(&points(|apparent| apparent.backward_ns))]
}

/// Measurements with the time their probe was sent at.
fn samples<'a>(probes: &'a [&Probe]) -> impl Iterator<Item = (u64, Sample)> + Clone + 'a {
    probes.iter().filter_map(|probe| Some((probe.sent_ns, probe.outcome.as_ref()?.sample?)))
}

impl RoundTrips {
    fn of<'a>(probes: impl Iterator<Item = &'a Probe>) -> Option<Self> {
        let mut trips: Vec<_> = rtts(probes).collect();
        let steps = trips.windows(2).map(|pair| pair[0].abs_diff(pair[1]));
        let ipdv_ns = steps.sum::<u64>().checked_div(trips.len().saturating_sub(1) as u64).unwrap_or(0);
        trips.sort_unstable();
        let min_ns = *trips.first()?;
        let (p95_ns, p99_ns) = (percentile(&trips, 95)?, percentile(&trips, 99)?);
        Some(Self {
            min_ns,
            p50_ns: percentile(&trips, 50)?,
            p95_ns,
            p99_ns,
            max_ns: *trips.last()?,
            pdv_ns: p95_ns - min_ns,
            pdv_p99_ns: p99_ns - min_ns,
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
    probes.filter_map(|probe| Some(probe.outcome.as_ref()?.sample?.rtt_ns))
}

/// Nearest rank: the least value with at least `percent` of all at or below it.
pub(crate) fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}
