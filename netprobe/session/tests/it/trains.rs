//! The receiver of trains: whom it hears, and that it never says more than it was asked.

use proptest::prelude::*;
use rhumb_probe_session::{
    Key, Mode, TRAIN_HEADER_BYTES, TrainError, TrainHeader, TrainKind, TrainReceiver, arrivals, is_train,
};
use std::net::SocketAddr;

fn peer() -> SocketAddr {
    "192.0.2.7:40000".parse().unwrap()
}

fn key(text: &str) -> Mode {
    Mode::Authenticated(Key::new(text.as_bytes()).unwrap())
}

fn header(kind: TrainKind, index: u32, count: u32) -> TrainHeader {
    TrainHeader { kind, run: 9, train: 3, index, count, label: 77 }
}

#[test]
fn a_train_is_heard_and_its_arrivals_collected_in_pieces() {
    for mode in [Mode::Open, key("a secret of many octets")] {
        let mut receiver = TrainReceiver::new(mode.clone(), [peer().ip()]);
        for index in (0..100).filter(|index| index % 10 != 3) {
            let data = header(TrainKind::Data, index, 100).encode(1_400, &mode);
            assert_eq!(data.len(), 1_400);
            let now = 5_000 + u64::from(index) * 1_000;
            assert_eq!(receiver.hear(peer(), &data, now), Ok(None));
            // the network doubles one
            assert_eq!(receiver.hear(peer(), &data, now + 1), Ok(None));
        }
        let mut found = Vec::new();
        loop {
            let question = header(TrainKind::Question, found.len() as u32, 0).encode(400, &mode);
            let answer = receiver.hear(peer(), &question, 200_000).unwrap().unwrap();
            assert!(answer.len() <= question.len());
            let head = TrainHeader::decode(&answer, &mode).unwrap();
            assert_eq!((head.kind, head.count, head.index), (TrainKind::Answer, 90, found.len() as u32));
            found.extend(arrivals(&answer).unwrap());
            if found.len() == 90 {
                break;
            }
        }
        assert_eq!((found[0].index, found[0].at_ns), (0, 0));
        assert_eq!((found[89].index, found[89].at_ns), (99, 99_000));
        assert!(found.iter().all(|a| a.index % 10 != 3));
        // 1,428 octets a microsecond are 11.4 Gbit/s; a tenth did not come
        let counts: Vec<_> = receiver.counts().map(|c| (c.label, c.rate_kbps / 1_000_000)).collect();
        assert_eq!(counts, [(77, 10)]);
    }
}

#[test]
fn strangers_wrong_keys_answers_and_pointless_questions_are_not_answered() {
    let stranger: SocketAddr = "203.0.113.9:1".parse().unwrap();
    let open = header(TrainKind::Data, 0, 10).encode(100, &Mode::Open);
    assert_eq!(TrainReceiver::new(Mode::Open, [peer().ip()]).hear(stranger, &open, 0), Err(TrainError::Unknown));
    assert_eq!(TrainReceiver::new(Mode::Open, []).hear(peer(), &open, 0), Err(TrainError::Unknown));
    let mut locked = TrainReceiver::new(key("a secret of many octets"), []);
    assert_eq!(locked.hear(stranger, &open, 0), Err(TrainError::Tag));
    let forged = header(TrainKind::Data, 0, 10).encode(100, &key("another secret, not that one"));
    assert_eq!(locked.hear(stranger, &forged, 0), Err(TrainError::Tag));
    let mut known = TrainReceiver::new(Mode::Open, [peer().ip()]);
    let question = header(TrainKind::Question, 0, 0).encode(100, &Mode::Open);
    assert_eq!(known.hear(peer(), &question, 0), Err(TrainError::Pointless));
    let answer = header(TrainKind::Answer, 0, 0).encode(100, &Mode::Open);
    assert_eq!(known.hear(peer(), &answer, 0), Err(TrainError::Pointless));
    for (index, count) in [(10, 10), (0, 1_000_000), (7, 0)] {
        let odd = header(TrainKind::Data, index, count).encode(100, &Mode::Open);
        assert_eq!(known.hear(peer(), &odd, 0), Err(TrainError::Pointless));
    }
    assert_eq!(known.hear(peer(), &[0; 44], 0), Err(TrainError::Foreign { octets: 44 }));
}

#[test]
fn only_so_many_trains_are_remembered_and_old_ones_make_room() {
    let mut receiver = TrainReceiver::new(Mode::Open, [peer().ip()]);
    let data = |train| TrainHeader { train, ..header(TrainKind::Data, 0, 10) }.encode(100, &Mode::Open);
    let kept = (0..1_000).filter(|train| receiver.hear(peer(), &data(*train), 0).is_ok()).count();
    assert!(kept < 100, "{kept}");
    assert_eq!(receiver.hear(peer(), &data(5_000), 1), Err(TrainError::Full));
    assert_eq!(receiver.hear(peer(), &data(5_000), 60_000_000_000), Ok(None));
}

proptest! {
    /// No octets make it panic, answer an answer, or answer with more than it got.
    #[test]
    fn any_octets_are_answered_with_no_more_than_themselves(mut octets in prop::collection::vec(any::<u8>(), 0..300), meant in any::<bool>(), kind in 0_u8..5) {
        let mut receiver = TrainReceiver::new(Mode::Open, [peer().ip()]);
        for index in 0..64 {
            let data = header(TrainKind::Data, index, 64).encode(64, &Mode::Open);
            receiver.hear(peer(), &data, u64::from(index)).unwrap();
        }
        if meant {
            let made = header(TrainKind::Question, 0, 0).encode(TRAIN_HEADER_BYTES, &Mode::Open);
            let length = octets.len().min(24);
            octets[..length].copy_from_slice(&made[..length]);
            if let Some(octet) = octets.get_mut(8) {
                *octet = kind;
            }
            prop_assert!(octets.len() < 8 || is_train(&octets));
        }
        if let Ok(Some(answer)) = receiver.hear(peer(), &octets, 100) {
            prop_assert!(answer.len() <= octets.len());
            prop_assert!(octets[8] == 2);
        }
    }
}
