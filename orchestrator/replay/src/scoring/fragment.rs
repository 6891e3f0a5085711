//! FGD's fragmentation measure (Weng et al., USENIX ATC 2023, section 4), in exact integers.

use super::{Demand, Free, MAX_DEVICES, Models, pick::Valued};

/// The idle capacity of a node that the next need of the mix cannot use, times the number of needs counted.
#[derive(Debug, Clone)]
pub struct Fragment {
    models: Vec<Kinds>,
    total: u64,
}

/// The types that one device model can serve, grouped by what they take of the devices.
#[derive(Debug, Clone)]
struct Kinds {
    /// Needs that find nothing here whatever is free: another model, or no device wanted.
    never: u64,
    /// By what they take of a device, ascending.
    groups: Vec<Group>,
}

#[derive(Debug, Clone)]
struct Group {
    devices: usize,
    device_milli: u16,
    count: u64,
    /// (processors wanted, needs that want at most these), ascending.
    cpus: Vec<(u32, u64)>,
}

impl Fragment {
    /// For the mix given, on models 0 to 31.
    pub fn new(demand: &Demand) -> Self {
        let models = (0..=Models::MAX as u8).map(|model| Kinds::new(demand, model)).collect();
        Self { models, total: demand.total() }
    }

    /// Needs counted: what to divide [`Fragment::value`] by for thousandths of a device.
    pub fn total(&self) -> u64 {
        self.total
    }
}

impl Valued for Fragment {
    fn value(&self, free: &Free) -> i64 {
        let kinds = &self.models[usize::from(free.model).min(Models::MAX)];
        let idle = u64::from(free.idle_milli());
        let mut sum = kinds.never * idle;
        let mut sorted = [0; MAX_DEVICES];
        let sorted = &mut sorted[..free.devices().len()];
        sorted.copy_from_slice(free.devices());
        sorted.sort_unstable();
        // of the devices in front, each too full for the group at hand, what they have left together
        let (mut front, mut crumbs) = (0, 0);
        for group in &kinds.groups {
            while front < sorted.len() && sorted[front] < group.device_milli {
                crumbs += u64::from(sorted[front]);
                front += 1;
            }
            let mut fitting = 0;
            if sorted.len() - front >= group.devices {
                let below = group.cpus.partition_point(|(cpu, _)| *cpu <= free.cpu_milli);
                fitting = below.checked_sub(1).map_or(0, |last| group.cpus[last].1);
            }
            sum += fitting * crumbs + (group.count - fitting) * idle;
        }
        sum as i64
    }
}

impl Kinds {
    fn new(demand: &Demand, model: u8) -> Self {
        let mut kinds = Self { never: 0, groups: Vec::new() };
        let mut types = demand.types().to_vec();
        types.sort_by_key(|(need, _)| (need.device_milli, need.devices, need.cpu_milli));
        for (need, count) in types {
            let count = u64::from(count);
            if need.devices == 0 || !need.models.has(model) {
                kinds.never += count;
                continue;
            }
            let (devices, device_milli) = (usize::from(need.devices), need.device_milli);
            match kinds.groups.last_mut() {
                Some(group) if (group.devices, group.device_milli) == (devices, device_milli) => {
                    group.count += count;
                    group.cpus.push((need.cpu_milli, group.count));
                }
                _ => kinds.groups.push(Group { devices, device_milli, count, cpus: vec![(need.cpu_milli, count)] }),
            }
        }
        kinds
    }
}
