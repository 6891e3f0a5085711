//! Link capacity in time: slots of 15 minutes, and what is booked in each.

use crate::quantity::Bandwidth;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// A slot's length in microseconds.
const SLOT_US: i64 = 15 * 60 * 1_000_000;

/// Slots in a row, numbered from 1970-01-01T00:00Z: `first` up to but not including `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slots {
    first: u32,
    end: u32,
}

impl Slots {
    /// The slots that [from, until) touches; the one of `from` at the least. Times before 1970 count as 1970.
    pub fn touched(from: Timestamp, until: Timestamp) -> Self {
        let first = number(from.as_microsecond().div_euclid(SLOT_US));
        let last = number(until.as_microsecond().saturating_sub(1).div_euclid(SLOT_US));
        Self { first, end: last.saturating_add(1).max(first.saturating_add(1)) }
    }

    /// The slot of `at` and all that come after it.
    pub fn from(at: Timestamp) -> Self {
        Self { end: u32::MAX, ..Self::touched(at, at) }
    }

    /// `None`: there would be none.
    pub fn new(first: u32, end: u32) -> Option<Self> {
        (first < end).then_some(Self { first, end })
    }

    /// The same with `more` slots added at the end.
    #[must_use]
    pub fn longer(self, more: u32) -> Self {
        Self { end: self.end.saturating_add(more), ..self }
    }

    pub const fn first(self) -> u32 {
        self.first
    }

    /// The first slot that does not belong to it.
    pub const fn end(self) -> u32 {
        self.end
    }

    pub const fn len(self) -> u32 {
        self.end - self.first
    }

    /// Never: there is one slot at the least.
    pub const fn is_empty(self) -> bool {
        false
    }

    /// When the first of them begins, and the last ends.
    pub fn times(self) -> (Timestamp, Timestamp) {
        let at = |slot: u32| Timestamp::from_microsecond(i64::from(slot) * SLOT_US).unwrap_or(Timestamp::MAX);
        (at(self.first), at(self.end))
    }
}

/// Times that no calendar reaches count as its ends.
fn number(slot: i64) -> u32 {
    u32::try_from(slot.max(0)).unwrap_or(u32::MAX - 1)
}

/// What is booked of one directed link, by slot; a slot that is missing has nothing booked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Calendar {
    slots: BTreeMap<u32, Bandwidth>,
    highest: Bandwidth,
}

impl Calendar {
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Adds `rate` to each of the slots; a sum out of range stays at the most there is.
    pub fn book(&mut self, slots: Slots, rate: Bandwidth) {
        if rate.is_zero() {
            return;
        }
        for slot in slots.first..slots.end {
            let booked = self.slots.entry(slot).or_default();
            *booked = Bandwidth::from_kbps(booked.kbps().saturating_add(rate.kbps()));
            self.highest = self.highest.max(*booked);
        }
    }

    /// The most that is booked in any of the slots.
    pub fn peak(&self, slots: Slots) -> Bandwidth {
        self.slots.range(slots.first..slots.end).map(|(_, rate)| *rate).max().unwrap_or_default()
    }

    /// The most that is booked in any slot.
    pub const fn highest(&self) -> Bandwidth {
        self.highest
    }

    /// Whether nothing is booked outside of these slots.
    pub fn is_within(&self, slots: Slots) -> bool {
        let (first, last) = (self.slots.first_key_value(), self.slots.last_key_value());
        first.is_none_or(|(s, _)| *s >= slots.first) && last.is_none_or(|(s, _)| *s < slots.end)
    }

    /// What is booked in these slots alone.
    #[must_use]
    pub fn within(&self, slots: Slots) -> Self {
        let slots: BTreeMap<_, _> = self.slots.range(slots.first..slots.end).map(|(s, rate)| (*s, *rate)).collect();
        Self { highest: slots.values().max().copied().unwrap_or_default(), slots }
    }

    /// Slots in a row with one rate, in order.
    pub fn stretches(&self) -> Vec<(Slots, Bandwidth)> {
        let mut out: Vec<(Slots, Bandwidth)> = Vec::new();
        for (&slot, &rate) in &self.slots {
            match out.last_mut() {
                Some((slots, same)) if slots.end == slot && *same == rate => slots.end = slot + 1,
                _ => out.push((Slots { first: slot, end: slot + 1 }, rate)),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn slots(from: &str, until: &str) -> Slots {
        Slots::touched(at(from), at(until))
    }

    #[test]
    fn a_stretch_of_time_touches_every_slot_that_it_overlaps() {
        let one = slots("2026-12-01T10:00:00Z", "2026-12-01T10:15:00Z");
        assert_eq!(one.len(), 1);
        assert_eq!(one.times(), (at("2026-12-01T10:00:00Z"), at("2026-12-01T10:15:00Z")));
        assert_eq!(slots("2026-12-01T10:14:59Z", "2026-12-01T10:15:01Z").len(), 2);
        // an instant has the slot it is in
        assert_eq!(slots("2026-12-01T10:15:00Z", "2026-12-01T10:15:00Z"), one.next());
        assert_eq!(Slots::touched(Timestamp::MIN, Timestamp::MIN).len(), 1);
    }

    impl Slots {
        fn next(self) -> Self {
            Self { first: self.end, end: self.end + 1 }
        }
    }

    #[test]
    fn the_peak_of_a_stretch_counts_its_own_slots_alone() {
        let mut calendar = Calendar::default();
        calendar.book(slots("2026-12-01T10:00:00Z", "2026-12-01T11:00:00Z"), Bandwidth::from_mbps(3));
        calendar.book(slots("2026-12-01T10:30:00Z", "2026-12-01T10:45:00Z"), Bandwidth::from_mbps(4));
        let peak = |from, until| calendar.peak(slots(from, until)).kbps();
        assert_eq!(peak("2026-12-01T09:00:00Z", "2026-12-01T10:00:00Z"), 0);
        assert_eq!(peak("2026-12-01T10:00:00Z", "2026-12-01T10:30:00Z"), 3_000);
        assert_eq!(peak("2026-12-01T10:00:00Z", "2026-12-01T10:31:00Z"), 7_000);
        assert_eq!(calendar.peak(Slots::from(at("2026-12-01T10:50:00Z"))).kbps(), 3_000);
        assert_eq!(calendar.highest().kbps(), 7_000);
    }

    #[test]
    fn stretches_book_the_same_calendar_again() {
        let mut calendar = Calendar::default();
        calendar.book(slots("2026-12-01T10:00:00Z", "2026-12-01T12:00:00Z"), Bandwidth::from_mbps(3));
        calendar.book(slots("2026-12-01T11:00:00Z", "2026-12-01T13:00:00Z"), Bandwidth::from_mbps(3));
        calendar.book(slots("2026-12-02T11:00:00Z", "2026-12-02T11:01:00Z"), Bandwidth::from_mbps(9));
        let stretches = calendar.stretches();
        assert_eq!(stretches.len(), 4);
        let mut again = Calendar::default();
        for (slots, rate) in stretches {
            again.book(slots, rate);
        }
        assert_eq!(again, calendar);
    }
}
