//! What one window of a link is remembered by. Records of successive windows, or of parallel sessions, add up.

use serde::{Deserialize, Serialize};

use crate::directions::Before;
use crate::figures::{Figures, PathSeen, Probe};
use crate::reflection::FarCount;
use crate::{Apparent, FarClock, Spread};

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
    pub refused: u64,
    /// Answers beyond the first.
    pub duplicates: u64,
    /// First answers that came after the answer to a later probe.
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
    pub lost: u64,
    /// Copies that came beyond the first.
    pub duplicates: u64,
    /// Packets that came after one sent later.
    pub reordered: u64,
    /// Delay less the least of the window (PDV), the clocks' offset and drift taken out; empty without the far end's times.
    pub variation: Spread,
    /// Mean difference of successive delays in nanoseconds (IPDV).
    pub successive_ns: u64,
    /// Delay; empty unless both clocks followed UTC well enough.
    pub delay: Spread,
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
