//! The standalone run.

use std::time::Duration;

use rhumb_emulator::LinkShape;
use rhumb_probe::{Key, Mode, SendConfig, SendSummary, reflect, send};
use tokio::sync::oneshot;

use crate::world::{links, reflector};

fn run(target: &(impl ToString + ?Sized), count: u32) -> SendConfig {
    let interval = Duration::from_millis(5);
    SendConfig { count, interval, ..SendConfig::new(target.to_string()) }
}

fn key(octets: &[u8]) -> Mode {
    Mode::Authenticated(Key::new(octets).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_measures_the_path() {
    let far = reflector(Mode::Open);
    let emulator = links(LinkShape::delay(20_000), LinkShape::delay(20_000), far.address());
    let summary = send(run(&emulator.udp_address("ab").unwrap(), 100)).await.unwrap();
    assert_eq!((summary.sent, summary.received), (100, 100));
    assert_eq!((summary.lost_forward, summary.lost_backward, summary.duplicates, summary.reordered), (0, 0, 0, 0));
    let (min_us, p50_us) = (summary.rtt_min_us.unwrap(), summary.rtt_p50_us.unwrap());
    assert!((40_000..=41_500).contains(&min_us) && p50_us >= min_us && p50_us < 50_000, "{summary:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_prints_the_fields_of_the_contract() {
    let far = reflector(Mode::Open);
    let summary = send(run(&far.address(), 3)).await.unwrap();
    let json = serde_json::to_value(&summary).unwrap();
    let contract = "sent received lost_forward lost_backward duplicates reordered rtt_min_us rtt_p50_us rtt_p95_us \
        rtt_p99_us pdv_us ipdv_us";
    for field in contract.split_whitespace() {
        assert!(json[field].is_u64(), "{field} in {json}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loss_is_told_apart_by_direction() {
    let far = reflector(Mode::Open);
    let lossy = LinkShape { loss_ppm: 200_000, ..LinkShape::delay(1_000) };
    let emulator = links(LinkShape::delay(1_000), lossy, far.address());
    let SendSummary { sent, received, lost_forward, lost_backward, .. } =
        send(run(&emulator.udp_address("ab").unwrap(), 400)).await.unwrap();
    assert_eq!(sent, received + lost_forward + lost_backward);
    // binomial of 400 at 20 %: mean 80, deviation 8; the last ones in a row cannot be told apart
    assert!((40..=120).contains(&lost_backward) && lost_forward <= 8, "{lost_forward} {lost_backward}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_must_be_the_same_at_both_ends() {
    let far = reflector(key(b"a key shared by both ends"));
    let with = |mode| SendConfig { mode, ..run(&far.address(), 5) };
    let (same, other) =
        tokio::join!(send(with(key(b"a key shared by both ends"))), send(with(key(b"a key of somebody else"))));
    assert_eq!(same.unwrap().received, 5);
    let other = other.unwrap();
    assert_eq!((other.received, other.lost_forward, other.rtt_min_us), (0, 5, None));
    assert_eq!(far.counts().malformed, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflecting_ends_when_told_to() {
    let (tell_address, address) = oneshot::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(reflect(
        "localhost:0",
        Mode::Open,
        Vec::new(),
        |address| tell_address.send(address).unwrap(),
        async {
            stopped.await.unwrap();
        },
    ));
    let summary = send(run(&address.await.unwrap(), 10)).await.unwrap();
    assert_eq!(summary.received, 10);
    stop.send(()).unwrap();
    assert_eq!(serving.await.unwrap().unwrap().answered, 10);
}

#[tokio::test]
async fn mistakes_are_named() {
    let none = send(run("127.0.0.1:9", 0)).await.unwrap_err();
    assert_eq!(none.to_string(), "cannot send 0 probes; one run takes 1 to 1000000");
    let nowhere = send(run("nowhere", 1)).await.unwrap_err();
    assert_eq!(nowhere.to_string(), "cannot find an address for `nowhere`; give HOST:PORT");
}
