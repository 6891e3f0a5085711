//! Extensions there and back (RFC 8972), and what becomes of arbitrary octets.

use proptest::prelude::*;
use rhumb_probe_session::{
    ErrorEstimate, Extensions, Incoming, Key, Mode, Reflector, ReflectorConfig, Reply, Reported, Sender, SenderConfig,
    Unanswered,
};

use crate::path::{MS, far, near, source};

const ALL: Extensions =
    Extensions { packet_bytes: 200, service: Some(10), direct: true, clock_source: true, counters: true };

fn tagged() -> Mode {
    Mode::Authenticated(Key::new(b"a key shared by both ends").unwrap())
}

fn reflector(mode: &Mode) -> Reflector {
    Reflector::new(ReflectorConfig { mode: mode.clone(), ..ReflectorConfig::default() })
}

fn sender(mode: &Mode, extensions: Extensions) -> Sender {
    Sender::new(SenderConfig { mode: mode.clone(), extensions, ..SenderConfig::default() })
}

fn answer(reflector: &mut Reflector, octets: &[u8], dscp: u8) -> Result<Reply, Unanswered> {
    let incoming = Incoming { ttl: Some(61), dscp, ecn: 2, ..Incoming::new(source(1), far(MS)) };
    reflector.answer(&incoming, octets, || far(2 * MS).wall)
}

/// Flags of the chain of an answer to a bare probe with this chain.
fn flags_of(chain: &[u8], at: &[usize]) -> Vec<u8> {
    let packet = [sender(&Mode::Open, Extensions::default()).send(near(0)), chain.to_vec()].concat();
    let reply = answer(&mut reflector(&Mode::Open), &packet, 0).unwrap().octets;
    assert_eq!(reply.len(), packet.len());
    at.iter().map(|at| reply[44 + at]).collect()
}

#[test]
fn a_reflector_fills_in_what_it_is_asked() {
    for mode in [Mode::Open, tagged()] {
        let (mut reflector, mut sender) = (reflector(&mode), sender(&mode, ALL));
        let packets: Vec<_> = (0..3).map(|probe| sender.send(near(probe * MS))).collect();
        assert!(packets.iter().all(|packet| packet.len() == 200));
        let mut last = answer(&mut reflector, &packets[0], 46).unwrap();
        for packet in [&packets[2], &packets[1], &packets[1]] {
            last = answer(&mut reflector, packet, 46).unwrap();
        }
        assert_eq!((last.octets.len(), last.dscp), (200, 10), "the way back is served as asked");
        sender.on_reply(&last.octets, near(20 * MS)).unwrap();
        let path = sender.figures(20 * MS).path;
        assert_eq!((path.ttl_forward, path.dscp_forward), (Some(61), Some(46)));
        let tail = &last.octets[mode.packet_bytes()..];
        // clock source: free running, software; service: 10 asked, 46 seen, congestion bits 2
        assert_eq!(tail[..8], [0, 3, 0, 4, 5, 2, 5, 2]);
        assert_eq!(tail[8..16], [0, 4, 0, 4, 10 << 2 | 46 >> 4, ((46 << 4) & 0xff) as u8 | 2 << 2, 0, 0]);
        // counters: two sent by then, four received, four answered
        assert_eq!(tail[16..32], [0, 5, 0, 12, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 4]);
        // three distinct, one twice, one late
        assert_eq!(tail[32..52], [0, 240, 0, 16, b'r', b'h', b'm', b'b', 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 1]);
    }
}

#[test]
fn a_class_that_steers_the_network_is_not_given_for_the_asking() {
    let packet = sender(&Mode::Open, Extensions { service: Some(48), ..Extensions::default() }).send(near(0));
    let reply = answer(&mut reflector(&Mode::Open), &packet, 8).unwrap();
    assert_eq!((reply.dscp, reply.octets[49] & 0b11), (8, 1));
}

#[test]
fn a_synchronised_reflector_says_so() {
    let error = ErrorEstimate::synchronised_within(1_000_000);
    let mut reflector = Reflector::new(ReflectorConfig { error: Some(error), ..ReflectorConfig::default() });
    let packet = sender(&Mode::Open, ALL).send(near(0));
    assert_eq!(answer(&mut reflector, &packet, 0).unwrap().octets[48..52], [1, 2, 1, 2]);
}

#[test]
fn flags_say_what_was_not_understood_malformed_or_not_proven() {
    const U: u8 = 0x80;
    const M: u8 = 0x40;
    const I: u8 = 0x20;
    // an unknown one, whatever the sender's flags; a known one loses the flag
    assert_eq!(flags_of(&[0, 99, 0, 2, 7, 7, U, 1, 0, 0], &[0, 6]), [U, 0]);
    // types that may come later: location, access report, telemetry
    for kind in [2, 6, 7, 9, 12, 250] {
        assert_eq!(flags_of(&[U, kind, 0, 0], &[0]), [U]);
    }
    // a class of service of three octets; what follows is copied
    assert_eq!(flags_of(&[U, 1, 0, 0, U, 4, 0, 3, 1, 2, 3, U, 99, 0, 0], &[0, 4, 11]), [0, M, U]);
    assert_eq!(flags_of(&[U, 4, 0, 9, 1], &[0]), [M], "longer than the packet");
    // a tag nobody can check
    assert_eq!(flags_of(&[&[U, 4, 0, 4, 0, 0, 0, 0, U, 8, 0, 16], &[0; 16][..]].concat(), &[0, 8]), [I, I]);
}

#[test]
fn a_forged_chain_is_marked_and_not_acted_on() {
    let mode = tagged();
    let mut packet = sender(&mode, ALL).send(near(0));
    packet[112 + 12] = 46 << 2;
    let reply = answer(&mut reflector(&mode), &packet, 8).unwrap();
    assert_eq!(reply.dscp, 8);
    assert_eq!(reply.octets[112 + 8] & 0x20, 0x20);
    let mut sender = sender(&mode, ALL);
    sender.send(near(0));
    sender.on_reply(&reply.octets, near(9 * MS)).unwrap();
    assert_eq!(sender.figures(9 * MS).path.dscp_forward, None);
}

/// A peer of TWAMP-Light: 41 octets, or padding that is no chain; 14 octets of base and the rest at random.
#[test]
fn padding_of_an_older_peer_is_copied() {
    let base = sender(&Mode::Open, Extensions::default()).send(near(0));
    for padding in [vec![0; 100], vec![0xab; 100], vec![0xff; 7], vec![0; 3]] {
        let packet = [base.clone(), padding.clone()].concat();
        assert_eq!(answer(&mut reflector(&Mode::Open), &packet, 0).unwrap().octets[44..], padding);
    }
}

#[test]
fn an_answer_without_extensions_still_measures() {
    let mut sender = sender(&Mode::Open, ALL);
    let packet = sender.send(near(0));
    let mut short = answer(&mut reflector(&Mode::Open), &packet, 0).unwrap().octets;
    short.truncate(44);
    assert!(sender.on_reply(&short, near(10 * MS)).is_ok());
    assert_eq!(sender.figures(10 * MS).received, 1);
}

/// Octets like a packet's, so that more than the length check is met.
fn octets() -> impl Strategy<Value = Vec<u8>> {
    let noise = prop::collection::vec(any::<u8>(), 0..300);
    let chain =
        prop::collection::vec((any::<u8>(), 0_u8..13, 0_u8..20, prop::collection::vec(any::<u8>(), 0..20)), 0..8);
    let built = (chain, any::<bool>(), 0_usize..8).prop_map(|(parts, tagged_base, cut)| {
        let mode = if tagged_base { tagged() } else { Mode::Open };
        let mut packet = sender(&mode, Extensions::default()).send(near(MS));
        for (flags, kind, length, value) in parts {
            packet.extend_from_slice(&[flags, kind, 0, length]);
            packet.extend_from_slice(&value);
        }
        packet.truncate(packet.len() - cut);
        packet
    });
    prop_oneof![noise, built]
}

proptest! {
    /// Nothing that comes from the network panics, and no answer is longer than its question.
    #[test]
    fn any_octets_are_answered_in_their_length_or_not_at_all(octets in octets(), dscp in 0_u8..64) {
        for mode in [Mode::Open, tagged()] {
            let reply = answer(&mut reflector(&mode), &octets, dscp);
            if let Ok(reply) = reply {
                prop_assert_eq!(reply.octets.len(), octets.len());
                prop_assert!(reply.dscp < 64);
                // and the answer gets no answer
                prop_assert_eq!(answer(&mut reflector(&mode), &reply.octets, dscp), Err(Unanswered::Echoed));
            }
            let mut sender = sender(&mode, ALL);
            sender.send(near(0));
            let _ = sender.on_reply(&octets, near(MS));
            let figures = sender.figures(2 * MS);
            prop_assert_eq!(figures.sent, 1);
            prop_assert!(figures.received + figures.pending == 1);
        }
    }
}

#[test]
fn nothing_is_read_where_nothing_was_said() {
    assert_eq!(Reported::default().counted, None);
}
