//! What a reflector remembers of the probes of one session: which came, which came twice, which came late.

use crate::{Counted, NtpTime, StampFormat};

/// Probes behind the newest that are remembered one by one.
const REMEMBERED: u32 = 512;
const WORD_BITS: u32 = 64;

/// Counts of a session, and a window of what was seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(crate) counted: Counted,
    newest: Option<Newest>,
    seen: [u64; (REMEMBERED / WORD_BITS) as usize],
}

#[derive(Debug, Clone, Copy)]
struct Newest {
    sequence: u32,
    sent: NtpTime,
}

/// A probe that lies too far behind to tell whether it came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooOld;

impl Tally {
    /// Takes a probe in.
    pub(crate) fn take(&mut self, sequence: u32, sent: NtpTime, format: StampFormat) -> Result<(), TooOld> {
        let newest = self.newest.get_or_insert(Newest { sequence: sequence.wrapping_sub(1), sent });
        let ahead = sequence.wrapping_sub(newest.sequence);
        let behind = newest.sequence.wrapping_sub(sequence);
        let later = sent.since_ns(newest.sent, format) > 0;
        if (1..=u32::MAX / 2).contains(&ahead) {
            self.advance(ahead);
            self.newest = Some(Newest { sequence, sent });
            self.counted.distinct = self.counted.distinct.wrapping_add(1);
        } else if later {
            // a lower number sent later: the sender began anew
            self.seen = [0; (REMEMBERED / WORD_BITS) as usize];
            self.mark(sequence);
            self.newest = Some(Newest { sequence, sent });
            self.counted.distinct = self.counted.distinct.wrapping_add(1);
        } else if behind >= REMEMBERED {
            return Err(TooOld);
        } else if self.mark(sequence) {
            self.counted.duplicates = self.counted.duplicates.wrapping_add(1);
        } else {
            self.counted.distinct = self.counted.distinct.wrapping_add(1);
            self.counted.reordered = self.counted.reordered.wrapping_add(1);
        }
        Ok(())
    }

    /// Makes room for the `ahead` numbers after the newest, and marks the last of them.
    fn advance(&mut self, ahead: u32) {
        let newest = self.newest.map_or(0, |newest| newest.sequence);
        if ahead >= REMEMBERED {
            self.seen = [0; (REMEMBERED / WORD_BITS) as usize];
        } else {
            for step in 1..=ahead {
                let (word, bit) = place(newest.wrapping_add(step));
                self.seen[word] &= !bit;
            }
        }
        self.mark(newest.wrapping_add(ahead));
    }

    /// Marks a number as seen; whether it was already.
    fn mark(&mut self, sequence: u32) -> bool {
        let (word, bit) = place(sequence);
        let before = self.seen[word] & bit != 0;
        self.seen[word] |= bit;
        before
    }
}

fn place(sequence: u32) -> (usize, u64) {
    let index = sequence % REMEMBERED;
    ((index / WORD_BITS) as usize, 1 << (index % WORD_BITS))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn at(second: u64) -> NtpTime {
        NtpTime::from_bits(second << 32)
    }

    fn counts(tally: &Tally) -> (u32, u32, u32) {
        (tally.counted.distinct, tally.counted.duplicates, tally.counted.reordered)
    }

    #[test]
    fn a_sender_that_begins_anew_is_not_old() {
        let mut tally = Tally::default();
        for sequence in 0..1_000 {
            tally.take(sequence, at(sequence.into()), StampFormat::Ntp).unwrap();
        }
        assert_eq!(tally.take(3, at(3), StampFormat::Ntp), Err(TooOld), "a replay");
        assert_eq!(tally.take(0, at(2_000), StampFormat::Ntp), Ok(()));
        assert_eq!(tally.take(0, at(2_000), StampFormat::Ntp), Ok(()));
        assert_eq!(counts(&tally), (1_001, 1, 0));
    }

    #[test]
    fn numbers_wrap() {
        let mut tally = Tally::default();
        for sequence in [u32::MAX - 1, u32::MAX, 1, 0, 1] {
            tally.take(sequence, at(5), StampFormat::Ntp).unwrap();
        }
        assert_eq!(counts(&tally), (4, 1, 1));
    }

    proptest! {
        /// Against a set of all that came: arrivals jump ahead and fall back within the window.
        #[test]
        fn counts_are_those_of_a_full_memory(steps in prop::collection::vec(-200_i64..260, 1..400)) {
            let mut tally = Tally::default();
            let (mut seen, mut expected) = (BTreeSet::new(), (0, 0, 0));
            let mut newest = 10_000_i64;
            for step in steps {
                let sequence = newest + step;
                let last = seen.last().copied();
                match last {
                    _ if !seen.insert(sequence) => expected.1 += 1,
                    Some(last) if sequence < last => { expected.0 += 1; expected.2 += 1; }
                    _ => expected.0 += 1,
                }
                newest = newest.max(sequence);
                if seen.len() == 1 { newest = sequence; }
                tally.take(sequence as u32, at(sequence as u64), StampFormat::Ntp).unwrap();
            }
            prop_assert_eq!(counts(&tally), expected);
        }
    }
}
