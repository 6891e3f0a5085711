//! Trains over simulated links: what the estimator makes of arrivals, how long a run takes, and its budget.

use proptest::prelude::*;
use rhumb_probe_session::{
    Arrival, BandwidthBudget, BandwidthRun, Confidence, CounterReading, Ended, Found, Next, RunConfig, USUAL_SHARE_PPM,
    USUAL_SPAN_US, residual, train_rate,
};

const PACKET: u64 = 1_428;
const GIGABIT: u64 = 1_000_000;

/// A shaper behind a wire: tokens come at `rate_kbps` up to `burst_bytes`; the queue before it holds `queue_bytes`.
#[derive(Clone, Copy)]
struct Path {
    wire_kbps: u64,
    rate_kbps: u64,
    burst_bytes: u64,
    queue_bytes: u64,
    /// Arrivals are noted up to this much late, never out of order.
    noise_ns: u64,
}

impl Path {
    fn plain(rate_kbps: u64) -> Self {
        Self { wire_kbps: 10 * GIGABIT, rate_kbps, burst_bytes: PACKET, queue_bytes: 10_000_000, noise_ns: 20_000 }
    }

    fn shaped(rate_kbps: u64, burst_bytes: u64) -> Self {
        Self { wire_kbps: GIGABIT, burst_bytes, ..Self::plain(rate_kbps) }
    }

    fn train(self, packets: u32, dice: &mut u64) -> Vec<Arrival> {
        let ns = |bytes: u64, kbps: u64| bytes * 8_000_000 / kbps;
        let (mut credit, mut last, mut out, mut first) = (self.burst_bytes, 0_u64, Vec::new(), None);
        let mut free_at = 0;
        for index in 0..packets {
            let came = ns(PACKET * u64::from(index + 1), self.wire_kbps);
            if free_at > came && (free_at - came) * self.rate_kbps / 8_000_000 > self.queue_bytes {
                continue;
            }
            let at = came.max(free_at);
            credit = (credit + (at - last) * self.rate_kbps / 8_000_000).min(self.burst_bytes);
            let wait = ns(PACKET.saturating_sub(credit), self.rate_kbps);
            let leaves = at + wait;
            credit = if wait > 0 { 0 } else { credit - PACKET };
            (last, free_at) = (leaves, leaves);
            *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let noted = leaves + (*dice >> 33) % (self.noise_ns + 1);
            let zero = *first.get_or_insert(noted);
            out.push(Arrival { index, at_ns: noted.saturating_sub(zero) as u32 });
        }
        // who is noted late holds up those behind
        let mut latest = 0;
        for arrival in &mut out {
            latest = latest.max(arrival.at_ns);
            arrival.at_ns = latest;
        }
        out
    }

    fn run(self, budget_bytes: u64) -> Found {
        let mut run = BandwidthRun::new(RunConfig { packet_bytes: PACKET, burst_bytes: 128_000, budget_bytes });
        let mut dice = 42;
        loop {
            match run.step() {
                Next::Done(found) => return found,
                Next::Train { packets, pace_kbps, .. } => {
                    let paced = Self { wire_kbps: self.wire_kbps.min(pace_kbps.unwrap_or(u64::MAX)), ..self };
                    run.arrived(packets, &paced.train(packets, &mut dice));
                }
            }
        }
    }
}

fn near(found: u64, truth: u64, per_cent: u64) -> bool {
    found.abs_diff(truth) * 100 <= truth * per_cent
}

#[test]
fn plain_links_are_seen_within_3_per_cent() {
    for mbps in [2, 10, 50, 100, 500, 1_000] {
        let found = Path::plain(mbps * 1_000).run(100_000_000);
        assert!(near(found.rate_kbps.unwrap(), mbps * 1_000, 3), "{mbps}: {found:?}");
        // on slow ones, a train as long as a burst would fill the queue for longer than it may
        let confidence = if mbps <= 10 { Confidence::Medium } else { Confidence::High };
        assert_eq!((found.ended, found.confidence), (Ended::Agreed, confidence), "{mbps}");
    }
}

#[test]
fn a_shapers_burst_is_not_taken_for_its_rate() {
    for (mbps, burst) in [(50, 64_000), (10, 64_000), (100, 128_000), (50, 256_000), (20, 16_000), (200, 500_000)] {
        let found = Path::shaped(mbps * 1_000, burst).run(100_000_000);
        assert!(near(found.rate_kbps.unwrap(), mbps * 1_000, 10), "{mbps} {burst}: {found:?}");
        assert!(found.burst_bytes.is_some_and(|seen| near(seen, burst, 30)), "{mbps} {burst}: {found:?}");
    }
}

#[test]
fn one_long_train_with_its_knee_says_more_than_its_mean() {
    let mut dice = 1;
    let arrivals = Path::shaped(50_000, 64_000).train(400, &mut dice);
    let mean = 399 * PACKET * 8_000_000 / u64::from(arrivals.last().unwrap().at_ns);
    let seen = train_rate(&arrivals, 400, PACKET).unwrap();
    assert!(!near(mean, 50_000, 10) && near(seen.rate_kbps, 50_000, 2), "{mean} {seen:?}");
    // all of it was burst: fast, and no knee
    let short = train_rate(&arrivals[..32], 32, PACKET).unwrap();
    assert!(short.burst_bytes.is_none() && short.rate_kbps > 500_000, "{short:?}");
}

/// Fault F52: bandwidth tests disturb users.
#[test]
fn f52_a_run_stops_at_loss_and_never_sends_more_than_its_budget() {
    let full = Path { queue_bytes: 20_000, ..Path::plain(20_000) }.run(100_000_000);
    assert_eq!(full.ended, Ended::Loss);
    assert!(full.lost > 0 && full.trains <= 2, "{full:?}");
    assert!(near(full.rate_kbps.unwrap(), 20_000, 10) && full.confidence < Confidence::High, "{full:?}");
    for budget in [0, 50_000, 200_000, 1_000_000] {
        let found = Path::shaped(50_000, 64_000).run(budget);
        assert!(found.sent_bytes <= budget, "{found:?}");
    }
    assert_eq!(
        Path::plain(100_000).run(0),
        Found {
            rate_kbps: None,
            confidence: Confidence::Low,
            burst_bytes: None,
            ended: Ended::Budget,
            trains: 0,
            packets: 0,
            lost: 0,
            sent_bytes: 0,
        }
    );
    // what is usual allows a whole run on a link of 100 Mbit/s
    let usual = BandwidthBudget::new(100_000, USUAL_SHARE_PPM, USUAL_SPAN_US, 0).left_bytes(0);
    assert_eq!(usual, 7_500_000);
    assert_eq!(Path::plain(100_000).run(usual).ended, Ended::Agreed);
    assert_eq!(Path::shaped(50_000, 64_000).run(usual / 2).ended, Ended::Agreed);
}

#[test]
fn silence_and_nonsense_give_no_rate() {
    let mut run = BandwidthRun::new(RunConfig { packet_bytes: PACKET, burst_bytes: 128_000, budget_bytes: 1 << 30 });
    let Next::Train { packets, .. } = run.step() else { panic!("a run begins") };
    run.arrived(packets, &[]);
    let Next::Done(found) = run.step() else { panic!("nothing came") };
    assert_eq!((found.rate_kbps, found.ended), (None, Ended::Silence));
    let at_once: Vec<_> = (0..50).map(|index| Arrival { index, at_ns: 0 }).collect();
    assert_eq!(train_rate(&at_once, 50, PACKET), None);
    let backwards: Vec<_> = (0..50).map(|index| Arrival { index, at_ns: 1_000_000 - index * 1_000 }).collect();
    assert_eq!(train_rate(&backwards, 50, PACKET), None);
    assert_eq!(train_rate(&at_once[..3], 3, PACKET), None);
}

#[test]
fn what_the_host_cannot_resolve_is_not_trusted() {
    let found = Path { wire_kbps: 100 * GIGABIT, noise_ns: 0, ..Path::plain(10 * GIGABIT) }.run(1 << 32);
    assert_eq!(found.confidence, Confidence::Low, "{found:?}");
}

proptest! {
    /// Whatever arrives, a rate is a number above zero.
    #[test]
    fn any_arrivals_give_a_rate_or_none(times in prop::collection::vec(any::<u32>(), 0..200), sent in any::<u32>()) {
        let arrivals: Vec<_> = times.iter().enumerate().map(|(i, at)| Arrival { index: i as u32, at_ns: *at }).collect();
        if let Some(rate) = train_rate(&arrivals, sent, PACKET) {
            prop_assert!(rate.rate_kbps > 0);
        }
    }

    /// No sequence of runs, restarts, changes of the clock and of the terms sends more than the share of the time and one
    /// full budget.
    #[test]
    fn a_budget_holds_over_any_span(steps in prop::collection::vec((0_u64..200_000_000, 0_u64..3_000_000, any::<bool>()), 1..60)) {
        let (capacity, start) = (100_000, 1_800_000_000_000_000);
        let mut budget = BandwidthBudget::new(capacity, USUAL_SHARE_PPM, USUAL_SPAN_US, start);
        let (mut now, mut sent) = (start, 0_u128);
        for (wait, want, restart) in steps {
            now += wait;
            if restart {
                // what was kept is all that a new process knows
                let back = budget.under(capacity, USUAL_SHARE_PPM, USUAL_SPAN_US);
                prop_assert_eq!(back.left_bytes(now), budget.left_bytes(now));
                budget = back;
            }
            if budget.spend(want, now) {
                sent += u128::from(want);
            }
            let earned = u128::from(now - start) * 7_500_000 / u128::from(USUAL_SPAN_US);
            prop_assert!(sent <= earned + 7_500_000, "{} of {}", sent, earned);
        }
    }
}

#[test]
fn a_smaller_link_and_a_clock_set_back_refill_nothing() {
    let mut budget = BandwidthBudget::new(100_000, USUAL_SHARE_PPM, USUAL_SPAN_US, 1_000_000_000);
    assert!(budget.spend(7_000_000, 1_000_000_000));
    assert!(!budget.spend(600_000, 1_000_000_000));
    assert_eq!(budget.left_bytes(0), 500_000);
    assert_eq!(budget.under(1_000_000, USUAL_SHARE_PPM, USUAL_SPAN_US).left_bytes(1_000_000_000), 500_000);
    assert_eq!(budget.under(1_000, USUAL_SHARE_PPM, USUAL_SPAN_US).left_bytes(1_000_000_000), 75_000);
    budget.refund(u64::MAX);
    assert_eq!(budget.left_bytes(1_000_000_000), 7_500_000);
    assert_eq!(budget.left_bytes(u64::MAX), 7_500_000);
}

#[test]
fn counters_leave_the_committed_rate_less_the_95th_percentile() {
    let reading = |i: u64, bytes| CounterReading { at_us: i * 10_000_000, bytes };
    // 20 readings of 12.5 MB in 10 s are 10 Mbit/s, one of them ten times that
    let mut bytes = 0;
    let mut readings = vec![reading(0, 0)];
    for i in 1..=20 {
        bytes += if i == 7 { 125_000_000 } else { 12_500_000 };
        readings.push(reading(i, bytes));
    }
    let counters = residual(100_000, &readings).unwrap();
    assert_eq!((counters.rate_kbps, counters.used_p95_kbps), (90_000, 10_000));
    assert_eq!(residual(100_000, &readings[..4]), None);
    // made anew: what was before says nothing of after
    readings.push(reading(21, 0));
    assert_eq!(residual(100_000, &readings), None);
}
