//! What one window of a link is remembered by. Records of successive windows, or of parallel sessions, add up.

use serde::{Deserialize, Serialize};

use crate::directions::Before;
use crate::figures::{Figures, PathSeen, Probe};
use crate::reflection::FarCount;
use crate::sample::LONGEST_NS;
use crate::{Apparent, FarClock, Spread};

/// Probes of one window, and its length: more are not believed. A million of them are still counted in 64 bits.
const MOST_PROBES: u64 = 1 << 32;
const MOST_LENGTH_NS: u64 = 86_400_000_000_000;

/// Counts and histograms of a window whose probes are all answered or given up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When the window began, in nanoseconds of the sender's monotonic clock.
    pub start_ns: u64,
    /// Its length in nanoseconds; after merging, the sum.
    pub length_ns: u64,
    /// Probes sent.
    pub sent: u64,
    /// Probes answered.
    pub received: u64,
    /// Answers whose times could not be true.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// Answers beyond the first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duplicates: u64,
    /// First answers that came after the answer to a later probe.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reordered: u64,
    /// Round trips.
    pub round_trips: Spread,
    /// Mean difference of successive round trips in nanoseconds (IPDV), weighted by count when merged.
    pub successive_ns: u64,
    /// The way there.
    pub forward: Way,
    /// The way back.
    pub backward: Way,
    /// What the far clock was good for at the end of the window; `None` if nothing was measured.
    pub far_clock: Option<FarClock>,
    /// Marks of the path at the end of the window.
    pub path: PathSeen,
}

/// One direction of a window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Way {
    /// Probes lost on it; where the reflector keeps no count all are on the way there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Copies that came beyond the first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duplicates: u64,
    /// Packets that came after one sent later.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reordered: u64,
    /// Delay less the least of the window (PDV), the clocks' offset and drift taken out; empty without the far end's times.
    pub variation: Spread,
    /// Mean difference of successive delays in nanoseconds (IPDV).
    pub successive_ns: u64,
    /// Delay; empty unless both clocks followed UTC well enough.
    #[serde(default, skip_serializing_if = "Spread::is_empty")]
    pub delay: Spread,
}

/// What is most often none is not written down.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Record {
    pub(crate) fn of(
        probes: &[&Probe],
        before: Before,
        count: FarCount,
        start_ns: u64,
        length_ns: u64,
        now_ns: u64,
    ) -> Self {
        let figures = Figures::of(probes, before, count, now_ns, length_ns);
        let samples = probes.iter().filter_map(|probe| Some((probe.sent_ns, probe.outcome.as_ref()?.sample?)));
        let mut round_trips = Spread::default();
        let (mut delays_there, mut delays_back) = (Spread::default(), Spread::default());
        for (_, sample) in samples.clone() {
            round_trips.record(sample.rtt_ns);
            if let Some(one_way) = sample.one_way {
                delays_there.record(one_way.forward_ns);
                delays_back.record(one_way.backward_ns);
            }
        }
        let variation = |of: fn(Apparent) -> i64| {
            let points: Vec<_> = samples.clone().filter_map(|(at, sample)| Some((at, of(sample.apparent?)))).collect();
            let mut spread = Spread::default();
            for above_ns in crate::variation::above_least(&points) {
                spread.record(above_ns);
            }
            spread
        };
        let successive = |of: Option<crate::Variation>| of.map_or(0, |variation| variation.successive_ns);
        Self {
            start_ns,
            length_ns,
            sent: figures.sent,
            received: figures.received,
            refused: figures.refused,
            duplicates: figures.duplicates,
            reordered: figures.reordered,
            round_trips,
            successive_ns: figures.round_trips.map_or(0, |trips| trips.ipdv_ns),
            forward: Way {
                lost: figures.lost_forward,
                duplicates: figures.duplicates_forward,
                reordered: figures.reordered_forward,
                variation: variation(|apparent| apparent.forward_ns),
                successive_ns: successive(figures.variation_forward),
                delay: delays_there,
            },
            backward: Way {
                lost: figures.lost_backward,
                duplicates: figures.duplicates_backward,
                reordered: figures.reordered_backward,
                variation: variation(|apparent| apparent.backward_ns),
                successive_ns: successive(figures.variation_backward),
                delay: delays_back,
            },
            far_clock: figures.far_clock,
            path: figures.path,
        }
    }

    /// Whether a record that somebody tells of can be one: no part is more than the whole, and nothing is so much that adding
    /// up records could overflow.
    pub fn can_be(&self) -> bool {
        let ways = [&self.forward, &self.backward];
        let counts = [self.refused, self.duplicates, self.reordered].into_iter();
        let counts = counts.chain(ways.iter().flat_map(|way| [way.duplicates, way.reordered]));
        let times = [self.successive_ns, self.forward.successive_ns, self.backward.successive_ns];
        let spreads = ways.iter().flat_map(|way| [&way.variation, &way.delay]).chain([&self.round_trips]);
        self.sent <= MOST_PROBES
            && self.length_ns <= MOST_LENGTH_NS
            && self.received <= self.sent
            && ways.iter().all(|way| way.lost <= self.sent - self.received)
            && counts.into_iter().all(|count| count <= MOST_PROBES)
            && times.into_iter().all(|ns| ns <= LONGEST_NS)
            && spreads.into_iter().all(|spread| spread.len() <= self.received)
    }

    /// Adds a later window to this one.
    pub fn merge(&mut self, later: &Self) {
        let weights = (self.round_trips.len(), later.round_trips.len());
        self.successive_ns = mean((self.successive_ns, later.successive_ns), weights);
        self.start_ns = self.start_ns.min(later.start_ns);
        self.length_ns = self.length_ns.saturating_add(later.length_ns);
        self.sent += later.sent;
        self.received += later.received;
        self.refused += later.refused;
        self.duplicates += later.duplicates;
        self.reordered += later.reordered;
        self.round_trips.merge(&later.round_trips);
        self.forward.merge(&later.forward);
        self.backward.merge(&later.backward);
        self.far_clock = later.far_clock.or(self.far_clock);
        if later.received > 0 {
            let changed = self.path.changed || later.path.changed;
            self.path = PathSeen { changed, ..later.path };
        }
    }
}

impl Way {
    fn merge(&mut self, later: &Self) {
        let weights = (self.variation.len(), later.variation.len());
        self.successive_ns = mean((self.successive_ns, later.successive_ns), weights);
        self.lost += later.lost;
        self.duplicates += later.duplicates;
        self.reordered += later.reordered;
        self.variation.merge(&later.variation);
        self.delay.merge(&later.delay);
    }
}

fn mean(values: (u64, u64), weights: (u64, u64)) -> u64 {
    let sum = u128::from(values.0) * u128::from(weights.0) + u128::from(values.1) * u128::from(weights.1);
    // no more than the greater of the two
    sum.checked_div(u128::from(weights.0) + u128::from(weights.1)).unwrap_or(0) as u64
}
