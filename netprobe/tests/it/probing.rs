//! What an agent's prober says of its links.

use std::time::Duration;

use rhumb_emulator::{LinkShape, ShapePatch};
use rhumb_probe::{LinkFigures, Mode, Target};

use crate::world::{links, prober, reflector, target, until};

/// What scheduling may add to the median on a busy machine.
const ALLOWANCE_US: u64 = 1_500;

fn is_about(figures: &LinkFigures, rtt_us: u64) -> bool {
    let bounds = rtt_us..=rtt_us + ALLOWANCE_US;
    figures.received >= 20
        && figures.rtt_min_us.is_some_and(|min| bounds.contains(&min))
        && figures.rtt_p50_us.is_some_and(|p50| bounds.contains(&p50))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_follow_the_link() {
    let far = reflector(Mode::Open);
    let emulator = links(LinkShape::delay(20_000), LinkShape::delay(10_000), far.address());
    let prober = prober(Duration::from_secs(2));
    prober.set_targets(vec![target("ab", emulator.udp_address("ab").unwrap())]);
    let figures = until(&prober, "ab", |figures| is_about(figures, 30_000)).await;
    assert_eq!((figures.lost_forward_ppm, figures.lost_backward_ppm), (Some(0), Some(0)));
    assert_eq!((figures.duplicates, figures.reordered, figures.refused), (0, 0, 0));
    assert!(figures.jitter_us.is_some() && figures.rtt_p95_us >= figures.rtt_p50_us);
    assert!(figures.last_reply_age_us.is_some_and(|age_us| age_us < 2_000_000));

    emulator.set("ab", ShapePatch { latency_us: Some(100_000), ..ShapePatch::default() }).unwrap();
    until(&prober, "ab", |figures| is_about(figures, 110_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_link_shows_as_loss_and_age_and_recovers() {
    let far = reflector(Mode::Open);
    let emulator = links(LinkShape::delay(1_000), LinkShape::delay(1_000), far.address());
    let prober = prober(Duration::from_secs(5));
    prober.set_targets(vec![target("ab", emulator.udp_address("ab").unwrap())]);
    until(&prober, "ab", |figures| figures.received > 10).await;
    emulator.cut("ab").unwrap();
    let lost = until(&prober, "ab", |figures| figures.lost_forward_ppm == Some(1_000_000)).await;
    assert_eq!((lost.received, lost.rtt_p50_us, lost.jitter_us), (0, None, None));
    assert!(lost.last_reply_age_us.unwrap() >= 3_000_000);
    assert!(lost.pending > 0, "the last seconds are not lost yet");
    emulator.heal("ab").unwrap();
    until(&prober, "ab", |figures| figures.last_reply_age_us < Some(1_000_000) && figures.received > 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn targets_come_and_go_and_keep_their_window() {
    let far = reflector(Mode::Open);
    let prober = prober(Duration::from_mins(1));
    assert_eq!(prober.snapshot(), Vec::new());
    prober.set_targets(vec![target("ab", far.address()), target("ac", far.address())]);
    let before = until(&prober, "ab", |figures| figures.received > 20).await;
    let slower = Target { interval: Duration::from_millis(100), ..target("ab", far.address()) };
    prober.set_targets(vec![slower, Target::new("ad", far.address())]);
    let links: Vec<_> = prober.snapshot().into_iter().map(|figures| figures.link).collect();
    assert_eq!(links, ["ab", "ad"]);
    let after = until(&prober, "ab", |figures| figures.received > before.received).await;
    assert!(after.sent >= before.sent);
    until(&prober, "ad", |figures| figures.received > 2).await;

    let elsewhere = reflector(Mode::Open);
    prober.set_targets(vec![target("ab", elsewhere.address())]);
    let moved = until(&prober, "ab", |figures| figures.received > 0).await;
    assert!(moved.sent < before.sent, "another reflector, another window");
    assert!(elsewhere.counts().answered > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reflector_that_comes_back_is_probed_again() {
    let far = reflector(Mode::Open);
    let address = far.address();
    let prober = prober(Duration::from_secs(5));
    prober.set_targets(vec![target("ab", address)]);
    until(&prober, "ab", |figures| figures.received > 5).await;
    drop(far);
    until(&prober, "ab", |figures| figures.last_reply_age_us > Some(500_000)).await;
    let _back = rhumb_probe::Reflector::bind(address, rhumb_probe::ReflectorConfig::default()).unwrap();
    until(&prober, "ab", |figures| figures.last_reply_age_us < Some(200_000)).await;
}
