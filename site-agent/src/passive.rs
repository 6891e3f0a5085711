//! What passes this point's links by itself, and what that leaves of their committed rates. No packet is sent for it.
//!
//! An interface that the configuration names for a link counts all that goes out of it. Else the overlay's own counters tell
//! what orders send over the link; others' traffic they do not see, and the figure is trusted less.

use crate::carrier::Carrier;
use rhumb_model::{BandwidthMethod, Confidence, LinkId};
use rhumb_probe::{CounterReading, interface_bytes, residual};
use rhumb_wire::{BandwidthFigures, Desired, PeerLink};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

/// Time between readings.
const EVERY: Duration = Duration::from_secs(10);
/// Readings looked back on: ten minutes.
const READINGS: usize = 61;

/// Reads until dropped.
#[derive(Debug)]
pub(crate) struct Passive {
    shared: Arc<Mutex<Shared>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    lanes: BTreeMap<LinkId, Lane>,
    links: Vec<PeerLink>,
}

#[derive(Debug, Default)]
struct Lane {
    committed_kbps: u64,
    readings: VecDeque<CounterReading>,
    read: Option<Instant>,
    seen: Seen,
}

/// Whose traffic the counter sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Seen {
    #[default]
    Orders,
    All,
}

impl Passive {
    /// `interfaces` are those behind links, where the configuration names them.
    pub(crate) fn start(carrier: Arc<dyn Carrier>, interfaces: BTreeMap<LinkId, String>) -> Self {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let task = tokio::spawn(run(Arc::clone(&shared), carrier, interfaces));
        Self { shared, task }
    }

    /// Follows the desired state. What was read of a link that stays is kept.
    pub(crate) fn follow(&self, desired: &Desired) {
        let mut shared = lock(&self.shared);
        let mut before = std::mem::take(&mut shared.lanes);
        for target in &desired.probes {
            let Some(capacity) = target.capacity else { continue };
            let kept = before.remove(&target.link).unwrap_or_default();
            shared.lanes.insert(target.link.clone(), Lane { committed_kbps: capacity.kbps(), ..kept });
        }
        shared.links.clone_from(&desired.links);
    }

    /// What a link has left; `None` while the readings are too few.
    pub(crate) fn figure(&self, link: &LinkId) -> Option<BandwidthFigures> {
        lock(&self.shared).lanes.get_mut(link)?.figure()
    }
}

impl Drop for Passive {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Lane {
    fn note(&mut self, at_us: u64, bytes: u64, seen: Seen) {
        if self.seen != seen {
            // another counter says nothing of what this one counted
            self.readings.clear();
        }
        if self.readings.len() >= READINGS {
            self.readings.pop_front();
        }
        self.readings.push_back(CounterReading { at_us, bytes });
        (self.seen, self.read) = (seen, Some(Instant::now()));
    }

    fn figure(&mut self) -> Option<BandwidthFigures> {
        let left = residual(self.committed_kbps, self.readings.make_contiguous())?;
        Some(BandwidthFigures {
            rate_kbps: left.rate_kbps,
            available_kbps: Some(left.rate_kbps),
            method: BandwidthMethod::Counters,
            confidence: if self.seen == Seen::All { Confidence::High } else { Confidence::Medium },
            label: 0,
            age_us: self.read?.elapsed().as_micros() as u64,
        })
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn run(shared: Arc<Mutex<Shared>>, carrier: Arc<dyn Carrier>, interfaces: BTreeMap<LinkId, String>) {
    let start = Instant::now();
    let mut timer = tokio::time::interval(EVERY);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        timer.tick().await;
        let mut counted = BTreeMap::new();
        for (link, interface) in &interfaces {
            match interface_bytes(interface).await {
                Ok(bytes) => drop(counted.insert(link.clone(), bytes)),
                Err(error) => tracing::debug!(%link, %error, "a link's interface tells nothing"),
            }
        }
        let at_us = start.elapsed().as_micros() as u64;
        let mut shared = lock(&shared);
        let passed = carrier.passed(&shared.links);
        for (link, lane) in &mut shared.lanes {
            match (counted.get(link), interfaces.contains_key(link)) {
                (Some(bytes), _) => lane.note(at_us, *bytes, Seen::All),
                (None, true) => {}
                (None, false) => lane.note(at_us, passed.get(link).copied().unwrap_or(0), Seen::Orders),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane() -> Lane {
        Lane { committed_kbps: 100_000, ..Lane::default() }
    }

    /// 12.5 MB in ten seconds are 10 Mbit/s.
    #[test]
    fn what_passes_is_taken_off_the_committed_rate() {
        let mut lane = lane();
        for i in 0..5 {
            lane.note(i * 10_000_000, i * 12_500_000, Seen::Orders);
            assert!(lane.figure().is_none(), "{i} intervals say nothing");
        }
        lane.note(50_000_000, 5 * 12_500_000, Seen::Orders);
        let figure = lane.figure().unwrap();
        assert_eq!((figure.rate_kbps, figure.available_kbps), (90_000, Some(90_000)));
        assert_eq!((figure.method, figure.confidence), (BandwidthMethod::Counters, Confidence::Medium));
        assert!(figure.age_us < 60_000_000);
        // an interface counts anew, from another zero, and everybody's traffic
        lane.note(60_000_000, 7, Seen::All);
        assert!(lane.figure().is_none());
        for i in 7..100_u64 {
            lane.note(i * 10_000_000, (i - 6) * 25_000_000, Seen::All);
        }
        let figure = lane.figure().unwrap();
        assert_eq!((figure.rate_kbps, figure.confidence), (80_000, Confidence::High));
        assert_eq!(lane.readings.len(), READINGS);
    }
}
