//! Concrete devices on a node.

use super::{DeviceGroup, WHOLE, memory_of_share, pick, shape, take};
use crate::{
    name::ModelName,
    order::Need,
    quantity::{Bytes, Cores, Share},
    site::{Device, DeviceSlice, Node, Piece},
    slice::SliceProfile,
};
use std::collections::BTreeMap;

/// What is taken of one node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeUse {
    pub cpu: Cores,
    pub memory: Bytes,
    /// By the number of the piece: a device or a slice of one.
    pub devices: BTreeMap<u32, Used>,
}

/// What is taken of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    pub share: Share,
    pub memory: Bytes,
}

impl NodeUse {
    /// Adds what one replica takes. `share` and `device_memory` are of each of `devices`, as `use_of` says them.
    pub fn add(&mut self, cpu: Cores, memory: Bytes, devices: &[u32], share: Share, device_memory: Bytes) {
        self.cpu = Cores::from_milli(self.cpu.milli().saturating_add(cpu.milli()));
        self.memory = Bytes::from_bytes(self.memory.bytes().saturating_add(memory.bytes()));
        for index in devices {
            let used = self.devices.entry(*index).or_insert(Used { share: Share::ZERO, memory: Bytes::ZERO });
            let sum = used.share.thousandths().saturating_add(share.thousandths());
            used.share = Share::from_thousandths(sum.min(u64::from(WHOLE)));
            used.memory = Bytes::from_bytes(used.memory.bytes().saturating_add(device_memory.bytes()));
        }
    }

    /// Adds one replica of `need` that stands on `devices` of `node`.
    pub fn add_replica(&mut self, need: &Need, node: &Node, devices: &[u32]) {
        let (share, memory) = use_of(need, node, devices);
        self.add(need.cpu, need.memory, devices, share, memory);
    }
}

/// What a replica of `need` takes of each of the devices that it was given: the share, and of a shared device the memory.
/// Whole devices are shares of 1000 thousandths, of which the memory goes without saying (0).
pub fn use_of(need: &Need, node: &Node, devices: &[u32]) -> (Share, Bytes) {
    let Some((a, share)) = need.accelerators.as_ref().and_then(|a| Some((a, a.share?))) else {
        return (Share::from_thousandths(u64::from(WHOLE)), Bytes::ZERO);
    };
    let device = node.devices.iter().find(|d| devices.first() == Some(&d.index));
    // shares are of whole devices
    (share, memory_of_share(a.memory, share, device.map_or(Bytes::ZERO, |d| d.memory)))
}

/// The pieces that one replica gets on `node` when `used` is taken, by number: devices, or slices; empty for CPU work. `None`: it does not
/// fit. Agrees with `take` on the node's shape.
pub fn allocate(need: &Need, model: Option<&ModelName>, node: &Node, used: &NodeUse) -> Option<Vec<u32>> {
    let (mut shape, members) = shape::layout(node, used);
    if let (Some(a), Some(model), Some(share)) = (&need.accelerators, model, part_of(need)) {
        let part = pick::part(a, model, share, &shape.groups)?;
        let group = &shape.groups[part.group];
        let free = part.from.map_or((WHOLE, group.memory), |at| group.partial[at]);
        take(need, Some(model), &mut shape)?;
        let is_it = |d: &&&Device| !d.is_in_slices() && shape::rest(d, used) == Some(free);
        let device = members[part.group].iter().find(is_it)?;
        return Some(vec![device.index]);
    }
    if let (Some(a), Some(model)) = (&need.accelerators, model)
        && let Some(profile) = a.mig
    {
        let pieces = slices(model, profile, a.count.unwrap_or(1), &shape.groups, &members, used)?;
        take(need, Some(model), &mut shape)?;
        return Some(pieces);
    }
    let taken = take(need, model, &mut shape)?;
    let mut devices = Vec::new();
    for (group, count) in taken.whole {
        let is_free = |d: &&&Device| !d.is_in_slices() && shape::rest(d, used) == Some((WHOLE, d.memory));
        devices.extend(members[group].iter().filter(is_free).take(count as usize).map(|d| d.index));
    }
    devices.sort_unstable();
    Some(devices)
}

/// Slices as `take` takes them, each found again among the devices of its group.
fn slices(
    model: &ModelName,
    profile: SliceProfile,
    count: u32,
    groups: &[DeviceGroup],
    members: &[Vec<&Device>],
    used: &NodeUse,
) -> Option<Vec<u32>> {
    let mut groups = groups.to_vec();
    let mut idle: BTreeMap<u32, Vec<&DeviceSlice>> =
        members.iter().flatten().map(|d| (d.index, shape::idle(d, used))).collect();
    let mut pieces = Vec::new();
    for _ in 0..count {
        let part = pick::slice(model, profile, &groups)?;
        let from = &groups[part.group].slices[part.from?];
        let device = members[part.group].iter().find(|d| shape::cut(&idle[&d.index]) == *from)?;
        let left = idle.get_mut(&device.index)?;
        let slice = left.remove(left.iter().position(|s| s.profile == profile)?);
        pieces.push(Piece::Slice { device: device.index, slice: slice.number }.number()?);
        groups[part.group].give_slice(part);
    }
    pieces.sort_unstable();
    Some(pieces)
}

fn part_of(need: &Need) -> Option<Share> {
    let a = need.accelerators.as_ref()?;
    if a.count.is_none() && a.mig.is_none() { a.share } else { None }
}
