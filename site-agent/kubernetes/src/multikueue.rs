//! An external dispatcher of MultiKueue: workloads that have their quota and wait for a cluster are sent to the one that a
//! decision names, by `status.nominatedClusterNames`. Kueue does the rest, and its users change nothing.
//!
//! Fields of a workload's admission belong to one manager, `kueue-admission`, which everybody who writes them must be; who applies
//! as that manager says all that it owns again, on the very version that was read, or is refused and looks again.

mod applied;
mod decide;
mod workload;

pub use decide::{Decide, DecideError, Decision, Profile, QuoteSettings, Quotes};
pub use workload::{Asked, PodSet};

use crate::{
    client_of,
    error::{self, answered, failed},
    watched::Watched,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, Patch, PatchParams},
    core::{DynamicObject, GroupVersionKind},
    runtime::watcher::Config,
};
use rhumb_model::Span;
use rhumb_runtimes::RuntimeError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

const GROUP: &str = "kueue.x-k8s.io";
/// The controller whose checks send workloads to clusters.
const CONTROLLER: &str = "kueue.x-k8s.io/multikueue";
/// Who owns the fields of admission.
const MANAGER: &str = "kueue-admission";
/// After a decision that did not come to anything.
const AGAIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DispatcherSettings {
    /// Of the manager cluster; default: as an agent finds its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    pub quotes: QuoteSettings,
    /// How long the chosen cluster has to admit a workload before the next best is tried too.
    #[serde(default = "widen_after")]
    pub widen_after: Span,
    /// How often it looks.
    #[serde(default = "every")]
    pub every: Span,
}

fn widen_after() -> Span {
    Span::from_micros(300_000_000)
}

fn every() -> Span {
    Span::from_micros(1_000_000)
}

/// Sends workloads to clusters for as long as it is let; to be called below a runtime of tokio.
pub async fn dispatch(settings: DispatcherSettings) -> Result<(), DispatchError> {
    let client = client_of(settings.kubeconfig.as_deref(), settings.context.as_deref()).await?;
    let every = Duration::from_micros(settings.every.micros());
    let widen_after = Duration::from_micros(settings.widen_after.micros());
    let mut dispatcher = Dispatcher::open(client, Quotes::new(settings.quotes)?, widen_after).await?;
    loop {
        if let Err(error) = dispatcher.step().await {
            tracing::warn!(%error, "workloads wait");
        }
        tokio::time::sleep(every).await;
    }
}

/// Why a dispatcher does not begin.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    #[error(transparent)]
    Cluster(#[from] RuntimeError),
    #[error(transparent)]
    Decide(#[from] DecideError),
}

pub struct Dispatcher<D> {
    client: Client,
    kind: ApiResource,
    decide: D,
    widen_after: Duration,
    workloads: Watched<DynamicObject>,
    checks: Watched<DynamicObject>,
    configs: Watched<DynamicObject>,
    clusters: Watched<DynamicObject>,
    /// By uid: what was done last.
    last: BTreeMap<String, Last>,
}

impl<D: fmt::Debug> fmt::Debug for Dispatcher<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").field("decide", &self.decide).field("last", &self.last).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
struct Last {
    at: Instant,
    /// How many clusters it was sent to then.
    nominated: usize,
    /// Why not further; empty: it was.
    why: String,
}

impl<D: Decide> Dispatcher<D> {
    /// Begins to watch, in the version of Kueue's interface that the cluster prefers.
    pub async fn open(client: Client, decide: D, widen_after: Duration) -> Result<Self, RuntimeError> {
        let groups = client.list_api_groups().await.map_err(|error| failed("ask what the cluster has", &error))?;
        let group = groups.groups.into_iter().find(|group| group.name == GROUP);
        let version = group.and_then(|group| group.preferred_version).map(|preferred| preferred.version);
        let version = version.ok_or_else(|| answered("ask what the cluster has", "there is no Kueue in it"))?;
        let watch = |kind: &str, plural: &str| {
            let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, &version, kind), plural);
            Watched::start(Api::all_with(client.clone(), &kind), kind, Config::default(), |_: &mut DynamicObject| ())
        };
        let workload = GroupVersionKind::gvk(GROUP, &version, "Workload");
        Ok(Self {
            workloads: watch("Workload", "workloads"),
            checks: watch("AdmissionCheck", "admissionchecks"),
            configs: watch("MultiKueueConfig", "multikueueconfigs"),
            clusters: watch("MultiKueueCluster", "multikueueclusters"),
            kind: ApiResource::from_gvk_with_plural(&workload, "workloads"),
            client,
            decide,
            widen_after,
            last: BTreeMap::new(),
        })
    }

    /// Looks once at everything that waits. What cannot be decided now waits for the next look.
    pub async fn step(&mut self) -> Result<(), RuntimeError> {
        let silent = |why| answered("ask for workloads", why);
        let checks = self.checks().await?;
        let mut workloads = self.workloads.all().await.map_err(silent)?;
        // first come, first served
        workloads.sort_by_key(|workload| (workload.creation_timestamp(), workload.namespace(), workload.name_any()));
        let names: BTreeSet<String> = checks.keys().cloned().collect();
        let waiting: Vec<(Arc<DynamicObject>, String)> = workloads
            .into_iter()
            .filter_map(|workload| workload::waits(&workload, &names).map(|check| (workload, check)))
            .collect();
        let uids: BTreeSet<String> = waiting.iter().filter_map(|(workload, _)| workload.uid()).collect();
        self.last.retain(|uid, _| uids.contains(uid));
        for (workload, check) in waiting {
            self.send(&workload, checks.get(&check).map_or(&[], Vec::as_slice)).await;
        }
        Ok(())
    }

    /// The active clusters of each check that sends workloads.
    async fn checks(&self) -> Result<BTreeMap<String, Vec<String>>, RuntimeError> {
        let silent = |why| answered("ask for clusters", why);
        let active: BTreeSet<String> = self
            .clusters
            .all()
            .await
            .map_err(silent)?
            .iter()
            .filter(|cluster| {
                let conditions = cluster.data["status"]["conditions"].as_array().into_iter().flatten();
                conditions.into_iter().any(|c| c["type"] == "Active" && c["status"] == "True")
            })
            .map(|cluster| cluster.name_any())
            .collect();
        let configs = self.configs.all().await.map_err(silent)?;
        let of = |config: &Value| -> Vec<String> {
            let named = configs.iter().find(|found| *config == found.name_any().as_str());
            let names = named.and_then(|found| found.data["spec"]["clusters"].as_array()).into_iter().flatten();
            names.filter_map(Value::as_str).filter(|name| active.contains(*name)).map(str::to_owned).collect()
        };
        let checks = self.checks.all().await.map_err(silent)?;
        let ours = checks.iter().filter(|check| check.data["spec"]["controllerName"] == CONTROLLER);
        Ok(ours.map(|check| (check.name_any(), of(&check.data["spec"]["parameters"]["name"]))).collect())
    }

    async fn send(&mut self, workload: &DynamicObject, clusters: &[String]) {
        let uid = workload.uid().unwrap_or_default();
        let nominated = workload::nominated(workload);
        let due = match self.last.get(&uid) {
            // a watch may still be behind what was written
            Some(last) if last.nominated > nominated.len() => last.at.elapsed() > AGAIN,
            Some(last) if nominated.is_empty() => last.at.elapsed() > AGAIN,
            Some(last) => last.at.elapsed() > self.widen_after,
            // somebody nominated it before this began: its time begins now
            None => nominated.is_empty(),
        };
        if !due {
            self.last.entry(uid).or_insert(Last { at: Instant::now(), nominated: nominated.len(), why: String::new() });
            return;
        }
        let left: Vec<String> = clusters.iter().filter(|name| !nominated.contains(name)).cloned().collect();
        if left.is_empty() {
            self.note(workload, &uid, nominated.len(), "no other cluster is active");
            return;
        }
        match self.decide.decide(&workload::asked(workload, left)).await {
            Ok(Decision::Nominate(cluster)) => {
                let count = nominated.len() + 1;
                let names: Vec<String> = nominated.iter().cloned().chain([cluster.clone()]).collect();
                match error::in_time("nominate a cluster", self.nominate(workload, &names)).await {
                    Ok(()) => {
                        tracing::info!(workload = %workload.name_any(), cluster, "workload sent");
                        self.last.insert(uid, Last { at: Instant::now(), nominated: count, why: String::new() });
                    }
                    Err(error) => {
                        // it changed meanwhile: it is looked at as it is then, and decided anew
                        tracing::debug!(workload = %workload.name_any(), %error, "workload not sent");
                        self.last.remove(&uid);
                    }
                }
            }
            Ok(Decision::Wait { why }) => self.note(workload, &uid, nominated.len(), &why),
            Err(error) => self.note(workload, &uid, nominated.len(), &error::chain(&error)),
        }
    }

    fn note(&mut self, workload: &DynamicObject, uid: &str, nominated: usize, why: &str) {
        if self.last.get(uid).is_none_or(|last| last.why != why) {
            tracing::warn!(workload = %workload.name_any(), why, "workload waits for a cluster");
        }
        let last = Last { at: Instant::now(), nominated, why: why.to_owned() };
        self.last.insert(uid.to_owned(), last);
    }

    async fn nominate(&self, workload: &DynamicObject, clusters: &[String]) -> Result<(), RuntimeError> {
        let mut status = applied::owned(&workload.metadata, MANAGER, &workload.data["status"]);
        status["nominatedClusterNames"] = json!(clusters);
        let patch = json!({
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "metadata": {
                "name": workload.name_any(),
                "namespace": workload.namespace(),
                "uid": workload.uid(),
                // on this very version, or not at all
                "resourceVersion": workload.resource_version(),
            },
            "status": status,
        });
        let namespace = workload.namespace().unwrap_or_default();
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &namespace, &self.kind);
        let how = PatchParams::apply(MANAGER).force();
        let written = api.patch_status(&workload.name_any(), &how, &Patch::Apply(&patch)).await;
        written.map(drop).map_err(|error| failed("nominate a cluster", &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands in `deploy/` is what this reads.
    #[test]
    fn the_example_is_read() {
        let text = include_str!("../../../deploy/kubernetes/dispatcher.yaml");
        let (_, inside) = text.split_once("dispatcher.yaml: |\n").unwrap();
        let inside: String =
            inside.lines().map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned() + "\n").collect();
        let settings: DispatcherSettings = rhumb_model::document::read(&inside).unwrap();
        assert_eq!(settings.quotes.clusters.len(), 2);
        assert_eq!(settings.widen_after.micros(), 300_000_000);
    }
}
