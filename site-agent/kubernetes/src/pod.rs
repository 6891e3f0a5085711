//! Pods: what they take of their node, and how far they are.

use crate::{node::is_device, quantity};
use k8s_openapi::{
    api::core::v1::{Container, ContainerStateTerminated, ContainerStatus, Pod, PodCondition, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use rhumb_runtimes::batch::{JobEnd, JobState};
use std::collections::BTreeMap;

const KILL: i32 = 9;

/// What a pod takes of its node, as the cluster's own scheduler counts it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Taken {
    pub(crate) cpu_milli: u64,
    pub(crate) memory_bytes: u64,
    /// By resource; `None`: it cannot be read.
    pub(crate) devices: Option<BTreeMap<String, u64>>,
}

impl Taken {
    /// How many devices of any kind.
    pub(crate) fn count(&self) -> Option<u32> {
        self.devices.as_ref().map(|devices| u32::try_from(devices.values().sum::<u64>()).unwrap_or(u32::MAX))
    }
}

/// Whether it holds something of a node.
pub(crate) fn holds(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    node_name(pod).is_some() && !matches!(phase, Some("Succeeded" | "Failed"))
}

pub(crate) fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// The larger of what its containers ask for together and of what one that runs before them asks for, and what a pod costs.
pub(crate) fn taken(pod: &Pod) -> Taken {
    let Some(spec) = &pod.spec else { return Taken::default() };
    let mut running = Sum::default();
    let mut before = Sum::default();
    for container in spec.init_containers.iter().flatten() {
        let own = Sum::of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            // it goes on beside all that come after it
            running = running.plus(&own);
            before = before.most(&running);
        } else {
            before = before.most(&running.plus(&own));
        }
    }
    let all = spec.containers.iter().fold(running, |sum, container| sum.plus(&Sum::of(container)));
    let mut all = all.most(&before);
    if let Some(whole) = spec.resources.as_ref() {
        all = all.replaced(&Sum::asked(whole));
    }
    if let Some(overhead) = &spec.overhead {
        all = all.plus(&Sum::read(overhead));
    }
    let devices = all.0.iter().filter(|(resource, _)| is_device(resource));
    let one = |resource: &str| all.0.get(resource).copied().flatten();
    Taken {
        cpu_milli: one("cpu").unwrap_or(0),
        memory_bytes: one("memory").unwrap_or(0),
        devices: devices.map(|(resource, count)| Some((resource.clone(), (*count)?))).collect(),
    }
}

/// Amounts by resource, processors in thousandths; `None`: one cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Sum(BTreeMap<String, Option<u64>>);

impl Sum {
    fn of(container: &Container) -> Self {
        container.resources.as_ref().map_or_else(Self::default, Self::asked)
    }

    /// What is limited and not asked for is asked for up to its limit.
    fn asked(resources: &ResourceRequirements) -> Self {
        let mut asked = resources.limits.clone().unwrap_or_default();
        asked.extend(resources.requests.clone().unwrap_or_default());
        Self::read(&asked)
    }

    fn read(amounts: &BTreeMap<String, Quantity>) -> Self {
        let one = |(resource, amount): (&String, &Quantity)| {
            let amount = if resource == "cpu" { quantity::milli(amount) } else { quantity::ones(amount) };
            (resource.clone(), amount)
        };
        Self(amounts.iter().map(one).collect())
    }

    fn with(mut self, other: &Self, join: fn(u64, u64) -> u64) -> Self {
        for (resource, amount) in &other.0 {
            let own = self.0.entry(resource.clone()).or_insert(Some(0));
            *own = own.zip(*amount).map(|(own, amount)| join(own, amount));
        }
        self
    }

    fn plus(&self, other: &Self) -> Self {
        self.clone().with(other, u64::saturating_add)
    }

    fn most(self, other: &Self) -> Self {
        self.with(other, u64::max)
    }

    fn replaced(self, other: &Self) -> Self {
        self.with(other, |_, amount| amount)
    }
}

/// How far it is.
pub(crate) fn state(pod: &Pod) -> JobState {
    let Some(status) = &pod.status else { return JobState::Waiting { why: String::new() } };
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    match status.phase.as_deref() {
        Some("Succeeded") => {
            // a supervisor that ended well leaves a record; who does not read one cannot say that all is well
            let word = "succeeded, but wrote nothing into its folder (is it the same volume?)".to_owned();
            JobState::Ended { word, end: JobEnd::Lost }
        }
        Some("Failed") => failed(pod, containers),
        Some("Pending") => {
            // one that is asked to end before it began holds its place until it is gone
            let conditions = status.conditions.as_deref().unwrap_or_default();
            JobState::Waiting { why: waits(conditions, containers) }
        }
        // nobody hears of its node: it may run all the same
        _ => JobState::Running,
    }
}

fn failed(pod: &Pod, containers: &[ContainerStatus]) -> JobState {
    let status = pod.status.as_ref();
    let reason = status.and_then(|status| status.reason.as_deref()).unwrap_or_default();
    let message = status.and_then(|status| status.message.as_deref()).unwrap_or_default();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let taken = conditions.iter().find(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True");
    let word = |reason: &str, message: &str| {
        let message: String = message.chars().take(200).collect();
        if message.is_empty() { reason.to_owned() } else { format!("{reason} ({message})") }
    };
    if let Some(condition) = taken {
        let reason = condition.reason.as_deref().unwrap_or("DisruptionTarget");
        // its node is gone, and nobody saw the end
        let end = if reason == "DeletionByPodGC" { JobEnd::Lost } else { JobEnd::Taken };
        return JobState::Ended { word: word(reason, condition.message.as_deref().unwrap_or_default()), end };
    }
    if matches!(reason, "Evicted" | "Preempting" | "Terminated" | "NodeShutdown" | "Shutdown" | "DeadlineExceeded") {
        return JobState::Ended { word: word(reason, message), end: JobEnd::Taken };
    }
    let ended = containers.iter().find_map(|container| container.state.as_ref()?.terminated.as_ref());
    let Some(ended) = ended else {
        let reason = if reason.is_empty() { "Failed" } else { reason };
        return JobState::Ended { word: word(reason, message), end: JobEnd::Lost };
    };
    let word = word(ended.reason.as_deref().unwrap_or("Failed"), ended.message.as_deref().unwrap_or_default());
    JobState::Ended { word, end: exit(ended) }
}

fn exit(ended: &ContainerStateTerminated) -> JobEnd {
    match (ended.reason.as_deref(), ended.signal, ended.exit_code) {
        (Some("OOMKilled"), ..) => JobEnd::Signalled(KILL),
        // it never began, or nobody saw how it ended
        (Some("StartError" | "ContainerCannotRun" | "ContainerStatusUnknown"), ..) | (_, _, 0) => JobEnd::Lost,
        (_, Some(signal), _) if signal > 0 => JobEnd::Signalled(signal),
        // as shells and supervisors tell signals
        (_, _, code) if (129..=128 + 64).contains(&code) => JobEnd::Signalled(code - 128),
        (_, _, code) => JobEnd::Exited(code),
    }
}

fn waits(conditions: &[PodCondition], containers: &[ContainerStatus]) -> String {
    let word = |reason: Option<&str>, message: Option<&str>| {
        let message: String = message.unwrap_or_default().chars().take(200).collect();
        match (reason.unwrap_or_default(), message.as_str()) {
            ("", message) => message.to_owned(),
            (reason, "") => reason.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        }
    };
    let container = containers.iter().find_map(|container| container.state.as_ref()?.waiting.as_ref());
    if let Some(waiting) = container {
        return word(waiting.reason.as_deref(), waiting.message.as_deref());
    }
    let unmet = conditions.iter().find(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
    unmet.map_or_else(String::new, |unmet| word(unmet.reason.as_deref(), unmet.message.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    fn ended(status: &Value) -> (String, JobEnd) {
        match state(&pod(json!({"status": status}))) {
            JobState::Ended { word, end } => (word, end),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pod_takes_what_its_largest_moment_asks_for() {
        let asks =
            |cpu: &str, gpus: &str| json!({"requests": {"cpu": cpu}, "limits": {"cpu": "64", "nvidia.com/gpu": gpus}});
        let taken = taken(&pod(json!({"spec": {
            "initContainers": [
                {"name": "a", "resources": asks("4", "0")},
                {"name": "side", "restartPolicy": "Always", "resources": asks("1", "1")},
                {"name": "b", "resources": asks("5", "3")},
            ],
            "containers": [{"name": "c", "resources": asks("2", "2")}, {"name": "d"}],
            "overhead": {"cpu": "250m", "memory": "64Mi"},
        }})));
        assert_eq!((taken.cpu_milli, taken.memory_bytes, taken.count()), (6_250, 64 << 20, Some(4)));
    }

    #[test]
    fn what_a_whole_pod_asks_for_stands_above_its_containers() {
        let taken = taken(&pod(json!({"spec": {
            "resources": {"requests": {"cpu": "1"}},
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}],
        }})));
        assert_eq!((taken.cpu_milli, taken.memory_bytes), (1_000, 1 << 30));
    }

    #[test]
    fn devices_that_cannot_be_counted_are_not_none() {
        let asks = json!({"limits": {"nvidia.com/gpu": "some"}});
        let taken = taken(&pod(json!({"spec": {"containers": [{"name": "c", "resources": asks}]}})));
        assert_eq!(taken.count(), None);
    }

    #[test]
    fn ends_are_told_by_who_ended_it() {
        let container = |code: i32, reason: &str| {
            let terminated = json!({"exitCode": code, "reason": reason});
            json!({"phase": "Failed", "containerStatuses":
                [{"name": "run", "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": {"terminated": terminated}}]})
        };
        assert_eq!(ended(&container(3, "Error")).1, JobEnd::Exited(3));
        assert_eq!(ended(&container(137, "Error")).1, JobEnd::Signalled(9));
        assert_eq!(ended(&container(255, "Error")).1, JobEnd::Exited(255));
        assert_eq!(ended(&container(1, "OOMKilled")), ("OOMKilled".into(), JobEnd::Signalled(9)));
        assert_eq!(ended(&container(128, "StartError")).1, JobEnd::Lost);
        let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"});
        assert_eq!(ended(&evicted), ("Evicted (low on memory)".into(), JobEnd::Taken));
        assert_eq!(ended(&json!({"phase": "Failed", "reason": "UnexpectedAdmissionError"})).1, JobEnd::Lost);
        for (reason, end) in [("PreemptionByScheduler", JobEnd::Taken), ("DeletionByPodGC", JobEnd::Lost)] {
            let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": reason});
            let mut status = container(137, "Error");
            status["conditions"] = json!([condition]);
            assert_eq!(ended(&status), (reason.into(), end));
        }
    }

    #[test]
    fn success_without_a_record_is_nobodys_word() {
        assert_eq!(ended(&json!({"phase": "Succeeded"})).1, JobEnd::Lost);
    }

    #[test]
    fn who_waits_says_for_what() {
        let why = |status: Value| match state(&pod(json!({"status": status}))) {
            JobState::Waiting { why } => why,
            other => panic!("{other:?}"),
        };
        let condition =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"});
        assert_eq!(why(json!({"phase": "Pending", "conditions": [condition]})), "Unschedulable: 0/3 nodes");
        let waiting = json!({"waiting": {"reason": "ErrImagePull"}});
        let container =
            json!({"name": "run", "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": waiting});
        assert_eq!(why(json!({"phase": "Pending", "containerStatuses": [container]})), "ErrImagePull");
    }
}
