//! One run of probes toward one reflector.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use rhumb_probe_session::{Figures, Mode, Sender, SenderConfig};
use serde::{Deserialize, Serialize};

use crate::ProbeError;
use crate::figures::us;
use crate::socket::{Clock, MOST_PACKET_BYTES, connect, resolve, transmit};

/// Probes of one run: what the session remembers.
const MOST_PROBES: u32 = 1_000_000;
/// The window of a run is the run.
const WHOLE_RUN_NS: u64 = u64::MAX;

/// What to send.
#[derive(Debug, Clone)]
pub struct SendConfig {
    /// The reflector, HOST:PORT.
    pub target: String,
    /// Number of probes.
    pub count: u32,
    /// Time between them.
    pub interval: Duration,
    /// Session identifier, 0 for none.
    pub ssid: u16,
    /// Whether packets carry a tag.
    pub mode: Mode,
}

/// What a run found. Times in microseconds; `None` where nothing was received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendSummary {
    /// Probes sent.
    pub sent: u64,
    /// Probes answered.
    pub received: u64,
    /// Probes that did not reach the reflector, or of whose way nothing is known.
    pub lost_forward: u64,
    /// Probes whose answer did not come back.
    pub lost_backward: u64,
    /// Answers beyond the first.
    pub duplicates: u64,
    /// Answers that came after a later probe's.
    pub reordered: u64,
    /// Least round trip, the reflector's time taken out.
    pub rtt_min_us: Option<u64>,
    /// Median round trip.
    pub rtt_p50_us: Option<u64>,
    /// 95th percentile of the round trip.
    pub rtt_p95_us: Option<u64>,
    /// 99th percentile of the round trip.
    pub rtt_p99_us: Option<u64>,
    /// Delay variation: 95th percentile less the least.
    pub pdv_us: Option<u64>,
    /// Mean difference of successive round trips.
    pub ipdv_us: Option<u64>,
}

/// Sends the probes, waits for the answers or for their time to be over, and sums up.
pub async fn send(config: SendConfig) -> Result<SendSummary, ProbeError> {
    if config.count == 0 || config.count > MOST_PROBES {
        return Err(ProbeError::Count { count: config.count, most: MOST_PROBES });
    }
    let target = resolve(&config.target).await?;
    let run = tokio::task::spawn_blocking(move || Run::new(target, &config).and_then(Run::finish));
    let finished = run.await.unwrap_or_else(|panic| Err(io::Error::other(panic)));
    finished.map_err(|source| ProbeError::Send { target, source })
}

struct Run {
    clock: Clock,
    poll: Poll,
    socket: UdpSocket,
    session: Sender,
    count: u32,
    interval_ns: u64,
}

impl Run {
    fn new(target: SocketAddr, config: &SendConfig) -> io::Result<Self> {
        let mut socket = connect(target)?;
        let poll = Poll::new()?;
        poll.registry().register(&mut socket, Token(0), Interest::READABLE)?;
        let session = SenderConfig {
            ssid: config.ssid,
            mode: config.mode.clone(),
            window_ns: WHOLE_RUN_NS,
            ..SenderConfig::default()
        };
        let interval_ns = u64::try_from(config.interval.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self { clock: Clock::new(), poll, socket, session: Sender::new(session), count: config.count, interval_ns })
    }

    fn finish(mut self) -> io::Result<SendSummary> {
        let mut due_ns = self.clock.monotonic_ns();
        for _ in 0..self.count {
            self.wait_until(due_ns)?;
            while self.clock.monotonic_ns() < due_ns {
                self.wait_until(due_ns)?;
            }
            let packet = self.session.send(self.clock.now());
            match transmit(&self.socket, &packet) {
                // a closed port or a full buffer: lost as surely as what the network drops
                Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock) => {}
                sent => sent?,
            }
            due_ns = due_ns.saturating_add(self.interval_ns);
        }
        while let Some(deadline_ns) = self.session.poll_timeout(self.clock.monotonic_ns()) {
            self.wait_until(deadline_ns)?;
        }
        Ok(SendSummary::new(&self.session.figures(self.clock.monotonic_ns())))
    }

    /// Takes the answers that come until then; returns early when there were some.
    fn wait_until(&mut self, deadline_ns: u64) -> io::Result<()> {
        let wait = Duration::from_nanos(deadline_ns.saturating_sub(self.clock.monotonic_ns()));
        let mut events = Events::with_capacity(1);
        match self.poll.poll(&mut events, Some(wait)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            polled => polled?,
        }
        let mut buffer = [0; MOST_PACKET_BYTES];
        loop {
            match self.socket.recv(&mut buffer) {
                Ok(length) => {
                    let received = self.clock.now();
                    if let Err(error) = self.session.on_reply(&buffer[..length], received) {
                        tracing::trace!(%error, "answer not taken");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // a closed port's refusal
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl SendSummary {
    fn new(figures: &Figures) -> Self {
        let trips = figures.round_trips.as_ref();
        Self {
            sent: figures.sent,
            received: figures.received,
            lost_forward: figures.lost_forward,
            lost_backward: figures.lost_backward,
            duplicates: figures.duplicates,
            reordered: figures.reordered,
            rtt_min_us: trips.map(|trips| us(trips.min_ns)),
            rtt_p50_us: trips.map(|trips| us(trips.p50_ns)),
            rtt_p95_us: trips.map(|trips| us(trips.p95_ns)),
            rtt_p99_us: trips.map(|trips| us(trips.p99_ns)),
            pdv_us: trips.map(|trips| us(trips.pdv_ns)),
            ipdv_us: trips.map(|trips| us(trips.ipdv_ns)),
        }
    }
}
