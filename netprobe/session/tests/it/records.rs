//! Windows that are kept, and what they add up to.

use rhumb_probe_session::{
    ErrorEstimate, Extensions, Record, Reflector, ReflectorConfig, Sender, SenderConfig, Trend, WindowView,
};

use crate::path::{MS, close, far, near, source};

const SECOND: u64 = 1_000 * MS;
const MINUTE: u64 = 60 * SECOND;

struct Link {
    sender: Sender,
    reflector: Reflector,
}

impl Link {
    fn new(config: SenderConfig, limits: ReflectorConfig) -> Self {
        let sender = Sender::new(SenderConfig { record_ns: MINUTE, ..config });
        Self { sender, reflector: Reflector::new(limits) }
    }

    /// A probe every 200 ms from `from_s` until before `to_s`, with the round trip and fate that `way` gives: `None` is lost on
    /// the way back.
    fn probe(&mut self, from_s: u64, to_s: u64, way: impl Fn(u64) -> Option<u64>) -> Vec<Record> {
        let mut records = Vec::new();
        for number in from_s * 5..to_s * 5 {
            let at = number * 200 * MS;
            records.extend(self.sender.take_record(at));
            let packet = self.sender.send(near(at));
            let rtt = way(number);
            let there = at + rtt.unwrap_or(0) / 2;
            let reply = self.reflector.reflect(source(1), &packet, far(there), || far(there + MS / 10).wall).unwrap();
            if let Some(rtt) = rtt {
                self.sender.on_reply(&reply, near(at + rtt + MS / 10)).unwrap();
            }
        }
        records
    }
}

fn link() -> Link {
    Link::new(SenderConfig::default(), ReflectorConfig::default())
}

#[test]
fn windows_are_recorded_once_and_add_up_to_the_whole() {
    let mut link = link();
    let mut records = link.probe(0, 190, |number| (number % 50 != 7).then_some((40 + number % 5) * MS));
    assert_eq!(records.len(), 3);
    assert_eq!(records.iter().map(|record| record.start_ns).collect::<Vec<_>>(), [0, MINUTE, 2 * MINUTE]);
    for record in &records {
        assert_eq!((record.sent, record.received), (300, 294));
        assert_eq!((record.forward.lost, record.backward.lost), (0, 6));
        assert_eq!(record.round_trips.len(), 294);
        assert!(close(record.round_trips.least_ns().unwrap(), 40 * MS));
        assert!(record.round_trips.percentile_ns(99).unwrap().abs_diff(44 * MS) <= 44_000);
        // half of the 4 ms on each way
        assert!(record.forward.variation.percentile_ns(95).unwrap().abs_diff(2 * MS) <= 3_000);
        assert!(record.forward.delay.is_empty(), "no synchronised clock, no one-way delay");
    }
    let mut whole = records.remove(0);
    for later in &records {
        whole.merge(later);
    }
    assert_eq!((whole.sent, whole.received, whole.backward.lost, whole.length_ns), (900, 882, 18, 3 * MINUTE));
    assert_eq!(whole.round_trips.len(), 882);
    let stored: Record = serde_json::from_str(&serde_json::to_string(&whole).unwrap()).unwrap();
    assert_eq!(stored, whole);
    assert!(whole.can_be());
    for spoil in [
        (|r| r.received = r.sent + 1) as fn(&mut Record),
        |r| r.sent = u64::MAX,
        |r| r.backward.lost = 100,
        |r| r.duplicates = u64::MAX,
        |r| r.forward.reordered = u64::MAX,
        |r| r.successive_ns = u64::MAX,
        |r| r.length_ns = u64::MAX,
        |r| (r.sent, r.received) = (900, 3),
    ] {
        let mut spoilt = whole.clone();
        spoil(&mut spoilt);
        assert!(!spoilt.can_be(), "{spoilt:?}");
    }
}

/// What a report carries for each link every minute.
#[test]
fn a_window_is_written_in_few_octets() {
    let records = link().probe(0, 70, |number| (number % 50 != 7).then_some(40 * MS + number % 13 * 90_000));
    let written = serde_json::to_string(&records[0]).unwrap();
    assert!(written.len() < 1_000, "{} octets: {written}", written.len());
}

/// A probe in flight when its window ends is neither lost nor missing: the record waits for it.
#[test]
fn a_record_waits_for_what_is_in_flight() {
    let mut link = link();
    let records = link.probe(0, 62, |_| Some(400 * MS));
    assert!(records.is_empty());
    let record = link.sender.take_record(63 * SECOND).unwrap();
    assert_eq!((record.sent, record.received, record.forward.lost + record.backward.lost), (300, 300, 0));
    assert_eq!(link.sender.take_record(64 * SECOND), None);
}

/// A sender that is suspended has windows without probes: nothing was measured, and nothing lost.
#[test]
fn windows_without_probes_are_stale_not_lost() {
    let mut link = link();
    link.probe(0, 60, |_| Some(40 * MS));
    let mut trend = Trend::default();
    let mut seen = Vec::new();
    while let Some(record) = link.sender.take_record(5 * MINUTE) {
        trend.observe(WindowView::from(&record));
        seen.push((record.sent, record.forward.lost + record.backward.lost, trend.is_stale()));
    }
    assert_eq!(seen, [(300, 0, false), (0, 0, false), (0, 0, false), (0, 0, true)]);
    assert!(close(trend.floor_ns().unwrap(), 40 * MS), "the last that was known, neither zero nor endless");
}

#[test]
fn another_path_shows_in_the_trend_after_three_windows() {
    let mut link = link();
    let records = link.probe(0, 484, |number| Some(if number < 900 { 40 * MS } else { 12 * MS }));
    let mut trend = Trend::default();
    let changes: Vec<_> = records.iter().map(|record| trend.observe(WindowView::from(record)).path_changed).collect();
    assert_eq!(changes, [false, false, false, false, false, true, false, false]);
    assert!(close(trend.floor_ns().unwrap(), 12 * MS));
}

#[test]
fn two_synchronised_ends_record_one_way_delays() {
    let error = ErrorEstimate::synchronised_within(100_000);
    let config = SenderConfig { error, extensions: Extensions::default(), ..SenderConfig::default() };
    let mut link = Link::new(config, ReflectorConfig { error: Some(error), ..ReflectorConfig::default() });
    let records = link.probe(0, 70, |_| Some(600 * MS));
    // the far clock runs 267 ms ahead: the delays are what the clocks say, for they claim to be right
    let forward = &records[0].forward.delay;
    assert_eq!(forward.len(), 300);
    assert!(close(forward.least_ns().unwrap(), 567 * MS));
    assert!(close(records[0].backward.delay.least_ns().unwrap(), 33 * MS));
}
