//! When a leg is moved to another path, and how often.

use jiff::SignedDuration;
use rhumb_model::Latency;
use serde::{Deserialize, Serialize};

/// When a leg is moved, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RouteRules {
    /// A path has to be slower than promised for so long before anything is done about it.
    pub confirm_ms: u64,
    /// And to be lost for so long: one that comes back by itself within that is left alone.
    pub lost_ms: u64,
    /// Between two moves of one leg.
    pub hold_down_ms: u64,
    /// Of one leg; more would be flapping.
    pub moves_per_hour: u32,
    /// What building and measuring a path may take.
    pub build_ms: u64,
    /// After a search that found no other path, before the next.
    pub retry_ms: u64,
    /// Slower than promised by more than the larger of these counts: less is noise.
    pub slack_percent: u64,
    pub slack_us: u64,
    /// Least share of a test's bytes' rate at which they have to arrive.
    pub rate_percent: u64,
}

impl Default for RouteRules {
    fn default() -> Self {
        Self {
            confirm_ms: 3_000,
            lost_ms: 3_000,
            hold_down_ms: 20_000,
            moves_per_hour: 12,
            build_ms: 30_000,
            retry_ms: 5_000,
            slack_percent: 10,
            slack_us: 1_000,
            rate_percent: 70,
        }
    }
}

impl RouteRules {
    pub(crate) fn confirm(&self) -> SignedDuration {
        span(self.confirm_ms)
    }

    pub(crate) fn lost(&self) -> SignedDuration {
        span(self.lost_ms)
    }

    pub(crate) fn hold_down(&self) -> SignedDuration {
        span(self.hold_down_ms)
    }

    pub(crate) fn build(&self) -> SignedDuration {
        span(self.build_ms)
    }

    pub(crate) fn retry(&self) -> SignedDuration {
        span(self.retry_ms)
    }

    pub(crate) fn is_late(&self, measured: Latency, bound: Latency) -> bool {
        let slack = (bound.micros().saturating_mul(self.slack_percent) / 100).max(self.slack_us);
        measured.micros() > bound.micros().saturating_add(slack)
    }
}

fn span(ms: u64) -> SignedDuration {
    SignedDuration::from_millis(i64::try_from(ms).unwrap_or(i64::MAX))
}
