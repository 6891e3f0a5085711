//! What probers say a link carries. The contract's capacity is what decisions use; a measured figure stands beside it, never
//! above what the port can do or what the far end has seen arrive.

use jiff::Timestamp;
use rhumb_model::{Bandwidth, BandwidthMethod, Confidence, LinkId};
use std::collections::BTreeMap;

/// What a link's prober says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BandwidthClaim {
    pub rate: Bandwidth,
    pub method: BandwidthMethod,
    pub confidence: Confidence,
    pub measured_at: Timestamp,
}

/// What is believed of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BandwidthFigure {
    pub rate: Bandwidth,
    pub claim: BandwidthClaim,
    /// Why the figure is clearly below the claim; `None`: it is not.
    pub limited_by: Option<Limit>,
}

/// What holds a claim down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The port, whose speed is the link's capacity.
    Port,
    /// What the far end counted.
    Peer,
}

/// The far end times the same packets on another clock: that much more is still the same.
const PEER_PART: u64 = 20;

/// Figures by directed link.
#[derive(Debug, Clone, Default)]
pub struct BandwidthBook {
    figures: BTreeMap<LinkId, BandwidthFigure>,
}

impl BandwidthBook {
    /// Takes a claim. `port` is the speed of the link's port, `peer` the rate at which its packets arrived, by the far end's
    /// count. A claim that is older than the last one, or of nothing at all, changes nothing.
    pub fn fold(&mut self, link: &LinkId, claim: BandwidthClaim, port: Bandwidth, peer: Option<Bandwidth>) {
        let old = self.figures.get(link).is_some_and(|known| known.claim.measured_at > claim.measured_at);
        if claim.rate.is_zero() || old {
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
        self.figures.insert(link.clone(), BandwidthFigure { rate, claim, limited_by });
    }

    pub fn figure(&self, link: &LinkId) -> Option<&BandwidthFigure> {
        self.figures.get(link)
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
            method: BandwidthMethod::Trains,
            confidence: Confidence::High,
            measured_at,
        };
        let link = LinkId::new("a-b").unwrap();
        let mut book = BandwidthBook::default();
        let mut fold = |rate, measured_at, peer| {
            book.fold(&link, claim(rate, measured_at), mbps(1_000), peer);
            book.figure(&link).map(|f| (f.rate, f.limited_by))
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
}
