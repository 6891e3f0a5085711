//! What of the figures goes into a report: those that were not told for the longest, as many as a rate allows, so that reports
//! stay small however many links there are.

use rhumb_model::LinkId;
use rhumb_wire::{LinkFigures, WindowFigures};
use serde::Serialize;
use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

/// Octets per second for figures and windows: 20 kbit/s. With the 75 kbit/s that a planned mesh may probe by, a point among a
/// thousand stays below 100 kbit/s.
const BYTES_PER_S: f64 = 2_500.0;
/// What a silence saves up: a first report tells of some forty links.
const MOST_BYTES: f64 = 20_000.0;
/// Of what may be told at once, this share is for windows: both go on.
const WINDOWS_SHARE: f64 = 0.6;
/// Windows that wait to be answered for; the oldest are given up.
const MOST_WINDOWS: usize = 2_000;
/// A window older than this is told no more.
const OLDEST: Duration = Duration::from_mins(30);

/// What was told, and what waits.
#[derive(Debug)]
pub(crate) struct Telling {
    allowed: f64,
    at: Instant,
    told: BTreeMap<LinkId, Instant>,
    windows: VecDeque<Waiting>,
    /// Windows in the report that is on its way: the first so many.
    under_way: usize,
}

#[derive(Debug)]
struct Waiting {
    window: WindowFigures,
    since: Instant,
}

impl Telling {
    pub(crate) fn new(now: Instant) -> Self {
        Self { allowed: MOST_BYTES, at: now, told: BTreeMap::new(), windows: VecDeque::new(), under_way: 0 }
    }

    /// Adds recorded windows to those that wait.
    pub(crate) fn add(&mut self, windows: impl IntoIterator<Item = WindowFigures>, now: Instant) {
        self.windows.extend(windows.into_iter().map(|window| Waiting { window, since: now }));
        let over = self.windows.len().saturating_sub(MOST_WINDOWS);
        let old = self.windows.iter().take_while(|waiting| now.duration_since(waiting.since) > OLDEST).count();
        let gone = over.max(old);
        self.windows.drain(..gone);
        self.under_way = self.under_way.saturating_sub(gone);
    }

    /// What the next report tells of links and windows. The former report is given up, if it was not answered.
    pub(crate) fn next(&mut self, mut links: Vec<LinkFigures>, now: Instant) -> (Vec<LinkFigures>, Vec<WindowFigures>) {
        self.allowed = (self.allowed + now.duration_since(self.at).as_secs_f64() * BYTES_PER_S).min(MOST_BYTES);
        self.at = now;
        let for_windows = self.allowed * WINDOWS_SHARE;
        let mut windows = Vec::new();
        let mut spent = 0.0;
        for waiting in &self.windows {
            let age_ms = waiting.window.age_ms + now.duration_since(waiting.since).as_millis() as u64;
            let window = WindowFigures { age_ms, ..waiting.window.clone() };
            spent += octets(&window);
            if spent > for_windows {
                break;
            }
            self.allowed -= octets(&window);
            windows.push(window);
        }
        self.under_way = windows.len();
        links.sort_by_key(|figures| self.told.get(&figures.link).copied());
        let room = links.iter().take_while(|figures| {
            let fits = self.allowed >= octets(figures);
            self.allowed -= if fits { octets(figures) } else { 0.0 };
            fits
        });
        let room = room.count();
        self.told.retain(|link, _| links.iter().any(|figures| &figures.link == link));
        links.truncate(room);
        self.told.extend(links.iter().map(|figures| (figures.link.clone(), now)));
        (links, windows)
    }

    /// The report that was on its way was answered: its windows are told.
    pub(crate) fn answered(&mut self) {
        self.windows.drain(..std::mem::take(&mut self.under_way));
    }
}

fn octets(value: &impl Serialize) -> f64 {
    // what cannot be written is not sent either
    serde_json::to_vec(value).map_or(0.0, |octets| octets.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_model::{BandwidthMethod, Confidence};
    use rhumb_probe::Spread;
    use rhumb_wire::BandwidthFigures;

    fn link(i: usize) -> LinkId {
        LinkId::new(&format!("some-site-{i:04}/another-site")).unwrap()
    }

    fn figures(i: usize) -> LinkFigures {
        let bandwidth = |method| BandwidthFigures {
            rate_kbps: 9_876_543,
            available_kbps: Some(9_876_543),
            method,
            confidence: Confidence::Medium,
            label: 4_000_000_000,
            age_us: 599_999_999,
        };
        LinkFigures {
            link: link(i),
            window_us: 10_000_000,
            sent: 50,
            received: 50,
            rtt_min_us: Some(123_456),
            rtt_p50_us: Some(123_456),
            rtt_p95_us: Some(123_456),
            loss_forward_ppm: Some(20_000),
            loss_backward_ppm: Some(20_000),
            jitter_us: Some(1_234),
            last_reply_age_us: Some(199_999),
            rtt_p99_us: Some(123_456),
            bandwidths: vec![bandwidth(BandwidthMethod::Counters), bandwidth(BandwidthMethod::Trains)],
            stale: false,
        }
    }

    fn window(i: usize, minute: u64) -> WindowFigures {
        // two probes in three seconds, as 75 kbit/s allow each of eighty, of a path that jitters by milliseconds
        let mut spread = Spread::default();
        (0..40).for_each(|n| spread.record(40_000_000 + n * 7_919 % 5_000 * 1_000));
        let record = serde_json::json!({ "round_trips": spread, "forward": spread, "backward": spread, "rest": "x".repeat(350) });
        WindowFigures { link: link(i), start_ms: minute * 60_000, age_ms: 4_000, record, change: None }
    }

    /// An hour of a point of a mesh of a thousand: some eighty sessions, reports every three seconds.
    #[test]
    fn f52_reports_stay_small_and_every_link_is_told_of_in_turn() {
        let start = Instant::now();
        let mut telling = Telling::new(start);
        let (mut octets_sent, mut last, mut windows_told) = (0.0, BTreeMap::new(), 0);
        let mut longest = Duration::ZERO;
        for second in (0..3_600_u64).step_by(3) {
            let now = start + Duration::from_secs(second);
            if second % 60 == 0 {
                telling.add((0..80).map(|i| window(i, second / 60)), now);
            }
            let (links, windows) = telling.next((0..80).map(figures).collect(), now);
            octets_sent += links.iter().map(octets).sum::<f64>() + windows.iter().map(octets).sum::<f64>();
            for figures in &links {
                if let Some(before) = last.insert(figures.link.clone(), now) {
                    longest = longest.max(now.duration_since(before));
                }
            }
            windows_told += windows.len();
            telling.answered();
        }
        assert_eq!(last.len(), 80);
        assert!(longest <= Duration::from_mins(1), "{longest:?}");
        assert!(octets_sent * 8.0 / 3_600.0 < 21_000.0, "{} bit/s", octets_sent * 8.0 / 3_600.0);
        // of 80 links in 60 minutes
        assert!(windows_told > 80 * 58, "{windows_told}");
    }

    #[test]
    fn windows_are_told_until_they_are_answered_for_and_few_links_all_at_once() {
        let start = Instant::now();
        let mut telling = Telling::new(start);
        telling.add([window(0, 1), window(1, 1)], start);
        let (links, windows) = telling.next((0..12).map(figures).collect(), start);
        assert_eq!((links.len(), windows.len()), (12, 2));
        // that report was lost
        let later = start + Duration::from_secs(3);
        let (_, again) = telling.next(Vec::new(), later);
        assert_eq!(again.iter().map(|w| (w.start_ms, w.age_ms)).collect::<Vec<_>>(), [(60_000, 7_000); 2]);
        telling.answered();
        assert!(telling.next(Vec::new(), later).1.is_empty());
        // one that came in between is not taken for told
        telling.add([window(0, 2)], later);
        telling.next(Vec::new(), later);
        telling.add([window(0, 3)], later);
        telling.answered();
        assert_eq!(telling.next(Vec::new(), later).1[0].start_ms, 180_000);
        telling.add((0..3_000).map(|i| window(0, 4 + i)), later);
        assert_eq!(telling.windows.len(), MOST_WINDOWS);
        telling.add([], later + OLDEST * 2);
        assert!(telling.windows.is_empty());
    }
}
