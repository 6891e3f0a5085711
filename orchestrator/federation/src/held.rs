//! A figure that moves only when windows insist, so that plans do not flap with what merely jitters.

/// Windows in a row that must say that a figure has moved.
const WINDOWS: usize = 3;
/// The smallest move that counts, in microseconds, and the smallest part of the figure (one in ten).
const MOVE: u64 = 1_000;
const PART: u64 = 10;

/// A round trip in microseconds, held until three windows in a row lie on one side of it by more than 10 % and 1 ms. Windows on
/// both sides move it too, when their average (a quarter of it is the last window) stays away for twice as long. A figure that
/// few windows bear out gives way sooner: the second window alone moves the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    shown: u64,
    smooth: u64,
    /// Windows in a row that the average has lain outside of the band.
    smooth_off: usize,
    /// Windows in a row within the band.
    calm: usize,
    /// Windows outside of it on one side, one after the other.
    off: Vec<u64>,
    /// Windows so far, as many as matter.
    seen: usize,
}

impl Held {
    pub(crate) fn new(micros: u64) -> Self {
        Self { shown: micros, smooth: micros, smooth_off: 0, calm: 0, off: Vec::new(), seen: 1 }
    }

    pub(crate) fn micros(&self) -> u64 {
        self.shown
    }

    /// Takes in the next window.
    pub(crate) fn observe(&mut self, micros: u64) {
        let needed = self.seen.min(WINDOWS);
        self.seen = (self.seen + 1).min(WINDOWS);
        self.smooth = (3 * self.smooth + micros) / 4;
        self.smooth_off = if self.is_within(self.smooth) { 0 } else { self.smooth_off + 1 };
        if self.is_within(micros) {
            self.off.clear();
            self.calm += 1;
        } else {
            let shown = self.shown;
            self.off.retain(|before| (*before > shown) == (micros > shown));
            self.off.push(micros);
            self.calm = 0;
        }
        if self.calm >= WINDOWS {
            (self.smooth, self.smooth_off) = (self.shown, 0);
        } else if self.off.len() >= needed {
            self.off.sort_unstable();
            self.show(self.off[self.off.len() / 2]);
        } else if self.smooth_off >= 2 * WINDOWS {
            self.show(self.smooth);
        }
    }

    fn is_within(&self, micros: u64) -> bool {
        micros.abs_diff(self.shown) <= MOVE.max(self.shown / PART)
    }

    fn show(&mut self, micros: u64) {
        *self = Self { seen: self.seen, ..Self::new(micros) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is shown after each window, in milliseconds.
    fn shown(held: &mut Held, windows: &[u64]) -> Vec<u64> {
        let show = |ms: &u64| {
            held.observe(ms * 1_000);
            held.micros() / 1_000
        };
        windows.iter().map(show).collect()
    }

    fn settled(ms: u64) -> Held {
        let mut held = Held::new(ms * 1_000);
        shown(&mut held, &[ms; 3]);
        held
    }

    #[test]
    fn small_moves_and_short_ones_do_not_show() {
        let mut held = settled(20);
        assert_eq!(shown(&mut held, &[20, 21, 22, 18, 19, 20]), [20; 6]);
        assert_eq!(shown(&mut held, &[60, 20, 60, 21, 20, 20]), [20; 6]);
        assert_eq!(shown(&mut held, &[60, 61, 60, 62]), [20, 20, 60, 60]);
        // a millisecond matters nowhere, whatever its share
        let mut near = Held::new(200);
        for _ in 0..9 {
            near.observe(1_200);
        }
        assert_eq!(near.micros(), 200);
    }

    #[test]
    fn windows_on_both_sides_show_their_average() {
        let windows: Vec<_> = (0..10).map(|window| if window % 2 == 0 { 40 } else { 20 }).collect();
        let last = *shown(&mut settled(20), &windows).last().unwrap();
        assert!((25..=35).contains(&last), "{last}");
    }

    #[test]
    fn what_few_windows_bear_out_gives_way_sooner() {
        assert_eq!(shown(&mut Held::new(90_000), &[20, 90, 90, 90, 90]), [20, 20, 20, 90, 90]);
    }

    proptest! {
        /// Nothing shown lies outside of what came, and windows that agree are shown, whatever was before.
        /// What was off on the same side before may win once, and then the average once more.
        #[test]
        fn what_is_shown_came(windows in prop::collection::vec(1_u64..60_000_000, 1..40), last in 1_u64..60_000_000) {
            let mut held = Held::new(windows[0]);
            windows[1..].iter().for_each(|window| held.observe(*window));
            let (least, most) = (windows.iter().min().unwrap(), windows.iter().max().unwrap());
            prop_assert!((*least..=*most).contains(&held.micros()));
            (0..9).for_each(|_| held.observe(last));
            prop_assert!(held.micros().abs_diff(last) <= MOVE.max(held.micros() / PART));
        }
    }
}
