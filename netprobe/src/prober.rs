//! The prober: every target of an agent, probed by one thread.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::{Poll, Waker};
use rhumb_probe_session::{Mode, Sender, SenderConfig};

use crate::engine::{Engine, WAKE};
use crate::socket::Clock;
use crate::{LinkFigures, ProbeError};

/// What to probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The link whose figures these are.
    pub id: String,
    /// The reflector, or the front of the link that leads to it.
    pub addr: SocketAddr,
    /// Session identifier, 0 for none.
    pub ssid: u16,
    /// Mean time between probes.
    pub interval: Duration,
}

impl Target {
    /// A target at the usual pace, five probes a second.
    pub fn new(id: impl Into<String>, addr: SocketAddr) -> Self {
        Self { id: id.into(), addr, ssid: 0, interval: Duration::from_millis(200) }
    }
}

/// A window holds about so many probes at the least.
const LEAST_PROBES: u32 = 5;

/// How to probe.
#[derive(Debug, Clone)]
pub struct ProberConfig {
    /// Source of the spread of the probes.
    pub seed: u64,
    /// Length of the sliding window.
    pub window: Duration,
    /// Whether packets carry a tag.
    pub mode: Mode,
}

impl Default for ProberConfig {
    fn default() -> Self {
        Self { seed: 0, window: Duration::from_secs(10), mode: Mode::Open }
    }
}

/// Probes its targets until dropped.
#[derive(Debug)]
pub struct Prober {
    config: ProberConfig,
    shared: Arc<Shared>,
    wake: Waker,
    thread: Option<JoinHandle<()>>,
}

/// What the prober's callers and its thread have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    roster: Mutex<Roster>,
}

/// What is to be probed now.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pub(crate) entries: BTreeMap<String, Entry>,
    pub(crate) stopped: bool,
}

/// One target and its session. Another session, another lane of the thread.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) target: Target,
    pub(crate) session: Arc<Mutex<Sender>>,
}

impl Prober {
    /// A prober without targets.
    pub fn start(config: ProberConfig) -> Result<Self, ProbeError> {
        let started = |source| ProbeError::Start { what: "prober", source };
        let poll = Poll::new().map_err(started)?;
        let wake = Waker::new(poll.registry(), WAKE).map_err(started)?;
        let shared = Arc::new(Shared { clock: Clock::new(), roster: Mutex::new(Roster::default()) });
        let mut engine = Engine::new(Arc::clone(&shared), poll, config.seed);
        let thread =
            std::thread::Builder::new().name("probe-send".into()).spawn(move || engine.run()).map_err(started)?;
        Ok(Self { config, shared, wake, thread: Some(thread) })
    }

    /// Replaces the targets. One that stays, by id, address and session identifier, keeps its window. Of several with one id
    /// the last counts.
    pub fn set_targets(&self, targets: Vec<Target>) {
        let mut roster = self.shared.roster();
        let before = std::mem::take(&mut roster.entries);
        for target in targets {
            let kept = before.get(&target.id).filter(|entry| entry.target.leads_where(&target));
            let session = kept.map_or_else(|| self.begin(&target), |entry| Arc::clone(&entry.session));
            roster.entries.insert(target.id.clone(), Entry { target, session });
        }
        drop(roster);
        self.wake();
    }

    /// The window of every target, by id.
    pub fn snapshot(&self) -> Vec<LinkFigures> {
        let entries: Vec<_> = self.shared.roster().entries.values().cloned().collect();
        let figures = |entry: &Entry| {
            let session = entry.lock();
            LinkFigures::new(&entry.target.id, &session.figures(self.shared.clock.monotonic_ns()))
        };
        entries.iter().map(figures).collect()
    }

    fn begin(&self, target: &Target) -> Arc<Mutex<Sender>> {
        let config = SenderConfig {
            ssid: target.ssid,
            mode: self.config.mode.clone(),
            // a target that is probed seldom needs a longer look
            window_ns: self.config.window.max(target.interval * LEAST_PROBES).as_nanos() as u64,
            ..SenderConfig::default()
        };
        Arc::new(Mutex::new(Sender::new(config)))
    }

    fn wake(&self) {
        if let Err(error) = self.wake.wake() {
            tracing::error!(%error, "cannot wake the prober");
        }
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.shared.roster().stopped = true;
        self.wake();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the prober's thread panicked");
        }
    }
}

impl Target {
    fn leads_where(&self, other: &Self) -> bool {
        self.addr == other.addr && self.ssid == other.ssid
    }
}

impl Shared {
    pub(crate) fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Sender> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
