//! Control channels: a triangle of points, the orchestrator at `h`.

use std::net::SocketAddr;
use std::time::Duration;

use rhumb_emulator::{ControlConfig, ControlStatus, Emulator, EmulatorConfig, LinkShape, ShapePatch};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::world::{PATIENCE, echo_byte, is_refused, link, nobody, tcp_echo};

fn triangle(orchestrator: SocketAddr) -> Emulator {
    let mut links = Vec::new();
    for (id, from, to, ms) in [("ah", "a", "h", 30), ("ab", "a", "b", 5), ("bh", "b", "h", 5)] {
        let shape = LinkShape::delay(ms * 1_000);
        links.push(link(id, from, to, shape, nobody(), nobody()));
        links.push(link(&format!("{id}~"), to, from, shape, nobody(), nobody()));
    }
    let control = |point: &str| ControlConfig { point: point.into(), home: "h".into(), target: orchestrator, port: 0 };
    let controls = vec![control("a"), control("h")];
    Emulator::start(EmulatorConfig { links, controls, ..EmulatorConfig::new(3) }).unwrap()
}

fn of(emulator: &Emulator, point: &str) -> ControlStatus {
    emulator.snapshot().controls.into_iter().find(|control| control.point == point).unwrap()
}

async fn round_trip(emulator: &Emulator, point: &str) -> Duration {
    let address = emulator.control_address(point).unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut least = Duration::MAX;
    for _ in 0..5 {
        let trip = timeout(PATIENCE, echo_byte(&mut stream)).await.unwrap().unwrap();
        least = least.min(trip);
    }
    least
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_channel_takes_the_quickest_path_that_is_left() {
    let emulator = triangle(tcp_echo().await);
    let over_b = round_trip(&emulator, "a").await;
    assert!((0.020..0.025).contains(&over_b.as_secs_f64()), "{over_b:?}");
    assert!(round_trip(&emulator, "h").await < Duration::from_millis(5));

    emulator.cut("bh").unwrap();
    let status = of(&emulator, "a");
    assert_eq!((status.up_latency_us, status.down_latency_us, status.cut), (30_000, 10_000, false));
    let mixed = round_trip(&emulator, "a").await;
    assert!((0.040..0.045).contains(&mixed.as_secs_f64()), "{mixed:?}");

    emulator.set("ah", ShapePatch { latency_us: Some(1_000), ..ShapePatch::default() }).unwrap();
    assert_eq!(of(&emulator, "a").up_latency_us, 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cutting_every_link_of_a_site_cuts_its_channel() {
    let emulator = triangle(tcp_echo().await);
    let address = emulator.control_address("a").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    timeout(PATIENCE, echo_byte(&mut stream)).await.unwrap().unwrap();

    for id in ["ah", "ah~", "ab", "ab~"] {
        emulator.cut(id).unwrap();
    }
    assert!(of(&emulator, "a").cut);
    assert!(!of(&emulator, "h").cut);
    assert!(timeout(PATIENCE, echo_byte(&mut stream)).await.unwrap().is_err());
    assert!(is_refused(address).await);

    for id in ["ah", "ah~"] {
        emulator.heal(id).unwrap();
    }
    assert!(!of(&emulator, "a").cut);
    let direct = round_trip(&emulator, "a").await;
    assert!((0.060..0.066).contains(&direct.as_secs_f64()), "{direct:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_link_is_named_with_its_nearest() {
    let emulator = triangle(nobody());
    let error = emulator.cut("ah-").unwrap_err().to_string();
    assert!(error.starts_with("no emulated link is called `ah-`; did you mean `ah"), "{error}");
    assert!(emulator.set("zz", ShapePatch::default()).is_err());
    assert!(emulator.set("ah", ShapePatch { loss_ppm: Some(2_000_000), ..ShapePatch::default() }).is_err());
}
