//! The best-connected free devices of a node: the one rule by which devices are chosen, for placement, for the committing
//! transaction and for the agent.
//!
//! Of all sets of the wanted size the one whose pairs have the most bandwidth between them in sum. Of equal ones that which
//! leaves the most between the devices that stay free: a single device comes from a pair that is broken already, and of two
//! islands that both hold the order the smaller rest is used up.

use super::DeviceGroup;
use crate::{Bandwidth, site::Device};

/// What a pair of devices has between it one way, by the closest thing that they share, in Gbit/s. Round figures of machines of
/// today: only their order and rough distance matter.
const LINKS: [u64; 4] = [3_600, 500, 400, 200];
const NVLINK: usize = 0;
const PCIE_SWITCH: usize = 1;
const NUMA_NODE: usize = 2;
const SYSTEM: usize = 3;

/// Sets up to which all are looked at; nodes of up to 12 devices have fewer.
const SETS: u64 = 4_096;

/// Where devices stand in their node.
type Place = (Option<u16>, Option<u16>, Option<u16>);

fn between(a: Place, b: Place) -> u64 {
    let same = |a: Option<u16>, b: Option<u16>| a.is_some() && a == b;
    let shared = match (same(a.0, b.0), same(a.1, b.1), same(a.2, b.2)) {
        (true, ..) => NVLINK,
        (_, true, _) => PCIE_SWITCH,
        (.., true) => NUMA_NODE,
        _ => SYSTEM,
    };
    LINKS[shared]
}

/// What two devices of one node count as having between them, one way.
pub fn bandwidth(a: &Device, b: &Device) -> Bandwidth {
    Bandwidth::from_mbps(1_000 * between((a.island, a.pcie, a.numa), (b.island, b.pcie, b.numa)))
}

/// How many of each group: `count` in all, from the groups in `within`. What stays free is judged over all of `groups`.
/// `None`: `within` has too few.
pub(super) fn best(groups: &[&DeviceGroup], within: &[usize], count: u32) -> Option<Chosen> {
    let free = |i: &usize| groups[*i].free;
    let sum = within.iter().map(free).fold(0, u32::saturating_add);
    if sum < count {
        return None;
    }
    let place = |g: &DeviceGroup| (g.island, g.pcie, g.numa);
    let links = groups.iter().map(|a| groups.iter().map(|b| between(place(a), place(b))).collect()).collect();
    let search = Search { groups, within, links };
    let none = vec![0; groups.len()];
    if sum == count || within.len() == 1 {
        let mut all = none;
        for i in within {
            all[*i] = groups[*i].free.min(count);
        }
        return Some(search.judge(all));
    }
    let sets = within.iter().fold(1_u64, |sets, i| sets.saturating_mul(u64::from(groups[*i].free.min(count)) + 1));
    if sets > SETS {
        return Some(search.grow(count));
    }
    let mut best = None;
    search.all(0, count, none, &mut best);
    best
}

/// A choice, better if it compares greater.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Chosen {
    /// Sum over the pairs of chosen devices.
    joined: u64,
    /// Sum over the pairs of devices that stay free.
    left: u64,
    pub(super) counts: Vec<u32>,
}

struct Search<'a> {
    groups: &'a [&'a DeviceGroup],
    within: &'a [usize],
    links: Vec<Vec<u64>>,
}

impl Search<'_> {
    /// Sum over all pairs of devices, where a group has so many.
    fn pairs(&self, devices: impl Fn(usize) -> u32) -> u64 {
        let mut sum = 0_u64;
        for a in 0..self.groups.len() {
            let here = u64::from(devices(a));
            sum = sum.saturating_add((here * here.saturating_sub(1) / 2).saturating_mul(self.links[a][a]));
            for b in 0..a {
                sum = sum.saturating_add((here * u64::from(devices(b))).saturating_mul(self.links[a][b]));
            }
        }
        sum
    }

    fn judge(&self, counts: Vec<u32>) -> Chosen {
        let joined = self.pairs(|i| counts[i]);
        let left = self.pairs(|i| self.groups[i].free - counts[i]);
        Chosen { joined, left, counts }
    }

    /// Every way to take `count` from the groups in `within` from the one at `at` on.
    fn all(&self, at: usize, count: u32, counts: Vec<u32>, best: &mut Option<Chosen>) {
        let Some(&group) = self.within.get(at) else {
            if count == 0 {
                let chosen = self.judge(counts);
                if best.as_ref().is_none_or(|b| chosen > *b) {
                    *best = Some(chosen);
                }
            }
            return;
        };
        for here in 0..=self.groups[group].free.min(count) {
            let mut counts = counts.clone();
            counts[group] = here;
            self.all(at + 1, count - here, counts, best);
        }
    }

    /// The best of several good ones: from every group on, as many of it as there are, then again and again the group that is
    /// joined best to what is chosen; and simply in order. Each is then mended device by device.
    fn grow(&self, count: u32) -> Chosen {
        let from = |first: Option<usize>| {
            let mut counts = vec![0; self.groups.len()];
            let mut missing = count;
            let mut next = first;
            while missing > 0 {
                let joined = |i: &usize| (first.is_some().then(|| self.joined(*i, &counts)), std::cmp::Reverse(*i));
                let open = self.within.iter().copied().filter(|i| counts[*i] == 0 && self.groups[*i].free > 0);
                let Some(group) = next.take().or_else(|| open.max_by_key(joined)) else { break };
                counts[group] = self.groups[group].free.min(missing);
                missing -= counts[group];
            }
            self.judge(self.mended(counts))
        };
        let starts = self.within.iter().copied().filter(|i| self.groups[*i].free > 0).map(Some);
        starts.chain([None]).map(from).max().unwrap_or_else(|| self.judge(vec![0; self.groups.len()]))
    }

    /// What one more device of a group would have to those that are chosen.
    fn joined(&self, group: usize, counts: &[u32]) -> u64 {
        let to = counts.iter().zip(&self.links[group]).map(|(n, link)| u64::from(*n).saturating_mul(*link));
        to.fold(0, u64::saturating_add)
    }

    /// One device changed for another as long as that joins the chosen ones better.
    fn mended(&self, mut counts: Vec<u32>) -> Vec<u32> {
        for _ in 0..MENDS {
            let to: Vec<u64> = (0..counts.len()).map(|i| self.joined(i, &counts)).collect();
            let out = self.within.iter().copied().filter(|i| counts[*i] > 0);
            let into = |i: usize| {
                let open = self.within.iter().copied().filter(|j| counts[*j] < self.groups[*j].free);
                open.filter(move |j| *j != i)
            };
            let gains = out.flat_map(|i| into(i).map(move |j| (i, j))).map(|(i, j)| {
                let without = to[i].saturating_sub(self.links[i][i]);
                (to[j].saturating_sub(self.links[j][i]).saturating_sub(without), i, j)
            });
            match gains.max() {
                Some((gain, i, j)) if gain > 0 => (counts[i], counts[j]) = (counts[i] - 1, counts[j] + 1),
                _ => break,
            }
        }
        counts
    }
}

/// Most devices that are changed for others in one choice.
const MENDS: u32 = 64;

#[cfg(test)]
mod tests;
