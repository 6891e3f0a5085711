//! What strangers may try, with real packets.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rhumb_emulator::{Faults, LinkShape};
use rhumb_probe::{
    IpNet, Key, Mode, Prober, ProberConfig, Reflector, ReflectorConfig, ReflectorCounts, SendConfig, Target, send,
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::world::{LOOPBACK, links, reflector, until};

const PATIENCE: Duration = Duration::from_secs(20);

fn visitor(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(LOOPBACK).unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn until_counted(far: &Reflector, wanted: impl Fn(&ReflectorCounts) -> bool) -> ReflectorCounts {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let counts = far.counts();
        if wanted(&counts) {
            return counts;
        }
        assert!(Instant::now() < deadline, "still {counts:?}");
        std::thread::yield_now();
    }
}

/// A probe that nobody has answered before.
fn probe(number: u32) -> [u8; 44] {
    let mut octets = [0; 44];
    octets[..4].copy_from_slice(&number.to_be_bytes());
    octets[4..8].copy_from_slice(&(3_900_000_000 + number).to_be_bytes());
    octets[12..14].copy_from_slice(&0x2001_u16.to_be_bytes());
    octets
}

/// Fault F46. Short, long, of another protocol, and random: dropped and counted, and a good one still gets its answer.
#[test]
fn malformed_packets_are_dropped_and_counted() {
    let far = reflector(Mode::Authenticated(Key::new(&[9; 16]).unwrap()));
    let socket = visitor(far.address());
    let mut noise = 0x9e37_79b9_u32;
    for number in 0..500 {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let octets: Vec<u8> = (0..noise % 1_500).map(|at| (noise >> (at % 24)) as u8).collect();
        socket.send(&octets).unwrap();
        // leaves the reflector time to empty its socket
        until_counted(&far, |counts| counts.malformed > number);
    }
    let counts = far.counts();
    assert_eq!((counts.malformed, counts.answered), (500, 0));
}

/// Fault F47: a reflector is used for amplification.
#[test]
fn an_unknown_source_gets_nothing() {
    let others: IpNet = "192.0.2.0/24".parse().unwrap();
    let far =
        Reflector::bind(LOOPBACK, ReflectorConfig { sources: vec![others], ..ReflectorConfig::default() }).unwrap();
    let socket = visitor(far.address());
    socket.send(&probe(0)).unwrap();
    assert_eq!(until_counted(&far, |counts| counts.unknown == 1).answered, 0);
    drop(far);
    let known = ReflectorConfig { sources: vec![others, "127.0.0.0/8".parse().unwrap()], ..ReflectorConfig::default() };
    let far = Reflector::bind(LOOPBACK, known).unwrap();
    let socket = visitor(far.address());
    socket.send(&probe(1)).unwrap();
    assert_eq!(socket.recv(&mut [0; 64]).unwrap(), 44);
}

/// Fault F47.
#[test]
fn a_flood_from_one_source_is_answered_at_its_rate() {
    let config = ReflectorConfig { packets_per_second: 50, ..ReflectorConfig::default() };
    let far = Reflector::bind(LOOPBACK, config).unwrap();
    let socket = visitor(far.address());
    let begun = Instant::now();
    for number in 0..400 {
        socket.send(&probe(number)).unwrap();
        until_counted(&far, |counts| counts.answered + counts.limited > u64::from(number));
    }
    let most = 50 + 50 * (begun.elapsed().as_secs() + 1);
    let counts = far.counts();
    assert!((50..=most).contains(&counts.answered), "{counts:?}");
    assert_eq!(counts.answered + counts.limited, 400);
}

/// Fault F48. One packet with the other reflector as its forged source: one answer, which gets none.
#[test]
fn two_reflectors_do_not_talk_to_each_other() {
    let (here, there) = (reflector(Mode::Open), reflector(Mode::Open));
    let Some(raw) = raw() else { return };
    let mut datagram = Vec::new();
    let length = 8 + 44_u16;
    for field in [there.address().port(), here.address().port(), length, 0] {
        datagram.extend_from_slice(&field.to_be_bytes());
    }
    datagram.extend_from_slice(&probe(1));
    raw.send_to(&datagram, &here.address().into()).unwrap();
    until_counted(&there, |counts| counts.echoed == 1);
    // whatever were still under way would have come before this is answered, and after it
    for far in [&here, &there] {
        let socket = visitor(far.address());
        socket.send(&probe(2)).unwrap();
        socket.recv(&mut [0; 64]).unwrap();
    }
    assert_eq!((here.counts().answered, here.counts().echoed), (2, 0));
    assert_eq!((there.counts().answered, there.counts().echoed), (1, 1));
}

/// A socket that may forge ports; `None`, with a notice, without the right to open one.
fn raw() -> Option<Socket> {
    let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP));
    if let Err(error) = &raw {
        eprintln!("skipped: raw sockets need CAP_NET_RAW: {error}");
    }
    raw.ok()
}

/// Fault F49. Answers made up by someone who does not see the probes, and copies of true ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_answers_change_nothing() {
    let far = reflector(Mode::Open);
    let Some(raw) = raw() else { return };
    let front = UdpSocket::bind(LOOPBACK).unwrap();
    front.set_read_timeout(Some(PATIENCE)).unwrap();
    let address = front.local_addr().unwrap();
    let to_far = visitor(far.address());
    let relay = std::thread::spawn(move || {
        let mut buffer = [0; 256];
        for number in 0..20_u32 {
            let (bytes, client) = front.recv_from(&mut buffer).unwrap();
            // sent before the true answer, with the reflector's address and a guessed time
            let mut forged = [0xee; 44];
            forged[24..28].copy_from_slice(&number.to_be_bytes());
            let mut datagram = Vec::new();
            for field in [address.port(), client.port(), 8 + 44, 0] {
                datagram.extend_from_slice(&u16::to_be_bytes(field));
            }
            datagram.extend_from_slice(&forged);
            raw.send_to(&datagram, &client.into()).unwrap();
            to_far.send(&buffer[..bytes]).unwrap();
            let bytes = to_far.recv(&mut buffer).unwrap();
            front.send_to(&buffer[..bytes], client).unwrap();
            front.send_to(&buffer[..bytes], client).unwrap();
        }
    });
    let run = SendConfig { count: 20, interval: Duration::from_millis(5), ..SendConfig::new(address.to_string()) };
    let summary = send(run).await.unwrap();
    relay.join().unwrap();
    assert_eq!((summary.received, summary.strays, summary.refused), (20, 20, 0), "{summary:?}");
    assert_eq!((summary.duplicates, summary.backward.duplicates, summary.forward.duplicates), (20, 20, 0));
    assert_eq!((summary.lost_forward, summary.lost_backward), (0, 0));
}

/// Fault F53. A path that swallows large packets: the bare probe sees nothing of it, a second target of full-size ones does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hole_for_large_packets_is_seen_by_large_probes() {
    let far = reflector(Mode::Open);
    let emulator = links(LinkShape::delay(1_000), LinkShape::delay(1_000), far.address());
    emulator.set_faults("ab", Faults { most_bytes: 1_400, ..Faults::default() }).unwrap();
    let front = emulator.udp_address("ab").unwrap();
    let prober = Prober::start(ProberConfig { seed: 3, ..ProberConfig::default() }).unwrap();
    let target =
        |id: &str, packet_bytes| Target { interval: Duration::from_millis(20), packet_bytes, ..Target::new(id, front) };
    prober.set_targets(vec![target("ab", 0), target("ab large", 1_472)]);
    let large = until(&prober, "ab large", |figures| figures.lost_forward_ppm == Some(1_000_000)).await;
    assert_eq!((large.received, large.rtt_min_us), (0, None));
    let bare = until(&prober, "ab", |figures| figures.received > 50).await;
    assert_eq!((bare.lost_forward_ppm, bare.lost_backward_ppm), (Some(0), Some(0)));
    emulator.set_faults("ab", Faults::default()).unwrap();
    until(&prober, "ab large", |figures| figures.received > 10).await;
}

/// Fault F50. A prober that dies, or loses its socket, leaves figures that grow old: nothing is lost, and nothing is zero.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reflector_that_dies_leaves_old_figures() {
    let far = reflector(Mode::Open);
    let address = far.address();
    let record = Duration::from_millis(500);
    let prober = Prober::start(ProberConfig { seed: 4, record, ..ProberConfig::default() }).unwrap();
    prober.set_targets(vec![Target { interval: Duration::from_millis(20), ..Target::new("ab", address) }]);
    let before = until(&prober, "ab", |figures| figures.floor_us.is_some()).await;
    assert!(!before.stale);
    drop(far);
    let after = until(&prober, "ab", |figures| figures.stale).await;
    assert!(after.floor_us.is_some() && after.floor_us <= before.floor_us, "the last that was known: {after:?}");
    assert!(after.last_reply_age_us > Some(1_000_000));
    let windows = prober.take_windows();
    assert!(windows.iter().any(|window| window.record.received > 0));
    let silent = windows.last().unwrap();
    assert_eq!((silent.record.received, silent.record.round_trips.len()), (0, 0));
    assert!(windows.is_sorted_by_key(|window| window.start_unix_ms) && silent.start_unix_ms > 1_700_000_000_000);
    assert!(prober.take_windows().len() < windows.len());
    let _back =
        Reflector::bind(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), address.port()), ReflectorConfig::default());
    until(&prober, "ab", |figures| !figures.stale).await;
}

/// Who learns the key later answers strangers until then, and nobody without it afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_told_later_shuts_out_who_does_not_have_it() {
    let far = reflector(Mode::Open);
    let stranger = Prober::start(ProberConfig { window: Duration::from_secs(2), ..ProberConfig::default() }).unwrap();
    let friend = Prober::start(ProberConfig { window: Duration::from_secs(2), ..ProberConfig::default() }).unwrap();
    let target = |id: &str| Target { interval: Duration::from_millis(20), ..Target::new(id, far.address()) };
    stranger.set_targets(vec![target("stranger")]);
    friend.set_targets(vec![target("friend")]);
    until(&stranger, "stranger", |figures| figures.received >= 3).await;
    let key = Key::new(&[9; 32]).unwrap();
    far.authenticate(&key);
    friend.authenticate(&key);
    until(&friend, "friend", |figures| figures.received >= 10 && figures.refused == 0).await;
    until(&stranger, "stranger", |figures| figures.sent >= 20 && figures.received == 0).await;
    assert!(far.counts().malformed >= 20, "{:?}", far.counts());
}
