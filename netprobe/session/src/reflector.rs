//! The session-reflector: answers probes, and counts what it answered so that the sender can tell the direction of a loss.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use crate::{ErrorEstimate, Mode, Now, NtpTime, PacketError, ReflectorPacket, SenderPacket};

/// The time to live is not read from the socket; this is what RFC 5357 asks for then.
const TTL_UNKNOWN: u8 = 255;
const NS_PER_S: u64 = 1_000_000_000;

/// Limits of a reflector.
#[derive(Debug, Clone)]
pub struct ReflectorConfig {
    /// Whether packets carry a tag.
    pub mode: Mode,
    /// Quality of the own clock.
    pub error: ErrorEstimate,
    /// Sessions with a count of their own; senders beyond that are answered without one.
    pub most_sessions: usize,
    /// Sessions and sources silent for this many nanoseconds are forgotten.
    pub idle_ns: u64,
    /// Packets per second answered to one source address, with bursts of as many.
    pub packets_per_second: u32,
    /// Source addresses served at a time; others are not answered.
    pub most_sources: usize,
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        Self {
            mode: Mode::Open,
            error: ErrorEstimate::UNSYNCHRONISED,
            most_sessions: 4_096,
            idle_ns: 60 * NS_PER_S,
            packets_per_second: 2_000,
            most_sources: 4_096,
        }
    }
}

/// All sessions at one port.
#[derive(Debug)]
pub struct Reflector {
    config: ReflectorConfig,
    sessions: BTreeMap<(SocketAddr, u16), Session>,
    sources: BTreeMap<IpAddr, Allowance>,
    swept_ns: u64,
    counts: ReflectorCounts,
}

/// What a reflector did with the packets it got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ReflectorCounts {
    /// Answered.
    pub answered: u64,
    /// Of those, answered without a count of their own because there were too many sessions.
    pub stateless: u64,
    /// Too short, or with a wrong tag.
    pub malformed: u64,
    /// Over the rate, or from one source too many.
    pub limited: u64,
    /// Answers to an answer of this reflector.
    pub echoed: u64,
}

/// Why a packet gets no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// No packet of the protocol, or a wrong tag.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// The source sends too much.
    #[error("a source of probes is over its rate")]
    Limited,
    /// The packet answers an answer: two reflectors were pointed at each other.
    #[error("a probe packet answers an answer of this reflector")]
    Echoed,
}

#[derive(Debug, Default)]
struct Session {
    answered: u32,
    last_sent: NtpTime,
    used_ns: u64,
}

/// A token bucket in nanoseconds of credit: a packet costs a second divided by the rate.
#[derive(Debug)]
struct Allowance {
    credit_ns: u64,
    used_ns: u64,
}

impl Reflector {
    /// A reflector without sessions.
    pub fn new(config: ReflectorConfig) -> Self {
        Self {
            config,
            sessions: BTreeMap::new(),
            sources: BTreeMap::new(),
            swept_ns: 0,
            counts: ReflectorCounts::default(),
        }
    }

    /// The answer to a packet that came from `source` at `received`; `transmit` is asked for the time just before the answer
    /// is complete. The answer is exactly as long as the packet: what follows the base is copied.
    pub fn reflect(
        &mut self,
        source: SocketAddr,
        octets: &[u8],
        received: Now,
        transmit: impl FnOnce() -> NtpTime,
    ) -> Result<Vec<u8>, Unanswered> {
        let answer = self.answer(source, octets, received, transmit);
        let count = match answer {
            Ok(_) => &mut self.counts.answered,
            Err(Unanswered::Packet(_)) => &mut self.counts.malformed,
            Err(Unanswered::Limited) => &mut self.counts.limited,
            Err(Unanswered::Echoed) => &mut self.counts.echoed,
        };
        *count += 1;
        answer
    }

    /// Counts since the start.
    pub fn counts(&self) -> ReflectorCounts {
        self.counts
    }

    fn answer(
        &mut self,
        source: SocketAddr,
        octets: &[u8],
        received: Now,
        transmit: impl FnOnce() -> NtpTime,
    ) -> Result<Vec<u8>, Unanswered> {
        self.sweep(received.monotonic_ns);
        self.spend(source.ip(), received.monotonic_ns)?;
        let packet = SenderPacket::decode(octets, &self.config.mode)?;
        let echoed = ReflectorPacket::decode(octets, &self.config.mode)?;
        let session = Self::session(&mut self.sessions, self.config.most_sessions, (source, packet.ssid));
        if let Some(session) = &session
            && !session.last_sent.is_unset()
            && echoed.sender_sent == session.last_sent
        {
            return Err(Unanswered::Echoed);
        }
        self.counts.stateless += u64::from(session.is_none());
        let sent = transmit();
        let sequence = session.map_or(packet.sequence, |session| session.count(sent, received.monotonic_ns));
        let answer = ReflectorPacket {
            sequence,
            sent,
            error: self.config.error,
            ssid: packet.ssid,
            received: received.wall,
            sender_sequence: packet.sequence,
            sender_sent: packet.sent,
            sender_error: packet.error,
            sender_ttl: TTL_UNKNOWN,
        };
        let mut reply = answer.encode(&self.config.mode);
        reply.truncate(octets.len());
        reply.extend_from_slice(&octets[reply.len()..]);
        Ok(reply)
    }

    fn session(
        sessions: &mut BTreeMap<(SocketAddr, u16), Session>,
        most: usize,
        id: (SocketAddr, u16),
    ) -> Option<&mut Session> {
        if sessions.len() >= most && !sessions.contains_key(&id) {
            return None;
        }
        Some(sessions.entry(id).or_default())
    }

    fn spend(&mut self, source: IpAddr, now_ns: u64) -> Result<(), Unanswered> {
        if self.sources.len() >= self.config.most_sources && !self.sources.contains_key(&source) {
            return Err(Unanswered::Limited);
        }
        let price_ns = NS_PER_S.checked_div(u64::from(self.config.packets_per_second)).ok_or(Unanswered::Limited)?;
        let allowance = self.sources.entry(source).or_insert(Allowance { credit_ns: NS_PER_S, used_ns: now_ns });
        let earned_ns = now_ns.saturating_sub(allowance.used_ns);
        allowance.credit_ns = allowance.credit_ns.saturating_add(earned_ns).min(NS_PER_S);
        allowance.used_ns = now_ns;
        allowance.credit_ns = allowance.credit_ns.checked_sub(price_ns).ok_or(Unanswered::Limited)?;
        Ok(())
    }

    fn sweep(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.swept_ns) < self.config.idle_ns.min(NS_PER_S) {
            return;
        }
        self.swept_ns = now_ns;
        let kept = |used_ns: u64| now_ns.saturating_sub(used_ns) < self.config.idle_ns;
        self.sessions.retain(|_, session| kept(session.used_ns));
        self.sources.retain(|_, allowance| kept(allowance.used_ns));
    }
}

impl Session {
    /// The sequence of the next answer.
    fn count(&mut self, sent: NtpTime, now_ns: u64) -> u32 {
        let sequence = self.answered;
        self.answered = sequence.wrapping_add(1);
        self.last_sent = sent;
        self.used_ns = now_ns;
        sequence
    }
}
