//! Who may connect, and what everybody else hears: nothing.

use crate::harness::{Chain, Point, key, payload, transfer, until};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::BytesMut;
use rhumb_agent::dataplane::overlay::frame::{self, Frame, Hello, Open, Position, Purpose, Sealing};
use rhumb_model::{Bandwidth, PointName};
use rhumb_wire::{RouteEndState, report::RouteKey};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

const RATE: Bandwidth = Bandwidth::from_mbps(20);

fn octets(frame: &Frame) -> BytesMut {
    let mut out = BytesMut::new();
    frame::put(frame, &mut out);
    out
}

fn hello(from: &str, route: RouteKey) -> BytesMut {
    octets(&Frame::Hello(Hello { from: PointName::new(from).unwrap(), route, nonce: [1; 32] }))
}

/// Says `words` and gives all it hears until the other side closes.
async fn heard(point: &Point, words: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(point.overlay.local_addr()).await.unwrap();
    stream.write_all(words).await.unwrap();
    let mut answer = Vec::new();
    let closed = timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await;
    // closing with unread words is a reset
    drop(closed.expect("the connection is closed"));
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_not_expected_hears_nothing() {
    let chain = Chain::new(&["a", "b"]).await;
    chain.source().write("datasets", "corpus", &payload(1_000, 1));
    chain.apply(&[(1, RATE, transfer("corpus", 0, 1_000))]);
    chain.all_done(1, 1_000).await;
    let refused = chain.sink().overlay.refused_connections();

    let mut other_version = hello("a", key(1));
    other_version[10] = 9;
    let strangers: [&[u8]; 7] = [
        &hello("z", key(1)),
        &hello("b", key(1)),
        &hello("a", key(2)),
        &hello("a", RouteKey { generation: 99, ..key(1) }),
        &other_version,
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        &[0xff; 4096],
    ];
    for stranger in strangers {
        assert_eq!(heard(chain.sink(), stranger).await, b"");
    }
    let open = Open {
        purpose: Purpose::Transfer { bytes: 1_000 },
        sealed: Sealing::Plain,
        source: 0,
        sink: 0,
        received: Position::default(),
        salt: [0; 16],
    };
    assert_eq!(heard(chain.sink(), &octets(&Frame::Open(open))).await, b"");
    assert_eq!(chain.sink().overlay.refused_connections(), refused + 8);
    // the source takes nobody's connection for its route
    assert_eq!(heard(chain.source(), &hello("b", key(1))).await, b"");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_name_without_the_secret_gets_no_further_than_the_challenge() {
    let chain = Chain::new(&["a", "b"]).await;
    chain.source().write("datasets", "corpus", &payload(1_000, 1));
    chain.apply(&[(1, RATE, transfer("corpus", 0, 1_000))]);
    chain.all_done(1, 1_000).await;
    let refused = chain.sink().overlay.refused_connections();
    let mut words = hello("a", key(1));
    frame::put(&Frame::Proof { mac: [7; 32] }, &mut words);
    let answer = heard(chain.sink(), &words).await;
    let mut answer = BytesMut::from(&answer[..]);
    let challenge = frame::take(&mut answer, frame::FRAME_BYTES_MAX).unwrap().unwrap();
    assert!(matches!(frame::parse(&challenge), Ok(Frame::Challenge { .. })));
    assert!(answer.is_empty());
    assert_eq!(chain.sink().overlay.refused_connections(), refused + 1);
    // and the true neighbour's circuit is not disturbed
    assert_eq!(chain.source().status(1).unwrap().state, RouteEndState::Done);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hops_with_different_secrets_do_not_join() {
    let chain = Chain::new(&["a", "b"]).await;
    chain.source().write("datasets", "corpus", &payload(1_000, 1));
    let purpose = transfer("corpus", 0, 1_000);
    chain.apply(&[(1, RATE, purpose.clone())]);
    for secret in [None, Some(STANDARD.encode([200; 32]))] {
        let mut route = chain.route(0, 2, RATE, &purpose, false);
        route.hop_secret_base64 = secret;
        chain.source().apply(&[route]);
        chain.sink().apply(&[chain.route(1, 2, RATE, &purpose, false)]);
        let told = || chain.source().status(2).unwrap();
        let told = until("a refusal", told, |status| status.message.contains("secret")).await;
        assert_eq!(told.state, RouteEndState::Building);
        assert_eq!(told.bytes, 0);
    }
    chain.apply(&[(2, RATE, purpose)]);
    chain.all_done(2, 1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_point_that_is_no_peer_any_more_is_cut_off() {
    let chain = Chain::new(&["a", "b"]).await;
    chain.source().write("datasets", "corpus", &payload(2_000_000, 1));
    chain.apply(&[(1, Bandwidth::from_mbps(8), transfer("corpus", 0, 2_000_000))]);
    until("progress", || chain.sink().status(1).unwrap().bytes, |bytes| *bytes > 10_000).await;
    let route = chain.route(1, 1, Bandwidth::from_mbps(8), &transfer("corpus", 0, 2_000_000), false);
    chain.sink().overlay.apply(&[route], &[], &[]);
    chain.sink().state(1, RouteEndState::Degraded).await;
    until("a closed connection", || chain.taps[0].live(), |live| *live == 0).await;
    chain.apply(&[(1, Bandwidth::from_mbps(80), transfer("corpus", 0, 2_000_000))]);
    chain.all_done(1, 2_000_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_chain_says_where_it_is_broken() {
    let chain = Chain::new(&["a", "b", "c"]).await;
    chain.taps[1].close(true);
    chain.source().write("datasets", "corpus", &payload(1_000, 1));
    chain.apply(&[(1, RATE, transfer("corpus", 0, 1_000))]);
    let told = || chain.source().status(1).unwrap();
    let told =
        until("the reason", told, |status| status.message.contains("at b: c is not reached over link link-2")).await;
    assert_eq!(told.state, RouteEndState::Building);
    chain.taps[1].close(false);
    chain.all_done(1, 1_000).await;
}
