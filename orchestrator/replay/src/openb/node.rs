//! A node of the benchmark while it fills.

use crate::scoring::{Free, Need};

/// Pods that one node takes at most.
const MAX_PODS: u16 = 1001;
/// Kinds of pods that the clustering policy tells apart: by how many devices they take, shares first.
pub(super) const KINDS: usize = 17;

#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Its row in the file.
    pub(super) row: usize,
    pub(super) free: Free,
    pub(super) idle_milli: u32,
    /// What the policy thinks of the room.
    pub(super) value: i64,
    /// Of each kind of pods with devices, whether one is there.
    pub(super) kinds: [bool; KINDS],
    pods: u16,
}

impl Node {
    pub(super) fn new(row: usize, free: Free) -> Self {
        Self { row, free, idle_milli: free.idle_milli(), value: 0, kinds: [false; KINDS], pods: 0 }
    }

    pub(super) fn fits(&self, need: &Need) -> bool {
        self.pods < MAX_PODS && self.free.fits(need)
    }

    /// The kind of a need that takes devices.
    pub(super) fn kind(need: &Need) -> usize {
        if need.is_share() { 0 } else { usize::from(need.devices) }
    }

    pub(super) fn take(&mut self, need: &Need, device: u8) {
        self.free = self.free.take(need, usize::from(device));
        self.idle_milli -= need.total_milli();
        self.pods += 1;
        if need.devices > 0 {
            self.kinds[Self::kind(need)] = true;
        }
    }

    /// The fullest device that a share fits, the first of equals; the first one for all other needs.
    pub(super) fn fullest(&self, need: &Need) -> u8 {
        let fitting = self.free.devices().iter().enumerate().filter(|(_, left)| **left >= need.device_milli);
        fitting.min_by_key(|(at, left)| (**left, *at)).map_or(0, |(at, _)| at as u8)
    }
}
