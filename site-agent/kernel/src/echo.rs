//! ICMP echoes (RFC 792) to tunnels' far ends: their kernels answer, whatever runs there.

use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4},
};
use tokio::net::UdpSocket;

const REQUEST: u8 = 8;
const REPLY: u8 = 0;
const ICMP: u8 = 1;
/// Identifies this driver's echoes; with several of one host each takes its process's.
#[derive(Debug)]
pub(crate) struct Echo {
    /// A raw socket; the runtime's name for it knows no other datagrams.
    socket: UdpSocket,
    identity: u16,
}

/// What came back, from whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) from: Ipv4Addr,
    pub(crate) number: u16,
}

impl Echo {
    pub(crate) fn open() -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from_std(socket.into())?;
        Ok(Self { socket, identity: std::process::id() as u16 })
    }

    /// What does not fit into the socket now is lost, as on any way.
    pub(crate) fn send(&self, to: Ipv4Addr, number: u16) -> io::Result<()> {
        let packet = request(self.identity, number);
        self.socket.try_send_to(&packet, SocketAddrV4::new(to, 0).into()).map(drop)
    }

    pub(crate) async fn receive(&self) -> io::Result<Answer> {
        let mut buffer = [0; 128];
        loop {
            let read = self.socket.recv(&mut buffer).await?;
            if let Some(answer) = answer(&buffer[..read], self.identity) {
                return Ok(answer);
            }
        }
    }
}

fn request(identity: u16, number: u16) -> [u8; 8] {
    let mut packet = [REQUEST, 0, 0, 0, 0, 0, 0, 0];
    packet[4..6].copy_from_slice(&identity.to_be_bytes());
    packet[6..8].copy_from_slice(&number.to_be_bytes());
    let sum = checksum(&packet);
    packet[2..4].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// RFC 1071.
fn checksum(octets: &[u8]) -> u16 {
    let words = octets.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

/// `None`: not an answer to this driver.
fn answer(packet: &[u8], identity: u16) -> Option<Answer> {
    let header = usize::from(packet.first()? & 0x0F) * 4;
    let from: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
    let icmp = packet.get(header..header + 8)?;
    let word = |at: usize| u16::from_be_bytes([icmp[at], icmp[at + 1]]);
    let own = packet.get(9) == Some(&ICMP) && icmp[0] == REPLY && word(4) == identity;
    own.then(|| Answer { from: Ipv4Addr::from(from), number: word(6) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_any_other_octets_are_not() {
        let mut packet = vec![0_u8; 20];
        (packet[0], packet[9]) = (0x45, ICMP);
        packet[12..16].copy_from_slice(&[10, 200, 0, 1]);
        packet.extend(request(7, 9));
        assert_eq!(answer(&packet, 7), None, "its own request");
        packet[20] = REPLY;
        assert_eq!(answer(&packet, 7), Some(Answer { from: Ipv4Addr::new(10, 200, 0, 1), number: 9 }));
        assert_eq!(answer(&packet, 8), None, "somebody else's");
        for length in 0..packet.len() {
            assert_eq!(answer(&packet[..length], 7), None, "{length}");
        }
        assert_eq!(checksum(&request(7, 9)), 0, "a sum over its own sum is nothing");
    }
}
