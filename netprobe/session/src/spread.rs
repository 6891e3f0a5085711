//! Histograms that can be added up: of windows, and of links.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Three digits: a value is known to a thousandth.
const DIGITS: u8 = 3;
const NS_PER_US: u64 = 1_000;

/// How durations of one kind were spread. Kept in microseconds to three digits; least and most are exact to the nanosecond. A
/// duration below a microsecond counts as one: it was measured, and is not missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "Buckets", try_from = "Buckets")]
pub struct Spread {
    histogram: Histogram<u64>,
    least_ns: u64,
    most_ns: u64,
}

/// What is stored: the values that occurred and how often.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Buckets {
    least_ns: u64,
    most_ns: u64,
    /// Microseconds and count, ascending.
    counts: Vec<(u64, u64)>,
}

/// Why a stored spread cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a stored histogram with a value of {value_us} us, counted {count} times, cannot be")]
pub struct BadSpread {
    value_us: u64,
    count: u64,
}

impl Default for Spread {
    fn default() -> Self {
        let histogram = Histogram::new(DIGITS).expect("three digits are among the one to five allowed");
        Self { histogram, least_ns: u64::MAX, most_ns: 0 }
    }
}

impl Spread {
    /// Takes in a duration of nanoseconds.
    pub fn record(&mut self, duration_ns: u64) {
        self.count(resolved_us(duration_ns), 1);
        self.least_ns = self.least_ns.min(duration_ns);
        self.most_ns = self.most_ns.max(duration_ns);
    }

    /// Takes in all that another has.
    pub fn merge(&mut self, other: &Self) {
        for bucket in other.histogram.iter_recorded() {
            self.count(bucket.value_iterated_to(), bucket.count_at_value());
        }
        self.least_ns = self.least_ns.min(other.least_ns);
        self.most_ns = self.most_ns.max(other.most_ns);
    }

    /// How many durations there are.
    pub fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// The least in nanoseconds; `None` if there is none.
    pub fn least_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.least_ns)
    }

    /// The most in nanoseconds.
    pub fn most_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.most_ns)
    }

    /// The value that `percent` of all do not exceed, in nanoseconds, to a thousandth; never outside least and most.
    pub fn percentile_ns(&self, percent: u8) -> Option<u64> {
        let value_us = self.histogram.value_at_quantile(f64::from(percent.min(100)) / 100.0);
        (!self.is_empty()).then(|| (value_us * NS_PER_US).clamp(self.least_ns, self.most_ns))
    }

    fn count(&mut self, value_us: u64, count: u64) {
        // it grows to what is recorded, and the longest believable duration is far inside what it can hold
        let recorded = self.histogram.record_n(value_us, count);
        debug_assert!(recorded.is_ok(), "{recorded:?}");
    }
}

/// Whole microseconds, one at the least.
fn resolved_us(duration_ns: u64) -> u64 {
    (duration_ns / NS_PER_US).max(1)
}

impl From<Spread> for Buckets {
    fn from(spread: Spread) -> Self {
        let counts = spread.histogram.iter_recorded();
        Self {
            least_ns: spread.least_ns().unwrap_or(0),
            most_ns: spread.most_ns,
            counts: counts.map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value())).collect(),
        }
    }
}

impl TryFrom<Buckets> for Spread {
    type Error = BadSpread;

    fn try_from(stored: Buckets) -> Result<Self, BadSpread> {
        let mut spread = Self::default();
        for (value_us, count) in stored.counts {
            let believable = (1..=crate::sample::LONGEST_NS / NS_PER_US * 2).contains(&value_us);
            if !believable || count == 0 || spread.histogram.len().checked_add(count).is_none() {
                return Err(BadSpread { value_us, count });
            }
            spread.count(value_us, count);
        }
        if !spread.is_empty() {
            (spread.least_ns, spread.most_ns) = (stored.least_ns, stored.most_ns.max(stored.least_ns));
        }
        Ok(spread)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(durations: &[u64]) -> Spread {
        let mut spread = Spread::default();
        for duration in durations {
            spread.record(*duration);
        }
        spread
    }

    #[test]
    fn nothing_has_no_figures() {
        let none = Spread::default();
        assert_eq!((none.len(), none.least_ns(), none.most_ns(), none.percentile_ns(50)), (0, None, None, None));
    }

    /// A round trip on one machine.
    #[test]
    fn less_than_a_microsecond_is_not_missing() {
        let none_at_all = of(&[0, 0, 400]);
        assert_eq!((none_at_all.len(), none_at_all.least_ns(), none_at_all.percentile_ns(50)), (3, Some(0), Some(400)));
        let stored = serde_json::to_value(&none_at_all).unwrap();
        assert_eq!(stored["counts"], serde_json::json!([[1, 3]]));
    }

    #[test]
    fn a_stored_one_that_cannot_be_is_refused() {
        for counts in ["[[0,1]]", "[[5,0]]", "[[9223372036854775,1]]", "[[5,18446744073709551615],[6,1]]"] {
            let stored = format!(r#"{{"least_ns":1,"most_ns":2,"counts":{counts}}}"#);
            assert!(serde_json::from_str::<Spread>(&stored).is_err(), "{counts}");
        }
    }

    proptest! {
        /// Percentiles against sorting, and adding up against recording all in one.
        #[test]
        fn percentiles_are_right_and_parts_add_up(
            durations in prop::collection::vec(1_000_u64..60_000_000_000, 1..200),
            cut in 0_usize..200,
        ) {
            let whole = of(&durations);
            let (front, back) = durations.split_at(cut.min(durations.len()));
            let mut parts = of(front);
            parts.merge(&of(back));
            prop_assert_eq!(&parts, &whole);
            let read: Spread = serde_json::from_str(&serde_json::to_string(&whole).unwrap()).unwrap();
            prop_assert_eq!(&read, &whole);
            let mut sorted = durations.clone();
            sorted.sort_unstable();
            for percent in [50, 95, 99] {
                let exact = crate::figures::percentile(&sorted, percent.into()).unwrap();
                let found = whole.percentile_ns(percent).unwrap();
                prop_assert!(found.abs_diff(exact) <= exact / 1_000 + 1_000, "{} {}", found, exact);
            }
            prop_assert_eq!((whole.least_ns(), whole.most_ns()), (sorted.first().copied(), sorted.last().copied()));
        }
    }
}
