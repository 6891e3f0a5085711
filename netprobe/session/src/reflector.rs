//! The session-reflector: answers probes, and counts what it answered so that the sender can tell the direction of a loss.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde::Serialize;

use crate::extensions::Reflecting;
use crate::tally::{Tally, TooOld};
use crate::{Counted, ErrorEstimate, Key, Mode, Now, NtpTime, PacketError, ReflectorPacket, SenderPacket};

/// What RFC 5357 asks for where the time to live cannot be read.
const TTL_UNKNOWN: u8 = 255;
const NS_PER_S: u64 = 1_000_000_000;
/// No reflector takes longer from receiving to answering.
const LONGEST_PROCESSING_NS: i64 = 10_000_000_000;

/// Limits of a reflector.
#[derive(Debug, Clone)]
pub struct ReflectorConfig {
    /// Whether packets carry a tag.
    pub mode: Mode,
    /// Quality of the own clock, if it is given; else nobody vouches for it until `set_error`.
    pub error: Option<ErrorEstimate>,
    /// Sessions with a count of their own; senders beyond that are answered without one.
    pub most_sessions: usize,
    /// Sessions and sources silent for this many nanoseconds are forgotten.
    pub idle_ns: u64,
    /// Packets per second answered to one source address, with bursts of as many.
    pub packets_per_second: u32,
    /// Source addresses served at a time; others are not answered.
    pub most_sources: usize,
    /// Networks whose probes are answered; none named means all.
    pub sources: Vec<IpNet>,
    /// Whether answers are counted per session (stateful), or carry a copy of the sender's sequence (stateless, RFC 8762
    /// section 4).
    pub counting: Counting,
}

/// What a reflector keeps of its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counting {
    /// A count per session: the sender can tell the direction of a loss.
    #[default]
    Stateful,
    /// Nothing.
    Stateless,
}

/// A packet as the socket gave it.
#[derive(Debug, Clone, Copy)]
pub struct Incoming {
    /// Whom the answer goes to.
    pub source: SocketAddr,
    /// When it came.
    pub received: Now,
    /// Time to live, or hop limit, it came with; `None` if the socket did not tell.
    pub ttl: Option<u8>,
    /// Class (six bits) it came in.
    pub dscp: u8,
    /// Congestion bits it came with.
    pub ecn: u8,
}

/// What to send back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The packet.
    pub octets: Vec<u8>,
    /// The class to send it in.
    pub dscp: u8,
}

impl Incoming {
    /// A packet of which nothing but source and time is known.
    pub fn new(source: SocketAddr, received: Now) -> Self {
        Self { source, received, ttl: None, dscp: 0, ecn: 0 }
    }
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        Self {
            mode: Mode::Open,
            error: None,
            most_sessions: 4_096,
            idle_ns: 60 * NS_PER_S,
            packets_per_second: 2_000,
            most_sources: 4_096,
            sources: Vec::new(),
            counting: Counting::Stateful,
        }
    }
}

/// All sessions at one port.
#[derive(Debug)]
pub struct Reflector {
    config: ReflectorConfig,
    error: ErrorEstimate,
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
    /// Answers of a reflector.
    pub echoed: u64,
    /// From a source that is not served.
    pub unknown: u64,
    /// Older than what the session remembers: kept back and sent again.
    pub replayed: u64,
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
    /// The packet is an answer: two reflectors were pointed at each other.
    #[error("a packet that came to a reflector is an answer itself")]
    Echoed,
    /// The source is none of those served.
    #[error("a source of probes is not among those served")]
    Unknown,
    /// The packet is older than what the session remembers.
    #[error("a probe packet is a replay")]
    Replayed,
}

#[derive(Debug, Default)]
struct Session {
    answered: u32,
    received: u32,
    last_sent: NtpTime,
    used_ns: u64,
    tally: Tally,
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
            error: config.error.unwrap_or(ErrorEstimate::UNSYNCHRONISED),
            config,
            sessions: BTreeMap::new(),
            sources: BTreeMap::new(),
            swept_ns: 0,
            counts: ReflectorCounts::default(),
        }
    }

    /// The answer to a packet that came from `source` at `received`, where nothing else of it is known.
    pub fn reflect(
        &mut self,
        source: SocketAddr,
        octets: &[u8],
        received: Now,
        transmit: impl FnOnce() -> NtpTime,
    ) -> Result<Vec<u8>, Unanswered> {
        self.answer(&Incoming::new(source, received), octets, transmit).map(|reply| reply.octets)
    }

    /// The answer to a packet; `transmit` is asked for the time just before the answer is complete. The answer is exactly as
    /// long as the packet: extensions are filled in where they stand, and what else follows the base is copied.
    pub fn answer(
        &mut self,
        incoming: &Incoming,
        octets: &[u8],
        transmit: impl FnOnce() -> NtpTime,
    ) -> Result<Reply, Unanswered> {
        let answer = self.try_answer(incoming, octets, transmit);
        let count = match answer {
            Ok(_) => &mut self.counts.answered,
            Err(Unanswered::Packet(_)) => &mut self.counts.malformed,
            Err(Unanswered::Limited) => &mut self.counts.limited,
            Err(Unanswered::Echoed) => &mut self.counts.echoed,
            Err(Unanswered::Unknown) => &mut self.counts.unknown,
            Err(Unanswered::Replayed) => &mut self.counts.replayed,
        };
        *count += 1;
        answer
    }

    /// Counts since the start.
    pub fn counts(&self) -> ReflectorCounts {
        self.counts
    }

    /// Answers only who has the key from now on.
    pub fn authenticate(&mut self, key: Key) {
        self.config.mode = Mode::Authenticated(key);
    }

    /// Says from now on how good the own clock is.
    pub fn set_error(&mut self, error: ErrorEstimate) {
        self.error = error;
    }

    fn try_answer(
        &mut self,
        incoming: &Incoming,
        octets: &[u8],
        transmit: impl FnOnce() -> NtpTime,
    ) -> Result<Reply, Unanswered> {
        let now_ns = incoming.received.monotonic_ns;
        self.sweep(now_ns);
        if !self.knows(incoming.source.ip()) {
            return Err(Unanswered::Unknown);
        }
        self.spend(incoming.source.ip(), now_ns)?;
        let packet = SenderPacket::decode(octets, &self.config.mode)?;
        let as_answer = ReflectorPacket::decode(octets, &self.config.mode)?;
        if is_answer(&as_answer) {
            return Err(Unanswered::Echoed);
        }
        let most_sessions = match self.config.counting {
            Counting::Stateful => self.config.most_sessions,
            Counting::Stateless => 0,
        };
        let id = (incoming.source, packet.ssid);
        let mut session = Self::session(&mut self.sessions, most_sessions, id);
        if let Some(session) = &mut session {
            session.receive(&packet, &as_answer, now_ns)?;
        }
        self.counts.stateless += u64::from(session.is_none());
        let (received, counted) = session.as_ref().map_or((0, None), |session| session.so_far());
        let sent = transmit();
        let own_sequence = session.map_or(packet.sequence, |session| session.count(sent));
        let answer = ReflectorPacket {
            sequence: own_sequence,
            sent,
            error: self.error,
            ssid: packet.ssid,
            received: incoming.received.wall,
            sender_sequence: packet.sequence,
            sender_sent: packet.sent,
            sender_error: packet.error,
            sender_ttl: incoming.ttl.unwrap_or(TTL_UNKNOWN),
        };
        let mut reply = answer.encode(&self.config.mode);
        let base_bytes = reply.len();
        reply.truncate(octets.len());
        reply.extend_from_slice(&octets[reply.len()..]);
        let reflecting = Reflecting {
            sequence: packet.sequence,
            own_sequence,
            key: self.config.mode.key(),
            dscp: incoming.dscp,
            ecn: incoming.ecn,
            received,
            answered: if counted.is_some() { own_sequence.wrapping_add(1) } else { 0 },
            counted,
            synchronised: self.error.is_synchronised(),
        };
        let dscp = reply.get_mut(base_bytes..).map_or(incoming.dscp, |tail| reflecting.fill(tail));
        Ok(Reply { octets: reply, dscp })
    }

    fn knows(&self, source: IpAddr) -> bool {
        let source = source.to_canonical();
        self.config.sources.is_empty() || self.config.sources.iter().any(|network| network.contains(&source))
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
    fn receive(&mut self, packet: &SenderPacket, as_answer: &ReflectorPacket, now_ns: u64) -> Result<(), Unanswered> {
        // an answer without times of its own still copies the time of what it answers
        if !self.last_sent.is_unset() && as_answer.sender_sent == self.last_sent {
            return Err(Unanswered::Echoed);
        }
        let taken = self.tally.take(packet.sequence, packet.sent, packet.error.format());
        taken.map_err(|TooOld| Unanswered::Replayed)?;
        self.received = self.received.wrapping_add(1);
        self.used_ns = now_ns;
        Ok(())
    }

    fn so_far(&self) -> (u32, Option<Counted>) {
        (self.received, Some(self.tally.counted))
    }

    /// The sequence of the next answer.
    fn count(&mut self, sent: NtpTime) -> u32 {
        let sequence = self.answered;
        self.answered = sequence.wrapping_add(1);
        self.last_sent = sent;
        sequence
    }
}

/// Whether a packet is what a reflector sends: where a probe has zeros, or a TWAMP-Light peer its padding, it has a receive time
/// shortly before its own. By chance, padding looks so once in 2^28.
fn is_answer(packet: &ReflectorPacket) -> bool {
    let processing_ns = packet.sent.since_ns(packet.received, packet.error.format());
    !packet.received.is_unset() && (0..LONGEST_PROCESSING_NS).contains(&processing_ns)
}
