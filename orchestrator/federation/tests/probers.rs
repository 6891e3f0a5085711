//! What becomes of probers that lie, fall silent or talk nonsense.
#![allow(clippy::unwrap_used)] // helpers of tests stand outside of test functions here

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use rhumb_federation::{FigureBook, LinkSample, LinkWord, Objection, ProberFault, Review, Sanity, sanity::light_rtt};
use rhumb_model::{Latency, LinkId, PointName, Ppm, Span, ratio::Decimal, site::Coordinates};
use std::collections::BTreeMap;

const STALE: Span = Span::from_micros(60_000_000);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn link(from: &str, to: &str) -> LinkId {
    LinkId::new(&format!("{from}/{to}")).unwrap()
}

fn sample(id: LinkId, rtt_us: u64, second: i64) -> LinkSample {
    let rtt = Latency::from_micros(rtt_us);
    LinkSample {
        link: id,
        rtt_min: rtt,
        rtt_p50: rtt,
        rtt_p95: rtt,
        loss: Ppm::ZERO,
        jitter: Latency::ZERO,
        received_at: at(second),
        length: Span::from_micros(5_000_000),
    }
}

/// Points a to d, everybody probing everybody; 20 ms between any two.
struct World {
    book: FigureBook,
    sanity: Sanity,
    review: Review,
}

const POINTS: [&str; 4] = ["a", "b", "c", "d"];

impl World {
    fn new() -> Self {
        Self { book: FigureBook::new(STALE), sanity: Sanity::default(), review: Review::default() }
    }

    /// Seconds of life, a look every 5 of them. `rtt_us` is what `from` says of `to`; `None`: no answer.
    fn live(
        &mut self,
        seconds: std::ops::Range<i64>,
        sent: impl Fn(&str) -> u64,
        rtt_us: impl Fn(&str, &str) -> Option<u64>,
    ) {
        for second in seconds.step_by(5) {
            let mut words = Vec::new();
            for from in POINTS {
                for to in POINTS.into_iter().filter(|to| *to != from) {
                    let rtt = rtt_us(from, to).filter(|_| sent(from) > 0);
                    if let Some(rtt) = rtt {
                        self.book.fold(sample(link(from, to), rtt, second)).unwrap();
                    }
                    words.push(LinkWord {
                        link: link(from, to),
                        from: PointName::new(from).unwrap(),
                        to: PointName::new(to).unwrap(),
                        reverse: Some(link(to, from)),
                        sent: sent(from),
                        received: if rtt.is_some() { sent(from) } else { 0 },
                    });
                }
            }
            self.review = self.sanity.review(&words, &self.book, |_| None, at(second));
            self.book.judge(self.review.clone(), BTreeMap::new());
        }
    }

    fn fault(&self, point: &str) -> Option<ProberFault> {
        self.review.faults.get(&PointName::new(point).unwrap()).copied()
    }

    /// One-way delay in use, in microseconds, and whether it is stale.
    fn decision(&self, from: &str, to: &str, second: i64) -> (u64, bool) {
        let figure = self.book.decision(&link(from, to), at(second)).unwrap();
        (figure.latency.micros(), figure.stale)
    }
}

/// Fault F43: a site says 1 ms to everyone.
#[test]
fn f43_a_site_that_says_1_ms_to_everyone_is_named_and_not_believed() {
    let mut world = World::new();
    world.live(0..100, |_| 50, |from, _| Some(if from == "a" { 1_000 } else { 20_000 }));
    assert_eq!(world.fault("a"), Some(ProberFault::Untrue));
    assert!(["b", "c", "d"].iter().all(|honest| world.fault(honest).is_none()), "{:?}", world.review);
    // its own links are stale, and never nearer than the other ends say
    assert_eq!(world.decision("a", "b", 95), (10_000, true));
    assert_eq!(world.decision("b", "a", 95), (10_000, false));
    // one that comes to its senses is believed again
    world.live(100..200, |_| 50, |_, _| Some(20_000));
    assert_eq!(world.review, Review::default());
    assert_eq!(world.decision("a", "b", 195), (10_000, false));
}

#[test]
fn f43_one_disputed_link_uses_the_worse_figure_and_names_nobody() {
    let mut world = World::new();
    world.live(0..100, |_| 50, |from, to| Some(if (from, to) == ("a", "b") { 1_000 } else { 20_000 }));
    assert_eq!(world.review.faults, BTreeMap::new());
    let other = Latency::from_micros(20_000);
    assert_eq!(world.review.objections, BTreeMap::from([(link("a", "b"), Objection::EndsDisagree { other })]));
    assert_eq!(world.decision("a", "b", 95), (10_000, false));
    assert_eq!(world.decision("b", "a", 95), (10_000, false));
}

#[test]
fn windows_that_pass_each_other_after_a_change_are_no_dispute() {
    let mut world = World::new();
    world.live(0..100, |_| 50, |_, _| Some(20_000));
    // one end sees the new delay two looks before the other
    world.live(100..110, |_| 50, |from, _| Some(if from < "c" { 200_000 } else { 20_000 }));
    world.live(110..160, |_| 50, |_, _| Some(200_000));
    assert_eq!(world.review, Review::default());
}

/// Fault F43, for what geography knows.
#[test]
fn f43_nothing_is_faster_than_light() {
    let place = |lat: i64, lon: i64| Coordinates { lat: Decimal::from_integer(lat), lon: Decimal::from_integer(lon) };
    // Shanghai to Frankfurt, some 8,800 km: 58 ms there and back at the very least
    let (shanghai, frankfurt) = (place(31, 121), place(50, 9));
    let light = light_rtt(shanghai, frankfurt).micros();
    assert!((57_000..60_000).contains(&light), "{light}");
    assert_eq!(light_rtt(shanghai, shanghai), Latency::ZERO);
    // the far side of the Earth
    assert!((132_000..134_000).contains(&light_rtt(place(0, 0), place(0, 180)).micros()));
    let mut book = FigureBook::new(STALE);
    let mut sanity = Sanity::default();
    let (from, to) = (PointName::new("a").unwrap(), PointName::new("b").unwrap());
    let word = LinkWord { link: link("a", "b"), from: from.clone(), to, reverse: None, sent: 5, received: 5 };
    for second in (0..60).step_by(5) {
        book.fold(sample(link("a", "b"), 1_000, second)).unwrap();
        let places = |point: &PointName| Some(if *point == from { shanghai } else { frankfurt });
        let review = sanity.review(std::slice::from_ref(&word), &book, places, at(second));
        book.judge(review, BTreeMap::new());
    }
    let least = Latency::from_micros(light);
    assert_eq!(book.review().objections[&link("a", "b")], Objection::FasterThanLight { least });
    assert_eq!(book.decision(&link("a", "b"), at(55)).unwrap().latency.micros(), light.div_ceil(2));
}

/// Fault F50: the own prober dies, and all links look lost.
#[test]
fn f50_a_dead_prober_is_named_and_its_links_are_stale_not_zero_not_endless() {
    for (dead, fault) in [(0, ProberFault::Silent), (50, ProberFault::Deaf)] {
        let mut world = World::new();
        world.live(0..100, |_| 50, |_, _| Some(20_000));
        let sent = |from: &str| if from == "a" { dead } else { 50 };
        world.live(100..140, sent, |from, _| (from != "a").then_some(20_000));
        assert_eq!(world.fault("a"), Some(fault));
        assert!(world.fault("b").is_none());
        for other in ["b", "c", "d"] {
            let (delay, stale) = world.decision("a", other, 139);
            assert!(stale && (10_000..11_000).contains(&delay), "{delay} {stale}");
            assert_eq!(world.decision(other, "a", 135), (10_000, false));
        }
    }
}

#[test]
fn a_point_that_is_cut_off_is_not_a_dead_prober() {
    let mut world = World::new();
    world.live(0..100, |_| 50, |_, _| Some(20_000));
    world.live(100..200, |_| 50, |from, to| (from != "a" && to != "a").then_some(20_000));
    assert_eq!(world.review, Review::default());
    assert!(world.decision("a", "b", 195).1 && world.decision("b", "a", 195).1);
}

/// Fault F51: samples that are 30 minutes old.
#[test]
fn f51_age_is_part_of_a_figure_until_it_is_no_figure_any_more() {
    let mut book = FigureBook::new(STALE);
    book.fold(sample(link("a", "b"), 20_000, 0)).unwrap();
    let old = book.decision(&link("a", "b"), at(1_800)).unwrap();
    assert_eq!((old.latency.micros(), old.stale), (13_000, true));
    let young = book.decision(&link("a", "b"), at(60)).unwrap();
    assert_eq!((young.latency.micros(), young.stale), (10_100, false));
}

/// Fault F57: oscillation between two equal paths.
#[test]
fn f57_two_paths_that_jitter_around_each_other_never_change_places() {
    let mut book = FigureBook::new(STALE);
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..200 {
        for (to, phase) in [("x", 0), ("y", 1)] {
            let rtt = if (round + phase) % 2 == 0 { 20_000 } else { 21_000 };
            book.fold(sample(link("s", to), rtt, round * 5)).unwrap();
        }
        let delay = |to| book.decision(&link("s", to), at(round * 5)).unwrap().latency;
        seen.insert((delay("x"), delay("y")));
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
}

/// Case H-O18: two equally good sites, one lost probe, then one of them is really farther. Whoever always takes the nearer by
/// the figures in use moves once, after three windows; by the windows' own figures he would have moved a hundred times.
#[test]
fn h_o18_equal_sites_do_not_flap_and_a_lasting_change_moves_once() {
    let mut book = FigureBook::new(STALE);
    let (mut held, mut raw) = (Vec::new(), Vec::new());
    let (mut at_held, mut at_raw) = ("s1", "s1");
    for cycle in 1..=200_i64 {
        let own = |site: &str| match (cycle, site) {
            (101.., "s1") => 60_000,
            (101.., _) => 20_000,
            (odd, "s1") => 21_000 - (odd % 2) as u64 * 1_000,
            (odd, _) => 20_000 + (odd % 2) as u64 * 1_000,
        };
        for site in ["s1", "s2"] {
            if (cycle, site) != (50, "s1") {
                book.fold(sample(link("u", site), own(site), cycle * 5)).unwrap();
            }
        }
        let in_use = |site: &str| book.figure(&link("u", site)).unwrap().in_use();
        let last = |site: &str| book.figure(&link("u", site)).unwrap().rtt_p95;
        let nearer = |at: &'static str, of: &dyn Fn(&str) -> Latency| {
            let other = if at == "s1" { "s2" } else { "s1" };
            if of(other) < of(at) { other } else { at }
        };
        let next = (nearer(at_held, &in_use), nearer(at_raw, &last));
        for (at, moves, next) in [(&mut at_held, &mut held, next.0), (&mut at_raw, &mut raw, next.1)] {
            if *at != next {
                *at = next;
                moves.push(cycle);
            }
        }
    }
    assert_eq!(held, [103]);
    assert_eq!(at_held, "s2");
    assert!(raw.len() > 90, "{}", raw.len());
}

/// Fault F58: a round trip of 0 is the least there is, not "missing".
#[test]
fn f58_a_round_trip_of_nothing_is_a_figure() {
    let mut book = FigureBook::new(STALE);
    book.fold(sample(link("a", "b"), 0, 0)).unwrap();
    assert_eq!(book.decision(&link("a", "b"), at(0)).unwrap().latency.micros(), 1);
}

/// Case H-S09: one absurd sample poisons the smoothed estimate for ever; a stored one does it from the start.
#[test]
fn h_s09_absurd_samples_are_refused_and_the_estimate_returns() {
    let Some(case) = public_data::case("H-S09") else { return };
    // as they would come from a store: what is no number of microseconds is no sample
    let us = |value: &serde_json::Value| value.as_f64().map(|ms| (ms * 1_000.0) as u64);
    let stored = us(&case["stored_estimate_at_start"]).map(|rtt| sample(link("a", "b"), rtt, 0));
    assert_eq!(stored, None);
    let mut book = FigureBook::restore(STALE, [sample(link("a", "b"), u64::MAX, 0)]);
    assert!(book.figure(&link("a", "b")).is_none());
    let mut refused = 0;
    for (i, value) in case["samples_ms"].as_array().unwrap().iter().enumerate() {
        let second = (i + 1) as i64 * 5;
        match us(value) {
            None => refused += 1,
            Some(rtt) => refused += u32::from(book.fold(sample(link("a", "b"), rtt, second)).is_err()),
        }
        let in_use = book.decision(&link("a", "b"), at(second)).unwrap().latency.micros();
        assert!((6_000..=6_500).contains(&in_use), "{in_use}");
    }
    assert_eq!(refused, 2);
}

#[test]
fn a_link_that_is_not_probed_has_an_estimate_until_it_is() {
    let mut book = FigureBook::new(STALE);
    assert!(book.decision(&link("a", "b"), at(0)).is_none());
    book.judge(Review::default(), BTreeMap::from([(link("a", "b"), Latency::from_micros(30_000))]));
    let figure = book.decision(&link("a", "b"), at(0)).unwrap();
    assert_eq!((figure.latency.micros(), figure.stale, figure.estimated), (15_000, false, true));
    book.fold(sample(link("a", "b"), 20_000, 1)).unwrap();
    let figure = book.decision(&link("a", "b"), at(1)).unwrap();
    assert_eq!((figure.latency.micros(), figure.stale, figure.estimated), (10_000, false, false));
}

proptest! {
    /// Fault F45 for figures of probes: whatever integers come, a figure in use lies within 1 us and 60 s, and nothing panics.
    #[test]
    fn f45_no_figure_is_outside_of_what_a_delay_can_be(figures in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()), 1..20)) {
        let mut book = FigureBook::new(STALE);
        for (i, (min, p50, p95, loss, jitter)) in figures.into_iter().enumerate() {
            let received_at = at(0) + SignedDuration::from_secs(i as i64 * 5);
            let us = Latency::from_micros;
            let wild = LinkSample {
                link: link("a", "b"), rtt_min: us(min), rtt_p50: us(p50), rtt_p95: us(p95),
                loss: Ppm::from_ppm(loss), jitter: us(jitter), received_at, length: Span::from_micros(loss),
            };
            let before = book.decision(&link("a", "b"), received_at);
            if book.fold(wild).is_err() {
                prop_assert_eq!(book.decision(&link("a", "b"), received_at), before);
            }
            if let Some(figure) = book.decision(&link("a", "b"), received_at) {
                prop_assert!((1..=60_000_000).contains(&figure.latency.micros()));
            }
        }
    }
}
