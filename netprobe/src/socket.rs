//! Sockets that tell when a packet came, in what class and with what time to live.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

use mio::net::UdpSocket;
use nix::cmsg_space;
use nix::libc::{in_pktinfo, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use rhumb_probe_session::Now;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::lookup_host;

use crate::ProbeError;
use crate::clock::Clock;

/// Room for some thousand probes, so that a busy moment of the host loses none.
const SOCKET_BUFFER_BYTES: usize = 1 << 20;
/// The largest packet answered or understood: that of a jumbo frame.
pub(crate) const MOST_PACKET_BYTES: usize = 9_216;
/// Probes and answers start with this (RFC 8762, section 4.2.1), so that what is left tells the hops.
const TTL: u32 = 255;
/// The congestion bits below the class.
const ECN_BITS: u32 = 2;

/// One packet and what came with it.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) bytes: usize,
    pub(crate) source: SocketAddr,
    pub(crate) at: Now,
    pub(crate) ttl: Option<u8>,
    pub(crate) dscp: Option<u8>,
    pub(crate) ecn: u8,
    pub(crate) came_to: CameTo,
}

/// The address a packet was sent to: its answer must come from there.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum CameTo {
    #[default]
    Untold,
    V4(in_pktinfo),
    V6(in6_pktinfo),
}

/// Room for what the kernel tells of a packet.
#[derive(Debug)]
pub(crate) struct Mailbox {
    control: Vec<u8>,
    pub(crate) octets: Vec<u8>,
}

impl Mailbox {
    pub(crate) fn new() -> Self {
        // an IPv4 packet on an IPv6 socket brings both families' marks
        let control = cmsg_space!(TimeSpec, in_pktinfo, in6_pktinfo, i32, i32, i32, i32);
        Self { control, octets: vec![0; MOST_PACKET_BYTES] }
    }

    /// The next packet of the socket; `WouldBlock` if there is none.
    pub(crate) fn receive(&mut self, socket: &UdpSocket, clock: Clock) -> io::Result<Packet> {
        let mut parts = [IoSliceMut::new(&mut self.octets)];
        let control = Some(self.control.as_mut_slice());
        let received = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, control, MsgFlags::MSG_DONTWAIT)?;
        let source = received.address.as_ref().and_then(address);
        let mut kernel_unix_ns = None;
        let (mut ttl, mut class, mut came_to) = (None, None, CameTo::Untold);
        for told in received.cmsgs()? {
            match told {
                ControlMessageOwned::ScmTimestampns(at) => kernel_unix_ns = unix_ns(at),
                ControlMessageOwned::Ipv4Ttl(hops) | ControlMessageOwned::Ipv6HopLimit(hops) => {
                    ttl = u8::try_from(hops).ok();
                }
                ControlMessageOwned::Ipv4Tos(octet) => class = Some(octet),
                ControlMessageOwned::Ipv6TClass(octet) => class = u8::try_from(octet).ok(),
                ControlMessageOwned::Ipv4PacketInfo(info) => came_to = CameTo::V4(info),
                ControlMessageOwned::Ipv6PacketInfo(info) => came_to = CameTo::V6(info),
                _ => {}
            }
        }
        Ok(Packet {
            bytes: received.bytes,
            source: source.ok_or(io::ErrorKind::AddrNotAvailable)?,
            at: kernel_unix_ns.map_or_else(|| clock.now(), |unix_ns| clock.at(unix_ns)),
            ttl,
            dscp: class.map(|octet| octet >> ECN_BITS),
            ecn: class.map_or(0, |octet| octet & 0b11),
            came_to,
        })
    }
}

/// A socket on that address that tells all it can. What a kernel cannot tell is missing, and no error.
pub(crate) fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.set_nonblocking(true)?;
    for (what, set) in marks(&socket, address) {
        if let Err(error) = set {
            tracing::debug!(%address, what, %error, "a probe socket cannot tell everything");
        }
    }
    socket.bind(&address.into())?;
    Ok(UdpSocket::from_std(socket.into()))
}

fn marks(socket: &Socket, address: SocketAddr) -> Vec<(&'static str, io::Result<()>)> {
    let mut set = vec![
        ("kernel time", setsockopt(socket, sockopt::ReceiveTimestampns, &true).map_err(Into::into)),
        ("own time to live", socket.set_ttl_v4(TTL)),
        ("time to live", setsockopt(socket, sockopt::Ipv4RecvTtl, &true).map_err(Into::into)),
        ("class", socket.set_recv_tos_v4(true)),
    ];
    if address.is_ipv6() {
        set.extend([
            ("own hop limit", socket.set_unicast_hops_v6(TTL)),
            ("hop limit", socket.set_recv_hoplimit_v6(true)),
            ("class", socket.set_recv_tclass_v6(true)),
            ("destination", setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true).map_err(Into::into)),
        ]);
    } else {
        set.push(("destination", setsockopt(socket, sockopt::Ipv4PacketInfo, &true).map_err(Into::into)));
    }
    set
}

/// A socket that sends to `target` in that class and hears nobody else.
pub(crate) fn connect(target: SocketAddr, dscp: u8) -> io::Result<UdpSocket> {
    let any = match target {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = bind(any)?;
    let class = u32::from(dscp) << ECN_BITS;
    let options = socket2::SockRef::from(&socket);
    match target {
        SocketAddr::V4(_) => options.set_tos_v4(class)?,
        SocketAddr::V6(_) => options.set_tclass_v6(class)?,
    }
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

/// Sends an answer in that class, from the address its question was sent to.
pub(crate) fn send_back(
    socket: &UdpSocket,
    octets: &[u8],
    to: SocketAddr,
    dscp: u8,
    came_to: CameTo,
) -> io::Result<()> {
    let is_v4 = to.ip().to_canonical().is_ipv4();
    let (octet, class) = (dscp << ECN_BITS, i32::from(dscp << ECN_BITS));
    let from_v4;
    let from_v6;
    let mut marks = vec![if is_v4 { ControlMessage::Ipv4Tos(&octet) } else { ControlMessage::Ipv6TClass(&class) }];
    match came_to {
        CameTo::V4(info) => {
            // the interface is for the route to choose
            from_v4 = in_pktinfo { ipi_ifindex: 0, ..info };
            marks.push(ControlMessage::Ipv4PacketInfo(&from_v4));
        }
        CameTo::V6(info) => {
            // a link-local address means nothing without its interface
            let local = Ipv6Addr::from(info.ipi6_addr.s6_addr).is_unicast_link_local();
            from_v6 = in6_pktinfo { ipi6_ifindex: if local { info.ipi6_ifindex } else { 0 }, ..info };
            marks.push(ControlMessage::Ipv6PacketInfo(&from_v6));
        }
        CameTo::Untold => {}
    }
    let to = SockaddrStorage::from(to);
    sendmsg(socket.as_raw_fd(), &[IoSlice::new(octets)], &marks, MsgFlags::MSG_DONTWAIT, Some(&to))?;
    Ok(())
}

pub(crate) async fn resolve(host: &str) -> Result<SocketAddr, ProbeError> {
    let failed = |source| ProbeError::Resolve { host: host.to_owned(), source };
    let mut addresses = lookup_host(host).await.map_err(|error| failed(Some(error)))?;
    addresses.next().ok_or_else(|| failed(None))
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|address| SocketAddr::V4(SocketAddrV4::from(*address)));
    v4.or_else(|| storage.as_sockaddr_in6().map(|address| SocketAddr::V6(SocketAddrV6::from(*address))))
}

fn unix_ns(at: TimeSpec) -> Option<u128> {
    let (seconds, ns) = (u128::try_from(at.tv_sec()).ok()?, u128::try_from(at.tv_nsec()).ok()?);
    Some(seconds * 1_000_000_000 + ns)
}
