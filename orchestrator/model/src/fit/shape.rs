//! From nodes to shapes.

use super::{DeviceGroup, FreeNodes, NodeShape, NodeUse, Slices, WHOLE};
use crate::{
    quantity::{Bytes, Cores},
    site::{Device, DeviceSlice, Health, Node, Piece},
};
use std::collections::BTreeMap;

impl NodeShape {
    /// What is free of `node` when `used` is taken. Devices that are not healthy are left out.
    pub fn of(node: &Node, used: &NodeUse) -> Self {
        layout(node, used).0
    }

    /// The node with nothing taken.
    pub fn whole(node: &Node) -> Self {
        Self::of(node, &NodeUse::default())
    }

    /// A shape of these groups, which may come in any order and numbering.
    pub fn new(groups: Vec<DeviceGroup>, cpu: Cores, memory: Bytes) -> Self {
        let mut shape = Self { groups, cpu, memory, rack: None, nvl_domain: None };
        shape.renumber();
        shape
    }

    /// Puts the groups in order, so that the shape equals that of any node with the same free devices.
    pub(super) fn renumber(&mut self) {
        let groups = std::mem::take(&mut self.groups);
        let members = canonical(groups.into_iter().map(|g| (g, Vec::new())).collect());
        self.groups = members.into_iter().map(|(g, _)| g).collect();
    }

    /// The shape once new slices have found their places on their devices.
    pub fn settled(mut self) -> Self {
        // without slices it is in order already
        if self.groups.iter().all(|group| group.slices.is_empty()) {
            return self;
        }
        for group in &mut self.groups {
            let memory = group.memory;
            group.slices.iter_mut().for_each(|s| *s = s.settled(memory));
        }
        self.renumber();
        self
    }

    /// Wholly free devices.
    pub fn free_devices(&self) -> u32 {
        self.groups.iter().fold(0, |sum, g| sum.saturating_add(g.free))
    }
}

/// Equal nodes once, with their count, in order of shape.
pub fn group_nodes(shapes: impl IntoIterator<Item = (NodeShape, u32)>) -> Vec<FreeNodes> {
    let mut counts: BTreeMap<NodeShape, u32> = BTreeMap::new();
    for (shape, count) in shapes {
        let sum = counts.entry(shape).or_default();
        *sum = sum.saturating_add(count);
    }
    counts.into_iter().filter(|(_, count)| *count > 0).map(|(shape, count)| FreeNodes { shape, count }).collect()
}

/// The free part of one device, as (share in thousandths, memory); `None`: nothing.
pub(super) fn rest(device: &Device, used: &NodeUse) -> Option<(u16, Bytes)> {
    // one that was cut when somebody got a slice of it is not whole again before that is given back
    if used.devices.range(Piece::slices_of(device.index)).next().is_some() {
        return None;
    }
    let Some(taken) = used.devices.get(&device.index) else { return Some((WHOLE, device.memory)) };
    let share = WHOLE.saturating_sub(taken.share.thousandths() as u16);
    let memory = device.memory.saturating_sub(taken.memory);
    (share > 0 && !memory.is_zero()).then_some((share, memory))
}

/// Slices of a device that nobody has, by number.
pub(super) fn idle<'a>(device: &'a Device, used: &NodeUse) -> Vec<&'a DeviceSlice> {
    let is_idle = |s: &&DeviceSlice| {
        let number = Piece::Slice { device: device.index, slice: s.number }.number();
        number.is_some_and(|n| !used.devices.contains_key(&n))
    };
    // one that is held as a whole, from before it was cut, has nothing to give
    let slices = if used.devices.contains_key(&device.index) { &[] } else { device.slices() };
    slices.iter().filter(is_idle).collect()
}

/// What a device with these idle slices has to give.
pub(super) fn cut(idle: &[&DeviceSlice]) -> Slices {
    let mut profiles: Vec<_> = idle.iter().map(|s| s.profile).collect();
    profiles.sort_unstable();
    Slices::Cut(profiles)
}

/// A group with the devices in it.
pub(super) type Members<'a> = (DeviceGroup, Vec<&'a Device>);

/// The shape, and for each of its groups the devices in order of index.
pub(super) fn layout<'a>(node: &'a Node, used: &NodeUse) -> (NodeShape, Vec<Vec<&'a Device>>) {
    let mut members: BTreeMap<_, Members<'a>> = BTreeMap::new();
    let mut devices: Vec<&Device> = node.devices.iter().filter(|d| d.health == Health::Ok).collect();
    devices.sort_by_key(|d| d.index);
    for device in devices {
        let key = (&device.model, device.memory, device.island, device.numa, device.pcie);
        let (group, list) = members.entry(key).or_insert_with(|| {
            let group = DeviceGroup {
                model: device.model.clone(),
                memory: device.memory,
                island: device.island,
                numa: device.numa,
                pcie: device.pcie,
                free: 0,
                total: 0,
                partial: Vec::new(),
                cut: false,
                slices: Vec::new(),
            };
            (group, Vec::new())
        });
        if device.is_in_slices() {
            group.add_slices(cut(&idle(device, used)));
        } else {
            group.total += 1;
            match rest(device, used) {
                Some(rest) if rest == (WHOLE, device.memory) => group.free += 1,
                Some(rest) => group.partial.push(rest),
                None => {}
            }
        }
        list.push(device);
    }
    let members = canonical(members.into_values().collect());
    let (groups, devices) = members.into_iter().unzip();
    let shape = NodeShape {
        groups,
        cpu: node.cpu.checked_sub(used.cpu).unwrap_or_default(),
        memory: node.memory.saturating_sub(used.memory),
        rack: node.rack.clone(),
        nvl_domain: node.nvl_domain.clone(),
    };
    (shape, devices)
}

/// Numbers islands, then NUMA nodes, then PCIe switches by what they hold, so that nodes that differ in numbering alone
/// compare equal. What is in order already stays as it is.
fn canonical(mut members: Vec<Members<'_>>) -> Vec<Members<'_>> {
    for (group, _) in &mut members {
        group.partial.sort_unstable();
        group.slices.sort_unstable();
    }
    if let [(group, _)] = &mut *members {
        for place in [&mut group.island, &mut group.numa, &mut group.pcie] {
            *place = place.map(|_| 0);
        }
        return members;
    }
    let colours = colours(&members);
    // each kind of place is told apart by the numbers that the kinds before it have got
    let key = |kinds: usize, (i, (g, _)): (usize, &Members<'_>)| {
        (colours[i], g.island.filter(|_| kinds > 0), g.numa.filter(|_| kinds > 1))
    };
    for kind in 0..3 {
        let keys: Vec<Key> = members.iter().enumerate().map(|m| key(kind, m)).collect();
        renumber(&mut members, kind, &keys);
    }
    members.sort_by(|a, b| a.0.cmp(&b.0));
    members
}

/// Colour of a group, then the numbers of its places that are known.
type Key = (usize, Option<u16>, Option<u16>);

fn places(g: &DeviceGroup) -> [Option<u16>; 3] {
    [g.island, g.numa, g.pcie]
}

/// Tells groups apart by their devices and by what their places hold, to a depth of three: colour refinement.
fn colours(members: &[Members<'_>]) -> Vec<usize> {
    let content = members.iter().map(|(g, _)| {
        let devices = (g.free, g.total, &g.partial, g.cut, &g.slices);
        (&g.model, g.memory, devices, places(g).map(|place| place.is_some()))
    });
    let mut colours = ranks(&content.collect::<Vec<_>>());
    for _ in 0..3 {
        let held = [0, 1, 2].map(|kind| {
            let mut held: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
            for ((g, _), colour) in members.iter().zip(&colours) {
                if let Some(n) = places(g)[kind] {
                    held.entry(n).or_default().push(*colour);
                }
            }
            for colours in held.values_mut() {
                colours.sort_unstable();
            }
            held
        });
        let around = members.iter().zip(&colours).map(|((g, _), colour)| {
            let of = |kind: usize| places(g)[kind].and_then(|n| held[kind].get(&n));
            (*colour, of(0), of(1), of(2))
        });
        colours = ranks(&around.collect::<Vec<_>>());
    }
    colours
}

fn ranks<T: Ord>(values: &[T]) -> Vec<usize> {
    let mut sorted: Vec<&T> = values.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    values.iter().map(|v| sorted.partition_point(|s| *s < v)).collect()
}

/// Numbers the places of one kind by the keys of the groups in them; equal ones keep their order.
fn renumber(members: &mut [Members<'_>], kind: usize, keys: &[Key]) {
    let mut held: BTreeMap<u16, Vec<Key>> = BTreeMap::new();
    for ((group, _), key) in members.iter().zip(keys) {
        if let Some(n) = places(group)[kind] {
            held.entry(n).or_default().push(*key);
        }
    }
    for keys in held.values_mut() {
        keys.sort_unstable();
    }
    let mut order: Vec<(Vec<Key>, u16)> = held.into_iter().map(|(n, keys)| (keys, n)).collect();
    order.sort_unstable();
    let place: BTreeMap<u16, u16> = order.iter().enumerate().map(|(i, (_, n))| (*n, i as u16)).collect();
    for (group, _) in members {
        let number = [&mut group.island, &mut group.numa, &mut group.pcie].into_iter().nth(kind);
        if let Some(number) = number {
            *number = number.and_then(|old| place.get(&old).copied());
        }
    }
}
