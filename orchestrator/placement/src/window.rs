//! Time of day: price windows integrated exactly over a run, and the openings of an order's own window.

use crate::problem::HOUR;
use jiff::Timestamp;
use num_traits::{CheckedAdd, CheckedMul, CheckedSub};
use rhumb_model::{
    order::Window,
    price::{PriceBook, PriceWindow},
    ratio::{Decimal, Ratio},
};

/// How far ahead an opening of the order's window is looked for.
pub(crate) const OUTLOOK: i128 = 400 * 24 * HOUR;

/// A price book's factor over time, counted in nanoseconds from submission; known as far as anyone has asked.
#[derive(Debug)]
pub(crate) struct Tariff {
    book: PriceBook,
    submit: Timestamp,
    /// Ends of pieces in order: (from, factor). The last holds until `known`, or for ever.
    pieces: Vec<(i128, Ratio)>,
    /// Every instant at which a window opens or closes, ascending, also where the factor stays.
    edges: Vec<i128>,
    known: i128,
    endless: bool,
    /// A common denominator of all factors.
    scale: i128,
}

impl Tariff {
    pub fn new(prices: &PriceBook, submit: Timestamp) -> Self {
        let book = PriceBook { windows: prices.windows.clone(), ..PriceBook::default() };
        let factor = book.factor_at(submit);
        let endless = book.windows.is_empty();
        let denominators = book.windows.iter().map(|w| *w.factor.ratio().denom());
        let scale = denominators.fold(1, |scale, d| scale / gcd(scale, d) * d);
        Self { book, submit, pieces: vec![(0, factor)], edges: Vec::new(), known: 0, endless, scale }
    }

    /// Factor 0 where the order's window is open, 1 where it is closed.
    pub fn openings(window: &Window, submit: Timestamp) -> Self {
        let open = PriceWindow { from: window.from, to: window.to, tz: window.tz.clone(), factor: Decimal::ZERO };
        Self::new(&PriceBook { windows: vec![open], ..PriceBook::default() }, submit)
    }

    /// Whether the factor never changes.
    pub fn is_flat(&self) -> bool {
        self.endless && self.pieces.len() == 1
    }

    /// No factor is lower.
    pub fn lowest(&self) -> Ratio {
        lowest_factor(&self.book)
    }

    /// No start gives a lower integral over `length`: whole days cost what any day does, and the rest the least of a
    /// day's starts. A clock change shifts a run by at most an hour, which is taken off for each that a run may meet.
    pub fn least(&mut self, length: &Ratio) -> Option<Ratio> {
        const DAY: i128 = 24 * HOUR;
        let lowest = self.lowest();
        if self.is_flat() {
            return length.checked_mul(&self.pieces[0].1);
        }
        let days = (length / Ratio::from_integer(DAY)).floor();
        let rest = length - days * Ratio::from_integer(DAY);
        let day = Ratio::from_integer(DAY);
        let mut least = self.integral(&day, &rest)?;
        // a least stretch begins or ends at an edge
        for edge in self.edges(&day, &Ratio::from_integer(2 * DAY)) {
            let edge = Ratio::from_integer(edge);
            least = least.min(self.integral(&edge, &rest)?).min(self.integral(&(edge - rest), &rest)?);
        }
        let whole = self.integral(&day, &day)?.checked_mul(&days)?;
        let shifts = self.clock_changes(length);
        let highest = self.book.windows.iter().map(|w| w.factor.ratio()).fold(Ratio::from_integer(1), Ratio::max);
        let slack = (highest - lowest) * Ratio::from_integer(2 * HOUR * shifts);
        Some(whole.checked_add(&least)?.checked_sub(&slack)?.max(length.checked_mul(&lowest)?))
    }

    /// How many clock changes a run of this length can meet, at most; 0 where the zones have none ahead.
    fn clock_changes(&self, length: &Ratio) -> i128 {
        if self.daily_until(2 * OUTLOOK) {
            return 0;
        }
        // zones change their clocks a few times a year; six covers all that are known
        2 + (length / Ratio::from_integer(60 * 24 * HOUR)).floor().to_integer()
    }

    /// Whether every day is like the one before, up to `until`: no zone changes its clocks before.
    pub fn daily_until(&self, until: i128) -> bool {
        let changes = self.book.windows.iter().filter_map(|w| w.tz.time_zone().following(self.submit).next());
        changes.map(|t| t.timestamp().as_nanosecond() - self.submit.as_nanosecond()).all(|at| at > until)
    }

    /// Learns all pieces up to `until`.
    fn extend(&mut self, until: i128) {
        while !self.endless && self.known <= until {
            let next = Timestamp::from_nanosecond(self.submit.as_nanosecond() + self.known)
                .ok()
                .and_then(|at| self.book.next_edge(at));
            let Some(next) = next else {
                self.endless = true;
                return;
            };
            self.known = next.as_nanosecond() - self.submit.as_nanosecond();
            self.edges.push(self.known);
            let factor = self.book.factor_at(next);
            if self.pieces.last().is_some_and(|(_, last)| *last != factor) {
                self.pieces.push((self.known, factor));
            }
        }
    }

    /// Edges later than `after`, up to `until`.
    pub fn edges(&mut self, after: &Ratio, until: &Ratio) -> Vec<i128> {
        self.extend(until.ceil().to_integer());
        let first = self.edges.partition_point(|e| Ratio::from_integer(*e) <= *after);
        self.edges[first..].iter().copied().take_while(|e| Ratio::from_integer(*e) <= *until).collect()
    }

    /// The integral of the factor over [start, start + length), in nanoseconds. `None`: out of range.
    pub fn integral(&mut self, start: &Ratio, length: &Ratio) -> Option<Ratio> {
        if self.is_flat() {
            return length.checked_mul(&self.pieces[0].1);
        }
        // everything as whole numbers of one unit: 1/unit ns, and 1/scale of the factor
        let (s, l) = (*start.denom(), *length.denom());
        let unit = i128::checked_mul(s, l / gcd(s, l))?;
        let begin = i128::checked_mul(*start.numer(), unit / s)?;
        let end = i128::checked_add(begin, i128::checked_mul(*length.numer(), unit / l)?)?;
        self.extend(end.div_euclid(unit) + 1);
        let first = begin.div_euclid(unit);
        let mut index = self.pieces.partition_point(|(from, _)| *from <= first).saturating_sub(1);
        let (mut sum, mut at) = (0_i128, begin);
        while let Some((_, factor)) = self.pieces.get(index) {
            let until = match self.pieces.get(index + 1) {
                Some((next, _)) => i128::checked_mul(*next, unit)?.min(end),
                None => end,
            };
            let factor = i128::checked_mul(*factor.numer(), self.scale / factor.denom())?;
            sum = i128::checked_add(sum, i128::checked_mul(factor, until - at)?)?;
            if until == end {
                break;
            }
            at = until;
            index += 1;
        }
        Some(Ratio::new(sum, i128::checked_mul(unit, self.scale)?))
    }

    /// The beginning of the first opening (factor 0) that holds `length` from its beginning, or from submission on.
    /// Looks as far as `until`.
    pub fn first_opening(&mut self, length: &Ratio, until: i128) -> Option<i128> {
        let mut index = 0;
        loop {
            while index >= self.pieces.len() {
                if self.endless || self.known > until {
                    return None;
                }
                self.extend(self.known);
            }
            let (from, factor) = self.pieces[index];
            if from > until {
                return None;
            }
            if factor == Ratio::from_integer(0) {
                let end = Ratio::from_integer(from).checked_add(length)?;
                self.extend(end.ceil().to_integer());
                if self.pieces.get(index + 1).is_none_or(|(next, _)| end <= Ratio::from_integer(*next)) {
                    return Some(from);
                }
            }
            index += 1;
        }
    }
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

/// The lowest factor that can ever hold: a window's, or 1 outside of all.
pub(crate) fn lowest_factor(prices: &PriceBook) -> Ratio {
    let one = Ratio::from_integer(1);
    prices.windows.iter().map(|w| w.factor.ratio()).fold(one, Ratio::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn night(factor: &str) -> PriceBook {
        let window = PriceWindow {
            from: "22:00".parse().unwrap(),
            to: "08:00".parse().unwrap(),
            tz: "Asia/Shanghai".parse().unwrap(),
            factor: factor.parse().unwrap(),
        };
        PriceBook { windows: vec![window], ..PriceBook::default() }
    }

    fn hours(n: i128, d: i128) -> Ratio {
        Ratio::new(n * HOUR, d)
    }

    #[test]
    fn a_run_over_an_edge_pays_each_part_at_its_own_factor() {
        // 21:30 in Shanghai: half an hour by day, then night until 08:00
        let mut t = Tariff::new(&night("0.6"), "2026-11-30T13:30:00Z".parse().unwrap());
        assert_eq!(t.integral(&hours(0, 1), &hours(2, 1)), Some(hours(1, 2) + hours(9, 10)));
        // a third of an hour later, exactly
        assert_eq!(t.integral(&hours(1, 3), &hours(1, 1)), Some(hours(1, 6) + hours(1, 2)));
        // a whole day: 14 h by day, 10 h at night
        assert_eq!(t.integral(&hours(5, 1), &hours(24, 1)), Some(hours(14, 1) + hours(6, 1)));
    }

    #[test]
    fn no_start_costs_less_than_the_least() {
        for zone in ["Asia/Shanghai", "America/New_York"] {
            let mut book = night("0.6");
            book.windows[0].tz = zone.parse().unwrap();
            for minutes in [30, 300, 600, 601, 900, 1440, 2000, 5000] {
                // over a change of the clocks in New York
                let mut t = Tariff::new(&book, "2026-10-30T13:30:00Z".parse().unwrap());
                let length = hours(minutes, 60);
                let least = t.least(&length).unwrap();
                for start in 0..96 {
                    assert!(least <= t.integral(&hours(start, 1), &length).unwrap(), "{zone} {minutes} {start}");
                }
            }
        }
        let mut t = Tariff::new(&night("0.6"), "2026-11-30T13:30:00Z".parse().unwrap());
        assert_eq!(t.least(&hours(12, 1)), Some(hours(6, 1) + hours(2, 1)));
    }

    #[test]
    fn an_opening_holds_from_submission_if_enough_is_left_else_the_next_one_does() {
        let window = Window {
            from: "22:00".parse().unwrap(),
            to: "06:00".parse().unwrap(),
            tz: "Asia/Shanghai".parse().unwrap(),
        };
        // 04:00 in Shanghai
        let mut t = Tariff::openings(&window, "2026-11-30T20:00:00Z".parse().unwrap());
        assert_eq!(t.first_opening(&hours(2, 1), 400 * 24 * HOUR), Some(0));
        assert_eq!(t.first_opening(&(hours(2, 1) + Ratio::new(1, 3)), 400 * 24 * HOUR), Some(18 * HOUR));
        assert_eq!(t.first_opening(&hours(8, 1), 400 * 24 * HOUR), Some(18 * HOUR));
        assert_eq!(t.first_opening(&(hours(8, 1) + Ratio::new(1, 3)), 30 * 24 * HOUR), None);
    }
}
