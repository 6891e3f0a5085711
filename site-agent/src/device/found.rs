//! Devices as this host shows them, looked at again and again.

use super::Seen;
use crate::{
    config::{Devices, HostSettings, duration},
    error::AgentError,
};
#[cfg(feature = "nvidia")]
use rhumb_devices::inventory::is_grave;
use rhumb_devices::{Accelerator, Catalogue, Nic, Snapshot, Vendor, inventory, inventory::numbers};
#[cfg(feature = "nvidia")]
use rhumb_hardware::nvml::{Driver, DriverError, Options};
use rhumb_hardware::{Host, OutputError, output_in, output_of, sysfs};
use rhumb_wire::{DeviceFigures, Fares, NodeReport, PortReport, UnknownValue};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Times that one call of a driver has, for the whole of a tool.
const TOOL: u32 = 10;

/// Silences after which a driver that does not start, or a tool, is not asked again until the agent starts anew.
const SILENCES: u32 = 5;

/// What the start waits for the first look. Of a driver that takes longer there is what the kernel knows until it answers.
const FIRST: Duration = Duration::from_millis(600);
/// And for what the kernel shows then.
const GLANCE: Duration = Duration::from_millis(200);

/// What there is, and from then on what it becomes; looks from a thread of its own, which ends with the receivers. A first
/// look that fails at once is an error; one that takes longer has seen what the kernel shows.
pub(super) fn watch(devices: &Devices) -> Result<Seen, AgentError> {
    let mut eye = Eye::open(devices)?;
    let (every, between) = (duration(eye.host.every), duration(eye.host.sample));
    let glance = Eye::open(devices)?;
    let (tell, nodes) = watch::channel(None);
    let first = tell.clone();
    let (measure, figures) = watch::channel(Vec::new());
    let (began, begun) = mpsc::sync_channel(1);
    let look = move || {
        let mut began = Some(began);
        let mut due = Instant::now();
        while !tell.is_closed() {
            if Instant::now() >= due {
                due = Instant::now() + every;
                let failed = match eye.look() {
                    Ok(nodes) => {
                        let nodes = Some(nodes);
                        tell.send_if_modified(|known| std::mem::replace(known, nodes.clone()) != nodes);
                        None
                    }
                    Err(error) => Some(error),
                };
                if let Some(error) = &failed {
                    tracing::warn!(error = error as &dyn std::error::Error, "the devices were not looked at");
                }
                if let Some(began) = began.take() {
                    _ = began.send(failed.map_or(Ok(()), Err));
                }
            } else if eye.sample() == Sampled::Lost {
                due = Instant::now();
                continue;
            }
            measure.send_replace(eye.figures());
            thread::sleep(between.min(due.saturating_duration_since(Instant::now())));
        }
    };
    let started = thread::Builder::new().name("devices".into()).spawn(look);
    started.map_err(|e| AgentError::Devices(Box::new(e)))?;
    match begun.recv_timeout(FIRST) {
        Ok(Err(error)) => return Err(error),
        Ok(Ok(())) => {}
        Err(_) => glance.tell(first),
    }
    Ok(Seen { nodes, figures })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sampled {
    Done,
    /// A card is gone since the last look.
    Lost,
}

struct Eye {
    devices: Devices,
    host: HostSettings,
    catalogue: Catalogue,
    /// The NVIDIA driver, once it was found.
    #[cfg(feature = "nvidia")]
    driver: Option<Driver>,
    /// Cards that the driver can be asked of: its number, and the index of the device.
    #[cfg(feature = "nvidia")]
    cards: BTreeMap<u32, u32>,
    /// How each device fares, by index.
    fares: BTreeMap<u32, Fares>,
    /// Times that a driver or a tool gave no answer: what hangs keeps a thread, so it is not asked for ever.
    silent: u32,
    /// Said once each.
    said: BTreeSet<String>,
}

impl Eye {
    fn open(devices: &Devices) -> Result<Self, AgentError> {
        let host = devices.host().cloned().unwrap_or_default();
        let mut catalogue = Catalogue::built_in();
        if let Some(path) = &host.catalogue {
            let what = "the device catalogue";
            let read = |source| AgentError::Read { what, path: path.clone(), source };
            let text = fs::read_to_string(path).map_err(read)?;
            let more = Catalogue::read(&text).map_err(|source| AgentError::Catalogue { path: path.clone(), source })?;
            catalogue.extend(more);
        }
        Ok(Self {
            devices: devices.clone(),
            host,
            catalogue,
            #[cfg(feature = "nvidia")]
            driver: None,
            #[cfg(feature = "nvidia")]
            cards: BTreeMap::new(),
            fares: BTreeMap::new(),
            silent: 0,
            said: BTreeSet::new(),
        })
    }

    /// The one node of this host.
    fn look(&mut self) -> Result<Vec<NodeReport>, AgentError> {
        let first = match self.devices.clone() {
            Devices::File { .. } | Devices::Runtime { .. } => None,
            Devices::Auto { .. } => self.auto(),
            Devices::Nvml { library, .. } => Some(self.nvidia(library.map(Into::into)).map_err(AgentError::Devices)?),
            Devices::Output { commands, files, .. } => self.told(&commands, &files)?,
        };
        Ok(vec![self.node(first)])
    }

    /// What the kernel shows, while a driver or a tool is waited for that takes its time or hangs. A thread of its own looks:
    /// a driver that hangs can have the kernel's files hang as well.
    fn tell(mut self, tell: watch::Sender<Option<Vec<NodeReport>>>) {
        let (done, end) = mpsc::sync_channel(1);
        let look = move || {
            self.say("the devices' driver has not answered yet: there is what the kernel shows of them");
            let node = self.node(None);
            tell.send_if_modified(|known| known.is_none() && known.insert(vec![node]).len() == 1);
            _ = done.send(());
        };
        let started = thread::Builder::new().name("devices first".into()).spawn(look);
        if started.is_ok() {
            _ = end.recv_timeout(GLANCE);
        }
    }

    fn node(&mut self, first: Option<Snapshot>) -> NodeReport {
        let host = Host::new(&self.host.root, first, &self.catalogue);
        for note in &host.shown.notes {
            self.say(note);
        }
        let numbers = numbers(&host.shown);
        #[cfg(feature = "nvidia")]
        self.find_cards(&host.shown, &numbers);
        self.fares = host.shown.accelerators.iter().zip(&numbers).map(|(a, n)| (*n, fares(a))).collect();
        let seen = inventory(&host.shown, &self.catalogue);
        let unknown =
            |u: rhumb_devices::Unknown| UnknownValue { device: u.device, value: u.value.to_owned(), why: u.why };
        NodeReport {
            name: self.host.node.clone(),
            devices: seen.devices,
            cpu: host.cpu,
            memory: host.memory,
            rack: self.host.rack.as_ref().map(ToString::to_string),
            nvl_domain: self.host.nvl_domain.as_ref().map(ToString::to_string),
            unknown: seen.unknown.into_iter().map(unknown).collect(),
            ports: host.shown.nics.iter().map(port).collect(),
        }
    }

    /// As last asked.
    fn figures(&self) -> Vec<DeviceFigures> {
        let figures = |(device, fares): (&u32, &Fares)| DeviceFigures {
            node: self.host.node.clone(),
            device: *device,
            fares: *fares,
        };
        self.fares.iter().map(figures).collect()
    }

    /// The driver numbers its cards from 0; a host with others beside them may not.
    #[cfg(feature = "nvidia")]
    fn find_cards(&mut self, shown: &Snapshot, numbers: &[u32]) {
        let of_driver =
            shown.accelerators.iter().zip(numbers).filter(|(a, _)| a.vendor.known() == Some(&Vendor::Nvidia));
        let asked = self.driver.is_some();
        // in the order of the driver, which look() keeps
        self.cards = of_driver.enumerate().filter(|_| asked).map(|(card, (_, n))| (card as u32, *n)).collect();
    }

    /// Asks the driver how its cards fare; what no driver is asked of stays as last looked at.
    #[cfg(feature = "nvidia")]
    fn sample(&mut self) -> Sampled {
        let Some(driver) = &self.driver else { return Sampled::Done };
        let cards: Vec<u32> = self.cards.keys().copied().collect();
        let mut sampled = Sampled::Done;
        for (card, now) in driver.sample(&cards) {
            let Some(fares) = self.cards.get(&card).and_then(|device| self.fares.get_mut(device)) else { continue };
            let was_there = fares.power_mw.is_some() || fares.temperature_mc.is_some();
            let grave = now.xid.known().copied().filter(|xid| is_grave(*xid));
            if (now.is_lost && was_there) || (grave.is_some() && grave != fares.xid) {
                sampled = Sampled::Lost;
            }
            *fares = Fares {
                utilisation_pct: now.utilisation_pct.known().copied(),
                memory_used_bytes: now.memory_used_bytes.known().copied(),
                temperature_mc: now.temperature_mc.known().copied(),
                power_mw: now.power_mw.known().copied(),
                processes: now.processes.known().copied(),
                xid: now.xid.known().copied(),
                ..*fares
            };
        }
        sampled
    }

    #[cfg(not(feature = "nvidia"))]
    #[allow(clippy::unused_self)] // as with the driver
    fn sample(&mut self) -> Sampled {
        Sampled::Done
    }

    fn say(&mut self, note: &str) {
        if self.said.len() < 1_000 && self.said.insert(note.to_owned()) {
            tracing::info!(note, "devices");
        }
    }

    /// By the makers of the cards that the kernel sees, each by its own driver or tools, and where there are none of a maker
    /// by the kernel.
    fn auto(&mut self) -> Option<Snapshot> {
        let kernel = sysfs::look(&self.host.root, &self.catalogue);
        let vendors: BTreeSet<Vendor> = kernel.accelerators.iter().filter_map(|a| a.vendor.known().copied()).collect();
        let seen = vendors.into_iter().map(|vendor| self.of_maker(vendor).unwrap_or_else(|| kernel.of(vendor)));
        seen.reduce(Snapshot::beside)
    }

    fn of_maker(&mut self, vendor: Vendor) -> Option<Snapshot> {
        if vendor == Vendor::Nvidia {
            match self.nvidia(None) {
                Ok(shown) => return Some(shown),
                Err(error) => self.say(&error.to_string()),
            }
        }
        let mut shown: Vec<Snapshot> = Vec::new();
        for words in tools(vendor) {
            let command: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            match self.told_by(&command) {
                Some(Ok(output)) => shown.push(output),
                Some(Err(error)) => self.say(&error.to_string()),
                None => {}
            }
        }
        shown.into_iter().reduce(Snapshot::or)
    }

    #[cfg(feature = "nvidia")]
    fn nvidia(
        &mut self,
        library: Option<std::ffi::OsString>,
    ) -> Result<Snapshot, Box<dyn std::error::Error + Send + Sync>> {
        let driver = match self.driver.take() {
            Some(driver) => driver,
            None if self.silent >= SILENCES => return Err("the driver gave no answer too often".into()),
            None => self.opened(Driver::open(&Options { library, timeout: duration(self.host.timeout) }))?,
        };
        Ok(self.driver.insert(driver).look())
    }

    #[cfg(feature = "nvidia")]
    fn opened(&mut self, driver: Result<Driver, DriverError>) -> Result<Driver, DriverError> {
        self.silent += u32::from(matches!(driver, Err(DriverError::NoAnswer(_))));
        driver
    }

    /// What a tool says, unless tools were silent too often.
    fn told_by(&mut self, command: &[String]) -> Option<Result<Snapshot, OutputError>> {
        if self.silent >= SILENCES {
            return None;
        }
        let output = output_of(command, duration(self.host.timeout) * TOOL);
        self.silent += u32::from(matches!(output, Err(OutputError::NoAnswer(..))));
        Some(output)
    }

    #[cfg(not(feature = "nvidia"))]
    #[allow(clippy::unused_self)] // as with the driver
    fn nvidia(&mut self, _: Option<std::ffi::OsString>) -> Result<Snapshot, Box<dyn std::error::Error + Send + Sync>> {
        Err("this agent was built without the feature nvidia".into())
    }

    /// All outputs together; one that fails is said, and all that fail are an error.
    fn told(&mut self, commands: &[Vec<String>], files: &[std::path::PathBuf]) -> Result<Option<Snapshot>, AgentError> {
        let mut outputs: Vec<Result<Snapshot, OutputError>> = commands.iter().filter_map(|c| self.told_by(c)).collect();
        outputs.extend(files.iter().map(|f| output_in(f)));
        let (mut shown, mut failed) = (Vec::new(), None);
        for output in outputs {
            match output {
                Ok(output) => shown.push(output),
                Err(error) => {
                    self.say(&error.to_string());
                    failed = Some(error);
                }
            }
        }
        match (shown.into_iter().reduce(Snapshot::or), failed) {
            (None, Some(error)) => Err(AgentError::Devices(Box::new(error))),
            (shown, _) => Ok(shown),
        }
    }
}

fn fares(a: &Accelerator) -> Fares {
    Fares {
        utilisation_pct: a.utilisation_pct.known().copied(),
        memory_used_bytes: a.memory_used_bytes.known().copied(),
        temperature_mc: a.temperature_mc.known().copied(),
        power_mw: a.power_mw.known().copied(),
        ecc_uncorrected: a.ecc.uncorrected.known().copied(),
        processes: a.jobs.known().map(|jobs| jobs.len() as u32),
        xid: a.xid.known().copied(),
    }
}

fn port(nic: &Nic) -> PortReport {
    PortReport {
        name: nic.name.known().cloned().or_else(|| nic.pci.known().map(ToString::to_string)).unwrap_or_default(),
        rate_kbps: nic.speed_mbps.known().map(|mbps| mbps.saturating_mul(1_000)),
        numa: nic.numa.known().copied(),
    }
}

/// What is asked of a maker's tools, the most telling first.
fn tools(vendor: Vendor) -> &'static [&'static [&'static str]] {
    match vendor {
        Vendor::Nvidia => &[&["nvidia-smi", "-q", "-x"], &["nvidia-smi", "topo", "-m"], &["nvidia-smi", "-L"]],
        Vendor::Amd => &[&["rocm-smi", "-a", "--json"], &["rocm-smi", "--showtopo"]],
        Vendor::Huawei => &[&["npu-smi", "info"], &["npu-smi", "info", "-t", "topo"]],
        Vendor::Metax => &[&["mx-smi"], &["mx-smi", "topo", "-m"]],
    }
}

#[cfg(test)]
mod tests;
