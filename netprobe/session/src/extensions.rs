//! What a session asks of a reflector beyond the base packet, and what the reflector says to it.

use serde::{Deserialize, Serialize};

use crate::Key;
use crate::tlv::{Chain, HEADER_BYTES, INTEGRITY, Integrity, Kind, MALFORMED, UNRECOGNISED, append};

/// Tells counters of this program from another's experiment under the same type.
const COUNTERS_MARK: [u8; 4] = *b"rhmb";
/// Class selectors 6 and 7 steer the network itself: a stranger does not get them for the asking (RFC 4594, section 3.1).
const NETWORK_CONTROL_DSCP: u8 = 48;
const SOFTWARE: u8 = 2;
const FOLLOWS_NTP: u8 = 1;
const RUNS_FREE: u8 = 5;

/// Extensions of every probe of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extensions {
    /// Octets of the whole packet, filled up with padding; no effect below what the packet has anyway and a padding's header.
    pub packet_bytes: usize,
    /// The class (six bits) that answers are to come back in; the reflector tells which it saw.
    pub service: Option<u8>,
    /// Packet counters of both ends.
    pub direct: bool,
    /// What the far clock follows.
    pub clock_source: bool,
    /// Distinct, doubled and reordered probes as the reflector counts them. Only a reflector of this program tells; others say
    /// that they do not understand.
    pub counters: bool,
}

/// What a reflector said by extensions; `None` where it said nothing or did not understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reported {
    /// Class of service.
    pub service: Option<Service>,
    /// Packet counters.
    pub direct: Option<DirectCounts>,
    /// What its clock follows.
    pub clock_source: Option<ClockSource>,
    /// Its counts of this session, the answered probe included.
    pub counted: Option<Counted>,
}

/// Class of service as the reflector met it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Class the probe arrived in: another than it was sent in means that the network rewrites it.
    pub seen_dscp: u8,
    /// Congestion bits it arrived with.
    pub seen_ecn: u8,
    /// Whether the class asked for the way back was refused.
    pub refused: bool,
}

/// Direct measurement: packets of the session counted by both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectCounts {
    /// Sent by the sender, copied back.
    pub sent: u32,
    /// Received by the reflector.
    pub received: u32,
    /// Sent by the reflector.
    pub answered: u32,
}

/// Synchronisation source and method of the reflector's receive time (RFC 8972, sections 5.4 and 5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockSource {
    /// 1 NTP, 2 PTP, 3 SSU/BITS, 4 a satellite system, 5 nothing.
    pub follows: u8,
    /// 1 hardware, 2 software, 3 control plane.
    pub method: u8,
}

/// What a reflector has counted of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// Probes, each once however often it came.
    pub distinct: u32,
    /// Copies beyond the first.
    pub duplicates: u32,
    /// Probes that came after one sent later (RFC 4737).
    pub reordered: u32,
}

/// What a reflector knows when it answers.
#[derive(Debug)]
pub(crate) struct Reflecting<'a> {
    pub(crate) sequence: u32,
    pub(crate) own_sequence: u32,
    pub(crate) key: Option<&'a Key>,
    pub(crate) dscp: u8,
    pub(crate) ecn: u8,
    pub(crate) received: u32,
    pub(crate) answered: u32,
    /// `None` if no state is kept.
    pub(crate) counted: Option<Counted>,
    pub(crate) synchronised: bool,
}

impl Extensions {
    /// What follows the base of the probe with that sequence; `sent` counts it.
    pub(crate) fn tail(&self, base_bytes: usize, sequence: u32, sent: u32, key: Option<&Key>) -> Vec<u8> {
        let mut tail = Vec::new();
        if self.clock_source {
            append(&mut tail, Kind::ClockSource, &[0; 4]);
        }
        if let Some(dscp) = self.service {
            append(&mut tail, Kind::Service, &[dscp << 2, 0, 0, 0]);
        }
        if self.direct {
            let mut value = [0; 12];
            value[..4].copy_from_slice(&sent.to_be_bytes());
            append(&mut tail, Kind::Direct, &value);
        }
        if self.counters {
            let mut value = [0; 16];
            value[..4].copy_from_slice(&COUNTERS_MARK);
            append(&mut tail, Kind::Counters, &value);
        }
        if key.is_some() && !tail.is_empty() {
            append(&mut tail, Kind::Tag, &[0; 16]);
        }
        let missing = self.packet_bytes.min(MOST_PACKET_BYTES).saturating_sub(base_bytes + tail.len());
        if let Some(padding) = missing.checked_sub(HEADER_BYTES) {
            append(&mut tail, Kind::Padding, &vec![0; padding]);
        }
        if let (Some(key), Some(chain)) = (key, Chain::read(&tail)) {
            chain.sign(&mut tail, sequence, key);
        }
        tail
    }
}

/// The largest payload of a datagram.
const MOST_PACKET_BYTES: usize = 65_507;

impl Reported {
    /// Reads what follows the base of an answer. What was not understood or cannot be believed says nothing.
    pub(crate) fn read(tail: &[u8], own_sequence: u32, key: Option<&Key>) -> Self {
        let mut reported = Self::default();
        let Some(chain) = Chain::read(tail) else { return reported };
        let broken = chain.spans.iter().any(|span| span.flags & INTEGRITY != 0);
        // an answer without a tag where none was asked for is believed: there is nothing to check it by
        let tagged = chain.find(Kind::Tag).is_some();
        if broken || (key.is_some() || tagged) && chain.integrity(tail, own_sequence, key) == Integrity::Broken {
            return reported;
        }
        for span in chain.spans.iter().take_while(|span| span.flags & MALFORMED == 0) {
            if span.flags & UNRECOGNISED == 0 {
                reported.take(span.kind, &tail[span.value()]);
            }
        }
        reported
    }

    fn take(&mut self, kind: Option<Kind>, value: &[u8]) {
        match (kind, value) {
            (Some(Kind::Service), [first, second, ..]) => {
                let seen_dscp = (first & 0b11) << 4 | second >> 4;
                let (seen_ecn, refused) = (second >> 2 & 0b11, second & 0b11 != 0);
                self.service = Some(Service { seen_dscp, seen_ecn, refused });
            }
            (Some(Kind::ClockSource), [follows, method, ..]) => {
                self.clock_source = Some(ClockSource { follows: *follows, method: *method });
            }
            (Some(Kind::Direct), value) => {
                let [sent, received, answered] = words(value);
                self.direct = Some(DirectCounts { sent, received, answered });
            }
            (Some(Kind::Counters), [a, b, c, d, counts @ ..]) if [*a, *b, *c, *d] == COUNTERS_MARK => {
                let [distinct, duplicates, reordered] = words(counts);
                self.counted = Some(Counted { distinct, duplicates, reordered });
            }
            _ => {}
        }
    }
}

impl Reflecting<'_> {
    /// Fills in the extensions of an answer, which has those of its question; the class the answer is to be sent in.
    pub(crate) fn fill(&self, tail: &mut [u8]) -> u8 {
        let Some(chain) = Chain::read(tail) else { return self.dscp };
        let integrity = chain.integrity(tail, self.sequence, self.key);
        let flags = if integrity == Integrity::Broken { INTEGRITY } else { 0 };
        for span in &chain.spans {
            tail[span.at] = flags | if span.kind.is_none() { UNRECOGNISED } else { 0 };
        }
        if let Some(at) = chain.malformed {
            // what follows is copied as it came
            tail[at] = flags | MALFORMED;
        }
        if integrity == Integrity::Broken || chain.malformed.is_some() {
            return self.dscp;
        }
        let mut dscp = self.dscp;
        for span in &chain.spans {
            let value = &mut tail[span.value()];
            let understood = match span.kind {
                Some(Kind::ClockSource) => {
                    let follows = if self.synchronised { FOLLOWS_NTP } else { RUNS_FREE };
                    value.copy_from_slice(&[follows, SOFTWARE, follows, SOFTWARE]);
                    true
                }
                Some(Kind::Service) => {
                    dscp = self.serve(value);
                    true
                }
                Some(Kind::Direct) => {
                    value[4..8].copy_from_slice(&self.received.to_be_bytes());
                    value[8..].copy_from_slice(&self.answered.to_be_bytes());
                    // zeros would be taken for a count
                    self.counted.is_some()
                }
                Some(Kind::Counters) => self.count(value),
                Some(Kind::Padding | Kind::Tag) => true,
                None => false,
            };
            if !understood {
                tail[span.at] |= UNRECOGNISED;
            }
        }
        if let Some(key) = self.key {
            chain.sign(tail, self.own_sequence, key);
        }
        dscp
    }

    fn serve(&self, value: &mut [u8]) -> u8 {
        let wanted = value[0] >> 2;
        let refused = wanted >= NETWORK_CONTROL_DSCP && wanted != self.dscp;
        value.copy_from_slice(&[
            wanted << 2 | self.dscp >> 4,
            self.dscp << 4 | (self.ecn & 0b11) << 2 | u8::from(refused),
            0,
            0,
        ]);
        if refused { self.dscp } else { wanted }
    }

    /// Whether these are counters of this program, and there are any.
    fn count(&self, value: &mut [u8]) -> bool {
        let Some(counted) = self.counted.filter(|_| value[..4] == COUNTERS_MARK) else { return false };
        let counts = [counted.distinct, counted.duplicates, counted.reordered];
        for (place, count) in value[4..].chunks_exact_mut(4).zip(counts) {
            place.copy_from_slice(&count.to_be_bytes());
        }
        true
    }
}

fn words(octets: &[u8]) -> [u32; 3] {
    let mut found = [0; 3];
    for (word, octets) in found.iter_mut().zip(octets.as_chunks().0) {
        *word = u32::from_be_bytes(*octets);
    }
    found
}
