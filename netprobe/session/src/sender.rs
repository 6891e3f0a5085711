//! The session-sender: numbers the probes, matches the answers, remembers what the window needs.

use std::collections::VecDeque;

use crate::directions::Before;
use crate::figures::{Figures, LEAST_LOSS_NS, Outcome, PathSeen, Probe, loss_after_ns};
use crate::reflection::{FarCount, Progress, Reflection};
use crate::sample::NearSide;
use crate::{
    ErrorEstimate, Extensions, Mode, Now, PacketError, Record, ReflectorPacket, Refused, Reported, Sample, SenderPacket,
};

/// Probes remembered at most, whatever the window says.
const MOST_PROBES: usize = 1 << 20;
/// Answers to copies of one probe that are remembered each.
const MOST_COPIES: usize = 64;

/// How to probe.
#[derive(Debug, Clone)]
pub struct SenderConfig {
    /// Session identifier, 0 for none.
    pub ssid: u16,
    /// Whether packets carry a tag.
    pub mode: Mode,
    /// Quality of the own clock.
    pub error: ErrorEstimate,
    /// Length of the sliding window in nanoseconds.
    pub window_ns: u64,
    /// Length of the windows that are recorded, in nanoseconds; 0 for none. Their probes are remembered until they are taken.
    pub record_ns: u64,
    /// What every probe asks for beyond the base.
    pub extensions: Extensions,
    /// Whether the reflector counts its answers.
    pub far_count: FarCount,
}

impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            ssid: 0,
            mode: Mode::Open,
            error: ErrorEstimate::UNSYNCHRONISED,
            window_ns: 10_000_000_000,
            record_ns: 0,
            extensions: Extensions::default(),
            far_count: FarCount::Assumed,
        }
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
    sent: u32,
    progress: Progress,
    /// The last answer known of probes that are forgotten; `None` if there are none such.
    forgotten: Option<Before>,
    /// When the first window not yet recorded began.
    record_start_ns: Option<u64>,
    reported: Reported,
}

/// An answer as the socket gave it.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    /// When it came.
    pub at: Now,
    /// Time to live, or hop limit, it came with; `None` if the socket did not tell.
    pub ttl: Option<u8>,
    /// Class (six bits) it came in; `None` if the socket did not tell.
    pub dscp: Option<u8>,
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
            progress: Progress::new(config.far_count),
            sent: 0,
            forgotten: None,
            record_start_ns: None,
            reported: Reported::default(),
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
        self.sent = self.sent.wrapping_add(1);
        self.record_start_ns.get_or_insert(now.monotonic_ns);
        let Self { config: SenderConfig { ssid, mode, error, extensions, .. }, sent, .. } = self;
        let packet = SenderPacket { sequence, sent: now.wall, error: *error, ssid: *ssid };
        let mut octets = packet.encode(mode);
        let tail = extensions.tail(octets.len(), sequence, *sent, mode.key());
        octets.extend_from_slice(&tail);
        octets
    }

    /// Takes what came from the reflector where nothing but its time is known; `now` is when it came.
    pub fn on_reply(&mut self, octets: &[u8], now: Now) -> Result<Answered, ReplyError> {
        self.on_answer(octets, Received { at: now, ttl: None, dscp: None })
    }

    /// Takes what came from the reflector.
    pub fn on_answer(&mut self, octets: &[u8], received: Received) -> Result<Answered, ReplyError> {
        let answered = self.accept(octets, received);
        match answered {
            Ok(_) => self.last_reply_ns = self.last_reply_ns.max(Some(received.at.monotonic_ns)),
            Err(_) => self.strays += 1,
        }
        answered
    }

    /// Says from now on how good the own clock is.
    pub fn set_error(&mut self, error: ErrorEstimate) {
        self.config.error = error;
    }

    /// What the answer to the newest probe said by extensions.
    pub fn reported(&self) -> Reported {
        self.reported
    }

    /// What the window says.
    pub fn figures(&self, now_ns: u64) -> Figures {
        let start_ns = now_ns.saturating_sub(self.config.window_ns);
        let (probes, before) = self.between(start_ns, u64::MAX);
        let mut figures = Figures::of(&probes, before, self.progress.count(), now_ns, self.config.window_ns);
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

    /// The next recorded window whose probes are all answered or given up; `None` if there is none yet. A window without probes
    /// is a record too: nothing was measured.
    pub fn take_record(&mut self, now_ns: u64) -> Option<Record> {
        let start_ns = self.record_start_ns.filter(|_| self.config.record_ns > 0)?;
        let end_ns = start_ns.saturating_add(self.config.record_ns);
        if end_ns.saturating_add(LEAST_LOSS_NS) > now_ns {
            return None;
        }
        let (probes, before) = self.between(start_ns, end_ns);
        if end_ns.saturating_add(loss_after_ns(probes.iter().copied())) > now_ns {
            return None;
        }
        let record = Record::of(&probes, before, self.progress.count(), start_ns, self.config.record_ns, now_ns);
        self.record_start_ns = Some(end_ns);
        self.forget(now_ns);
        Some(record)
    }

    fn accept(&mut self, octets: &[u8], received: Received) -> Result<Answered, ReplyError> {
        let now = received.at;
        let reply = ReflectorPacket::decode(octets, &self.config.mode)?;
        let expected = self.config.ssid;
        // a reflector from before RFC 8972 leaves the field zero
        if reply.ssid != expected && reply.ssid != 0 {
            return Err(ReplyError::OtherSession { found: reply.ssid, expected });
        }
        let sequence = reply.sender_sequence;
        let error = self.config.error;
        let highest = self.highest_answered;
        let known = self.probe_mut(sequence).is_some_and(|probe| probe.sent == reply.sender_sent);
        if !known {
            return Err(ReplyError::Stray { sequence });
        }
        let tail = octets.get(self.config.mode.packet_bytes()..).unwrap_or_default();
        let reported = Reported::read(tail, reply.sequence, self.config.mode.key());
        let mut progress = self.progress.clone();
        let placed = progress.place(reply.sequence, sequence, reply.sent, reply.error.format());
        let reflection = Reflection { counted: reported.counted, ..placed };
        let Some(probe) = self.probe_mut(sequence) else { return Err(ReplyError::Stray { sequence }) };
        if let Some(outcome) = &mut probe.outcome {
            if outcome.reflections().any(|known| known.is_copy_of(&reflection)) || outcome.others.len() >= MOST_COPIES {
                outcome.copies = outcome.copies.saturating_add(1);
            } else {
                outcome.others.push(reflection);
                self.progress = progress;
            }
            return Ok(Answered::Duplicate { sequence });
        }
        let near = NearSide { sent_ns: probe.sent_ns, received_ns: now.monotonic_ns, received: now.wall, error };
        let sample = Sample::new(&near, &reply);
        let reordered = highest.is_some_and(|highest| is_before(sequence, highest));
        let path = PathSeen {
            // zero is what an answer without the field is filled up with
            ttl_forward: Some(reply.sender_ttl).filter(|ttl| *ttl > 0),
            ttl_backward: received.ttl,
            dscp_forward: reported.service.map(|service| service.seen_dscp),
            dscp_backward: received.dscp,
            changed: false,
        };
        let sample_or_none = sample.ok();
        probe.outcome =
            Some(Outcome { sample: sample_or_none, reordered, first: reflection, others: Vec::new(), copies: 0, path });
        self.progress = progress;
        if !reordered {
            self.reported = reported;
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

    /// The probes sent from `start_ns` until before `end_ns`, and where the reflector's count stood before them.
    fn between(&self, start_ns: u64, end_ns: u64) -> (Vec<&Probe>, Before) {
        let first = self.probes.partition_point(|probe| probe.sent_ns < start_ns);
        let after = self.probes.partition_point(|probe| probe.sent_ns < end_ns).max(first);
        let count = self.progress.count();
        let known = self.probes.range(..first).filter_map(|probe| probe.last_reflection(count));
        let before = match first.checked_sub(1).map(|last| &self.probes[last]) {
            None => self.forgotten.unwrap_or(Before::Nothing),
            // answers to those just before the window may be among what is missing from the count
            Some(probe) if probe.outcome.is_none() => Before::Unknown,
            Some(_) => known.max_by_key(|known| known.order(count)).map_or(Before::Unknown, Before::Answered),
        };
        (self.probes.range(first..after).collect(), before)
    }

    fn forget(&mut self, now_ns: u64) {
        let window_ns = now_ns.saturating_sub(self.config.window_ns);
        let recorded_ns = self.record_start_ns.filter(|_| self.config.record_ns > 0).unwrap_or(u64::MAX);
        let start_ns = window_ns.min(recorded_ns);
        while self.probes.front().is_some_and(|probe| probe.sent_ns < start_ns) || self.probes.len() >= MOST_PROBES {
            let Some(probe) = self.probes.pop_front() else { return };
            let known = probe.last_reflection(self.progress.count());
            self.forgotten = Some(known.map_or(Before::Unknown, Before::Answered));
        }
    }
}

/// Whether sequence `a` was sent before `b`, across the wrap.
fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
