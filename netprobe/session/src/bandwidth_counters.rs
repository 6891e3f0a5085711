//! What counters of a link's traffic say of the rate it has left; no packet is sent for it.

use serde::{Deserialize, Serialize};

/// Octets that passed since some moment, read now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterReading {
    /// On a clock that only runs forward, in microseconds.
    pub at_us: u64,
    /// As counted.
    pub bytes: u64,
}

/// What a link has left of its committed rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residual {
    /// The committed rate less the 95th percentile of what passed.
    pub rate_kbps: u64,
    /// That percentile.
    pub used_p95_kbps: u64,
}

/// Rates between successive readings that are told apart from none.
const LEAST_READINGS: usize = 6;

/// The rate that a link has left: its committed rate less the 95th percentile of what passed between readings. `None` without
/// enough readings. A counter that was set back (the interface was made anew) ends what was before it.
pub fn residual(committed_kbps: u64, readings: &[CounterReading]) -> Option<Residual> {
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
    let used_p95_kbps = u64::try_from(p95).unwrap_or(u64::MAX);
    Some(Residual { rate_kbps: committed_kbps.saturating_sub(used_p95_kbps), used_p95_kbps })
}
