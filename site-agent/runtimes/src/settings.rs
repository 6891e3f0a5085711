//! Which runtime an agent drives, and how: `runtime: {process: {..}}`, `{slurm: {..}}`, `{ray: {..}}` or `{kubernetes: {..}}`.

mod kubernetes;

pub use kubernetes::{KubernetesQueue, KubernetesSettings, KubernetesVolume, KubernetesWorkload, Visible};

use rhumb_model::Span;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    path::{Path, PathBuf},
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuntimeSettings {
    /// Processes of the agent's own host.
    Process(ProcessSettings),
    Slurm(SlurmSettings),
    Ray(RaySettings),
    /// Only in agents that were built with the feature `kubernetes`.
    Kubernetes(Box<KubernetesSettings>),
}

impl Default for RuntimeSettings {
    fn default() -> Self {
        Self::Process(ProcessSettings::default())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessSettings {
    pub confine: Confinement,
}

/// What holds a run's processes beside their process group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confinement {
    /// A control group where the agent may make one.
    #[default]
    Auto,
    Off,
    /// Control groups below this one, which must be the agent's to write.
    Cgroup(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlurmSettings {
    pub access: SlurmAccess,
    /// Folder of the runs, seen under this name by the agent and by every node.
    pub shared: PathBuf,
    /// The executable that supervises runs, seen under this name by every node; default: the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<PathBuf>,
    /// Default: the cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// What the devices are called in GRES, such as `a100`; default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gres: Option<String>,
    /// How old an answer of the controller may be that is gone by.
    #[serde(default = "poll")]
    pub poll: Span,
    /// The cluster's `KillWait`: what a job has between Slurm's polite signal and its kill.
    #[serde(default = "kill_wait")]
    pub kill_wait: Span,
}

fn kill_wait() -> Span {
    Span::from_micros(30_000_000)
}

/// The way to the controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlurmAccess {
    /// slurmrestd.
    Rest {
        /// `http://host:port`, or `unix:/path`.
        url: String,
        /// Who the token speaks for; needed with `token_file`.
        #[serde(default)]
        user: Option<String>,
        /// A file with a JSON web token, read anew for every call, so that it can be renewed.
        #[serde(default)]
        token_file: Option<PathBuf>,
    },
    /// `sbatch`, `squeue`, `sinfo` and `scancel`.
    Commands {
        /// Where they are; default: on the agent's `PATH`.
        #[serde(default)]
        folder: Option<PathBuf>,
        /// `slurm.conf`; default: where they look for it themselves.
        #[serde(default)]
        config: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RaySettings {
    /// Of the dashboard, which takes jobs: `http://host:8265`.
    pub url: String,
    /// Folder of the runs, seen under this name by the agent and by every node.
    pub shared: PathBuf,
    /// The executable that supervises runs, seen under this name by every node; default: the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<PathBuf>,
    /// A file with a bearer token, where the dashboard asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// How old an answer of the dashboard may be that is gone by.
    #[serde(default = "poll")]
    pub poll: Span,
}

fn poll() -> Span {
    Span::from_micros(1_000_000)
}

#[derive(Debug, thiserror::Error)]
#[error("{setting} {value} is not valid: {remedy}")]
pub struct SettingsError {
    pub setting: &'static str,
    pub value: String,
    pub remedy: &'static str,
}

impl RuntimeSettings {
    /// What the types do not say by themselves.
    pub fn check(&self) -> Result<(), SettingsError> {
        match self {
            Self::Process(process) => match &process.confine {
                Confinement::Cgroup(path) => absolute("runtime.process.confine.cgroup", path),
                Confinement::Auto | Confinement::Off => Ok(()),
            },
            Self::Slurm(slurm) => slurm.check(),
            Self::Kubernetes(kubernetes) => kubernetes.check(),
            Self::Ray(ray) => {
                absolute("runtime.ray.shared", &ray.shared)?;
                if let Some(path) = &ray.supervisor {
                    absolute("runtime.ray.supervisor", path)?;
                }
                is_http("runtime.ray.url", &ray.url, "write a URL such as http://head:8265")
            }
        }
    }
}

impl SlurmSettings {
    fn check(&self) -> Result<(), SettingsError> {
        absolute("runtime.slurm.shared", &self.shared)?;
        if let Some(path) = &self.supervisor {
            absolute("runtime.slurm.supervisor", path)?;
        }
        let names = [("runtime.slurm.partition", &self.partition), ("runtime.slurm.account", &self.account)];
        for (setting, name) in names.into_iter().chain([("runtime.slurm.gres", &self.gres)]) {
            if name.as_ref().is_some_and(|name| !is_word(name)) {
                let remedy = "use letters, digits, points, dashes and underscores";
                return refuse(setting, &name.as_deref().unwrap_or_default(), remedy);
            }
        }
        match &self.access {
            SlurmAccess::Commands { .. } => Ok(()),
            SlurmAccess::Rest { user, token_file, .. } if user.is_some() != token_file.is_some() => {
                refuse("runtime.slurm.access.rest", &"with only one of user and token_file", "give both, or neither")
            }
            SlurmAccess::Rest { url, .. } => match url.strip_prefix("unix:") {
                Some(path) => absolute("runtime.slurm.access.rest.url", Path::new(path)),
                None => is_http("runtime.slurm.access.rest.url", url, "write http://host:port or unix:/path"),
            },
        }
    }
}

fn refuse(setting: &'static str, value: &dyn fmt::Display, remedy: &'static str) -> Result<(), SettingsError> {
    Err(SettingsError { setting, value: value.to_string(), remedy })
}

fn absolute(setting: &'static str, path: &Path) -> Result<(), SettingsError> {
    if path.is_absolute() { Ok(()) } else { refuse(setting, &path.display(), "write an absolute path") }
}

fn is_http(setting: &'static str, url: &str, remedy: &'static str) -> Result<(), SettingsError> {
    if url.starts_with("http://") || url.starts_with("https://") { Ok(()) } else { refuse(setting, &url, remedy) }
}

fn is_word(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= 64 && !name.starts_with('-') && name.chars().all(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RuntimeSettings, String> {
        let read: RuntimeSettings = rhumb_model::document::read(text).map_err(|error| error.to_string())?;
        read.check().map(|()| read).map_err(|error| error.to_string())
    }

    #[test]
    fn each_runtime_is_chosen_by_its_name() {
        assert_eq!(read("process: {}").unwrap(), RuntimeSettings::default());
        let slurm =
            read("slurm: {access: {rest: {url: 'unix:/run/slurmrestd.sock'}}, shared: /shared/rhumb, gres: a100}")
                .unwrap();
        assert!(matches!(slurm, RuntimeSettings::Slurm(SlurmSettings { access: SlurmAccess::Rest { .. }, .. })));
        let slurm =
            read("slurm: {access: {commands: {config: /etc/slurm/slurm.conf}}, shared: /shared/rhumb}").unwrap();
        assert!(matches!(slurm, RuntimeSettings::Slurm(SlurmSettings { access: SlurmAccess::Commands { .. }, .. })));
        assert!(matches!(read("ray: {url: 'http://head:8265', shared: /s}").unwrap(), RuntimeSettings::Ray(_)));
        let cluster = read(
            "kubernetes: {namespace: rhumb, shared: /s/runs, mount: /s, volume: {claim: runs}, queue: {kueue: gpus}}",
        );
        assert!(matches!(cluster.unwrap(), RuntimeSettings::Kubernetes(_)));
    }

    #[test]
    fn mistakes_are_named_with_their_remedy() {
        for (text, expected) in [
            (
                "slurm: {access: {commands: {}}, shared: here}",
                "runtime.slurm.shared here is not valid: write an absolute path",
            ),
            ("slurm: {access: {rest: {url: 'http://x:1', user: root}}, shared: /s}", "give both, or neither"),
            ("slurm: {access: {rest: {url: 'ftp://x'}}, shared: /s}", "write http://host:port or unix:/path"),
            ("slurm: {access: {commands: {}}, shared: /s, partition: 'a b'}", "runtime.slurm.partition a b"),
            ("slurm: {access: {commands: {}}, shared: /s, gres: '--wrap=x'}", "runtime.slurm.gres"),
            ("ray: {url: 'head:8265', shared: /s}", "http://head:8265"),
            ("process: {confine: {cgroup: x}}", "runtime.process.confine.cgroup x"),
            ("kubernetes: {namespace: 'a b', shared: /s, volume: {claim: runs}}", "runtime.kubernetes.namespace a b"),
            ("kubernetes: {namespace: a, shared: /s, volume: {host_path: s}}", "runtime.kubernetes.volume.host_path s"),
            (
                "kubernetes: {namespace: a, shared: /s, mount: /t, volume: {claim: r}}",
                "name shared or a folder above it",
            ),
            (
                "kubernetes: {namespace: a, shared: /s, volume: {claim: r}, queue: {kueue: '-'}}",
                "runtime.kubernetes.queue -",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
