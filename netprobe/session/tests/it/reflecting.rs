//! What a reflector answers, and what it does not.

use std::net::SocketAddr;

use rhumb_probe_session::{
    Counting, Key, Mode, NtpTime, PacketError, Reflector, ReflectorConfig, ReflectorPacket, Sender, SenderConfig,
    Unanswered,
};

use crate::path::{MS, far, near, source};

fn reflect(reflector: &mut Reflector, port: u16, packet: &[u8], at_ns: u64) -> Result<Vec<u8>, Unanswered> {
    reflector.reflect(source(port), packet, far(at_ns), || far(at_ns + 1).wall)
}

fn probe(ssid: u16) -> Vec<u8> {
    Sender::new(SenderConfig { ssid, ..SenderConfig::default() }).send(near(0))
}

fn key(octets: &[u8]) -> Mode {
    Mode::Authenticated(Key::new(octets).unwrap())
}

fn sequence(reply: &[u8]) -> u32 {
    ReflectorPacket::decode(reply, &Mode::Open).unwrap().sequence
}

#[test]
fn an_answer_is_as_long_as_its_packet_and_copies_what_follows() {
    let mut reflector = Reflector::new(ReflectorConfig::default());
    for length in [36, 41, 44, 45, 200, 1_400] {
        let mut packet = probe(7);
        packet.resize(length, 0xab);
        let reply = reflect(&mut reflector, 1, &packet, MS).unwrap();
        assert_eq!(reply.len(), length);
        assert!(reply.iter().skip(44).all(|octet| *octet == 0xab));
    }
    for length in [0, 1, 35] {
        let refused = reflect(&mut reflector, 1, &vec![0; length], MS).unwrap_err();
        assert_eq!(refused, Unanswered::Packet(PacketError::TooShort { found: length, least: 36 }));
    }
    assert_eq!((reflector.counts().answered, reflector.counts().malformed), (6, 3));
}

#[test]
fn every_session_has_its_own_count() {
    let mut reflector = Reflector::new(ReflectorConfig::default());
    let mut count = |port, ssid| sequence(&reflect(&mut reflector, port, &probe(ssid), MS).unwrap());
    assert_eq!([count(1, 7), count(1, 7), count(1, 8), count(2, 7), count(1, 7)], [0, 1, 0, 0, 2]);
}

#[test]
fn an_idle_session_is_forgotten_and_one_too_many_is_served_without_a_count() {
    let limits = ReflectorConfig { most_sessions: 2, idle_ns: 1_000 * MS, ..ReflectorConfig::default() };
    let mut reflector = Reflector::new(limits);
    for port in [1, 2] {
        reflect(&mut reflector, port, &probe(7), MS).unwrap();
        reflect(&mut reflector, port, &probe(7), 900 * MS).unwrap();
    }
    let mut sender = Sender::new(SenderConfig::default());
    sender.send(near(0));
    let second = sender.send(near(1));
    let reply = reflect(&mut reflector, 3, &second, 900 * MS).unwrap();
    assert_eq!(sequence(&reply), 1, "a copy of the sender's sequence");
    assert_eq!(reflector.counts().stateless, 1);
    let reply = reflect(&mut reflector, 3, &second, 3_000 * MS).unwrap();
    assert_eq!(sequence(&reply), 0, "the idle ones made room");
}

#[test]
fn a_source_over_its_rate_is_not_answered_until_it_slows_down() {
    let limits = ReflectorConfig { packets_per_second: 100, most_sources: 1, ..ReflectorConfig::default() };
    let mut reflector = Reflector::new(limits);
    let answered = (0..300).filter(|_| reflect(&mut reflector, 1, &probe(7), MS).is_ok()).count();
    assert_eq!(answered, 100, "a burst of one second's worth");
    assert!(reflect(&mut reflector, 9, &probe(7), MS).is_err(), "another port is the same source");
    let answered = (0..300).filter(|_| reflect(&mut reflector, 1, &probe(7), 501 * MS).is_ok()).count();
    assert_eq!(answered, 50);
    let other = std::net::SocketAddr::from(([192, 0, 2, 2], 1));
    assert!(reflector.reflect(other, &probe(7), far(MS), || far(MS).wall).is_err(), "one source too many");
}

/// One forged packet with the other reflector as its source (the class of CVE-2024-2169).
#[test]
fn no_answer_is_answered() {
    for mode in [Mode::Open, key(b"a key shared by both ends")] {
        let config = ReflectorConfig { mode: mode.clone(), ..ReflectorConfig::default() };
        let (mut here, mut there) = (Reflector::new(config.clone()), Reflector::new(config));
        let forged = Sender::new(SenderConfig { mode, ..SenderConfig::default() }).send(near(0));
        let first = reflect(&mut here, 862, &forged, MS).unwrap();
        assert_eq!(reflect(&mut there, 863, &first, 2 * MS), Err(Unanswered::Echoed));
        assert_eq!(there.counts().echoed, 1);
    }
}

/// A peer whose answers carry no receive time is still known by the time it copies.
#[test]
fn a_reflector_without_times_is_not_answered_for_ever() {
    let mut here = Reflector::new(ReflectorConfig::default());
    let first = ReflectorPacket::decode(&reflect(&mut here, 862, &probe(7), MS).unwrap(), &Mode::Open).unwrap();
    let back = ReflectorPacket {
        received: NtpTime::default(),
        sender_sequence: first.sequence,
        sender_sent: first.sent,
        sequence: 1,
        ..first
    };
    assert_eq!(reflect(&mut here, 862, &back.encode(&Mode::Open), 3 * MS), Err(Unanswered::Echoed));
}

#[test]
fn only_known_sources_are_answered() {
    let networks = ["192.0.2.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
    let mut reflector = Reflector::new(ReflectorConfig { sources: networks.to_vec(), ..ReflectorConfig::default() });
    let mut from = |source: &str| {
        let source = SocketAddr::new(source.parse().unwrap(), 9);
        reflector.reflect(source, &probe(7), far(MS), || far(MS).wall).is_ok()
    };
    assert!(from("192.0.2.1") && from("2001:db8::5") && from("::ffff:192.0.2.9"));
    assert!(!from("198.51.100.1") && !from("2001:db9::5") && !from("::ffff:198.51.100.1"));
    assert_eq!((reflector.counts().answered, reflector.counts().unknown), (3, 3));
}

#[test]
fn a_packet_kept_back_for_long_is_a_replay() {
    let mode = key(b"a key shared by both ends");
    let config = ReflectorConfig { mode: mode.clone(), packets_per_second: 10_000, ..ReflectorConfig::default() };
    let mut reflector = Reflector::new(config);
    let mut sender = Sender::new(SenderConfig { mode, ..SenderConfig::default() });
    let packets: Vec<_> = (0..600).map(|probe| sender.send(near(probe * MS))).collect();
    for packet in &packets {
        reflect(&mut reflector, 1, packet, MS).unwrap();
    }
    assert_eq!(reflect(&mut reflector, 1, &packets[3], 2 * MS), Err(Unanswered::Replayed));
    // a copy made by the network shortly after is answered and counted
    assert!(reflect(&mut reflector, 1, &packets[590], 2 * MS).is_ok());
    assert_eq!(reflector.counts().replayed, 1);
}

#[test]
fn a_stateless_reflector_copies_the_sequence() {
    let mut reflector = Reflector::new(ReflectorConfig { counting: Counting::Stateless, ..ReflectorConfig::default() });
    let mut sender = Sender::new(SenderConfig::default());
    let packets: Vec<_> = (0..5).map(|probe| sender.send(near(probe * MS))).collect();
    for (number, packet) in packets.iter().enumerate().skip(2) {
        assert_eq!(sequence(&reflect(&mut reflector, 1, packet, MS).unwrap()), number as u32);
    }
}

#[test]
fn a_reflector_with_a_key_answers_nobody_without_it() {
    let mode = key(b"a key shared by both ends");
    let mut reflector = Reflector::new(ReflectorConfig { mode: mode.clone(), ..ReflectorConfig::default() });
    let mut with = |mode: Mode| {
        let packet = Sender::new(SenderConfig { mode, ..SenderConfig::default() }).send(near(0));
        reflect(&mut reflector, 1, &packet, MS)
    };
    let reply = with(mode.clone()).unwrap();
    assert_eq!(reply.len(), 112);
    assert!(ReflectorPacket::decode(&reply, &mode).is_ok());
    assert!(with(Mode::Open).is_err());
    assert_eq!(with(key(b"a key of somebody else")), Err(Unanswered::Packet(PacketError::WrongTag)));
}
