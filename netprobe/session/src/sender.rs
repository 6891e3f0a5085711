//! The session-sender: numbers the probes, matches the answers, remembers what the window needs.

use std::collections::VecDeque;

use crate::figures::{Figures, Outcome, Probe, loss_after_ns};
use crate::sample::NearSide;
use crate::{ErrorEstimate, Mode, Now, PacketError, ReflectorPacket, Refused, Sample, SenderPacket};

/// Probes remembered at most, whatever the window says.
const MOST_PROBES: usize = 1 << 20;

/// How to probe.
#[derive(Debug, Clone)]
pub struct SenderConfig {
    /// Session identifier, 0 for none.
    pub ssid: u16,
    /// Whether packets carry a tag.
    pub mode: Mode,
    /// Quality of the own clock.
    pub error: ErrorEstimate,
    /// Probes sent longer ago than this many nanoseconds are forgotten.
    pub window_ns: u64,
}

impl Default for SenderConfig {
    fn default() -> Self {
        Self { ssid: 0, mode: Mode::Open, error: ErrorEstimate::UNSYNCHRONISED, window_ns: 10_000_000_000 }
    }
}

/// One session toward one reflector.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    next_sequence: u32,
    /// Without gaps: the last one has the sequence before `next_sequence`.
    probes: VecDeque<Probe>,
    /// Highest sequence answered so far.
    highest_answered: Option<u32>,
    last_reply_ns: Option<u64>,
    strays: u64,
}

/// What an accepted answer was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// The first answer to that probe.
    Fresh {
        /// Its sequence.
        sequence: u32,
        /// The measurement, or why there is none: the probe came back all the same.
        sample: Result<Sample, Refused>,
    },
    /// Another answer to a probe already answered; its time is not used.
    Duplicate {
        /// The probe's sequence.
        sequence: u32,
    },
}

/// Why octets were not taken as an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// No packet of this session.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// Another session's answer.
    #[error("an answer for probe session {found} came to session {expected}")]
    OtherSession {
        /// Session of the answer.
        found: u16,
        /// This session.
        expected: u16,
    },
    /// It answers no probe that is remembered: too late, of an earlier life, or made up.
    #[error("an answer to probe {sequence} matches no probe of the window")]
    Stray {
        /// Sequence it claims to answer.
        sequence: u32,
    },
}

impl Sender {
    /// A session that has sent nothing.
    pub fn new(config: SenderConfig) -> Self {
        Self {
            config,
            next_sequence: 0,
            probes: VecDeque::new(),
            highest_answered: None,
            last_reply_ns: None,
            strays: 0,
        }
    }

    /// The next probe, to be put onto the wire at once.
    pub fn send(&mut self, now: Now) -> Vec<u8> {
        self.forget(now.monotonic_ns);
        let sequence = self.next_sequence;
        self.next_sequence = sequence.wrapping_add(1);
        self.probes.push_back(Probe::new(now));
        let packet = SenderPacket { sequence, sent: now.wall, error: self.config.error, ssid: self.config.ssid };
        packet.encode(&self.config.mode)
    }

    /// Takes what came from the reflector; `now` is when it came.
    pub fn on_reply(&mut self, octets: &[u8], now: Now) -> Result<Answered, ReplyError> {
        let answered = self.accept(octets, now);
        match answered {
            Ok(_) => self.last_reply_ns = Some(now.monotonic_ns),
            Err(_) => self.strays += 1,
        }
        answered
    }

    /// What the window says.
    pub fn figures(&self, now_ns: u64) -> Figures {
        let mut figures = Figures::of(self.window(now_ns), now_ns, self.config.window_ns);
        figures.last_reply_age_ns = self.last_reply_ns.map(|at| now_ns.saturating_sub(at));
        figures.strays = self.strays;
        figures
    }

    /// When the oldest probe still in flight becomes lost, in nanoseconds of the monotonic clock; `None` if none is in flight.
    pub fn poll_timeout(&self, now_ns: u64) -> Option<u64> {
        let wait_ns = loss_after_ns(self.window(now_ns));
        let deadlines =
            self.window(now_ns).filter(|probe| probe.outcome.is_none()).map(|probe| probe.sent_ns + wait_ns);
        deadlines.filter(|deadline| *deadline > now_ns).min()
    }

    fn accept(&mut self, octets: &[u8], now: Now) -> Result<Answered, ReplyError> {
        let reply = ReflectorPacket::decode(octets, &self.config.mode)?;
        let expected = self.config.ssid;
        // a reflector from before RFC 8972 leaves the field zero
        if reply.ssid != expected && reply.ssid != 0 {
            return Err(ReplyError::OtherSession { found: reply.ssid, expected });
        }
        let sequence = reply.sender_sequence;
        let error = self.config.error;
        let highest = self.highest_answered;
        let probe = self
            .probe_mut(sequence)
            .filter(|probe| probe.sent == reply.sender_sent)
            .ok_or(ReplyError::Stray { sequence })?;
        if let Some(outcome) = &mut probe.outcome {
            outcome.duplicates = outcome.duplicates.saturating_add(1);
            return Ok(Answered::Duplicate { sequence });
        }
        let near = NearSide { sent_ns: probe.sent_ns, received_ns: now.monotonic_ns, received: now.wall, error };
        let sample = Sample::new(&near, &reply);
        let reordered = highest.is_some_and(|highest| is_before(sequence, highest));
        probe.outcome = Some(Outcome {
            rtt_ns: sample.ok().map(|sample| sample.rtt_ns),
            reflector_sequence: reply.sequence,
            reordered,
            duplicates: 0,
        });
        if !reordered {
            self.highest_answered = Some(sequence);
        }
        Ok(Answered::Fresh { sequence, sample })
    }

    fn probe_mut(&mut self, sequence: u32) -> Option<&mut Probe> {
        let behind = self.next_sequence.wrapping_sub(sequence) as usize;
        let index = self.probes.len().checked_sub(behind)?;
        self.probes.get_mut(index)
    }

    fn window(&self, now_ns: u64) -> impl DoubleEndedIterator<Item = &Probe> + Clone {
        let start_ns = now_ns.saturating_sub(self.config.window_ns);
        let first = self.probes.partition_point(|probe| probe.sent_ns < start_ns);
        self.probes.range(first..)
    }

    fn forget(&mut self, now_ns: u64) {
        let start_ns = now_ns.saturating_sub(self.config.window_ns);
        while self.probes.front().is_some_and(|probe| probe.sent_ns < start_ns) || self.probes.len() >= MOST_PROBES {
            self.probes.pop_front();
        }
    }
}

/// Whether sequence `a` was sent before `b`, across the wrap.
fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
