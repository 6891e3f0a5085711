//! What is known of the rate a link carries, by the most trusted way of knowing it: the contract's committed rate, then
//! counters of what passes, then packet trains, then a run of TCP. What decisions reserve from is the contract's capacity; the
//! figure stands beside it, never above what the port can do or what the far end has seen arrive.

use jiff::{SignedDuration, Timestamp};
use rhumb_model::{Bandwidth, BandwidthMethod, Confidence, LinkId};
use std::collections::BTreeMap;

/// What a link's prober says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BandwidthClaim {
    /// What the link carries, or has left where counters say so.
    pub rate: Bandwidth,
    /// What of it others leave free, where the method tells.
    pub available: Option<Bandwidth>,
    pub method: BandwidthMethod,
    pub confidence: Confidence,
    pub measured_at: Timestamp,
}

/// What is believed of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BandwidthFigure {
    pub rate: Bandwidth,
    pub available: Option<Bandwidth>,
    pub claim: BandwidthClaim,
    /// Why the figure is clearly below the claim; `None`: it is not.
    pub limited_by: Option<Limit>,
}

impl BandwidthFigure {
    /// A rate that a provider has committed to: nothing is measured.
    pub fn reserved(rate: Bandwidth, now: Timestamp) -> Self {
        let (method, confidence) = (BandwidthMethod::Reserved, Confidence::High);
        let claim = BandwidthClaim { rate, available: None, method, confidence, measured_at: now };
        Self { rate, available: None, claim, limited_by: None }
    }
}

/// What holds a claim down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The port, whose speed is the link's capacity.
    Port,
    /// What the far end counted.
    Peer,
}

/// Counters are read every ten seconds: without a word for this long they are not read any more.
const COUNTERS_HOLD: SignedDuration = SignedDuration::from_mins(2);
/// Runs are some ten minutes apart.
const RUNS_HOLD: SignedDuration = SignedDuration::from_hours(1);

/// The far end times the same packets on another clock: that much more is still the same.
const PEER_PART: u64 = 20;

/// Figures by directed link and method.
#[derive(Debug, Clone, Default)]
pub struct BandwidthBook {
    figures: BTreeMap<LinkId, BTreeMap<BandwidthMethod, BandwidthFigure>>,
}

impl BandwidthBook {
    /// Takes a claim. `port` is the speed of the link's port, `peer` the rate at which its packets arrived, by the far end's
    /// count. A claim that is older than the last one of its method, or of nothing at all by sending, changes nothing; and
    /// nobody but the contract says what is reserved.
    pub fn fold(&mut self, link: &LinkId, claim: BandwidthClaim, port: Bandwidth, peer: Option<Bandwidth>) {
        let known = self.figures.get(link).and_then(|figures| figures.get(&claim.method));
        let old = known.is_some_and(|known| known.claim.measured_at > claim.measured_at);
        // counters may find that nothing is left; a run that got nothing through found nothing out
        let nothing = claim.rate.is_zero() && claim.method != BandwidthMethod::Counters;
        if nothing || old || claim.method == BandwidthMethod::Reserved {
            return;
        }
        let seen = peer.map(|rate| Bandwidth::from_kbps(rate.kbps().saturating_add(rate.kbps() / PEER_PART)));
        let limits = [(port, Limit::Port)].into_iter().chain(seen.map(|rate| (rate, Limit::Peer)));
        let (mut rate, mut limited_by) = (claim.rate, None);
        for (most, limit) in limits {
            if rate > most {
                rate = most;
                // headers that one end counts and the other does not are no lie
                let near = claim.rate.kbps() <= most.kbps().saturating_add(most.kbps() / PEER_PART);
                limited_by = if near { limited_by } else { Some(limit) };
            }
        }
        let available = claim.available.map(|free| free.min(rate));
        let figure = BandwidthFigure { rate, available, claim, limited_by };
        self.figures.entry(link.clone()).or_default().insert(claim.method, figure);
    }

    /// All that is known of a link and not too old, the most trusted first. `committed`: the rate that a provider has
    /// committed to.
    pub fn figures(&self, link: &LinkId, committed: Option<Bandwidth>, now: Timestamp) -> Vec<BandwidthFigure> {
        let fresh = |figure: &&BandwidthFigure| {
            let holds = match figure.claim.method {
                BandwidthMethod::Counters => COUNTERS_HOLD,
                BandwidthMethod::Reserved | BandwidthMethod::Trains | BandwidthMethod::Tcp => RUNS_HOLD,
            };
            now.duration_since(figure.claim.measured_at) <= holds
        };
        let reserved = committed.map(|rate| BandwidthFigure::reserved(rate, now));
        // methods are ordered by trust
        let measured = self.figures.get(link).into_iter().flat_map(BTreeMap::values).filter(fresh).copied();
        reserved.into_iter().chain(measured).collect()
    }

    /// The most trusted of them.
    pub fn figure(&self, link: &LinkId, committed: Option<Bandwidth>, now: Timestamp) -> Option<BandwidthFigure> {
        self.figures(link, committed, now).first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault F44: a prober says 10 Tbit/s.
    #[test]
    fn f44_a_claim_is_held_down_by_the_port_and_by_what_the_peer_counted() {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let mbps = Bandwidth::from_mbps;
        let claim = |rate, measured_at| BandwidthClaim {
            rate,
            available: None,
            method: BandwidthMethod::Trains,
            confidence: Confidence::High,
            measured_at,
        };
        let link = LinkId::new("a-b").unwrap();
        let mut book = BandwidthBook::default();
        let mut fold = |rate, measured_at, peer| {
            book.fold(&link, claim(rate, measured_at), mbps(1_000), peer);
            book.figure(&link, None, at).map(|f| (f.rate, f.limited_by))
        };
        assert_eq!(fold(mbps(10_000_000), at, None), Some((mbps(1_000), Some(Limit::Port))));
        assert_eq!(fold(mbps(10_000_000), at, Some(mbps(100))), Some((mbps(105), Some(Limit::Peer))));
        assert_eq!(fold(mbps(98), at, Some(mbps(100))), Some((mbps(98), None)));
        assert_eq!(fold(mbps(1_020), at, Some(mbps(1_020))), Some((mbps(1_000), None)));
        assert_eq!(
            fold(Bandwidth::from_kbps(u64::MAX), at, Some(Bandwidth::from_kbps(u64::MAX))).unwrap().0,
            mbps(1_000)
        );
        // nothing, and what is older, changes nothing
        assert_eq!(fold(Bandwidth::ZERO, at, None).unwrap().0, mbps(1_000));
        assert_eq!(fold(mbps(7), at - jiff::SignedDuration::from_secs(1), None).unwrap().0, mbps(1_000));
    }

    /// The stated order of trust: reserved, counters, trains, TCP.
    #[test]
    fn the_most_trusted_figure_that_is_not_too_old_is_the_one() {
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
        let mbps = Bandwidth::from_mbps;
        let link = LinkId::new("a-b").unwrap();
        let mut book = BandwidthBook::default();
        let methods = |book: &BandwidthBook, committed, second| -> Vec<(BandwidthMethod, u64)> {
            let figures = book.figures(&link, committed, at(second));
            figures.iter().map(|f| (f.claim.method, f.rate.kbps() / 1_000)).collect()
        };
        assert_eq!(book.figure(&link, None, at(0)), None);
        for (method, rate) in
            [(BandwidthMethod::Tcp, 70), (BandwidthMethod::Trains, 95), (BandwidthMethod::Counters, 40)]
        {
            let available = Some(mbps(rate / 2));
            let claim =
                BandwidthClaim { rate: mbps(rate), available, method, confidence: Confidence::Low, measured_at: at(0) };
            book.fold(&link, claim, mbps(100), None);
        }
        let measured = [(BandwidthMethod::Counters, 40), (BandwidthMethod::Trains, 95), (BandwidthMethod::Tcp, 70)];
        assert_eq!(methods(&book, None, 0), measured);
        assert_eq!(methods(&book, Some(mbps(100)), 0)[0], (BandwidthMethod::Reserved, 100));
        assert_eq!(methods(&book, Some(mbps(100)), 0)[1..], measured);
        // counters that are read no more say nothing; a run holds for an hour, a contract always
        assert_eq!(methods(&book, None, 200), measured[1..]);
        assert_eq!(methods(&book, None, 4_000), []);
        assert_eq!(methods(&book, Some(mbps(100)), 4_000), [(BandwidthMethod::Reserved, 100)]);
        // nothing left is a figure of counters, and nobody claims to have a contract
        for (method, seen) in [(BandwidthMethod::Counters, true), (BandwidthMethod::Reserved, false)] {
            let claim = BandwidthClaim {
                rate: Bandwidth::ZERO,
                available: None,
                method,
                confidence: Confidence::High,
                measured_at: at(5),
            };
            book.fold(&link, claim, mbps(100), None);
            assert_eq!(
                book.figure(&link, None, at(5)).unwrap().rate.is_zero(),
                seen || method == BandwidthMethod::Reserved
            );
        }
        assert_eq!(methods(&book, None, 5).len(), 3);
    }
}
