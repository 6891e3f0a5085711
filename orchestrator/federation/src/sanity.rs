//! What probers say, held against geography and against each other.
//!
//! A figure that cannot be true, or that the link's other end does not bear out, is disputed: decisions use the worse of what
//! is known. A prober most of whose figures are disputed, or that says nothing while its peers hear it well, is named, and its
//! links are stale: not zero, not endless.

use crate::figures::FigureBook;
use jiff::{SignedDuration, Timestamp};
use rhumb_model::{LinkId, PointName, quantity::Latency, site::Coordinates};
use std::collections::BTreeMap;

/// One directed link as its prober tells of it in its last window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkWord {
    pub link: LinkId,
    /// Who probes.
    pub from: PointName,
    pub to: PointName,
    /// The link back, whose prober is the other end.
    pub reverse: Option<LinkId>,
    /// Probes sent in the window.
    pub sent: u64,
    /// Of those, answered.
    pub received: u64,
}

/// Why a link's figure is not believed as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Objection {
    /// A round trip below what light needs.
    FasterThanLight { least: Latency },
    /// The other end has measured more.
    EndsDisagree { other: Latency },
}

/// What is wrong with a point's prober.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProberFault {
    /// It sends nothing.
    Silent,
    /// It hears nothing, though its peers hear the point.
    Deaf,
    /// Most of what it says is disputed.
    Untrue,
}

/// What came of a look at all links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Review {
    /// Disputed links.
    pub objections: BTreeMap<LinkId, Objection>,
    /// Points whose prober is not to be trusted.
    pub faults: BTreeMap<PointName, ProberFault>,
    /// Links of those, as the point tells of them.
    pub untrusted: BTreeMap<LinkId, ProberFault>,
}

/// How long something must be wrong before it counts: windows of both ends move past each other for a while after a change.
const PATIENCE: SignedDuration = SignedDuration::from_secs(20);
/// Both ends measure the same two ways: their least round trips differ by less than one part in this and 5 ms.
const AGREE_PART: u64 = 4;
const AGREE: Latency = Latency::from_micros(5_000);
/// Places are those of cities: nothing is known of the last kilometres at either end.
const PLACE_KM: f64 = 50.0;
/// Light in a vacuum, in km per second, and the Earth's mean radius.
const LIGHT: f64 = 299_792.458;
const EARTH_KM: f64 = 6_371.0;

/// Looks at all links now and then, and remembers since when something is wrong.
#[derive(Debug, Clone, Default)]
pub struct Sanity {
    links: BTreeMap<LinkId, Timestamp>,
    points: BTreeMap<PointName, (ProberFault, Timestamp)>,
}

impl Sanity {
    /// One look. `place` says where points are, as far as that is known.
    pub fn review(
        &mut self,
        words: &[LinkWord],
        figures: &FigureBook,
        place: impl Fn(&PointName) -> Option<Coordinates>,
        now: Timestamp,
    ) -> Review {
        let least = |link: &LinkId| figures.fresh(link, now).map(|f| f.rtt_min);
        let object = |word: &LinkWord| -> Option<Objection> {
            let own = least(&word.link)?;
            let light = place(&word.from).zip(place(&word.to)).map(|(a, b)| light_rtt(a, b));
            if let Some(light) = light.filter(|light| own < *light) {
                return Some(Objection::FasterThanLight { least: light });
            }
            let other = least(word.reverse.as_ref()?)?;
            let apart = other.micros().saturating_sub(own.micros());
            let disagree = apart > AGREE.micros().max(other.micros() / AGREE_PART);
            disagree.then_some(Objection::EndsDisagree { other })
        };
        let mut objections: BTreeMap<LinkId, Objection> =
            words.iter().filter_map(|w| Some((w.link.clone(), object(w)?))).collect();
        let since = |old: Option<&Timestamp>| old.copied().unwrap_or(now);
        self.links = objections.keys().map(|link| (link.clone(), since(self.links.get(link)))).collect();
        objections.retain(|link, _| self.links.get(link).is_some_and(|at| now.duration_since(*at) >= PATIENCE));
        let found = faults(words, &objections);
        let kept = |point: &PointName, fault: ProberFault| match self.points.get(point) {
            Some((before, at)) if *before == fault => (fault, *at),
            _ => (fault, now),
        };
        self.points = found.into_iter().map(|(point, fault)| (point.clone(), kept(&point, fault))).collect();
        let over = |at: &Timestamp| now.duration_since(*at) >= PATIENCE;
        let old = self.points.iter().filter(|(_, (_, at))| over(at));
        let faults: BTreeMap<PointName, ProberFault> = old.map(|(p, (fault, _))| (p.clone(), *fault)).collect();
        let untrusted = words.iter().filter_map(|w| Some((w.link.clone(), *faults.get(&w.from)?))).collect();
        Review { objections, faults, untrusted }
    }
}

/// Points whose prober is at fault, as far as this look can tell.
fn faults(words: &[LinkWord], objections: &BTreeMap<LinkId, Objection>) -> BTreeMap<PointName, ProberFault> {
    let heard: BTreeMap<&LinkId, bool> = words.iter().map(|w| (&w.link, w.received > 0)).collect();
    let disputed = |w: &LinkWord| {
        let back = || w.reverse.as_ref().and_then(|link| objections.get(link));
        objections.contains_key(&w.link) || matches!(back(), Some(Objection::EndsDisagree { .. }))
    };
    let mut tallies: BTreeMap<&PointName, Tally> = BTreeMap::new();
    for word in words {
        let tally = tallies.entry(&word.from).or_default();
        tally.links += 1;
        tally.sent += word.sent;
        tally.received += word.received;
        tally.disputed += usize::from(disputed(word));
        // somebody who probes this very point is answered
        tally.reached |= word.reverse.as_ref().is_some_and(|link| heard.get(link) == Some(&true));
    }
    let fault = |tally: &Tally| match tally {
        Tally { sent: 0, reached: true, .. } => Some(ProberFault::Silent),
        Tally { received: 0, reached: true, links: 2.., .. } => Some(ProberFault::Deaf),
        // one dispute has two ends: who has it with most of his peers is the odd one
        Tally { disputed: 2.., .. } if tally.disputed * 2 > tally.links => Some(ProberFault::Untrue),
        Tally { .. } => None,
    };
    tallies.into_iter().filter_map(|(point, tally)| Some((point.clone(), fault(&tally)?))).collect()
}

#[derive(Debug, Default)]
struct Tally {
    links: usize,
    sent: u64,
    received: u64,
    disputed: usize,
    reached: bool,
}

/// There and back at the speed of light in a vacuum, along the great circle less what places are unsure by. No cable is
/// faster, and radio hardly.
pub fn light_rtt(a: Coordinates, b: Coordinates) -> Latency {
    let km = (great_circle_km(a, b) - 2.0 * PLACE_KM).max(0.0);
    // whole kilometres: the last digits of a sine are the platform's own
    Latency::from_micros((2.0 * km.floor() / LIGHT * 1e6) as u64)
}

/// Haversine formula.
fn great_circle_km(a: Coordinates, b: Coordinates) -> f64 {
    let radians = |degrees: rhumb_model::ratio::Decimal| {
        let ratio = degrees.ratio();
        (*ratio.numer() as f64 / *ratio.denom() as f64).to_radians()
    };
    let (lat_a, lat_b, lon) = (radians(a.lat), radians(b.lat), radians(b.lon) - radians(a.lon));
    let half = |angle: f64| (angle / 2.0).sin().powi(2);
    let h = half(lat_b - lat_a) + lat_a.cos() * lat_b.cos() * half(lon);
    2.0 * EARTH_KM * h.clamp(0.0, 1.0).sqrt().asin()
}
