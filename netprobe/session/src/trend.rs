//! What a link's windows say over time: whether the path is still the one it was, and whether anything is known of it.
//! Which figure a decision rests on is decided where decisions are made.

use serde::{Deserialize, Serialize};

use crate::Record;
use crate::sample::LONGEST_NS;

/// Windows in a row that must say the same before it counts.
const PATIENCE: usize = 3;
/// The least round trip has moved when it is off by this share and this much: queues hardly touch it.
const MOVED_PERCENT: u64 = 5;
const MOVED_NS: u64 = 300_000;

/// What one window contributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowView {
    /// Least round trip in nanoseconds; `None` if nothing was measured.
    pub min_ns: Option<u64>,
    /// Time to live of the probe at the reflector, and of the answer here.
    pub ttl: (Option<u8>, Option<u8>),
    /// Whether a time to live differed within the window.
    pub ttl_changed: bool,
}

/// Follows the windows of one link.
#[derive(Debug, Clone, Default)]
pub struct Trend {
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

impl From<&Record> for WindowView {
    fn from(record: &Record) -> Self {
        Self {
            min_ns: record.round_trips.least_ns(),
            ttl: (record.path.ttl_forward, record.path.ttl_backward),
            ttl_changed: record.path.changed,
        }
    }
}

impl Trend {
    /// Takes in the next window; what it has shown. One that cannot be is refused and counted.
    pub fn observe(&mut self, view: WindowView) -> Change {
        self.change = Change::default();
        if view.min_ns.is_some_and(|ns| ns > LONGEST_NS) {
            self.refused += 1;
            return self.change;
        }
        let Some(min_ns) = view.min_ns else {
            self.missed += 1;
            return self.change;
        };
        self.missed = 0;
        let differ = |a: Option<u8>, b: Option<u8>| a.is_some() && b.is_some() && a != b;
        let hops = view.ttl_changed || differ(self.ttl.0, view.ttl.0) || differ(self.ttl.1, view.ttl.1);
        self.ttl = (view.ttl.0.or(self.ttl.0), view.ttl.1.or(self.ttl.1));
        let min_moved = self.follow_floor(min_ns);
        self.change = Change { min_moved, path_changed: hops || min_moved.is_some() };
        self.change
    }

    /// Least round trip that the path is known by, in nanoseconds; `None` before the first window with a measurement.
    pub fn floor_ns(&self) -> Option<u64> {
        self.floor_ns
    }

    /// Whether the last windows, or all so far, have measured nothing: what is shown is old, not zero and not endless.
    pub fn is_stale(&self) -> bool {
        self.missed >= PATIENCE
    }

    /// Windows that could not be.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// What the last window has shown.
    pub fn change(&self) -> Change {
        self.change
    }

    fn follow_floor(&mut self, min_ns: u64) -> Option<(u64, u64)> {
        let floor_ns = *self.floor_ns.get_or_insert(min_ns);
        if min_ns.abs_diff(floor_ns) <= MOVED_NS.max(floor_ns / 100 * MOVED_PERCENT) {
            self.off_floor.clear();
            self.floor_ns = Some(floor_ns.min(min_ns));
            return None;
        }
        // only what lies on one side counts together
        self.off_floor.retain(|before| (*before > floor_ns) == (min_ns > floor_ns));
        self.off_floor.push(min_ns);
        if self.off_floor.len() < PATIENCE {
            return None;
        }
        let to_ns = self.off_floor.drain(..).min()?;
        self.floor_ns = Some(to_ns);
        Some((floor_ns, to_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn view(min_ms: f64) -> WindowView {
        WindowView { min_ns: Some((min_ms * MS as f64) as u64), ..WindowView::default() }
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
            assert_eq!(trend.floor_ns(), Some(20 * MS));
        }
        trend.observe(view(20.0));
        assert!(!trend.is_stale());
        let mut never = Trend::default();
        for _ in 0..3 {
            never.observe(WindowView::default());
        }
        assert!(never.is_stale() && never.floor_ns().is_none());
    }

    #[test]
    fn an_absurd_window_is_refused_and_leaves_no_trace() {
        let mut trend = Trend::default();
        trend.observe(view(12.0));
        for _ in 0..3 {
            let endless = WindowView { min_ns: Some(u64::MAX), ..WindowView::default() };
            assert_eq!((trend.observe(endless), trend.floor_ns()), (Change::default(), Some(12 * MS)));
        }
        assert_eq!((trend.refused(), trend.is_stale()), (3, false));
    }
}
