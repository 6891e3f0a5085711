//! The controllers of Jobs and JobSets.

use crate::store::{Key, Store, now};
use serde_json::{Value, json};
use uuid::Uuid;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const MADE: &str = "fakeMade";

pub(crate) fn step(store: &mut Store) {
    let sets: Vec<Value> = store.all("jobset.x-k8s.io/jobsets", "").map(|(_, set)| set.clone()).collect();
    for set in sets {
        spread(store, &set);
    }
    let jobs: Vec<(Key, Value)> = store.all("batch/jobs", "").map(|(key, job)| (key.clone(), job.clone())).collect();
    for (key, job) in jobs {
        of_job(store, &key, &job);
    }
}

fn owner(object: &Value, kind: &str, version: &str) -> Value {
    let metadata = &object["metadata"];
    json!([{"apiVersion": version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"], "controller": true}])
}

/// The jobs of a set.
fn spread(store: &mut Store, set: &Value) {
    let (name, namespace) = (text(&set["metadata"]["name"]), text(&set["metadata"]["namespace"]));
    if !set["metadata"]["deletionTimestamp"].is_null() {
        return;
    }
    for part in set["spec"]["replicatedJobs"].as_array().into_iter().flatten() {
        let key = Key::new("batch/jobs", &namespace, &format!("{name}-{}-0", text(&part["name"])));
        let mut job = part["template"].clone();
        job["metadata"]["ownerReferences"] = owner(set, "JobSet", "jobset.x-k8s.io/v1alpha2");
        job["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] = json!(name);
        let suspend = set["spec"]["suspend"].as_bool().unwrap_or(false);
        if store.get(&key).is_none() {
            job["spec"]["suspend"] = json!(suspend);
            job["status"] = json!({});
            let _ = store.create(&key, job);
        } else {
            store.change(&key, |job| job["spec"]["suspend"] = json!(suspend));
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn of_job(store: &mut Store, key: &Key, job: &Value) {
    let is_going = !job["metadata"]["deletionTimestamp"].is_null();
    let is_over = job["status"]["conditions"].as_array().is_some_and(|conditions| !conditions.is_empty());
    if is_going || is_over || job["spec"]["suspend"] == true {
        return;
    }
    let uid = &job["metadata"]["uid"];
    let count = job["spec"]["completions"].as_u64().unwrap_or(1);
    let is_indexed = job["spec"]["completionMode"] == "Indexed";
    let pods: Vec<Value> = store
        .all("pods", &key.namespace)
        .map(|(_, pod)| pod.clone())
        .filter(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == *uid)
        .collect();
    let made = job["status"][MADE].as_u64().unwrap_or(0);
    for index in made..count {
        make_pod(store, key, job, index, is_indexed);
    }
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for index in 0..made {
        let pod = pods.iter().find(|pod| pod["metadata"]["annotations"][INDEX] == index.to_string().as_str());
        match pod.map(|pod| text(&pod["status"]["phase"])).as_deref() {
            Some("Succeeded") => done.push(index),
            // it is never tried again, and one that is gone counts as failed
            Some("Failed") | None => failed.push(index),
            Some(_) => {}
        }
    }
    let mut status = json!({MADE: count, "active": count - (done.len() + failed.len()) as u64,
        "succeeded": done.len(), "failed": failed.len()});
    if is_indexed {
        let list = |places: &[u64]| places.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        status["completedIndexes"] = json!(list(&done));
        status["failedIndexes"] = json!(list(&failed));
    }
    if made == count && (done.len() + failed.len()) as u64 == count {
        let (kind, reason) = match (failed.is_empty(), is_indexed) {
            (true, _) => ("Complete", "CompletionsReached"),
            (false, true) => ("Failed", "FailedIndexes"),
            (false, false) => ("Failed", "BackoffLimitExceeded"),
        };
        let now = now();
        status["conditions"] = json!([{"type": kind, "status": "True", "reason": reason, "lastTransitionTime": now}]);
    }
    store.change(key, |job| job["status"] = status);
}

fn make_pod(store: &mut Store, key: &Key, job: &Value, index: u64, is_indexed: bool) {
    let template = &job["spec"]["template"];
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"],
        "status": {"phase": "Pending"}});
    pod["metadata"]["ownerReferences"] = owner(job, "Job", "batch/v1");
    pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = json!(key.name);
    pod["metadata"]["annotations"][INDEX] = json!(index.to_string());
    if is_indexed {
        let variable = json!({"name": "JOB_COMPLETION_INDEX", "value": index.to_string()});
        let env = &mut pod["spec"]["containers"][0]["env"];
        if !env.is_array() {
            *env = json!([]);
        }
        env.as_array_mut().unwrap().push(variable);
    }
    let place = if is_indexed { format!("-{index}") } else { String::new() };
    let name = format!("{}{place}-{}", key.name, &Uuid::now_v7().simple().to_string()[27..]);
    store.create(&Key::new("pods", &key.namespace, &name), pod).unwrap();
}
