//! The reflector: one socket and one thread that answers on it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token, Waker};
use rhumb_probe_session::{Incoming, Key, Mode, Reflector as Sessions, ReflectorConfig, ReflectorCounts, TrainCount};
use tokio::net::TcpListener;

use crate::ProbeError;
use crate::bandwidth_tcp::serve_tcp;
use crate::clock::{Clock, Watch, wake_on_time, wall};
use crate::socket::{Mailbox, bind, resolve, send_back};
use crate::trains::Trains;

const SOCKET: Token = Token(0);
const STOP: Token = Token(1);
/// Packets answered before a stop is looked for.
const TURN: usize = 64;
/// How often a watcher is told.
const WATCH: Duration = Duration::from_secs(1);

/// Answers probes until dropped.
#[derive(Debug)]
pub struct Reflector {
    address: SocketAddr,
    sessions: Arc<Mutex<Sessions>>,
    trains: Arc<Trains>,
    clock: Clock,
    stop: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Reflector {
    /// Listens on `address` and answers. With a key, packet trains of whoever has it are heard too.
    pub fn bind(address: SocketAddr, config: ReflectorConfig) -> Result<Self, ProbeError> {
        Self::bind_for(address, config, [])
    }

    /// As `bind`; without a key, trains of `peers` are heard.
    pub fn bind_for(
        address: SocketAddr,
        config: ReflectorConfig,
        peers: impl IntoIterator<Item = IpAddr>,
    ) -> Result<Self, ProbeError> {
        let trains = Arc::new(Trains::of(config.mode.clone(), peers));
        let bound = |source| ProbeError::Bind { address, source };
        let mut socket = bind(address).map_err(bound)?;
        let bound_address = socket.local_addr().map_err(bound)?;
        let started = |source| ProbeError::Start { what: "reflector", source };
        let poll = Poll::new().map_err(started)?;
        poll.registry().register(&mut socket, SOCKET, Interest::READABLE).map_err(started)?;
        let stop = Waker::new(poll.registry(), STOP).map_err(started)?;
        let watch = config.error.is_none().then(Watch::default);
        let sessions = Arc::new(Mutex::new(Sessions::new(config)));
        let served = Arc::clone(&sessions);
        let heard = Arc::clone(&trains);
        let clock = Clock::new();
        let thread = std::thread::Builder::new()
            .name("probe-reflect".into())
            .spawn(move || serve(poll, &socket, &served, &heard, clock, watch))
            .map_err(started)?;
        Ok(Self { address: bound_address, sessions, trains, clock, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Nanoseconds since a moment on the clock of `trains`.
    pub fn since_ns(&self, at_ns: u64) -> u64 {
        self.clock.monotonic_ns().saturating_sub(at_ns)
    }

    /// What came of packet trains over each link.
    pub fn trains(&self) -> Vec<TrainCount> {
        self.trains.counts()
    }

    /// What it did with the packets so far.
    pub fn counts(&self) -> ReflectorCounts {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).counts()
    }

    /// Answers, and hears trains of, only who has the key from now on.
    pub fn authenticate(&self, key: &Key) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).authenticate(key.clone());
        self.trains.authenticate(key.clone());
    }
}

impl Drop for Reflector {
    fn drop(&mut self) {
        if let Err(error) = self.stop.wake() {
            tracing::error!(%error, "cannot stop the reflector");
            return;
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the reflector's thread panicked");
        }
    }
}

/// Answers probes on `listen` (HOST:PORT) until `until` is done; `ready` is told the address first. Trains, and runs of TCP at
/// the same port, are taken of whoever has the key, or without one of `peers`.
pub async fn reflect(
    listen: &str,
    mode: Mode,
    peers: Vec<IpAddr>,
    ready: impl FnOnce(SocketAddr),
    until: impl Future<Output = ()>,
) -> Result<ReflectorCounts, ProbeError> {
    let config = ReflectorConfig { mode, ..ReflectorConfig::default() };
    reflect_with(listen, config, peers, ready, |_| {}, until).await
}

/// The same with all its settings; `watch` is told the counts once a second.
pub async fn reflect_with(
    listen: &str,
    config: ReflectorConfig,
    peers: Vec<IpAddr>,
    ready: impl FnOnce(SocketAddr),
    mut watch: impl FnMut(ReflectorCounts),
    until: impl Future<Output = ()>,
) -> Result<ReflectorCounts, ProbeError> {
    let address = resolve(listen).await?;
    let mode = config.mode.clone();
    let reflector = Reflector::bind_for(address, config, peers.iter().copied())?;
    let bound = |source| ProbeError::Bind { address, source };
    let listener = TcpListener::bind(reflector.address()).await.map_err(bound)?;
    ready(reflector.address());
    let watching = async {
        loop {
            tokio::time::sleep(WATCH).await;
            watch(reflector.counts());
        }
    };
    tokio::select! {
        () = until => {}
        () = watching => {}
        () = serve_tcp(listener, mode, peers) => {}
    }
    Ok(reflector.counts())
}

fn serve(
    mut poll: Poll,
    socket: &UdpSocket,
    sessions: &Mutex<Sessions>,
    trains: &Trains,
    clock: Clock,
    mut watch: Option<Watch>,
) {
    wake_on_time();
    let mut events = Events::with_capacity(8);
    let mut mailbox = Mailbox::new();
    let mut ready = false;
    loop {
        match poll.poll(&mut events, ready.then_some(Duration::ZERO)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                tracing::error!(%error, "the reflector can no longer wait for probes");
                return;
            }
            Ok(()) => {}
        }
        if events.iter().any(|event| event.token() == STOP) {
            return;
        }
        // before what came is answered, however long ago the last packet was
        if let Some(error) = watch.as_mut().and_then(|watch| watch.look(clock.monotonic_ns())) {
            sessions.lock().unwrap_or_else(PoisonError::into_inner).set_error(error);
        }
        ready = answer_some(socket, sessions, trains, clock, &mut mailbox);
    }
}

/// Answers up to a turn's packets; whether there may be more.
fn answer_some(
    socket: &UdpSocket,
    sessions: &Mutex<Sessions>,
    trains: &Trains,
    clock: Clock,
    mailbox: &mut Mailbox,
) -> bool {
    for _ in 0..TURN {
        let packet = match mailbox.receive(socket, clock) {
            Ok(packet) => packet,
            // what a closed port said of an answer is no end; an empty socket is
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => continue,
        };
        let octets = &mailbox.octets[..packet.bytes];
        if trains.took(socket, packet.source, octets, packet.at.monotonic_ns) {
            continue;
        }
        let incoming = Incoming {
            source: packet.source,
            received: packet.at,
            ttl: packet.ttl,
            dscp: packet.dscp.unwrap_or(0),
            ecn: packet.ecn,
        };
        let mut sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = sessions.answer(&incoming, octets, wall);
        drop(sessions);
        // refusals are counted, and a lost answer is for the sender to find
        if let Ok(answer) = answer
            && let Err(error) = send_back(socket, &answer.octets, packet.source, answer.dscp, packet.came_to)
        {
            tracing::trace!(source = %packet.source, %error, "answer not sent");
        }
    }
    true
}
