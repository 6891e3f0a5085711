//! Waiting for the bucket.

use super::{
    bucket::Bucket,
    hop::{HopWriter, Lost},
    spec::Tuning,
};
use rhumb_model::Bandwidth;
use std::time::Duration;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// A new rate is noticed within this time.
const NOTICE: Duration = Duration::from_millis(100);
/// A relay lets pass a little more than the rate, so that it never slows a source that keeps to it.
const RELAY_HEADROOM_PERCENT: u64 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Where payload enters the route.
    Source,
    /// Where it passes: no more than the source may send, with some head-room.
    Relay,
}

/// Holds one direction of a route to its rate.
#[derive(Debug)]
pub(crate) struct Pacer {
    bucket: Bucket,
    pace: Pace,
    tuning: watch::Receiver<Tuning>,
}

impl Pacer {
    pub(crate) fn new(pace: Pace, tuning: watch::Receiver<Tuning>) -> Self {
        Self { bucket: Bucket::new(Instant::now()), pace, tuning }
    }

    pub(crate) fn rate(&self) -> Bandwidth {
        self.tuning.borrow().rate
    }

    /// Returns when `bytes` of payload may pass.
    pub(crate) async fn take(&mut self, bytes: usize, writer: &mut HopWriter) -> Result<(), Lost> {
        loop {
            let kbps = self.rate().kbps();
            let rate = match self.pace {
                Pace::Source => kbps,
                Pace::Relay => kbps.saturating_add(kbps.saturating_mul(RELAY_HEADROOM_PERCENT) / 100),
            };
            match self.bucket.take(bytes, Bandwidth::from_kbps(rate), Instant::now()) {
                Ok(()) => return Ok(()),
                Err(wait) => writer.idle_until(sleep(wait.min(NOTICE))).await?,
            }
        }
    }
}
