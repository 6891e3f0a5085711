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

/// What is booked of one directed link, by stretches of slots with one rate; slots in none have nothing booked. Stretches
/// that touch differ in rate, so that equal bookings are equal calendars.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Calendar {
    /// By first slot: the first slot after it, and the rate.
    stretches: BTreeMap<u32, (u32, Bandwidth)>,
    highest: Bandwidth,
}

impl Calendar {
    pub fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }

    /// Adds `rate` to each of the slots; a sum out of range stays at the most there is.
    pub fn book(&mut self, slots: Slots, rate: Bandwidth) {
        if rate.is_zero() {
            return;
        }
        self.cut(slots.first);
        self.cut(slots.end);
        let known: Vec<_> = self.stretches.range(slots.first..slots.end).map(|(first, s)| (*first, *s)).collect();
        let mut at = slots.first;
        for (first, (end, booked)) in known {
            if at < first {
                self.set(at, first, rate);
            }
            self.set(first, end, Bandwidth::from_kbps(booked.kbps().saturating_add(rate.kbps())));
            at = end;
        }
        if at < slots.end {
            self.set(at, slots.end, rate);
        }
        self.join(slots);
    }

    fn set(&mut self, first: u32, end: u32, rate: Bandwidth) {
        self.stretches.insert(first, (end, rate));
        self.highest = self.highest.max(rate);
    }

    /// Parts the stretch that goes on over the beginning of the slot.
    fn cut(&mut self, slot: u32) {
        let before = self.stretches.range(..slot).next_back().map(|(first, s)| (*first, *s));
        if let Some((first, (end, rate))) = before.filter(|(_, (end, _))| *end > slot) {
            self.stretches.insert(first, (slot, rate));
            self.stretches.insert(slot, (end, rate));
        }
    }

    /// Makes one of stretches that touch and have one rate, in the slots and at their ends.
    fn join(&mut self, slots: Slots) {
        let from = self.stretches.range(..slots.first).next_back().map_or(slots.first, |(first, _)| *first);
        let known: Vec<_> = self.stretches.range(from..=slots.end).map(|(first, s)| (*first, *s)).collect();
        let mut last: Option<(u32, u32, Bandwidth)> = None;
        for (first, (end, rate)) in known {
            match last {
                Some((begin, touching, same)) if touching == first && same == rate => {
                    self.stretches.remove(&first);
                    self.stretches.insert(begin, (end, rate));
                    last = Some((begin, end, rate));
                }
                _ => last = Some((first, end, rate)),
            }
        }
    }

    /// Stretches in these slots, cut off at their ends.
    fn inside(&self, slots: Slots) -> impl Iterator<Item = (u32, (u32, Bandwidth))> {
        let open = self.stretches.range(..slots.end).rev().take_while(move |(_, (end, _))| *end > slots.first);
        open.map(move |(first, (end, rate))| ((*first).max(slots.first), ((*end).min(slots.end), *rate)))
    }

    /// The most that is booked in any of the slots.
    pub fn peak(&self, slots: Slots) -> Bandwidth {
        self.inside(slots).map(|(_, (_, rate))| rate).max().unwrap_or_default()
    }

    /// The most that is booked in any slot.
    pub const fn highest(&self) -> Bandwidth {
        self.highest
    }

    /// Whether nothing is booked outside of these slots.
    pub fn is_within(&self, slots: Slots) -> bool {
        let (first, last) = (self.stretches.first_key_value(), self.stretches.last_key_value());
        first.is_none_or(|(s, _)| *s >= slots.first) && last.is_none_or(|(_, (end, _))| *end <= slots.end)
    }

    /// What is booked in these slots alone.
    #[must_use]
    pub fn within(&self, slots: Slots) -> Self {
        let stretches: BTreeMap<_, _> = self.inside(slots).collect();
        Self { highest: stretches.values().map(|(_, rate)| *rate).max().unwrap_or_default(), stretches }
    }

    /// Slots in a row with one rate, in order.
    pub fn stretches(&self) -> Vec<(Slots, Bandwidth)> {
        self.stretches.iter().map(|(first, (end, rate))| (Slots { first: *first, end: *end }, *rate)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn bookings_sum_up_slot_by_slot(
            bookings in prop::collection::vec((0_u32..20, 1_u32..12, 0_u64..3), 0..12),
            asked in (0_u32..24, 1_u32..12),
        ) {
            let mut calendar = Calendar::default();
            let mut slots = [0_u64; 40];
            for (first, length, kbps) in &bookings {
                calendar.book(Slots { first: *first, end: first + length }, Bandwidth::from_kbps(*kbps));
                (*first..first + length).for_each(|slot| slots[slot as usize] += kbps);
            }
            let most = |range: std::ops::Range<u32>| range.map(|slot| slots[slot as usize]).max().unwrap_or(0);
            let asked = Slots { first: asked.0, end: asked.0 + asked.1 };
            prop_assert_eq!(calendar.peak(asked).kbps(), most(asked.first..asked.end));
            prop_assert_eq!(calendar.highest().kbps(), most(0..40));
            let outside = most(0..asked.first).max(most(asked.end..40));
            prop_assert_eq!(calendar.is_within(asked), outside == 0);
            prop_assert_eq!(calendar.within(asked).highest().kbps(), most(asked.first..asked.end));
            // in another order it is the same calendar, of the fewest stretches
            let mut again = Calendar::default();
            for (first, length, kbps) in bookings.iter().rev() {
                again.book(Slots { first: *first, end: first + length }, Bandwidth::from_kbps(*kbps));
            }
            prop_assert_eq!(&again, &calendar);
            let stretches = calendar.stretches();
            prop_assert!(stretches.windows(2).all(|w| w[0].0.end < w[1].0.first || w[0].1 != w[1].1));
        }
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
