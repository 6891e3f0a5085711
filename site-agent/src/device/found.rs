//! Devices as this host shows them, looked at again and again.

use crate::{
    config::{Devices, HostSettings, duration},
    error::AgentError,
};
use rhumb_devices::{Catalogue, Snapshot, Vendor, inventory};
#[cfg(feature = "nvidia")]
use rhumb_hardware::nvml::{Driver, DriverError, Options};
use rhumb_hardware::{Host, OutputError, output_in, output_of, sysfs};
use rhumb_wire::{NodeReport, UnknownValue};
use std::{collections::BTreeSet, fs, thread};
use tokio::sync::watch;

/// Times that one call of a driver has, for the whole of a tool.
const TOOL: u32 = 10;

/// Silences after which a driver that does not start, or a tool, is not asked again until the agent starts anew.
const SILENCES: u32 = 5;

/// What there is, and from then on what it becomes; looks from a thread of its own, which ends with the receiver.
pub(super) fn watch(devices: &Devices) -> Result<(Vec<NodeReport>, watch::Receiver<Vec<NodeReport>>), AgentError> {
    let mut eye = Eye::open(devices)?;
    let nodes = eye.look()?;
    let every = duration(eye.host.every);
    let (tell, changes) = watch::channel(nodes.clone());
    let look = move || {
        while !tell.is_closed() {
            thread::sleep(every);
            match eye.look() {
                Ok(nodes) => _ = tell.send_if_modified(|known| std::mem::replace(known, nodes.clone()) != nodes),
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the devices were not looked at");
                }
            }
        }
    };
    let started = thread::Builder::new().name("devices".into()).spawn(look);
    started.map_err(|e| AgentError::Devices(Box::new(e)))?;
    Ok((nodes, changes))
}

struct Eye {
    devices: Devices,
    host: HostSettings,
    catalogue: Catalogue,
    /// The NVIDIA driver, once it was found.
    #[cfg(feature = "nvidia")]
    driver: Option<Driver>,
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
        let host = Host::new(&self.host.root, first, &self.catalogue);
        for note in &host.shown.notes {
            self.say(note);
        }
        let seen = inventory(&host.shown, &self.catalogue);
        let unknown =
            |u: rhumb_devices::Unknown| UnknownValue { device: u.device, value: u.value.to_owned(), why: u.why };
        Ok(vec![NodeReport {
            name: self.host.node.clone(),
            devices: seen.devices,
            cpu: host.cpu,
            memory: host.memory,
            rack: self.host.rack.as_ref().map(ToString::to_string),
            nvl_domain: self.host.nvl_domain.as_ref().map(ToString::to_string),
            unknown: seen.unknown.into_iter().map(unknown).collect(),
        }])
    }

    fn say(&mut self, note: &str) {
        if self.said.len() < 1_000 && self.said.insert(note.to_owned()) {
            tracing::info!(note, "devices");
        }
    }

    /// By the makers of the cards that the kernel sees.
    fn auto(&mut self) -> Option<Snapshot> {
        let kernel = sysfs::look(&self.host.root, &self.catalogue);
        let vendors: BTreeSet<Vendor> = kernel.accelerators.iter().filter_map(|a| a.vendor.known().copied()).collect();
        let mut found = Vec::new();
        for vendor in vendors {
            if vendor == Vendor::Nvidia {
                match self.nvidia(None) {
                    Ok(shown) => {
                        found.push(shown);
                        continue;
                    }
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
            found.extend(shown.into_iter().reduce(Snapshot::or));
        }
        // cards of two makers in one host are each seen by their own tool: the kernel alone sees all of them
        if found.len() > 1 {
            self.say("cards of several makers: taken as the kernel shows them");
            return None;
        }
        found.pop()
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
mod tests {
    use super::*;
    use rhumb_model::{document, site::Health};

    fn output(files: &[(&str, &str)], more: &str) -> (tempfile::TempDir, Devices) {
        let folder = tempfile::tempdir().unwrap();
        let mut named = Vec::new();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
            named.push(folder.path().join(name).display().to_string());
        }
        let root = folder.path().display();
        let text = format!(
            "source: output\nfiles: [{}]\nhost: {{node: gpu-7, rack: r1, root: {root}, every: 1s{more}}}",
            named.join(", ")
        );
        (folder, document::read(&text).unwrap())
    }

    const CARDS: &str = "index, uuid, name, memory.total [MiB], temperature.gpu\n\
                         0, GPU-0, NVIDIA H100 80GB HBM3, 81559 MiB, 30\n1, GPU-0, NVIDIA H100 80GB HBM3, [N/A], 31\n";
    const MATRIX: &str =
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\t0-3\t0\nGPU1\tNV18\t X \t4-7\t1\n";

    #[tokio::test]
    async fn what_tools_say_becomes_a_node_with_its_levels() {
        let (folder, devices) = output(&[("cards", CARDS), ("matrix", MATRIX)], "");
        let (nodes, mut changes) = watch(&devices).unwrap();
        let [node] = &nodes[..] else { panic!("{nodes:?}") };
        assert_eq!((node.name.as_str(), node.rack.as_deref()), ("gpu-7", Some("r1")));
        let shown: Vec<_> = node
            .devices
            .iter()
            .map(|d| (d.index, d.model.as_str(), d.memory.bytes() >> 20, d.island, d.numa))
            .collect();
        assert_eq!(shown, [(0, "H100", 81_559, Some(0), Some(0)), (1, "H100", 0, Some(0), Some(1))]);
        assert!(node.devices.iter().all(|d| d.health == Health::Ok), "one value that is missing makes no card ill");
        let missing = node.unknown.iter().find(|u| u.device == 1 && u.value == "memory").unwrap();
        assert!(missing.why.contains("N/A"), "{missing:?}");
        // and it is looked at again
        let lost = CARDS.replace("1, GPU-0, NVIDIA H100 80GB HBM3, [N/A], 31\n", "");
        fs::write(folder.path().join("cards"), lost).unwrap();
        let patience = std::time::Duration::from_mins(1);
        tokio::time::timeout(patience, changes.changed()).await.expect("the change is seen").unwrap();
        assert_eq!(changes.borrow_and_update()[0].devices.len(), 1);
    }

    #[test]
    fn a_catalogue_of_ones_own_names_what_is_not_known() {
        let card = "index, uuid, name\n0, x, Frobnicator 9\n";
        let (folder, _) = output(&[("cards", card)], "");
        let catalogue = folder.path().join("more.yaml");
        fs::write(&catalogue, "F9: {vendor: nvidia, memory: 16GiB, names: [Frobnicator 9]}").unwrap();
        let more = format!(", catalogue: {}", catalogue.display());
        let (_folder, devices) = output(&[("cards", card)], &more);
        assert_eq!(Eye::open(&devices).unwrap().look().unwrap()[0].devices[0].model.as_str(), "F9");
    }

    #[test]
    fn a_source_that_gives_nothing_is_an_error_at_the_start() {
        let (_folder, devices) = output(&[("cards", "no such tool")], "");
        assert!(watch(&devices).is_err());
        let nvml = "source: nvml\nlibrary: /nowhere/libnvidia-ml.so.1";
        assert!(watch(&document::read(nvml).unwrap()).is_err());
    }

    #[test]
    fn a_host_without_cards_is_a_node_without_devices() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("source: auto\nhost: {{root: {}}}", folder.path().display());
        let (nodes, _) = watch(&document::read(&text).unwrap()).unwrap();
        assert!(nodes[0].devices.is_empty());
    }

    /// One card lost and one that lets a call hang: both are reported, and the others as they are.
    #[cfg(feature = "nvidia")]
    #[test]
    fn a_driver_in_trouble_gives_what_it_can() {
        use fake_nvml as _;
        let folder = tempfile::tempdir().unwrap();
        let here = std::env::current_exe().unwrap();
        let built = here.parent().unwrap().join("libfake_nvml.so");
        let library = folder.path().join("lib.so");
        fs::copy(built, &library).unwrap();
        let spec = "gpus 4\nswitches 2\nfail * 15 1\nhang nvmlDeviceGetTemperature 2\n";
        fs::write(folder.path().join("lib.so.spec"), spec).unwrap();
        let (library, root) = (library.display(), folder.path().display());
        let text = format!("source: nvml\nlibrary: {library}\nhost: {{root: {root}, timeout: 1s, nvl_domain: d1}}");
        let (nodes, _) = watch(&document::read(&text).unwrap()).unwrap();
        let [node] = &nodes[..] else { panic!("{nodes:?}") };
        let health: Vec<Health> = node.devices.iter().map(|d| d.health).collect();
        assert_eq!(health, [Health::Ok, Health::Failed, Health::Ok, Health::Ok]);
        let islands: Vec<Option<u16>> = node.devices.iter().map(|d| d.island).collect();
        assert_eq!(islands, [Some(0), None, Some(0), Some(0)]);
        assert_eq!(node.nvl_domain.as_deref(), Some("d1"));
        let why = |device, value| node.unknown.iter().find(|u| (u.device, u.value.as_str()) == (device, value));
        assert!(why(1, "memory").unwrap().why.contains("memory:"), "{:?}", node.unknown);
        assert!(why(2, "temperature").unwrap().why.contains("no answer"), "{:?}", node.unknown);
        assert!(why(0, "memory").is_none());
    }
}
