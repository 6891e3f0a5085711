//! How much of a link's rate is free: streams of packets at rates that close in on the knee where they begin to queue.
//!
//! A stream slower than what is free comes out as it went in. A faster one comes out slower, and each of its packets waits a
//! little longer than the one before (Jain and Dovrolis, "End-to-end available bandwidth", 2003). Either sign is enough: the
//! rate tells once the queue is full and delays no longer rise, the delays tell near the knee where the rate hardly falls.

use serde::{Deserialize, Serialize};

use crate::bandwidth_run::Ended;
use crate::train::Arrival;

/// Packets of a stream.
const PACKETS: u32 = 100;
/// A stream that comes out slower than this share of what went in was too fast.
const THROUGH: f64 = 0.95;
/// One that loses no more than this is not held up, whatever its delays did.
const CLEAR: f64 = 0.99;
/// Delays rise where more than this share of steps between group medians are upward (pairwise comparison test), and the whole
/// rise is more than this share of all steps (pairwise difference test).
const PCT: f64 = 0.66;
const PDT: f64 = 0.55;
/// Streams at one rate: the word of two of three counts.
const VOTES: u32 = 3;
/// The search ends when the bounds are this share of the top apart (one in so many).
const CLOSE_PART: u64 = 16;
/// Loss above this part (one in so many) of a stream is harm.
const HARM_PART: u32 = 50;
/// Fewer arrivals say nothing.
const LEAST_ARRIVALS: usize = 20;

/// What a search goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AvailableConfig {
    /// Octets of each packet as the link counts them.
    pub packet_bytes: u64,
    /// Nothing above this is looked for: what the link carries when it is free.
    pub top_kbps: u64,
    /// Octets that the search may send.
    pub budget_bytes: u64,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AvailableNext {
    /// Send a stream of this many packets at that rate.
    Stream {
        /// Ordinal in the search.
        stream: u32,
        /// Its length.
        packets: u32,
        /// In kbit/s, as the link counts octets.
        pace_kbps: u64,
    },
    /// The search is over.
    Done(Available),
}

/// When each packet of a stream went, in nanoseconds since the first.
pub type Sent<'a> = &'a [u64];

/// What a search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Available {
    /// What is free lies between these; `None`: no stream said anything.
    pub between_kbps: Option<(u64, u64)>,
    /// Why it ended.
    pub ended: Ended,
    /// Streams sent.
    pub streams: u32,
    /// Packets sent.
    pub packets: u32,
    /// Of those, not arrived.
    pub lost: u32,
    /// Octets sent, as the link counts them.
    pub sent_bytes: u64,
}

impl Available {
    /// The middle of what was found.
    pub fn rate_kbps(&self) -> Option<u64> {
        self.between_kbps.map(|(low, high)| low + (high - low) / 2)
    }
}

/// A search by bisection.
#[derive(Debug)]
pub struct AvailableRun {
    config: AvailableConfig,
    low_kbps: u64,
    high_kbps: u64,
    /// Streams at the rate in question that came through, and that did not.
    votes: (u32, u32),
    known: bool,
    streams: u32,
    packets: u32,
    lost: u32,
    sent_bytes: u64,
    ended: Option<Ended>,
}

impl AvailableRun {
    /// A search that has sent nothing.
    pub fn new(config: AvailableConfig) -> Self {
        Self {
            config,
            low_kbps: 0,
            high_kbps: config.top_kbps,
            votes: (0, 0),
            known: false,
            streams: 0,
            packets: 0,
            lost: 0,
            sent_bytes: 0,
            ended: None,
        }
    }

    /// What to do now.
    pub fn step(&mut self) -> AvailableNext {
        if self.high_kbps - self.low_kbps <= (self.config.top_kbps / CLOSE_PART).max(1) {
            self.ended.get_or_insert(Ended::Agreed);
        }
        if self.sent_bytes + u64::from(PACKETS) * self.config.packet_bytes > self.config.budget_bytes {
            self.ended.get_or_insert(Ended::Budget);
        }
        if let Some(ended) = self.ended {
            return AvailableNext::Done(Available {
                between_kbps: self.known.then_some((self.low_kbps, self.high_kbps)),
                ended,
                streams: self.streams,
                packets: self.packets,
                lost: self.lost,
                sent_bytes: self.sent_bytes,
            });
        }
        AvailableNext::Stream { stream: self.streams, packets: PACKETS, pace_kbps: self.middle() }
    }

    /// What became of the stream that was asked for last.
    pub fn arrived(&mut self, sent: Sent<'_>, arrivals: &[Arrival]) {
        self.streams += 1;
        let packets = sent.len() as u32;
        self.packets += packets;
        self.sent_bytes += u64::from(packets) * self.config.packet_bytes;
        let lost = packets.saturating_sub(arrivals.len() as u32);
        self.lost += lost;
        if arrivals.is_empty() {
            self.ended = Some(Ended::Silence);
            return;
        }
        let harm = lost > packets / HARM_PART;
        match (harm, is_through(sent, arrivals)) {
            // a full queue says it at once
            (true, _) => self.votes.1 = VOTES,
            (false, Some(true)) => self.votes.0 += 1,
            (false, Some(false)) => self.votes.1 += 1,
            (false, None) => {}
        }
        let most = VOTES / 2 + 1;
        let (through, held_up) = self.votes;
        if through >= most || held_up >= most {
            let middle = self.middle();
            if through >= most {
                self.low_kbps = middle;
            } else {
                self.high_kbps = middle;
            }
            (self.known, self.votes) = (true, (0, 0));
        }
        if harm {
            self.ended.get_or_insert(Ended::Loss);
        } else if self.streams >= VOTES * 2 * CLOSE_PART.ilog2() {
            self.ended.get_or_insert(Ended::Trains);
        }
    }

    fn middle(&self) -> u64 {
        (self.low_kbps + (self.high_kbps - self.low_kbps) / 2).max(1)
    }
}

/// Whether a stream came out as it went in; `None` where too little arrived to tell.
fn is_through(sent: Sent<'_>, arrivals: &[Arrival]) -> Option<bool> {
    let points: Vec<(u64, u64)> =
        arrivals.iter().filter_map(|a| Some((*sent.get(a.index as usize)?, u64::from(a.at_ns)))).collect();
    if points.len() < LEAST_ARRIVALS {
        return None;
    }
    // Rout / Rin: as many packets in more time. From the middle of the first quarter to that of the last, so that a host that
    // was late once at either end does not count
    let middle = |part: &[(u64, u64)]| {
        let median = |mut times: Vec<u64>| {
            times.sort_unstable();
            times[times.len() / 2]
        };
        (median(part.iter().map(|point| point.0).collect()), median(part.iter().map(|point| point.1).collect()))
    };
    let quarter = points.len() / 4;
    let (first, last) = (middle(&points[..quarter]), middle(&points[points.len() - quarter..]));
    let (went, came) = (last.0.checked_sub(first.0)?, last.1.checked_sub(first.1)?);
    if went == 0 {
        return None;
    }
    let ratio = went as f64 / came.max(1) as f64;
    Some(ratio >= THROUGH && (ratio >= CLEAR || !rises(&points)))
}

/// Whether delays rise through the stream, by medians of groups of about the square root of its length.
fn rises(points: &[(u64, u64)]) -> bool {
    let delays: Vec<i64> = points.iter().map(|(sent, at)| *at as i64 - *sent as i64).collect();
    let group = delays.len().isqrt().max(1);
    let median = |part: &[i64]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part[part.len() / 2]
    };
    let medians: Vec<i64> = delays.chunks_exact(group).map(median).collect();
    let steps: Vec<i64> = medians.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (Some(first), Some(last)) = (medians.first(), medians.last()) else { return false };
    let all: u64 = steps.iter().map(|step| step.unsigned_abs()).sum();
    // a microsecond here and there is the clock's
    if all < 1_000 * steps.len() as u64 {
        return false;
    }
    let upward = steps.iter().filter(|step| **step > 0).count() as f64 / steps.len() as f64;
    upward > PCT && (last - first) as f64 / all as f64 > PDT
}
