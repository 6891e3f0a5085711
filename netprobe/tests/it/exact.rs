//! Figures against an emulated link, and counts against its own counters.

use std::time::{Duration, Instant};

use rhumb_emulator::{Emulator, Faults, LinkShape, ShapePatch, Traffic};
use rhumb_probe::{Extensions, Mode, SendConfig, SendSummary, send};

use crate::world::{links, reflector};

const COUNT: u32 = 600;
/// The last probes meet no trouble, so that the fate of all before them is known.
const CALM: u64 = 100;

fn run(emulator: &Emulator, count: u32, interval_ms: u64) -> SendConfig {
    let target = emulator.udp_address("ab").unwrap().to_string();
    SendConfig { count, interval: Duration::from_millis(interval_ms), ..SendConfig::new(target) }
}

fn counts(emulator: &Emulator) -> [Traffic; 2] {
    let links = emulator.snapshot().links;
    ["ab", "ab~"].map(|id| links.iter().find(|link| link.id == id).unwrap().udp)
}

/// Noise only ever adds: a busy moment may spoil an attempt, so the best of a few counts, but none may be too fast.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_milliseconds_each_way_are_forty() {
    let far = reflector(Mode::Open);
    let emulator = links(LinkShape::delay(20_000), LinkShape::delay(20_000), far.address());
    let mut attempts = Vec::new();
    for _ in 0..6 {
        let summary = send(run(&emulator, 200, 5)).await.unwrap();
        let (min_us, p50_us) = (summary.rtt_min_us.unwrap(), summary.rtt_p50_us.unwrap());
        assert!(min_us >= 40_000, "{min_us} us is faster than the link");
        attempts.push((min_us, p50_us));
        if min_us <= 40_300 && p50_us <= 40_500 {
            println!("min and p50 {attempts:?}");
            return;
        }
    }
    panic!("least and middle round trips {attempts:?} in us; 40300 and 40500 are the bar");
}

/// Sends probes through trouble both ways, which ends before they do.
async fn through(there: (u32, Faults), back: (u32, Faults), counters: bool) -> (SendSummary, [Traffic; 2]) {
    let far = reflector(Mode::Open);
    let shape = |loss_ppm| LinkShape { loss_ppm, ..LinkShape::delay(5_000) };
    let emulator = links(shape(there.0), shape(back.0), far.address());
    emulator.set_faults("ab", there.1).unwrap();
    emulator.set_faults("ab~", back.1).unwrap();
    let extensions = Extensions { counters, ..Extensions::default() };
    let sending = tokio::spawn(send(SendConfig { extensions, ..run(&emulator, COUNT, 4) }));
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let [there, _] = counts(&emulator);
        if there.passed_packets + there.dropped_packets >= u64::from(COUNT) - CALM {
            break;
        }
        assert!(Instant::now() < deadline && !sending.is_finished(), "{there:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for id in ["ab", "ab~"] {
        emulator.set(id, ShapePatch { loss_ppm: Some(0), ..ShapePatch::default() }).unwrap();
        emulator.set_faults(id, Faults::default()).unwrap();
    }
    let summary = sending.await.unwrap().unwrap();
    let ends = counts(&emulator);
    println!("{summary:?}\n{ends:?}");
    (summary, ends)
}

fn assert_exact(summary: &SendSummary, [there, back]: [Traffic; 2]) {
    assert_eq!(summary.sent, summary.received + summary.lost_forward + summary.lost_backward);
    assert_eq!(summary.lost_forward, there.dropped_packets);
    assert_eq!(summary.replies_lost, Some(back.dropped_packets));
    assert_eq!(summary.forward.duplicates, there.duplicated_packets);
    assert_eq!(summary.backward.duplicates, back.duplicated_packets);
    assert_eq!(summary.forward.reordered, there.reordered_packets);
    assert_eq!(summary.backward.reordered, back.reordered_packets);
}

const TROUBLE: Faults = Faults { duplicate_ppm: 40_000, reorder_ppm: 50_000, reorder_us: 15_000, most_bytes: 0 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_count_is_the_links_own_with_all_troubles_at_once() {
    let (summary, ends) = through((60_000, TROUBLE), (50_000, TROUBLE), true).await;
    assert_exact(&summary, ends);
    // the test means something only if there was trouble of every kind
    for end in ends {
        assert!(end.dropped_packets > 0 && end.duplicated_packets > 0 && end.reordered_packets > 0, "{end:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bare_packet_counts_losses_of_each_direction() {
    let (summary, ends) = through((60_000, Faults::default()), (50_000, Faults::default()), false).await;
    assert_exact(&summary, ends);
    assert_eq!(summary.lost_backward, ends[1].dropped_packets);
    assert!(summary.lost_forward > 0 && summary.lost_backward > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bare_packet_counts_copies_and_order_of_each_direction() {
    let (summary, ends) = through((0, TROUBLE), (0, TROUBLE), false).await;
    assert_exact(&summary, ends);
    assert!(summary.forward.reordered > 0 && summary.backward.reordered > 0);
    assert_eq!(summary.duplicates, ends[0].duplicated_packets + ends[1].duplicated_packets);
}
