//! What stays of a device after some arrivals.

use super::{Demand, Free, Models, Need, WHOLE};
use std::collections::BTreeMap;

/// Devices are looked at in steps of this many thousandths; a need's share is rounded up to it.
const GRAIN: u16 = 10;
const GRAINS: usize = (WHOLE / GRAIN) as usize;
/// Parts of a thousandth of a device that [`Crumbs::of`] counts in.
pub const FINE: u64 = 1 << 20;

/// The expected crumb of every device, by what it has left, the processors that its node has left, and its model.
#[derive(Debug, Clone)]
pub struct Crumbs {
    /// By model, the number of its table.
    tables: Vec<usize>,
    distinct: Vec<Vec<Level>>,
}

/// Of nodes that have at least so many processors left, up to the next level.
#[derive(Debug, Clone)]
struct Level {
    cpu_milli: u32,
    /// By grains left.
    stays: [u64; GRAINS + 1],
}

impl Crumbs {
    /// When `arrivals` needs of the mix come by in turn, and each takes its share where that fits.
    pub fn new(demand: &Demand, arrivals: u32) -> Self {
        let mut crumbs = Self { tables: Vec::new(), distinct: Vec::new() };
        let mut seen: BTreeMap<Vec<&(Need, u32)>, usize> = BTreeMap::new();
        for model in 0..=Models::MAX as u8 {
            let served = |(need, _): &&(Need, u32)| need.devices > 0 && need.models.has(model);
            let served: Vec<&(Need, u32)> = demand.types().iter().filter(served).collect();
            let table = *seen.entry(served.clone()).or_insert_with(|| {
                crumbs.distinct.push(levels(&served, demand.total(), arrivals));
                crumbs.distinct.len() - 1
            });
            crumbs.tables.push(table);
        }
        crumbs
    }

    /// Of all devices of a node together, in parts of `FINE` of a thousandth.
    pub fn of(&self, free: &Free) -> u64 {
        let levels = &self.distinct[self.tables[usize::from(free.model).min(Models::MAX)]];
        let above = levels.partition_point(|level| level.cpu_milli <= free.cpu_milli);
        let stays = &levels[above.saturating_sub(1)].stays;
        let stays = |left: &u16| stays[usize::from(left / GRAIN)] + u64::from(left % GRAIN) * FINE;
        free.devices().iter().map(stays).sum()
    }
}

/// One level for each amount of processors that some need wants, and the one below them all.
fn levels(served: &[&(Need, u32)], total: u64, arrivals: u32) -> Vec<Level> {
    let mut wanted: Vec<u32> = served.iter().map(|(need, _)| need.cpu_milli).chain([0]).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let level = |cpu_milli: u32| {
        // needs by the grains that they take of a device
        let mut takes = [0; GRAINS + 1];
        for (need, count) in served.iter().filter(|(need, _)| need.cpu_milli <= cpu_milli) {
            takes[usize::from(need.device_milli.div_ceil(GRAIN)).clamp(1, GRAINS)] += u64::from(*count);
        }
        Level { cpu_milli, stays: stays(&takes, total.max(1), arrivals) }
    };
    wanted.into_iter().map(level).collect()
}

/// By grains left now, the expectation of what is left after `arrivals` needs of `total`, of which `takes` fit by all but
/// the device.
fn stays(takes: &[u64; GRAINS + 1], total: u64, arrivals: u32) -> [u64; GRAINS + 1] {
    let mut stays = [0; GRAINS + 1];
    for (grains, stay) in stays.iter_mut().enumerate() {
        *stay = grains as u64 * u64::from(GRAIN) * FINE;
    }
    let takes: Vec<(usize, u64)> = takes.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect();
    for _ in 0..arrivals {
        // from the fullest device on: what a need leaves is looked up as it was one arrival later
        for grains in (0..=GRAINS).rev() {
            let fitting = takes.iter().take_while(|(take, _)| *take <= grains);
            let (mut taken, mut count) = (0, 0);
            for (take, needs) in fitting {
                taken += needs * stays[grains - take];
                count += needs;
            }
            stays[grains] = (taken + (total - count) * stays[grains]) / total;
        }
    }
    stays
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(cpu_milli: u32, device_milli: u16) -> Need {
        Need { cpu_milli, memory_mib: 0, devices: 1, device_milli, models: Models::ANY }
    }

    fn stays(demand: &Demand, arrivals: u32, cpu_milli: u32, left: u16) -> u64 {
        Crumbs::new(demand, arrivals).of(&Free::empty(cpu_milli, 0, 0, 0).with_devices(&[left])) * 1000 / FINE
    }

    #[test]
    fn what_stays_is_the_mean_over_all_arrivals() {
        let demand = Demand::of([need(1, 400), need(1, 400), need(1, 400), need(1, 810)]);
        // the first need: 3 in 4 leave 600, 1 in 4 leaves 190; then 600 is left at 200 by 3 in 4
        assert_eq!(stays(&demand, 1, 1, 1000), 600 * 750 + 190 * 250);
        assert_eq!(stays(&demand, 2, 1, 1000), (200 * 750 + 600 * 250) * 3 / 4 + 190 * 250);
        assert_eq!(stays(&demand, 100, 1, 1000), 200 * 750 + 190 * 250);
        assert_eq!(stays(&demand, 100, 1, 395), 395_000);
    }

    #[test]
    fn needs_that_want_more_processors_or_another_model_take_nothing() {
        let demand = Demand::of([need(8, 500), Need { models: Models::of([1]), ..need(1, 500) }]);
        assert_eq!(stays(&demand, 50, 7, 1000), 1_000_000);
        assert_eq!(stays(&demand, 1, 8, 1000), 750_000);
        let crumbs = Crumbs::new(&demand, 1);
        assert_eq!(crumbs.of(&Free::empty(7, 0, 1, 1)), crumbs.of(&Free::empty(8, 0, 0, 1)));
    }
}
