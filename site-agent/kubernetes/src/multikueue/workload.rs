//! Workloads of Kueue: which of them wait for a cluster, and what they ask for.

use crate::{node::is_device, pod};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, core::DynamicObject};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What a decision is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The LocalQueue it waits in.
    pub queue: String,
    pub pods: Vec<PodSet>,
    /// Longest run in seconds, where it says so.
    pub seconds_most: Option<u64>,
    /// Clusters that it may be sent to and was not yet.
    pub clusters: Vec<String>,
}

/// Pods of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSet {
    pub name: String,
    pub count: u64,
    /// Of one pod.
    pub cpu_milli: u64,
    pub memory_bytes: u64,
    /// By resource; `None`: it cannot be read.
    pub devices: Option<BTreeMap<String, u64>>,
    /// Labels that its node must have.
    pub node_labels: BTreeMap<String, String>,
}

fn is_true(workload: &DynamicObject, condition: &str) -> bool {
    let conditions = workload.data["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|c| c["type"] == condition && c["status"] == "True")
}

/// Whether it has its quota and waits for nothing but a cluster; the name of the check that sends it to one.
pub(crate) fn waits(workload: &DynamicObject, checks: &BTreeSet<String>) -> Option<String> {
    let status = &workload.data["status"];
    let is_open = workload.metadata.deletion_timestamp.is_none()
        && is_true(workload, "QuotaReserved")
        && !["Finished", "Admitted", "Evicted"].iter().any(|condition| is_true(workload, condition))
        && status["clusterName"].as_str().is_none_or(str::is_empty);
    let waiting =
        status["admissionChecks"].as_array().into_iter().flatten().find(|check| {
            check["state"] == "Pending" && check["name"].as_str().is_some_and(|name| checks.contains(name))
        });
    waiting.filter(|_| is_open)?["name"].as_str().map(str::to_owned)
}

/// Where it was sent already.
pub(crate) fn nominated(workload: &DynamicObject) -> Vec<String> {
    let names = workload.data["status"]["nominatedClusterNames"].as_array().into_iter().flatten();
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

pub(crate) fn asked(workload: &DynamicObject, clusters: Vec<String>) -> Asked {
    let spec = &workload.data["spec"];
    let pods = spec["podSets"].as_array().into_iter().flatten().map(pod_set).collect();
    Asked {
        namespace: workload.namespace().unwrap_or_default(),
        name: workload.name_any(),
        uid: workload.uid().unwrap_or_default(),
        queue: spec["queueName"].as_str().unwrap_or_default().to_owned(),
        pods,
        seconds_most: spec["maximumExecutionTimeSeconds"].as_u64(),
        clusters,
    }
}

fn pod_set(set: &Value) -> PodSet {
    // what cannot be read as a pod asks for what nobody knows
    let pod: Option<Pod> = serde_json::from_value(set["template"].clone()).ok();
    let taken = pod.as_ref().map(pod::taken).unwrap_or_default();
    let labels = pod.and_then(|pod| pod.spec?.node_selector).unwrap_or_default();
    PodSet {
        name: set["name"].as_str().unwrap_or("main").to_owned(),
        count: set["count"].as_u64().unwrap_or(1),
        cpu_milli: taken.cpu_milli,
        memory_bytes: taken.memory_bytes,
        devices: taken.devices.map(|devices| devices.into_iter().filter(|(r, n)| is_device(r) && *n > 0).collect()),
        node_labels: labels.into_iter().collect(),
    }
}
