//! Datasets on their way.

use crate::harness::{
    Chain, GENERATION, Point, Tap, dataset, held, key, link_id, order, payload, sha256, transfer, until,
};
use rhumb_model::Bandwidth;
use rhumb_wire::{RouteEndState, RoutePurpose};
use std::{
    fs,
    time::{Duration, Instant},
};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Moves take `bytes / rate`, and this much longer at most: building the circuit, the last acknowledgement, the checksum.
fn takes_its_time(took: Duration, bytes: u64, rate: Bandwidth) {
    let due = Duration::from_nanos(bytes * 8 * 1_000_000 / rate.kbps());
    let percent = took.as_secs_f64() / due.as_secs_f64() * 100.0 - 100.0;
    assert!(percent.abs() <= 3.0, "took {took:?} instead of {due:?}, {percent:.2} % off");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dataset_arrives_whole_in_the_time_its_rate_gives() {
    let chain = Chain::new(&NAMES).await;
    let corpus = payload(4_500_000, 1);
    chain.source().write("datasets", "corpus", &corpus);
    let rate = Bandwidth::from_mbps(12);
    chain.apply(&[(1, rate, held("corpus", 0, corpus.len() as u64))]);
    chain.source().state(1, RouteEndState::Active).await;
    let input = || chain.sink().overlay.input(order(), GENERATION, &dataset("corpus")).unwrap();
    assert_eq!((input().received_bytes, input().sha256), (0, None));

    let started = Instant::now();
    chain.apply(&[(1, rate, transfer("corpus", 0, corpus.len() as u64))]);
    chain.source().state(1, RouteEndState::Done).await;
    takes_its_time(started.elapsed(), corpus.len() as u64, rate);

    chain.all_done(1, corpus.len() as u64).await;
    let input = input();
    assert_eq!((input.received_bytes, input.expected_bytes), (4_500_000, 4_500_000));
    assert_eq!(input.sha256.as_deref(), Some(sha256(&corpus).as_str()));
    assert!(fs::read(&input.path).unwrap() == corpus);
    assert_eq!(chain.source().overlay.sent_again_bytes(&key(1)), 0);
    // what a point has sent over its link stays counted when the route is gone; the sink has sent nothing on
    let passed = |point: &Point| point.overlay.passed(&[]).into_iter().collect::<Vec<_>>();
    assert_eq!(passed(chain.source()), [(link_id(1), 4_500_000)]);
    assert_eq!(passed(chain.sink()), []);
    chain.apply(&[]);
    until("the end of the route", || chain.source().overlay.status().len(), |left| *left == 0).await;
    assert_eq!(passed(chain.source()), [(link_id(1), 4_500_000)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_missing_or_doubled_when_connections_are_cut_on_the_way() {
    let chain = Chain::new(&NAMES).await;
    let corpus = payload(2_000_000, 2);
    chain.source().write("datasets", "corpus", &corpus);
    chain.apply(&[(1, Bandwidth::from_mbps(20), transfer("corpus", 0, corpus.len() as u64))]);
    for (n, share) in [(0, 4), (2, 2), (1, 1)] {
        let enough = corpus.len() as u64 * 3 / 4 / share;
        until("progress", || chain.sink().status(1).unwrap().bytes, |bytes| *bytes >= enough).await;
        chain.taps[n].close(true);
        chain.source().state(1, RouteEndState::Degraded).await;
        chain.taps[n].close(false);
    }
    chain.all_done(1, corpus.len() as u64).await;
    let input = chain.sink().overlay.input(order(), GENERATION, &dataset("corpus")).unwrap();
    assert_eq!(input.sha256.as_deref(), Some(sha256(&corpus).as_str()));
    assert!(fs::read(&input.path).unwrap() == corpus);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_and_a_relay_that_start_anew_go_on_where_they_were() {
    let mut chain = Chain::new(&NAMES).await;
    let corpus = payload(9_000_000, 3);
    chain.source().write("datasets", "corpus", &corpus);
    let legs = [(1, Bandwidth::from_mbps(60), transfer("corpus", 0, corpus.len() as u64))];
    chain.apply(&legs);
    // past the first 4 MiB the sink has made sure of
    until("progress", || chain.sink().status(1).unwrap().bytes, |bytes| *bytes > 5_000_000).await;
    chain.restart(3).await;
    chain.apply(&legs);
    let resumed = until("a resumed sink", || chain.sink().status(1).unwrap().bytes, |bytes| *bytes > 0).await;
    assert!(resumed >= 4 << 20, "only {resumed} bytes were kept");
    chain.restart(1).await;
    chain.apply(&legs);
    chain.all_done(1, corpus.len() as u64).await;
    let input = chain.sink().overlay.input(order(), GENERATION, &dataset("corpus")).unwrap();
    assert!(fs::read(&input.path).unwrap() == corpus);

    // and what is done stays done, at every hop, whoever starts anew
    chain.restart(2).await;
    chain.apply(&legs);
    chain.all_done(1, corpus.len() as u64).await;
    chain.restart(3).await;
    let kept = chain.sink().overlay.input(order(), GENERATION, &dataset("corpus")).unwrap();
    assert_eq!(kept.sha256.as_deref(), Some(sha256(&corpus).as_str()));
    chain.apply(&legs);
    chain.all_done(1, corpus.len() as u64).await;
    assert!(fs::read(&kept.path).unwrap() == corpus);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_legs_fill_one_file() {
    let chain = Chain::new(&["a", "b", "c"]).await;
    let corpus = payload(300_001, 4);
    chain.source().write("datasets", "corpus", &corpus);
    let rate = Bandwidth::from_mbps(50);
    let legs = [(1, rate, transfer("corpus", 0, 100_000)), (2, rate, transfer("corpus", 100_000, 200_001))];
    chain.apply(&legs);
    let input = || chain.sink().overlay.input(order(), GENERATION, &dataset("corpus")).unwrap();
    let whole = until("the file", input, |input| input.sha256.is_some()).await;
    assert_eq!(whole.expected_bytes, 300_001);
    assert_eq!(whole.sha256.as_deref(), Some(sha256(&corpus).as_str()));
    assert!(fs::read(&whole.path).unwrap() == corpus);
    chain.all_done(1, 100_000).await;
    chain.all_done(2, 200_001).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_a_dataset_lies_at_its_place() {
    let chain = Chain::new(&["a", "b"]).await;
    let corpus = payload(100_000, 5);
    chain.source().write("datasets", "corpus", &corpus);
    chain.apply(&[(1, Bandwidth::from_mbps(50), transfer("corpus", 60_000, 30_000))]);
    chain.all_done(1, 30_000).await;
    let input = chain.sink().overlay.input(order(), GENERATION, &dataset("corpus")).unwrap();
    assert_eq!(input.sha256.as_deref(), Some(sha256(&corpus[60_000..90_000]).as_str()));
    assert!(fs::read(&input.path).unwrap()[60_000..] == corpus[60_000..90_000]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_work_produced_becomes_a_dataset_of_the_sink() {
    let chain = Chain::new(&["a", "b", "c"]).await;
    let model = payload(200_000, 6);
    chain.source().write("produced", "model", &model);
    let purpose =
        RoutePurpose::Transfer { dataset: "model".into(), offset: 0, bytes: 200_000, write: true, start: true };
    chain.apply(&[(1, Bandwidth::from_mbps(50), purpose)]);
    chain.all_done(1, 200_000).await;
    assert!(fs::read(chain.sink().path("datasets/model")).unwrap() == model);
    let record = fs::read_to_string(chain.sink().path("datasets/model.sha256")).unwrap();
    assert_eq!(record, format!("{} 200000", sha256(&model)));
    chain.apply(&[]);
    let left = || chain.sink().path("incoming").read_dir().map_or(0, Iterator::count);
    until("an empty folder", left, |left| *left == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_keep_to_their_own_rates_side_by_side() {
    let chain = Chain::new(&["a", "b", "c"]).await;
    chain.source().write("datasets", "corpus", &payload(4_500_000, 7));
    let (slow, quick) = (Bandwidth::from_mbps(8), Bandwidth::from_mbps(12));
    chain.apply(&[(1, slow, held("corpus", 0, 3_000_000)), (2, quick, held("corpus", 0, 4_500_000))]);
    chain.source().state(1, RouteEndState::Active).await;
    chain.source().state(2, RouteEndState::Active).await;
    let started = Instant::now();
    chain.apply(&[(1, slow, transfer("corpus", 0, 3_000_000)), (2, quick, transfer("corpus", 0, 4_500_000))]);
    let (first, second) = tokio::join!(
        async {
            chain.source().state(1, RouteEndState::Done).await;
            started.elapsed()
        },
        async {
            chain.source().state(2, RouteEndState::Done).await;
            started.elapsed()
        }
    );
    takes_its_time(first, 3_000_000, slow);
    takes_its_time(second, 4_500_000, quick);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_holds_back_a_source_that_sends_too_fast() {
    let chain = Chain::new(&["a", "b", "c"]).await;
    chain.source().write("datasets", "corpus", &payload(2_000_000, 14));
    chain.apply(&[(1, Bandwidth::from_mbps(100), held("corpus", 0, 2_000_000))]);
    let slow = chain.route(1, 1, Bandwidth::from_mbps(8), &held("corpus", 0, 2_000_000), false);
    chain.points[1].apply(&[slow]);
    chain.source().state(1, RouteEndState::Active).await;
    let started = Instant::now();
    chain.source().apply(&[chain.route(0, 1, Bandwidth::from_mbps(100), &transfer("corpus", 0, 2_000_000), false)]);
    chain.all_done(1, 2_000_000).await;
    // 2 s at 8 Mbit/s, less the relay's head-room of 5 % and what it lets through at once
    let took = started.elapsed();
    assert!(took > Duration::from_millis(1_850), "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_rate_holds_at_once_and_breaks_nothing() {
    let chain = Chain::new(&["a", "b"]).await;
    chain.source().write("datasets", "corpus", &payload(4_000_000, 8));
    let legs = |mbps| [(1, Bandwidth::from_mbps(mbps), transfer("corpus", 0, 4_000_000))];
    // at the first rate alone it would take 32 s
    let started = Instant::now();
    chain.apply(&legs(1));
    until("progress", || chain.sink().status(1).unwrap().bytes, |bytes| *bytes > 20_000).await;
    let opened = chain.taps[0].opened();
    chain.apply(&legs(40));
    chain.all_done(1, 4_000_000).await;
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    assert_eq!(chain.taps[0].opened(), opened);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_between_two_agents_reads_a_byte() {
    let marker = b"the marker that nobody on the way may read";
    let mut corpus = payload(200_000, 9);
    for place in [0, 50_000, 150_000] {
        corpus[place..place + marker.len()].copy_from_slice(marker);
    }
    for encrypted in [false, true] {
        let chain = Chain::new(&NAMES).await;
        chain.source().write("datasets", "corpus", &corpus);
        chain.apply_sealed(&[(1, Bandwidth::from_mbps(20), transfer("corpus", 0, 200_000))], encrypted);
        until("progress", || chain.sink().status(1).unwrap().bytes, |bytes| *bytes > 60_000).await;
        chain.taps[1].cut();
        // counters tell payload, not what the cipher adds
        chain.all_done(1, 200_000).await;
        let input = chain.sink().overlay.input(order(), GENERATION, &dataset("corpus")).unwrap();
        assert_eq!(input.sha256.as_deref(), Some(sha256(&corpus).as_str()));
        for tap in &chain.taps {
            assert!(!tap.saw(marker) && tap.opened() > 0, "encrypted: {encrypted}");
        }
    }
}

/// What a relay passes on of an encrypted route opens for nobody without the ends' key, the relay included.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_route_opens_only_with_the_key_it_was_sealed_with() {
    let chain = Chain::new(&NAMES).await;
    chain.source().write("datasets", "corpus", &payload(50_000, 9));
    let (rate, purpose) = (Bandwidth::from_mbps(20), transfer("corpus", 0, 50_000));
    chain.apply_sealed(&[(1, rate, purpose.clone())], true);
    chain.all_done(1, 50_000).await;
    for n in 0..NAMES.len() {
        let mut route = chain.route(n, 2, rate, &purpose, true);
        if n + 1 == NAMES.len() {
            let other = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, [201; 32]);
            route.key_base64 = route.key_base64.map(|_| other);
        }
        chain.points[n].apply(&[route]);
    }
    let told = || chain.sink().status(2).unwrap();
    let told = until("a refusal", told, |status| status.message.contains("is not what the other end sealed")).await;
    assert_eq!((told.state, told.bytes), (RouteEndState::Degraded, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dataset_that_is_not_there_fails_the_route_until_it_is() {
    let chain = Chain::new(&["a", "b"]).await;
    chain.source().write("datasets", "corpus", b"short");
    chain.apply(&[(1, Bandwidth::from_mbps(20), transfer("corpus", 0, 1_000))]);
    let failed = chain.source().state(1, RouteEndState::Failed).await;
    assert_eq!(failed.message, "dataset corpus has 5 bytes, the transfer needs 1000");
    chain.source().write("datasets", "corpus", &payload(1_000, 10));
    chain.all_done(1, 1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_transfer_is_done_at_once() {
    let chain = Chain::new(&["a", "b", "c"]).await;
    chain.source().write("datasets", "corpus", b"");
    chain.apply(&[(1, Bandwidth::from_mbps(20), transfer("corpus", 0, 0))]);
    chain.all_done(1, 0).await;
    let input = chain.sink().overlay.input(order(), GENERATION, &dataset("corpus")).unwrap();
    assert_eq!(input.sha256.as_deref(), Some(sha256(b"").as_str()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applying_the_same_again_changes_nothing() {
    let chain = Chain::new(&["a", "b", "c"]).await;
    chain.source().write("datasets", "corpus", &payload(500_000, 11));
    let legs = [(1, Bandwidth::from_mbps(8), transfer("corpus", 0, 500_000))];
    chain.apply(&legs);
    for point in &chain.points {
        point.state(1, RouteEndState::Active).await;
    }
    let opened = || chain.taps.iter().map(Tap::opened).collect::<Vec<_>>();
    let changes: Vec<_> = chain.points.iter().map(|point| *point.overlay.changed().borrow()).collect();
    let connections = opened();
    for _ in 0..20 {
        chain.apply(&legs);
    }
    until("progress", || chain.sink().status(1).unwrap().bytes, |bytes| *bytes > 200_000).await;
    let after: Vec<_> = chain.points.iter().map(|point| *point.overlay.changed().borrow()).collect();
    assert_eq!(changes, after);
    assert_eq!(opened(), connections);
    chain.all_done(1, 500_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_no_longer_named_leaves_nothing() {
    let chain = Chain::new(&["a", "b", "c"]).await;
    chain.source().write("datasets", "corpus", &payload(4_000_000, 12));
    chain.apply(&[(1, Bandwidth::from_mbps(8), transfer("corpus", 0, 4_000_000))]);
    until("progress", || chain.sink().status(1).unwrap().bytes, |bytes| *bytes > 100_000).await;
    assert!(chain.sink().path(&format!("inputs/{}/{GENERATION}/corpus.part", order())).exists());
    chain.apply(&[]);
    let left = || -> (usize, u64, usize) {
        let routes = chain.points.iter().map(|point| point.overlay.status().len()).sum();
        let connections = chain.taps.iter().map(Tap::live).sum();
        let files = chain.sink().path("inputs").read_dir().map_or(0, Iterator::count);
        (routes, connections, files)
    };
    until("nothing left", left, |left| *left == (0, 0, 0)).await;
    let passed = chain.taps[0].passed();
    // the chain is as new: another route works on it
    chain.apply(&[(2, Bandwidth::from_mbps(20), transfer("corpus", 0, 50_000))]);
    chain.all_done(2, 50_000).await;
    assert!(chain.taps[0].passed() < passed + 60_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_stay_as_long_as_somebody_keeps_them() {
    let chain = Chain::new(&["a", "b"]).await;
    chain.source().write("datasets", "corpus", &payload(1_000, 13));
    chain.apply(&[(1, Bandwidth::from_mbps(20), transfer("corpus", 0, 1_000))]);
    chain.all_done(1, 1_000).await;
    chain.apply(&[]);
    until("no routes", || chain.sink().overlay.status().len(), |left| *left == 0).await;
    let sink: &Point = chain.sink();
    let input = || sink.overlay.input(order(), GENERATION, &dataset("corpus"));
    sink.overlay.retain(&[(order(), GENERATION)].into()).unwrap();
    assert!(input().unwrap().path.exists());
    sink.overlay.retain(&[(order(), GENERATION + 1)].into()).unwrap();
    assert_eq!(input(), None);
    assert_eq!(sink.path("inputs").read_dir().unwrap().count(), 0);
}
