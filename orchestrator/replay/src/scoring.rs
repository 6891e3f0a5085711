//! Scoring a node for a need by what the placement leaves unusable.
//!
//! A node's free room has a *loss*: the device capacity, in thousandths of a device, that the recent mix of demand is
//! expected not to be able to use. The score of a node is the loss before less the loss after the placement, so that the
//! best node is the one on which the need does least harm, or fills what nobody else wanted ([`Loss`]):
//!
//! ```text
//! loss(n)    = sum over devices of crumb(left, cpu, model) + w x blend(n)
//! crumb      = what stays of a device on average when A needs drawn from the mix come by in turn and each takes its share
//!              if that fits, if the model serves it, and if the node's cpu as it is suffices              (Crumbs)
//! blend(n)   = idle - min(idle, cpu / (a x cpu of the mix per device), memory / (b x memory of the mix per device))
//! score(n)   = floor((loss before - loss after) / step), the best device of the node for a share
//! ```
//!
//! `crumb` knows which shares go together on a device: what is left of it is worth what later arrivals can still make of
//! it, not whether the very next one fits as in FGD ([`Fragment`]). `blend` keeps processors and memory for the devices
//! that would be idle without them, so that needs with many processors go where devices are few.
//!
//! Scores are coarse on purpose (`Weights::step`): equal scores fall to the smallest name, and that keeps whole nodes
//! intact.
//!
//! Invariants
//! - Integers only; the same node, need and mix give the same score.
//! - The mix is what was asked for, never what will be.

mod crumbs;
mod fragment;
mod loss;
mod pick;

pub use crumbs::{Crumbs, FINE};
pub use fragment::Fragment;
pub use loss::{Loss, Weights};
pub use pick::{Pick, Valued, pick};

/// Devices that a node has at most.
pub const MAX_DEVICES: usize = 16;
/// A whole device, in thousandths.
pub const WHOLE: u16 = 1000;

/// A set of device models, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Models(u32);

impl Models {
    pub const ANY: Models = Models(u32::MAX);
    /// Models that can be told apart.
    pub const MAX: usize = 31;

    /// The set of the models given; a number from [`Models::MAX`] on is in no set but [`Models::ANY`].
    pub fn of(models: impl IntoIterator<Item = u8>) -> Self {
        Self(models.into_iter().filter(|m| usize::from(*m) < Self::MAX).fold(0, |set, m| set | 1 << m))
    }

    pub fn has(self, model: u8) -> bool {
        self == Self::ANY || usize::from(model) < Self::MAX && self.0 >> model & 1 == 1
    }
}

/// What one need takes of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Need {
    pub cpu_milli: u32,
    pub memory_mib: u32,
    /// Devices; 0 for a need of processors alone.
    pub devices: u8,
    /// Of each device: [`WHOLE`], or less for a share of one.
    pub device_milli: u16,
    pub models: Models,
}

impl Need {
    /// A share of one device.
    pub fn is_share(&self) -> bool {
        self.devices == 1 && self.device_milli < WHOLE
    }

    /// Of all its devices, in thousandths of a device.
    pub fn total_milli(&self) -> u32 {
        u32::from(self.devices) * u32::from(self.device_milli)
    }
}

/// What a node has free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Free {
    pub cpu_milli: u32,
    pub memory_mib: u32,
    pub model: u8,
    count: u8,
    left: [u16; MAX_DEVICES],
}

impl Free {
    /// A node with nothing on it; of more than [`MAX_DEVICES`] devices the first ones.
    pub fn empty(cpu_milli: u32, memory_mib: u32, model: u8, devices: u8) -> Self {
        let count = devices.min(MAX_DEVICES as u8);
        let mut left = [0; MAX_DEVICES];
        left[..usize::from(count)].fill(WHOLE);
        Self { cpu_milli, memory_mib, model, count, left }
    }

    /// The same room with other devices; of more than [`MAX_DEVICES`] the first ones.
    pub fn with_devices(mut self, left_milli: &[u16]) -> Self {
        let count = left_milli.len().min(MAX_DEVICES);
        self.left = [0; MAX_DEVICES];
        self.left[..count].copy_from_slice(&left_milli[..count]);
        self.count = count as u8;
        self
    }

    /// Left of each device, in thousandths.
    pub fn devices(&self) -> &[u16] {
        &self.left[..usize::from(self.count)]
    }

    /// Left of all devices, in thousandths of a device.
    pub fn idle_milli(&self) -> u32 {
        self.devices().iter().map(|left| u32::from(*left)).sum()
    }

    /// Devices that nobody uses.
    pub fn whole(&self) -> usize {
        self.devices().iter().filter(|left| **left == WHOLE).count()
    }

    pub fn fits(&self, need: &Need) -> bool {
        self.cpu_milli >= need.cpu_milli && self.memory_mib >= need.memory_mib && need.models.has(self.model) && {
            let wide = self.devices().iter().filter(|left| **left >= need.device_milli).count();
            wide >= usize::from(need.devices)
        }
    }

    /// The room after `need` has taken the device `device` (a share) or the first whole ones. It must fit.
    pub fn take(&self, need: &Need, device: usize) -> Self {
        let mut after = *self;
        after.cpu_milli -= need.cpu_milli;
        after.memory_mib -= need.memory_mib;
        if need.is_share() {
            after.left[device] -= need.device_milli;
        } else {
            let count = usize::from(self.count);
            let whole = after.left[..count].iter_mut().filter(|left| **left == WHOLE);
            whole.take(usize::from(need.devices)).for_each(|left| *left = 0);
        }
        after
    }
}

/// What was asked for, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand(Vec<(Need, u32)>);

impl Demand {
    /// Counts the needs; the order they come in does not matter.
    pub fn of(needs: impl IntoIterator<Item = Need>) -> Self {
        let mut counts = std::collections::BTreeMap::<Need, u32>::new();
        for need in needs {
            *counts.entry(need).or_default() += 1;
        }
        let mut types: Vec<(Need, u32)> = counts.into_iter().collect();
        types.sort_by_key(|(need, count)| (std::cmp::Reverse(*count), *need));
        Self(types)
    }

    /// The types, most frequent first.
    pub fn types(&self) -> &[(Need, u32)] {
        &self.0
    }

    /// How many were counted.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// The most frequent types until `milli` thousandths of the needs are reached.
    pub fn typical(&self, milli: u64) -> Self {
        let enough = self.total() * milli;
        let mut seen = 0;
        let types = self.0.iter().take_while(|(_, count)| {
            let wanted = seen * 1000 < enough;
            seen += u64::from(*count);
            wanted
        });
        Self(types.copied().collect())
    }

    /// The same with all memory 0: for a measure that does not look at it.
    pub fn without_memory(&self) -> Self {
        let needs = self.0.iter().map(|(need, count)| (Need { memory_mib: 0, ..*need }, *count));
        let mut counts = std::collections::BTreeMap::<Need, u32>::new();
        needs.for_each(|(need, count)| *counts.entry(need).or_default() += count);
        let mut types: Vec<(Need, u32)> = counts.into_iter().collect();
        types.sort_by_key(|(need, count)| (std::cmp::Reverse(*count), *need));
        Self(types)
    }
}
