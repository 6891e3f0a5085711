//! What a link's windows say over time: a steady figure for decisions, and whether the path has changed.

use serde::{Deserialize, Serialize};

use crate::Record;
use crate::sample::LONGEST_NS;

/// Windows in a row that must say the same before it counts.
const PATIENCE: usize = 3;
/// A steady figure stays while windows lie within this share of it, and this much.
const STEADY_PERCENT: u64 = 10;
const STEADY_NS: u64 = 1_000_000;
/// The least round trip has moved when it is off by this share and this much: queues hardly touch it.
const MOVED_PERCENT: u64 = 5;
const MOVED_NS: u64 = 300_000;
const NS_PER_MS: f64 = 1e6;

/// What one window contributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowView {
    /// Least round trip in nanoseconds; `None` if nothing was measured.
    pub min_ns: Option<u64>,
    /// 95th percentile of the round trip.
    pub p95_ns: Option<u64>,
    /// Time to live of the probe at the reflector, and of the answer here.
    pub ttl: (Option<u8>, Option<u8>),
    /// Whether a time to live differed within the window.
    pub ttl_changed: bool,
}

/// Follows the windows of one link.
#[derive(Debug, Clone, Default)]
pub struct Trend {
    min: Steady,
    p95: Steady,
    /// Least round trip that the path is known by.
    floor_ns: Option<u64>,
    /// Minima off the floor on one side, one after the other.
    off_floor: Vec<u64>,
    ttl: (Option<u8>, Option<u8>),
    missed: usize,
    refused: u64,
    change: Change,
}

/// What the last window has shown of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Change {
    /// The least round trip has moved for good: from and to, in nanoseconds.
    pub min_moved: Option<(u64, u64)>,
    /// More or fewer hops, or a moved least round trip: the path is another.
    pub path_changed: bool,
}

/// A figure as it is stored, in milliseconds. What cannot be a delay is dropped when it is read.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StoredTrend {
    /// Steady least round trip.
    pub min_ms: Option<f64>,
    /// Steady 95th percentile.
    pub p95_ms: Option<f64>,
}

/// A smoothed figure that only moves when windows insist.
#[derive(Debug, Clone, Default)]
struct Steady {
    shown_ns: Option<u64>,
    /// Moving average: a quarter of it is the last window.
    smooth_ns: u64,
    /// Windows in a row that the average has lain outside the band.
    smooth_off: usize,
    /// Windows in a row within the band.
    calm: usize,
    /// Windows outside the band on one side, one after the other.
    off: Vec<u64>,
}

impl WindowView {
    /// Of figures in milliseconds; `None` if one of them is no delay.
    pub fn from_ms(min_ms: f64, p95_ms: f64) -> Option<Self> {
        Some(Self { min_ns: Some(delay_ns(min_ms)?), p95_ns: Some(delay_ns(p95_ms)?), ..Self::default() })
    }
}

impl From<&Record> for WindowView {
    fn from(record: &Record) -> Self {
        Self {
            min_ns: record.round_trips.least_ns(),
            p95_ns: record.round_trips.percentile_ns(95),
            ttl: (record.path.ttl_forward, record.path.ttl_backward),
            ttl_changed: record.path.changed,
        }
    }
}

impl Trend {
    /// Goes on from what was stored; a stored figure that cannot be is dropped and counted.
    pub fn resume(stored: StoredTrend) -> Self {
        let mut trend = Self::default();
        let mut read = |ms: Option<f64>| {
            let delay = ms.and_then(delay_ns);
            trend.refused += u64::from(ms.is_some() && delay.is_none());
            delay
        };
        let (min_ns, p95_ns) = (read(stored.min_ms), read(stored.p95_ms));
        trend.min = Steady::from(min_ns);
        trend.p95 = Steady::from(p95_ns);
        trend.floor_ns = min_ns;
        trend
    }

    /// Takes in the next window; what it has shown. One that cannot be is refused and counted, as is `None`.
    pub fn observe(&mut self, view: impl Into<Option<WindowView>>) -> Change {
        self.change = Change::default();
        let believable = |view: &WindowView| view.min_ns.max(view.p95_ns).is_none_or(|ns| ns <= LONGEST_NS);
        let Some(view) = view.into().filter(believable) else {
            self.refused += 1;
            return self.change;
        };
        let Some(min_ns) = view.min_ns else {
            self.missed += 1;
            return self.change;
        };
        self.missed = 0;
        self.min.observe(min_ns);
        if let Some(p95_ns) = view.p95_ns {
            self.p95.observe(p95_ns);
        }
        let differ = |a: Option<u8>, b: Option<u8>| a.is_some() && b.is_some() && a != b;
        let hops = view.ttl_changed || differ(self.ttl.0, view.ttl.0) || differ(self.ttl.1, view.ttl.1);
        self.ttl = (view.ttl.0.or(self.ttl.0), view.ttl.1.or(self.ttl.1));
        let min_moved = self.follow_floor(min_ns);
        self.change = Change { min_moved, path_changed: hops || min_moved.is_some() };
        self.change
    }

    /// Steady least round trip in nanoseconds; `None` before the first window with a measurement.
    pub fn min_ns(&self) -> Option<u64> {
        self.min.shown_ns
    }

    /// Steady 95th percentile of the round trip.
    pub fn p95_ns(&self) -> Option<u64> {
        self.p95.shown_ns
    }

    /// Whether the last windows, or all so far, have measured nothing: what is shown is old, not zero and not endless.
    pub fn is_stale(&self) -> bool {
        self.missed >= PATIENCE
    }

    /// Windows and stored figures that could not be.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// What the last window has shown.
    pub fn change(&self) -> Change {
        self.change
    }

    /// What to store.
    pub fn stored(&self) -> StoredTrend {
        let ms = |ns: Option<u64>| ns.map(|ns| ns as f64 / NS_PER_MS);
        StoredTrend { min_ms: ms(self.min_ns()), p95_ms: ms(self.p95_ns()) }
    }

    fn follow_floor(&mut self, min_ns: u64) -> Option<(u64, u64)> {
        let floor_ns = *self.floor_ns.get_or_insert(min_ns);
        if within(min_ns, floor_ns, MOVED_PERCENT, MOVED_NS) {
            self.off_floor.clear();
            self.floor_ns = Some(floor_ns.min(min_ns));
            return None;
        }
        push_same_side(&mut self.off_floor, min_ns, floor_ns);
        if self.off_floor.len() < PATIENCE {
            return None;
        }
        let to_ns = self.off_floor.drain(..).min()?;
        self.floor_ns = Some(to_ns);
        Some((floor_ns, to_ns))
    }
}

impl From<Option<u64>> for Steady {
    fn from(shown_ns: Option<u64>) -> Self {
        Self { shown_ns, smooth_ns: shown_ns.unwrap_or(0), smooth_off: 0, calm: 0, off: Vec::new() }
    }
}

impl Steady {
    fn observe(&mut self, value_ns: u64) {
        let Some(shown_ns) = self.shown_ns else {
            *self = Self::from(Some(value_ns));
            return;
        };
        let off = |ns| !within(ns, shown_ns, STEADY_PERCENT, STEADY_NS);
        self.smooth_ns = (3 * self.smooth_ns + value_ns) / 4;
        self.smooth_off = if off(self.smooth_ns) { self.smooth_off + 1 } else { 0 };
        if off(value_ns) {
            push_same_side(&mut self.off, value_ns, shown_ns);
            self.calm = 0;
        } else {
            self.off.clear();
            self.calm += 1;
        }
        if self.calm >= PATIENCE {
            (self.smooth_ns, self.smooth_off) = (shown_ns, 0);
        } else if self.off.len() >= PATIENCE {
            self.off.sort_unstable();
            *self = Self::from(Some(self.off[PATIENCE / 2]));
        } else if self.smooth_off >= 2 * PATIENCE {
            // windows on both sides of the band, and yet another mean
            *self = Self::from(Some(self.smooth_ns));
        }
    }
}

/// Keeps only values on one side of the mark.
fn push_same_side(values: &mut Vec<u64>, value: u64, mark: u64) {
    values.retain(|before| (*before > mark) == (value > mark));
    values.push(value);
}

fn within(value: u64, mark: u64, percent: u64, least: u64) -> bool {
    value.abs_diff(mark) <= least.max(mark / 100 * percent)
}

fn delay_ns(milliseconds: f64) -> Option<u64> {
    let ns = milliseconds * NS_PER_MS;
    // false for NaN, infinities, and what is below zero
    (0.0..=LONGEST_NS as f64).contains(&ns).then_some(ns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn view(min_ms: f64) -> WindowView {
        WindowView::from_ms(min_ms, min_ms * 1.1).unwrap()
    }

    /// The steady minimum after each window, in milliseconds.
    fn shown(trend: &mut Trend, windows: &[f64]) -> Vec<u64> {
        let show = |ms: &f64| {
            trend.observe(view(*ms));
            trend.min_ns().unwrap() / MS
        };
        windows.iter().map(show).collect()
    }

    #[test]
    fn small_moves_and_short_ones_do_not_show() {
        let mut trend = Trend::default();
        assert_eq!(shown(&mut trend, &[20.0, 21.0, 20.0, 21.9, 18.1, 20.5]), [20; 6]);
        assert_eq!(shown(&mut trend, &[60.0, 20.0, 60.0, 21.0, 20.0, 20.0]), [20; 6]);
        assert_eq!(shown(&mut trend, &[60.0, 61.0, 60.0, 62.0]), [20, 20, 60, 60]);
        // a millisecond matters nowhere, whatever its share
        let mut near = Trend::default();
        assert_eq!(shown(&mut near, &[0.2, 1.1, 1.1, 1.1, 1.1]), [0; 5]);
    }

    #[test]
    fn windows_on_both_sides_show_their_mean() {
        let mut trend = Trend::default();
        trend.observe(view(20.0));
        let windows: Vec<_> = (0..10).map(|window| if window % 2 == 0 { 40.0 } else { 20.0 }).collect();
        let last = *shown(&mut trend, &windows).last().unwrap();
        assert!((25..=35).contains(&last), "{last}");
    }

    #[test]
    fn a_moved_minimum_is_a_change_of_the_path_once() {
        let mut trend = Trend::default();
        let mut changes = |windows: &[f64]| -> Vec<_> {
            windows.iter().map(|ms| trend.observe(view(*ms)).min_moved.map(|(from, to)| (from / MS, to / MS))).collect()
        };
        assert_eq!(changes(&[20.0, 20.1, 19.9, 35.0, 20.0]), [None; 5], "one busy window is no other path");
        assert_eq!(changes(&[35.0, 35.2, 35.1, 35.0]), [None, None, Some((19, 35)), None]);
        assert_eq!(changes(&[12.0, 12.0, 12.0]), [None, None, Some((35, 12))]);
    }

    #[test]
    fn another_number_of_hops_is_another_path() {
        let mut trend = Trend::default();
        let with = |ttl| WindowView { ttl, ..view(20.0) };
        let mut changed = |ttl| trend.observe(with(ttl)).path_changed;
        assert!(!changed((Some(250), Some(251))));
        assert!(!changed((Some(250), None)), "not told");
        assert!(changed((Some(249), Some(251))));
        assert!(!changed((Some(249), Some(251))));
        assert!(changed((Some(249), Some(252))));
    }

    #[test]
    fn silence_is_stale_and_the_last_figure_stays() {
        let mut trend = Trend::default();
        trend.observe(view(20.0));
        for window in 1..=4 {
            trend.observe(WindowView::default());
            assert_eq!(trend.is_stale(), window >= 3);
            assert_eq!(trend.min_ns(), Some(20 * MS));
        }
        trend.observe(view(20.0));
        assert!(!trend.is_stale());
        let mut never = Trend::default();
        for _ in 0..3 {
            never.observe(WindowView::default());
        }
        assert!(never.is_stale() && never.min_ns().is_none());
    }

    /// One absurd sample, or a stored one, must not live on (hashicorp/serf#488, hashicorp/consul#3076).
    #[test]
    fn absurd_samples_and_stored_estimates_do_not_poison() {
        let mut trend = Trend::resume(StoredTrend { min_ms: Some(f64::NAN), p95_ms: Some(13.0) });
        assert_eq!((trend.min_ns(), trend.p95_ns(), trend.refused()), (None, Some(13 * MS), 1));
        for ms in [12.0, 13.0, f64::NAN, 9_223_372_036_854_776.0, 12.0] {
            trend.observe(WindowView::from_ms(ms, ms));
        }
        assert_eq!((trend.refused(), trend.min_ns()), (3, Some(12 * MS)));
        for bad in [-1.0, f64::INFINITY, f64::NEG_INFINITY, 1e308, f64::NAN] {
            assert_eq!(WindowView::from_ms(bad, 1.0), None, "{bad}");
        }
        assert_eq!(WindowView::from_ms(-0.0, 5e-324).unwrap().min_ns, Some(0));
        let endless = WindowView { min_ns: Some(u64::MAX), ..WindowView::default() };
        assert_eq!((trend.observe(endless), trend.min_ns()), (Change::default(), Some(12 * MS)));
        let again = Trend::resume(trend.stored());
        assert_eq!((again.min_ns(), again.refused()), (trend.min_ns(), 0));
    }
}
