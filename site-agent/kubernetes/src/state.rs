//! From jobs and pods to what became of runs, and from others' pods to what they hold.

use crate::{
    node::{self, Kind},
    object::{MARK, job_name, name_of},
    pod,
};
use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{Node, Pod},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use rhumb_model::{Bytes, Cores, NodeName};
use rhumb_runtimes::{
    Usage,
    batch::{JobEnd, JobNode, JobState, Mark, SiteJob},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use uuid::Uuid;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Whose an object of the agent's namespace is; `None`: not this agent's.
pub(crate) fn mark(metadata: &ObjectMeta, owner: &str) -> Option<Mark> {
    let mark: Mark = metadata.annotations.as_ref()?.get(MARK)?.parse().ok()?;
    (mark.owner == owner).then_some(mark)
}

/// The same of a job, whose name is its run's alone.
pub(crate) fn job_mark(job: &Job, owner: &str) -> Option<Mark> {
    let mark = mark(&job.metadata, owner)?;
    let name = job.metadata.name.as_deref()?;
    (name == name_of(mark.lead) || name == job_name(mark.lead)).then_some(mark)
}

/// Why a job is over, in the cluster's word; `None`: it is not.
pub(crate) fn finished(job: &Job) -> Option<String> {
    let conditions = job.status.as_ref()?.conditions.as_deref()?;
    let last = conditions.iter().find(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")?;
    Some(last.reason.clone().filter(|reason| !reason.is_empty()).unwrap_or_else(|| last.type_.clone()))
}

/// The place of a pod in its gang.
pub(crate) fn index(pod: &Pod) -> usize {
    let of = |map: &Option<BTreeMap<String, String>>| map.as_ref()?.get(INDEX)?.parse().ok();
    of(&pod.metadata.annotations).or_else(|| of(&pod.metadata.labels)).unwrap_or(0)
}

/// Our runs, one by one. A run's number is its job's, and its place behind a slash where it is one of a gang.
pub(crate) fn runs(jobs: &[Arc<Job>], pods: &[Arc<Pod>], owner: &str) -> Vec<SiteJob> {
    let mut leads: BTreeMap<Uuid, (Option<&Job>, Mark, Vec<&Pod>)> = BTreeMap::new();
    for job in jobs {
        if let Some(mark) = job_mark(job, owner) {
            leads.insert(mark.lead, (Some(job), mark, Vec::new()));
        }
    }
    for pod in pods {
        // also pods whose job is gone: what they run is ours all the same
        if let Some(mark) = mark(&pod.metadata, owner) {
            leads.entry(mark.lead).or_insert_with(|| (None, mark, Vec::new())).2.push(pod);
        }
    }
    leads.into_values().flat_map(|(job, mark, pods)| of_job(job, &mark, &pods)).collect()
}

fn of_job(job: Option<&Job>, mark: &Mark, pods: &[&Pod]) -> Vec<SiteJob> {
    let name = name_of(mark.lead);
    let end = job.and_then(finished);
    if pods.is_empty() && end.is_none() {
        let state = JobState::Waiting { why: job.map(waits).unwrap_or_default() };
        return vec![SiteJob { id: name, mark: Some(mark.clone()), state, nodes: Vec::new() }];
    }
    let replicas: Vec<u32> = mark.replicas.iter().copied().collect();
    let one = |(place, replica): (usize, &u32)| {
        let id = if replicas.len() == 1 { name.clone() } else { format!("{name}/{place}") };
        let mark = Mark { replicas: BTreeSet::from([*replica]), ..mark.clone() };
        let of_place = pods.iter().filter(|pod| index(pod) == place);
        // of several, one that is not over: it holds something
        let pod =
            of_place.min_by_key(|pod| (!pod::holds(pod), std::cmp::Reverse(pod.metadata.creation_timestamp.clone())));
        let state = pod.map_or_else(|| without_pod(job, place, end.as_deref()), |pod| pod::state(pod));
        let nodes = pod.filter(|pod| pod::holds(pod)).and_then(|pod| held(pod)).into_iter().collect();
        // gone from a job that is gone: there is nothing to tell
        let is_there = pod.is_some() || job.is_some();
        is_there.then_some(SiteJob { id, mark: Some(mark), state, nodes })
    };
    replicas.iter().enumerate().filter_map(one).collect()
}

fn without_pod(job: Option<&Job>, place: usize, end: Option<&str>) -> JobState {
    let status = job.and_then(|job| job.status.as_ref());
    let failed = status.and_then(|status| status.failed_indexes.as_deref()).unwrap_or_default();
    let completed = status.and_then(|status| status.completed_indexes.as_deref()).unwrap_or_default();
    if end.is_some() || is_in(failed, place) || is_in(completed, place) {
        let word = end.unwrap_or("over").to_owned() + ", its pod gone";
        return JobState::Ended { word, end: JobEnd::Lost };
    }
    JobState::Waiting { why: job.map(waits).unwrap_or_default() }
}

/// Places as `0,2-4`.
fn is_in(places: &str, place: usize) -> bool {
    places.split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse().is_ok_and(|first: usize| first <= place) && last.parse().is_ok_and(|last: usize| place <= last)
    })
}

fn waits(job: &Job) -> String {
    if job.metadata.deletion_timestamp.is_some() {
        return "it is being removed".into();
    }
    match job.spec.as_ref().and_then(|spec| spec.suspend) {
        Some(true) => "waits to be admitted by the cluster's queue".into(),
        _ => "its pod is not made yet".into(),
    }
}

fn held(pod: &Pod) -> Option<JobNode> {
    let taken = pod::taken(pod);
    Some(JobNode {
        node: NodeName::new(pod::node_name(pod)?).ok()?,
        devices: BTreeSet::new(),
        count: taken.count(),
        cpu: Cores::from_milli(taken.cpu_milli),
        memory: Bytes::from_bytes(taken.memory_bytes),
    })
}

/// What pods that are not ours hold. Where a node has devices of several kinds, those of a kind are counted from its end: which
/// ones they are only the node knows.
pub(crate) fn foreign(pods: &[Arc<Pod>], nodes: &[Arc<Node>], is_ours: impl Fn(&Pod) -> bool) -> Vec<Usage> {
    let mixed = |node: &Arc<Node>| {
        let kinds = node::kinds(node)?;
        Some((node.metadata.name.clone()?, kinds)).filter(|(_, kinds)| kinds.len() > 1)
    };
    let mixed: BTreeMap<String, Vec<Kind>> = nodes.iter().filter_map(mixed).collect();
    let mut given: BTreeMap<(String, String), u32> = BTreeMap::new();
    let mut others: Vec<&Arc<Pod>> = pods.iter().filter(|pod| pod::holds(pod) && !is_ours(pod)).collect();
    others.sort_by_key(|pod| (pod.metadata.namespace.clone(), pod.metadata.name.clone()));
    let usage = |pod: &&Arc<Pod>| {
        let name = pod::node_name(pod)?;
        let taken = pod::taken(pod);
        let mut devices = BTreeSet::new();
        let mut first = 0;
        for kind in mixed.get(name).into_iter().flatten() {
            let asked = taken.devices.as_ref().and_then(|devices| devices.get(&kind.resource)).copied().unwrap_or(0);
            let before = given.entry((name.to_owned(), kind.resource.clone())).or_default();
            for _ in 0..asked.min(u64::from(kind.count - (*before).min(kind.count))) {
                *before += 1;
                devices.insert(first + kind.count - *before);
            }
            first += kind.count;
        }
        let metadata = &pod.metadata;
        let of = |text: &Option<String>| text.clone().unwrap_or_default();
        Some(Usage {
            id: format!("{}/{}", of(&metadata.namespace), of(&metadata.name)),
            node: NodeName::new(name).ok()?,
            devices,
            count: taken.count(),
            cpu: Cores::from_milli(taken.cpu_milli),
            memory: Bytes::from_bytes(taken.memory_bytes),
        })
    };
    others.iter().filter_map(usage).collect()
}
