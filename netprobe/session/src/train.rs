//! Packet trains: the format, and the receiver that remembers when each packet of a train came.
//!
//! A train is data packets in one direction without an answer. Then the sender collects the times of arrival, a piece for each
//! question; an answer is never longer than its question, and nothing that is no question is answered. All integers are big
//! endian. The layout is this project's own:
//!
//! ```text
//! 0 magic (8) | 8 kind u8 | 9 zero (3) | 12 run u32 | 16 train u32 | 20 index u32 | 24 count u32 | 28 label u32 | 32 tag (16)
//! ```
//!
//! The tag is HMAC-SHA-256 over all but itself in questions and answers, and over the first 32 octets in data packets, whose
//! rest is zeros and means nothing; it is zero without a key.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use crate::bandwidth::train_rate;
use crate::{Key, Mode};

/// Octets before what a packet carries.
pub const TRAIN_HEADER_BYTES: usize = 48;
const MAGIC: &[u8; 8] = b"rhumbTR\x01";
const TAGGED_BYTES: usize = 32;
/// Of one arrival in an answer: index and nanoseconds since the first.
const ARRIVAL_BYTES: usize = 8;
/// Packets of one train.
pub const MOST_TRAIN_PACKETS: u32 = 4_096;
/// Trains remembered at a time; others are not heard.
const MOST_TRAINS: usize = 32;
/// Links counted at a time.
const MOST_LABELS: usize = 1_024;
/// The highest rate holds for this long.
const COUNT_NS: u64 = 1_800_000_000_000;
/// Of IPv4 and UDP.
const HEADERS_BYTES: u64 = 28;
/// A train is forgotten this long after its last packet or question.
const IDLE_NS: u64 = 10_000_000_000;

/// What a packet of a train is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainKind {
    /// Part of the train.
    Data,
    /// Asks for arrivals from an index of the list of arrivals on.
    Question,
    /// Some arrivals, in order of time.
    Answer,
}

/// The fields of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainHeader {
    /// What it is.
    pub kind: TrainKind,
    /// Drawn at random by the sender, so that two senders behind one address are kept apart.
    pub run: u32,
    /// Ordinal of the train in the run.
    pub train: u32,
    /// Of the packet in the train; in questions and answers of the first arrival in the list.
    pub index: u32,
    /// Packets of the train; in answers all that arrived.
    pub count: u32,
    /// The sender's name for the link: by it both ends' figures are put side by side.
    pub label: u32,
}

/// One packet's arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Of the packet in its train.
    pub index: u32,
    /// Nanoseconds since the train's first arrival, on the receiver's clock.
    pub at_ns: u32,
}

/// Why a packet is none of a train, or is not listened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TrainError {
    /// Not of this format.
    #[error("{octets} octets are no packet of a train")]
    Foreign {
        /// How many there were.
        octets: usize,
    },
    /// The tag is not the key's.
    #[error("a packet of a train has a wrong tag")]
    Tag,
    /// The source is not among the peers.
    #[error("a train comes from an unknown source")]
    Unknown,
    /// More at once than is remembered.
    #[error("too many trains at once")]
    Full,
    /// An answer, or a question about a train of which nothing is known.
    #[error("a packet of a train asks for nothing that is known")]
    Pointless,
}

/// Whether these octets are meant to be part of a train, be they right or wrong.
pub fn is_train(octets: &[u8]) -> bool {
    octets.starts_with(MAGIC)
}

impl TrainHeader {
    /// A packet of this header and zeros, `octets` long (at least the header).
    pub fn encode(&self, octets: usize, mode: &Mode) -> Vec<u8> {
        self.sealed(vec![0; octets.max(TRAIN_HEADER_BYTES) - TRAIN_HEADER_BYTES], mode)
    }

    fn sealed(&self, body: Vec<u8>, mode: &Mode) -> Vec<u8> {
        let mut packet = vec![0; TRAIN_HEADER_BYTES];
        packet[..8].copy_from_slice(MAGIC);
        packet[8] = match self.kind {
            TrainKind::Data => 1,
            TrainKind::Question => 2,
            TrainKind::Answer => 3,
        };
        for (at, value) in [(12, self.run), (16, self.train), (20, self.index), (24, self.count), (28, self.label)] {
            packet[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        packet.extend(body);
        if let Mode::Authenticated(key) = mode {
            let tag = key.tag(&self.tagged(&packet));
            packet[TAGGED_BYTES..TRAIN_HEADER_BYTES].copy_from_slice(&tag);
        }
        packet
    }

    /// What the tag is over.
    fn tagged(&self, packet: &[u8]) -> Vec<u8> {
        let mut tagged = packet[..TAGGED_BYTES].to_vec();
        if self.kind != TrainKind::Data {
            tagged.extend_from_slice(&packet[TRAIN_HEADER_BYTES..]);
        }
        tagged
    }

    /// Reads a packet and checks its tag.
    pub fn decode(octets: &[u8], mode: &Mode) -> Result<Self, TrainError> {
        let foreign = TrainError::Foreign { octets: octets.len() };
        if octets.len() < TRAIN_HEADER_BYTES || !is_train(octets) {
            return Err(foreign);
        }
        let kind = match octets[8] {
            1 => TrainKind::Data,
            2 => TrainKind::Question,
            3 => TrainKind::Answer,
            _ => return Err(foreign),
        };
        let field = |at: usize| u32::from_be_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]]);
        let header =
            Self { kind, run: field(12), train: field(16), index: field(20), count: field(24), label: field(28) };
        if let Mode::Authenticated(key) = mode
            && !key.matches(&header.tagged(octets), &octets[TAGGED_BYTES..TRAIN_HEADER_BYTES])
        {
            return Err(TrainError::Tag);
        }
        Ok(header)
    }
}

/// The arrivals in an answer; `None` if its length does not fit.
pub fn arrivals(answer: &[u8]) -> Option<Vec<Arrival>> {
    let (pieces, rest) = answer.get(TRAIN_HEADER_BYTES..)?.as_chunks::<ARRIVAL_BYTES>();
    let word = |piece: &[u8; ARRIVAL_BYTES], at: usize| {
        u32::from_be_bytes([piece[at], piece[at + 1], piece[at + 2], piece[at + 3]])
    };
    let arrival = |piece: &[u8; ARRIVAL_BYTES]| Arrival { index: word(piece, 0), at_ns: word(piece, 4) };
    rest.is_empty().then(|| pieces.iter().map(arrival).collect())
}

/// Hears trains of known peers.
#[derive(Debug)]
pub struct TrainReceiver {
    mode: Mode,
    known: BTreeSet<IpAddr>,
    trains: BTreeMap<(SocketAddr, u32, u32), Heard>,
    counts: BTreeMap<u32, TrainCount>,
}

/// What came over a link, by the receiver's own count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainCount {
    /// The sender's name for the link.
    pub label: u32,
    /// The highest rate of a train within some minutes.
    pub rate_kbps: u64,
    /// When the last train was asked about, on the receiver's clock.
    pub at_ns: u64,
}

#[derive(Debug)]
struct Heard {
    count: u32,
    first_ns: u64,
    used_ns: u64,
    packet_bytes: u64,
    arrivals: Vec<Arrival>,
    seen: BTreeSet<u32>,
}

impl TrainReceiver {
    /// With a key, whoever has it is known; without, only these addresses are.
    pub fn new(mode: Mode, known: impl IntoIterator<Item = IpAddr>) -> Self {
        Self { mode, known: known.into_iter().collect(), trains: BTreeMap::new(), counts: BTreeMap::new() }
    }

    /// Knows whoever has the key from now on, and nobody else.
    pub fn authenticate(&mut self, key: Key) {
        self.mode = Mode::Authenticated(key);
    }

    /// What came over each link.
    pub fn counts(&self) -> impl Iterator<Item = &TrainCount> {
        self.counts.values()
    }

    /// Takes a packet that came at `now_ns` on a clock that only runs forward; the answer, if it is a question.
    pub fn hear(&mut self, source: SocketAddr, octets: &[u8], now_ns: u64) -> Result<Option<Vec<u8>>, TrainError> {
        if matches!(self.mode, Mode::Open) && !self.known.contains(&source.ip()) {
            return Err(TrainError::Unknown);
        }
        let header = TrainHeader::decode(octets, &self.mode)?;
        let id = (source, header.run, header.train);
        match header.kind {
            TrainKind::Data => self.note(id, &header, octets.len(), now_ns).map(|()| None),
            TrainKind::Question => self.answer(id, &header, octets.len(), now_ns).map(Some),
            TrainKind::Answer => Err(TrainError::Pointless),
        }
    }

    fn note(
        &mut self,
        id: (SocketAddr, u32, u32),
        header: &TrainHeader,
        octets: usize,
        now_ns: u64,
    ) -> Result<(), TrainError> {
        if header.count > MOST_TRAIN_PACKETS || header.index >= header.count {
            return Err(TrainError::Pointless);
        }
        self.trains.retain(|_, heard| now_ns.saturating_sub(heard.used_ns) < IDLE_NS);
        if self.trains.len() >= MOST_TRAINS && !self.trains.contains_key(&id) {
            return Err(TrainError::Full);
        }
        let first = || Heard {
            count: header.count,
            first_ns: now_ns,
            used_ns: now_ns,
            packet_bytes: octets as u64 + HEADERS_BYTES,
            arrivals: Vec::new(),
            seen: BTreeSet::new(),
        };
        let heard = self.trains.entry(id).or_insert_with(first);
        heard.used_ns = now_ns;
        let at_ns = u32::try_from(now_ns.saturating_sub(heard.first_ns)).map_err(|_| TrainError::Pointless)?;
        if header.count == heard.count && heard.seen.insert(header.index) {
            heard.arrivals.push(Arrival { index: header.index, at_ns });
        }
        Ok(())
    }

    /// As many arrivals as fit into an answer as long as the question.
    fn answer(
        &mut self,
        id: (SocketAddr, u32, u32),
        header: &TrainHeader,
        octets: usize,
        now_ns: u64,
    ) -> Result<Vec<u8>, TrainError> {
        let heard = self.trains.get_mut(&id).ok_or(TrainError::Pointless)?;
        heard.used_ns = now_ns;
        if header.index == 0
            && let Some(rate) = train_rate(&heard.arrivals, heard.count, heard.packet_bytes)
        {
            count(&mut self.counts, header.label, rate.rate_kbps, now_ns);
        }
        let fits = (octets - TRAIN_HEADER_BYTES) / ARRIVAL_BYTES;
        let piece = heard.arrivals.iter().skip(header.index as usize).take(fits);
        let body = piece.flat_map(|a| [a.index.to_be_bytes(), a.at_ns.to_be_bytes()].concat()).collect();
        // at most MOST_TRAIN_PACKETS
        let arrived = heard.arrivals.len() as u32;
        Ok(TrainHeader { kind: TrainKind::Answer, count: arrived, ..*header }.sealed(body, &self.mode))
    }
}

fn count(counts: &mut BTreeMap<u32, TrainCount>, label: u32, rate_kbps: u64, now_ns: u64) {
    counts.retain(|_, known| now_ns.saturating_sub(known.at_ns) < COUNT_NS);
    if counts.len() >= MOST_LABELS && !counts.contains_key(&label) {
        return;
    }
    let known = counts.entry(label).or_insert(TrainCount { label, rate_kbps, at_ns: now_ns });
    (known.rate_kbps, known.at_ns) = (known.rate_kbps.max(rate_kbps), now_ns);
}
