//! One `fits()` for all: placement, the committing transaction and the agent's allocator ask the same question here.
//!
//! Capacity is node shapes, never a sum. Devices are picked by one rule, so that what `take` takes from a shape and what
//! `allocate` names on a node are the same: the best-connected free ones, and of equally good ones those that leave the
//! most to the next order (`connect`).

mod allocate;
mod connect;
mod misfit;
mod pick;
mod shape;
pub mod slice;

pub use allocate::{NodeUse, Used, allocate, use_of};
pub use connect::bandwidth;
pub use misfit::{Misfit, candidate_models, largest, misfit};
pub use shape::group_nodes;
pub use slice::Slices;

use crate::{
    name::{Label, ModelName},
    order::{Interconnect, Need, Spread},
    quantity::{Bytes, Cores, Share},
};

/// Free capacity of one node. Equal shapes compare equal, so that they can be grouped with a count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeShape {
    /// Sorted; islands, NUMA nodes and PCIe switches are numbered by what they hold, not as the node numbers them.
    pub groups: Vec<DeviceGroup>,
    pub cpu: Cores,
    pub memory: Bytes,
    pub rack: Option<Label>,
    pub nvl_domain: Option<Label>,
}

/// Healthy devices of one node that share model, island, PCIe switch and NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceGroup {
    pub model: ModelName,
    /// Of one device.
    pub memory: Bytes,
    pub island: Option<u16>,
    pub numa: Option<u16>,
    pub pcie: Option<u16>,
    /// Wholly free devices.
    pub free: u32,
    /// All devices of the group, busy ones too.
    pub total: u32,
    /// Partly taken devices: what is free of each, as (share in thousandths, memory), sorted.
    pub partial: Vec<(u16, Bytes)>,
    /// Whether wholly free devices may be cut into slices.
    pub cut: bool,
    /// Devices in slices, none of them free as a whole: what is free of each, sorted.
    pub slices: Vec<Slices>,
}

/// Equal nodes, once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FreeNodes {
    pub shape: NodeShape,
    pub count: u32,
}

/// Devices of one replica: how many of which group (whole), or a share of one device. Groups are those of the shape as it
/// was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub model: Option<ModelName>,
    /// (group, devices)
    pub whole: Vec<(usize, u32)>,
    pub part: Option<TakenPart>,
}

/// A share of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenPart {
    pub group: usize,
    pub share: Share,
    pub memory: Bytes,
}

/// Takes one replica of `need` with devices of `model` from `shape`, the tightest island first, and leaves the rest.
/// `None`: it does not fit, and `shape` is as it was.
pub fn take(need: &Need, model: Option<&ModelName>, shape: &mut NodeShape) -> Option<Taken> {
    let cpu = shape.cpu.checked_sub(need.cpu)?;
    let memory = shape.memory.checked_sub(need.memory)?;
    let mut taken = Taken { model: model.cloned(), whole: Vec::new(), part: None };
    match (&need.accelerators, model) {
        (None, None) => {}
        (Some(a), Some(model)) => match (a.count, a.share, a.mig) {
            (Some(count), None, None) => {
                taken.whole = pick::whole(a, model, count, &shape.groups)?;
                for (index, devices) in &taken.whole {
                    shape.groups[*index].free -= devices;
                }
                shape.renumber();
            }
            (None, Some(share), None) => {
                let part = pick::part(a, model, share, &shape.groups)?;
                let group = &mut shape.groups[part.group];
                group.give(part.from, part.share, part.memory);
                taken.part = Some(TakenPart { group: part.group, share: part.share, memory: part.memory });
                shape.renumber();
            }
            (count, None, Some(profile)) => {
                let mut groups = shape.groups.clone();
                for _ in 0..count.unwrap_or(1) {
                    let part = pick::slice(model, profile, &groups)?;
                    groups[part.group].give_slice(part);
                }
                shape.groups = groups;
                shape.renumber();
            }
            _ => return None,
        },
        _ => return None,
    }
    shape.cpu = cpu;
    shape.memory = memory;
    Some(taken)
}

impl DeviceGroup {
    /// Takes a share of the partly taken device at `from`, or of a wholly free one.
    fn give(&mut self, from: Option<usize>, share: Share, memory: Bytes) {
        let (free_share, free_memory) = if let Some(at) = from {
            self.partial.remove(at)
        } else {
            self.free -= 1;
            (WHOLE, self.memory)
        };
        let rest = (free_share - share.thousandths() as u16, free_memory.saturating_sub(memory));
        // a device without free share or free memory is wholly taken
        if rest.0 > 0 && !rest.1.is_zero() {
            self.partial.push(rest);
            self.partial.sort_unstable();
        }
    }

    /// Counts one more device, of which this is free.
    pub(crate) fn add_slices(&mut self, slices: Slices) {
        self.total += 1;
        if !slices.is_full(self.memory) {
            self.slices.push(slices);
            self.slices.sort_unstable();
        }
    }

    /// Takes a slice of the device at `from`, or of a wholly free one.
    fn give_slice(&mut self, part: pick::Slice) {
        match part.from {
            Some(at) => {
                self.slices.remove(at);
            }
            None => self.free -= 1,
        }
        if !part.left.is_full(self.memory) {
            self.slices.push(part.left);
            self.slices.sort_unstable();
        }
    }
}

/// All of one device, in thousandths.
const WHOLE: u16 = 1_000;

/// Device memory that a share takes: what the order names, or else that share of the device's, rounded down so that
/// shares of 100 % together always fit.
pub fn memory_of_share(named: Option<Bytes>, share: Share, device: Bytes) -> Bytes {
    named.unwrap_or_else(|| {
        let part = u128::from(device.bytes()) * u128::from(share.thousandths()) / u128::from(WHOLE);
        Bytes::from_bytes(part as u64)
    })
}

/// How many replicas fit one node of this shape.
pub fn replicas_on(need: &Need, model: Option<&ModelName>, shape: &NodeShape) -> u32 {
    let mut left = shape.clone();
    // a need of nothing would fit for ever
    (0..MAX_ON_NODE).take_while(|_| take(need, model, &mut left).is_some()).count() as u32
}

/// No order has more replicas.
const MAX_ON_NODE: u32 = 10_000;

/// How many replicas fit the nodes; `interconnect: rack` and `nvl_domain` bind them to the best one.
pub fn most(need: &Need, model: Option<&ModelName>, nodes: &[FreeNodes]) -> u32 {
    most_spread(need, model, nodes, None)
}

/// Like `most`, where no two replicas may share a node, a rack or the site.
pub fn most_spread(need: &Need, model: Option<&ModelName>, nodes: &[FreeNodes], spread: Option<Spread>) -> u32 {
    let each: Vec<u32> = nodes.iter().map(|n| replicas_on(need, model, &n.shape)).collect();
    let sum = |within: &dyn Fn(&NodeShape) -> bool| -> u32 {
        let here = nodes.iter().zip(&each).filter(|(n, fit)| **fit > 0 && within(&n.shape));
        match spread {
            None => here.fold(0, |sum, (n, fit)| sum.saturating_add(fit.saturating_mul(n.count))),
            Some(Spread::Node) => here.fold(0, |sum, (n, _)| sum.saturating_add(n.count)),
            Some(Spread::Rack) => {
                here.map(|(n, _)| &n.shape.rack).collect::<std::collections::BTreeSet<_>>().len() as u32
            }
            Some(Spread::Site) => u32::from(here.count() > 0),
        }
    };
    let label: fn(&NodeShape) -> Option<&Label> = match need.accelerators.as_ref().map(|a| a.interconnect) {
        Some(Interconnect::Rack) => |shape| shape.rack.as_ref(),
        Some(Interconnect::NvlDomain) => |shape| shape.nvl_domain.as_ref(),
        _ => return sum(&|_| true),
    };
    let domains: std::collections::BTreeSet<_> = nodes.iter().filter_map(|n| label(&n.shape)).collect();
    let named = domains.into_iter().map(|d| sum(&|shape| label(shape) == Some(d))).max();
    // a node whose domain is not known shares one with itself alone
    let alone = nodes.iter().zip(&each).filter(|(n, _)| label(&n.shape).is_none() && n.count > 0);
    let alone = alone.map(|(_, fit)| if spread.is_some() { 1.min(*fit) } else { *fit }).max();
    named.max(alone).unwrap_or(0)
}

#[cfg(test)]
mod tests;
