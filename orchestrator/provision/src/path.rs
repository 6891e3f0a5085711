//! One way of a leg: where it passes, what it is there for, what was heard of it.

use crate::{carriage::Carriage, leg::LegState, rules::RouteRules, saga::Stamp};
use jiff::Timestamp;
use rhumb_model::{Bandwidth, Latency, LinkId, PointName};
use rhumb_wire::{RouteEndState, RouteFigures};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a path is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathRole {
    /// It carries the leg. Every leg has exactly one.
    #[default]
    Carry,
    /// It stands by, holds the leg's rate, and takes over by itself when the one that carries is lost.
    Backup,
    /// It is built and measured, to carry after that.
    Next,
    /// Another carries instead; it stays until the source says so.
    Leaving,
    /// It is torn down, until all its points have said so.
    Closing,
    /// Nothing is left of it but what it carried.
    Gone,
}

/// One path of a leg.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PathState {
    /// Its number within the leg; never used again.
    #[serde(default)]
    pub path: u32,
    pub links: Vec<LinkId>,
    /// One more than links, source first.
    pub points: Vec<PointName>,
    #[serde(default)]
    pub role: PathRole,
    /// What it holds, where that is not the leg's rate: it is to be left for one that holds that.
    #[serde(default)]
    pub rate: Option<Bandwidth>,
    /// Last heard of each point. What was done once stays done.
    #[serde(default)]
    pub seen: BTreeMap<PointName, RouteEndState>,
    /// How far the leg had come at each point when last heard, payload bytes of both directions.
    #[serde(default)]
    pub bytes: BTreeMap<PointName, u64>,
    #[serde(default)]
    pub figures: Option<RouteFigures>,
    /// Of those bytes, what other paths carried.
    #[serde(default)]
    pub skipped: u64,
    /// How far the leg had come when another path took over from this one.
    #[serde(default)]
    pub stood_at: u64,
    /// When it came into service; `None`: with the leg.
    #[serde(default)]
    pub since: Option<Timestamp>,
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// When it was begun, if not with the leg.
    #[serde(default)]
    pub begun: Option<Timestamp>,
    /// Since when it is slower than promised, and since when its source says that it does not stand.
    #[serde(default)]
    pub late_since: Option<Timestamp>,
    #[serde(default)]
    pub lost_since: Option<Timestamp>,
    /// One-way delay by the links' own figures, when last looked at.
    #[serde(default)]
    pub sight: Option<Latency>,
    /// A report counts as confirmation that it is gone only if it was made on at least this desired state.
    #[serde(default)]
    pub barrier: Stamp,
    #[serde(default)]
    pub gone: BTreeSet<PointName>,
    /// Points among them that did not say so themselves: something may be left there.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub silent: BTreeSet<PointName>,
    #[serde(default, skip_serializing_if = "Carriage::is_relays")]
    pub carriage: Carriage,
}

impl PathState {
    /// Of which it is not decided how it is carried.
    pub fn new(path: u32, links: Vec<LinkId>, points: Vec<PointName>, role: PathRole) -> Self {
        Self { path, links, points, role, carriage: Carriage::Open, ..Self::default() }
    }

    pub fn source(&self) -> &PointName {
        &self.points[0]
    }

    pub fn sink(&self) -> &PointName {
        &self.points[self.points.len() - 1]
    }

    pub(crate) fn is(&self, at: &PointName, state: RouteEndState) -> bool {
        self.seen.get(at) == Some(&state)
    }

    pub(crate) fn is_end(&self, at: &PointName) -> bool {
        self.source() == at || self.sink() == at
    }

    /// The source has verified the way end to end.
    pub fn is_active(&self) -> bool {
        self.is(self.source(), RouteEndState::Active) || self.is(self.source(), RouteEndState::Done)
    }

    /// Both ends say that every byte has arrived.
    pub fn is_done(&self) -> bool {
        self.is(self.sink(), RouteEndState::Done) && self.is(self.source(), RouteEndState::Done)
    }

    /// There should be something of it in the network.
    pub fn is_wanted(&self) -> bool {
        !matches!(self.role, PathRole::Closing | PathRole::Gone)
    }

    /// There is, or may be, something of it in the network: its links are held.
    pub fn is_held(&self) -> bool {
        self.role != PathRole::Gone
    }

    /// Whether it was ever one that the order has, and not just one that was tried.
    pub(crate) fn served(&self) -> bool {
        self.begun.is_none() || self.since.is_some()
    }

    /// One-way delay as measured over this very path, half of the round trip.
    pub fn measured(&self) -> Option<Latency> {
        self.figures.map(|f| Latency::from_micros(f.rtt_us.div_ceil(2)))
    }

    /// What is wrong with it by its own figures.
    pub(crate) fn fault(&self, leg: &LegState, rules: &RouteRules) -> Option<String> {
        let measured = self.measured().zip(leg.bound);
        if let Some((measured, bound)) = measured.filter(|(m, bound)| rules.is_late(*m, *bound)) {
            return Some(format!("{measured} measured over {}, {bound} promised", self.named()));
        }
        let tested = self.figures.and_then(|f| f.tested)?;
        let enough = tested.arrived.kbps().saturating_mul(100) >= tested.sent.kbps().saturating_mul(rules.rate_percent);
        (!enough).then(|| format!("of {} sent over {}, {} arrived", tested.sent, self.named(), tested.arrived))
    }

    pub(crate) fn named(&self) -> String {
        let names: Vec<&str> = self.links.iter().map(LinkId::as_str).collect();
        names.join(", ")
    }

    /// Payload bytes that this path brought to the far end of its `link`th link.
    pub(crate) fn bytes_after(&self, link: usize) -> u64 {
        // between its ends a tunnel's octets are counted, if any: what comes out of it has passed every link
        let end = if self.carriage.is_tunnels() { Some(self.sink()) } else { self.points.get(link + 1) };
        let reached = end.and_then(|p| self.bytes.get(p)).copied().unwrap_or(0);
        reached.saturating_sub(self.skipped)
    }
}
