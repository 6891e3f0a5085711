//! What probes see.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use rhumb_emulator::{LinkShape, ShapePatch};

use crate::world::{PATIENCE, nobody, pair, ping, round_trips, status, udp_client, udp_echo};

/// What scheduling may add on a busy two-core machine to the least and the middle round trip.
const ALLOWANCE: Duration = Duration::from_micros(1_500);

/// Noise only ever adds: a busy moment may spoil an attempt, so the best of a few counts, but none may be too fast.
fn assert_round_trip(client: &UdpSocket, expected: Duration) {
    let mut attempts = Vec::new();
    for _ in 0..5 {
        let trips = round_trips(client, 20);
        let (least, middle) = (trips[0], trips[trips.len() / 2]);
        assert!(least >= expected, "{least:?} is faster than the link");
        if middle <= expected + ALLOWANCE {
            return;
        }
        attempts.push((least, middle));
    }
    panic!("least and middle round trips {attempts:?}, expected {expected:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_trip_is_the_sum_of_both_directions() {
    let emulator = pair(LinkShape::delay(25_000), LinkShape::delay(15_000), udp_echo(), nobody());
    let client = udp_client(emulator.udp_address("ab").unwrap());
    assert_round_trip(&client, Duration::from_millis(40));
    let counts = (status(&emulator, "ab").udp, status(&emulator, "ab~").udp);
    assert_eq!(counts.0.passed_bytes, counts.0.passed_packets * 44);
    assert_eq!(counts.1, counts.0);
    assert!(counts.0.passed_packets >= 20 && counts.0.dropped_packets == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_delay_takes_effect_at_once() {
    let emulator = pair(LinkShape::delay(2_000), LinkShape::delay(2_000), udp_echo(), nobody());
    let client = udp_client(emulator.udp_address("ab").unwrap());
    assert_round_trip(&client, Duration::from_millis(4));
    let patch = ShapePatch { latency_us: Some(30_000), ..ShapePatch::default() };
    assert_eq!(emulator.set("ab", patch).unwrap(), LinkShape::delay(30_000));
    assert_round_trip(&client, Duration::from_millis(32));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_sender_gets_its_own_answers() {
    let emulator = pair(LinkShape::delay(5_000), LinkShape::delay(5_000), udp_echo(), nobody());
    let front = emulator.udp_address("ab").unwrap();
    let clients: Vec<_> = (0..8).map(|_| udp_client(front)).collect();
    for (number, client) in clients.iter().enumerate() {
        client.send(&[number as u8; 44]).unwrap();
    }
    for (number, client) in clients.iter().enumerate() {
        let mut buffer = [0; 64];
        assert_eq!(client.recv(&mut buffer).unwrap(), 44);
        assert_eq!(buffer[0], number as u8);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_of_either_direction_stops_every_answer_and_healing_restores_it() {
    let emulator = pair(LinkShape::delay(1_000), LinkShape::delay(1_000), udp_echo(), nobody());
    let client = udp_client(emulator.udp_address("ab").unwrap());
    for id in ["ab", "ab~"] {
        assert!(ping(&client, PATIENCE).is_some());
        emulator.cut(id).unwrap();
        let before = status(&emulator, id).udp;
        for _ in 0..10 {
            assert_eq!(ping(&client, Duration::from_millis(20)), None, "an answer crossed the cut {id}");
        }
        let after = status(&emulator, id);
        assert!(after.cut);
        assert_eq!(after.udp.passed_packets, before.passed_packets);
        assert_eq!(after.udp.dropped_packets, before.dropped_packets + 10);
        emulator.heal(id).unwrap();
    }
    assert!(ping(&client, PATIENCE).is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loss_is_as_configured() {
    let lossy = LinkShape { loss_ppm: 100_000, ..LinkShape::delay(100) };
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let emulator = pair(lossy, LinkShape::default(), sink.local_addr().unwrap(), nobody());
    let client = udp_client(emulator.udp_address("ab").unwrap());
    let deadline = Instant::now() + PATIENCE;
    let handled = || {
        let counts = status(&emulator, "ab").udp;
        counts.passed_packets + counts.dropped_packets
    };
    for batch in 1..=40 {
        for _ in 0..50 {
            client.send(&[7; 44]).unwrap();
        }
        while handled() < batch * 50 {
            assert!(Instant::now() < deadline, "datagrams went astray outside the link");
            std::thread::yield_now();
        }
    }
    // binomial of 2000 at 10 %: mean 200, deviation 13.4; five deviations either way
    let lost = status(&emulator, "ab").udp.dropped_packets;
    assert!((133..=267).contains(&lost), "{lost}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_over_the_rate_are_dropped() {
    // 8 Mbit/s and 100 ms of queue: 300 datagrams of 1000 octets at once leave room for about 100
    let narrow = LinkShape { rate_kbps: 8_000, ..LinkShape::delay(1_000) };
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    sink.set_read_timeout(Some(PATIENCE)).unwrap();
    let emulator = pair(narrow, LinkShape::default(), sink.local_addr().unwrap(), nobody());
    let client = udp_client(emulator.udp_address("ab").unwrap());
    let started = Instant::now();
    for _ in 0..300 {
        client.send(&[7; 1_000]).unwrap();
    }
    let offered_for = started.elapsed();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let counts = status(&emulator, "ab").udp;
        if counts.passed_packets + counts.dropped_packets == 300 {
            let drained = offered_for.as_millis() as u64 + 1;
            assert!((100..=105 + drained).contains(&counts.passed_packets), "{counts:?} after {offered_for:?}");
            break;
        }
        assert!(Instant::now() < deadline, "{counts:?}");
        tokio::task::yield_now().await;
    }
    assert!(started.elapsed() >= Duration::from_millis(100), "the queue drained faster than the rate");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_can_be_pointed_at_another_reflector() {
    let emulator = pair(LinkShape::default(), LinkShape::default(), nobody(), nobody());
    let client = udp_client(emulator.udp_address("ab").unwrap());
    assert_eq!(ping(&client, Duration::from_millis(50)), None);
    emulator.retarget("ab", udp_echo(), nobody()).unwrap();
    assert!(ping(&client, PATIENCE).is_some());
}
