//! What goes on in a cluster by itself: pods are made of jobs, put on nodes and run; what is owned by what is gone goes too.

use crate::{
    Shared, jobs, kubelet,
    store::{Key, Store},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub(crate) async fn run(shared: Arc<Shared>) {
    let mut heard = shared.store().heard();
    loop {
        heard.mark_unchanged();
        settle(&mut shared.store());
        kubelet::step(&shared);
        if heard.changed().await.is_err() {
            return;
        }
    }
}

/// Until nothing changes any more.
fn settle(store: &mut Store) {
    loop {
        let before = store.version();
        jobs::step(store);
        schedule(store);
        collect(store);
        if store.version() == before {
            return;
        }
    }
}

/// What a pod's containers may not exceed together.
fn devices(pod: &Value) -> BTreeMap<String, u64> {
    let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
    let devices = limits.as_object().into_iter().flatten().filter(|(resource, _)| resource.contains('/'));
    devices.map(|(resource, count)| (resource.clone(), count.as_str().unwrap_or("0").parse().unwrap_or(0))).collect()
}

fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Nodes that a pod asks for by their names; empty: any.
fn wanted(pod: &Value) -> BTreeSet<String> {
    let affinity = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = affinity["nodeSelectorTerms"].as_array().into_iter().flatten();
    let names = terms.flat_map(|term| term["matchFields"][0]["values"].as_array().cloned().unwrap_or_default());
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

fn schedule(store: &mut Store) {
    let waiting: Vec<(Key, Value)> = store
        .all("pods", "")
        .filter(|(_, pod)| pod["spec"]["nodeName"].is_null() && pod["metadata"]["deletionTimestamp"].is_null())
        .map(|(key, pod)| (key.clone(), pod.clone()))
        .collect();
    for (key, pod) in waiting {
        let why = if is_grouped(store, &pod) { place(store, &pod) } else { Err("its group is not complete".into()) };
        store.change(&key, |pod| match why {
            Ok(node) => {
                pod["spec"]["nodeName"] = json!(node);
                pod["status"] = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]});
            }
            Err(message) => {
                let unmet =
                    json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
                pod["status"] = json!({"phase": "Pending", "conditions": [unmet]});
            }
        });
    }
}

/// Volcano's rule: all of a group or none.
fn is_grouped(store: &Store, pod: &Value) -> bool {
    if pod["spec"]["schedulerName"] != "volcano" {
        return true;
    }
    let group = pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"].as_str().unwrap_or_default();
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let found = store.get(&Key::new("scheduling.volcano.sh/podgroups", namespace, group));
    let of_group = |(_, pod): &(&Key, &Value)| pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == group;
    let there = store.all("pods", namespace).filter(of_group).count() as u64;
    found.is_some_and(|group| group["spec"]["minMember"].as_u64().is_some_and(|least| there >= least))
}

fn place(store: &Store, pod: &Value) -> Result<String, String> {
    let wanted = wanted(pod);
    let asked = devices(pod);
    let mut fits = Vec::new();
    for (key, node) in store.all("nodes", "") {
        if !wanted.is_empty() && !wanted.contains(&key.name) {
            continue;
        }
        let here: Vec<&Value> = store
            .all("pods", "")
            .map(|(_, pod)| pod)
            .filter(|pod| pod["spec"]["nodeName"] == key.name && !is_over(pod))
            .collect();
        let free = |resource: &str| {
            let all: u64 = node["status"]["allocatable"][resource].as_str().unwrap_or("0").parse().unwrap_or(0);
            let used: u64 = here.iter().map(|pod| devices(pod).get(resource).copied().unwrap_or(0)).sum();
            all.saturating_sub(used)
        };
        if asked.iter().all(|(resource, count)| free(resource) >= *count) {
            // the emptiest: pods of one job spread
            fits.push((here.len(), key.name.clone()));
        }
    }
    fits.into_iter().min().map(|(_, name)| name).ok_or_else(|| "0 nodes are available".to_owned())
}

/// What is owned by what is gone, or waits for what it owns.
fn collect(store: &mut Store) {
    for resource in ["batch/jobs", "pods"] {
        let all: Vec<(Key, Value)> =
            store.all(resource, "").map(|(key, object)| (key.clone(), object.clone())).collect();
        for (key, object) in all {
            let owner = &object["metadata"]["ownerReferences"][0];
            if owner.is_null() {
                continue;
            }
            let of = if owner["kind"] == "Job" { "batch/jobs" } else { "jobset.x-k8s.io/jobsets" };
            let name = owner["name"].as_str().unwrap_or_default();
            let found = store.get(&Key::new(of, &key.namespace, name));
            let found = found.filter(|found| found["metadata"]["uid"] == owner["uid"]);
            let goes = found.is_none_or(|found| !found["metadata"]["deletionTimestamp"].is_null());
            if goes && object["metadata"]["deletionTimestamp"].is_null() {
                store.change(&key, |object| {
                    object["metadata"]["deletionGracePeriodSeconds"] =
                        object["spec"]["terminationGracePeriodSeconds"].clone();
                    object["metadata"]["deletionTimestamp"] = json!(crate::store::now());
                });
            }
        }
    }
    for resource in ["batch/jobs", "jobset.x-k8s.io/jobsets"] {
        let owned_by = if resource == "batch/jobs" { "pods" } else { "batch/jobs" };
        let going: Vec<(Key, Value)> = store
            .all(resource, "")
            .filter(|(_, object)| !object["metadata"]["deletionTimestamp"].is_null())
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, object) in going {
            let uid = &object["metadata"]["uid"];
            let left =
                store.all(owned_by, &key.namespace).any(|(_, o)| o["metadata"]["ownerReferences"][0]["uid"] == *uid);
            if !left {
                store.change(&key, |object| object["metadata"]["finalizers"] = json!([]));
            }
        }
    }
}
