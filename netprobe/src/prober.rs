//! The prober: every target of an agent, probed by one thread.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::{Poll, Waker};
use rhumb_probe_session::{
    Change, ErrorEstimate, Extensions, Key, Mode, Record, Sender, SenderConfig, Trend, WindowView,
};

use crate::clock::{Clock, synchronisation};
use crate::engine::{Engine, WAKE};
use crate::{LinkFigures, LinkWindow, ProbeError};

/// Recorded windows of a link that wait to be taken; older ones are dropped.
const MOST_RECORDS: usize = 64;

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
    /// Class (six bits) the probes are sent in.
    pub dscp: u8,
    /// Octets of a probe, filled up with padding; 0 for the bare packet. A second target of full-size packets finds a path that
    /// swallows them.
    pub packet_bytes: usize,
}

impl Target {
    /// A target at the usual pace, five probes a second.
    pub fn new(id: impl Into<String>, addr: SocketAddr) -> Self {
        Self { id: id.into(), addr, ssid: 0, interval: Duration::from_millis(200), dscp: 0, packet_bytes: 0 }
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
    /// Length of the windows that are recorded, and that decide what is steady and what is stale.
    pub record: Duration,
    /// Whether probes carry the extension by which a reflector of this program tells its counters; 20 octets each.
    pub counters: bool,
    /// Quality of the own clock; `None`: the kernel is asked.
    pub clock: Option<ErrorEstimate>,
}

impl Default for ProberConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            window: Duration::from_secs(10),
            mode: Mode::Open,
            record: Duration::from_mins(1),
            counters: false,
            clock: None,
        }
    }
}

/// Probes its targets until dropped.
#[derive(Debug)]
pub struct Prober {
    config: ProberConfig,
    /// What the next session sends.
    mode: Mutex<Mode>,
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
    pub(crate) session: Arc<Mutex<Session>>,
}

/// What is known of one target.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) sender: Sender,
    trend: Trend,
    records: VecDeque<(Record, Change)>,
}

impl Session {
    /// Records the windows that are complete.
    pub(crate) fn record(&mut self, now_ns: u64) {
        while let Some(record) = self.sender.take_record(now_ns) {
            let change = self.trend.observe(WindowView::from(&record));
            if self.records.len() >= MOST_RECORDS {
                self.records.pop_front();
            }
            self.records.push_back((record, change));
        }
    }
}

impl Prober {
    /// A prober without targets.
    pub fn start(config: ProberConfig) -> Result<Self, ProbeError> {
        let started = |source| ProbeError::Start { what: "prober", source };
        let poll = Poll::new().map_err(started)?;
        let wake = Waker::new(poll.registry(), WAKE).map_err(started)?;
        let shared = Arc::new(Shared { clock: Clock::new(), roster: Mutex::new(Roster::default()) });
        let mut engine = Engine::new(Arc::clone(&shared), poll, config.seed, config.clock);
        let thread =
            std::thread::Builder::new().name("probe-send".into()).spawn(move || engine.run()).map_err(started)?;
        Ok(Self { mode: Mutex::new(config.mode.clone()), config, shared, wake, thread: Some(thread) })
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

    /// Probes carry a tag of the key from now on; the windows of all targets begin anew.
    pub fn authenticate(&self, key: &Key) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = Mode::Authenticated(key.clone());
        let entries = std::mem::take(&mut self.shared.roster().entries);
        self.set_targets(entries.into_values().map(|entry| entry.target).collect());
    }

    /// The window of every target, by id.
    pub fn snapshot(&self) -> Vec<LinkFigures> {
        let entries: Vec<_> = self.shared.roster().entries.values().cloned().collect();
        let figures = |entry: &Entry| {
            let session = entry.lock();
            let now = session.sender.figures(self.shared.clock.monotonic_ns());
            LinkFigures::new(&entry.target.id, &now, &session.trend)
        };
        entries.iter().map(figures).collect()
    }

    /// The windows recorded since the last call, by link and time.
    pub fn take_windows(&self) -> Vec<LinkWindow> {
        let clock = self.shared.clock;
        let now_ns = clock.monotonic_ns();
        let entries: Vec<_> = self.shared.roster().entries.values().cloned().collect();
        let windows = |entry: &Entry| {
            let records = std::mem::take(&mut entry.lock().records);
            let link = entry.target.id.clone();
            records.into_iter().map(move |(record, change)| LinkWindow {
                link: link.clone(),
                start_unix_ms: clock.unix_ms_of(record.start_ns),
                ended_ms_ago: now_ns.saturating_sub(record.start_ns + record.length_ns) / 1_000_000,
                record,
                change,
            })
        };
        entries.iter().flat_map(windows).collect()
    }

    fn begin(&self, target: &Target) -> Arc<Mutex<Session>> {
        let config = SenderConfig {
            ssid: target.ssid,
            mode: self.mode.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            // a target that is probed seldom needs a longer look
            window_ns: self.config.window.max(target.interval * LEAST_PROBES).as_nanos() as u64,
            error: self.config.clock.unwrap_or_else(synchronisation),
            record_ns: self.config.record.as_nanos() as u64,
            extensions: Extensions {
                packet_bytes: target.packet_bytes,
                service: (target.dscp > 0).then_some(target.dscp),
                counters: self.config.counters,
                ..Extensions::default()
            },
            ..SenderConfig::default()
        };
        let (sender, trend, records) = (Sender::new(config), Trend::default(), VecDeque::new());
        Arc::new(Mutex::new(Session { sender, trend, records }))
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
        let way = |target: &Self| (target.addr, target.ssid, target.dscp, target.packet_bytes);
        way(self) == way(other)
    }
}

impl Shared {
    pub(crate) fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
