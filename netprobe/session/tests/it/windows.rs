//! What a window says of a path.

use proptest::prelude::*;
use rhumb_probe_session::{Answered, FarClock, Key, Mode, NtpTime, ReflectorPacket, Refused, ReplyError};

use crate::path::{MS, World, close, far};

#[test]
fn round_trips_leave_out_the_reflectors_time() {
    let mut world = World::new();
    for (number, rtt_ms) in [40, 44, 41, 41, 60].into_iter().enumerate() {
        world.trip(number as u64 * 200 * MS, rtt_ms * MS);
    }
    let figures = world.figures(2_000 * MS);
    assert_eq!((figures.sent, figures.received, figures.pending, figures.lost()), (5, 5, 0, 0));
    let trips = figures.round_trips.unwrap();
    assert!(close(trips.min_ns, 40 * MS) && close(trips.p50_ns, 41 * MS) && close(trips.p95_ns, 60 * MS));
    assert!(close(trips.pdv_ns, 20 * MS));
    // steps of 4, 3, 0 and 19 ms
    assert!(close(trips.ipdv_ns, 6_500_000), "{trips:?}");
    assert!(close(figures.last_reply_age_ns.unwrap(), 1_139_900_000));
}

/// The far clock runs 267 ms ahead and follows nothing: it says so, and no one-way delay is made of it.
#[test]
fn a_free_clock_gives_variation_and_an_offset_but_no_one_way_delay() {
    let mut world = World::new();
    for (number, rtt_ms) in [44, 40, 60].into_iter().enumerate() {
        world.trip(number as u64 * 200 * MS, rtt_ms * MS);
    }
    let figures = world.figures(2_000 * MS);
    assert_eq!((figures.one_way, figures.far_clock), (None, Some(FarClock::Unsynchronised)));
    let offset = figures.clock_offset.unwrap();
    assert!(offset.ahead_ns.abs_diff(267_000_000) < 10 && close(offset.bound_ns, 20 * MS), "{offset:?}");
    for variation in [figures.variation_forward, figures.variation_backward] {
        assert!(close(variation.unwrap().p99_ns, 10 * MS), "half of the 20 ms");
    }
}

/// Another machine's TWAMP-Light reflector: 41 octets, no session identifier, one time for receiving and sending.
#[test]
fn a_reflector_of_twamp_light_is_measured() {
    let mut world = World::new();
    for probe in 0..5_u64 {
        let packet = world.send(probe * 200 * MS);
        let at = far(probe * 200 * MS + 20 * MS).wall.bits().to_be_bytes();
        let mut reply =
            [&(probe as u32).to_be_bytes()[..], &at, &packet[12..14], &[0, 0], &at, &packet[..14], &[0, 0, 63]];
        for shorter in [0, 1] {
            if shorter == 1 {
                // without what follows the sender's time
                (reply[5], reply[6]) = (&packet[..12], &[]);
            }
            let taken = world.receive(&reply.concat(), probe * 200 * MS + 40 * MS);
            assert_eq!(matches!(taken, Ok(Answered::Fresh { .. })), shorter == 0, "{taken:?}");
        }
    }
    let figures = world.figures(2_000 * MS);
    assert_eq!((figures.received, figures.duplicates, figures.lost()), (5, 5, 0));
    assert!(close(figures.round_trips.unwrap().min_ns, 40 * MS));
    assert_eq!(figures.path.ttl_forward, Some(63));
}

#[test]
fn nothing_received_means_no_figures() {
    let mut world = World::new();
    world.send(0);
    let figures = world.figures(MS);
    assert_eq!((figures.round_trips, figures.last_reply_age_ns, figures.pending), (None, None, 1));
    assert_eq!(figures.ppm_of_settled(figures.lost()), None);
}

#[test]
fn a_changed_delay_has_the_window_to_itself_after_its_length() {
    let mut world = World::new();
    for probe in 0..50 {
        world.trip(probe * 200 * MS, 40 * MS);
    }
    for probe in 50..102 {
        world.trip(probe * 200 * MS, 200 * MS);
    }
    assert!(close(world.figures(20_600 * MS).round_trips.unwrap().min_ns, 200 * MS));
}

#[test]
fn a_probe_in_flight_is_not_lost() {
    // a round trip of 400 ms and a probe every 20 ms: twenty are always in flight
    let mut world = World::new();
    let mut replies = std::collections::VecDeque::new();
    for probe in 0..500_u64 {
        let now = probe * 20 * MS;
        let packet = world.send(now);
        let reply = world.reflect(&packet, now + 200 * MS);
        replies.push_back((now + 400 * MS, reply));
        while replies.front().is_some_and(|(due, _)| *due <= now) {
            let (due, reply) = replies.pop_front().unwrap();
            world.receive(&reply, due).unwrap();
        }
        let figures = world.figures(now);
        assert_eq!(figures.lost(), 0, "at probe {probe}");
        assert_eq!(figures.pending, figures.sent - figures.received);
    }
}

#[test]
fn loss_waits_three_seconds_and_is_taken_back_by_a_late_answer() {
    let mut world = World::new();
    let packet = world.send(0);
    assert_eq!(world.sender.poll_timeout(0), Some(3_000 * MS));
    assert_eq!(world.figures(2_999 * MS).lost(), 0);
    let figures = world.figures(3_000 * MS);
    assert_eq!((figures.lost(), figures.ppm_of_settled(figures.lost())), (1, Some(1_000_000)));
    assert_eq!(world.sender.poll_timeout(3_000 * MS), None);
    let reply = world.reflect(&packet, 3_200 * MS);
    world.receive(&reply, 3_500 * MS).unwrap();
    let figures = world.figures(3_500 * MS);
    assert_eq!((figures.lost(), figures.received), (0, 1));
}

#[test]
fn a_slow_path_waits_twice_its_99th_percentile() {
    let mut world = World::new();
    world.trip(0, 2_000 * MS);
    world.send(2_500 * MS);
    assert_eq!(world.figures(6_400 * MS).lost(), 0);
    assert_eq!(world.figures(6_501 * MS).lost(), 1);
}

/// Late and doubled answers in another interval than their probes.
#[test]
fn late_answers_are_taken_back_in_the_interval_of_their_probe() {
    let mut world = World::with(Mode::Open, 10_000);
    let replies: Vec<_> = (0..6_u64)
        .map(|probe| {
            let packet = world.send(probe * MS);
            world.reflect(&packet, probe * MS + MS / 2)
        })
        .collect();
    let mut fates = |sequences: &[usize], at: u64| {
        for sequence in sequences {
            world.receive(&replies[sequence - 1], at).unwrap();
        }
        let figures = world.figures(at);
        assert!(figures.received + figures.lost() <= figures.sent);
        figures
    };
    let first = fates(&[1, 2, 5], 1_000 * MS);
    assert_eq!((first.lost(), first.pending), (0, 3));
    let gap = fates(&[], 3_500 * MS);
    assert_eq!((gap.lost_backward, gap.lost_forward), (2, 1), "the reflector answered 3 and 4; of 6 nothing is known");
    let second = fates(&[3, 4, 6], 4_000 * MS);
    assert_eq!((second.lost(), second.reordered, second.duplicates), (0, 2, 0));
    let doubled = fates(&[3], 4_500 * MS);
    assert_eq!((doubled.lost(), doubled.reordered, doubled.duplicates), (0, 2, 1));
}

#[test]
fn doubled_answers_never_make_loss_negative() {
    let mut world = World::new();
    for probe in 0..20_u64 {
        let at = probe * 100 * MS;
        let packet = world.send(at);
        let reply = world.reflect(&packet, at + MS);
        world.receive(&reply, at + 2 * MS).unwrap();
        if probe % 7 == 0 {
            assert!(matches!(world.receive(&reply, at + 3 * MS), Ok(Answered::Duplicate { .. })));
        }
    }
    let figures = world.figures(9_000 * MS);
    assert_eq!((figures.sent, figures.received, figures.duplicates), (20, 20, 3));
    assert_eq!(figures.ppm_of_settled(figures.lost()), Some(0));
}

#[test]
fn losses_are_told_apart_by_direction() {
    let mut world = World::new();
    for probe in 0..40_u64 {
        let at = probe * 100 * MS;
        let packet = world.send(at);
        if probe % 8 == 3 {
            continue;
        }
        let reply = world.reflect(&packet, at + MS);
        if probe % 4 != 2 {
            world.receive(&reply, at + 2 * MS).unwrap();
        }
    }
    let figures = world.figures(9_000 * MS);
    assert_eq!((figures.lost_forward, figures.lost_backward), (5, 10));
    assert_eq!(figures.ppm_of_settled(figures.lost_forward), Some(125_000));
}

#[test]
fn a_restarted_reflector_confuses_no_count() {
    let mut world = World::new();
    for probe in 0..5_u64 {
        world.trip(probe * 100 * MS, MS);
    }
    world.send(500 * MS);
    world.reflector = World::new().reflector;
    for probe in 6..10_u64 {
        world.trip(probe * 100 * MS, MS);
    }
    let figures = world.figures(5_000 * MS);
    assert_eq!((figures.lost_forward, figures.lost_backward, figures.received), (1, 0, 9));
}

/// Absurd samples are refused and counted, and leave no trace in the figures.
#[test]
fn absurd_samples_do_not_poison_the_window() {
    let mut world = World::with(Mode::Open, 120_000);
    world.trip(0, 12 * MS);
    world.trip(200 * MS, 13 * MS);
    let forge = |world: &mut World, at: u64, change: &dyn Fn(&mut ReflectorPacket)| {
        let packet = world.send(at);
        let reply = world.reflect(&packet, at + 6 * MS);
        let mut reply = ReflectorPacket::decode(&reply, &Mode::Open).unwrap();
        change(&mut reply);
        reply.encode(&Mode::Open)
    };
    let backwards = forge(&mut world, 400 * MS, &|reply| reply.sent = NtpTime::from_bits(1));
    assert!(matches!(
        world.receive(&backwards, 412 * MS),
        Ok(Answered::Fresh { sample: Err(Refused::Processing { .. }), .. })
    ));
    let ages = forge(&mut world, 600 * MS, &|reply| reply.received = NtpTime::from_bits(1));
    assert!(matches!(world.receive(&ages, 612 * MS), Ok(Answered::Fresh { sample: Err(_), .. })));
    let minutes = forge(&mut world, 800 * MS, &|_| ());
    assert!(matches!(
        world.receive(&minutes, 70_000 * MS),
        Ok(Answered::Fresh { sample: Err(Refused::RoundTrip { .. }), .. })
    ));
    world.trip(71_000 * MS, 12 * MS);
    let figures = world.figures(72_000 * MS);
    assert_eq!((figures.received, figures.refused, figures.lost()), (6, 3, 0));
    let trips = figures.round_trips.unwrap();
    assert!(close(trips.min_ns, 12 * MS) && close(trips.p99_ns, 13 * MS), "{trips:?}");
}

#[test]
fn answers_of_others_are_strays() {
    let mut world = World::new();
    let packet = world.send(0);
    let reply = ReflectorPacket::decode(&world.reflect(&packet, MS), &Mode::Open).unwrap();
    let altered = |change: &dyn Fn(&mut ReflectorPacket)| {
        let mut reply = reply;
        change(&mut reply);
        reply.encode(&Mode::Open)
    };
    let other = world.receive(&altered(&|reply| reply.ssid = 8), MS);
    assert_eq!(other, Err(ReplyError::OtherSession { found: 8, expected: 7 }));
    let unsent = world.receive(&altered(&|reply| reply.sender_sequence = 5), MS);
    assert_eq!(unsent, Err(ReplyError::Stray { sequence: 5 }));
    let guessed = world.receive(&altered(&|reply| reply.sender_sent = NtpTime::from_bits(9)), MS);
    assert_eq!(guessed, Err(ReplyError::Stray { sequence: 0 }));
    assert!(world.receive(&[0; 12], MS).is_err());
    assert_eq!((world.figures(2 * MS).received, world.figures(2 * MS).strays), (0, 4));
    // a reflector from before session identifiers leaves the field zero
    assert!(world.receive(&altered(&|reply| reply.ssid = 0), 2 * MS).is_ok());
}

#[test]
fn authenticated_sessions_measure_too() {
    let key = Mode::Authenticated(Key::new(b"a key shared by both ends").unwrap());
    let mut world = World::with(key, 10_000);
    world.trip(0, 40 * MS);
    assert!(close(world.figures(MS * 50).round_trips.unwrap().min_ns, 40 * MS));
    let packet = world.send(100 * MS);
    let mut reply = world.reflect(&packet, 101 * MS);
    reply[40] ^= 1;
    assert!(matches!(world.receive(&reply, 102 * MS), Err(ReplyError::Packet(_))));
}

#[derive(Debug, Clone, Copy)]
enum Fate {
    Back { rtt_ms: u64, copies: u64 },
    LostThere,
    LostBack,
}

fn fates() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => (1_u64..900, 1_u64..4).prop_map(|(rtt_ms, copies)| Fate::Back { rtt_ms, copies }),
        1 => Just(Fate::LostThere),
        1 => Just(Fate::LostBack),
    ]
}

proptest! {
    /// Whatever happens on the way: every probe is in one place, and looking earlier or later changes no other's fate.
    #[test]
    fn every_probe_is_received_or_lost_or_pending(fates in prop::collection::vec(fates(), 1..60)) {
        let mut world = World::with(Mode::Open, 60_000);
        let mut arrivals = Vec::new();
        for (probe, fate) in fates.iter().enumerate() {
            let at = probe as u64 * 50 * MS;
            let packet = world.send(at);
            match *fate {
                Fate::LostThere => {}
                Fate::LostBack => { world.reflect(&packet, at + MS); }
                Fate::Back { rtt_ms, copies } => {
                    let reply = world.reflect(&packet, at + MS / 2);
                    arrivals.extend((0..copies).map(|copy| (at + rtt_ms * MS + copy * 7 * MS, reply.clone())));
                }
            }
        }
        arrivals.sort();
        let mut seen = 0;
        for (at, reply) in &arrivals {
            world.receive(reply, *at).unwrap();
            let figures = world.figures(*at);
            prop_assert_eq!(figures.sent, figures.received + figures.pending + figures.lost());
            prop_assert!(figures.received >= seen);
            seen = figures.received;
        }
        let figures = world.figures(20_000 * MS);
        let back: Vec<_> = fates.iter().filter_map(|fate| match fate {
            Fate::Back { copies, .. } => Some(*copies),
            _ => None,
        }).collect();
        prop_assert_eq!(figures.received, back.len() as u64);
        prop_assert_eq!(figures.duplicates, back.iter().map(|copies| copies - 1).sum::<u64>());
        prop_assert_eq!((figures.pending, figures.lost()), (0, (fates.len() - back.len()) as u64));
    }
}
