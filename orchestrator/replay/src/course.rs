//! How a replay went, as curves.

use crate::{
    journal::{Event, Record},
    time::Micros,
};
use std::collections::BTreeMap;

/// Points that a curve has at most.
const POINTS: i64 = 400;

/// What a plot shows besides the figures.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Course {
    /// (hours since the first submission, devices that jobs run on in the mean since the point before).
    pub in_use: Vec<(f64, f64)>,
    /// (seconds, share of the jobs that started within so many), ascending.
    pub waits: Vec<(f64, f64)>,
}

impl Course {
    pub fn of(journal: &[Record]) -> Self {
        let (Some(first), Some(last)) = (journal.first().map(|r| r.at), journal.last().map(|r| r.at)) else {
            return Self::default();
        };
        let mut holds: BTreeMap<usize, u64> = BTreeMap::new();
        let mut submitted: BTreeMap<usize, Micros> = BTreeMap::new();
        let mut started: BTreeMap<usize, Micros> = BTreeMap::new();
        let mut waits = Vec::new();
        let mut meter = Buckets::new(first, last);
        for Record { at, event } in journal {
            match event {
                Event::Submitted { job } => {
                    submitted.insert(*job, *at);
                }
                Event::Placed { job, held } => {
                    holds.insert(*job, held.seats.iter().map(|s| s.devices.len() as u64).sum());
                }
                Event::Started { job } => {
                    started.insert(*job, *at);
                }
                Event::Ended { job } | Event::Lost { job } => {
                    if let Some(start) = started.remove(job) {
                        meter.add(start, *at, holds.get(job).copied().unwrap_or(0));
                        if let (Event::Ended { .. }, Some(submit)) = (event, submitted.get(job)) {
                            waits.push((start - *submit).seconds());
                        }
                    }
                }
                _ => {}
            }
        }
        Self { in_use: meter.curve(), waits: thinned(waits) }
    }
}

/// Device-time by equal stretches of the replay.
struct Buckets {
    first: Micros,
    length: i64,
    sums: Vec<f64>,
}

impl Buckets {
    fn new(first: Micros, last: Micros) -> Self {
        let length = ((last - first).0 / POINTS + 1).max(1);
        Self { first, length, sums: vec![0.0; POINTS as usize] }
    }

    fn add(&mut self, from: Micros, to: Micros, devices: u64) {
        let (mut at, end) = ((from - self.first).0, (to - self.first).0);
        while at < end {
            let bucket = at / self.length;
            let next = ((bucket + 1) * self.length).min(end);
            if let Some(sum) = self.sums.get_mut(bucket as usize) {
                *sum += (next - at) as f64 * devices as f64;
            }
            at = next;
        }
    }

    fn curve(self) -> Vec<(f64, f64)> {
        let length = self.length as f64;
        let hours = |bucket: usize| (bucket + 1) as f64 * length / Micros::HOUR.0 as f64;
        self.sums.into_iter().enumerate().map(|(bucket, sum)| (hours(bucket), sum / length)).collect()
    }
}

/// The distribution in so many points.
fn thinned(mut waits: Vec<f64>) -> Vec<(f64, f64)> {
    waits.sort_unstable_by(f64::total_cmp);
    let count = waits.len();
    let step = (count / POINTS as usize).max(1);
    let at = |index: usize| (waits[index], (index + 1) as f64 / count as f64);
    let mut points: Vec<(f64, f64)> = (0..count).step_by(step).map(at).collect();
    points.extend(count.checked_sub(1).map(at));
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Held, HeldSeat};
    use rhumb_model::SiteName;
    use std::sync::Arc;

    #[test]
    fn devices_are_in_use_from_start_to_end() {
        let seat =
            HeldSeat { component: 0, site: SiteName::new("a").unwrap(), host: 0, model: None, devices: vec![0, 1] };
        let held = Arc::new(Held { seats: vec![seat], links: Vec::new() });
        let at = |seconds: i64, event: Event| Record { at: Micros::from_seconds(seconds), event };
        let journal = [
            at(0, Event::Submitted { job: 0 }),
            at(0, Event::Placed { job: 0, held }),
            at(3_600, Event::Started { job: 0 }),
            at(7_200, Event::Ended { job: 0 }),
            at(7_200, Event::Finished { job: 0 }),
        ];
        let course = Course::of(&journal);
        let mean = course.in_use.iter().map(|p| p.1).sum::<f64>() / POINTS as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert_eq!(course.waits.last(), Some(&(3_600.0, 1.0)));
    }
}
