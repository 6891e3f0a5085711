//! What the overlay's connections see.

use std::time::{Duration, Instant};

use rhumb_emulator::{Emulator, EmulatorConfig, LinkShape};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::world::{PATIENCE, echo_byte, is_refused, link, nobody, pair, status, tcp_echo, tcp_sink, udp_client};

const RATE: LinkShape = LinkShape { latency_us: 1_000, jitter_us: 0, loss_ppm: 0, rate_kbps: 20_000 };

/// Sends `bytes` through `ab` to a sink and waits for its receipt.
async fn transfer(emulator: &Emulator, bytes: usize) -> Duration {
    let started = Instant::now();
    let mut stream = TcpStream::connect(emulator.tcp_address("ab").unwrap()).await.unwrap();
    stream.write_all(&vec![7; bytes]).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(stream.read_u64().await.unwrap(), bytes as u64);
    started.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_take_both_delays() {
    let emulator = pair(LinkShape::delay(20_000), LinkShape::delay(10_000), nobody(), tcp_echo().await);
    let started = Instant::now();
    let mut stream = TcpStream::connect(emulator.tcp_address("ab").unwrap()).await.unwrap();
    echo_byte(&mut stream).await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(60), "opening costs a round trip of its own");
    let mut trips = Vec::new();
    for _ in 0..20 {
        trips.push(echo_byte(&mut stream).await.unwrap());
    }
    trips.sort();
    assert!(trips[0] >= Duration::from_millis(30) && trips[0] < Duration::from_millis(32), "{trips:?}");
    assert!(trips[10] < Duration::from_millis(34), "{trips:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_runs_at_the_rate() {
    let emulator = pair(RATE, LinkShape::default(), nobody(), tcp_sink().await);
    // 2.5 MB at 20 Mbit/s
    let took = transfer(&emulator, 2_500_000).await;
    assert!((0.85..=1.15).contains(&took.as_secs_f64()), "{took:?}");
    let passed = status(&emulator, "ab").tcp;
    assert_eq!((passed.passed_bytes, passed.dropped_bytes), (2_500_000, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_share_the_rate() {
    let emulator = pair(RATE, LinkShape::default(), nobody(), tcp_sink().await);
    let started = Instant::now();
    let (first, second) = tokio::join!(transfer(&emulator, 1_250_000), transfer(&emulator, 1_250_000));
    let took = started.elapsed();
    assert!((0.85..=1.15).contains(&took.as_secs_f64()), "{took:?}");
    assert!(first.min(second) >= took.mul_f64(0.8), "one starved the other: {first:?} {second:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_delay_does_not_lower_the_rate() {
    let long = LinkShape { latency_us: 100_000, ..RATE };
    let emulator = pair(long, LinkShape::delay(100_000), nobody(), tcp_sink().await);
    // the handshake's 200 ms, 1.25 MB at 20 Mbit/s, and the way of the last byte and of the receipt
    let took = transfer(&emulator, 1_250_000).await;
    assert!((0.85..=1.05).contains(&took.as_secs_f64()), "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unlimited_link_is_fast() {
    let emulator = pair(LinkShape::delay(1_000), LinkShape::delay(1_000), nobody(), tcp_sink().await);
    let took = transfer(&emulator, 50_000_000).await;
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_is_held_back_by_a_receiver_that_does_not_read() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let emulator = pair(RATE, LinkShape::default(), nobody(), listener.local_addr().unwrap());
    let mut stream = TcpStream::connect(emulator.tcp_address("ab").unwrap()).await.unwrap();
    let (_never_read, _) = listener.accept().await.unwrap();
    let (chunk, mut taken) = (vec![7; 65_536], 0);
    while let Ok(written) = timeout(Duration::from_millis(500), stream.write(&chunk)).await {
        taken += written.unwrap();
        assert!(taken < 32 << 20, "the emulator buffers without end");
    }
    assert!(taken > 256 << 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loss_delays_and_loses_nothing() {
    let lossy = LinkShape { loss_ppm: 20_000, ..LinkShape::delay(1_000) };
    let emulator = pair(lossy, LinkShape::default(), nobody(), tcp_sink().await);
    let took = transfer(&emulator, 5_000_000).await;
    assert!(took >= Duration::from_millis(4), "{took:?}");
    assert_eq!(status(&emulator, "ab").tcp.passed_bytes, 5_000_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_stalls_then_resets_and_refuses_new_connections() {
    let emulator = pair(LinkShape::delay(1_000), LinkShape::delay(1_000), nobody(), tcp_echo().await);
    let front = emulator.tcp_address("ab").unwrap();
    let mut stream = TcpStream::connect(front).await.unwrap();
    echo_byte(&mut stream).await.unwrap();
    let passed = |id: &str| status(&emulator, id).tcp.passed_bytes;
    // an octet is counted once it has been handed over: it may be here before its count
    timeout(PATIENCE, async {
        while passed("ab~") < 1 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();

    emulator.cut("ab").unwrap();
    let cut_at = Instant::now();
    let before = (passed("ab"), passed("ab~"));
    let outcome = timeout(PATIENCE, echo_byte(&mut stream)).await.expect("the connection must not hang for ever");
    assert!(outcome.is_err(), "a byte crossed the cut");
    let after = cut_at.elapsed();
    assert!((0.9..=1.6).contains(&after.as_secs_f64()), "reset after {after:?}");
    let started = Instant::now();
    assert!(is_refused(front).await);
    assert!(started.elapsed() < Duration::from_millis(500));
    assert_eq!((passed("ab"), passed("ab~")), before);

    emulator.heal("ab").unwrap();
    let mut stream = TcpStream::connect(front).await.unwrap();
    timeout(PATIENCE, echo_byte(&mut stream)).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_cut_is_survived() {
    let emulator = pair(LinkShape::delay(1_000), LinkShape::delay(1_000), nobody(), tcp_echo().await);
    let mut stream = TcpStream::connect(emulator.tcp_address("ab").unwrap()).await.unwrap();
    echo_byte(&mut stream).await.unwrap();
    emulator.cut("ab~").unwrap();
    let stalled = timeout(Duration::from_millis(200), echo_byte(&mut stream)).await;
    assert!(stalled.is_err(), "a byte crossed the cut");
    emulator.heal("ab~").unwrap();
    timeout(PATIENCE, stream.read_exact(&mut [0])).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_far_end_resets_the_client() {
    let emulator = pair(LinkShape::delay(1_000), LinkShape::delay(1_000), nobody(), nobody());
    assert!(is_refused(emulator.tcp_address("ab").unwrap()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_emulator_gives_its_ports_back() {
    let echo = tcp_echo().await;
    let shape = LinkShape::delay(1_000);
    let first = pair(shape, shape, nobody(), echo);
    let mut ports = Vec::new();
    for id in ["ab", "ab~"] {
        ports.push((first.udp_address(id).unwrap().port(), first.tcp_address(id).unwrap().port()));
    }
    let mut stream = TcpStream::connect(first.tcp_address("ab").unwrap()).await.unwrap();
    echo_byte(&mut stream).await.unwrap();
    let _sender = udp_client(first.udp_address("ab").unwrap());
    first.stop().await;
    assert!(timeout(PATIENCE, echo_byte(&mut stream)).await.unwrap().is_err());

    let mut links = vec![link("ab", "a", "b", shape, nobody(), echo), link("ab~", "b", "a", shape, nobody(), echo)];
    for (config, (udp, tcp)) in links.iter_mut().zip(&ports) {
        (config.udp_port, config.tcp_port) = (*udp, *tcp);
    }
    let second = Emulator::start(EmulatorConfig { links, ..EmulatorConfig::new(1) }).unwrap();
    let mut stream = TcpStream::connect(second.tcp_address("ab").unwrap()).await.unwrap();
    echo_byte(&mut stream).await.unwrap();
}
