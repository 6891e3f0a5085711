//! Processes that talk over a route.

use crate::harness::{Chain, GENERATION, PATIENCE, Point, Tap, assignment, order, payload, until};
use rhumb_model::{Bandwidth, ComponentName};
use rhumb_wire::{FlowEndpoint, Role, RouteEndState, RoutePurpose};
use std::{
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    time::timeout,
};

const FLOW: u32 = 2;
const QUICK: Bandwidth = Bandwidth::from_mbps(200);

fn stream() -> RoutePurpose {
    RoutePurpose::Stream { flow: FLOW }
}

/// A replica's socket at `point`.
fn endpoint(point: &Point, component: &str, replica: u32, role: Role, legs: &[u32]) -> PathBuf {
    let endpoint = FlowEndpoint { flow: FLOW, legs: legs.to_vec(), role };
    point.overlay.ensure_endpoint(&assignment(component, replica), &endpoint).unwrap();
    let component = ComponentName::new(component).unwrap();
    point.overlay.flow_socket(order(), GENERATION, &component, replica, FLOW)
}

async fn connect(path: &PathBuf) -> UnixStream {
    UnixStream::connect(path).await.unwrap()
}

/// Reads exactly what is expected, then nothing more if `to_end`.
async fn expect(from: &mut (impl AsyncReadExt + Unpin), expected: &[u8]) {
    let mut got = vec![0; expected.len()];
    timeout(PATIENCE, from.read_exact(&mut got)).await.expect("bytes come in time").unwrap();
    assert!(got == expected, "other bytes came than were sent");
}

async fn expect_end(from: &mut (impl AsyncReadExt + Unpin)) {
    let mut rest = Vec::new();
    timeout(PATIENCE, from.read_to_end(&mut rest)).await.expect("the end comes in time").unwrap();
    assert_eq!(rest, b"");
}

/// `x` at the source, `y` at the sink, one leg between them.
async fn pair(names: &[&str], rate: Bandwidth, encrypted: bool) -> (Chain, PathBuf, PathBuf) {
    let chain = Chain::new(names).await;
    chain.apply_sealed(&[(1, rate, stream())], encrypted);
    let source = endpoint(chain.source(), "x", 0, Role::Source, &[1]);
    let sink = endpoint(chain.sink(), "y", 0, Role::Sink, &[1]);
    chain.source().state(1, RouteEndState::Active).await;
    (chain, source, sink)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_go_both_ways_and_so_does_their_end() {
    for encrypted in [false, true] {
        let (chain, source, sink) = pair(&["a", "b", "c", "d"], QUICK, encrypted).await;
        let (there, back) = (payload(700_000, 1), payload(500_000, 2));
        let (mut x, mut y) = (connect(&source).await, connect(&sink).await);
        let (mut x_in, mut x_out) = x.split();
        let (mut y_in, mut y_out) = y.split();
        tokio::join!(
            async {
                x_out.write_all(&there).await.unwrap();
                x_out.shutdown().await.unwrap();
            },
            async {
                expect(&mut y_in, &there).await;
                expect_end(&mut y_in).await;
                // the other way still stands
                y_out.write_all(&back).await.unwrap();
                y_out.shutdown().await.unwrap();
            },
            async {
                expect(&mut x_in, &back).await;
                expect_end(&mut x_in).await;
            }
        );
        for point in &chain.points {
            let counted = || point.status(1).map(|status| (status.bytes, status.bytes_back));
            until("the counters", counted, |counted| *counted == Some((700_000, 500_000))).await;
        }
        for tap in &chain.taps {
            assert!(!tap.saw(&there[1_000..1_032]) && tap.opened() > 0, "encrypted: {encrypted}");
            assert!(!tap.saw(&back[1_000..1_032]), "encrypted: {encrypted}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_outlives_lost_connections() {
    for encrypted in [false, true] {
        let (chain, source, sink) = pair(&["a", "b", "c"], Bandwidth::from_mbps(40), encrypted).await;
        let (there, back) = (payload(2_000_000, 3), payload(1_500_000, 4));
        let (mut x, mut y) = (connect(&source).await, connect(&sink).await);
        let (mut x_in, mut x_out) = x.split();
        let (mut y_in, mut y_out) = y.split();
        tokio::join!(
            async { x_out.write_all(&there).await.unwrap() },
            async { y_out.write_all(&back).await.unwrap() },
            expect(&mut y_in, &there),
            expect(&mut x_in, &back),
            async {
                for (n, bytes) in [(1, 200_000), (0, 700_000), (1, 1_100_000)] {
                    let passed = || chain.sink().status(1).unwrap().bytes;
                    until("progress", passed, |passed| *passed > bytes).await;
                    chain.taps[n].cut();
                }
            }
        );
        for point in &chain.points {
            let counted = || point.status(1).map(|status| (status.bytes, status.bytes_back));
            until("the counters", counted, |counted| *counted == Some((2_000_000, 1_500_000))).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_direction_has_the_routes_rate() {
    let (_chain, source, sink) = pair(&["a", "b"], Bandwidth::from_mbps(8), false).await;
    let bytes = payload(3_000_000, 5);
    let (mut x, mut y) = (connect(&source).await, connect(&sink).await);
    let (mut x_in, mut x_out) = x.split();
    let (mut y_in, mut y_out) = y.split();
    let started = Instant::now();
    tokio::join!(
        async { x_out.write_all(&bytes).await.unwrap() },
        async { y_out.write_all(&bytes).await.unwrap() },
        expect(&mut y_in, &bytes),
        expect(&mut x_in, &bytes),
    );
    // 3 MB at 8 Mbit/s
    let percent = started.elapsed().as_secs_f64() / 3.0 * 100.0 - 100.0;
    assert!(percent.abs() <= 3.0, "{percent:.2} % off");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_pair_in_order_and_a_slow_one_holds_up_none_but_itself() {
    let (chain, source, sink) = pair(&["a", "b", "c"], QUICK, false).await;
    let (mut slow, mut slow_far) = (connect(&source).await, connect(&sink).await);
    slow.write_all(b"slow").await.unwrap();
    expect(&mut slow_far, b"slow").await;
    let (mut quick, mut quick_far) = (connect(&source).await, connect(&sink).await);
    quick.write_all(b"quick").await.unwrap();
    expect(&mut quick_far, b"quick").await;

    // nobody reads at the far end of the slow one: what it may write is bounded
    let block = payload(64 << 10, 6);
    let mut written = Vec::new();
    while let Ok(wrote) = timeout(Duration::from_millis(700), slow.write(&block)).await {
        written.extend_from_slice(&block[..wrote.unwrap()]);
        assert!(written.len() < 20 << 20, "nothing holds the writer back");
    }
    let bulk = payload(3_000_000, 7);
    tokio::join!(async { quick.write_all(&bulk).await.unwrap() }, expect(&mut quick_far, &bulk));
    // and what it wrote is all there
    expect(&mut slow_far, &written).await;
    let total = (written.len() + bulk.len() + 9) as u64;
    let counted = || chain.points[1].status(1).unwrap().bytes;
    until("the counter", counted, |counted| *counted == total).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_is_noticed_by_its_partner() {
    let (_chain, source, sink) = pair(&["a", "b"], QUICK, false).await;
    let (x, mut y) = (connect(&source).await, connect(&sink).await);
    drop(x);
    expect_end(&mut y).await;
    let (mut x, mut y) = (connect(&source).await, connect(&sink).await);
    x.write_all(b"hello").await.unwrap();
    expect(&mut y, b"hello").await;
    drop(y);
    let noticed = async { while x.write_all(b"more").await.is_ok() {} };
    timeout(PATIENCE, noticed).await.expect("writing fails in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_early_waits_for_its_route_and_its_partner() {
    let chain = Chain::new(&["a", "b"]).await;
    let source = endpoint(chain.source(), "x", 0, Role::Source, &[1]);
    let sink = endpoint(chain.sink(), "y", 0, Role::Sink, &[1]);
    let mut x = connect(&source).await;
    x.write_all(b"first").await.unwrap();
    x.shutdown().await.unwrap();
    // one that gave up waiting before there was a route is passed over
    drop(connect(&sink).await);
    chain.apply(&[(1, QUICK, stream())]);
    until("the bytes", || chain.sink().status(1).unwrap().bytes, |bytes| *bytes == 5).await;
    let mut y = connect(&sink).await;
    expect(&mut y, b"first").await;
    expect_end(&mut y).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_may_listen_by_itself() {
    let (_chain, source, sink) = pair(&["a", "b"], QUICK, false).await;
    let mut early = connect(&source).await;
    early.write_all(b"early").await.unwrap();
    let listener = UnixListener::bind(sink.with_extension("listen.sock")).unwrap();
    let (mut served, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    expect(&mut served, b"early").await;
    served.write_all(b"answer").await.unwrap();
    expect(&mut early, b"answer").await;
    let mut late = connect(&source).await;
    late.write_all(b"late").await.unwrap();
    let (mut served, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    expect(&mut served, b"late").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_on_one_point_meet_without_a_route() {
    let point = Point::start("a").await;
    let source = endpoint(&point, "x", 0, Role::Source, &[]);
    let sink = endpoint(&point, "y", 0, Role::Sink, &[]);
    let (mut x, mut y) = (connect(&source).await, connect(&sink).await);
    x.write_all(b"there").await.unwrap();
    expect(&mut y, b"there").await;
    y.write_all(b"back").await.unwrap();
    y.shutdown().await.unwrap();
    expect(&mut x, b"back").await;
    expect_end(&mut x).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_of_one_component_meet_each_other() {
    // on one point
    let point = Point::start("a").await;
    let first = endpoint(&point, "x", 0, Role::Source, &[]);
    let second = endpoint(&point, "x", 1, Role::Source, &[]);
    let (mut one, mut two) = (connect(&first).await, connect(&second).await);
    one.write_all(b"to two").await.unwrap();
    two.write_all(b"to one").await.unwrap();
    expect(&mut two, b"to two").await;
    expect(&mut one, b"to one").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_on_two_points_have_a_leg_each_way() {
    // leg 1 from a to b, leg 2 from b to a
    let (there, back) = (Chain::new(&["a", "b"]).await, Chain::new(&["b", "a"]).await);
    let a = Point::start("a").await;
    let b = Point::start("b").await;
    let taps = [Tap::start(b.overlay.local_addr()).await, Tap::start(a.overlay.local_addr()).await];
    for (point, far, tap, n) in [(&a, &b, &taps[0], 0), (&b, &a, &taps[1], 1)] {
        let leg = |leg, place| {
            let chain = if leg == 1 { &there } else { &back };
            chain.route(place, leg, QUICK, &stream(), false)
        };
        let routes = if n == 0 { [leg(1, 0), leg(2, 1)] } else { [leg(1, 1), leg(2, 0)] };
        let link = rhumb_wire::PeerLink {
            link: crate::harness::link_id(1),
            to: far.name.clone(),
            overlay: tap.address.to_string(),
        };
        point.overlay.apply(&routes, &[link], std::slice::from_ref(&far.name));
    }
    let at_a = endpoint(&a, "x", 0, Role::Source, &[1, 2]);
    let at_b = endpoint(&b, "x", 1, Role::Source, &[1, 2]);
    let (mut x, mut y) = (connect(&at_a).await, connect(&at_b).await);
    let (to_y, to_x) = (payload(300_000, 8), payload(200_000, 9));
    let (mut x_in, mut x_out) = x.split();
    let (mut y_in, mut y_out) = y.split();
    tokio::join!(
        async { x_out.write_all(&to_y).await.unwrap() },
        async { y_out.write_all(&to_x).await.unwrap() },
        expect(&mut y_in, &to_y),
        expect(&mut x_in, &to_x),
    );
    // each on the leg that was reserved for it
    for point in [&a, &b] {
        for (leg, bytes) in [(1, 300_000), (2, 200_000)] {
            let counted = || point.status(leg).map(|status| (status.bytes, status.bytes_back));
            until("the counters", counted, |counted| *counted == Some((bytes, 0))).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_are_private_and_go_with_their_order() {
    let (chain, source, sink) = pair(&["a", "b"], QUICK, false).await;
    let mode = source.parent().unwrap().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert!(source.as_os_str().len() <= 107);
    // the same again keeps the socket and what hangs on it
    let (mut x, mut y) = (connect(&source).await, connect(&sink).await);
    endpoint(chain.source(), "x", 0, Role::Source, &[1]);
    x.write_all(b"still").await.unwrap();
    expect(&mut y, b"still").await;

    chain.source().overlay.remove_endpoints(order(), GENERATION).unwrap();
    assert!(!source.parent().unwrap().exists());
    chain.apply(&[]);
    expect_end(&mut x).await;
    expect_end(&mut y).await;
    chain.sink().overlay.retain(&[(order(), GENERATION)].into()).unwrap();
    assert!(sink.exists());
    chain.sink().overlay.retain(&[].into()).unwrap();
    assert!(!sink.parent().unwrap().exists());
    assert!(UnixStream::connect(&sink).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_overlay_lets_go_of_everything() {
    let (chain, source, sink) = pair(&["a", "b", "c"], QUICK, false).await;
    let (mut x, mut y) = (connect(&source).await, connect(&sink).await);
    x.write_all(b"hello").await.unwrap();
    expect(&mut y, b"hello").await;
    for point in &chain.points {
        timeout(PATIENCE, point.overlay.stop()).await.expect("it stops");
    }
    expect_end(&mut x).await;
    expect_end(&mut y).await;
    until("closed connections", || chain.taps.iter().map(Tap::live).sum::<u64>(), |live| *live == 0).await;
    assert!(tokio::net::TcpStream::connect(chain.points[1].overlay.local_addr()).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_starts_anew_ends_its_streams_and_takes_new_ones() {
    let (mut chain, source, _) = pair(&["a", "b"], QUICK, false).await;
    let sink = endpoint(chain.sink(), "y", 0, Role::Sink, &[1]);
    let (mut x, mut y) = (connect(&source).await, connect(&sink).await);
    x.write_all(b"before").await.unwrap();
    expect(&mut y, b"before").await;
    chain.restart(1).await;
    chain.sink().apply(&[chain.route(1, 1, QUICK, &stream(), false)]);
    expect_end(&mut x).await;
    let sink = endpoint(chain.sink(), "y", 0, Role::Sink, &[1]);
    let (mut x, mut y) = (connect(&source).await, connect(&sink).await);
    x.write_all(b"afterwards").await.unwrap();
    expect(&mut y, b"afterwards").await;
    until("the counter", || chain.source().status(1).unwrap().bytes, |bytes| *bytes == 16).await;
}
