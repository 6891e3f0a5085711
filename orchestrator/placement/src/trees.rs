//! Trees that outlive a decision, and what makes them wrong.
//!
//! A tree is over the links that carry a power of two of kbit/s, the greatest up to the rate asked. So one tree serves
//! all rates of an octave, and only a change of free capacity that passes that very power can touch it. It is worked
//! out again when a link that lies on some cheapest or quickest way went, or one that shortens some way came.

use crate::{
    mask::Mask,
    network::{Direction, Network, Price},
    path::{Ask, Tree},
};
use std::{collections::HashMap, sync::Arc};

#[derive(Debug)]
pub(crate) struct Trees {
    /// Numbers of the sets of roots.
    roots: HashMap<Box<[u32]>, u32>,
    kept: HashMap<Key, Kept>,
    /// By class: links whose free capacity passed its power of two.
    passed: Vec<Passed>,
    latency_epoch: u32,
    most: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    mask: u32,
    roots: u32,
    walk: Direction,
    price: Price,
    class: u8,
}

#[derive(Debug)]
struct Kept {
    tree: Arc<Tree>,
    mask_epoch: u32,
    latency_epoch: u32,
    passed_epoch: u32,
    /// How many of the class's passings are taken into account.
    passed: usize,
}

#[derive(Debug, Default)]
struct Passed {
    /// Links and whether they came.
    list: Vec<(u32, bool)>,
    epoch: u32,
}

/// Passings of one class that are remembered: beyond them its trees are worked out anew.
const REMEMBERED: usize = 4_096;

/// Bytes that trees may take in all.
const ROOM: usize = 384 << 20;

/// 0 for a rate of 0, else one more than the exponent of the greatest power of two up to the rate.
fn class(kbps: u64) -> u8 {
    (u64::BITS - kbps.leading_zeros()) as u8
}

fn floor(class: u8) -> u64 {
    if class == 0 { 0 } else { 1 << (class - 1) }
}

impl Trees {
    pub fn new(points: usize) -> Self {
        let passed = (0..=u64::BITS).map(|_| Passed::default()).collect();
        let most = ROOM / (points.max(1) * 24);
        Self { roots: HashMap::new(), kept: HashMap::new(), passed, latency_epoch: 0, most }
    }

    pub fn of(&mut self, net: &Network, mask: &Mask, ask: &Ask, roots: &[u32]) -> Arc<Tree> {
        let roots_number = if let Some(number) = self.roots.get(roots) {
            *number
        } else {
            let number = self.roots.len() as u32;
            self.roots.insert(roots.into(), number);
            number
        };
        let class = class(ask.kbps);
        let key = Key { mask: mask.number, roots: roots_number, walk: ask.walk, price: ask.price, class };
        let ask = Ask { kbps: floor(class), ..*ask };
        let passed = &self.passed[usize::from(class)];
        let now = |tree: Arc<Tree>| Kept {
            tree,
            mask_epoch: mask.epoch,
            latency_epoch: self.latency_epoch,
            passed_epoch: passed.epoch,
            passed: passed.list.len(),
        };
        if let Some(kept) = self.kept.get_mut(&key) {
            let untouched = kept.mask_epoch == mask.epoch
                && kept.passed_epoch == passed.epoch
                && !passed.list[kept.passed..].iter().any(|(edge, came)| kept.tree.touched(net, &ask, *edge, *came));
            if untouched && kept.latency_epoch == self.latency_epoch {
                kept.passed = passed.list.len();
                return Arc::clone(&kept.tree);
            }
            let tree = if untouched { kept.tree.without_latencies() } else { Tree::new(&ask, roots) };
            *kept = now(Arc::new(tree));
            return Arc::clone(&kept.tree);
        }
        if self.kept.len() >= self.most {
            self.kept.clear();
        }
        let tree = Arc::new(Tree::new(&ask, roots));
        let kept = now(Arc::clone(&tree));
        self.kept.insert(key, kept);
        tree
    }

    pub fn free_changed(&mut self, edge: u32, old: u64, new: u64) {
        let came = new > old;
        // a class's power lies in (less, more] exactly for the classes above that of the less, up to that of the more
        for class in class(old.min(new)) + 1..=class(old.max(new)) {
            let passed = &mut self.passed[usize::from(class)];
            if passed.list.len() >= REMEMBERED {
                passed.list.clear();
                passed.epoch += 1;
            }
            passed.list.push((edge, came));
        }
    }

    pub fn latency_changed(&mut self) {
        self.latency_epoch += 1;
    }
}
