//! What is reported of a run: means by how much had arrived.

use super::Policy;
use serde::Serialize;

/// Columns 0 to 130: per cent of the cluster's devices that had been asked for.
pub const COLUMNS: usize = 131;

/// The figures of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    pub policy: Policy,
    pub seed: u64,
    /// Of all device capacity, what was allocated: the mean over the events that fall into the column.
    pub alloc_pct: Vec<f64>,
    /// Of the idle device capacity, what the next typical pod could not use; as above.
    pub frag_pct: Vec<f64>,
    pub final_alloc_pct: f64,
    /// Pods that no node fitted.
    pub failed: u64,
    /// Pods that arrived.
    #[serde(skip)]
    pub decisions: u64,
}

/// Sums of the columns while a run goes on.
pub(super) struct Columns {
    total_milli: u64,
    arrived_milli: u64,
    used_milli: u64,
    sums: Vec<Sum>,
}

#[derive(Clone, Default)]
struct Sum {
    events: u64,
    used_milli: u64,
    frag: f64,
}

impl Columns {
    pub(super) fn new(total_milli: u64) -> Self {
        Self { total_milli: total_milli.max(1), arrived_milli: 0, used_milli: 0, sums: vec![Sum::default(); COLUMNS] }
    }

    /// After a pod that asked for `asked_milli`, of which `used_milli` were given; `frag` is fragmented idle capacity
    /// as a share of all idle capacity.
    pub(super) fn add(&mut self, asked_milli: u32, used_milli: u32, frag: f64) {
        self.arrived_milli += u64::from(asked_milli);
        self.used_milli += u64::from(used_milli);
        let column = (200 * self.arrived_milli + self.total_milli) / (2 * self.total_milli);
        let sum = &mut self.sums[(column as usize).min(COLUMNS - 1)];
        sum.events += 1;
        sum.used_milli += self.used_milli;
        sum.frag += frag;
    }

    /// The means; a column that no event fell into repeats the one before.
    pub(super) fn outcome(self, policy: Policy, seed: u64, failed: u64) -> Outcome {
        let total = self.total_milli as f64;
        let mut outcome = Outcome {
            policy,
            seed,
            alloc_pct: Vec::with_capacity(COLUMNS),
            frag_pct: Vec::with_capacity(COLUMNS),
            final_alloc_pct: fourth(self.used_milli as f64 * 100.0 / total),
            failed,
            decisions: self.sums.iter().map(|sum| sum.events).sum(),
        };
        for sum in &self.sums {
            let mean = |of: f64, before: &[f64]| match sum.events {
                0 => before.last().copied().unwrap_or(0.0),
                events => fourth(of * 100.0 / events as f64),
            };
            let alloc = mean(sum.used_milli as f64 / total, &outcome.alloc_pct);
            let frag = mean(sum.frag, &outcome.frag_pct);
            outcome.alloc_pct.push(alloc);
            outcome.frag_pct.push(frag);
        }
        outcome
    }
}

/// To the fourth decimal, which is what is printed.
fn fourth(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_fall_into_the_nearest_column_and_gaps_repeat() {
        let mut columns = Columns::new(1000);
        columns.add(4, 4, 0.5);
        columns.add(0, 0, 0.7);
        columns.add(1, 0, 0.1);
        columns.add(2000, 16, 0.3);
        let outcome = columns.outcome(Policy::Fgd, 1, 1);
        assert_eq!((outcome.alloc_pct[0], outcome.frag_pct[0]), (0.4, 60.0));
        assert_eq!((outcome.alloc_pct[1], outcome.frag_pct[1]), (0.4, 10.0));
        assert_eq!((outcome.alloc_pct[129], outcome.frag_pct[129]), (0.4, 10.0));
        assert_eq!((outcome.alloc_pct[130], outcome.final_alloc_pct, outcome.decisions), (2.0, 2.0, 4));
    }
}
