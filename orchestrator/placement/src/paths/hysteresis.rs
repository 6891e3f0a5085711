//! A choice among measured things is kept until another is better by enough, for long enough, and worth the move.
//!
//! Figures jitter: of two equal ones now this, now that one looks better, and without a threshold an order would flap
//! between them. One lost probe says nothing either. Time comes in as samples, so nothing here reads a clock.

use rhumb_model::quantity::Span;
use std::collections::BTreeMap;

/// When a move is made. A gain counts if it is above both thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// In the unit of the figures.
    pub absolute: u64,
    /// Of the figure in use, in thousandths.
    pub thousandths: u64,
    /// Samples in a row in which one and the same other must be better by that much.
    pub samples: u32,
    /// Samples in a row without a figure after which a thing counts as gone.
    pub lost: u32,
}

impl Threshold {
    /// For delays in microseconds: 1 ms and a tenth, twice; three losses in a row.
    pub const DELAY: Self = Self { absolute: 1_000, thousandths: 100, samples: 2, lost: 3 };
    /// For costs in micro-units: a tenth of a unit and a twentieth, twice.
    pub const COST: Self = Self { absolute: 100_000, thousandths: 50, samples: 2, lost: 3 };

    /// Whether `new` is better than `old` (smaller) by more than both thresholds.
    pub fn passes(self, old: u64, new: u64) -> bool {
        let gain = old.saturating_sub(new);
        gain > self.absolute && u128::from(gain) * 1_000 > u128::from(old) * u128::from(self.thousandths)
    }
}

/// The thing in use, and what the last samples said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice<K> {
    current: K,
    threshold: Threshold,
    /// The last figure of the thing in use, and samples in a row without one.
    figure: Option<u64>,
    lost: u32,
    /// Who has been better, for how many samples in a row.
    better: Option<(K, u32)>,
}

impl<K: Ord + Clone> Choice<K> {
    pub fn new(current: K, threshold: Threshold) -> Self {
        Self { current, threshold, figure: None, lost: 0, better: None }
    }

    pub fn current(&self) -> &K {
        &self.current
    }

    /// Takes one sample of all figures, smaller is better; what has no entry was not heard of in it. Returns the new
    /// choice where this sample makes one. `worth` has the last word on a move that the figures call for.
    pub fn sample(&mut self, figures: &BTreeMap<K, u64>, worth: impl FnOnce(&K) -> bool) -> Option<&K> {
        match figures.get(&self.current) {
            Some(figure) => (self.figure, self.lost) = (Some(*figure), 0),
            None => self.lost = self.lost.saturating_add(1),
        }
        let gone = self.lost >= self.threshold.lost.max(1);
        // only what was heard of just now can be moved to
        let others = figures.iter().filter(|(key, _)| **key != self.current);
        let (next, figure) = others.min_by_key(|(key, figure)| (**figure, *key))?;
        let wanted = gone || self.figure.is_some_and(|own| self.threshold.passes(own, *figure));
        if !wanted {
            self.better = None;
            return None;
        }
        let before = self.better.take().filter(|(key, _)| key == next).map_or(0, |(_, samples)| samples);
        let samples = before.saturating_add(1);
        self.better = Some((next.clone(), samples));
        // what is gone is left at once: its samples have been lost for long enough
        if (!gone && samples < self.threshold.samples) || !worth(next) {
            return None;
        }
        self.better = None;
        self.current = next.clone();
        (self.figure, self.lost) = (Some(*figure), 0);
        Some(&self.current)
    }
}

/// Whether moving work pays: what it saves per hour over the time that it still runs exceeds what the move costs.
pub fn pays(saved_micros_per_hour: i64, remaining: Span, move_micros: i64) -> bool {
    let hour = 3_600_000_000_i128;
    i128::from(saved_micros_per_hour) * i128::from(remaining.micros()) > i128::from(move_micros) * hour
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(of: &[(&'static str, u64)]) -> BTreeMap<&'static str, u64> {
        of.iter().copied().collect()
    }

    /// Case H-O18: two equal regions whose delays alternate, one lost probe, and then a real change.
    #[test]
    fn equal_regions_do_not_flap_and_a_lasting_gain_moves_once() {
        let mut choice = Choice::new("s1", Threshold { samples: 3, ..Threshold::DELAY });
        let mut moves = Vec::new();
        for cycle in 1..=100_u64 {
            let (mut s1, s2) = (Some(20_000 + 1_000 * (cycle % 2)), 21_000 - 1_000 * (cycle % 2));
            if cycle == 50 {
                s1 = None;
            }
            let figures = s1.into_iter().map(|f| ("s1", f)).chain([("s2", s2)]).collect();
            moves.extend(choice.sample(&figures, |_| true).map(|to| (cycle, *to)));
        }
        assert_eq!(moves, []);
        for cycle in 101..=200 {
            let figures = sample(&[("s1", 60_000), ("s2", 20_000)]);
            moves.extend(choice.sample(&figures, |_| true).map(|to| (cycle, *to)));
        }
        assert_eq!(moves, [(103, "s2")]);
    }

    #[test]
    fn a_gain_that_does_not_last_moves_nothing() {
        let mut choice = Choice::new("a", Threshold::DELAY);
        for cycle in 0..20 {
            let a = if cycle % 2 == 0 { 60_000 } else { 20_000 };
            assert_eq!(choice.sample(&sample(&[("a", a), ("b", 20_000)]), |_| true), None);
        }
        // nor one that two others have in turn
        for cycle in 0..20 {
            let (b, c) = if cycle % 2 == 0 { (10_000, 11_000) } else { (11_000, 10_000) };
            assert_eq!(choice.sample(&sample(&[("a", 60_000), ("b", b), ("c", c)]), |_| true), None);
        }
    }

    #[test]
    fn what_is_gone_is_left_after_the_losses_allowed() {
        let mut choice = Choice::new("a", Threshold::DELAY);
        assert_eq!(choice.sample(&sample(&[("a", 20_000), ("b", 30_000)]), |_| true), None);
        let without = sample(&[("b", 30_000)]);
        assert_eq!(choice.sample(&without, |_| true), None);
        assert_eq!(choice.sample(&without, |_| true), None);
        assert_eq!(choice.sample(&without, |_| true), Some(&"b"));
        assert_eq!(choice.current(), &"b");
    }

    #[test]
    fn a_long_job_moves_only_for_more_than_the_move_costs() {
        let hours = |h: u64| Span::from_micros(h * 3_600_000_000);
        assert!(pays(2_000_000, hours(6), 11_999_999));
        assert!(!pays(2_000_000, hours(6), 12_000_000));
        assert!(!pays(-1, hours(6), 0));
        let mut choice = Choice::new("a", Threshold::DELAY);
        let figures = sample(&[("a", 60_000), ("b", 20_000)]);
        for _ in 0..5 {
            assert_eq!(choice.sample(&figures, |_| pays(2_000_000, hours(6), 50_000_000)), None);
        }
        assert_eq!(choice.sample(&figures, |_| pays(2_000_000, hours(48), 50_000_000)), Some(&"b"));
    }

    #[test]
    fn a_gain_must_pass_both_thresholds() {
        let t = Threshold::DELAY;
        assert!(!t.passes(5_000, 4_000) && !t.passes(100_000, 90_000) && !t.passes(20_000, 30_000));
        assert!(t.passes(5_000, 3_999) && t.passes(100_000, 89_999));
        assert!(Threshold::COST.passes(10_000_000, 9_499_999) && !Threshold::COST.passes(1_000_000, 900_000));
    }
}
