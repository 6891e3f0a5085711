//! Histograms that can be added up: of windows, and of links.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Three digits: a value is known to a thousandth.
const DIGITS: u8 = 3;
const NS_PER_US: u64 = 1_000;

/// How durations of one kind were spread. Kept in microseconds to three digits; least and most are exact to the nanosecond. A
/// duration below a microsecond counts as one: it was measured, and is not missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Spread {
    histogram: Histogram<u64>,
    least_ns: u64,
    most_ns: u64,
}

/// Why a stored spread cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSpread {
    /// Not what is written here.
    #[error("a stored histogram cannot be read at octet {at}: it is not base64 of whole numbers")]
    Form {
        /// Where reading stopped.
        at: usize,
    },
    /// A value that is no duration, or more of them than can be.
    #[error("a stored histogram with a value of {value_us} us, counted {count} times, cannot be")]
    Value {
        /// In microseconds.
        value_us: u64,
        /// How often.
        count: u64,
    },
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

/// As it is stored: base64 of whole numbers of seven bits to an octet, the lowest first (LEB128): the least and how much more the
/// most is, in nanoseconds; then for each value that occurred, in microseconds and ascending, how much more it is than the one
/// before, and how often it did. Nothing at all is an empty text.
impl From<Spread> for String {
    fn from(spread: Spread) -> Self {
        let Some(least_ns) = spread.least_ns() else { return Self::new() };
        let mut octets = Vec::new();
        put(&mut octets, least_ns);
        put(&mut octets, spread.most_ns - least_ns);
        let mut before_us = 0;
        for bucket in spread.histogram.iter_recorded() {
            put(&mut octets, bucket.value_iterated_to() - before_us);
            put(&mut octets, bucket.count_at_value());
            before_us = bucket.value_iterated_to();
        }
        STANDARD_NO_PAD.encode(octets)
    }
}

impl TryFrom<String> for Spread {
    type Error = BadSpread;

    fn try_from(stored: String) -> Result<Self, BadSpread> {
        let mut spread = Self::default();
        if stored.is_empty() {
            return Ok(spread);
        }
        let octets = STANDARD_NO_PAD.decode(stored).map_err(|_| BadSpread::Form { at: 0 })?;
        let mut at = 0;
        let (least_ns, more_ns) = (take(&octets, &mut at)?, take(&octets, &mut at)?);
        let mut value_us = 0_u64;
        while at < octets.len() {
            let (step_us, count) = (take(&octets, &mut at)?, take(&octets, &mut at)?);
            value_us = value_us.saturating_add(step_us);
            let believable = (1..=crate::sample::LONGEST_NS / NS_PER_US * 2).contains(&value_us);
            if !believable || count == 0 || spread.histogram.len().checked_add(count).is_none() {
                return Err(BadSpread::Value { value_us, count });
            }
            spread.count(value_us, count);
        }
        let most_ns = least_ns.saturating_add(more_ns);
        if spread.is_empty() || most_ns > crate::sample::LONGEST_NS {
            return Err(BadSpread::Value { value_us: most_ns / NS_PER_US, count: 0 });
        }
        (spread.least_ns, spread.most_ns) = (least_ns, most_ns);
        Ok(spread)
    }
}

fn put(octets: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        octets.push(0x80 | (value & 0x7f) as u8);
        value >>= 7;
    }
    octets.push(value as u8);
}

fn take(octets: &[u8], at: &mut usize) -> Result<u64, BadSpread> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let octet = *octets.get(*at).ok_or(BadSpread::Form { at: *at })?;
        *at += 1;
        let bits = u64::from(octet & 0x7f);
        if bits > u64::MAX >> shift {
            break;
        }
        value |= bits << shift;
        if octet & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(BadSpread::Form { at: *at })
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
        let read: Spread = serde_json::from_str(&serde_json::to_string(&none_at_all).unwrap()).unwrap();
        assert_eq!(read, none_at_all);
    }

    #[test]
    fn a_stored_one_that_cannot_be_is_refused() {
        let stored = |numbers: &[u64]| {
            let mut octets = Vec::new();
            for number in numbers {
                put(&mut octets, *number);
            }
            Spread::try_from(STANDARD_NO_PAD.encode(octets))
        };
        assert!(stored(&[1_000, 0, 5, 2]).is_ok());
        let absurd: [&[u64]; 8] = [
            &[1, 2],
            &[1, 2, 0, 1],
            &[1, 2, 5, 0],
            &[1, 2, 9_223_372_036_854_775, 1],
            &[1, 2, 5, u64::MAX, 1, 1],
            &[1, 2, 5],
            &[1, 2, u64::MAX, 1, u64::MAX, 1],
            &[u64::MAX, u64::MAX, 5, 1],
        ];
        for numbers in absurd {
            assert!(stored(numbers).is_err(), "{numbers:?}");
        }
        // a number that does not end, and one of more than 64 bits
        for octets in [vec![0x80], vec![0xff; 10]] {
            assert!(Spread::try_from(STANDARD_NO_PAD.encode(octets)).is_err());
        }
        assert!(Spread::try_from("no base64!".to_owned()).is_err());
        assert_eq!(Spread::try_from(String::new()), Ok(Spread::default()));
    }

    /// A minute of an ordinary path, and the worst there can be: no two of 300 alike.
    #[test]
    fn a_minute_takes_little_room() {
        let ordinary: Vec<u64> = (0..300).map(|i| 40_000_000 + (i % 17) * 40_000 + (i % 5) * 7_000).collect();
        let scattered: Vec<u64> = (0..300).map(|i| 1_000_000 + i * 197_000_000).collect();
        let length = |durations: &[u64]| String::from(of(durations)).len();
        assert!(length(&ordinary) < 200, "{}", length(&ordinary));
        assert!(length(&scattered) < 1_700, "{}", length(&scattered));
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
