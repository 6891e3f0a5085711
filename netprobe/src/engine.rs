//! The thread behind the prober: waits for answers and for the next probe's time.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rhumb_probe_session::{ErrorEstimate, Received};

use crate::clock::{Watch, wake_on_time};
use crate::prober::{Entry, Shared};
use crate::socket::{Mailbox, connect, transmit};

pub(crate) const WAKE: Token = Token(usize::MAX);
/// Longest wait; nothing depends on it.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Pause before a socket that could not be opened is tried again.
const RETRY_NS: u64 = 5_000_000_000;
/// Probes are not closer than this on average: they must not become the load they measure.
const LEAST_INTERVAL_NS: f64 = 1_000_000.0;
/// Gaps between probes are cut off here, in multiples of their mean, so that a window always has some.
const GAP_BOUNDS: (f64, f64) = (0.05, 4.0);
/// Events handled per wait.
const EVENTS: usize = 128;
/// Answers taken from one socket before the others have their turn.
const TURN: usize = 64;

#[derive(Debug)]
pub(crate) struct Engine {
    shared: Arc<Shared>,
    poll: Poll,
    random: StdRng,
    lanes: BTreeMap<usize, Lane>,
    next_token: usize,
    /// How good the own clock is, unless that is given.
    watch: Option<Watch>,
}

/// One target as the thread sees it.
#[derive(Debug)]
struct Lane {
    entry: Entry,
    socket: Option<UdpSocket>,
    /// When the next probe, or the next try to open the socket, is due.
    next_ns: u64,
    /// Whether the socket may hold more answers.
    ready: bool,
}

impl Engine {
    pub(crate) fn new(shared: Arc<Shared>, poll: Poll, seed: u64, clock: Option<ErrorEstimate>) -> Self {
        let watch = clock.is_none().then(Watch::default);
        Self { shared, poll, random: StdRng::seed_from_u64(seed), lanes: BTreeMap::new(), next_token: 0, watch }
    }

    pub(crate) fn run(&mut self) {
        let mut events = Events::with_capacity(EVENTS);
        let mut mailbox = Mailbox::new();
        wake_on_time();
        loop {
            match self.poll.poll(&mut events, Some(self.wait())) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::error!(%error, "the prober can no longer wait for answers");
                    return;
                }
                Ok(()) => {}
            }
            let mut woken = false;
            for event in &events {
                woken |= event.token() == WAKE;
                if let Some(lane) = self.lanes.get_mut(&event.token().0) {
                    lane.ready = true;
                }
            }
            for lane in self.lanes.values_mut().filter(|lane| lane.ready) {
                lane.take_answers(&self.shared, &mut mailbox);
            }
            if woken && !self.follow_roster() {
                return;
            }
            self.watch_clock();
            self.send_due();
        }
    }

    fn watch_clock(&mut self) {
        let now_ns = self.shared.clock.monotonic_ns();
        if let Some(error) = self.watch.as_mut().and_then(|watch| watch.look(now_ns)) {
            self.lanes.values().for_each(|lane| lane.entry.lock().sender.set_error(error));
        }
    }

    fn wait(&self) -> Duration {
        if self.lanes.values().any(|lane| lane.ready) {
            return Duration::ZERO;
        }
        let now_ns = self.shared.clock.monotonic_ns();
        let next_ns = self.lanes.values().map(|lane| lane.next_ns).min();
        next_ns.map_or(LONGEST_WAIT, |next_ns| Duration::from_nanos(next_ns.saturating_sub(now_ns)).min(LONGEST_WAIT))
    }

    /// Takes over what is to be probed; whether to go on at all.
    fn follow_roster(&mut self) -> bool {
        let roster = self.shared.roster();
        if roster.stopped {
            return false;
        }
        let mut wanted = roster.entries.clone();
        drop(roster);
        self.lanes.retain(|_, lane| match wanted.remove(&lane.entry.target.id) {
            Some(entry) if Arc::ptr_eq(&entry.session, &lane.entry.session) => {
                lane.entry = entry;
                true
            }
            Some(entry) => {
                wanted.insert(entry.target.id.clone(), entry);
                false
            }
            None => false,
        });
        let now_ns = self.shared.clock.monotonic_ns();
        for entry in wanted.into_values() {
            // the first probes of many targets are spread too
            let next_ns = now_ns + gap_ns(&mut self.random, entry.target.interval) / 4;
            self.lanes.insert(self.next_token, Lane { entry, socket: None, next_ns, ready: false });
            self.next_token += 1;
        }
        true
    }

    fn send_due(&mut self) {
        for (token, lane) in &mut self.lanes {
            let now_ns = self.shared.clock.monotonic_ns();
            if lane.next_ns > now_ns {
                continue;
            }
            lane.next_ns = now_ns + gap_ns(&mut self.random, lane.entry.target.interval);
            let sent = lane.open(*token, &self.poll).and_then(|()| lane.send(&self.shared));
            if let Err(error) = sent {
                let target = &lane.entry.target;
                tracing::debug!(link = %target.id, address = %target.addr, %error, "cannot probe");
                if lane.socket.is_none() {
                    lane.next_ns = now_ns + RETRY_NS;
                }
            }
        }
    }
}

impl Lane {
    fn open(&mut self, token: usize, poll: &Poll) -> io::Result<()> {
        if self.socket.is_none() {
            let mut socket = connect(self.entry.target.addr, self.entry.target.dscp)?;
            poll.registry().register(&mut socket, Token(token), Interest::READABLE)?;
            self.socket = Some(socket);
        }
        Ok(())
    }

    fn send(&mut self, shared: &Shared) -> io::Result<()> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let mut session = self.entry.lock();
        session.record(shared.clock.monotonic_ns());
        let packet = session.sender.send(shared.clock.now());
        drop(session);
        // what the host cannot send is lost as surely as what the network drops
        transmit(socket, &packet)
    }

    fn take_answers(&mut self, shared: &Shared, mailbox: &mut Mailbox) {
        let Some(socket) = &self.socket else { return };
        for _ in 0..TURN {
            match mailbox.receive(socket, shared.clock) {
                Ok(packet) => {
                    let received = Received { at: packet.at, ttl: packet.ttl, dscp: packet.dscp };
                    let taken = self.entry.lock().sender.on_answer(&mailbox.octets[..packet.bytes], received);
                    if let Err(error) = taken {
                        tracing::trace!(link = %self.entry.target.id, %error, "answer not taken");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.ready = false;
                    return;
                }
                // a closed port's refusal: the probe is lost, the socket is not
                Err(_) => {}
            }
        }
    }
}

/// Exponential gaps, so that the probes see the path as it is at random moments (RFC 2330, section 11.1).
fn gap_ns(random: &mut StdRng, interval: Duration) -> u64 {
    let mean_ns = (interval.as_nanos() as f64).max(LEAST_INTERVAL_NS);
    let drawn = -(1.0 - random.random::<f64>()).ln();
    (mean_ns * drawn.clamp(GAP_BOUNDS.0, GAP_BOUNDS.1)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_their_mean_and_stay_in_bounds() {
        let mut random = StdRng::seed_from_u64(1);
        let gaps: Vec<_> = (0..10_000).map(|_| gap_ns(&mut random, Duration::from_millis(200))).collect();
        let mean_ns = gaps.iter().sum::<u64>() / 10_000;
        assert!((190_000_000..=205_000_000).contains(&mean_ns), "{mean_ns}");
        assert!(gaps.iter().all(|gap| (10_000_000..=800_000_000).contains(gap)));
        let distinct: std::collections::BTreeSet<_> = gaps.iter().collect();
        assert!(distinct.len() > 9_000);
    }
}
