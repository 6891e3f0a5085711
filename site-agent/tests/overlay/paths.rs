//! Several paths of one leg: `a` to `b` by way of `r` and by way of `s`.

use crate::harness::{GENERATION, PATIENCE, Point, Tap, assignment, key, order, payload, sha256, transfer, until};
use base64::{Engine, engine::general_purpose::STANDARD};
use rhumb_model::{Bandwidth, ComponentName, LinkId};
use rhumb_wire::{
    Duty, FlowEndpoint, PeerLink, Role, Route, RouteEndState, RoutePurpose, RouteStatus, report::RouteKey,
};
use std::{fs, path::PathBuf, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time::timeout,
};

const LEG: u32 = 1;
const RATE: Bandwidth = Bandwidth::from_mbps(20);
const STREAM: RoutePurpose = RoutePurpose::Stream { flow: 0 };

struct Diamond {
    a: Point,
    /// One relay on each path.
    relays: [Point; 2],
    b: Point,
    /// From `a` to either relay, and from there to `b`.
    taps: [[Tap; 2]; 2],
}

impl Diamond {
    async fn new() -> Self {
        let (mut a, mut b) = (Point::start("a").await, Point::start("b").await);
        let mut relays = [Point::start("r").await, Point::start("s").await];
        let mut taps = Vec::new();
        for relay in &mut relays {
            let first = Tap::start(relay.overlay.local_addr()).await;
            let second = Tap::start(b.overlay.local_addr()).await;
            let link = |from: &Point, to: &Point, tap: &Tap| PeerLink {
                link: link(from, to),
                to: to.name.clone(),
                overlay: tap.address.to_string(),
            };
            a.links.push(link(&a, relay, &first));
            let onward = link(relay, &b, &second);
            relay.links.push(onward);
            relay.peers.push(a.name.clone());
            b.peers.push(relay.name.clone());
            taps.push([first, second]);
        }
        let taps = <[[Tap; 2]; 2]>::try_from(taps).unwrap_or_else(|_| unreachable!());
        Self { a, relays, b, taps }
    }

    /// The leg with these paths: which relay, what for.
    fn apply(&self, purpose: &RoutePurpose, paths: &[(usize, Duty)], silence_ms: Option<u64>) {
        let route = |role, next_link, previous, (path, duty): (usize, Duty)| Route {
            key: path_key(path),
            role,
            next_link,
            previous,
            rate: RATE,
            purpose: purpose.clone(),
            key_base64: (role != Role::Relay).then(|| STANDARD.encode([9; 32])),
            hop_secret_base64: Some(STANDARD.encode([3; 32])),
            duty,
            silence_ms,
            kernel: None,
        };
        let at = |duty: (usize, Duty)| &self.relays[duty.0];
        let sources: Vec<_> =
            paths.iter().map(|p| route(Role::Source, Some(link(&self.a, at(*p))), None, *p)).collect();
        let sinks: Vec<_> = paths.iter().map(|p| route(Role::Sink, None, Some(at(*p).name.clone()), *p)).collect();
        // whoever is called is there before it is
        self.b.apply(&sinks);
        for (n, relay) in self.relays.iter().enumerate() {
            let mine = paths.iter().filter(|(path, _)| *path == n);
            let next = || (Some(link(relay, &self.b)), Some(self.a.name.clone()));
            relay.apply(&mine.map(|p| route(Role::Relay, next().0, next().1, *p)).collect::<Vec<_>>());
        }
        self.a.apply(&sources);
    }

    fn endpoint(point: &Point, component: &str, role: Role) -> PathBuf {
        let endpoint = FlowEndpoint { flow: 0, legs: vec![LEG], role };
        point.overlay.ensure_endpoint(&assignment(component, 0), &endpoint).unwrap();
        point.overlay.flow_socket(order(), GENERATION, &ComponentName::new(component).unwrap(), 0, 0)
    }

    async fn connected(&self) -> (UnixStream, UnixStream) {
        let (x, y) = (Self::endpoint(&self.a, "x", Role::Source), Self::endpoint(&self.b, "y", Role::Sink));
        (UnixStream::connect(x).await.unwrap(), UnixStream::connect(y).await.unwrap())
    }
}

fn link(from: &Point, to: &Point) -> LinkId {
    LinkId::new(&format!("{}-{}", from.name, to.name)).unwrap()
}

fn path_key(path: usize) -> RouteKey {
    RouteKey { path: u32::try_from(path).unwrap(), ..key(LEG) }
}

fn status(point: &Point, path: usize) -> Option<RouteStatus> {
    point.overlay.status().into_iter().find(|s| s.key == path_key(path))
}

async fn carries(point: &Point, path: usize) {
    let carrying = |s: &Option<RouteStatus>| s.as_ref().is_some_and(|s| s.carrying && s.state == RouteEndState::Active);
    until(&format!("path {path} carries"), || status(point, path), carrying).await;
}

async fn stands(point: &Point, path: usize) -> RouteStatus {
    let active = |s: &Option<RouteStatus>| s.as_ref().is_some_and(|s| s.state == RouteEndState::Active);
    until(&format!("path {path} stands"), || status(point, path), active).await.unwrap()
}

async fn expect(from: &mut UnixStream, expected: &[u8]) {
    let mut got = vec![0; expected.len()];
    timeout(PATIENCE, from.read_exact(&mut got)).await.expect("bytes come in time").unwrap();
    assert!(got == expected, "other bytes came than were sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_is_measured_before_any_byte_takes_it() {
    let diamond = Diamond::new().await;
    diamond.apply(&STREAM, &[(0, Duty::Measure)], None);
    let (mut x, mut y) = diamond.connected().await;
    let sent = payload(100_000, 1);
    x.write_all(&sent).await.unwrap();
    let found = stands(&diamond.a, 0).await;
    let figures = found.figures.expect("it was measured");
    let tested = figures.tested.expect("its rate was tested");
    assert!(figures.rtt_us > 0 && tested.arrived <= tested.sent && tested.sent == RATE, "{figures:?}");
    assert!(tested.arrived.kbps() > RATE.kbps() / 2, "{figures:?}");
    // no more than a test takes has crossed, and nothing of the order
    assert_eq!((found.bytes, found.carrying), (0, false));
    assert!(!diamond.taps[0][1].saw(&sent[..32]));
    diamond.apply(&STREAM, &[(0, Duty::Carry)], None);
    expect(&mut y, &sent).await;
    let kept = status(&diamond.a, 0).unwrap();
    assert_eq!((kept.bytes, kept.carrying, kept.figures.and_then(|f| f.tested)), (100_000, true, Some(tested)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_moves_to_another_path_and_loses_nothing() {
    let diamond = Diamond::new().await;
    diamond.apply(&STREAM, &[(0, Duty::Carry)], None);
    let (mut x, mut y) = diamond.connected().await;
    let sent = payload(4_000_000, 2);
    let writing = async { x.write_all(&sent).await.unwrap() };
    let moving = async {
        until("progress", || status(&diamond.b, 0).unwrap().bytes, |bytes| *bytes > 500_000).await;
        diamond.apply(&STREAM, &[(0, Duty::Carry), (1, Duty::Standby)], None);
        stands(&diamond.a, 1).await;
        diamond.apply(&STREAM, &[(0, Duty::Standby), (1, Duty::Carry)], None);
        carries(&diamond.a, 1).await;
        assert!(!status(&diamond.a, 0).unwrap().carrying);
        let before = status(&diamond.a, 0).unwrap().bytes;
        diamond.apply(&STREAM, &[(1, Duty::Carry)], None);
        until("the old path is gone", || status(&diamond.a, 0), Option::is_none).await;
        // and back again, to a path of another number
        before
    };
    let ((), (), before) = tokio::join!(writing, expect(&mut y, &sent), moving);
    assert!(before > 0 && before < 4_000_000, "{before} bytes took the first path");
    let counted = || [&diamond.a, &diamond.relays[1], &diamond.b].map(|p| status(p, 1).unwrap().bytes);
    until("all is counted", counted, |bytes| *bytes == [4_000_000; 3]).await;
    // the same processes talk on, the other way too
    y.write_all(b"done").await.unwrap();
    expect(&mut x, b"done").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_path_that_stands_by_takes_over_when_the_other_falls_silent() {
    let diamond = Diamond::new().await;
    let both = [(0, Duty::Carry), (1, Duty::Standby)];
    diamond.apply(&STREAM, &both, Some(800));
    let (mut x, mut y) = diamond.connected().await;
    carries(&diamond.a, 0).await;
    stands(&diamond.a, 1).await;
    let sent = payload(6_000_000, 3);
    let writing = async { x.write_all(&sent).await.unwrap() };
    let cutting = async {
        until("progress", || status(&diamond.b, 0).unwrap().bytes, |bytes| *bytes > 500_000).await;
        // beyond the relay: the source has to hear of it
        diamond.taps[0][1].freeze(true);
        carries(&diamond.a, 1).await;
    };
    tokio::join!(writing, expect(&mut y, &sent), cutting);
    // it stays there when the first comes back, and takes to the first again when it is lost itself
    diamond.taps[0][1].freeze(false);
    stands(&diamond.a, 0).await;
    assert!(status(&diamond.a, 1).unwrap().carrying);
    diamond.taps[1][0].freeze(true);
    carries(&diamond.a, 0).await;
    let (written, ()) = tokio::join!(x.write_all(&sent), expect(&mut y, &sent));
    written.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_goes_on_over_another_path() {
    let diamond = Diamond::new().await;
    let corpus = payload(5_000_000, 4);
    diamond.a.write("datasets", "corpus", &corpus);
    let purpose = transfer("corpus", 0, 5_000_000);
    diamond.apply(&purpose, &[(0, Duty::Carry), (1, Duty::Standby)], None);
    until("progress", || status(&diamond.b, 0).map_or(0, |s| s.bytes), |bytes| *bytes > 500_000).await;
    stands(&diamond.a, 1).await;
    diamond.apply(&purpose, &[(0, Duty::Standby), (1, Duty::Carry)], None);
    let done = |s: &Option<RouteStatus>| s.as_ref().is_some_and(|s| s.state == RouteEndState::Done);
    until("the transfer is done", || status(&diamond.a, 1), done).await;
    assert_eq!(status(&diamond.b, 1).unwrap().bytes, 5_000_000);
    let dataset = crate::harness::dataset("corpus");
    let staged = diamond.b.overlay.input(order(), GENERATION, &dataset).unwrap();
    assert_eq!(staged.sha256.as_deref(), Some(sha256(&corpus).as_str()));
    assert!(fs::metadata(&staged.path).unwrap().len() == 5_000_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changing_paths_again_and_again_leaves_no_connection_behind() {
    let diamond = Diamond::new().await;
    diamond.apply(&STREAM, &[(0, Duty::Carry)], None);
    let (mut x, mut y) = diamond.connected().await;
    let mut now = 0;
    for round in 0..12_u64 {
        let next = 1 - now;
        let sent = payload(50_000, round);
        diamond.apply(&STREAM, &[(now, Duty::Carry), (next, Duty::Standby)], None);
        stands(&diamond.a, next).await;
        let (written, read) = (x.write_all(&sent), expect(&mut y, &sent));
        diamond.apply(&STREAM, &[(now, Duty::Standby), (next, Duty::Carry)], None);
        let (written, ()) = tokio::join!(written, read);
        written.unwrap();
        carries(&diamond.a, next).await;
        diamond.apply(&STREAM, &[(next, Duty::Carry)], None);
        now = next;
    }
    diamond.apply(&STREAM, &[], None);
    for point in [&diamond.a, &diamond.relays[0], &diamond.relays[1], &diamond.b] {
        until("nothing is left", || point.overlay.status(), Vec::is_empty).await;
    }
    let live = || diamond.taps.iter().flatten().map(Tap::live).sum::<u64>();
    until("connections are closed", live, |live| *live == 0).await;
    tokio::time::timeout(Duration::from_secs(30), diamond.a.overlay.stop()).await.expect("every task ends");
}

/// Moves and cancels cross each other at any moment of a path's making.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_moves_cut_short_leave_nothing() {
    let diamond = Diamond::new().await;
    for round in 0..500_u64 {
        diamond.apply(&STREAM, &[(0, Duty::Carry)], None);
        if round % 10 == 0 {
            carries(&diamond.a, 0).await;
        }
        diamond.apply(&STREAM, &[(0, Duty::Carry), (1, Duty::Standby)], None);
        // not to wait for anything, but to be somewhere else each time
        tokio::time::sleep(Duration::from_micros(round % 7 * 900)).await;
        diamond.apply(&STREAM, &[(0, Duty::Standby), (1, Duty::Carry)], None);
        if round % 3 == 0 {
            tokio::time::sleep(Duration::from_micros(round % 5 * 700)).await;
            diamond.apply(&STREAM, &[(1, Duty::Carry)], None);
        }
        diamond.apply(&STREAM, &[], None);
    }
    for point in [&diamond.a, &diamond.relays[0], &diamond.relays[1], &diamond.b] {
        until("nothing is left", || point.overlay.status(), Vec::is_empty).await;
    }
    let live = || diamond.taps.iter().flatten().map(Tap::live).sum::<u64>();
    until("connections are closed", live, |live| *live == 0).await;
}
