//! NVIDIA cards through the driver's library.

mod asking;
mod sample;
mod xid;

pub use sample::Sample;

use asking::{Asking, Card, Hanging};
use nvml_wrapper::{
    Device, Nvml,
    enum_wrappers::device::{EccCounter, MemoryError, TemperatureSensor, TopologyLevel},
    enums::device::UsedGpuMemory,
    error::NvmlError,
};
use rhumb_devices::{
    Accelerator, Condition, Ecc, Job, LinkKind, MigMode, PciAddress, PciId, Pcie, Slice, Snapshot, Topology, Value,
    Vendor, Why, topology::End,
};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    sync::{Arc, Mutex},
    time::Duration,
};
use xid::Xids;

/// How the library is opened and how long its calls may take.
#[derive(Debug, Clone)]
pub struct Options {
    /// `None`: where the system has it.
    pub library: Option<OsString>,
    pub timeout: Duration,
}

impl Default for Options {
    /// A call that works takes a few milliseconds, the first one of a driver without its daemon a second or two.
    fn default() -> Self {
        Self { library: None, timeout: Duration::from_millis(500) }
    }
}

/// An open library. It is never closed: a call that hangs may be inside of it for ever.
#[derive(Debug)]
pub struct Driver {
    nvml: &'static Nvml,
    timeout: Duration,
    hanging: Arc<Mutex<Hanging>>,
    xids: Xids,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    #[error("there is no NVIDIA driver here: {0}")]
    Absent(String),
    #[error("the NVIDIA driver did not start within {0:?}")]
    NoAnswer(Duration),
}

/// The first start of a driver takes its time.
const START: u32 = 10;

impl Driver {
    pub fn open(options: &Options) -> Result<Self, DriverError> {
        let library = options.library.clone();
        let start = move || {
            let mut builder = Nvml::builder();
            if let Some(library) = &library {
                builder.lib_path(library);
            }
            builder.init().map(|nvml| &*Box::leak(Box::new(nvml)))
        };
        let limit = options.timeout * START;
        let hanging = Arc::default();
        match asking::within(limit, &hanging, ("start", None), start) {
            Some(Ok(nvml)) => Ok(Self { nvml, timeout: options.timeout, hanging, xids: Xids::default() }),
            Some(Err(error)) => Err(DriverError::Absent(error.to_string())),
            None => Err(DriverError::NoAnswer(limit)),
        }
    }

    /// Calls that were given up and have not come back.
    pub fn hanging(&self) -> u32 {
        asking::hanging(&self.hanging)
    }

    /// Everything that the driver tells, by now.
    pub fn look(&self) -> Snapshot {
        let mut asking = Asking::new(self.nvml, self.timeout, &self.hanging);
        let mut shown = Snapshot {
            driver: asking.node("driver version", Nvml::sys_driver_version),
            runtime: asking.node("CUDA version", Nvml::sys_cuda_driver_version).map(|v| {
                format!(
                    "CUDA {}.{}",
                    nvml_wrapper::cuda_driver_version_major(v),
                    nvml_wrapper::cuda_driver_version_minor(v)
                )
            }),
            attached: asking.node("device count", Nvml::device_count),
            ..Snapshot::default()
        };
        let mut remotes = Vec::new();
        match &shown.attached {
            Value::Known(count) => {
                for index in 0..(*count).min(MOST) {
                    self.xids.listen(index, &mut asking);
                    let (device, links) = look_at(index, &mut asking, &self.xids);
                    shown.accelerators.push(device);
                    remotes.push(links);
                }
            }
            Value::Unknown(why) => shown.notes.push(format!("nobody can say how many cards there are: {why}")),
        }
        shown.topology = topology(&shown.accelerators, &remotes, &mut asking);
        shown
    }
}

/// Most cards of one host.
const MOST: u32 = 64;

/// Most links of one card (NVML's own limit).
const LINKS: u32 = 18;

fn look_at(index: u32, asking: &mut Asking<'_>, xids: &Xids) -> (Accelerator, BTreeMap<PciAddress, u32>) {
    let mut card = asking.card(index);
    let pci = card.ask("PCI address", Device::pci_info);
    let address = match &pci {
        Value::Known(info) => parse(&info.bus_id),
        Value::Unknown(why) => Value::Unknown(why.clone()),
    };
    let memory = card.ask("memory", |d| d.memory_info().map(|m| (m.total, m.used)));
    let mig = card.ask("MIG mode", Device::mig_mode);
    let mut device = Accelerator {
        index: Value::Known(index),
        vendor: Value::Known(Vendor::Nvidia),
        model: card.ask("name", Device::name),
        uuid: card.ask("UUID", Device::uuid),
        pci: address,
        pci_id: pci.map(|i| PciId { vendor: i.pci_device_id as u16, device: (i.pci_device_id >> 16) as u16 }),
        pcie: Pcie {
            generation: card.ask("PCIe generation", Device::current_pcie_link_gen).map(|n| n as u8),
            lanes: card.ask("PCIe lanes", Device::current_pcie_link_width).map(|n| n as u8),
            ..Pcie::default()
        },
        numa: card.ask("NUMA node", Device::numa_node_id).map(|n| n as u16),
        memory_bytes: memory.clone().map(|(total, _)| total),
        memory_used_bytes: memory.map(|(_, used)| used),
        utilisation_pct: percent(card.ask("utilisation", |d| d.utilization_rates().map(|u| u.gpu))),
        power_mw: card.ask("power", Device::power_usage).map(u64::from),
        power_limit_mw: card.ask("power limit", Device::enforced_power_limit).map(u64::from),
        temperature_mc: card
            .ask("temperature", |d| d.temperature(TemperatureSensor::Gpu))
            .map(|c| i64::from(c) * 1_000),
        ecc: Ecc {
            corrected: card
                .ask("corrected errors", |d| d.total_ecc_errors(MemoryError::Corrected, EccCounter::Volatile)),
            uncorrected: card
                .ask("uncorrected errors", |d| d.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile)),
        },
        xid: xids.last(index),
        mig: mig.map(|mode| if mode.current == 0 { MigMode::Disabled } else { MigMode::Enabled }),
        jobs: card.ask("processes", Device::running_compute_processes).map(|all| all.iter().map(job).collect()),
        ..Accelerator::default()
    };
    if device.mig == Value::Known(MigMode::Enabled) {
        device.slices = slices(&mut card);
    }
    let remotes = links(&mut card, &mut device);
    device.condition = condition(&device, &card, xids.condition(index));
    (device, remotes)
}

fn parse(bus_id: &str) -> Value<PciAddress> {
    bus_id.parse().map_or_else(|_| Value::Unknown(Why::Unreadable(bus_id.to_owned())), Value::Known)
}

/// What no share can be is the mark of a value that is missing.
fn percent(value: Value<u32>) -> Value<u8> {
    match value {
        Value::Known(pct) if pct <= 100 => Value::Known(pct as u8),
        Value::Known(other) => Value::Unknown(Why::Impossible(other.to_string())),
        Value::Unknown(why) => Value::Unknown(why),
    }
}

fn job(process: &nvml_wrapper::struct_wrappers::device::ProcessInfo) -> Job {
    let id = |id: Option<u32>| id.map_or_else(Value::default, Value::Known);
    Job {
        pid: Value::Known(process.pid),
        kind: Value::Known("C".into()),
        memory_bytes: match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Value::Known(bytes),
            UsedGpuMemory::Unavailable => Value::Unknown(Why::Said("unavailable".into())),
        },
        gpu_instance: id(process.gpu_instance_id),
        compute_instance: id(process.compute_instance_id),
        ..Job::default()
    }
}

fn slices(card: &mut Card<'_, '_>) -> Vec<Slice> {
    let most = card.ask("slice count", Device::mig_device_count);
    let mut slices = Vec::new();
    for index in 0..most.known().copied().unwrap_or(0).min(8) {
        // numbers without a slice are said not to be found
        let found = card.ask_at("slice", index, |d, index| d.mig_device_by_index(index).and_then(|s| s.uuid()));
        if !matches!(found, Value::Known(_)) {
            continue;
        }
        let memory = card.ask_at("slice memory", index, |d, index| {
            d.mig_device_by_index(index)?.memory_info().map(|m| (m.total, m.used))
        });
        let name = card.ask_at("slice name", index, |d, index| d.mig_device_by_index(index)?.name());
        let gpu_instance = card.ask_slice("GPU instance", index, nvml_slice_ids::gpu_instance);
        let compute_instance = card.ask_slice("compute instance", index, nvml_slice_ids::compute_instance);
        let (gpu_instance, compute_instance) = instances(&found, gpu_instance, compute_instance);
        slices.push(Slice {
            index: Value::Known(index),
            gpu_instance,
            compute_instance,
            uuid: found,
            profile: match name {
                Value::Known(name) => match name.split_once("MIG ") {
                    Some((_, profile)) => Value::Known(profile.trim().to_owned()),
                    None => Value::Unknown(Why::Unreadable(name)),
                },
                Value::Unknown(why) => Value::Unknown(why),
            },
            memory_bytes: memory.clone().map(|(total, _)| total),
            memory_used_bytes: memory.map(|(_, used)| used),
            ..Slice::default()
        });
    }
    slices
}

/// As the driver says; else as they stand in the UUIDs of drivers before R470, `MIG-GPU-.../1/0`.
fn instances(uuid: &Value<String>, gpu: Value<u32>, compute: Value<u32>) -> (Value<u32>, Value<u32>) {
    let parts: Vec<&str> = uuid.known().map(|uuid| uuid.split('/').collect()).unwrap_or_default();
    let or = |said: Value<u32>, at: usize| match (&said, parts.as_slice()) {
        (Value::Unknown(_), [_, _, _]) => parts[at].parse().map_or(said, Value::Known),
        _ => said,
    };
    (or(gpu, 1), or(compute, 2))
}

/// Active NVLinks, and how many of them lead to which place on the bus: another card or a switch.
fn links(card: &mut Card<'_, '_>, device: &mut Accelerator) -> BTreeMap<PciAddress, u32> {
    let mut remotes: BTreeMap<PciAddress, u32> = BTreeMap::new();
    device.fabric_links = Value::Known(0);
    for link in 0..LINKS {
        match card.ask_at("NVLink state", link, |d, link| d.link_wrapper_for(link).is_active()) {
            Value::Known(true) => {}
            Value::Known(false) => continue,
            Value::Unknown(why) => {
                // cards say how many links they have by refusing the next one
                if link == 0
                    || !matches!(&why, Why::Failed { error, .. } if *error == NvmlError::InvalidArg.to_string())
                {
                    device.fabric_links = Value::Unknown(why);
                }
                break;
            }
        }
        device.fabric_links = device.fabric_links.clone().map(|n| n + 1);
        let remote = card.ask_at("NVLink remote", link, |d, link| d.link_wrapper_for(link).remote_pci_info());
        if let Value::Known(info) = remote
            && let Ok(address) = info.bus_id.parse()
        {
            *remotes.entry(address).or_default() += 1;
        }
    }
    remotes
}

/// A card that is lost says so to every call; one that hangs is not known to be well.
fn condition(device: &Accelerator, card: &Card<'_, '_>, reported: Option<Condition>) -> Value<Condition> {
    if card.is_lost() {
        return Value::Known(Condition::Failed);
    }
    if let Some(reported) = reported {
        return Value::Known(reported);
    }
    if let Some(why) = card.silent() {
        return Value::Unknown(why);
    }
    match device.ecc.uncorrected {
        Value::Known(0) => Value::Known(Condition::Ok),
        Value::Known(_) => Value::Known(Condition::Degraded),
        // cards without error correction are judged by whether they answer
        Value::Unknown(_) => Value::default(),
    }
}

fn topology(
    devices: &[Accelerator],
    remotes: &[BTreeMap<PciAddress, u32>],
    asking: &mut Asking<'_>,
) -> Option<Topology> {
    let label = |(i, _)| End { label: format!("GPU{i}"), accelerator: Some(i) };
    let ends: Vec<End> = devices.iter().enumerate().map(label).collect();
    if ends.is_empty() {
        return None;
    }
    let n = ends.len();
    let mut links = vec![vec![LinkKind::Unknown; n]; n];
    let is_card: BTreeMap<PciAddress, usize> =
        devices.iter().enumerate().filter_map(|(i, d)| Some((*d.pci.known()?, i))).collect();
    for a in 0..n {
        links[a][a] = LinkKind::Itself;
        for b in 0..a {
            let direct = devices[b].pci.known().and_then(|pci| remotes[a].get(pci)).copied().unwrap_or(0);
            // what both are joined to and is no card is a switch
            let switched = |of: &BTreeMap<PciAddress, u32>| -> u32 {
                of.iter().filter(|(pci, _)| !is_card.contains_key(pci)).map(|(_, n)| *n).sum()
            };
            let shares = remotes[a].keys().any(|pci| !is_card.contains_key(pci) && remotes[b].contains_key(pci));
            let through = if shares { switched(&remotes[a]).min(switched(&remotes[b])) } else { 0 };
            let kind = match direct + through {
                0 => ancestor(asking, a as u32, b as u32),
                n => LinkKind::NvLink(n),
            };
            links[a][b] = kind.clone();
            links[b][a] = kind;
        }
    }
    Some(Topology { ends, links })
}

fn ancestor(asking: &mut Asking<'_>, a: u32, b: u32) -> LinkKind {
    let level =
        asking.card(a).ask_at("common ancestor", b, |d, b| d.topology_common_ancestor(d.nvml().device_by_index(b)?));
    match level {
        Value::Known(TopologyLevel::Internal | TopologyLevel::Single) => LinkKind::Pix,
        Value::Known(TopologyLevel::Multiple) => LinkKind::Pxb,
        Value::Known(TopologyLevel::HostBridge) => LinkKind::Phb,
        Value::Known(TopologyLevel::Node) => LinkKind::Node,
        Value::Known(TopologyLevel::System) => LinkKind::System,
        Value::Unknown(_) => LinkKind::Unknown,
    }
}
