//! Which of several figures for one link's bandwidth is believed.

use serde::{Deserialize, Serialize};

use crate::bandwidth_run::{Confidence, Found};

/// Where a figure is from, the most trusted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BandwidthMethod {
    /// The contract's committed rate.
    Reserved,
    /// The committed rate less what counters of the interface saw pass.
    Counters,
    /// Budgeted packet trains.
    Trains,
    /// A bounded run of TCP, on demand.
    Tcp,
}

/// A figure for the bandwidth of one directed link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BandwidthEstimate {
    /// What the link carries, or has left where counters say so.
    pub rate_kbps: u64,
    /// Where it is from.
    pub method: BandwidthMethod,
    /// How far to trust it.
    pub confidence: Confidence,
}

/// Octets that passed an interface since some moment, read now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterReading {
    /// On a clock that only runs forward, in microseconds.
    pub at_us: u64,
    /// As counted.
    pub bytes: u64,
}

/// Rates between successive readings that are told apart from none.
const LEAST_READINGS: usize = 6;

/// The rate that a link has left: its committed rate less the 95th percentile of what passed between readings. `None` without
/// enough readings. A counter that was set back (the interface was made anew) ends what was before it.
pub fn residual(committed_kbps: u64, readings: &[CounterReading]) -> Option<BandwidthEstimate> {
    let mut rates = Vec::new();
    for pair in readings.windows(2) {
        let (elapsed, passed) = (pair[1].at_us.checked_sub(pair[0].at_us), pair[1].bytes.checked_sub(pair[0].bytes));
        match (elapsed, passed) {
            // octets x 8,000 / us = kbit/s
            (Some(us), Some(bytes)) if us > 0 => rates.push(u128::from(bytes) * 8_000 / u128::from(us)),
            _ => rates.clear(),
        }
    }
    rates.sort_unstable();
    if rates.len() + 1 < LEAST_READINGS {
        return None;
    }
    let p95 = rates[(rates.len() * 95).div_ceil(100) - 1];
    let rate_kbps = committed_kbps.saturating_sub(u64::try_from(p95).unwrap_or(u64::MAX));
    Some(BandwidthEstimate { rate_kbps, method: BandwidthMethod::Counters, confidence: Confidence::High })
}

impl BandwidthEstimate {
    /// A committed rate: nothing is measured.
    pub fn reserved(rate_kbps: u64) -> Self {
        Self { rate_kbps, method: BandwidthMethod::Reserved, confidence: Confidence::High }
    }

    /// What a run of trains found, if anything.
    pub fn trains(found: &Found) -> Option<Self> {
        let rate_kbps = found.rate_kbps?;
        Some(Self { rate_kbps, method: BandwidthMethod::Trains, confidence: found.confidence })
    }
}

/// The most trusted of the figures at hand.
pub fn most_trusted(figures: impl IntoIterator<Item = BandwidthEstimate>) -> Option<BandwidthEstimate> {
    figures.into_iter().min_by_key(|figure| figure.method)
}
