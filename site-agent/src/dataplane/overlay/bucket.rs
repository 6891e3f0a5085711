//! How fast a route may send: a token bucket that keeps its rate although its timers wake late.

use rhumb_model::Bandwidth;
use std::time::Duration;
use tokio::time::Instant;

use super::frame::PAYLOAD_BYTES_MAX;

/// Credit a route that had nothing to send can save up: this long at its rate, or one whole payload.
const BURST: Duration = Duration::from_millis(20);
/// Credit kept while the bucket itself made the sender wait: what a late timer or a busy processor took, it gives back.
const LAG: Duration = Duration::from_millis(200);
/// Payload of one frame lasts about this long, so that slow routes do not send in lumps.
const FRAME: Duration = Duration::from_millis(10);
const PAYLOAD_BYTES_MIN: usize = 2 << 10;
/// One payload byte in the bucket's unit: at one kbit/s one unit of a millionth of a bit flows in per nanosecond.
const UNITS_PER_BYTE: i128 = 8 * 1_000_000;

/// Payload a frame of a route at `rate` should carry.
pub(crate) fn frame_bytes(rate: Bandwidth) -> usize {
    let bytes = u128::from(rate.kbps()) * FRAME.as_millis() / 8;
    usize::try_from(bytes).unwrap_or(PAYLOAD_BYTES_MAX).clamp(PAYLOAD_BYTES_MIN, PAYLOAD_BYTES_MAX)
}

/// Pure: the caller says what time it is.
#[derive(Debug)]
pub(crate) struct Bucket {
    units: i128,
    filled: Instant,
    waiting: bool,
}

impl Bucket {
    /// An empty bucket: nothing may be sent at once.
    pub(crate) fn new(now: Instant) -> Self {
        Self { units: 0, filled: now, waiting: false }
    }

    /// Takes `bytes` if they are there, else says how long to wait before asking again. `bytes` is at most one payload.
    pub(crate) fn take(&mut self, bytes: usize, rate: Bandwidth, now: Instant) -> Result<(), Duration> {
        let per_ns = i128::from(rate.kbps().max(1));
        let least = PAYLOAD_BYTES_MAX as i128 * UNITS_PER_BYTE;
        let kept = if self.waiting { LAG } else { BURST };
        let most = (kept.as_nanos() as i128 * per_ns).max(least);
        let passed = now.saturating_duration_since(self.filled).as_nanos() as i128;
        // what is there already stays, even where a lower rate would keep less
        self.units = (self.units + passed * per_ns).min(most.max(self.units));
        self.filled = now;
        let cost = bytes as i128 * UNITS_PER_BYTE;
        self.waiting = self.units < cost;
        if self.waiting {
            let ns = (cost - self.units).div_euclid(per_ns) + 1;
            return Err(Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)));
        }
        self.units -= cost;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sends as much as it can for `span`, waking `late` after each wait; gives the bytes sent.
    fn run(rate: Bandwidth, span: Duration, late: impl Fn(u32) -> Duration) -> u64 {
        let start = Instant::now();
        let (mut now, mut sent, mut turn) = (start, 0, 0);
        let mut bucket = Bucket::new(start);
        let frame = frame_bytes(rate);
        while now < start + span {
            match bucket.take(frame, rate, now) {
                Ok(()) => sent += frame as u64,
                Err(wait) => {
                    now += wait + late(turn);
                    turn += 1;
                }
            }
        }
        sent
    }

    proptest! {
        #[test]
        fn the_rate_holds_within_a_percent_although_timers_are_late(mbps in 1_u64..1_000, late_us in 0_u64..50_000) {
            let rate = Bandwidth::from_mbps(mbps);
            let span = Duration::from_secs(20);
            let sent = run(rate, span, |turn| Duration::from_micros(u64::from(turn % 7) * late_us / 7));
            let due = rate.kbps() * 1_000 / 8 * span.as_secs();
            prop_assert!(sent.abs_diff(due) <= due / 100 + 16_384, "sent {sent} of {due}");
        }
    }

    #[test]
    fn an_idle_route_saves_up_little() {
        let rate = Bandwidth::from_mbps(100);
        let start = Instant::now();
        let mut bucket = Bucket::new(start);
        let later = start + Duration::from_mins(1);
        let mut at_once = 0;
        while bucket.take(1_000, rate, later).is_ok() {
            at_once += 1_000;
        }
        // 20 ms of 100 Mbit/s are 250,000 bytes
        assert_eq!(at_once, 250_000);
    }

    #[test]
    fn a_new_rate_counts_from_now_on() {
        let start = Instant::now();
        let mut bucket = Bucket::new(start);
        let slow = bucket.take(10_000, Bandwidth::from_mbps(1), start).unwrap_err();
        let fast = bucket.take(10_000, Bandwidth::from_mbps(10), start).unwrap_err();
        assert_eq!(slow.as_millis(), 80);
        assert_eq!(fast.as_millis(), 8);
    }
}
