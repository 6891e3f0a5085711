//! Which pairs are probed, and how often.

use crate::landmarks::landmarks;
use rhumb_model::{Bandwidth, Bytes, Latency, Span};
use std::collections::{BTreeMap, BTreeSet};

/// Shape and cost of a mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshConfig {
    /// Up to so many points everybody probes everybody.
    pub full: usize,
    /// Nearest peers of each point.
    pub nearest: usize,
    /// Points that everybody probes.
    pub landmarks: usize,
    /// Time between probes of a pair where nothing forbids it.
    pub interval: Span,
    /// One probe, or its answer, on the wire.
    pub packet: Bytes,
    /// What one point may send, probes and answers together.
    pub budget: Bandwidth,
}

impl Default for MeshConfig {
    /// A packet is 44 octets of STAMP in UDP over IPv6. The budget leaves a fifth of 100 kbit/s for what is not planned.
    fn default() -> Self {
        Self {
            full: 40,
            nearest: 8,
            landmarks: 12,
            interval: Span::from_micros(200_000),
            packet: Bytes::from_bytes(44 + 8 + 40),
            budget: Bandwidth::from_kbps(80),
        }
    }
}

/// Why a pair is measured; the first that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Few points: all pairs are.
    Full,
    /// Somebody relies on it.
    Used,
    /// One of the two is among the nearest of the other.
    Near,
    /// `to` is a landmark.
    Landmark,
}

/// `from` probes `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Session {
    pub from: usize,
    pub to: usize,
    /// Mean time between probes.
    pub interval: Span,
    pub cause: Cause,
}

/// Who probes whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// By `from`, then `to`.
    pub sessions: Vec<Session>,
    /// Empty in a full mesh.
    pub landmarks: Vec<usize>,
}

/// Plans a mesh of `points`. `used` are pairs that somebody relies on; `possible` says who can reach whom at all, and `prior`
/// what is known or believed of a pair's round trip (where it is `None`, the pair is far).
///
/// Pairs that are used or near are probed from both ends, so that one end's word can be held against the other's. Landmarks
/// only answer: bounds need no second opinion, and theirs would cost them half of their budget.
pub fn plan(
    points: usize,
    used: &BTreeSet<(usize, usize)>,
    config: &MeshConfig,
    possible: impl Fn(usize, usize) -> bool,
    prior: impl Fn(usize, usize) -> Option<Latency>,
) -> Plan {
    let mut causes: BTreeMap<(usize, usize), Cause> = BTreeMap::new();
    let mut add = |from: usize, to: usize, cause: Cause| {
        if from != to && from < points && to < points && possible(from, to) {
            causes.entry((from, to)).and_modify(|known| *known = cause.min(*known)).or_insert(cause);
        }
    };
    let mut chosen = Vec::new();
    if points <= config.full {
        for from in 0..points {
            (0..points).for_each(|to| add(from, to, Cause::Full));
        }
    } else {
        for (a, b) in used {
            add(*a, *b, Cause::Used);
            add(*b, *a, Cause::Used);
        }
        let table = Table::new(points, &prior);
        for from in 0..points {
            let reached = |to: &usize| *to != from && possible(from, *to);
            let mut peers: Vec<_> = (0..points).filter(reached).map(|to| (table.distance_us(from, to), to)).collect();
            peers.sort_unstable();
            for (_, to) in peers.into_iter().take(config.nearest) {
                add(from, to, Cause::Near);
                add(to, from, Cause::Near);
            }
        }
        chosen = landmarks(points, config.landmarks, |a, b| table.distance_us(a, b));
        for to in &chosen {
            (0..points).for_each(|from| add(from, *to, Cause::Landmark));
        }
    }
    Plan { sessions: paced(points, causes, config), landmarks: chosen }
}

/// Sessions of two kinds share a point's budget in halves: those that decisions rely on, and those to landmarks. Within a
/// half, a session is as slow as the busier of its ends needs.
fn paced(points: usize, causes: BTreeMap<(usize, usize), Cause>, config: &MeshConfig) -> Vec<Session> {
    let kind = |cause: Cause| usize::from(cause == Cause::Landmark);
    let mut counts = vec![[0_u64; 2]; points];
    for ((from, to), cause) in &causes {
        // it sends the probes of its own sessions and the answers of others'
        counts[*from][kind(*cause)] += 1;
        counts[*to][kind(*cause)] += 1;
    }
    // a full mesh has one kind only, and the whole budget for it
    let full = points <= config.full;
    let half_kbps = (config.budget.kbps() / if full { 1 } else { 2 }).max(1);
    let bits = config.packet.bytes().saturating_mul(8);
    let session = |((from, to), cause): ((usize, usize), Cause)| {
        let busiest = counts[from][kind(cause)].max(counts[to][kind(cause)]);
        // bits / (kbit/s) is ms
        let least_us = busiest.saturating_mul(bits).saturating_mul(1_000).div_ceil(half_kbps);
        Session { from, to, interval: Span::from_micros(config.interval.micros().max(least_us)), cause }
    };
    causes.into_iter().map(session).collect()
}

impl Plan {
    /// What a point sends in the mean, probes and answers together, rounded up.
    pub fn sent_by(&self, point: usize, config: &MeshConfig) -> Bandwidth {
        let bits = u128::from(config.packet.bytes()) * 8;
        let mine = self.sessions.iter().filter(|s| s.from == point || s.to == point);
        // bits per 10^9 s, so that nothing is lost in the sum
        let sum: u128 = mine.map(|s| bits * 1_000_000_000_000_000 / u128::from(s.interval.micros().max(1))).sum();
        Bandwidth::from_kbps(u64::try_from(sum.div_ceil(1_000_000_000_000)).unwrap_or(u64::MAX))
    }
}

/// Round trips believed, both ways round at once.
struct Table {
    points: usize,
    us: Vec<u64>,
}

/// Of a pair that nothing is known of: behind all others.
const FAR_US: u64 = 60_000_000;

impl Table {
    fn new(points: usize, prior: impl Fn(usize, usize) -> Option<Latency>) -> Self {
        let mut us = vec![0; points * points];
        for a in 0..points {
            for b in 0..a {
                let known = [prior(a, b), prior(b, a)].into_iter().flatten().max();
                let value = known.map_or(FAR_US, Latency::micros);
                us[a * points + b] = value;
                us[b * points + a] = value;
            }
        }
        Self { points, us }
    }

    fn distance_us(&self, a: usize, b: usize) -> u64 {
        self.us[a * self.points + b]
    }
}
