//! The agent's configuration: one file, YAML or JSON; unknown keys are refused.

use crate::{
    dataplane::{bgp::BgpSettings, kernel::KernelSettings},
    error::AgentError,
    identity::{Credential, Held},
};
use rhumb_model::{
    Bytes, DatasetName, Label, LinkId, ModelName, NodeName, PointName, Span, document,
    federation_file::{DeviceKind, NodeEntry},
};
use rhumb_runtimes::RuntimeSettings;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt, fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// The site or transit point this agent is.
    pub point: PointName,
    /// Base URL of the orchestrator.
    pub orchestrator: String,
    /// Bearer token of this point; or `token_file`, whose content is one; neither: the agent has joined, and what it got
    /// is in its data folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Records, runs, datasets and inputs; of this agent alone.
    pub data_dir: PathBuf,
    #[serde(default)]
    pub listen: Listen,
    /// Absent: a relay without compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<Devices>,
    /// Made at the first start, with content that depends on the name alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub datasets: Vec<MadeDataset>,
    /// What runs work here: `{process: {..}}`, `{slurm: {..}}`, `{ray: {..}}` or `{kubernetes: {..}}`.
    #[serde(default)]
    pub runtime: RuntimeSettings,
    /// Interfaces of this host behind links, whose own counters then tell what passes. Of others the overlay's tell what
    /// orders send.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interfaces: BTreeMap<LinkId, String>,
    /// How routes may be carried here, beside the relays in the agents.
    #[serde(default)]
    pub routes: Routes,
    #[serde(default)]
    pub sync: SyncConfig,
    #[serde(default)]
    pub limits: Limits,
    /// What becomes of running work when the agent is told to end.
    #[serde(default)]
    pub on_shutdown: OnShutdown,
    /// End when standard input does, that is when the parent is gone.
    #[serde(default)]
    pub stop_with_parent: bool,
    /// The executable that supervises runs, called with `__supervise DIR`; default: this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Routes {
    /// The Linux kernel, for agents with CAP_NET_ADMIN and CAP_NET_RAW. `listen.overlay` must then be open to the
    /// addresses inside tunnels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelSettings>,
    /// Networks at the far ends of the kernel's routes are announced by BGP, through a GoBGP daemon. With `kernel` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bgp: Option<BgpSettings>,
}

/// A secret that does not show itself.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Where other agents reach this one. Port 0 takes any; what was taken is in the report and in `ports.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listen {
    /// Answers probes (UDP).
    pub reflector: SocketAddr,
    /// Takes routes (TCP).
    pub overlay: SocketAddr,
}

impl Default for Listen {
    fn default() -> Self {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self { reflector: any, overlay: any }
    }
}

/// Where the inventory comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "source")]
pub enum Devices {
    /// Declared here, for demonstrations and for hosts whose devices cannot be asked.
    File {
        /// Device models by name, as in the federation file.
        #[serde(default)]
        kinds: BTreeMap<ModelName, DeviceKind>,
        /// As in the federation file.
        nodes: Vec<NodeEntry>,
    },
    /// What is found on this host: the NVIDIA driver, the tools of the makers whose cards are there, and the kernel.
    Auto {
        #[serde(default)]
        host: HostSettings,
    },
    /// The NVIDIA driver, which must be there.
    Nvml {
        /// Its library; default: where the system has it.
        #[serde(default)]
        library: Option<PathBuf>,
        #[serde(default)]
        host: HostSettings,
    },
    /// The nodes of the site's own scheduler, as it says itself.
    Runtime {
        /// Device models by the scheduler's word for them, such as `{a100: A100}`; others are not for sale.
        #[serde(default)]
        models: BTreeMap<String, ModelName>,
        /// Device models by name, as in the federation file.
        #[serde(default)]
        kinds: BTreeMap<ModelName, DeviceKind>,
    },
    /// Output of makers' tools, such as `[nvidia-smi, -q, -x]`; what comes first is taken first.
    Output {
        #[serde(default)]
        commands: Vec<Vec<String>>,
        /// Output that somebody wrote to files.
        #[serde(default)]
        files: Vec<PathBuf>,
        #[serde(default)]
        host: HostSettings,
    },
}

impl Devices {
    /// How the host is looked at, where it is.
    pub(crate) fn host(&self) -> Option<&HostSettings> {
        match self {
            Self::File { .. } | Self::Runtime { .. } => None,
            Self::Auto { host } | Self::Nvml { host, .. } | Self::Output { host, .. } => Some(host),
        }
    }
}

/// How this host is looked at, and what it is called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostSettings {
    pub node: NodeName,
    pub rack: Option<Label>,
    pub nvl_domain: Option<Label>,
    /// Where `/sys` and `/proc` are.
    pub root: PathBuf,
    /// More device models, as in the catalogue that is built in.
    pub catalogue: Option<PathBuf>,
    /// What one call of a driver may take; a tool has ten times that.
    pub timeout: Span,
    /// How often the devices are looked at.
    pub every: Span,
    /// How often the NVIDIA driver is asked how they fare in between.
    pub sample: Span,
}

impl Default for HostSettings {
    fn default() -> Self {
        Self {
            node: NodeName::new("n1").expect("a letter and a digit are a name"),
            rack: None,
            nvl_domain: None,
            root: "/".into(),
            catalogue: None,
            timeout: Span::from_micros(500_000),
            every: Span::from_micros(15_000_000),
            sample: Span::from_micros(1_000_000),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeDataset {
    pub name: DatasetName,
    pub size: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SyncConfig {
    /// How long the orchestrator may hold an answer while nothing is new; at most 5 s.
    pub wait: Span,
    /// Least time between reports that say nothing new.
    pub interval: Span,
    /// First pause after a failed call; doubles up to `backoff_max`, and each is drawn at random below that.
    pub backoff: Span,
    pub backoff_max: Span,
    /// A call is given up this long after the time the orchestrator was allowed to hold it.
    pub timeout: Span,
    /// How often the world is looked at.
    pub tick: Span,
}

impl Default for SyncConfig {
    fn default() -> Self {
        Self {
            wait: Span::from_micros(3_000_000),
            interval: Span::from_micros(250_000),
            backoff: Span::from_micros(200_000),
            backoff_max: Span::from_micros(5_000_000),
            timeout: Span::from_micros(10_000_000),
            tick: Span::from_micros(100_000),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Output kept of one run.
    pub log: Bytes,
    /// Output in one report.
    pub report_logs: Bytes,
    /// Largest answer taken from the orchestrator.
    pub reply: Bytes,
    /// How long the records of ended work wait for their output to be fetched.
    pub log_linger: Span,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            log: Bytes::from_bytes(4 << 20),
            report_logs: Bytes::from_bytes(256_000),
            reply: Bytes::from_bytes(16 << 20),
            log_linger: Span::from_micros(10_000_000),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnShutdown {
    /// Work goes on and is adopted at the next start.
    #[default]
    LeaveJobs,
    StopJobs,
}

pub(crate) fn duration(span: Span) -> Duration {
    Duration::from_micros(span.micros())
}

impl AgentConfig {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Self, AgentError> {
        let text = fs::read_to_string(path).map_err(|source| AgentError::Read {
            what: "the configuration",
            path: path.into(),
            source,
        })?;
        let config: Self =
            document::read_large(&text).map_err(|source| AgentError::Config { path: path.into(), source })?;
        config.check()?;
        Ok(config)
    }

    /// What the types do not say by themselves.
    pub fn check(&self) -> Result<(), AgentError> {
        let setting = |setting, value: &dyn fmt::Display, remedy| {
            Err(AgentError::Setting { setting, value: value.to_string(), remedy })
        };
        if !(self.orchestrator.starts_with("http://") || self.orchestrator.starts_with("https://")) {
            return setting("orchestrator", &self.orchestrator, "write a URL that begins with http:// or https://");
        }
        if let Some(host) = self.devices.as_ref().and_then(Devices::host) {
            let second = Span::from_micros(1_000_000);
            if host.timeout < Span::from_micros(1_000) || host.timeout > second {
                return setting("devices.host.timeout", &host.timeout, "write a time from 1ms to 1s");
            }
            if host.every < second {
                return setting("devices.host.every", &host.every, "write at least 1s");
            }
            if host.sample < Span::from_micros(200_000) {
                return setting("devices.host.sample", &host.sample, "write at least 200ms");
            }
        }
        self.runtime.check().map_err(|error| AgentError::Setting {
            setting: error.setting,
            value: error.value,
            remedy: error.remedy,
        })?;
        if matches!(self.devices, Some(Devices::Runtime { .. })) && matches!(self.runtime, RuntimeSettings::Process(_))
        {
            return setting("devices.source", &"runtime", "give a runtime that has nodes: slurm, ray or kubernetes");
        }
        if let Some(Err((setting, value, remedy))) = self.routes.kernel.as_ref().map(KernelSettings::check) {
            return Err(AgentError::Setting { setting, value, remedy });
        }
        if let Some(bgp) = self.routes.bgp.as_ref().filter(|_| self.routes.kernel.is_none()) {
            return setting(
                "routes.bgp",
                &bgp.gobgp,
                "set routes.kernel too: what the kernel does not carry has no networks",
            );
        }
        if self.token.is_some() && self.token_file.is_some() {
            return setting("token", &"", "give either token or token_file");
        }
        if self.sync.wait.micros() > 5_000_000 {
            return setting("sync.wait", &self.sync.wait, "use at most 5s");
        }
        for (name, span) in [("sync.tick", self.sync.tick), ("sync.backoff", self.sync.backoff)] {
            if span.is_zero() {
                return setting(name, &span, "use at least 10ms");
            }
        }
        Ok(())
    }

    /// Of an agent that has joined, with all else as it is by default: what this host has, any ports.
    pub fn joined(held: &Held, data_dir: PathBuf) -> Self {
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Self {
            point: held.point.clone(),
            orchestrator: held.orchestrator.clone(),
            token: None,
            token_file: None,
            data_dir,
            listen: Listen { reflector: any, overlay: any },
            devices: Some(Devices::Auto { host: HostSettings::default() }),
            datasets: Vec::new(),
            runtime: RuntimeSettings::default(),
            interfaces: BTreeMap::new(),
            routes: Routes::default(),
            sync: SyncConfig::default(),
            limits: Limits::default(),
            on_shutdown: OnShutdown::default(),
            stop_with_parent: false,
            supervisor: None,
        }
    }

    /// By what this agent is known: its token, read from its file where there is one, or what it got when it joined.
    pub(crate) fn credential(&self) -> Result<Credential, AgentError> {
        match (&self.token, &self.token_file) {
            (Some(token), _) => Ok(Credential::Token(token.clone())),
            (None, Some(path)) => match fs::read_to_string(path) {
                Ok(text) => Ok(Credential::Token(Token(text.trim().to_owned()))),
                Err(source) => Err(AgentError::Read { what: "the token file", path: path.clone(), source }),
            },
            (None, None) => match Held::load(&self.data_dir)? {
                Some(held) if held.point == self.point => Ok(Credential::Certificate(held)),
                Some(held) => Err(AgentError::Identity {
                    reason: format!("its certificate is for {}, its configuration for {}", held.point, self.point),
                }),
                None => Err(AgentError::Identity {
                    reason: "give it a token or token_file, or let it join with --join URL --token TOKEN".into(),
                }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "point: shanghai-1\norchestrator: http://127.0.0.1:7070\ntoken: abc\ndata_dir: /tmp/x\n";

    fn read(text: &str) -> Result<AgentConfig, AgentError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.yaml");
        fs::write(&path, text).unwrap();
        AgentConfig::read(&path)
    }

    #[test]
    fn a_site_is_read_in_the_federation_files_form() {
        let text = format!(
            "{LEAST}devices:\n  source: file\n  kinds: {{H100: {{memory: 80GiB, fp16: 1.0}}}}\n  nodes:\n  \
             - {{count: 2, accelerators: {{model: H100, count: 8, islands: [8]}}, cpu: 96, memory: 1TiB}}\n\
             datasets: [{{name: corpus, size: 2MB}}]\n"
        );
        let config = read(&text).unwrap();
        let Some(Devices::File { nodes, .. }) = config.devices else { panic!("no devices") };
        assert_eq!(nodes[0].count, 2);
        assert_eq!(config.datasets[0].size.bytes(), 2_000_000);
    }

    #[test]
    fn a_site_with_a_scheduler_of_its_own_is_read() {
        let text = format!(
            "{LEAST}devices: {{source: runtime, models: {{a100: A100}}, kinds: {{A100: {{memory: 80GiB}}}}}}\n\
             runtime: {{slurm: {{access: {{rest: {{url: 'unix:/run/slurmrestd.sock'}}}}, shared: /shared/rhumb}}}}\n"
        );
        let config = read(&text).unwrap();
        assert!(matches!(config.devices, Some(Devices::Runtime { models, .. }) if models["a100"].as_str() == "A100"));
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert!(
            error(&text.replace("shared: /shared", "shared: shared")).contains("runtime.slurm.shared shared/rhumb")
        );
        assert!(error(&text.replace("runtime: {slurm", "sync: {slurm")).contains("is not valid"));
        let alone = text.lines().filter(|line| !line.starts_with("runtime:")).collect::<Vec<_>>().join("\n");
        assert!(error(&alone).contains("give a runtime that has nodes"));
    }

    #[test]
    fn what_is_written_reads_back() {
        let config = read(&format!("{LEAST}on_shutdown: stop_jobs\n")).unwrap();
        let again = read(&serde_json::to_string(&config).unwrap()).unwrap();
        assert_eq!(again.on_shutdown, OnShutdown::StopJobs);
        assert_eq!(again.sync, config.sync);
    }

    #[test]
    fn mistakes_are_named() {
        let reason = |text: &str| {
            let error = read(text).unwrap_err();
            format!("{error}: {}", std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default())
        };
        assert!(reason(&format!("{LEAST}data_dri: /y\n")).contains("data_dri"));
        assert!(reason(&format!("{LEAST}sync: {{wait: 60s}}\n")).contains("sync.wait 1m"));
        assert!(reason(&format!("{LEAST}token_file: /x\n")).contains("token_file"));
        assert!(reason(&LEAST.replace("http://", "ftp://")).contains("orchestrator"));
    }

    #[test]
    fn the_token_does_not_show_itself() {
        let config = read(LEAST).unwrap();
        assert!(!format!("{config:?}").contains("abc"));
    }
}
