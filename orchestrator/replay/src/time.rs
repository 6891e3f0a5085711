//! Simulated time.

use jiff::Timestamp;
use std::ops::{Add, Sub};

/// Microseconds: an instant since 1970, or a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize)]
pub struct Micros(pub i64);

impl Micros {
    pub const ZERO: Self = Self(0);
    pub const SECOND: Self = Self(1_000_000);
    pub const HOUR: Self = Self(3_600_000_000);

    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }

    pub fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// The instant; one beyond what calendars hold stays at their end.
    pub fn instant(self) -> Timestamp {
        Timestamp::from_microsecond(self.0).unwrap_or(if self.0 < 0 { Timestamp::MIN } else { Timestamp::MAX })
    }
}

impl From<Timestamp> for Micros {
    fn from(at: Timestamp) -> Self {
        Self(at.as_microsecond())
    }
}

impl Add for Micros {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Micros {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}
