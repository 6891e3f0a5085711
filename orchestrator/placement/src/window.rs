//! Time of day: price windows integrated exactly over a run, and the openings of an order's own window.

mod day;

use crate::problem::HOUR;
use day::Day;
use jiff::Timestamp;
use num_traits::{CheckedAdd, CheckedMul};
use rhumb_model::{
    order::Window,
    price::{PriceBook, PriceWindow},
    ratio::{Decimal, Ratio},
};
use std::cell::RefCell;

/// How far ahead an opening of the order's window is looked for.
pub(crate) const OUTLOOK: i128 = 400 * 24 * HOUR;

/// A price book's factor over time, kept from one decision to the next; known as far as anyone has asked.
#[derive(Debug, Clone)]
pub(crate) struct Tariff {
    book: PriceBook,
    /// Instants here count in nanoseconds from this one on.
    base: Timestamp,
    pieces: Vec<Piece>,
    /// Every instant at which a window opens or closes, ascending, also where the factor stays.
    edges: Vec<i128>,
    known: i128,
    endless: bool,
    /// A common denominator of all factors.
    scale: i128,
    /// Factors times `scale`: no factor is lower, or higher.
    lowest: i128,
    highest: i128,
    /// No zone changes its clocks from `base` until then.
    steady: Option<i128>,
    /// Any day until then.
    day: Option<Day>,
}

/// A time of one factor, until the next piece begins; the last holds until `known`, or for ever.
#[derive(Debug, Clone, Copy)]
struct Piece {
    from: i128,
    /// Times `Tariff::scale`.
    factor: i128,
    /// The integral of the factor from `base` to `from`.
    before: i128,
}

/// A tariff as seen from an order's submission: all times count in nanoseconds from there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meter<'t> {
    tariff: &'t RefCell<Tariff>,
    submit: Timestamp,
}

/// Beyond this age a tariff's pieces are learned anew, so that they do not pile up.
const AGE: i128 = 40 * DAY;

const DAY: i128 = 24 * HOUR;

impl Tariff {
    pub fn new(windows: &[PriceWindow], base: Timestamp) -> Self {
        let book = PriceBook { windows: windows.to_vec(), ..PriceBook::default() };
        let denominators = book.windows.iter().map(|w| *w.factor.ratio().denom());
        let scale = denominators.fold(1, |scale, d| scale / gcd(scale, d) * d);
        let factors = || book.windows.iter().map(|w| w.factor.ratio()).chain([Ratio::from_integer(1)]);
        let scaled = |factor: Option<Ratio>| factor.map_or(scale, |f| f.numer() * (scale / f.denom()));
        let (lowest, highest) = (scaled(factors().min()), scaled(factors().max()));
        let (pieces, edges) = (Vec::new(), Vec::new());
        let endless = book.windows.is_empty();
        let mut tariff =
            Self { book, base, pieces, edges, known: 0, endless, scale, lowest, highest, steady: None, day: None };
        tariff.rebase(base);
        tariff
    }

    /// Factor 0 where the order's window is open, 1 where it is closed.
    pub fn openings(window: &Window, submit: Timestamp) -> Self {
        let open = PriceWindow { from: window.from, to: window.to, tz: window.tz.clone(), factor: Decimal::ZERO };
        Self::new(&[open], submit)
    }

    fn rebase(&mut self, base: Timestamp) {
        let factor = self.factor_at(base);
        self.base = base;
        self.pieces = vec![Piece { from: 0, factor, before: 0 }];
        self.edges.clear();
        self.known = 0;
        self.endless = self.book.windows.is_empty();
        let changes = self.book.windows.iter().filter_map(|w| w.tz.time_zone().following(base).next());
        self.steady = changes.map(|t| t.timestamp().as_nanosecond() - base.as_nanosecond()).min();
        self.day = None;
        if !self.endless && self.highest < 1 << 14 && self.steady.is_none_or(|steady| steady > 4 * DAY) {
            self.extend(2 * DAY);
            self.day = self.any_day();
        }
    }

    /// The second day from the base on, as every day is until the clocks change.
    fn any_day(&self) -> Option<Day> {
        let narrow = |wide: i128| i64::try_from(wide).ok();
        let begin = self.sum(DAY, 1)?;
        let at_begin = self.pieces.iter().rfind(|p| p.from <= DAY)?;
        let mut pieces = vec![(0, narrow(at_begin.factor)?, 0)];
        for piece in self.pieces.iter().filter(|p| (DAY + 1..2 * DAY).contains(&p.from)) {
            pieces.push((narrow(piece.from - DAY)?, narrow(piece.factor)?, narrow(piece.before - begin)?));
        }
        let edges = self.edges.iter().filter(|e| (DAY..2 * DAY).contains(*e));
        let edges = edges.map(|e| narrow(e - DAY)).collect::<Option<_>>()?;
        Some(Day { pieces, edges, whole: narrow(self.sum(2 * DAY, 1)? - begin)? })
    }

    /// The day, and two instants from the base, where every day up to the later is like any other.
    fn days(&self, from: i128, until: i128) -> Option<(&Day, i64, i64)> {
        let day = self.day.as_ref()?;
        let steady = self.steady.is_none_or(|steady| until < steady);
        let (from, until) = (i64::try_from(from).ok()?, i64::try_from(until).ok()?);
        // no sum up to there is more than 64 bits hold
        let narrow = i128::from(until) < (1 << 62) / self.highest.max(1);
        (steady && narrow && from >= 0).then_some((day, from, until))
    }

    fn factor_at(&self, at: Timestamp) -> i128 {
        let factor = self.book.factor_at(at);
        factor.numer() * (self.scale / factor.denom())
    }

    /// Whether the factor never changes.
    fn is_flat(&self) -> bool {
        self.endless && self.pieces.len() == 1
    }

    /// Nanoseconds from the base to `submit`, after moving the base where that is needed.
    fn since(&mut self, submit: Timestamp) -> i128 {
        let offset = submit.as_nanosecond() - self.base.as_nanosecond();
        if (0..=AGE).contains(&offset) && self.steady.is_none_or(|steady| offset < steady) {
            return offset;
        }
        self.rebase(submit);
        0
    }

    /// Learns all pieces up to `until`.
    fn extend(&mut self, until: i128) {
        while !self.endless && self.known <= until {
            let Some((known, factor)) = self.like_the_day_before().or_else(|| self.following()) else {
                self.endless = true;
                return;
            };
            self.known = known;
            self.edges.push(known);
            if let Some(last) = self.pieces.last().copied().filter(|last| last.factor != factor) {
                let before = last.before + last.factor * (self.known - last.from);
                self.pieces.push(Piece { from: self.known, factor, before });
            }
        }
    }

    /// The edge after those that are known, and the factor from then on. `None`: there is none.
    fn following(&self) -> Option<(i128, i128)> {
        let at = Timestamp::from_nanosecond(self.base.as_nanosecond() + self.known).ok()?;
        let next = self.book.next_edge(at)?;
        Some((next.as_nanosecond() - self.base.as_nanosecond(), self.factor_at(next)))
    }

    /// The same where that edge follows from the day before. `None`: it does not.
    fn like_the_day_before(&self) -> Option<(i128, i128)> {
        // the first day and a bit are read from the book
        let since = self.known.checked_sub(DAY).filter(|since| *since > 0)?;
        let before = *self.edges.get(self.edges.partition_point(|edge| *edge <= since))?;
        let next = before + DAY;
        // nor is there a day after the last that an instant can name
        if self.base.as_nanosecond() + next > Timestamp::MAX.as_nanosecond() {
            return None;
        }
        if self.steady.is_some_and(|steady| next + DAY >= steady) {
            return None;
        }
        let piece = self.pieces.partition_point(|piece| piece.from <= before).checked_sub(1)?;
        Some((next, self.pieces[piece].factor))
    }

    /// The integral of the factor from the base to `at`, which is known; times `scale`, both in parts of a nanosecond of
    /// which there are `unit` in one. `None`: out of range.
    fn sum(&self, at: i128, unit: i128) -> Option<i128> {
        let instant = if unit == 1 { at } else { at.div_euclid(unit) };
        let index = self.pieces.partition_point(|piece| piece.from <= instant).saturating_sub(1);
        let piece = &self.pieces[index];
        if unit == 1 {
            return i128::checked_add(piece.before, i128::checked_mul(piece.factor, at - piece.from)?);
        }
        let within = i128::checked_sub(at, i128::checked_mul(piece.from, unit)?)?;
        i128::checked_add(i128::checked_mul(piece.before, unit)?, i128::checked_mul(piece.factor, within)?)
    }
}

impl<'t> Meter<'t> {
    pub fn new(tariff: &'t RefCell<Tariff>, submit: Timestamp) -> Self {
        Self { tariff, submit }
    }

    /// Whether the factor never changes.
    pub fn is_flat(&self) -> bool {
        self.tariff.borrow().is_flat()
    }

    /// No factor is lower, none is higher.
    pub fn factors(&self) -> (Ratio, Ratio) {
        let tariff = self.tariff.borrow();
        (Ratio::new(tariff.lowest, tariff.scale), Ratio::new(tariff.highest, tariff.scale))
    }

    /// Equal for meters of one tariff.
    pub fn key(&self) -> usize {
        std::ptr::from_ref(self.tariff).addr()
    }

    /// No start gives a lower integral over `length`: whole days cost what any day does, and the rest the least of a
    /// day's starts. A clock change shifts a run by at most an hour, which is taken off for each that a run may meet.
    /// Whole nanoseconds, in parts as `whole` counts them.
    pub fn least(&self, length: i128) -> Option<(i128, i128)> {
        let (lowest, highest, scale) = self.swing();
        let flat = i128::checked_mul(length, lowest)?;
        if lowest == highest {
            return Some((flat, scale));
        }
        let rest = length % DAY;
        let at = |start: i128| self.whole(start, rest).map(|(sum, _)| sum);
        let mut least = at(DAY)?;
        // a least stretch begins or ends at an edge
        for edge in self.edges(&Ratio::from_integer(DAY), &Ratio::from_integer(2 * DAY)) {
            least = least.min(at(edge)?).min(at(edge - rest)?);
        }
        let whole = i128::checked_mul(self.whole(DAY, DAY)?.0, length / DAY)?;
        let shifts = self.clock_changes(length);
        let slack = (highest - lowest).checked_mul(2 * HOUR * shifts)?;
        Some((i128::checked_sub(i128::checked_add(whole, least)?, slack)?.max(flat), scale))
    }

    /// The lowest and the highest factor, in parts of which there are `.2` in one.
    pub fn swing(&self) -> (i128, i128, i128) {
        let tariff = self.tariff.borrow();
        if tariff.is_flat() {
            let factor = tariff.pieces[0].factor;
            return (factor, factor, tariff.scale);
        }
        (tariff.lowest, tariff.highest, tariff.scale)
    }

    /// How many clock changes a run of this length can meet, at most; 0 where the zones have none ahead.
    fn clock_changes(&self, length: i128) -> i128 {
        if self.daily_until(2 * OUTLOOK) {
            return 0;
        }
        // zones change their clocks a few times a year; six covers all that are known
        2 + length / (60 * DAY)
    }

    /// Whether every day is like the one before, up to `until`: no zone changes its clocks before.
    pub fn daily_until(&self, until: i128) -> bool {
        let mut tariff = self.tariff.borrow_mut();
        let offset = tariff.since(self.submit);
        tariff.steady.is_none_or(|steady| steady - offset > until)
    }

    /// Edges later than `after`, up to `until`.
    pub fn edges(&self, after: &Ratio, until: &Ratio) -> Vec<i128> {
        let mut tariff = self.tariff.borrow_mut();
        let offset = tariff.since(self.submit);
        tariff.extend(offset + until.ceil().to_integer());
        // whole instants: later than `after` is later than its floor, up to `until` is up to its floor
        let (after, until) = (offset + after.floor().to_integer(), offset + until.floor().to_integer());
        let first = tariff.edges.partition_point(|e| *e <= after);
        tariff.edges[first..].iter().take_while(|e| **e <= until).map(|e| e - offset).collect()
    }

    /// The integral of the factor over [start, start + length), in nanoseconds. `None`: out of range.
    pub fn integral(&self, start: &Ratio, length: &Ratio) -> Option<Ratio> {
        let mut tariff = self.tariff.borrow_mut();
        if tariff.is_flat() {
            return length.checked_mul(&Ratio::new(tariff.pieces[0].factor, tariff.scale));
        }
        let offset = tariff.since(self.submit);
        // everything as whole numbers of one unit: 1/unit ns, and 1/scale of the factor
        let (s, l) = (*start.denom(), *length.denom());
        let unit = i128::checked_mul(s, l / gcd(s, l))?;
        let begin = i128::checked_add(i128::checked_mul(*start.numer(), unit / s)?, i128::checked_mul(offset, unit)?)?;
        let end = i128::checked_add(begin, i128::checked_mul(*length.numer(), unit / l)?)?;
        tariff.extend(end.div_euclid(unit) + 1);
        let sum = i128::checked_sub(tariff.sum(end, unit)?, tariff.sum(begin, unit)?)?;
        Some(Ratio::new(sum, i128::checked_mul(unit, tariff.scale)?))
    }

    /// The integral over whole nanoseconds, in parts of which there are `.1` in one. `None`: out of range.
    pub fn whole(&self, start: i128, length: i128) -> Option<(i128, i128)> {
        let mut tariff = self.tariff.borrow_mut();
        if tariff.is_flat() {
            return Some((i128::checked_mul(tariff.pieces[0].factor, length)?, tariff.scale));
        }
        let offset = tariff.since(self.submit);
        let end = i128::checked_add(i128::checked_add(offset, start)?, length)?;
        if let Some((day, begin, end)) = tariff.days(offset + start, end) {
            return Some((i128::from(day.sum(end) - day.sum(begin)), tariff.scale));
        }
        tariff.extend(end + 1);
        Some((i128::checked_sub(tariff.sum(end, 1)?, tariff.sum(offset + start, 1)?)?, tariff.scale))
    }

    /// The least of `whole` over all starts from one instant to another: at either, or where the run begins or ends at an
    /// edge between.
    pub fn least_from(&self, from: i128, to: i128, length: i128) -> Option<(i128, i128)> {
        if to - from < DAY {
            let mut tariff = self.tariff.borrow_mut();
            let offset = tariff.since(self.submit);
            if let Some((day, begin, _)) = tariff.days(offset + from, offset + to + length)
                && let (Ok(more), Ok(length)) = (i64::try_from(to - from), i64::try_from(length))
            {
                return Some((i128::from(day.least(begin, begin + more, length)), tariff.scale));
            }
        }
        let (mut least, scale) = self.whole(from, length)?;
        if to == from || self.is_flat() {
            return Some((least, scale));
        }
        least = least.min(self.whole(to, length)?.0);
        let within = |shift: i128| self.edges(&Ratio::from_integer(from + shift), &Ratio::from_integer(to + shift));
        for start in within(0).into_iter().chain(within(length).into_iter().map(|edge| edge - length)) {
            least = least.min(self.whole(start, length)?.0);
        }
        Some((least, scale))
    }

    /// The beginning of the first opening (factor 0) that holds `length` from its beginning, or from submission on.
    /// Looks as far as `until`.
    pub fn first_opening(&self, length: &Ratio, until: i128) -> Option<i128> {
        let mut tariff = self.tariff.borrow_mut();
        let offset = tariff.since(self.submit);
        let mut index = tariff.pieces.partition_point(|piece| piece.from <= offset).saturating_sub(1);
        loop {
            while index >= tariff.pieces.len() {
                if tariff.endless || tariff.known > offset + until {
                    return None;
                }
                let known = tariff.known;
                tariff.extend(known);
            }
            let Piece { from, factor, .. } = tariff.pieces[index];
            let from = from.max(offset);
            if from > offset + until {
                return None;
            }
            if factor == 0 {
                let end = Ratio::from_integer(from).checked_add(length)?;
                tariff.extend(end.ceil().to_integer());
                if tariff.pieces.get(index + 1).is_none_or(|next| end <= Ratio::from_integer(next.from)) {
                    return Some(from - offset);
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
        let submit = "2026-11-30T13:30:00Z".parse().unwrap();
        let tariff = RefCell::new(Tariff::new(&night("0.6").windows, submit));
        let t = Meter::new(&tariff, submit);
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
                let submit = "2026-10-30T13:30:00Z".parse().unwrap();
                let tariff = RefCell::new(Tariff::new(&book.windows, submit));
                let t = Meter::new(&tariff, submit);
                let length = hours(minutes, 60);
                let (least, scale) = t.least(length.to_integer()).unwrap();
                let least = Ratio::new(least, scale);
                for start in 0..96 {
                    assert!(least <= t.integral(&hours(start, 1), &length).unwrap(), "{zone} {minutes} {start}");
                }
            }
        }
        let submit = "2026-11-30T13:30:00Z".parse().unwrap();
        let tariff = RefCell::new(Tariff::new(&night("0.6").windows, submit));
        let t = Meter::new(&tariff, submit);
        let (least, scale) = t.least(12 * HOUR).unwrap();
        assert_eq!(Ratio::new(least, scale), hours(6, 1) + hours(2, 1));
    }

    #[test]
    fn the_least_from_a_span_of_starts_is_that_of_its_best_start() {
        for zone in ["Asia/Shanghai", "America/New_York"] {
            let mut book = night("0.6");
            book.windows[0].tz = zone.parse().unwrap();
            // before, over and after a change of the clocks in New York
            for submit in ["2026-07-30T13:30:00Z", "2026-10-31T13:30:00Z", "2026-11-03T07:10:00Z"] {
                let submit = submit.parse().unwrap();
                let tariff = RefCell::new(Tariff::new(&book.windows, submit));
                let t = Meter::new(&tariff, submit);
                for (from, to, length) in
                    [(0, 90, 600), (300, 1_300, 100), (1_000, 1_010, 2_000), (20, 4_000, 777), (7, 7, 9)]
                {
                    let minute = HOUR / 60;
                    let (least, scale) = t.least_from(from * minute, to * minute, length * minute).unwrap();
                    // windows begin and end on whole minutes: so does the best start
                    let best =
                        (from..=to).map(|m| t.integral(&hours(m, 60), &hours(length, 60)).unwrap()).min().unwrap();
                    assert_eq!(Ratio::new(least, scale), best, "{zone} {submit} {from} {to} {length}");
                }
            }
        }
    }

    #[test]
    fn a_tariff_answers_alike_whatever_it_was_asked_before() {
        let mut book = night("0.6");
        book.windows[0].tz = "America/New_York".parse().unwrap();
        let first: Timestamp = "2026-10-20T13:30:00Z".parse().unwrap();
        let kept = RefCell::new(Tariff::new(&book.windows, first));
        for at in [
            "2026-10-20T13:30:00Z",
            "2026-10-29T01:00:00Z",
            "2026-11-02T00:00:00Z",
            "2026-10-25T11:11:00Z",
            "2027-05-01T00:00:00Z",
        ] {
            let submit: Timestamp = at.parse().unwrap();
            let fresh = RefCell::new(Tariff::new(&book.windows, submit));
            let (kept, fresh) = (Meter::new(&kept, submit), Meter::new(&fresh, submit));
            for (start, length) in [(0, 5), (7, 24), (300, 1000)] {
                let (start, length) = (hours(start, 3), hours(length, 7));
                assert_eq!(kept.integral(&start, &length), fresh.integral(&start, &length));
                assert_eq!(kept.edges(&start, &(start + length)), fresh.edges(&start, &(start + length)));
                assert_eq!(kept.least(length.to_integer()), fresh.least(length.to_integer()));
            }
            assert_eq!(kept.daily_until(4 * DAY), fresh.daily_until(4 * DAY));
        }
    }

    #[test]
    fn an_opening_holds_from_submission_if_enough_is_left_else_the_next_one_does() {
        let window = Window {
            from: "22:00".parse().unwrap(),
            to: "06:00".parse().unwrap(),
            tz: "Asia/Shanghai".parse().unwrap(),
        };
        // 04:00 in Shanghai
        let submit = "2026-11-30T20:00:00Z".parse().unwrap();
        let tariff = RefCell::new(Tariff::openings(&window, submit));
        let t = Meter::new(&tariff, submit);
        assert_eq!(t.first_opening(&hours(2, 1), 400 * 24 * HOUR), Some(0));
        assert_eq!(t.first_opening(&(hours(2, 1) + Ratio::new(1, 3)), 400 * 24 * HOUR), Some(18 * HOUR));
        assert_eq!(t.first_opening(&hours(8, 1), 400 * 24 * HOUR), Some(18 * HOUR));
        assert_eq!(t.first_opening(&(hours(8, 1) + Ratio::new(1, 3)), 30 * 24 * HOUR), None);
    }
}
