//! From what a source shows to the devices that are given away.

use crate::{
    accelerator::{Accelerator, Condition, MigMode, Slice, tells_apart},
    catalogue::Catalogue,
    snapshot::Snapshot,
    topology::{LinkKind, Topology},
    value::{Value, Why},
};
use rhumb_model::{
    Bytes, ModelName, SliceProfile,
    fit::slice,
    site::{self, Device, DeviceSlice, Health, Mig},
};
use std::collections::{BTreeMap, BTreeSet};

/// The devices of a node, in order of their index, and what of them is not known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inventory {
    pub devices: Vec<Device>,
    pub unknown: Vec<Unknown>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Index of the device.
    pub device: u32,
    pub value: &'static str,
    pub why: String,
}

/// No card is lost for a value that is not known: its model is then `unknown`, its memory 0, and its health unknown where
/// nothing shows that it answers.
pub fn inventory(shown: &Snapshot, catalogue: &Catalogue) -> Inventory {
    let indices = numbers(shown);
    let places = Places::of(shown);
    let mut inventory = Inventory::default();
    for (position, (accelerator, index)) in shown.accelerators.iter().zip(&indices).enumerate() {
        let model = catalogue.model(accelerator);
        let fallback = || ModelName::new("unknown").expect("a word is a name");
        inventory.devices.push(Device {
            index: *index,
            model: model.unwrap_or_else(fallback),
            memory: Bytes::from_bytes(accelerator.memory_bytes.known().copied().unwrap_or(0)),
            island: places.islands.get(&position).copied(),
            numa: accelerator.numa.known().copied(),
            pcie: places.switches.get(&position).copied(),
            health: health(accelerator),
            mig: mig(accelerator),
        });
        inventory.unknown.extend(unknown(accelerator, *index));
    }
    inventory.devices.sort_by_key(|d| d.index);
    inventory.unknown.sort_by_key(|u| u.device);
    inventory
}

/// The index of each of the accelerators: the tool's numbers where every device has one of its own, else by place on the
/// bus, else as listed. Tools number by bus too.
pub fn numbers(shown: &Snapshot) -> Vec<u32> {
    let accelerators = &shown.accelerators;
    let numbers: Vec<Option<u32>> = accelerators.iter().map(|a| a.index.known().copied()).collect();
    let own: BTreeSet<u32> = numbers.iter().copied().flatten().collect();
    if own.len() == accelerators.len() {
        return numbers.into_iter().flatten().collect();
    }
    let mut order: Vec<usize> = (0..accelerators.len()).collect();
    order.sort_by_key(|i| (accelerators[*i].pci.known().copied(), accelerators[*i].part.known().copied(), *i));
    let mut indices = vec![0; order.len()];
    for (index, position) in order.into_iter().enumerate() {
        indices[position] = index as u32;
    }
    indices
}

/// Numbers of islands and PCIe switches by position among the accelerators.
struct Places {
    islands: BTreeMap<usize, u16>,
    switches: BTreeMap<usize, u16>,
}

impl Places {
    fn of(shown: &Snapshot) -> Self {
        let numbered = |groups: Vec<Vec<usize>>| -> BTreeMap<usize, u16> {
            let of = |(n, group): (usize, Vec<usize>)| group.into_iter().map(move |position| (position, n as u16));
            groups.into_iter().enumerate().flat_map(of).collect()
        };
        let islands = shown.topology.as_ref().map(Topology::islands).unwrap_or_default();
        let Some(topology) = shown.over_pcie.as_ref().or(shown.topology.as_ref()) else {
            return Self { islands: numbered(islands), switches: BTreeMap::new() };
        };
        let mut switches = topology.switches();
        // a device of which all ways are known and none is through a switch has a port of its own
        let in_group: BTreeSet<usize> = switches.iter().flatten().copied().collect();
        for (end, row) in topology.ends.iter().zip(&topology.links) {
            let Some(position) = end.accelerator.filter(|p| !in_group.contains(p)) else { continue };
            let is_known = |kind: &LinkKind| matches!(kind, LinkKind::Phb | LinkKind::Node | LinkKind::System);
            let others = row.iter().zip(&topology.ends).filter(|(kind, _)| **kind != LinkKind::Itself);
            let mut to_accelerators = others.filter(|(_, end)| end.accelerator.is_some()).map(|(kind, _)| kind);
            if topology.ends.len() > 1 && to_accelerators.all(is_known) {
                switches.push(vec![position]);
            }
        }
        Self { islands: numbered(islands), switches: numbered(switches) }
    }
}

/// The slices that can be given away, and what can still be cut.
fn mig(a: &Accelerator) -> Option<Mig> {
    let device = Bytes::from_bytes(a.memory_bytes.known().copied().unwrap_or(0));
    let mode = match a.mig.known()? {
        MigMode::Disabled => {
            return Some(Mig { mode: site::MigMode::Off, slices: Vec::new(), open: slice::open(device, &[]) });
        }
        MigMode::Enabled => site::MigMode::On,
    };
    let mut slices: Vec<DeviceSlice> = a.slices.iter().enumerate().filter_map(|(at, s)| given(at, s, device)).collect();
    slices.sort_by_key(|s| s.number);
    // of two with one number nobody can tell which is meant
    let numbers: Vec<u32> = slices.iter().map(|s| s.number).collect();
    slices.retain(|s| numbers.iter().filter(|n| **n == s.number).count() == 1);
    Some(Mig { mode, slices, open: standing(a).map(|all| slice::open(device, &all)).unwrap_or_default() })
}

/// A slice that is a whole GPU instance: parts of one share its memory, and none of them has a name that an order could use.
fn given(at: usize, s: &Slice, device: Bytes) -> Option<DeviceSlice> {
    let profile: SliceProfile = s.profile.known()?.parse().ok()?;
    let memory = s.memory_bytes.known().map_or_else(|| slice::memory(profile, device), |b| Bytes::from_bytes(*b));
    let uuid = s.uuid.known().filter(|uuid| tells_apart(uuid)).cloned();
    Some(DeviceSlice { number: s.index.known().copied().unwrap_or(at as u32), profile, memory, uuid })
}

/// The GPU instances that the slices stand for; `None`: nobody can say.
fn standing(a: &Accelerator) -> Option<Vec<(SliceProfile, Option<u8>)>> {
    let mut instances = BTreeSet::new();
    let mut standing = Vec::new();
    for s in &a.slices {
        let name = s.profile.known()?;
        // `1c.3g.40gb` is a part of a GPU instance 3g.40gb
        let whole = name.split_once("c.").map_or(name.as_str(), |(_, whole)| whole);
        let is_new = s.gpu_instance.known().is_none_or(|id| instances.insert(*id));
        if is_new {
            standing.push((whole.parse().ok()?, None));
        }
    }
    Some(standing)
}

/// What the source says of it; where it says nothing, a device that tells its memory and how it fares is alive.
fn health(a: &Accelerator) -> Health {
    match a.condition {
        Value::Known(Condition::Failed) => return Health::Failed,
        Value::Known(Condition::Degraded) => return Health::Degraded,
        Value::Known(Condition::Ok) => return Health::Ok,
        Value::Unknown(_) => {}
    }
    let fares =
        a.temperature_mc.known().is_some() || a.power_mw.known().is_some() || a.utilisation_pct.known().is_some();
    if fares { Health::Ok } else { Health::Unknown }
}

/// What the source says it cannot tell; of what it does not speak of at all only the two values that every device has.
fn unknown(a: &Accelerator, device: u32) -> Vec<Unknown> {
    fn reason<T>(value: &Value<T>) -> Option<String> {
        match value {
            Value::Known(_) | Value::Unknown(Why::NotShown) => None,
            Value::Unknown(why) => Some(why.to_string()),
        }
    }
    fn always<T>(value: &Value<T>) -> Option<String> {
        value.is_not_shown().then(|| Why::NotShown.to_string()).or_else(|| reason(value))
    }
    let reasons = [
        ("model", always(&a.model)),
        ("memory", always(&a.memory_bytes)),
        ("memory_used", reason(&a.memory_used_bytes)),
        ("uuid", reason(&a.uuid)),
        ("pci", reason(&a.pci)),
        ("numa", reason(&a.numa)),
        ("utilisation", reason(&a.utilisation_pct)),
        ("power", reason(&a.power_mw)),
        ("power_limit", reason(&a.power_limit_mw)),
        ("temperature", reason(&a.temperature_mc)),
        ("health", a.xid.known().filter(|xid| is_grave(**xid)).map(|xid| format!("error Xid {xid} was reported"))),
        ("health", reason(&a.condition)),
        ("mig", reason(&a.mig)),
        ("ecc", reason(&a.ecc.uncorrected)),
        ("fabric", reason(&a.fabric_links)),
        ("jobs", reason(&a.jobs)),
    ];
    reasons.into_iter().filter_map(|(value, why)| Some(Unknown { device, value, why: why? })).collect()
}

/// Whether an error that the driver reports by number is the device's, and not that of the work on it (NVIDIA, XID Errors:
/// 13, 31, 43, 45, 68 and 109 come from applications).
pub fn is_grave(xid: u32) -> bool {
    !matches!(xid, 0 | 13 | 31 | 43 | 45 | 68 | 109)
}

/// The mean of what is known, and of how many devices it is: a device of which nothing is known is not idle.
pub fn mean_utilisation_pct(shown: &Snapshot) -> (Option<u8>, usize) {
    let known: Vec<u32> =
        shown.accelerators.iter().filter_map(|a| a.utilisation_pct.known()).map(|pct| u32::from(*pct)).collect();
    let mean = known.iter().sum::<u32>().checked_div(known.len() as u32);
    (mean.map(|pct| pct as u8), known.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{accelerator::Vendor, read};

    fn named(index: u32, memory: Value<u64>) -> Accelerator {
        Accelerator {
            model: Value::Known("NVIDIA H100 80GB HBM3".into()),
            memory_bytes: memory,
            temperature_mc: Value::Known(30_000),
            ..Accelerator::numbered(index, Vendor::Nvidia)
        }
    }

    fn shown(accelerators: Vec<Accelerator>) -> Snapshot {
        Snapshot { accelerators, ..Snapshot::default() }
    }

    /// A query that one kind of card does not support stopped the whole agent.
    #[test]
    fn a_card_without_its_memory_is_still_a_card() {
        let lacks = Value::Unknown(Why::Failed { call: "memory".into(), error: "not supported".into() });
        let inventory =
            inventory(&shown(vec![named(0, Value::Known(80 << 30)), named(1, lacks)]), &Catalogue::built_in());
        let [a, b] = &inventory.devices[..] else { panic!("{inventory:?}") };
        assert_eq!((a.memory.bytes(), b.memory.bytes()), (80 << 30, 0));
        assert_eq!((a.health, b.health), (Health::Ok, Health::Ok));
        let unknown = inventory.unknown.iter().find(|u| u.device == 1 && u.value == "memory").unwrap();
        assert_eq!(unknown.why, "memory: not supported");
        assert!(inventory.unknown.iter().all(|u| (u.device, u.value) != (0, "memory")));
    }

    /// A mark of no value was shown as a use of 9.2e18 percent, and slices as idle.
    #[test]
    fn a_mean_is_of_what_is_known() {
        let csv =
            "index, uuid, utilization.gpu [%]\n0, a, 9223372036854775794\n1, b, 2147483632\n2, c, [N/A]\n3, d, 37\n";
        let read = read(csv.as_bytes()).unwrap().together();
        assert_eq!(mean_utilisation_pct(&read), (Some(37), 1));
        assert_eq!(mean_utilisation_pct(&Snapshot::default()), (None, 0));
    }

    #[test]
    fn levels_come_from_the_matrix() {
        let text = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n\
                    GPU0\t X \tNV4\tPIX\tSYS\t0-3\t0\nGPU1\tNV4\t X \tNODE\tSYS\t0-3\t0\n\
                    GPU2\tPIX\tNODE\t X \tSYS\t0-3\t0\nGPU3\tSYS\tSYS\tSYS\t X \t4-7\t1\n";
        let inventory = inventory(&read(text.as_bytes()).unwrap().together(), &Catalogue::built_in());
        let levels: Vec<_> = inventory.devices.iter().map(|d| (d.island, d.pcie, d.numa)).collect();
        assert_eq!(
            levels,
            [(Some(0), Some(0), Some(0)), (Some(0), None, Some(0)), (None, Some(0), Some(0)), (None, Some(1), Some(1))]
        );
        // a matrix alone does not show that a device is alive
        assert!(inventory.devices.iter().all(|d| d.health == Health::Unknown && d.model.as_str() == "unknown"));
    }

    #[test]
    fn devices_without_numbers_are_numbered_by_the_bus() {
        let at = |pci: &str| Accelerator { pci: Value::Known(pci.parse().unwrap()), ..Accelerator::default() };
        let inventory = inventory(&shown(vec![at("0000:9d:00.0"), at("0000:1b:00.0")]), &Catalogue::built_in());
        assert_eq!(inventory.devices.iter().map(|d| d.index).collect::<Vec<_>>(), [0, 1]);
    }
}
