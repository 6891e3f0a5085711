use super::*;
use proptest::prelude::*;
use rhumb_probe_session::{PathSeen, Way};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// A minute with these round trips, in microseconds, and probes lost on the way there.
fn record(trips_us: &[u64], lost: u64) -> Record {
    let mut round_trips = Spread::default();
    for us in trips_us {
        round_trips.record(us * 1_000);
    }
    let received = trips_us.len() as u64;
    Record {
        start_ns: 0,
        length_ns: 60_000_000_000,
        sent: received + lost,
        received,
        refused: 0,
        duplicates: 0,
        reordered: 0,
        forward: Way { lost, variation: round_trips.clone(), ..Way::default() },
        backward: Way { reordered: 1, ..Way::default() },
        round_trips,
        successive_ns: 5,
        far_clock: None,
        path: PathSeen::default(),
    }
}

fn told(start_ms: u64, age_ms: u64, record: &Record) -> WindowFigures {
    let record = serde_json::to_value(record).unwrap();
    WindowFigures { link: LinkId::new("ab").unwrap(), start_ms, age_ms, record, change: None }
}

fn stored(second: i64, record: &Record) -> LinkWindow {
    let history = HistoryWindow::of(at(second), record);
    let text = serde_json::to_string(record).unwrap();
    LinkWindow {
        link: LinkId::new("ab").unwrap(),
        at: history.at,
        length: history.length,
        sent: history.sent,
        received: history.received,
        rtt: history.rtt,
        loss: None,
        record: text,
    }
}

#[test]
fn a_window_is_taken_once_however_often_it_is_told() {
    let mut windows = Windows::default();
    let (boot, next) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let minute = record(&[1_000, 2_000, 3_000], 1);
    assert_eq!(windows.take(&told(60_000, 4_000, &minute), boot, at(124)), Ok(true));
    // told again, since nobody answered; and an older one that was under way
    assert_eq!(windows.take(&told(60_000, 9_000, &minute), boot, at(129)), Ok(false));
    assert_eq!(windows.take(&told(0, 69_000, &minute), boot, at(129)), Ok(false));
    assert_eq!(windows.take(&told(120_000, 4_000, &minute), boot, at(184)), Ok(true));
    // another boot counts from another zero
    assert_eq!(windows.take(&told(5_000, 4_000, &minute), next, at(244)), Ok(true));
    let ends: Vec<_> = windows.waiting.iter().map(|w| w.at).collect();
    assert_eq!(ends, [at(120), at(180), at(240)]);
    let kept = &windows.waiting[0];
    assert_eq!((kept.sent, kept.received, kept.loss.unwrap().ppm()), (4, 3, 250_000));
    assert_eq!(kept.rtt.unwrap().p50.micros(), 2_000);
}

/// Fault F45 for recorded windows: what cannot be is refused, and the next one is taken.
#[test]
fn f45_what_cannot_be_a_window_is_refused() {
    let mut windows = Windows::default();
    let boot = Uuid::from_u128(1);
    let minute = record(&[1_000], 0);
    let written = serde_json::to_string(&minute).unwrap();
    for odd in ["NaN", "-1", "1e308", "-0.0", "1.5", "\"1\"", "5e-324", "99999999999999999999", "18446744073709551615"]
    {
        for field in ["\"sent\":1", "\"received\":1", "\"length_ns\":60000000000"] {
            let name = field.split(':').next().unwrap();
            let spoilt = written.replacen(field, &format!("{name}:{odd}"), 1);
            assert_ne!(spoilt, written);
            let Ok(value) = serde_json::from_str(&spoilt) else { continue };
            let window = WindowFigures { record: value, ..told(0, 0, &minute) };
            assert_eq!(windows.take(&window, boot, at(60)), Err(BadWindow), "{spoilt}");
        }
    }
    for odd in ["null", "[]", "{}", "\"x\"", "7"] {
        let window = WindowFigures { record: serde_json::from_str(odd).unwrap(), ..told(0, 0, &minute) };
        assert_eq!(windows.take(&window, boot, at(60)), Err(BadWindow));
    }
    assert_eq!(windows.take(&told(0, u64::MAX, &minute), boot, at(60)), Err(BadWindow));
    assert_eq!(windows.take(&told(0, 0, &minute), boot, at(60)), Ok(true));
}

/// A minute of many fast answers and one of few slow ones: the percentiles of both are those of all answers. A mean of the
/// minutes' own, weighed by answers, would say 14.5 ms for the 95th.
#[test]
fn percentiles_of_a_long_time_are_those_of_all_its_round_trips() {
    let (fast, slow) = (record(&[10_000; 95], 5), record(&[100_000; 5], 0));
    let whole = together(&[stored(60, &fast), stored(120, &slow)]).unwrap();
    let rtt = whole.rtt.unwrap();
    assert_eq!(rtt.min.micros(), 10_000);
    assert!(rtt.p95.micros().abs_diff(10_000) <= 10 && rtt.p99.micros().abs_diff(100_000) <= 100, "{rtt:?}");
    assert_eq!((whole.sent, whole.received, whole.at, whole.length.micros()), (105, 100, at(120), 120_000_000));
    assert_eq!((whole.forward.loss.unwrap().ppm(), whole.backward.reordered), (47_619, 2));
    assert!(whole.forward.variation.is_some() && whole.backward.variation.is_none());
    // silence is a window without round trips
    let silent = together(&[stored(60, &record(&[], 50))]).unwrap();
    assert_eq!((silent.rtt, silent.received, silent.forward.loss.unwrap().ppm()), (None, 0, 1_000_000));
    assert_eq!(together(&[]), None);
    let unreadable = LinkWindow { record: "{}".into(), ..stored(60, &fast) };
    assert_eq!(together(&[unreadable]), None);
}

proptest! {
    /// Against sorting all round trips of all minutes.
    #[test]
    fn windows_add_up(minutes in prop::collection::vec(prop::collection::vec(1_u64..60_000_000, 0..60), 1..8)) {
        let windows: Vec<_> =
            minutes.iter().zip((60..).step_by(60)).map(|(trips, second)| stored(second, &record(trips, 1))).collect();
        let whole = together(&windows).unwrap();
        let mut all: Vec<u64> = minutes.concat();
        all.sort_unstable();
        prop_assert_eq!(whole.received, all.len() as u64);
        prop_assert_eq!(whole.rtt.is_some(), !all.is_empty());
        if let Some(rtt) = whole.rtt {
            prop_assert_eq!(rtt.min.micros(), all[0]);
            for (percent, found) in [(50, rtt.p50), (95, rtt.p95), (99, rtt.p99)] {
                let exact = all[(all.len() * percent).div_ceil(100).max(1) - 1];
                prop_assert!(found.micros().abs_diff(exact) <= exact / 1_000 + 1, "{} {}", found.micros(), exact);
            }
        }
    }
}
