//! Sockets, clocks and keys: what the session crate takes as given.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mio::net::UdpSocket;
use rhumb_probe_session::{Key, Now, NtpTime};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::lookup_host;

use crate::ProbeError;

/// Room for some thousand probes, so that a busy moment of the host loses none.
const SOCKET_BUFFER_BYTES: usize = 1 << 20;
/// The largest packet answered or understood: an Ethernet frame's payload and some.
pub(crate) const MOST_PACKET_BYTES: usize = 2_048;

/// Both clocks, from one zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    zero: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { zero: Instant::now() }
    }

    pub(crate) fn monotonic_ns(self) -> u64 {
        self.zero.elapsed().as_nanos() as u64
    }

    pub(crate) fn now(self) -> Now {
        Now { monotonic_ns: self.monotonic_ns(), wall: wall() }
    }
}

/// Time of day; a clock set before 1970 gives 1970, which the far end sees as an absurd sample and refuses.
pub(crate) fn wall() -> NtpTime {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    NtpTime::from_unix_ns(since_1970.as_nanos())
}

pub(crate) fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(UdpSocket::from_std(socket.into()))
}

/// A socket that sends to `target` and hears nobody else.
pub(crate) fn connect(target: SocketAddr) -> io::Result<UdpSocket> {
    let any = match target {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = bind(any)?;
    socket.connect(target)?;
    Ok(socket)
}

/// Sends on a connected socket. A closed port's earlier refusal surfaces here in place of this packet: it is sent again, once.
pub(crate) fn transmit(socket: &UdpSocket, packet: &[u8]) -> io::Result<()> {
    match socket.send(packet) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => socket.send(packet).map(drop),
        sent => sent.map(drop),
    }
}

pub(crate) async fn resolve(host: &str) -> Result<SocketAddr, ProbeError> {
    let failed = |source| ProbeError::Resolve { host: host.to_owned(), source };
    let mut addresses = lookup_host(host).await.map_err(|error| failed(Some(error)))?;
    addresses.next().ok_or_else(|| failed(None))
}

/// Reads a probe key: the file's octets without white space at the end.
pub async fn read_key(path: &Path) -> Result<Key, ProbeError> {
    let octets = tokio::fs::read(path).await.map_err(|source| ProbeError::ReadKey { path: path.to_owned(), source })?;
    Key::new(octets.trim_ascii_end()).map_err(|source| ProbeError::Key { path: path.to_owned(), source })
}
