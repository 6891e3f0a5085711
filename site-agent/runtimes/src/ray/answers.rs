//! What Ray says of jobs and nodes.
//!
//! Use is known by node and not by job: tasks and actors of any job hold devices too. What is in use beyond our own jobs is
//! somebody else's.

use crate::{
    batch::{JobEnd, JobState, Mark, SiteJob, Snapshot},
    runtime::{NodeStock, Usage},
};
use rhumb_model::{Bytes, Cores, NodeName};
use serde_json::Value;
use std::collections::BTreeSet;

/// Name of a job's metadata that says whose it is.
pub(super) const MARK: &str = "rhumb";
/// Names of resources that only say which node it is.
const NODE: &str = "node:";
const HEAD: &str = "node:__internal_head__";

/// The name of a job: new for every run.
pub(super) fn submission(mark: &Mark) -> String {
    format!("rhumb-{}", mark.lead)
}

/// The resource by which a job is put on a node.
pub(super) fn resource(nodes: &Value, name: &str) -> Option<String> {
    alive(nodes)
        .find_map(|node| Some((named(node)?, own(node)?)).filter(|(n, _)| n.as_str() == name))
        .map(|(_, own)| own)
}

pub(super) fn snapshot(nodes: &Value, status: &Value, jobs: &Value) -> Snapshot {
    let usage = &status["data"]["clusterStatus"]["loadMetricsReport"]["usageByNode"];
    let used = |node: &Value| Some(used(&named(node)?, &usage[node["node_id"].as_str()?]));
    Snapshot {
        jobs: jobs.as_array().into_iter().flatten().filter_map(job).collect(),
        used: alive(nodes).filter_map(used).collect(),
        nodes: alive(nodes).filter_map(stock).collect(),
        unmanaged: Vec::new(),
    }
}

fn alive(nodes: &Value) -> impl Iterator<Item = &Value> {
    nodes["data"]["result"]["result"].as_array().into_iter().flatten().filter(|node| node["state"] == "ALIVE")
}

fn named(node: &Value) -> Option<NodeName> {
    NodeName::new(node["node_name"].as_str()?).ok()
}

fn own(node: &Value) -> Option<String> {
    node["resources_total"].as_object()?.keys().find(|name| name.starts_with(NODE) && *name != HEAD).cloned()
}

/// Drivers that connected by themselves are no jobs that could be ours, and their devices are seen in their nodes' use.
fn job(value: &Value) -> Option<SiteJob> {
    let id = value["submission_id"].as_str()?.to_owned();
    let mark = value["metadata"][MARK].as_str().and_then(|mark| mark.parse::<Mark>().ok());
    let mark = mark.filter(|mark| submission(mark) == id);
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let ended = |end| JobState::Ended { word: text("status").to_owned(), end };
    let state = match text("status") {
        "PENDING" => JobState::Waiting { why: first_line(text("message")) },
        "STOPPED" => ended(JobEnd::Taken),
        "SUCCEEDED" => ended(JobEnd::Exited(0)),
        "FAILED" => ended(match value["driver_exit_code"].as_i64() {
            // as its supervisor tells it
            Some(code) if code > 128 => JobEnd::Signalled(code as i32 - 128),
            Some(code) if code < 0 => JobEnd::Signalled(-(code as i32)),
            Some(code) => JobEnd::Exited(code as i32),
            None => JobEnd::Lost,
        }),
        _ => JobState::Running,
    };
    // what jobs hold is seen in their nodes' use
    Some(SiteJob { id, mark, state, nodes: Vec::new() })
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

/// Everything in use on a node, ours and others'. Parts of a device make it a device in use.
fn used(node: &NodeName, usage: &Value) -> Usage {
    let used = |name: &str| usage[name][0].as_f64().unwrap_or(0.0);
    Usage {
        id: "in-use".into(),
        node: node.clone(),
        devices: BTreeSet::new(),
        count: (!usage.is_null()).then(|| used("GPU").ceil() as u32),
        cpu: Cores::from_milli((used("CPU") * 1_000.0) as u64),
        memory: Bytes::from_bytes(used("memory") as u64),
    }
}

fn stock(node: &Value) -> Option<NodeStock> {
    let total = |name: &str| node["resources_total"][name].as_f64().unwrap_or(0.0);
    let kind = node["resources_total"]
        .as_object()?
        .keys()
        .find_map(|name| name.strip_prefix("accelerator_type:"))
        .unwrap_or("gpu");
    Some(NodeStock {
        name: named(node)?,
        devices: Some(vec![(kind.to_owned(), total("GPU") as u32)]),
        cpu: Cores::from_milli((total("CPU") * 1_000.0) as u64),
        memory: Bytes::from_bytes(total("memory") as u64),
        is_up: true,
        rack: None,
        nvl_domain: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_name_alone_makes_no_job_ours() {
        let lead = "0190d3a4-5b6c-7d8e-9f00-112233445566";
        let mark = format!("rhumb1:edge-1:{lead}:{lead}:1:trainer:0");
        let read = |id: &str, mark: &str| {
            job(&json!({"submission_id": id, "status": "RUNNING", "metadata": {"rhumb": mark}})).unwrap().mark
        };
        assert!(read(&format!("rhumb-{lead}"), &mark).is_some());
        assert_eq!(read(&format!("rhumb-{lead}"), ""), None);
        assert_eq!(read("other", &mark), None);
    }

    #[test]
    fn a_nodes_use_reads_in_whole_devices_and_unknown_is_not_nothing() {
        let nodes = json!({"data": {"result": {"result": [
            {"node_id": "a", "node_name": "192.0.2.1", "state": "ALIVE",
             "resources_total": {"GPU": 8.0, "CPU": 4.0, "memory": 100.0, "node:192.0.2.1": 1.0, "node:__internal_head__": 1.0}},
            {"node_id": "b", "node_name": "192.0.2.2", "state": "ALIVE", "resources_total": {"node:192.0.2.2": 1.0}},
            {"node_id": "c", "node_name": "192.0.2.3", "state": "DEAD", "resources_total": {}},
        ]}}});
        let status = json!({"data": {"clusterStatus": {"loadMetricsReport": {"usageByNode": {"a": {"GPU": [2.5, 8], "CPU": [1, 4]}}}}}});
        let read = snapshot(&nodes, &status, &json!([]));
        let counts: Vec<Option<u32>> = read.used.iter().map(|used| used.count).collect();
        assert_eq!(counts, [Some(3), None]);
        assert_eq!(read.nodes[0].devices, Some(vec![("gpu".into(), 8)]));
        assert_eq!(resource(&nodes, "192.0.2.1").as_deref(), Some("node:192.0.2.1"));
        assert_eq!(resource(&nodes, "192.0.2.3"), None);
    }

    #[test]
    fn ends_read_by_the_supervisors_exit_code() {
        let end = |code: Value| match job(&json!({"submission_id": "x", "status": "FAILED", "driver_exit_code": code}))
        {
            Some(SiteJob { state: JobState::Ended { end, .. }, .. }) => end,
            other => panic!("{other:?}"),
        };
        assert_eq!(end(json!(3)), JobEnd::Exited(3));
        assert_eq!(end(json!(137)), JobEnd::Signalled(9));
        assert_eq!(end(json!(-9)), JobEnd::Signalled(9));
        assert_eq!(end(Value::Null), JobEnd::Lost);
    }
}
