//! What the controller says of jobs and nodes. Both ways to it answer in the same form, whose numbers and states changed with
//! its versions: plain in 22.05, wrapped later.

use super::gres;
use crate::{
    batch::{JobEnd, JobNode, JobState, SiteJob, Snapshot},
    runtime::{NodeStock, Usage},
};
use rhumb_model::{Bytes, Cores, NodeName};
use serde_json::Value;
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;

/// Everything, as the controller has it. `is_mine`: whether a job is of the agent's own user.
pub(super) fn snapshot(nodes: &Value, jobs: &Value, is_mine: impl Fn(&Value) -> bool) -> Snapshot {
    let list = |answer: &Value, name: &str| answer[name].as_array().cloned().unwrap_or_default();
    let jobs: Vec<SiteJob> = list(jobs, "jobs").iter().filter_map(|value| job(value, is_mine(value))).collect();
    let nodes: Vec<Value> = list(nodes, "nodes");
    let unmanaged = nodes.iter().filter_map(|node| unaccounted(node, &jobs)).collect();
    Snapshot { unmanaged, nodes: nodes.iter().filter_map(stock).collect(), jobs, used: Vec::new() }
}

fn job(value: &Value, is_mine: bool) -> Option<SiteJob> {
    let id = number(&value["job_id"])?.to_string();
    let mark = value["comment"].as_str().filter(|_| is_mine).and_then(|comment| comment.parse().ok());
    let state = state(value);
    let nodes = if matches!(state, JobState::Running) { held(value) } else { Vec::new() };
    Some(SiteJob { id, mark, state, nodes })
}

fn state(job: &Value) -> JobState {
    let words: Vec<&str> = match &job["job_state"] {
        Value::String(word) => vec![word],
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    // what is still being cleared away holds its nodes
    if words.contains(&"COMPLETING") {
        return JobState::Running;
    }
    let word = words.first().copied().unwrap_or_default();
    let ended = |end| JobState::Ended { word: word.to_owned(), end };
    match word {
        "PENDING" => JobState::Waiting { why: reason(job) },
        "COMPLETED" => ended(JobEnd::Exited(0)),
        "FAILED" => ended(exit(&job["exit_code"])),
        "OUT_OF_MEMORY" => ended(JobEnd::Signalled(rustix::process::Signal::KILL.as_raw())),
        "CANCELLED" | "PREEMPTED" | "TIMEOUT" | "DEADLINE" | "REVOKED" => ended(JobEnd::Taken),
        "NODE_FAIL" | "BOOT_FAIL" => ended(JobEnd::Lost),
        // whatever else there is, it holds what it was given
        _ => JobState::Running,
    }
}

fn reason(job: &Value) -> String {
    match job["state_reason"].as_str() {
        None | Some("" | "None") => "waits in Slurm's queue".into(),
        Some(reason) => format!("waits in Slurm's queue: {reason}"),
    }
}

/// A wait status, or what later versions make of it.
fn exit(value: &Value) -> JobEnd {
    if let Some(status) = value.as_u64() {
        let signal = (status & 0x7f) as i32;
        return if signal == 0 { JobEnd::Exited((status >> 8 & 0xff) as i32) } else { JobEnd::Signalled(signal) };
    }
    let signal = number(&value["signal"]["id"]).or(number(&value["signal"]["signal_id"])).unwrap_or(0);
    match (signal, number(&value["return_code"])) {
        (0, Some(code)) => JobEnd::Exited(code as i32),
        (0, None) => JobEnd::Lost,
        (signal, _) => JobEnd::Signalled(signal as i32),
    }
}

/// What a job holds, node by node.
fn held(job: &Value) -> Vec<JobNode> {
    let resources = &job["job_resources"];
    let parts = resources["allocated_nodes"].as_array().cloned().unwrap_or_default();
    let names: Vec<Option<NodeName>> =
        parts.iter().map(|part| part["nodename"].as_str().and_then(|name| NodeName::new(name).ok())).collect();
    let count = names.len().max(1) as u64;
    let cpus = number(&job["cpus"]).unwrap_or(0).div_ceil(count);
    let detail: Vec<&str> =
        job["gres_detail"].as_array().map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default();
    let mut found = Vec::new();
    for (place, (part, name)) in parts.iter().zip(names).enumerate() {
        let Some(node) = name else { continue };
        let (count, devices) = match detail.get(place) {
            Some(field) => match gres::gpus(field) {
                Ok(gpus) => (Some(gpus.count), gpus.indices),
                Err(_) => (None, BTreeSet::new()),
            },
            None => (share(job, parts.len() as u32), BTreeSet::new()),
        };
        let memory = Bytes::from_bytes(number(&part["memory_allocated"]).unwrap_or(0).saturating_mul(MIB));
        found.push(JobNode { node, devices, count, cpu: Cores::from_milli(cpus * 1_000), memory });
    }
    found
}

/// Devices on each of `nodes` by what the whole job was given, or else asked for; `None`: nobody can say.
fn share(job: &Value, nodes: u32) -> Option<u32> {
    let text = |name: &str| job[name].as_str().unwrap_or_default();
    match gres::tres(text("tres_alloc_str")).ok()? {
        Some(whole) => whole.is_multiple_of(nodes).then(|| whole / nodes),
        None => gres::gpus(text("tres_per_node")).ok().map(|gpus| gpus.count),
    }
}

/// Devices of a node that are in use and that no job in the list holds.
fn unaccounted(node: &Value, jobs: &[SiteJob]) -> Option<Usage> {
    let name = NodeName::new(node["name"].as_str()?).ok()?;
    let rest = |count| Usage {
        id: "unaccounted".into(),
        node: name.clone(),
        devices: BTreeSet::new(),
        count,
        cpu: Cores::ZERO,
        memory: Bytes::ZERO,
    };
    let Ok(used) = gres::gpus(node["gres_used"].as_str().unwrap_or_default()) else { return Some(rest(None)) };
    let held = jobs.iter().flat_map(|job| &job.nodes).filter(|held| held.node == name);
    let held = held.map(|held| held.count).sum::<Option<u32>>()?;
    (used.count > held).then(|| rest(Some(used.count - held)))
}

fn stock(node: &Value) -> Option<NodeStock> {
    let name = NodeName::new(node["name"].as_str()?).ok()?;
    let gpus = gres::gpus(node["gres"].as_str().unwrap_or_default()).ok();
    let devices = gpus.map(|gpus| vec![(gpus.kind.unwrap_or_else(|| "gpu".into()), gpus.count)]);
    let words: BTreeSet<String> = [&node["state"], &node["state_flags"]]
        .into_iter()
        .flat_map(|value| match value {
            Value::String(word) => vec![word.to_lowercase()],
            Value::Array(words) => words.iter().filter_map(Value::as_str).map(str::to_lowercase).collect(),
            _ => Vec::new(),
        })
        .collect();
    let is_up = words.iter().any(|word| matches!(word.as_str(), "idle" | "mixed" | "allocated"))
        && !words.iter().any(|word| {
            matches!(word.as_str(), "drain" | "down" | "fail" | "not_responding" | "maintenance" | "reserved")
        });
    Some(NodeStock {
        name,
        devices,
        cpu: Cores::from_milli(number(&node["cpus"]).unwrap_or(0) * 1_000),
        memory: Bytes::from_bytes(number(&node["real_memory"]).unwrap_or(0).saturating_mul(MIB)),
        is_up,
        rack: None,
        nvl_domain: None,
    })
}

/// Plain, or `{"set": true, "number": 1}`.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value["number"].as_u64().filter(|_| value["set"] != false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    /// Devices in use by node, for checks.
    fn used(snapshot: &Snapshot) -> BTreeMap<String, Option<u32>> {
        let mut used: BTreeMap<String, Option<u32>> = BTreeMap::new();
        let held = snapshot.jobs.iter().flat_map(SiteJob::usage).chain(snapshot.unmanaged.clone());
        for held in held {
            let sum = used.entry(held.node.to_string()).or_insert(Some(0));
            *sum = sum.zip(held.count).map(|(sum, count)| sum + count);
        }
        used
    }

    fn running(id: u64, detail: &[&str], tres: &str, nodes: &[&str]) -> Value {
        let parts: Vec<Value> = nodes.iter().map(|n| json!({"nodename": n, "memory_allocated": 100})).collect();
        json!({"job_id": id, "job_state": "RUNNING", "user_id": 0, "cpus": 2, "comment": "", "gres_detail": detail,
               "tres_alloc_str": tres, "tres_per_node": "", "job_resources": {"allocated_nodes": parts}})
    }

    fn node(name: &str, used: &str) -> Value {
        json!({"name": name, "gres": "gpu:a100:8", "gres_used": used, "cpus": 64, "real_memory": 512_000, "state": "mixed",
               "state_flags": []})
    }

    fn read(nodes: &[Value], jobs: &[Value]) -> Snapshot {
        snapshot(&json!({"nodes": nodes}), &json!({"jobs": jobs}), |_| true)
    }

    /// Three jobs that asked in three ways hold seven of sixteen.
    #[test]
    fn use_is_counted_however_a_job_asked() {
        let jobs = [
            running(1, &[], "cpu=4,gres/gpu=2", &["n1"]),
            running(2, &[], "cpu=8,gres/gpu=2", &["n1", "n2"]),
            running(3, &["gpu:a100:1(IDX:2)", "gpu:a100:1(IDX:0)", "gpu:a100:1(IDX:5)"], "", &["n1", "n2", "n3"]),
        ];
        let nodes = [node("n1", "gpu:a100:4(IDX:0-3)"), node("n2", "gpu:a100:2"), node("n3", "gpu:a100:1(IDX:5)")];
        let read = read(&nodes, &jobs);
        let expected = [("n1", Some(4)), ("n2", Some(2)), ("n3", Some(1))];
        assert_eq!(used(&read), expected.map(|(node, count)| (node.to_owned(), count)).into());
        assert!(read.unmanaged.is_empty());
        assert_eq!(read.jobs[2].nodes[2].devices, BTreeSet::from([5]));
    }

    #[test]
    fn what_cannot_be_read_is_unknown_not_nothing() {
        let strange = [running(1, &["gpu:what?"], "", &["n1"]), running(2, &[], "gres/gpu=x", &["n2"])];
        let read = read(&[node("n1", ""), node("n3", "gpu:?:?")], &strange);
        let expected = [("n1", None), ("n2", None), ("n3", None)];
        assert_eq!(used(&read), expected.map(|(node, count)| (node.to_owned(), count)).into());
    }

    #[test]
    fn use_that_no_job_accounts_for_is_somebodys() {
        let read = read(&[node("n1", "gpu:a100:3(IDX:0-2)")], &[running(1, &["gpu:a100:1(IDX:0)"], "", &["n1"])]);
        assert_eq!(read.unmanaged[0].count, Some(2));
    }

    #[test]
    fn ends_read_in_the_forms_of_all_versions() {
        let end = |word: &str, code: Value| match state(&json!({"job_state": word, "exit_code": code})) {
            JobState::Ended { end, .. } => end,
            other => panic!("{other:?}"),
        };
        assert_eq!(end("FAILED", json!(768)), JobEnd::Exited(3));
        assert_eq!(end("FAILED", json!(9)), JobEnd::Signalled(9));
        let wrapped =
            json!({"status": ["ERROR"], "return_code": {"set": true, "number": 3}, "signal": {"id": {"set": false}}});
        assert_eq!(end("FAILED", wrapped), JobEnd::Exited(3));
        assert_eq!(end("CANCELLED", json!(15)), JobEnd::Taken);
        assert_eq!(end("NODE_FAIL", json!(0)), JobEnd::Lost);
        let completing = state(&json!({"job_state": ["COMPLETED", "COMPLETING"]}));
        assert_eq!(completing, JobState::Running);
        assert_eq!(state(&json!({"job_state": "SOMETHING_NEW"})), JobState::Running);
    }

    #[test]
    fn a_node_that_drains_is_not_up() {
        assert!(stock(&node("n1", "")).unwrap().is_up);
        let mut away = node("n1", "");
        away["state_flags"] = json!(["DRAIN"]);
        assert!(!stock(&away).unwrap().is_up);
        away["gres"] = json!("gpu:?:?");
        assert_eq!(stock(&away).unwrap().devices, None);
    }
}
