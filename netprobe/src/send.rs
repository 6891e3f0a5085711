//! One run of probes toward one reflector.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use rhumb_probe_session::{ErrorEstimate, Extensions, FarCount, Mode, Received, Sender, SenderConfig};

use tokio::sync::oneshot;

use crate::clock::{Clock, synchronisation, wake_on_time};
use crate::socket::{Mailbox, connect, resolve, transmit};
use crate::{ProbeError, SendSummary};

/// Probes of one run: what the session remembers.
const MOST_PROBES: u32 = 1_000_000;
/// The window of a run is the run.
const WHOLE_RUN_NS: u64 = u64::MAX;

/// A watcher is told this often.
const WATCH_NS: u64 = 250_000_000;
/// And no more than one part in this many of the time is spent on it.
const WATCH_SHARE: u64 = 100;
/// After the last answer, copies are waited for as long as the longest round trip, within these bounds.
const LEAST_LINGER_NS: u64 = 100_000_000;
const MOST_LINGER_NS: u64 = 3_000_000_000;
/// The largest payload of a datagram over IPv4.
const MOST_BYTES: usize = 65_507;

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
    /// Class (six bits) the probes are sent in.
    pub dscp: u8,
    /// What every probe asks for beyond the base.
    pub extensions: Extensions,
    /// Whether the reflector counts its answers.
    pub far_count: FarCount,
    /// Quality of the own clock; `None`: the kernel is asked.
    pub clock: Option<ErrorEstimate>,
}

impl SendConfig {
    /// Ten bare probes to that reflector, ten a second.
    pub fn new(target: impl Into<String>) -> Self {
        Self {
            target: target.into(),
            count: 10,
            interval: Duration::from_millis(100),
            ssid: 0,
            mode: Mode::Open,
            dscp: 0,
            extensions: Extensions::default(),
            far_count: FarCount::Assumed,
            clock: None,
        }
    }
}

/// Sends the probes, waits for the answers or for their time to be over, and sums up.
pub async fn send(config: SendConfig) -> Result<SendSummary, ProbeError> {
    send_watched(config, |_| {}).await
}

/// The same; `watch` is told what there is so far, four times a second.
pub async fn send_watched(
    config: SendConfig,
    watch: impl FnMut(&SendSummary) + Send + 'static,
) -> Result<SendSummary, ProbeError> {
    if config.count == 0 || config.count > MOST_PROBES {
        return Err(ProbeError::Count { count: config.count, most: MOST_PROBES });
    }
    let (bytes, least) = (config.extensions.packet_bytes, config.mode.packet_bytes());
    if bytes != 0 && !(least..=MOST_BYTES).contains(&bytes) {
        return Err(ProbeError::Size { bytes, least, most: MOST_BYTES });
    }
    let target = resolve(&config.target).await?;
    let (tell, told) = oneshot::channel();
    // a thread of its own: it runs ahead of other work, which the runtime's threads must not after it
    let run = move || {
        // nobody waits any more: the run was given up
        let _ = tell.send(Run::new(target, &config).and_then(|run| run.finish(watch)));
    };
    std::thread::Builder::new()
        .name("probe-run".into())
        .spawn(run)
        .map_err(|source| ProbeError::Start { what: "run of probes", source })?;
    let finished = told.await.unwrap_or_else(|gone| Err(io::Error::other(gone)));
    finished.map_err(|source| ProbeError::Send { target, source })
}

struct Run {
    clock: Clock,
    poll: Poll,
    socket: UdpSocket,
    mailbox: Mailbox,
    session: Sender,
    count: u32,
    interval_ns: u64,
    watch_next_ns: u64,
}

impl Run {
    fn new(target: SocketAddr, config: &SendConfig) -> io::Result<Self> {
        let mut socket = connect(target, config.dscp)?;
        let poll = Poll::new()?;
        poll.registry().register(&mut socket, Token(0), Interest::READABLE)?;
        let session = Sender::new(SenderConfig {
            ssid: config.ssid,
            mode: config.mode.clone(),
            error: config.clock.unwrap_or_else(synchronisation),
            window_ns: WHOLE_RUN_NS,
            extensions: config.extensions,
            far_count: config.far_count,
            ..SenderConfig::default()
        });
        let interval_ns = u64::try_from(config.interval.as_nanos()).unwrap_or(u64::MAX);
        let (clock, mailbox) = (Clock::new(), Mailbox::new());
        Ok(Self { clock, poll, socket, mailbox, session, count: config.count, interval_ns, watch_next_ns: WATCH_NS })
    }

    fn finish(mut self, mut watch: impl FnMut(&SendSummary)) -> io::Result<SendSummary> {
        wake_on_time();
        let mut due_ns = self.clock.monotonic_ns();
        for _ in 0..self.count {
            self.wait_until(due_ns)?;
            while self.clock.monotonic_ns() < due_ns {
                self.wait_until(due_ns)?;
            }
            let packet = self.session.send(self.clock.now());
            match transmit(&self.socket, &packet) {
                // a closed port or a full buffer, or more octets than the path takes: lost as surely as what the network drops
                Err(error) if is_loss(&error) => {}
                sent => sent?,
            }
            due_ns = due_ns.saturating_add(self.interval_ns);
            self.tell(&mut watch);
        }
        while let Some(deadline_ns) = self.session.poll_timeout(self.clock.monotonic_ns()) {
            self.wait_until(deadline_ns)?;
            self.tell(&mut watch);
        }
        self.linger()?;
        Ok(self.summary())
    }

    fn summary(&self) -> SendSummary {
        SendSummary::new(&self.session.figures(self.clock.monotonic_ns()), self.session.reported())
    }

    /// Once every probe is answered, copies of the last answers may still be under way.
    fn linger(&mut self) -> io::Result<()> {
        let trips = self.session.figures(self.clock.monotonic_ns()).round_trips;
        let longest_ns = trips.map_or(0, |trips| trips.max_ns).clamp(LEAST_LINGER_NS, MOST_LINGER_NS);
        let until_ns = self.clock.monotonic_ns() + longest_ns;
        while self.clock.monotonic_ns() < until_ns {
            self.wait_until(until_ns)?;
        }
        Ok(())
    }

    fn tell(&mut self, watch: &mut impl FnMut(&SendSummary)) {
        let now_ns = self.clock.monotonic_ns();
        if now_ns >= self.watch_next_ns {
            watch(&self.summary());
            // summing up a long run takes its time, which the probes must not wait for often
            let took_ns = self.clock.monotonic_ns() - now_ns;
            self.watch_next_ns = now_ns + WATCH_NS.max(took_ns * WATCH_SHARE);
        }
    }

    /// Takes the answers that come until then; returns early when there were some.
    fn wait_until(&mut self, deadline_ns: u64) -> io::Result<()> {
        let wait = Duration::from_nanos(deadline_ns.saturating_sub(self.clock.monotonic_ns()));
        let mut events = Events::with_capacity(1);
        match self.poll.poll(&mut events, Some(wait)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            polled => polled?,
        }
        loop {
            match self.mailbox.receive(&self.socket, self.clock) {
                Ok(packet) => {
                    let received = Received { at: packet.at, ttl: packet.ttl, dscp: packet.dscp };
                    let answered = self.session.on_answer(&self.mailbox.octets[..packet.bytes], received);
                    if let Err(error) = answered {
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

fn is_loss(error: &io::Error) -> bool {
    // EMSGSIZE has no kind of its own
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock)
        || error.raw_os_error() == Some(nix::libc::EMSGSIZE)
}
