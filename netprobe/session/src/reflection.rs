//! The order in which a reflector answered, as far as its answers tell.

use crate::{Counted, NtpTime, StampFormat};

/// One answer that the reflector sent, known by a copy that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reflection {
    /// Life of the reflector the sequence belongs to.
    pub(crate) epoch: u32,
    /// The reflector's own count; a copy of the sender's if it keeps none.
    pub(crate) sequence: u32,
    /// T3.
    pub(crate) sent: NtpTime,
    /// Whether it came after one the reflector sent later.
    pub(crate) reordered: bool,
    /// The reflector's counts of the session when it sent this.
    pub(crate) counted: Option<Counted>,
}

/// Whether the reflector counts its answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FarCount {
    /// Taken so until an answer shows that it only copies the sender's sequence.
    #[default]
    Assumed,
    /// It copies the sender's sequence (stateless): losses are not told apart.
    Absent,
}

/// Follows the answers of a session as they arrive.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    count: FarCount,
    epoch: u32,
    highest: Option<(u32, NtpTime)>,
    /// Whether every sequence so far was a copy of the sender's.
    copied: bool,
}

impl Reflection {
    /// Place in the order of answering: by count, or by time where there is none.
    pub(crate) fn order(&self, count: FarCount) -> (u32, i64) {
        match count {
            FarCount::Assumed => (self.epoch, self.sequence.into()),
            FarCount::Absent => (0, (self.sent.bits() >> 1) as i64),
        }
    }

    /// Whether two arrivals are copies of one answer. Where the reflector keeps no count, two answers to copies of one probe
    /// differ in their time alone.
    pub(crate) fn is_copy_of(&self, other: &Self) -> bool {
        (self.epoch, self.sequence, self.sent) == (other.epoch, other.sequence, other.sent)
    }
}

impl Progress {
    pub(crate) fn new(count: FarCount) -> Self {
        Self { count, epoch: 0, highest: None, copied: true }
    }

    pub(crate) fn count(&self) -> FarCount {
        self.count
    }

    /// Places an answer with that sequence of the reflector to that sequence of the sender.
    pub(crate) fn place(&mut self, sequence: u32, answers: u32, sent: NtpTime, format: StampFormat) -> Reflection {
        self.copied &= sequence == answers;
        let (highest, highest_sent) = *self.highest.get_or_insert((sequence, sent));
        let later = sent.since_ns(highest_sent, format);
        let above = sequence.wrapping_sub(highest) as i32;
        // a lower count sent later contradicts a count
        if self.count == FarCount::Assumed && above < 0 && later > 0 {
            if self.copied {
                self.count = FarCount::Absent;
            } else {
                self.epoch += 1;
                self.highest = Some((sequence, sent));
                return Reflection { epoch: self.epoch, sequence, sent, reordered: false, counted: None };
            }
        }
        // one of an earlier life that comes late
        let before = self.count == FarCount::Assumed && above > 0 && later < 0 && self.epoch > 0;
        let reordered = match self.count {
            FarCount::Assumed => above < 0 || before,
            FarCount::Absent => later < 0,
        };
        if !reordered {
            self.highest = Some((sequence, sent));
        }
        Reflection { epoch: self.epoch - u32::from(before), sequence, sent, reordered, counted: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reflector's sequence, sender's sequence, time of the answer; what was made of it.
    fn place(progress: &mut Progress, answers: &[(u32, u32, u64)]) -> Vec<(u32, bool)> {
        let placed = answers.iter().map(|(sequence, to, second)| {
            let at = NtpTime::from_bits(second << 32);
            let found = progress.place(*sequence, *to, at, StampFormat::Ntp);
            (found.epoch, found.reordered)
        });
        placed.collect()
    }

    #[test]
    fn late_answers_are_told_from_a_new_life() {
        let mut progress = Progress::new(FarCount::Assumed);
        let found = place(&mut progress, &[(0, 0, 10), (2, 3, 12), (1, 1, 11), (0, 4, 20), (3, 3, 13), (1, 5, 21)]);
        assert_eq!(found, [(0, false), (0, false), (0, true), (1, false), (0, true), (1, false)]);
        assert_eq!(progress.count(), FarCount::Assumed);
    }

    #[test]
    fn a_reflector_that_copies_gives_itself_away() {
        let mut progress = Progress::new(FarCount::Assumed);
        let found = place(&mut progress, &[(0, 0, 10), (2, 2, 11), (1, 1, 12), (3, 3, 14), (4, 4, 13)]);
        assert_eq!(progress.count(), FarCount::Absent);
        assert_eq!(
            found.iter().map(|(_, reordered)| *reordered).collect::<Vec<_>>(),
            [false, false, false, false, true]
        );
    }
}
