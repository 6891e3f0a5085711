//! A day of a tariff whose days are all alike, in numbers that a bound can be reckoned with quickly.

/// A day that is like all others: its pieces, as (from, factor, integral before) in nanoseconds, and its integral.
#[derive(Debug, Clone)]
pub(super) struct Day {
    pub pieces: Vec<(i64, i64, i64)>,
    /// Instants within the day at which a window opens or closes.
    pub edges: Vec<i64>,
    pub whole: i64,
}

/// A day in nanoseconds.
const DAY: i64 = super::DAY as i64;

impl Day {
    /// The integral from the base to `at`.
    pub fn sum(&self, at: i64) -> i64 {
        let (days, within) = (at.div_euclid(DAY), at.rem_euclid(DAY));
        let (from, factor, before) =
            self.pieces.iter().rev().find(|(from, ..)| *from <= within).copied().unwrap_or((0, 0, 0));
        days * self.whole + before + factor * (within - from)
    }

    /// The least integral over `length` from any start in [from, to], where these are less than a day apart.
    pub fn least(&self, from: i64, to: i64, length: i64) -> i64 {
        let run = |start: i64| self.sum(start + length) - self.sum(start);
        let mut least = run(from).min(run(to));
        for edge in &self.edges {
            for first in [from, from + length] {
                let later = (edge - first).rem_euclid(DAY);
                if later < to - from {
                    least = least.min(run(from + later));
                }
            }
        }
        least
    }
}
