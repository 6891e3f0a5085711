//! What to emulate: directed links with their shapes, and control channels.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::EmulatorError;

/// Longest delay or jitter a link can have: 60 s, the probes' own limit for a believable sample.
const MOST_DELAY_US: u64 = 60_000_000;
/// Everything is lost.
const MOST_LOSS_PPM: u64 = 1_000_000;
/// 10 Tbit/s: keeps octets x nanoseconds far inside 128 bits and is more than one process can move.
const MOST_RATE_KBPS: u64 = 10_000_000_000;

/// How one directed link treats what passes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkShape {
    /// One-way delay in microseconds.
    pub latency_us: u64,
    /// Each packet's delay is drawn evenly from latency ± this many microseconds, never below zero, never reordering.
    #[serde(default)]
    pub jitter_us: u64,
    /// Lost datagrams per million.
    #[serde(default)]
    pub loss_ppm: u32,
    /// Kilobits per second shared by all traffic of the link; 0 is no limit.
    #[serde(default)]
    pub rate_kbps: u64,
}

impl LinkShape {
    /// A link that only delays, by `latency_us` microseconds one way.
    pub fn delay(latency_us: u64) -> Self {
        Self { latency_us, ..Self::default() }
    }

    pub(crate) fn check(&self, id: &str) -> Result<(), EmulatorError> {
        let figures = [
            ("a latency in microseconds of", self.latency_us, MOST_DELAY_US),
            ("a jitter in microseconds of", self.jitter_us, MOST_DELAY_US),
            ("a loss in parts per million of", u64::from(self.loss_ppm), MOST_LOSS_PPM),
            ("a rate in kilobits per second of", self.rate_kbps, MOST_RATE_KBPS),
        ];
        check_figures(id, figures)
    }
}

/// What else may happen to datagrams of one directed link. Streams are spared. None of it happens by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Faults {
    /// Datagrams per million that come out twice.
    #[serde(default)]
    pub duplicate_ppm: u32,
    /// Datagrams per million that are held back while others pass them.
    #[serde(default)]
    pub reorder_ppm: u32,
    /// For how many microseconds beyond their delay.
    #[serde(default)]
    pub reorder_us: u64,
    /// Payload octets of the largest datagram that passes; larger ones vanish without a word. 0 is no limit.
    #[serde(default)]
    pub most_bytes: usize,
}

impl Faults {
    pub(crate) fn check(&self, id: &str) -> Result<(), EmulatorError> {
        let figures = [
            ("duplicates in parts per million of", u64::from(self.duplicate_ppm), MOST_LOSS_PPM),
            ("reordering in parts per million of", u64::from(self.reorder_ppm), MOST_LOSS_PPM),
            ("a hold-back in microseconds of", self.reorder_us, MOST_DELAY_US),
        ];
        check_figures(id, figures)
    }
}

fn check_figures(id: &str, figures: impl IntoIterator<Item = (&'static str, u64, u64)>) -> Result<(), EmulatorError> {
    match figures.into_iter().find(|(_, value, most)| value > most) {
        Some((what, value, most)) => Err(EmulatorError::OutOfRange { id: id.to_owned(), what, value, most }),
        None => Ok(()),
    }
}

/// A change to a link's shape: what is `None` stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShapePatch {
    /// New one-way delay in microseconds.
    pub latency_us: Option<u64>,
    /// New jitter in microseconds.
    pub jitter_us: Option<u64>,
    /// New loss in parts per million.
    pub loss_ppm: Option<u32>,
    /// New rate in kilobits per second; 0 is no limit.
    pub rate_kbps: Option<u64>,
}

impl ShapePatch {
    pub(crate) fn apply(self, shape: LinkShape) -> LinkShape {
        LinkShape {
            latency_us: self.latency_us.unwrap_or(shape.latency_us),
            jitter_us: self.jitter_us.unwrap_or(shape.jitter_us),
            loss_ppm: self.loss_ppm.unwrap_or(shape.loss_ppm),
            rate_kbps: self.rate_kbps.unwrap_or(shape.rate_kbps),
        }
    }
}

/// One directed link.
#[derive(Debug, Clone)]
pub struct LinkConfig {
    /// Unique name.
    pub id: String,
    /// The link that carries the answers; without one, answers get this link's own shape and share its rate.
    pub reverse_id: Option<String>,
    /// Point the link starts at.
    pub from: String,
    /// Point the link ends at.
    pub to: String,
    /// Shape at the start.
    pub shape: LinkShape,
    /// Where datagrams go: the reflector of `to`.
    pub udp_target: SocketAddr,
    /// Where connections go: the overlay port of `to`.
    pub tcp_target: SocketAddr,
    /// Port of the UDP front, 0 for any.
    pub udp_port: u16,
    /// Port of the TCP front, 0 for any.
    pub tcp_port: u16,
}

/// A point's TCP channel to the orchestrator.
#[derive(Debug, Clone)]
pub struct ControlConfig {
    /// The point whose channel this is.
    pub point: String,
    /// The point the orchestrator is at; a channel from there has no delay and cannot be cut.
    pub home: String,
    /// The orchestrator's address.
    pub target: SocketAddr,
    /// Port of the front, 0 for any.
    pub port: u16,
}

/// Everything an emulator starts from.
#[derive(Debug, Clone)]
pub struct EmulatorConfig {
    /// Source of all loss and jitter.
    pub seed: u64,
    /// Address the fronts listen on.
    pub bind: IpAddr,
    /// Directed links.
    pub links: Vec<LinkConfig>,
    /// Control channels.
    pub controls: Vec<ControlConfig>,
}

impl EmulatorConfig {
    /// No links yet, fronts on 127.0.0.1.
    pub fn new(seed: u64) -> Self {
        Self { seed, bind: IpAddr::V4(Ipv4Addr::LOCALHOST), links: Vec::new(), controls: Vec::new() }
    }

    pub(crate) fn check(&self) -> Result<(), EmulatorError> {
        let mut by_id = BTreeMap::new();
        for link in &self.links {
            link.shape.check(&link.id)?;
            if by_id.insert(link.id.as_str(), link).is_some() {
                return Err(EmulatorError::DuplicateLink { id: link.id.clone() });
            }
        }
        for link in &self.links {
            let Some(reverse_id) = &link.reverse_id else { continue };
            let reverse = by_id.get(reverse_id.as_str()).ok_or_else(|| unknown(reverse_id, by_id.keys().copied()))?;
            if reverse.from != link.to || reverse.to != link.from {
                return Err(EmulatorError::NotReverse {
                    id: link.id.clone(),
                    reverse: reverse_id.clone(),
                    from: link.from.clone(),
                    to: link.to.clone(),
                });
            }
        }
        Ok(())
    }
}

/// The error for an id that is not among `known`, naming the one most like it.
pub(crate) fn unknown<'a>(id: &str, known: impl Iterator<Item = &'a str>) -> EmulatorError {
    let nearest = known.min_by_key(|candidate| (strsim::damerau_levenshtein(id, candidate), *candidate));
    EmulatorError::UnknownLink { id: id.to_owned(), nearest: nearest.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(id: &str, from: &str, to: &str, reverse_id: Option<&str>) -> LinkConfig {
        let target = SocketAddr::from(([127, 0, 0, 1], 9));
        LinkConfig {
            id: id.into(),
            reverse_id: reverse_id.map(Into::into),
            from: from.into(),
            to: to.into(),
            shape: LinkShape::delay(1_000),
            udp_target: target,
            tcp_target: target,
            udp_port: 0,
            tcp_port: 0,
        }
    }

    fn check(links: Vec<LinkConfig>) -> Result<(), String> {
        EmulatorConfig { links, ..EmulatorConfig::new(1) }.check().map_err(|error| error.to_string())
    }

    #[test]
    fn a_pair_of_links_is_accepted() {
        assert_eq!(check(vec![link("ab", "a", "b", Some("ab~")), link("ab~", "b", "a", Some("ab"))]), Ok(()));
    }

    #[test]
    fn mistakes_are_named() {
        let twice = check(vec![link("ab", "a", "b", None), link("ab", "a", "b", None)]);
        assert_eq!(twice.unwrap_err(), "two emulated links are called `ab`; give each directed link an id of its own");
        let missing = check(vec![link("ab", "a", "b", Some("ab-")), link("ab~", "b", "a", None)]);
        assert!(missing.unwrap_err().contains("no emulated link is called `ab-`; did you mean `ab"));
        let askew = check(vec![link("ab", "a", "b", Some("bc")), link("bc", "b", "c", None)]);
        assert_eq!(askew.unwrap_err(), "link `ab` names `bc` as its reverse, which does not run from `b` to `a`");
        let mut lossy = link("ab", "a", "b", None);
        lossy.shape.loss_ppm = 1_000_001;
        assert!(check(vec![lossy]).unwrap_err().contains("parts per million of 1000001; the most is 1000000"));
    }

    #[test]
    fn a_patch_leaves_the_rest_alone() {
        let shape = LinkShape { latency_us: 1, jitter_us: 2, loss_ppm: 3, rate_kbps: 4 };
        let patch = ShapePatch { loss_ppm: Some(9), ..ShapePatch::default() };
        assert_eq!(patch.apply(shape), LinkShape { loss_ppm: 9, ..shape });
    }
}
