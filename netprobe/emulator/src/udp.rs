//! Datagram fronts: one thread that receives on all of them and puts what arrives into the links.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mio::{Events, Interest, Poll, Token, Waker};
use socket2::{Domain, Protocol, Socket, Type};

use crate::EmulatorError;
use crate::link::Link;
use crate::polled::Polled;
use crate::timer::{Datagram, Exit, Timer, wake_on_time};

/// An upstream socket without traffic for this long is closed.
const IDLE_NS: u64 = 60_000_000_000;
/// Senders one link serves at a time; the one longest silent makes room for a new one.
const MOST_CLIENTS: usize = 256;
/// Datagrams taken from one socket before the others have their turn.
const TURN: usize = 64;
/// Kernel buffer of each socket, so that a busy moment of this thread loses nothing.
const SOCKET_BUFFER_BYTES: usize = 1 << 20;
/// The largest UDP payload.
const MOST_DATAGRAM_BYTES: usize = 65_535;
const STOP: Token = Token(usize::MAX);
const SWEEP: Duration = Duration::from_secs(5);

/// Where a front's datagrams go; may change while it runs.
pub(crate) type Target = Arc<Mutex<SocketAddr>>;

/// One directed link's entrance for datagrams.
#[derive(Debug)]
pub(crate) struct UdpFront {
    forward: Arc<Link>,
    reverse: Arc<Link>,
    target: Target,
    socket: Port,
}

/// One socket, held twice: `polled` belongs to the receiving thread, `sender` to whatever is on its way.
#[derive(Debug)]
struct Port {
    polled: mio::net::UdpSocket,
    sender: Arc<UdpSocket>,
}

/// What the far end sees as one sender.
#[derive(Debug)]
struct Upstream {
    front: usize,
    client: SocketAddr,
    target: SocketAddr,
    port: Port,
    used_at: u64,
}

#[derive(Debug)]
struct Receiver {
    poll: Poll,
    timer: Timer,
    fronts: Vec<UdpFront>,
    upstreams: BTreeMap<usize, Upstream>,
    by_client: BTreeMap<(usize, SocketAddr), usize>,
    next_token: usize,
    buffer: Vec<u8>,
}

impl UdpFront {
    pub(crate) fn bind(
        address: SocketAddr,
        forward: Arc<Link>,
        reverse: Arc<Link>,
        target: Target,
    ) -> Result<Self, EmulatorError> {
        let socket = Port::bind(address).map_err(|source| EmulatorError::Bind {
            id: forward.id().to_owned(),
            address,
            source,
        })?;
        Ok(Self { forward, reverse, target, socket })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.sender.local_addr()
    }
}

/// The thread that receives on all fronts.
pub(crate) fn receive(mut fronts: Vec<UdpFront>, timer: Timer) -> Result<Polled, EmulatorError> {
    let failed = |source| EmulatorError::Thread { what: "receiving thread", source };
    let poll = Poll::new().map_err(failed)?;
    for (token, front) in fronts.iter_mut().enumerate() {
        poll.registry().register(&mut front.socket.polled, Token(token), Interest::READABLE).map_err(failed)?;
    }
    let stop = Waker::new(poll.registry(), STOP).map_err(failed)?;
    let mut receiver = Receiver {
        poll,
        timer,
        next_token: fronts.len(),
        fronts,
        upstreams: BTreeMap::new(),
        by_client: BTreeMap::new(),
        buffer: vec![0; MOST_DATAGRAM_BYTES],
    };
    Polled::start("emulator-receive", stop, move || receiver.run()).map_err(failed)
}

impl Receiver {
    fn run(&mut self) {
        wake_on_time();
        let mut events = Events::with_capacity(256);
        let mut ready = BTreeSet::new();
        let mut swept_at = 0;
        loop {
            let wait = if ready.is_empty() { SWEEP } else { Duration::ZERO };
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::error!(%error, "the emulator can no longer receive datagrams");
                    return;
                }
                Ok(()) => {}
            }
            for event in &events {
                if event.token() == STOP {
                    return;
                }
                ready.insert(event.token().0);
            }
            ready.retain(|token| self.take_turn(*token));
            let now = self.timer.now();
            if now.saturating_sub(swept_at) >= SWEEP.as_nanos() as u64 {
                swept_at = now;
                self.close_idle(now);
            }
        }
    }

    /// Takes up to a turn's datagrams from one socket; whether there may be more.
    fn take_turn(&mut self, token: usize) -> bool {
        for _ in 0..TURN {
            let more = if token < self.fronts.len() { self.take_forward(token) } else { self.take_answer(token) };
            if !more {
                return false;
            }
        }
        true
    }

    fn take_forward(&mut self, front: usize) -> bool {
        let (bytes, client) = match self.fronts[front].socket.polled.recv_from(&mut self.buffer) {
            Ok(received) => received,
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        };
        let now = self.timer.now();
        let link = Arc::clone(&self.fronts[front].forward);
        let socket = match self.upstream(front, client, now) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::debug!(link = link.id(), %error, "cannot open a socket toward the link's target");
                link.udp.dropped(1, bytes);
                return true;
            }
        };
        if let Some(transit) = link.accept_datagram(bytes, now) {
            let exit = Exit::Udp { socket, to: None };
            self.timer.send(Datagram { link, transit, exit, payload: self.buffer[..bytes].into() });
        }
        true
    }

    fn take_answer(&mut self, token: usize) -> bool {
        let Some(upstream) = self.upstreams.get_mut(&token) else { return false };
        let bytes = match upstream.port.polled.recv(&mut self.buffer) {
            Ok(bytes) => bytes,
            // a refused connection is what a closed port answers; it is not the end of the socket
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        };
        let now = self.timer.now();
        upstream.used_at = now;
        let front = &self.fronts[upstream.front];
        let link = Arc::clone(&front.reverse);
        if let Some(transit) = link.accept_datagram(bytes, now) {
            let socket = Arc::clone(&front.socket.sender);
            let exit = Exit::Udp { socket, to: Some(upstream.client) };
            self.timer.send(Datagram { link, transit, exit, payload: self.buffer[..bytes].into() });
        }
        true
    }

    fn upstream(&mut self, front: usize, client: SocketAddr, now: u64) -> io::Result<Arc<UdpSocket>> {
        let target = *self.fronts[front].target.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&token) = self.by_client.get(&(front, client)) {
            match self.upstreams.get_mut(&token) {
                Some(upstream) if upstream.target == target => {
                    upstream.used_at = now;
                    return Ok(Arc::clone(&upstream.port.sender));
                }
                _ => self.close(token),
            }
        }
        self.make_room(front);
        let mut port = Port::bind(any_port_toward(target))?;
        port.sender.connect(target)?;
        let token = self.next_token;
        self.poll.registry().register(&mut port.polled, Token(token), Interest::READABLE)?;
        self.next_token += 1;
        let sender = Arc::clone(&port.sender);
        self.upstreams.insert(token, Upstream { front, client, target, port, used_at: now });
        self.by_client.insert((front, client), token);
        Ok(sender)
    }

    fn make_room(&mut self, front: usize) {
        let of_front = || self.upstreams.iter().filter(|(_, upstream)| upstream.front == front);
        if of_front().count() >= MOST_CLIENTS
            && let Some(token) = of_front().min_by_key(|(_, upstream)| upstream.used_at).map(|(token, _)| *token)
        {
            self.close(token);
        }
    }

    fn close_idle(&mut self, now: u64) {
        let idle = |upstream: &Upstream| now.saturating_sub(upstream.used_at) >= IDLE_NS;
        let tokens: Vec<_> =
            self.upstreams.iter().filter(|(_, upstream)| idle(upstream)).map(|(token, _)| *token).collect();
        for token in tokens {
            self.close(token);
        }
    }

    fn close(&mut self, token: usize) {
        let Some(mut upstream) = self.upstreams.remove(&token) else { return };
        self.by_client.remove(&(upstream.front, upstream.client));
        if let Err(error) = self.poll.registry().deregister(&mut upstream.port.polled) {
            tracing::debug!(%error, "cannot stop watching an idle socket");
        }
    }
}

impl Port {
    fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
        socket.set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        let socket = UdpSocket::from(socket);
        let sender = Arc::new(socket.try_clone()?);
        Ok(Self { polled: mio::net::UdpSocket::from_std(socket), sender })
    }
}

/// Loopback for a loopback target, so that nothing outside this machine can reach the socket; else any address.
fn any_port_toward(target: SocketAddr) -> SocketAddr {
    let address = match target.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_loopback() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(address, 0)
}
