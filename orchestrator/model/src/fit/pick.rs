//! Which devices: the rule that `take` and `allocate` share.

use super::{DeviceGroup, Slices, WHOLE, memory_of_share};
use crate::{
    name::ModelName,
    order::{Accelerators, Interconnect},
    quantity::{Bytes, Share},
    slice::SliceProfile,
};
use std::collections::BTreeMap;

type Level = fn(&DeviceGroup) -> Option<u16>;

const ISLAND: Level = |g| g.island;
const NUMA: Level = |g| g.numa;
const PCIE: Level = |g| g.pcie;

/// `count` whole devices as (group, devices), in order of group.
pub(super) fn whole(
    a: &Accelerators,
    model: &ModelName,
    count: u32,
    groups: &[DeviceGroup],
) -> Option<Vec<(usize, u32)>> {
    let usable = |g: &DeviceGroup| g.free > 0 && g.model == *model && a.memory.is_none_or(|m| g.memory >= m);
    let from: Vec<usize> = (0..groups.len()).filter(|i| usable(&groups[*i])).collect();
    let mut picked = Vec::new();
    let (bound, free): (Option<Level>, &[Level]) = match a.interconnect {
        Interconnect::Nvlink => (Some(ISLAND), &[NUMA, PCIE]),
        Interconnect::Numa => (Some(NUMA), &[ISLAND, PCIE]),
        Interconnect::Pcie => (Some(PCIE), &[ISLAND, NUMA]),
        // between replicas, not within one
        Interconnect::Node | Interconnect::NvlDomain | Interconnect::Rack | Interconnect::Site => {
            (None, &[ISLAND, NUMA, PCIE])
        }
    };
    let from = match bound {
        // of devices whose place is not known nobody can say that they share it
        Some(level) => {
            let known: Vec<usize> = from.into_iter().filter(|i| level(&groups[*i]).is_some()).collect();
            tightest(level, &known, count, groups)?
        }
        None => from,
    };
    if sum(&from, groups) < count {
        return None;
    }
    fill(free, from, count, groups, &mut picked);
    picked.sort_unstable();
    Some(picked)
}

fn sum(from: &[usize], groups: &[DeviceGroup]) -> u32 {
    from.iter().fold(0, |sum, i| sum.saturating_add(groups[*i].free))
}

fn classes(level: Level, from: &[usize], groups: &[DeviceGroup]) -> Vec<Vec<usize>> {
    let mut classes: BTreeMap<Option<u16>, Vec<usize>> = BTreeMap::new();
    for i in from {
        classes.entry(level(&groups[*i])).or_default().push(*i);
    }
    let mut classes: Vec<_> = classes.into_iter().collect();
    // devices outside any island first: they spoil none
    classes.sort_by_key(|(class, members)| (class.is_some(), sum(members, groups), *class));
    classes.into_iter().map(|(_, members)| members).collect()
}

/// The first class, in order of preference, that holds `count`.
fn tightest(level: Level, from: &[usize], count: u32, groups: &[DeviceGroup]) -> Option<Vec<usize>> {
    classes(level, from, groups).into_iter().find(|members| sum(members, groups) >= count)
}

/// Picks `count` devices, of which `from` has enough.
fn fill(levels: &[Level], from: Vec<usize>, mut count: u32, groups: &[DeviceGroup], picked: &mut Vec<(usize, u32)>) {
    let Some((level, deeper)) = levels.split_first() else {
        for i in from {
            let devices = groups[i].free.min(count);
            count -= devices;
            if devices > 0 {
                picked.push((i, devices));
            }
        }
        return;
    };
    if let Some(members) = tightest(*level, &from, count, groups) {
        return fill(deeper, members, count, groups, picked);
    }
    for members in classes(*level, &from, groups) {
        let devices = sum(&members, groups).min(count);
        count -= devices;
        if devices > 0 {
            fill(deeper, members, devices, groups, picked);
        }
    }
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
    let upper = groups.iter().fold(0_u32, |sum, g| sum.saturating_add(g.free));
    // what holds n holds fewer, so the largest is found by halving
    let (mut fits, mut over) = (0, upper.saturating_add(1));
    while over - fits > 1 {
        let middle = fits + (over - fits) / 2;
        if whole(a, model, middle, groups).is_some() { fits = middle } else { over = middle }
    }
    fits
}
