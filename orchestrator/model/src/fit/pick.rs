//! Which devices: the rule that `take` and `allocate` share.

use super::{DeviceGroup, Slices, WHOLE, connect, memory_of_share};
use crate::{
    name::ModelName,
    order::{Accelerators, Interconnect},
    quantity::{Bytes, Share},
    slice::SliceProfile,
};
use std::collections::BTreeMap;

type Level = fn(&DeviceGroup) -> Option<u16>;

/// `count` whole devices as (group, devices), in order of group: the best-connected ones.
pub(super) fn whole(
    a: &Accelerators,
    model: &ModelName,
    count: u32,
    groups: &[DeviceGroup],
) -> Option<Vec<(usize, u32)>> {
    let from = usable(a, model, groups);
    let free: Vec<&DeviceGroup> = from.iter().map(|i| &groups[*i]).collect();
    if let [only] = &free[..] {
        // most nodes are like this
        let shared = bound(a.interconnect).is_none_or(|level| level(only).is_some());
        return (shared && only.free >= count).then(|| vec![(from[0], count)]);
    }
    let chosen = sets(a.interconnect, &free).iter().filter_map(|within| connect::best(&free, within, count)).max();
    // a need that names no link takes devices outside any island, which spoil none, where there are enough of them
    let outside = || (0..free.len()).filter(|i| free[*i].island.is_none()).collect::<Vec<_>>();
    let spoils_none = bound(a.interconnect).is_none().then(|| connect::best(&free, &outside(), count)).flatten();
    let counts = spoils_none.or(chosen)?.counts;
    Some(from.into_iter().zip(counts).filter(|(_, devices)| *devices > 0).collect())
}

/// The groups that a need can have whole devices of.
fn usable(a: &Accelerators, model: &ModelName, groups: &[DeviceGroup]) -> Vec<usize> {
    let usable = |g: &DeviceGroup| g.free > 0 && g.model == *model && a.memory.is_none_or(|m| g.memory >= m);
    (0..groups.len()).filter(|i| usable(&groups[*i])).collect()
}

/// What all devices of one replica must share.
fn bound(interconnect: Interconnect) -> Option<Level> {
    match interconnect {
        Interconnect::Nvlink => Some(|g| g.island),
        Interconnect::Numa => Some(|g| g.numa),
        Interconnect::Pcie => Some(|g| g.pcie),
        // between replicas, not within one
        Interconnect::Node | Interconnect::NvlDomain | Interconnect::Rack | Interconnect::Site => None,
    }
}

/// The sets of groups of which one must hold all devices. Of devices whose place is not known nobody can say that they
/// share it.
fn sets(interconnect: Interconnect, groups: &[&DeviceGroup]) -> Vec<Vec<usize>> {
    let Some(level) = bound(interconnect) else { return vec![(0..groups.len()).collect()] };
    let mut sets: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (i, group) in groups.iter().enumerate() {
        if let Some(place) = level(group) {
            sets.entry(place).or_default().push(i);
        }
    }
    sets.into_values().collect()
}

/// Where a share goes.
pub(super) struct Part {
    pub group: usize,
    /// Index into the group's partly taken devices; `None`: a wholly free one.
    pub from: Option<usize>,
    pub share: Share,
    pub memory: Bytes,
}

/// The partly taken device that the share fills best, else a free one: outside any island first, then of the island with
/// the fewest free devices.
pub(super) fn part(a: &Accelerators, model: &ModelName, share: Share, groups: &[DeviceGroup]) -> Option<Part> {
    let need = |g: &DeviceGroup| {
        let memory = memory_of_share(a.memory, share, g.memory);
        (g.model == *model && memory <= g.memory && !share.is_zero()).then_some(memory)
    };
    let thousandths = share.thousandths() as u16;
    let started = groups.iter().enumerate().filter_map(|(i, g)| Some((i, g, need(g)?))).flat_map(|(i, g, memory)| {
        let fits = move |(_, p): &(usize, &(u16, Bytes))| p.0 >= thousandths && p.1 >= memory;
        g.partial.iter().enumerate().filter(fits).map(move |(at, p)| (p.0, p.1, i, at, memory))
    });
    if let Some((_, _, group, at, memory)) = started.min() {
        return Some(Part { group, from: Some(at), share, memory });
    }
    debug_assert!(thousandths <= WHOLE, "a share is at most one device");
    let fresh = groups.iter().enumerate().filter(|(_, g)| g.free > 0).filter_map(|(i, g)| {
        let memory = need(g)?;
        Some((fresh(g, groups), i, memory))
    });
    fresh.min().map(|(_, group, memory)| Part { group, from: None, share, memory })
}

/// How little is spoiled where a free device of the group is broken up: outside any island first, then the island with the
/// fewest free devices.
fn fresh(g: &DeviceGroup, groups: &[DeviceGroup]) -> (bool, u32, u32) {
    let island_free = match g.island {
        None => 0,
        Some(_) => groups.iter().filter(|o| o.island == g.island).fold(0_u32, |sum, o| sum.saturating_add(o.free)),
    };
    (g.island.is_some(), island_free, g.free)
}

/// Where a slice goes.
pub(super) struct Slice {
    pub group: usize,
    /// Index into the group's devices in slices; `None`: a wholly free one.
    pub from: Option<usize>,
    /// What is left of the device.
    pub left: Slices,
}

/// A slice that is cut already, else the device in slices that has the least left, else a free device that may be cut.
pub(super) fn slice(model: &ModelName, profile: SliceProfile, groups: &[DeviceGroup]) -> Option<Slice> {
    let of_model = || groups.iter().enumerate().filter(|(_, g)| g.model == *model);
    let started = of_model().flat_map(|(group, g)| {
        g.slices.iter().enumerate().filter_map(move |(at, s)| {
            let left = s.take(profile, g.memory)?;
            Some((matches!(left, Slices::Open { .. }), s.free(g.memory), group, at, left))
        })
    });
    if let Some((.., group, at, left)) = started.min() {
        return Some(Slice { group, from: Some(at), left });
    }
    let fresh = of_model().filter(|(_, g)| g.cut && g.free > 0).filter_map(|(group, g)| {
        let left = Slices::open().take(profile, g.memory)?;
        Some((fresh(g, groups), group, left))
    });
    fresh.min().map(|(_, group, left)| Slice { group, from: None, left })
}

/// The most devices that one replica could have of the groups, were it to ask for that many.
pub(super) fn largest(a: &Accelerators, model: &ModelName, groups: &[DeviceGroup]) -> u32 {
    let free: Vec<&DeviceGroup> = usable(a, model, groups).into_iter().map(|i| &groups[i]).collect();
    let sum = |within: &Vec<usize>| within.iter().fold(0_u32, |sum, i| sum.saturating_add(free[*i].free));
    sets(a.interconnect, &free).iter().map(sum).max().unwrap_or(0)
}
