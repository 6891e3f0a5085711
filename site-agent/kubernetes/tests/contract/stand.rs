//! A fake cluster as a stand for the contract.

use fake_kubernetes::{FakeCluster, Key, Options};
use futures::future::BoxFuture;
use rhumb_model::{NodeName, OrderId};
use rhumb_runtimes::{AnyRuntime, Base, KubernetesSettings};
use rhumb_wire::report::AssignmentKey;
use runtime_contract::Stand;
use serde_json::{Value, json};
use std::{
    path::Path,
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, task::block_in_place};
use uuid::Uuid;

pub const NAMESPACE: &str = "rhumb";
const PATIENCE: Duration = Duration::from_mins(1);

/// Waits for what goes on by itself.
pub async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Of an order of its own.
pub fn fresh_key() -> AssignmentKey {
    AssignmentKey { order: OrderId(Uuid::now_v7()), generation: 1, component: "trainer".parse().unwrap(), replica: 0 }
}

#[derive(Debug)]
pub struct FakeStand {
    pub cluster: FakeCluster,
    /// Settings that are not the usual ones.
    pub change: Value,
}

impl FakeStand {
    pub fn start(options: Options) -> Self {
        Self::with(options, json!({}))
    }

    pub fn with(options: Options, change: Value) -> Self {
        let cluster = FakeCluster::start(options);
        let gives = json!({"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "32"});
        cluster.add_node("n1", &gives, &json!({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}));
        Self { cluster, change }
    }

    pub fn settings(&self, home: &Path) -> KubernetesSettings {
        let mut settings = json!({
            "kubeconfig": self.cluster.kubeconfig(), "namespace": NAMESPACE, "shared": home.join("runs"),
            "volume": {"host_path": home}, "mount": home, "image": "registry.example/base:1", "kill_wait": "5s",
        });
        settings.as_object_mut().unwrap().extend(self.change.as_object().unwrap().clone());
        serde_json::from_value(settings).unwrap()
    }
}

impl FakeStand {
    /// Removes what is over of an order; whether nothing of it is left.
    fn forgotten(&self, order: &str) -> bool {
        let mut store = self.cluster.store();
        let of = |object: &Value| object["metadata"]["labels"]["rhumb/order"] == order;
        let jobs: Vec<(Key, bool)> = store
            .all("batch/jobs", NAMESPACE)
            .filter(|(_, job)| of(job))
            .map(|(key, job)| (key.clone(), job["status"]["conditions"].is_array()))
            .collect();
        for (key, _) in jobs.iter().filter(|(_, is_over)| *is_over) {
            store.remove(key);
        }
        jobs.is_empty() && !store.all("pods", NAMESPACE).any(|(_, pod)| of(pod))
    }
}

pub fn open(settings: &KubernetesSettings, owner: &str, home: &Path) -> AnyRuntime {
    let supervisor = Some(Path::new(env!("CARGO_BIN_EXE_rhumb-pod-supervisor")));
    let base = Base { owner, runs: home, supervisor, log_limit_bytes: 4 << 20 };
    block_in_place(|| Handle::current().block_on(rhumb_kubernetes::open(settings, base))).unwrap()
}

impl Stand for FakeStand {
    type Runtime = AnyRuntime;

    fn open(&self, owner: &str, home: &Path) -> AnyRuntime {
        open(&self.settings(home), owner, home)
    }

    fn node(&self) -> NodeName {
        NodeName::new("n1").unwrap()
    }

    fn many(&self) -> usize {
        100
    }

    fn has_gangs(&self) -> bool {
        true
    }

    /// Of the same name and labels, and with a mark that speaks of this very run, but as somebody else's.
    fn foreign<'a>(&'a self, key: &'a AssignmentKey, devices: u32) -> BoxFuture<'a, String> {
        Box::pin(async move {
            let AssignmentKey { order, generation, component, replica } = key;
            let name = format!("rhumb-{order}");
            let mark = format!("rhumb1:somebody:{order}:{order}:{generation}:{component}:{replica}");
            let metadata = json!({"labels": {"rhumb/run": order.to_string()}, "annotations": {"rhumb/mark": mark}});
            let limits = json!({"nvidia.com/gpu": devices.to_string()});
            let container =
                json!({"name": "c", "image": "x", "command": ["sleep", "300"], "resources": {"limits": limits}});
            let pod = json!({"restartPolicy": "Never", "containers": [container]});
            let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "status": {},
                "spec": {"backoffLimit": 0, "template": {"metadata": metadata, "spec": pod}}});
            self.cluster.store().create(&Key::new("batch/jobs", NAMESPACE, &name), job).unwrap();
            let end = Instant::now() + PATIENCE;
            while !self.foreign_lives(&name).await {
                assert!(Instant::now() < end, "somebody else's job does not run");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            name
        })
    }

    fn foreign_lives<'a>(&'a self, id: &'a str) -> BoxFuture<'a, bool> {
        let store = self.cluster.store();
        let running =
            |pod: &Value| pod["metadata"]["ownerReferences"][0]["name"] == id && pod["status"]["phase"] == "Running";
        let lives = store.all("pods", NAMESPACE).any(|(_, pod)| running(pod));
        Box::pin(async move { lives })
    }

    fn end_foreign<'a>(&'a self, id: &'a str) -> BoxFuture<'a, ()> {
        self.cluster.store().remove(&Key::new("batch/jobs", NAMESPACE, id));
        Box::pin(async {})
    }

    fn sees_foreign(&self) -> bool {
        true
    }

    /// As somebody who cleans up: all that is over and of this order.
    fn clean_up<'a>(&'a self, key: &'a AssignmentKey) -> BoxFuture<'a, ()> {
        let order = key.order.to_string();
        Box::pin(async move {
            let end = Instant::now() + PATIENCE;
            loop {
                if self.forgotten(&order) {
                    return;
                }
                assert!(Instant::now() < end, "the cluster does not forget");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    }
}
