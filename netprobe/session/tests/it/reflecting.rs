//! What a reflector answers, and what it does not.

use rhumb_probe_session::{
    Key, Mode, PacketError, Reflector, ReflectorConfig, ReflectorPacket, Sender, SenderConfig, Unanswered,
};

use crate::path::{MS, far, near, source};

fn reflect(reflector: &mut Reflector, port: u16, packet: &[u8], at_ns: u64) -> Result<Vec<u8>, Unanswered> {
    reflector.reflect(source(port), packet, far(at_ns), || far(at_ns + 1).wall)
}

fn probe(ssid: u16) -> Vec<u8> {
    Sender::new(SenderConfig { ssid, ..SenderConfig::default() }).send(near(0))
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

#[test]
fn two_reflectors_do_not_answer_each_other_for_ever() {
    let mut here = Reflector::new(ReflectorConfig::default());
    let mut there = Reflector::new(ReflectorConfig::default());
    // a forged packet with the other reflector as its source
    let first = reflect(&mut here, 862, &probe(7), MS).unwrap();
    let second = reflect(&mut there, 863, &first, 2 * MS).unwrap();
    assert_eq!(reflect(&mut here, 862, &second, 3 * MS), Err(Unanswered::Echoed));
    assert_eq!(here.counts().echoed, 1);
}

#[test]
fn a_reflector_with_a_key_answers_nobody_without_it() {
    let key = |octets: &[u8]| Mode::Authenticated(Key::new(octets).unwrap());
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
