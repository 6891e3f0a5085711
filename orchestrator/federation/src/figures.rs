//! What probes say of links, folded into the figure that decisions use.
//!
//! A figure in use changes only when three windows in a row say that it moved by more than 10 % and 1 ms: delays jitter, and
//! without this orders would flap between paths that are equally good. What the last window said stands beside it. A link that no longer answers keeps its last figure,
//! which grows with its age and then turns stale; it never becomes zero or endless.

use crate::{
    held::Held,
    sanity::{Objection, Review},
};
use jiff::{SignedDuration, Timestamp};
use rhumb_model::{
    LinkId,
    quantity::{Latency, Ppm, Span},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Probe results of one directed link over one window in which replies came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSample {
    pub link: LinkId,
    pub rtt_min: Latency,
    pub rtt_p50: Latency,
    pub rtt_p95: Latency,
    pub loss: Ppm,
    pub jitter: Latency,
    /// When the last reply of the window came.
    pub received_at: Timestamp,
    /// Length of the window.
    pub length: Span,
}

/// A path that is another than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathNews {
    /// When it was noticed.
    pub at: Timestamp,
    /// From and to, where the least round trip has moved for good.
    pub min_moved: Option<(Latency, Latency)>,
}

/// The last sample of a link, and the figures in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFigure {
    pub rtt_min: Latency,
    pub rtt_p50: Latency,
    pub rtt_p95: Latency,
    pub loss: Ppm,
    pub jitter: Latency,
    pub received_at: Timestamp,
    held_min: Held,
    held_p95: Held,
    /// End of the last window that counted.
    counted_at: Timestamp,
}

/// The delay that a decision at one instant uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionFigure {
    pub latency: Latency,
    pub stale: bool,
    /// Nobody measured it: what is known of other pairs says so.
    pub estimated: bool,
}

/// A sample that cannot be true. The book stays as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    #[error("figures of link {link} are refused: {what} of {value} is over 60s")]
    Absurd { link: LinkId, what: &'static str, value: Latency },
    #[error("figures of link {link} are refused: min {min}, p50 {p50} and p95 {p95} are not in order")]
    Order { link: LinkId, min: Latency, p50: Latency, p95: Latency },
    #[error("figures of link {link} are refused: a loss of {ppm} ppm is over 100 %")]
    Loss { link: LinkId, ppm: u64 },
}

/// A delay beyond this is no delay, and age raises none above it.
const MAX: Latency = Latency::from_micros(60_000_000);
/// No answer takes no time: what a coarse clock reads as 0 is this.
const MIN: Latency = Latency::from_micros(1);
/// Windows count that end at least this part of their length apart, in hundredths: what lasts for less than a fifth of a window
/// then falls into two of them at most, and never makes three.
const APART: i64 = 60;
/// Reports nearer to each other than this tell of the same replies.
const SHORTEST_WINDOW: SignedDuration = SignedDuration::from_secs(1);
/// However long somebody says that a window was: what is told after this counts.
const LONGEST_WINDOW: SignedDuration = SignedDuration::from_mins(2);

/// Figures by directed link.
#[derive(Debug, Clone)]
pub struct FigureBook {
    stale_after: Span,
    figures: BTreeMap<LinkId, LinkFigure>,
    /// Round trips of links that are not probed.
    estimates: BTreeMap<LinkId, Latency>,
    /// The last time that a link's path was another.
    paths: BTreeMap<LinkId, PathNews>,
    /// Links whose probers have measured nothing for three windows.
    silent: BTreeSet<LinkId>,
    review: Arc<Review>,
}

impl FigureBook {
    pub fn new(stale_after: Span) -> Self {
        Self {
            stale_after,
            figures: BTreeMap::new(),
            estimates: BTreeMap::new(),
            paths: BTreeMap::new(),
            silent: BTreeSet::new(),
            review: Arc::default(),
        }
    }

    /// What the last look at all links said of them, and the round trips believed of those that are not probed.
    pub fn judge(&mut self, review: Review, estimates: BTreeMap<LinkId, Latency>) {
        (self.review, self.estimates) = (Arc::new(review), estimates);
    }

    /// What the last look at all links said of them.
    pub fn review(&self) -> &Review {
        &self.review
    }

    /// A prober says whether it has measured nothing over a link for three windows.
    pub fn set_silent(&mut self, link: &LinkId, silent: bool) {
        if !silent {
            self.silent.remove(link);
        } else if !self.silent.contains(link) {
            self.silent.insert(link.clone());
        }
    }

    /// Whether the link's prober has measured nothing for three windows.
    pub fn is_silent(&self, link: &LinkId) -> bool {
        self.silent.contains(link)
    }

    /// A prober says that a link's path is another.
    pub fn set_path(&mut self, link: LinkId, news: PathNews) {
        self.paths.insert(link, news);
    }

    /// The last time that the link's path was another.
    pub fn path(&self, link: &LinkId) -> Option<&PathNews> {
        self.paths.get(link)
    }

    /// The round trip believed of a link that is not probed.
    pub fn estimate(&self, link: &LinkId) -> Option<Latency> {
        self.estimates.get(link).copied()
    }

    /// A book of figures kept from before. Those that cannot be true are dropped.
    pub fn restore(stale_after: Span, samples: impl IntoIterator<Item = LinkSample>) -> Self {
        let mut book = Self::new(stale_after);
        for sample in samples {
            // a figure that was stored bad would poison every later one
            let _ = book.fold(sample);
        }
        book
    }

    /// Takes a window's sample. One that is not newer than the last changes nothing.
    pub fn fold(&mut self, mut sample: LinkSample) -> Result<(), SampleError> {
        check(&sample)?;
        sample.rtt_min = sample.rtt_min.max(MIN);
        sample.rtt_p50 = sample.rtt_p50.max(MIN);
        sample.rtt_p95 = sample.rtt_p95.max(MIN);
        match self.figures.get_mut(&sample.link) {
            Some(figure) if sample.received_at <= figure.received_at => {}
            Some(figure) => figure.advance(&sample, self.stale_after),
            None => {
                self.figures.insert(sample.link.clone(), LinkFigure::first(&sample));
            }
        }
        Ok(())
    }

    /// What is older than this is not trusted.
    pub fn stale_after(&self) -> Span {
        self.stale_after
    }

    pub fn figure(&self, link: &LinkId) -> Option<&LinkFigure> {
        self.figures.get(link)
    }

    /// The figure of a link whose last reply is not too old.
    pub fn fresh(&self, link: &LinkId, now: Timestamp) -> Option<&LinkFigure> {
        self.figures.get(link).filter(|figure| figure.age(now) <= self.stale_after)
    }

    /// Half the p95 RTT in use plus 1 % per minute of age; for a disputed figure at least what is held against it. Of a link
    /// that is not probed, what is believed of it. `None`: never heard of.
    pub fn decision(&self, link: &LinkId, now: Timestamp) -> Option<DecisionFigure> {
        let fresh = self.fresh(link, now).is_some();
        if let Some(rtt) = self.estimate(link).filter(|_| !fresh) {
            return Some(DecisionFigure { latency: one_way(rtt).max(MIN), stale: false, estimated: true });
        }
        let figure = self.figures.get(link)?;
        let age = figure.age(now);
        // 1 % per minute is one part in 6,000 per second; rounded up, so that age never makes a link look nearer
        let base = u128::from(figure.in_use().micros());
        let grown = base + (base * u128::from(age.micros())).div_ceil(6_000 * 1_000_000);
        let latency = Latency::from_micros(u64::try_from(grown).unwrap_or(u64::MAX)).min(MAX);
        let least = match self.review.objections.get(link) {
            Some(Objection::FasterThanLight { least }) => one_way(*least),
            Some(Objection::EndsDisagree { other }) => one_way(*other),
            None => Latency::ZERO,
        };
        let stale = age > self.stale_after || self.is_silent(link) || self.review.untrusted.contains_key(link);
        Some(DecisionFigure { latency: latency.max(least), stale, estimated: false })
    }
}

fn check(sample: &LinkSample) -> Result<(), SampleError> {
    let link = || sample.link.clone();
    for (value, what) in [(sample.rtt_p95, "an RTT"), (sample.rtt_p50, "an RTT"), (sample.jitter, "a jitter")] {
        if value > MAX {
            return Err(SampleError::Absurd { link: link(), what, value });
        }
    }
    let (min, p50, p95) = (sample.rtt_min, sample.rtt_p50, sample.rtt_p95);
    if min > p50 || p50 > p95 {
        return Err(SampleError::Order { link: link(), min, p50, p95 });
    }
    if sample.loss.ppm() > 1_000_000 {
        return Err(SampleError::Loss { link: link(), ppm: sample.loss.ppm() });
    }
    Ok(())
}

/// Half an RTT, rounded half up.
fn one_way(rtt: Latency) -> Latency {
    Latency::from_micros(rtt.micros().div_ceil(2))
}

impl LinkFigure {
    fn first(sample: &LinkSample) -> Self {
        Self {
            rtt_min: sample.rtt_min,
            rtt_p50: sample.rtt_p50,
            rtt_p95: sample.rtt_p95,
            loss: sample.loss,
            jitter: sample.jitter,
            received_at: sample.received_at,
            held_min: Held::new(sample.rtt_min.micros()),
            held_p95: Held::new(sample.rtt_p95.micros()),
            counted_at: sample.received_at,
        }
    }

    fn advance(&mut self, sample: &LinkSample, stale_after: Span) {
        if self.age(sample.received_at) > stale_after {
            // nothing is known of the time between: the old figure has no say
            *self = Self::first(sample);
            return;
        }
        let (held_min, held_p95, counted_at) = (self.held_min.clone(), self.held_p95.clone(), self.counted_at);
        *self = Self { held_min, held_p95, counted_at, ..Self::first(sample) };
        let micros = i64::try_from(sample.length.micros()).unwrap_or(i64::MAX);
        let apart = SignedDuration::from_micros(micros / 100 * APART);
        if sample.received_at.duration_since(counted_at) < apart.clamp(SHORTEST_WINDOW, LONGEST_WINDOW) {
            return;
        }
        self.counted_at = sample.received_at;
        self.held_min.observe(sample.rtt_min.micros());
        self.held_p95.observe(sample.rtt_p95.micros());
    }

    /// Time since the last reply; 0 where clocks disagree.
    pub fn age(&self, now: Timestamp) -> Span {
        let micros = now.duration_since(self.received_at).as_micros();
        Span::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    /// The one-way delay in use, without what age adds: half of the held p95 RTT.
    pub fn in_use(&self) -> Latency {
        one_way(self.held_p95())
    }

    /// The least RTT, moved only when windows insist.
    pub fn held_min(&self) -> Latency {
        Latency::from_micros(self.held_min.micros())
    }

    /// The p95 RTT, moved only when windows insist.
    pub fn held_p95(&self) -> Latency {
        Latency::from_micros(self.held_p95.micros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALE: Span = Span::from_micros(60_000_000);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn link() -> LinkId {
        LinkId::new("a-b").unwrap()
    }

    fn sample(rtt_us: u64, second: i64) -> LinkSample {
        let rtt = Latency::from_micros(rtt_us);
        LinkSample {
            link: link(),
            rtt_min: rtt,
            rtt_p50: rtt,
            rtt_p95: rtt,
            loss: Ppm::ZERO,
            jitter: Latency::ZERO,
            received_at: at(second),
            length: Span::from_micros(5_000_000),
        }
    }

    fn book(samples: &[(u64, i64)]) -> FigureBook {
        let mut book = FigureBook::new(STALE);
        for (rtt, second) in samples {
            book.fold(sample(*rtt, *second)).unwrap();
        }
        book
    }

    fn micros(book: &FigureBook, second: i64) -> u64 {
        book.decision(&link(), at(second)).unwrap().latency.micros()
    }

    #[test]
    fn a_figure_is_half_the_rtt_and_grows_by_a_percent_a_minute() {
        let b = book(&[(20_000, 0)]);
        assert_eq!(micros(&b, 0), 10_000);
        assert_eq!(micros(&b, 30), 10_050);
        assert_eq!(micros(&b, 60), 10_100);
        assert!(!b.decision(&link(), at(60)).unwrap().stale);
        assert!(b.decision(&link(), at(61)).unwrap().stale);
        assert_eq!(micros(&b, 600), 11_000);
        assert_eq!(b.decision(&LinkId::new("c-d").unwrap(), at(0)), None);
        // a clock that is behind makes nothing negative
        assert_eq!(micros(&b, -100), 10_000);
    }

    #[test]
    fn a_raised_delay_takes_three_windows_and_jitter_moves_nothing() {
        let mut samples = vec![(20_000, 0)];
        samples.extend((1..=100).map(|i| (if i % 2 == 0 { 20_000 } else { 21_000 }, i * 5)));
        let mut b = book(&samples);
        assert_eq!(micros(&b, 500), 10_000);
        // one odd window alone does nothing either
        b.fold(sample(200_000, 505)).unwrap();
        b.fold(sample(20_000, 510)).unwrap();
        b.fold(sample(200_000, 515)).unwrap();
        assert_eq!(micros(&b, 515), 10_000);
        b.fold(sample(201_000, 520)).unwrap();
        assert_eq!(micros(&b, 520), 10_000);
        b.fold(sample(202_000, 525)).unwrap();
        assert_eq!(micros(&b, 525), 100_500);
        // the last window's own figure stands beside it
        let figure = b.figure(&link()).unwrap();
        assert_eq!(
            (figure.rtt_p95.micros(), figure.held_p95().micros(), figure.held_min().micros()),
            (202_000, 201_000, 201_000)
        );
        // up and down in turn is no move
        b.fold(sample(20_000, 530)).unwrap();
        b.fold(sample(400_000, 535)).unwrap();
        b.fold(sample(20_000, 540)).unwrap();
        b.fold(sample(20_000, 545)).unwrap();
        assert_eq!(micros(&b, 545), 100_500);
        b.fold(sample(20_000, 550)).unwrap();
        assert_eq!(micros(&b, 550), 10_000);
    }

    #[test]
    fn a_slow_drift_is_followed_in_steps() {
        let samples: Vec<_> = (0..100).map(|i| (20_000 + i as u64 * 100, i * 5)).collect();
        let end = micros(&book(&samples), 495);
        assert!((13_400..=14_950).contains(&end), "{end}");
    }

    #[test]
    fn the_same_window_told_twice_counts_once() {
        let mut b = book(&[(20_000, 0), (20_000, 5), (20_000, 10), (200_000, 15)]);
        for millis in [1_000, 2_000, 2_900] {
            let mut again = sample(200_000, 15);
            again.received_at += SignedDuration::from_millis(millis);
            b.fold(again).unwrap();
        }
        assert_eq!(micros(&b, 18), 10_001);
        assert_eq!(b.figure(&link()).unwrap().rtt_p50.micros(), 200_000);
        // and an older one not at all
        b.fold(sample(5, 1)).unwrap();
        assert_eq!(b.figure(&link()).unwrap().rtt_p50.micros(), 200_000);
    }

    /// Sliding windows of ten seconds, told every three: what lasts for a second and a half moves nothing, whenever it comes, and a
    /// change that lasts is decided on within 21 s.
    #[test]
    fn a_burst_moves_nothing_and_a_lasting_change_is_seen_in_bounded_time() {
        let told = |second: i64, changed: std::ops::Range<i64>| {
            // any reply of the last ten seconds that was slow makes the 95th percentile slow
            let slow = changed.start < second && changed.end > second - 10;
            LinkSample { length: Span::from_micros(10_000_000), ..sample(if slow { 80_000 } else { 20_000 }, second) }
        };
        for from in 30..42 {
            let (mut burst, mut lasting) = (FigureBook::new(STALE), FigureBook::new(STALE));
            let mut decided = None;
            for second in (0..120).step_by(3) {
                burst.fold(told(second, from..from + 2)).unwrap();
                lasting.fold(told(second, from..1_000)).unwrap();
                assert_eq!(burst.figure(&link()).unwrap().in_use().micros(), 10_000, "a burst at {from}");
                if decided.is_none() && lasting.figure(&link()).unwrap().in_use().micros() == 40_000 {
                    decided = Some(second - from);
                }
            }
            assert!(decided.is_some_and(|after| after <= 21), "{decided:?}");
        }
    }

    #[test]
    fn after_silence_the_first_word_counts() {
        let b = book(&[(20_000, 0), (90_000, 100)]);
        assert_eq!(micros(&b, 100), 45_000);
    }

    #[test]
    fn absurd_samples_are_refused_and_leave_the_figure() {
        let mut b = book(&[(12_000, 0), (13_000, 5)]);
        let before = b.figure(&link()).cloned();
        assert!(b.fold(sample(60_000_001, 10)).unwrap_err().to_string().contains("over 60s"));
        assert!(b.fold(sample(u64::MAX, 10)).is_err());
        let mut turned = sample(10, 10);
        turned.rtt_min = Latency::from_micros(11);
        assert!(b.fold(turned).unwrap_err().to_string().contains("not in order"));
        let lost = LinkSample { loss: Ppm::from_ppm(1_000_001), ..sample(10, 10) };
        assert!(b.fold(lost).is_err());
        assert_eq!(b.figure(&link()).cloned(), before);
        let zero = book(&[(0, 0)]);
        assert_eq!(micros(&zero, 0), 1);
        let kept = FigureBook::restore(STALE, [sample(u64::MAX, 0), sample(12_000, 1)]);
        assert_eq!(micros(&kept, 1), 6_000);
    }

    /// A prober that has measured nothing for three windows, however long a figure may be used else.
    #[test]
    fn silence_of_three_windows_is_stale_and_another_path_is_remembered() {
        let mut b = FigureBook::new(Span::from_micros(3_600_000_000));
        b.fold(sample(20_000, 0)).unwrap();
        b.set_silent(&link(), true);
        assert!(b.decision(&link(), at(180)).unwrap().stale);
        assert_eq!(micros(&b, 0), 10_000, "old, not zero and not endless");
        b.set_silent(&link(), false);
        assert!(!b.decision(&link(), at(180)).unwrap().stale);
        assert_eq!(b.path(&link()), None);
        let us = Latency::from_micros;
        let news = PathNews { at: at(60), min_moved: Some((us(20_000), us(40_000))) };
        b.set_path(link(), news);
        assert_eq!(b.path(&link()), Some(&news));
    }
}
