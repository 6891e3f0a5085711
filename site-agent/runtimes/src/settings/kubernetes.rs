//! What an agent must know of a cluster. Names go into typed fields of objects and nowhere else.

use super::{SettingsError, absolute, refuse};
use rhumb_model::Span;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubernetesSettings {
    /// Default: the account of the agent's own pod, else what `KUBECONFIG` or `~/.kube/config` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
    /// Of the kubeconfig; default: its current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Where the agent's objects are made. Whoever may write there may also claim to be this agent.
    pub namespace: String,
    /// Folder of the runs, seen under this name by the agent and in pods.
    pub shared: PathBuf,
    /// What holds it.
    pub volume: KubernetesVolume,
    /// The folder that is the volume's root, `shared` or above it; default: `shared`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<PathBuf>,
    /// What a pod sees of the volume.
    #[serde(default)]
    pub visible: Visible,
    /// The executable that supervises runs, as pods see it; default: the agent puts itself into the shared folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<PathBuf>,
    /// Of orders that name none; without it those are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// User and group of the work; default: the agent's own, who owns the shared folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    #[serde(default)]
    pub workload: KubernetesWorkload,
    /// Who says when a job may begin; default: nobody, and pods start where there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<KubernetesQueue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_class: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_secret: Option<String>,
    /// Keys of taints that work here bears; those named as the devices it asks for it bears anyway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<String>,
    /// Labels of nodes that name their rack; the first that a node has counts.
    #[serde(default = "rack_labels")]
    pub rack_labels: Vec<String>,
    /// Labels of nodes that name what joins the devices of several nodes as one.
    #[serde(default = "nvl_domain_labels")]
    pub nvl_domain_labels: Vec<String>,
    /// What a pod has between the cluster's polite signal and its kill.
    #[serde(default = "kill_wait")]
    pub kill_wait: Span,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KubernetesVolume {
    /// A claim in the agent's namespace that all nodes may mount.
    Claim(String),
    /// A folder that every node has, such as a mounted file system.
    HostPath(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visible {
    /// The folders of its own run and gang.
    #[default]
    Run,
    /// All of it: orders can then read and change each other's.
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KubernetesWorkload {
    #[default]
    Job,
    /// Where the cluster has JobSet.
    JobSet,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KubernetesQueue {
    /// A LocalQueue of Kueue in the agent's namespace: jobs are made suspended and begin once it admits them.
    Kueue(String),
    /// A queue of Volcano: pods of a job are one group.
    Volcano(String),
}

fn rack_labels() -> Vec<String> {
    vec!["topology.kubernetes.io/rack".into()]
}

fn nvl_domain_labels() -> Vec<String> {
    vec!["nvidia.com/gpu.clique".into()]
}

fn kill_wait() -> Span {
    Span::from_micros(30_000_000)
}

impl KubernetesSettings {
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        absolute("runtime.kubernetes.shared", &self.shared)?;
        if let Some(path) = &self.supervisor {
            absolute("runtime.kubernetes.supervisor", path)?;
        }
        if let KubernetesVolume::HostPath(path) = &self.volume {
            absolute("runtime.kubernetes.volume.host_path", path)?;
        }
        if !self.shared.starts_with(self.mount()) {
            return refuse("runtime.kubernetes.mount", &self.mount().display(), "name shared or a folder above it");
        }
        let claim = match &self.volume {
            KubernetesVolume::Claim(name) => Some(name),
            KubernetesVolume::HostPath(_) => None,
        };
        let queue = self.queue.as_ref().map(|(KubernetesQueue::Kueue(name) | KubernetesQueue::Volcano(name))| name);
        for (setting, name) in [
            ("runtime.kubernetes.namespace", Some(&self.namespace)),
            ("runtime.kubernetes.volume.claim", claim),
            ("runtime.kubernetes.queue", queue),
            ("runtime.kubernetes.runtime_class", self.runtime_class.as_ref()),
            ("runtime.kubernetes.priority_class", self.priority_class.as_ref()),
            ("runtime.kubernetes.service_account", self.service_account.as_ref()),
            ("runtime.kubernetes.pull_secret", self.pull_secret.as_ref()),
        ] {
            if name.is_some_and(|name| !is_object_name(name)) {
                let remedy = "use a name as Kubernetes takes it: a-z, 0-9, dashes and points";
                return refuse(setting, &name.map_or("", String::as_str), remedy);
            }
        }
        if self.kill_wait.micros() < 1_000_000 {
            return refuse("runtime.kubernetes.kill_wait", &self.kill_wait, "use at least 1s");
        }
        Ok(())
    }

    /// The folder that is the volume's root.
    pub fn mount(&self) -> &std::path::Path {
        self.mount.as_deref().unwrap_or(&self.shared)
    }
}

/// RFC 1123.
fn is_object_name(name: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    name.len() <= 253 && edge(name.chars().next()) && edge(name.chars().last()) && name.chars().all(good)
}
