//! The overlay over links with delay, loss and a rate of their own: what an order of the demo sees.

use crate::harness::{Chain, GENERATION, dataset, held, key, order, payload, transfer, until};
use rhumb_emulator::{Emulator, EmulatorConfig, LinkConfig, LinkShape};
use rhumb_model::Bandwidth;
use rhumb_wire::RouteEndState;
use std::{
    fs,
    time::{Duration, Instant},
};

/// A chain whose taps reach the next point over emulated links `n` and back over `n~`.
async fn emulated(names: &[&str], shape: LinkShape) -> (Chain, Emulator) {
    let chain = Chain::new(names).await;
    let mut config = EmulatorConfig::new(7);
    for n in 1..names.len() {
        let target = chain.points[n].overlay.local_addr();
        let link = |id: String, reverse: String, from: &str, to: &str| LinkConfig {
            id,
            reverse_id: Some(reverse),
            from: from.into(),
            to: to.into(),
            shape,
            udp_target: target,
            tcp_target: target,
            udp_port: 0,
            tcp_port: 0,
        };
        config.links.push(link(format!("{n}"), format!("{n}~"), names[n - 1], names[n]));
        config.links.push(link(format!("{n}~"), format!("{n}"), names[n], names[n - 1]));
    }
    let emulator = Emulator::start(config).unwrap();
    for (n, tap) in chain.taps.iter().enumerate() {
        tap.retarget(emulator.tcp_address(&format!("{}", n + 1)).unwrap());
    }
    (chain, emulator)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_way_does_not_slow_a_transfer_that_takes_the_whole_link() {
    let shape = LinkShape { latency_us: 40_000, jitter_us: 1_000, loss_ppm: 0, rate_kbps: 21_000 };
    let (chain, emulator) = emulated(&["a", "b", "c", "d"], shape).await;
    chain.source().write("datasets", "corpus", &payload(7_500_000, 1));
    let rate = Bandwidth::from_mbps(20);
    chain.apply(&[(1, rate, held("corpus", 0, 7_500_000))]);
    chain.source().state(1, RouteEndState::Active).await;
    let started = Instant::now();
    chain.apply(&[(1, rate, transfer("corpus", 0, 7_500_000))]);
    chain.source().state(1, RouteEndState::Done).await;
    // 7.5 MB at 20 Mbit/s, then there and back over three links
    let due = Duration::from_millis(3_000 + 2 * 3 * 40);
    let percent = started.elapsed().as_secs_f64() / due.as_secs_f64() * 100.0 - 100.0;
    assert!(percent.abs() <= 3.0, "{percent:.2} % off");
    chain.all_done(1, 7_500_000).await;
    emulator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_byte_passes_a_cut_link_and_all_do_after_it_heals() {
    let shape = LinkShape { latency_us: 5_000, ..LinkShape::default() };
    let (chain, emulator) = emulated(&["a", "b", "c"], shape).await;
    let corpus = payload(2_500_000, 2);
    chain.source().write("datasets", "corpus", &corpus);
    chain.apply(&[(1, Bandwidth::from_mbps(20), transfer("corpus", 0, 2_500_000))]);
    until("progress", || chain.sink().status(1).unwrap().bytes, |bytes| *bytes > 500_000).await;
    for id in ["1", "1~", "2", "2~"] {
        emulator.cut(id).unwrap();
    }
    for point in &chain.points {
        point.state(1, RouteEndState::Degraded).await;
    }
    let stopped = chain.sink().status(1).unwrap().bytes;
    let tries = chain.taps[0].opened();
    until("more attempts", || chain.taps[0].opened(), |opened| *opened > tries + 2).await;
    assert_eq!(chain.sink().status(1).unwrap().bytes, stopped);
    for id in ["1", "1~", "2", "2~"] {
        emulator.heal(id).unwrap();
    }
    chain.all_done(1, 2_500_000).await;
    let input = chain.sink().overlay.input(order(), GENERATION, &dataset("corpus")).unwrap();
    assert!(fs::read(&input.path).unwrap() == corpus);
    // what was on its way when the links were cut, and no more, was sent again
    assert!(chain.source().overlay.sent_again_bytes(&key(1)) < 2_000_000);
    emulator.stop().await;
}
