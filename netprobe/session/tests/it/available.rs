//! Streams over a link that others use: what is found to be free, and at what cost.

use proptest::prelude::*;
use rhumb_probe_session::{Arrival, Available, AvailableConfig, AvailableNext, AvailableRun, Ended};

const PACKET: u64 = 1_428;

/// A queue that others' packets of the same size enter evenly, at `cross_kbps`.
#[derive(Debug, Clone, Copy)]
struct Link {
    rate_kbps: u64,
    cross_kbps: u64,
    queue_bytes: u64,
    /// The host sends and notes up to this much late.
    noise_ns: u64,
}

impl Link {
    fn new(rate_mbps: u64, cross_mbps: u64) -> Self {
        let (rate_kbps, cross_kbps) = (rate_mbps * 1_000, cross_mbps * 1_000);
        Self { rate_kbps, cross_kbps, queue_bytes: 1_000_000, noise_ns: 20_000 }
    }

    fn stream(self, packets: u32, pace_kbps: u64, dice: &mut u64) -> (Vec<u64>, Vec<Arrival>) {
        let ns = |kbps: u64| PACKET * 8_000_000 / kbps;
        let mut throw = |most: u64| {
            *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (*dice >> 33) % (most + 1)
        };
        let (gap, service) = (ns(pace_kbps), ns(self.rate_kbps));
        let cross_gap = if self.cross_kbps == 0 { u64::MAX } else { ns(self.cross_kbps) };
        let mut cross_at = throw(cross_gap.min(1_000_000_000));
        let (mut free_at, mut sent, mut arrivals, mut zero) = (0_u64, Vec::new(), Vec::new(), None);
        let mut went = 0_u64;
        for index in 0..packets {
            went = went.max(gap * u64::from(index) + throw(self.noise_ns));
            while cross_at <= went {
                free_at = free_at.max(cross_at) + service;
                cross_at = cross_at.saturating_add(cross_gap);
            }
            sent.push(went);
            if free_at.saturating_sub(went) * self.rate_kbps / 8_000_000 > self.queue_bytes {
                continue;
            }
            free_at = free_at.max(went) + service;
            let noted = free_at + throw(self.noise_ns);
            let zero = *zero.get_or_insert(noted);
            arrivals.push(Arrival { index, at_ns: noted.saturating_sub(zero) as u32 });
        }
        let mut latest = 0;
        for arrival in &mut arrivals {
            latest = latest.max(arrival.at_ns);
            arrival.at_ns = latest;
        }
        (sent, arrivals)
    }

    fn search(self, top_kbps: u64, budget_bytes: u64) -> Available {
        let mut run = AvailableRun::new(AvailableConfig { packet_bytes: PACKET, top_kbps, budget_bytes });
        let mut dice = 42;
        loop {
            match run.step() {
                AvailableNext::Done(found) => return found,
                AvailableNext::Stream { packets, pace_kbps, .. } => {
                    let (sent, arrivals) = self.stream(packets, pace_kbps, &mut dice);
                    run.arrived(&sent, &arrivals);
                }
            }
        }
    }
}

/// 100 Mbit/s of which others take 40: trains say 100, streams say 60.
#[test]
fn what_others_leave_is_found() {
    for (rate, cross) in [(100, 40), (100, 0), (100, 80), (50, 20), (1_000, 600)] {
        let found = Link::new(rate, cross).search(rate * 1_000, 100_000_000);
        let free = (rate - cross) * 1_000;
        let seen = found.rate_kbps().unwrap();
        assert!(seen.abs_diff(free) <= rate * 1_000 / 10, "{rate} less {cross}: {found:?}");
        assert!(found.sent_bytes < 4_000_000 && found.lost == 0, "{found:?}");
    }
}

/// A host that stalls for milliseconds while the last packets come makes no link look taken.
#[test]
fn a_busy_host_is_no_busy_link() {
    let mut run =
        AvailableRun::new(AvailableConfig { packet_bytes: PACKET, top_kbps: 50_000, budget_bytes: 100_000_000 });
    let mut dice = 7;
    let found = loop {
        match run.step() {
            AvailableNext::Done(found) => break found,
            AvailableNext::Stream { packets, pace_kbps, .. } => {
                let (sent, mut arrivals) = Link::new(50, 0).stream(packets, pace_kbps, &mut dice);
                // what comes within four milliseconds is noted at their end
                let stall = arrivals.len() - 4;
                let until = arrivals[stall].at_ns + 4_000_000;
                arrivals.iter_mut().skip(stall).for_each(|a| a.at_ns = a.at_ns.max(until));
                run.arrived(&sent, &arrivals);
            }
        }
    };
    assert!(found.rate_kbps().unwrap() >= 45_000, "{found:?}");
}

/// Once a queue is full delays no longer rise, but what comes out is slower than what went in, and some is lost.
#[test]
fn a_full_queue_ends_the_search_below_it() {
    let found = Link { queue_bytes: 4_000, ..Link::new(100, 80) }.search(100_000, 100_000_000);
    assert_eq!(found.ended, Ended::Loss);
    let (low, high) = found.between_kbps.unwrap();
    assert!(low <= 20_000 && high <= 50_000, "{found:?}");
}

/// Fault F52: bandwidth tests disturb users.
#[test]
fn f52_a_search_keeps_to_its_budget_and_says_nothing_of_what_it_did_not_see() {
    for budget in [0, 100_000, 300_000, 1_000_000] {
        let found = Link::new(100, 40).search(100_000, budget);
        assert!(found.sent_bytes <= budget, "{found:?}");
        assert_eq!(found.ended, Ended::Budget);
        assert_eq!(found.between_kbps.is_none(), budget < 300_000, "{found:?}");
    }
    let mut deaf = AvailableRun::new(AvailableConfig { packet_bytes: PACKET, top_kbps: 1_000, budget_bytes: 1 << 30 });
    deaf.arrived(&[0; 100], &[]);
    assert!(matches!(deaf.step(), AvailableNext::Done(found) if found.ended == Ended::Silence));
}

proptest! {
    /// Whatever arrives, a search ends within its budget and what it finds lies below the top.
    #[test]
    fn a_search_ends(
        times in prop::collection::vec(prop::collection::vec((any::<u32>(), any::<u32>()), 0..120), 1..60),
        top_kbps in 0_u64..10_000_000,
        budget_bytes in 0_u64..10_000_000,
    ) {
        let mut run = AvailableRun::new(AvailableConfig { packet_bytes: PACKET, top_kbps, budget_bytes });
        for stream in times.iter().cycle().take(1_000) {
            match run.step() {
                AvailableNext::Done(found) => {
                    prop_assert!(found.sent_bytes <= budget_bytes);
                    prop_assert!(found.between_kbps.is_none_or(|(low, high)| low <= high && high <= top_kbps));
                    return Ok(());
                }
                AvailableNext::Stream { packets, pace_kbps, .. } => {
                    prop_assert!(pace_kbps > 0);
                    let sent: Vec<u64> = (0..u64::from(packets)).map(|i| i * 1_000).collect();
                    let arrivals: Vec<_> = stream.iter().map(|(index, at_ns)| Arrival { index: *index, at_ns: *at_ns }).collect();
                    run.arrived(&sent, &arrivals);
                }
            }
        }
        prop_assert!(false, "it never ended");
    }
}
