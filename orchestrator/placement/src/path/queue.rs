//! A queue of points by distance, for searches over a whole network: points come out in order of distance but for those
//! less than a width apart, which may come in any order and again when they turn out to be nearer.

use super::tree::{Far, measure};

/// Buckets that are open at a time; a power of two.
const OPEN: u64 = 1_024;

const NONE: u32 = u32::MAX;

pub(super) struct Queue {
    /// Distances in one bucket differ by less than two to the power of this.
    width: u32,
    /// By bucket, the first and the last that came.
    heads: Box<[(u32, u32)]>,
    entries: Vec<Entry>,
    /// The bucket whose turn it is.
    at: u64,
    /// Entries in open buckets.
    open: usize,
    /// Entries in buckets that are not open yet.
    later: Vec<(Far, u32)>,
}

struct Entry {
    far: Far,
    point: u32,
    next: u32,
}

impl Queue {
    /// `step`: what one link adds to a distance, more or less.
    pub fn new(step: u64) -> Self {
        let width = (step / 4).max(1).ilog2();
        let heads = vec![(NONE, NONE); OPEN as usize].into();
        Self { width, heads, entries: Vec::with_capacity(2_048), at: 0, open: 0, later: Vec::new() }
    }

    pub fn push(&mut self, far: Far, point: u32) {
        let bucket = (measure(far) >> self.width).max(self.at);
        if bucket - self.at >= OPEN {
            self.later.push((far, point));
            return;
        }
        let index = self.entries.len() as u32;
        self.entries.push(Entry { far, point, next: NONE });
        let (head, last) = &mut self.heads[(bucket % OPEN) as usize];
        if *head == NONE {
            *head = index;
        } else {
            self.entries[*last as usize].next = index;
        }
        *last = index;
        self.open += 1;
    }

    pub fn pop(&mut self) -> Option<(Far, u32)> {
        if self.open == 0 {
            let first = self.later.iter().map(|(far, _)| measure(*far) >> self.width).min()?;
            self.at = self.at.max(first);
            for (far, point) in std::mem::take(&mut self.later) {
                self.push(far, point);
            }
        }
        loop {
            let (head, _) = &mut self.heads[(self.at % OPEN) as usize];
            if *head == NONE {
                self.at += 1;
                continue;
            }
            let Entry { far, point, next } = self.entries[*head as usize];
            *head = next;
            self.open -= 1;
            return Some((far, point));
        }
    }
}
