//! What sockets tell: classes, times to live, both protocols, kernel times.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rhumb_probe::{
    ClockSource, Counting, DirectCounts, ErrorEstimate, Extensions, FarCount, Mode, Reflector, ReflectorConfig,
    SendConfig, SendSummary, send,
};

use crate::world::LOOPBACK;

const LOOPBACK_V6: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0);
const EVERYWHERE: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

fn reflector(address: SocketAddr, config: ReflectorConfig) -> Option<Reflector> {
    if address.is_ipv6() && std::net::UdpSocket::bind(LOOPBACK_V6).is_err() {
        eprintln!("skipped for {address}: this machine has no IPv6");
        return None;
    }
    Some(Reflector::bind(address, config).unwrap())
}

fn run(to: SocketAddr) -> SendConfig {
    SendConfig { count: 20, interval: Duration::from_millis(2), ..SendConfig::new(to.to_string()) }
}

fn assert_whole(summary: &SendSummary) {
    assert_eq!((summary.received, summary.lost_forward + summary.lost_backward), (20, 0), "{summary:?}");
    assert_eq!((summary.refused, summary.strays), (0, 0), "{summary:?}");
}

#[tokio::test]
async fn classes_and_times_to_live_are_seen_both_ways() {
    for address in [LOOPBACK, LOOPBACK_V6] {
        let Some(far) = reflector(address, ReflectorConfig::default()) else { continue };
        let extensions = Extensions { service: Some(10), ..Extensions::default() };
        let summary = send(SendConfig { dscp: 46, extensions, ..run(far.address()) }).await.unwrap();
        assert_whole(&summary);
        assert_eq!((summary.forward.dscp, summary.backward.dscp), (Some(46), Some(10)), "{address}");
        assert_eq!((summary.forward.ttl, summary.backward.ttl), (Some(255), Some(255)), "{address}");
        // who asks for no class gets back the one it sent in
        let bare = send(SendConfig { dscp: 46, ..run(far.address()) }).await.unwrap();
        assert_eq!((bare.forward.dscp, bare.backward.dscp), (None, Some(46)));
    }
}

#[tokio::test]
async fn one_socket_serves_both_protocols_from_the_address_asked() {
    let Some(far) = reflector(EVERYWHERE, ReflectorConfig::default()) else { return };
    // a connected sender hears nobody but the address it sent to
    for host in ["127.0.0.1", "127.0.0.2", "::1"] {
        let to = SocketAddr::new(host.parse().unwrap(), far.address().port());
        let summary = send(SendConfig { dscp: 8, ..run(to) }).await.unwrap();
        assert_whole(&summary);
        assert_eq!((summary.forward.ttl, summary.backward.dscp), (Some(255), Some(8)), "{host}");
    }
}

#[tokio::test]
async fn both_ends_counts_and_the_far_clock_are_told_when_asked_for() {
    let far = reflector(LOOPBACK, ReflectorConfig::default()).unwrap();
    let extensions = Extensions { direct: true, clock_source: true, ..Extensions::default() };
    let asked = send(SendConfig { extensions, ..run(far.address()) }).await.unwrap();
    assert_eq!(asked.counts, Some(DirectCounts { sent: 20, received: 20, answered: 20 }));
    // it follows nothing, and software takes its times
    assert_eq!(asked.clock_source, Some(ClockSource { follows: 5, method: 2 }));
    let bare = send(run(far.address())).await.unwrap();
    assert_eq!((bare.counts, bare.clock_source), (None, None));
}

/// The smallest delay there is: it is measured, and it is not zero.
#[tokio::test]
async fn a_delay_on_one_machine_is_small_and_not_missing() {
    let far = reflector(LOOPBACK, ReflectorConfig::default()).unwrap();
    let summary = send(run(far.address())).await.unwrap();
    assert_whole(&summary);
    assert!((1..1_000).contains(&summary.rtt_min_us.unwrap()), "{summary:?}");
    assert_eq!((summary.forward.delay_p50_us, summary.backward.delay_p50_us), (None, None), "no clock follows UTC");
    assert!(summary.forward.pdv_us.is_some() && summary.backward.pdv_us.is_some(), "variation needs no such clock");
}

#[tokio::test]
async fn one_way_delays_need_two_good_clocks() {
    // both ends are this machine: their clock is one, and its error nothing
    let good = ErrorEstimate::synchronised_within(1);
    let vague = ErrorEstimate::synchronised_within(50_000_000);
    for (near, far_clock, told) in
        [(good, good, true), (good, ErrorEstimate::UNSYNCHRONISED, false), (vague, good, false)]
    {
        let far =
            reflector(LOOPBACK, ReflectorConfig { error: Some(far_clock), ..ReflectorConfig::default() }).unwrap();
        let summary = send(SendConfig { clock: Some(near), ..run(far.address()) }).await.unwrap();
        assert_whole(&summary);
        let delays = (summary.forward.delay_min_us, summary.backward.delay_min_us);
        assert_eq!((delays.0.is_some(), delays.1.is_some()), (told, told), "{summary:?}");
        if told {
            let sum = delays.0.unwrap() + delays.1.unwrap();
            assert!(sum <= summary.rtt_max_us.unwrap() + 2, "{summary:?}");
        }
    }
}

#[tokio::test]
async fn a_stateless_reflector_is_measured() {
    let far =
        reflector(LOOPBACK, ReflectorConfig { counting: Counting::Stateless, ..ReflectorConfig::default() }).unwrap();
    let extensions = Extensions { direct: true, counters: true, ..Extensions::default() };
    let config = SendConfig { far_count: FarCount::Absent, extensions, ..run(far.address()) };
    let summary = send(config).await.unwrap();
    assert_whole(&summary);
    assert_eq!(summary.counts, None, "who counts nothing says so");
    assert_eq!((summary.replies_lost, far.counts().stateless), (None, 20));
}

#[tokio::test]
async fn probes_have_the_size_asked_for() {
    let far = reflector(LOOPBACK, ReflectorConfig::default()).unwrap();
    for packet_bytes in [44, 200, 1_472, 8_000] {
        let extensions = Extensions { packet_bytes, ..Extensions::default() };
        assert_whole(&send(SendConfig { extensions, ..run(far.address()) }).await.unwrap());
    }
    let small =
        SendConfig { extensions: Extensions { packet_bytes: 43, ..Extensions::default() }, ..run(far.address()) };
    let refused = send(small).await.unwrap_err().to_string();
    assert_eq!(refused, "cannot send probes of 43 octets; give 44 to 65507, or leave out --size");
    let mode = Mode::Open;
    assert_eq!(mode.packet_bytes(), 44);
}
