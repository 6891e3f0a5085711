//! The figures of a replay: what is printed for each policy.

use crate::time::Micros;
use serde::{Serialize, Serializer};

/// Shares in per cent, times in seconds, data in GB (10^9 bytes), money in micro-units of the federation's currency.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    pub policy: String,
    pub seed: u64,
    /// Accelerator-time that finished jobs ran for, of all there was from the first submission to the last finish.
    #[serde(serialize_with = "four")]
    pub utilisation_pct: f64,
    /// From submission to the start of the run that finished: waiting, and moving its data.
    pub queue_s: Spread,
    /// From submission to finish.
    pub completion_s: MeanTail,
    /// Compute, path and transfer of all jobs, by the accelerator-hours of those that finished.
    pub cost_per_accelerator_hour_micros: i64,
    /// Flows that ran over a path slower than their bound; each counts once.
    pub delay_violations: u64,
    /// Over links.
    #[serde(serialize_with = "four")]
    pub gb_moved: f64,
    /// Of idle accelerator-time: what the mean job could not have used, for want of enough devices on one node.
    #[serde(serialize_with = "four")]
    pub fragmentation_pct: f64,
    /// From the first submission to the last finish.
    #[serde(serialize_with = "four")]
    pub makespan_s: f64,
    /// All that were submitted.
    pub jobs: u64,
    /// Those that fit nowhere.
    pub rejected: u64,
    /// How long the replay took; for who measures it to fill in.
    pub wall_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Spread {
    #[serde(serialize_with = "four")]
    pub mean: f64,
    #[serde(serialize_with = "four")]
    pub p50: f64,
    #[serde(serialize_with = "four")]
    pub p99: f64,
    #[serde(serialize_with = "four")]
    pub max: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct MeanTail {
    #[serde(serialize_with = "four")]
    pub mean: f64,
    #[serde(serialize_with = "four")]
    pub p99: f64,
}

/// Rounded to four decimals.
#[allow(clippy::trivially_copy_pass_by_ref)] // the signature serde asks for
fn four<S: Serializer>(value: &f64, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_f64((value * 1e4).round() / 1e4)
}

impl Spread {
    /// Of lengths of time.
    pub fn of(mut times: Vec<Micros>) -> Self {
        times.sort_unstable();
        Self { mean: mean(&times), p50: rank(&times, 50), p99: rank(&times, 99), max: rank(&times, 100) }
    }
}

impl MeanTail {
    pub fn of(mut times: Vec<Micros>) -> Self {
        times.sort_unstable();
        Self { mean: mean(&times), p99: rank(&times, 99) }
    }
}

fn mean(times: &[Micros]) -> f64 {
    let sum: i128 = times.iter().map(|t| i128::from(t.0)).sum();
    if times.is_empty() { 0.0 } else { sum as f64 / times.len() as f64 / 1e6 }
}

/// The value that so many per cent do not exceed.
fn rank(sorted: &[Micros], percent: usize) -> f64 {
    sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).map_or(0.0, |t| t.seconds())
}

/// Sums while a replay runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    /// Since when the sums below are right.
    at: Micros,
    /// Accelerator-microseconds, and of those idle what was lost to fragmentation, in thousandths.
    idle: i128,
    lost_milli: i128,
    pub queue: Vec<Micros>,
    pub completion: Vec<Micros>,
    /// Of jobs that finished.
    pub device_micros: i128,
    pub cost_micros: i128,
    pub bytes_moved: i128,
    pub delay_violations: u64,
    pub rejected: u64,
    pub last_finish: Micros,
}

impl Meter {
    pub fn new(first: Micros) -> Self {
        Self { at: first, last_finish: first, ..Self::default() }
    }

    /// Time passes with so many devices idle, of which so much is lost.
    pub fn pass(&mut self, now: Micros, idle: u64, lost_milli: u64) {
        let length = i128::from((now - self.at).0);
        self.idle += length * i128::from(idle);
        self.lost_milli += length * i128::from(lost_milli);
        self.at = now;
    }

    pub fn figures(self, policy: &str, seed: u64, (first, devices, jobs): (Micros, u64, usize)) -> Figures {
        let makespan = self.last_finish - first;
        let capacity = i128::from(makespan.0) * i128::from(devices);
        let share = |part: i128, whole: i128| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let hours = self.device_micros as f64 / Micros::HOUR.0 as f64;
        let per_hour = if hours > 0.0 { (self.cost_micros as f64 / hours).round() as i64 } else { 0 };
        Figures {
            policy: policy.to_owned(),
            seed,
            utilisation_pct: share(self.device_micros, capacity) * 100.0,
            queue_s: Spread::of(self.queue),
            completion_s: MeanTail::of(self.completion),
            cost_per_accelerator_hour_micros: per_hour,
            delay_violations: self.delay_violations,
            gb_moved: self.bytes_moved as f64 / 1e9,
            fragmentation_pct: share(self.lost_milli, self.idle) / 10.0,
            makespan_s: makespan.seconds(),
            jobs: jobs as u64,
            rejected: self.rejected,
            wall_ms: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_values_that_were_there() {
        let spread = Spread::of((1..=200).map(Micros::from_seconds).collect());
        assert_eq!((spread.p50, spread.p99, spread.max), (100.0, 198.0, 200.0));
        assert!((spread.mean - 100.5).abs() < 1e-9);
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
