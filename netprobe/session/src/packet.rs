//! STAMP test packets (RFC 8762, sections 4.2 and 4.3), big endian.

use crate::key::TAG_BYTES;
use crate::{ErrorEstimate, Key, NtpTime};

/// Octets of an unauthenticated packet, both ways.
pub const BASE_BYTES: usize = 44;
/// Octets of an authenticated packet, both ways.
pub const AUTHENTICATED_BYTES: usize = 112;
/// The shortest packet understood: all that a round trip needs. What is missing up to the base is taken as zero, which is how
/// TWAMP-Light peers are met (RFC 8762, section 4.6).
pub const SHORTEST_BYTES: usize = 36;

const TAG_OFFSET: usize = AUTHENTICATED_BYTES - TAG_BYTES;

/// Whether packets carry a tag.
#[derive(Debug, Clone, Default)]
pub enum Mode {
    /// 44 octets, no tag.
    #[default]
    Open,
    /// 112 octets, of which the last 16 prove that the sender has the key.
    Authenticated(Key),
}

/// What a session-sender sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderPacket {
    /// 0, 1, 2, ... within a session.
    pub sequence: u32,
    /// T1: when it was sent.
    pub sent: NtpTime,
    /// Quality of the sender's clock.
    pub error: ErrorEstimate,
    /// Session identifier (RFC 8972), 0 if there is none.
    pub ssid: u16,
}

/// What a session-reflector sends back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReflectorPacket {
    /// The reflector's own count of what it answered in this session; a copy of the sender's if it keeps no state.
    pub sequence: u32,
    /// T3: when this one was sent.
    pub sent: NtpTime,
    /// Quality of the reflector's clock.
    pub error: ErrorEstimate,
    /// Copied from the sender's packet.
    pub ssid: u16,
    /// T2: when the sender's packet came.
    pub received: NtpTime,
    /// The sender's sequence.
    pub sender_sequence: u32,
    /// T1: when the sender sent it.
    pub sender_sent: NtpTime,
    /// The sender's error estimate.
    pub sender_error: ErrorEstimate,
    /// Time to live the sender's packet arrived with.
    pub sender_ttl: u8,
}

/// Why octets are no packet of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Fewer octets than the shortest packet.
    #[error("a probe packet of {found} octets is too short; the least is {least}")]
    TooShort {
        /// Octets found.
        found: usize,
        /// Octets needed.
        least: usize,
    },
    /// The tag does not belong to the packet.
    #[error("a probe packet's tag is wrong; both ends need the same key")]
    WrongTag,
}

/// Where the fields stand.
struct Layout {
    sent: usize,
    error: usize,
    ssid: usize,
    received: usize,
    sender_sequence: usize,
    sender_sent: usize,
    sender_error: usize,
    sender_ttl: usize,
}

const OPEN: Layout = Layout {
    sent: 4,
    error: 12,
    ssid: 14,
    received: 16,
    sender_sequence: 24,
    sender_sent: 28,
    sender_error: 36,
    sender_ttl: 40,
};

const AUTHENTICATED: Layout = Layout {
    sent: 16,
    error: 24,
    ssid: 26,
    received: 32,
    sender_sequence: 48,
    sender_sent: 64,
    sender_error: 72,
    sender_ttl: 80,
};

impl Mode {
    /// Octets of a packet without extensions.
    pub fn packet_bytes(&self) -> usize {
        match self {
            Self::Open => BASE_BYTES,
            Self::Authenticated(_) => AUTHENTICATED_BYTES,
        }
    }

    /// The key, in an authenticated session.
    pub(crate) fn key(&self) -> Option<&Key> {
        match self {
            Self::Open => None,
            Self::Authenticated(key) => Some(key),
        }
    }

    fn layout(&self) -> &'static Layout {
        match self {
            Self::Open => &OPEN,
            Self::Authenticated(_) => &AUTHENTICATED,
        }
    }

    /// The base of the packet, zero-filled. The tag is checked before any field is looked at.
    fn open(&self, octets: &[u8]) -> Result<[u8; AUTHENTICATED_BYTES], PacketError> {
        let least = match self {
            Self::Open => SHORTEST_BYTES,
            Self::Authenticated(_) => AUTHENTICATED_BYTES,
        };
        if octets.len() < least {
            return Err(PacketError::TooShort { found: octets.len(), least });
        }
        let taken = octets.len().min(self.packet_bytes());
        let mut base = [0; AUTHENTICATED_BYTES];
        base[..taken].copy_from_slice(&octets[..taken]);
        match self {
            Self::Authenticated(key) if !key.matches(&base[..TAG_OFFSET], &base[TAG_OFFSET..]) => {
                Err(PacketError::WrongTag)
            }
            _ => Ok(base),
        }
    }

    fn seal(&self, mut base: [u8; AUTHENTICATED_BYTES]) -> Vec<u8> {
        if let Self::Authenticated(key) = self {
            let tag = key.tag(&base[..TAG_OFFSET]);
            base[TAG_OFFSET..].copy_from_slice(&tag);
        }
        base[..self.packet_bytes()].to_vec()
    }
}

impl SenderPacket {
    /// The packet for it.
    pub fn encode(&self, mode: &Mode) -> Vec<u8> {
        let mut base = [0; AUTHENTICATED_BYTES];
        let at = mode.layout();
        put(&mut base, 0, self.sequence.to_be_bytes());
        put(&mut base, at.sent, self.sent.bits().to_be_bytes());
        put(&mut base, at.error, self.error.bits().to_be_bytes());
        put(&mut base, at.ssid, self.ssid.to_be_bytes());
        mode.seal(base)
    }

    /// Reads a packet that came to a reflector.
    pub fn decode(octets: &[u8], mode: &Mode) -> Result<Self, PacketError> {
        let base = mode.open(octets)?;
        let at = mode.layout();
        Ok(Self {
            sequence: u32::from_be_bytes(take(&base, 0)),
            sent: time(&base, at.sent),
            error: estimate(&base, at.error),
            ssid: u16::from_be_bytes(take(&base, at.ssid)),
        })
    }
}

impl ReflectorPacket {
    /// The packet for it.
    pub fn encode(&self, mode: &Mode) -> Vec<u8> {
        let mut base = [0; AUTHENTICATED_BYTES];
        let at = mode.layout();
        put(&mut base, 0, self.sequence.to_be_bytes());
        put(&mut base, at.sent, self.sent.bits().to_be_bytes());
        put(&mut base, at.error, self.error.bits().to_be_bytes());
        put(&mut base, at.ssid, self.ssid.to_be_bytes());
        put(&mut base, at.received, self.received.bits().to_be_bytes());
        put(&mut base, at.sender_sequence, self.sender_sequence.to_be_bytes());
        put(&mut base, at.sender_sent, self.sender_sent.bits().to_be_bytes());
        put(&mut base, at.sender_error, self.sender_error.bits().to_be_bytes());
        put(&mut base, at.sender_ttl, [self.sender_ttl]);
        mode.seal(base)
    }

    /// Reads a packet that came back to a sender.
    pub fn decode(octets: &[u8], mode: &Mode) -> Result<Self, PacketError> {
        let base = mode.open(octets)?;
        let at = mode.layout();
        Ok(Self {
            sequence: u32::from_be_bytes(take(&base, 0)),
            sent: time(&base, at.sent),
            error: estimate(&base, at.error),
            ssid: u16::from_be_bytes(take(&base, at.ssid)),
            received: time(&base, at.received),
            sender_sequence: u32::from_be_bytes(take(&base, at.sender_sequence)),
            sender_sent: time(&base, at.sender_sent),
            sender_error: estimate(&base, at.sender_error),
            sender_ttl: base[at.sender_ttl],
        })
    }
}

fn put<const N: usize>(base: &mut [u8; AUTHENTICATED_BYTES], offset: usize, octets: [u8; N]) {
    base[offset..offset + N].copy_from_slice(&octets);
}

fn take<const N: usize>(base: &[u8; AUTHENTICATED_BYTES], offset: usize) -> [u8; N] {
    let mut octets = [0; N];
    octets.copy_from_slice(&base[offset..offset + N]);
    octets
}

fn time(base: &[u8; AUTHENTICATED_BYTES], offset: usize) -> NtpTime {
    NtpTime::from_bits(u64::from_be_bytes(take(base, offset)))
}

fn estimate(base: &[u8; AUTHENTICATED_BYTES], offset: usize) -> ErrorEstimate {
    ErrorEstimate::from_bits(u16::from_be_bytes(take(base, offset)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn modes() -> [Mode; 2] {
        [Mode::Open, Mode::Authenticated(Key::new(b"sixteen octets or more").unwrap())]
    }

    fn sender_packets() -> impl Strategy<Value = SenderPacket> {
        (any::<u32>(), any::<u64>(), any::<u16>(), any::<u16>()).prop_map(|(sequence, sent, error, ssid)| {
            SenderPacket { sequence, sent: NtpTime::from_bits(sent), error: ErrorEstimate::from_bits(error), ssid }
        })
    }

    fn reflector_packets() -> impl Strategy<Value = ReflectorPacket> {
        let own = (any::<u32>(), any::<u64>(), any::<u16>(), any::<u16>(), any::<u64>());
        (own, sender_packets(), any::<u8>()).prop_map(
            |((sequence, sent, error, ssid, received), packet, sender_ttl)| ReflectorPacket {
                sequence,
                sent: NtpTime::from_bits(sent),
                error: ErrorEstimate::from_bits(error),
                ssid,
                received: NtpTime::from_bits(received),
                sender_sequence: packet.sequence,
                sender_sent: packet.sent,
                sender_error: packet.error,
                sender_ttl,
            },
        )
    }

    proptest! {
        #[test]
        fn any_octets_are_read_or_refused(octets in prop::collection::vec(any::<u8>(), 0..256)) {
            for mode in modes() {
                let packet = SenderPacket::decode(&octets, &mode);
                prop_assert_eq!(packet.is_ok(), ReflectorPacket::decode(&octets, &mode).is_ok());
                match mode {
                    Mode::Open => prop_assert_eq!(packet.is_ok(), octets.len() >= SHORTEST_BYTES),
                    Mode::Authenticated(_) => prop_assert!(packet.is_err(), "a tag by chance"),
                }
            }
        }

        #[test]
        fn sender_packets_survive_the_wire(packet in sender_packets(), padding in 0_usize..64) {
            for mode in modes() {
                let mut octets = packet.encode(&mode);
                prop_assert_eq!(octets.len(), mode.packet_bytes());
                octets.resize(octets.len() + padding, 0xff);
                prop_assert_eq!(SenderPacket::decode(&octets, &mode), Ok(packet));
            }
        }

        #[test]
        fn reflector_packets_survive_the_wire(answer in reflector_packets()) {
            for mode in modes() {
                let octets = answer.encode(&mode);
                prop_assert_eq!(octets.len(), mode.packet_bytes());
                prop_assert_eq!(ReflectorPacket::decode(&octets, &mode), Ok(answer));
            }
        }

        #[test]
        fn a_changed_octet_breaks_the_tag(answer in reflector_packets(), at in 0..AUTHENTICATED_BYTES, change in 1_u8..) {
            let [_, mode] = modes();
            let mut octets = answer.encode(&mode);
            octets[at] ^= change;
            prop_assert_eq!(ReflectorPacket::decode(&octets, &mode), Err(PacketError::WrongTag));
        }
    }

    #[test]
    fn the_open_answer_has_the_layout_of_the_rfc() {
        let answer = ReflectorPacket {
            sequence: 0x0102_0304,
            sent: NtpTime::from_bits(0x1112_1314_1516_1718),
            error: ErrorEstimate::from_bits(0x2122),
            ssid: 0x3132,
            received: NtpTime::from_bits(0x4142_4344_4546_4748),
            sender_sequence: 0x5152_5354,
            sender_sent: NtpTime::from_bits(0x6162_6364_6566_6768),
            sender_error: ErrorEstimate::from_bits(0x7172),
            sender_ttl: 0x81,
        };
        let expected =
            "01020304 1112131415161718 2122 3132 4142434445464748 51525354 6162636465666768 7172 0000 81 000000";
        assert_eq!(hex(&answer.encode(&Mode::Open)), expected.replace(' ', ""));
        let [_, mode] = modes();
        let octets = answer.encode(&mode);
        let expected = "01020304 000000000000000000000000 1112131415161718 2122 3132 00000000 4142434445464748 \
            0000000000000000 51525354 000000000000000000000000 6162636465666768 7172 000000000000 81 \
            000000000000000000000000000000";
        assert_eq!(hex(&octets[..TAG_OFFSET]), expected.replace(' ', ""));
    }

    #[test]
    fn a_short_answer_is_filled_with_zeros() {
        let full = ReflectorPacket::decode(&[0xff; 44], &Mode::Open).unwrap();
        let short = ReflectorPacket::decode(&[0xff; 36], &Mode::Open).unwrap();
        assert_eq!(short, ReflectorPacket { sender_error: ErrorEstimate::from_bits(0), sender_ttl: 0, ..full });
        let refused = ReflectorPacket::decode(&[0xff; 35], &Mode::Open).unwrap_err();
        assert_eq!(refused.to_string(), "a probe packet of 35 octets is too short; the least is 36");
    }

    fn hex(octets: &[u8]) -> String {
        octets.iter().fold(String::new(), |text, octet| format!("{text}{octet:02x}"))
    }
}
