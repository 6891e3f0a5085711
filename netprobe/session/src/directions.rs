//! What happened on the way there, and what on the way back.

use crate::Counted;
use crate::figures::Probe;
use crate::reflection::{FarCount, Reflection};

/// Counts of a window by direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Directions {
    pub(crate) lost_forward: u64,
    pub(crate) lost_backward: u64,
    pub(crate) duplicates_forward: u64,
    pub(crate) duplicates_backward: u64,
    pub(crate) reordered_forward: u64,
    pub(crate) reordered_backward: u64,
    /// Answers sent that did not arrive; more than `lost_backward` if a doubled probe lost one of its answers. `None` if the
    /// reflector keeps no count.
    pub(crate) replies_lost: Option<u64>,
}

/// Where the reflector's count stood before the first probe of a window.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Before {
    /// The session begins in the window.
    Nothing,
    /// The last answer known from before it.
    Answered(Reflection),
    /// Answers from before the window are not known.
    Unknown,
}

/// An answer in the order of answering.
#[derive(Debug, Clone, Copy)]
struct Seen {
    order: (u32, i64),
    probe: usize,
    counted: Option<Counted>,
}

/// Unanswered probes by index: how many before it are given up, and how many are still in flight.
struct Silent {
    lost: Vec<u64>,
    pending: Vec<u64>,
}

impl Directions {
    pub(crate) fn of(probes: &[&Probe], before: Before, count: FarCount, now_ns: u64, wait_ns: u64) -> Self {
        let mut seen: Vec<Seen> = Vec::new();
        let mut found = Self::default();
        for (index, probe) in probes.iter().enumerate() {
            let Some(outcome) = &probe.outcome else { continue };
            let reflections = outcome.reflections();
            found.duplicates_forward += reflections.clone().count() as u64 - 1;
            found.duplicates_backward += u64::from(outcome.copies);
            found.reordered_backward += reflections.clone().filter(|reflection| reflection.reordered).count() as u64;
            seen.extend(reflections.map(|reflection| Seen {
                order: reflection.order(count),
                probe: index,
                counted: reflection.counted,
            }));
        }
        seen.sort_unstable_by_key(|seen| (seen.order, seen.probe));
        found.reordered_forward = late_at_the_reflector(&seen, probes.len());
        let silent = Silent::of(probes, now_ns, wait_ns);
        let lost = silent.lost_in(0, probes.len());
        if count == FarCount::Absent {
            return Self { lost_forward: lost, ..found };
        }
        let start = Start::of(before, &seen);
        let split = Split::of(&seen, &start, &silent, probes.len());
        found.replies_lost = Some(split.gaps.saturating_sub(silent.pending_in(0, probes.len())));
        found.lost_backward = split.backward + if found.duplicates_forward == 0 { split.unplaced } else { 0 };
        if let Some(counts) = counts_of(&seen, &start) {
            let answered = probes.iter().filter(|probe| probe.outcome.is_some()).count() as u64;
            found.lost_backward = u64::from(counts.distinct).saturating_sub(answered).min(lost);
            found.duplicates_forward = counts.duplicates.into();
            found.reordered_forward = counts.reordered.into();
        }
        found.lost_forward = lost - found.lost_backward.min(lost);
        found
    }
}

/// RFC 4737 at the reflector: probes it answered after one sent later. Copies do not count.
fn late_at_the_reflector(seen: &[Seen], probes: usize) -> u64 {
    let mut first = vec![true; probes];
    let mut newest = None;
    let late = seen.iter().filter(|seen| {
        let is_first = std::mem::replace(&mut first[seen.probe], false);
        let late = newest > Some(seen.probe);
        newest = newest.max(Some(seen.probe));
        is_first && late
    });
    late.count() as u64
}

/// The count before the first answer of a window, in the terms of its answers.
struct Start {
    order: Option<(u32, i64)>,
    counted: Option<Counted>,
}

impl Start {
    fn of(before: Before, seen: &[Seen]) -> Self {
        let unknown = Self { order: None, counted: None };
        let Some(first) = seen.first() else { return unknown };
        match before {
            Before::Answered(last) if last.epoch == first.order.0 => {
                Self { order: Some((last.epoch, last.sequence.into())), counted: last.counted }
            }
            // a session of its own begins at zero; a higher first count than probes sent was begun by somebody else
            Before::Nothing if first.order.1 <= first.probe as i64 + seen.len() as i64 => {
                Self { order: Some((first.order.0, -1)), counted: Some(Counted::default()) }
            }
            _ => unknown,
        }
    }
}

/// What the reflector itself counted between start and last answer; `None` unless every answer of the window tells, all in one life.
fn counts_of(seen: &[Seen], start: &Start) -> Option<Counted> {
    let (last, begin) = (seen.last()?, start.counted?);
    let one_life = start.order?.0 == last.order.0;
    let counted = last.counted.filter(|_| one_life && seen.iter().all(|seen| seen.counted.is_some()))?;
    Some(Counted {
        distinct: counted.distinct.wrapping_sub(begin.distinct),
        duplicates: counted.duplicates.wrapping_sub(begin.duplicates),
        reordered: counted.reordered.wrapping_sub(begin.reordered),
    })
}

/// Losses by the gaps in the reflector's count.
#[derive(Debug, Default)]
struct Split {
    /// Probes answered without the answer arriving.
    backward: u64,
    /// Answers that did not arrive and belong to no unanswered probe nearby.
    unplaced: u64,
    /// All answers that did not arrive.
    gaps: u64,
}

impl Split {
    /// Cuts the answers where nothing overtook anything: every probe before the cut was answered before every probe after it.
    /// The count gained between two cuts tells how many probes between them were answered; those without an answer here were
    /// lost on the way back, the other silent ones on the way there.
    fn of(seen: &[Seen], start: &Start, silent: &Silent, probes: usize) -> Self {
        let mut split = Self::default();
        let mut least_after = vec![probes; seen.len() + 1];
        for index in (0..seen.len()).rev() {
            least_after[index] = least_after[index + 1].min(seen[index].probe);
        }
        let mut previous = start.order;
        // first index not yet settled, and the highest answered so far
        let mut settled = 0;
        let (mut inner_gaps, mut newest) = (0, None);
        for (index, answer) in seen.iter().enumerate() {
            let gap = gap(previous, answer.order);
            previous = Some(answer.order);
            if newest.is_none_or(|newest| newest < least_after[index]) {
                // the group before this answer is complete: settle it, then what lies between
                let end = newest.map_or(settled, |newest| newest + 1);
                split.settle(inner_gaps, silent, settled, end);
                split.settle(gap, silent, end, least_after[index]);
                settled = least_after[index];
                inner_gaps = 0;
            } else {
                inner_gaps += gap;
            }
            newest = newest.max(Some(answer.probe));
        }
        let end = newest.map_or(0, |newest| newest + 1);
        split.settle(inner_gaps, silent, settled, end);
        let left = silent.lost_in(0, end) - split.backward;
        split.unplaced = split.unplaced.min(left);
        split
    }

    fn settle(&mut self, gap: u64, silent: &Silent, from: usize, to: usize) {
        let backward = gap.min(silent.lost_in(from, to));
        self.gaps += gap;
        self.backward += backward;
        self.unplaced += gap.saturating_sub(backward + silent.pending_in(from, to));
    }
}

fn gap(previous: Option<(u32, i64)>, order: (u32, i64)) -> u64 {
    let before = previous.filter(|previous| previous.0 == order.0);
    before.map_or(0, |previous| u64::try_from(order.1 - previous.1 - 1).unwrap_or(0))
}

impl Silent {
    fn of(probes: &[&Probe], now_ns: u64, wait_ns: u64) -> Self {
        let (mut lost, mut pending) = (vec![0], vec![0]);
        for probe in probes {
            let silent = probe.outcome.is_none();
            let given_up = silent && now_ns.saturating_sub(probe.sent_ns) >= wait_ns;
            lost.push(lost[lost.len() - 1] + u64::from(given_up));
            pending.push(pending[pending.len() - 1] + u64::from(silent && !given_up));
        }
        Self { lost, pending }
    }

    fn lost_in(&self, from: usize, to: usize) -> u64 {
        self.lost[to.max(from)] - self.lost[from]
    }

    fn pending_in(&self, from: usize, to: usize) -> u64 {
        self.pending[to.max(from)] - self.pending[from]
    }
}
