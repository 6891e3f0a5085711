//! The hard limit on what measuring may send: a token bucket per link and one per site, whose state outlives the process.

use serde::{Deserialize, Serialize};

/// Octets that may be sent, by a share of a capacity over a span. What is not used within one span is not saved beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BandwidthBudget {
    /// Octets of a whole span.
    most_bytes: u64,
    span_us: u64,
    left_bytes: u64,
    /// Time of day of the last reckoning, in microseconds since 1970.
    at_us: u64,
}

/// The usual share: 0.1 % of the capacity.
pub const USUAL_SHARE_PPM: u64 = 1_000;
/// The usual span: ten minutes.
pub const USUAL_SPAN_US: u64 = 600_000_000;

impl BandwidthBudget {
    /// A full budget of `share_ppm` millionths of `capacity_kbps` over `span_us`, as of `now_us` (microseconds since 1970).
    pub fn new(capacity_kbps: u64, share_ppm: u64, span_us: u64, now_us: u64) -> Self {
        let most_bytes = most(capacity_kbps, share_ppm, span_us);
        Self { most_bytes, span_us: span_us.max(1), left_bytes: most_bytes, at_us: now_us }
    }

    /// The same budget under terms that may have changed: what was spent stays spent, nothing is refilled.
    pub fn under(self, capacity_kbps: u64, share_ppm: u64, span_us: u64) -> Self {
        let most_bytes = most(capacity_kbps, share_ppm, span_us);
        Self { most_bytes, span_us: span_us.max(1), left_bytes: self.left_bytes.min(most_bytes), ..self }
    }

    /// What may be sent now. A clock that was set back earns nothing; one that was set forward no more than a full budget.
    pub fn left_bytes(&self, now_us: u64) -> u64 {
        let elapsed = u128::from(now_us.saturating_sub(self.at_us));
        let earned = u128::from(self.most_bytes) * elapsed / u128::from(self.span_us);
        let left = u128::from(self.left_bytes) + earned;
        // at most `most_bytes`, which is 64 bits
        left.min(u128::from(self.most_bytes)) as u64
    }

    /// Takes octets off; `false`, and nothing is taken, where they are too many. The state is to be kept before they are sent.
    #[must_use]
    pub fn spend(&mut self, bytes: u64, now_us: u64) -> bool {
        let left = self.left_bytes(now_us);
        let Some(rest) = left.checked_sub(bytes) else { return false };
        (self.left_bytes, self.at_us) = (rest, self.at_us.max(now_us));
        true
    }

    /// Gives back what was taken and not sent.
    pub fn refund(&mut self, bytes: u64) {
        self.left_bytes = self.left_bytes.saturating_add(bytes).min(self.most_bytes);
    }
}

/// kbit/s x us / 8,000 = octets; of that, millionths.
fn most(capacity_kbps: u64, share_ppm: u64, span_us: u64) -> u64 {
    let whole = u128::from(capacity_kbps).saturating_mul(u128::from(span_us)) / 8_000;
    u64::try_from(whole.saturating_mul(u128::from(share_ppm)) / 1_000_000).unwrap_or(u64::MAX)
}
