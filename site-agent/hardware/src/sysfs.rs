//! What the kernel tells of a host, without any maker's tool: PCI, NUMA, processors, memory, network ports.

use rhumb_devices::{
    Accelerator, Catalogue, LinkKind, Nic, PciAddress, PciId, Pcie, Snapshot, Topology, Value, Vendor, Why,
    topology::End,
};
use rhumb_model::{Bytes, Cores};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Most PCI functions that are looked at.
const MOST: usize = 4_096;

/// Processors of the host, as many as are on; `None`: the kernel does not say.
pub fn cores(root: &Path) -> Option<Cores> {
    let list = read(&root.join("sys/devices/system/cpu/online"))?;
    let count = |part: &str| -> Option<u64> {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u64, u64) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        to.checked_sub(from)?.checked_add(1)
    };
    let cores: Option<Vec<u64>> = list.split(',').map(count).collect();
    let sum = cores?.into_iter().try_fold(0_u64, u64::checked_add)?;
    sum.checked_mul(1_000).map(Cores::from_milli)
}

/// Memory of the host.
pub fn memory(root: &Path) -> Option<Bytes> {
    let text = read(&root.join("proc/meminfo"))?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1_024).map(Bytes::from_bytes)
}

/// Accelerators and network ports, and how they are joined by PCIe.
pub fn look(root: &Path, catalogue: &Catalogue) -> Snapshot {
    let mut shown = Snapshot::default();
    let mut functions = Vec::new();
    match fs::read_dir(root.join("sys/bus/pci/devices")) {
        Ok(entries) => {
            for entry in entries.flatten().take(MOST) {
                if let Some(function) = Function::read(&entry.path()) {
                    functions.push(function);
                }
            }
        }
        Err(error) => shown.notes.push(format!("the PCI bus cannot be read: {error}")),
    }
    functions.sort_by_key(|f| f.address);
    let ports = ports(root);
    let mut ends = Vec::new();
    for function in &functions {
        if function.is_accelerator(catalogue) {
            ends.push((
                End { label: function.address.to_string(), accelerator: Some(shown.accelerators.len()) },
                function,
            ));
            shown.accelerators.push(function.accelerator());
        } else if function.class >> 8 == 2 {
            let named = ports.get(&function.address);
            ends.push((End { label: function.address.to_string(), accelerator: None }, function));
            shown.nics.push(Nic {
                name: named.map_or_else(Value::default, |p| Value::Known(p.name.clone())),
                pci: Value::Known(function.address),
                pci_id: function.id.clone(),
                numa: function.numa.clone(),
                speed_mbps: named.map_or_else(Value::default, |p| p.speed_mbps.clone()),
            });
        }
    }
    if !ends.is_empty() {
        let links = ends.iter().map(|(_, a)| ends.iter().map(|(_, b)| between(a, b)).collect()).collect();
        shown.topology = Some(Topology { links, ends: ends.into_iter().map(|(end, _)| end).collect() });
    }
    shown
}

/// One PCI function.
struct Function {
    address: PciAddress,
    /// Class and subclass.
    class: u32,
    id: Value<PciId>,
    numa: Value<u16>,
    pcie: Pcie,
    /// The bridges above it, from the host's down; the first is the host bridge.
    above: Vec<String>,
}

impl Function {
    fn read(path: &Path) -> Option<Self> {
        let address = path.file_name()?.to_str()?.parse().ok()?;
        let number = |file: &str| {
            let text = read(&path.join(file))?;
            u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
        };
        let id = || Some(PciId { vendor: number("vendor")? as u16, device: number("device")? as u16 });
        let numa = match read(&path.join("numa_node")) {
            // -1: the firmware does not say
            Some(text) if text.starts_with('-') => Value::Unknown(Why::Said(text)),
            Some(text) => text.parse().map_or_else(|_| Value::Unknown(Why::Unreadable(text.clone())), Value::Known),
            None => Value::default(),
        };
        let canonical = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let names = canonical.components().filter_map(|c| c.as_os_str().to_str().map(str::to_owned));
        let mut above: Vec<String> = names.skip_while(|name| !name.starts_with("pci")).collect();
        above.pop();
        Some(Self {
            address,
            class: number("class")? >> 8,
            id: id().map_or_else(Value::default, Value::Known),
            numa,
            pcie: Pcie {
                generation: speed(&path.join("current_link_speed")),
                generation_max: speed(&path.join("max_link_speed")),
                lanes: lanes(&path.join("current_link_width")),
                lanes_max: lanes(&path.join("max_link_width")),
            },
            above,
        })
    }

    /// Processing accelerators and 3D controllers are; of what can drive a screen only what the catalogue knows, or NVIDIA
    /// makes: the others are the board's own graphics.
    fn is_accelerator(&self, catalogue: &Catalogue) -> bool {
        let known = self.id.known().is_some_and(|id| catalogue.by_pci(*id).is_some());
        let vendor = self.id.known().and_then(|id| Vendor::of_pci(id.vendor));
        match self.class {
            0x0302 | 0x1200 => vendor.is_some() || known,
            0x0300 | 0x0380 => vendor == Some(Vendor::Nvidia) || known,
            _ => false,
        }
    }

    fn accelerator(&self) -> Accelerator {
        let vendor = self.id.known().and_then(|id| Vendor::of_pci(id.vendor));
        Accelerator {
            vendor: vendor.map_or_else(Value::default, Value::Known),
            pci: Value::Known(self.address),
            pci_id: self.id.clone(),
            pcie: self.pcie.clone(),
            numa: self.numa.clone(),
            ..Accelerator::default()
        }
    }
}

/// By the bridges that both stand below.
fn between(a: &Function, b: &Function) -> LinkKind {
    if a.address == b.address {
        return LinkKind::Itself;
    }
    let shared = a.above.iter().zip(&b.above).take_while(|(x, y)| x == y).count();
    // below the last shared bridge each has its own port of the switch, or nothing
    let deep = (a.above.len() - shared).max(b.above.len() - shared);
    match (shared, a.numa.known(), b.numa.known()) {
        (0, Some(x), Some(y)) if x == y => LinkKind::Node,
        (0, Some(_), Some(_)) => LinkKind::System,
        (0, ..) => LinkKind::Unknown,
        (1, ..) => LinkKind::Phb,
        _ if deep <= 1 => LinkKind::Pix,
        _ => LinkKind::Pxb,
    }
}

/// `16.0 GT/s PCIe`, by the base specification.
fn speed(path: &Path) -> Value<u8> {
    let Some(text) = read(path) else { return Value::default() };
    let generation = match text.split_whitespace().next() {
        Some("2.5") => 1,
        Some("5.0" | "5") => 2,
        Some("8.0" | "8") => 3,
        Some("16.0" | "16") => 4,
        Some("32.0" | "32") => 5,
        Some("64.0" | "64") => 6,
        _ => return Value::Unknown(Why::Unreadable(text)),
    };
    Value::Known(generation)
}

fn lanes(path: &Path) -> Value<u8> {
    match read(path).as_deref() {
        // 0 and 255: the link is down
        None | Some("0" | "255") => Value::default(),
        Some(text) => text.parse().map_or_else(|_| Value::Unknown(Why::Unreadable(text.to_owned())), Value::Known),
    }
}

struct Port {
    name: String,
    speed_mbps: Value<u64>,
}

/// Ports by the PCI function that they are of; of several the fastest.
fn ports(root: &Path) -> BTreeMap<PciAddress, Port> {
    let mut ports: BTreeMap<PciAddress, Port> = BTreeMap::new();
    let listed = |folder: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|e| e.path()).take(MOST).collect();
        paths.sort();
        paths
    };
    let ethernet = listed("sys/class/net").into_iter().map(|path| {
        let speed = read(&path.join("speed"));
        (path, speed.and_then(|s| s.parse::<i64>().ok()).and_then(|s| u64::try_from(s).ok()))
    });
    let infiniband = listed("sys/class/infiniband").into_iter().map(|path| {
        // `400 Gb/sec (4X NDR)`
        let rate = read(&path.join("ports/1/rate"));
        let gigabits = rate.and_then(|r| r.split_whitespace().next()?.parse::<u64>().ok());
        (path, gigabits.map(|g| g.saturating_mul(1_000)))
    });
    for (path, speed) in ethernet.chain(infiniband) {
        let device = fs::canonicalize(path.join("device")).ok();
        let address = device.as_deref().and_then(Path::file_name).and_then(|n| n.to_str()).and_then(|n| n.parse().ok());
        let (Some(address), Some(name)) = (address, path.file_name().and_then(|n| n.to_str())) else { continue };
        let slower = ports.get(&address).is_none_or(|p| p.speed_mbps.known().copied() < speed);
        if slower {
            // a port that is down has no speed
            let speed_mbps = speed.map_or_else(|| Value::Unknown(Why::Said("no speed".into())), Value::Known);
            ports.insert(address, Port { name: name.to_owned(), speed_mbps });
        }
    }
    ports
}

/// A small file, trimmed; `None` where there is none or nothing in it.
fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
