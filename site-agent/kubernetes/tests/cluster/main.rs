//! The contract of runtimes on a real cluster, as `deploy/kubernetes/contract.sh` runs it: this program is in a pod there, which
//! shares a volume with the pods of the runs. Without what the script sets it says so and does nothing.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use futures::future::BoxFuture;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api, Client,
    api::{AttachParams, DeleteParams, ListParams, PostParams},
};
use rhumb_model::NodeName;
use rhumb_runtimes::{AnyRuntime, Base, KubernetesSettings};
use rhumb_wire::report::AssignmentKey;
use runtime_contract::{Group, Stand, run};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, task::block_in_place};

const PATIENCE: Duration = Duration::from_mins(3);
const ALL: [Group; 8] = [
    Group::Ends,
    Group::Stops,
    Group::Output,
    Group::Environment,
    Group::Once,
    Group::Others,
    Group::Leases,
    Group::Many,
];

/// What the script says, by the environment.
#[derive(Debug)]
struct Place {
    namespace: String,
    node: NodeName,
    claim: String,
    /// Where the volume is mounted.
    shared: PathBuf,
    supervisor: PathBuf,
    image: String,
    /// A resource of devices of which the node has some.
    device: String,
    queue: Option<String>,
}

impl Place {
    fn read() -> Option<Self> {
        let of = |name: &str| std::env::var(format!("RHUMB_CONTRACT_{name}")).ok().filter(|value| !value.is_empty());
        Some(Self {
            namespace: of("NAMESPACE")?,
            node: of("NODE")?.parse().unwrap(),
            claim: of("CLAIM")?,
            shared: of("SHARED")?.into(),
            supervisor: of("SUPERVISOR")?.into(),
            image: of("IMAGE")?,
            device: of("DEVICE")?,
            queue: of("QUEUE"),
        })
    }
}

struct RealStand {
    place: Place,
    client: Client,
}

impl RealStand {
    fn jobs(&self) -> Api<Job> {
        Api::namespaced(self.client.clone(), &self.place.namespace)
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.place.namespace)
    }

    /// The pods of an order that are not over.
    async fn running(&self, labels: &str) -> Vec<Pod> {
        let pods = self.pods().list(&ListParams::default().labels(labels)).await.unwrap().items;
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        pods.into_iter().filter(|pod| phase(pod) == "Running").collect()
    }

    fn of(key: &AssignmentKey) -> String {
        format!("rhumb/order={},rhumb/generation={}", key.order, key.generation)
    }

    /// Whether a shell in that pod says yes.
    async fn says(&self, pod: &Pod, script: &str) -> bool {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let how = AttachParams::default().stdin(false).stdout(true).stderr(false);
        let Ok(mut attached) = self.pods().exec(&name, ["sh", "-c", script], &how).await else { return false };
        let Some(status) = attached.take_status() else { return false };
        status.await.is_some_and(|status| status.status.as_deref() == Some("Success"))
    }
}

impl Stand for RealStand {
    type Runtime = AnyRuntime;

    fn open(&self, owner: &str, home: &Path) -> AnyRuntime {
        let place = &self.place;
        assert!(home.starts_with(&place.shared), "{} is not on the volume: set TMPDIR", home.display());
        let mut settings = json!({
            "namespace": place.namespace, "shared": home.join("runs"), "mount": place.shared,
            "volume": {"claim": place.claim}, "supervisor": place.supervisor, "image": place.image,
            // some cases write beside their own folder, to be counted
            "visible": "all",
        });
        if let Some(queue) = &place.queue {
            settings["queue"] = json!({"kueue": queue});
        }
        let settings: KubernetesSettings = serde_json::from_value(settings).unwrap();
        let base = Base { owner, runs: home, supervisor: None, log_limit_bytes: 4 << 20 };
        block_in_place(|| Handle::current().block_on(rhumb_kubernetes::open(&settings, base))).unwrap()
    }

    fn node(&self) -> NodeName {
        self.place.node.clone()
    }

    fn lives<'a>(&'a self, key: &'a AssignmentKey, pid: i32) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let script = format!("test -e /proc/{pid} && ! grep -q '^State:.Z' /proc/{pid}/status");
            for pod in self.running(&Self::of(key)).await {
                if self.says(&pod, &script).await {
                    return true;
                }
            }
            false
        })
    }

    /// The first process of a container hears no kill from inside: its pod goes at once.
    fn kill<'a>(&'a self, key: &'a AssignmentKey, _: i32) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for pod in self.running(&Self::of(key)).await {
                let name = pod.metadata.name.unwrap_or_default();
                self.pods().delete(&name, &DeleteParams::default().grace_period(0)).await.unwrap();
            }
        })
    }

    fn many(&self) -> usize {
        40
    }

    fn has_gangs(&self) -> bool {
        true
    }

    fn foreign<'a>(&'a self, key: &'a AssignmentKey, devices: u32) -> BoxFuture<'a, String> {
        Box::pin(async move {
            let AssignmentKey { order, generation, component, replica } = key;
            let name = format!("rhumb-{order}");
            let mark = format!("rhumb1:somebody:{order}:{order}:{generation}:{component}:{replica}");
            let metadata = json!({"name": name, "labels": {"rhumb/run": order.to_string(), "theirs": order.to_string()},
                "annotations": {"rhumb/mark": mark}});
            let limits = json!({&self.place.device: devices.to_string()});
            let container = json!({"name": "c", "image": self.place.image, "command": ["sleep", "300"],
                "resources": {"limits": if devices > 0 { limits } else { json!({}) }}});
            let pod = json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container],
                "nodeSelector": {"kubernetes.io/hostname": self.place.node.as_str()}});
            let template = json!({"metadata": {"labels": metadata["labels"], "annotations": metadata["annotations"]}, "spec": pod});
            let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
                "spec": {"backoffLimit": 0, "template": template}});
            let job: Job = serde_json::from_value(job).unwrap();
            self.jobs().create(&PostParams::default(), &job).await.unwrap();
            let end = Instant::now() + PATIENCE;
            while !self.foreign_lives(&name).await {
                assert!(Instant::now() < end, "somebody else's job does not run");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            name
        })
    }

    fn foreign_lives<'a>(&'a self, id: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move { !self.running(&format!("theirs={}", id.trim_start_matches("rhumb-"))).await.is_empty() })
    }

    fn end_foreign<'a>(&'a self, id: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move { drop(self.jobs().delete(id, &DeleteParams::background()).await.unwrap()) })
    }

    fn sees_foreign(&self) -> bool {
        true
    }

    fn clean_up<'a>(&'a self, key: &'a AssignmentKey) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let of = ListParams::default().labels(&Self::of(key));
            let end = Instant::now() + PATIENCE;
            loop {
                let jobs = self.jobs().list(&of).await.unwrap().items;
                for job in &jobs {
                    if job.status.as_ref().and_then(|status| status.completion_time.as_ref()).is_some()
                        || job.status.as_ref().and_then(|status| status.failed).is_some()
                    {
                        let _ =
                            self.jobs().delete(&job.metadata.name.clone().unwrap(), &DeleteParams::background()).await;
                    }
                }
                if jobs.is_empty() && self.pods().list(&of).await.unwrap().items.is_empty() {
                    return;
                }
                assert!(Instant::now() < end, "the cluster does not forget");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        })
    }
}

#[test]
fn a_real_cluster_keeps_the_contract() {
    let Some(place) = Place::read() else {
        println!("skipped: a real cluster is asked by deploy/kubernetes/contract.sh");
        return;
    };
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    tokio.block_on(async {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::try_default().await.unwrap();
        run(Arc::new(RealStand { place, client }), &ALL, 6).await;
    });
}
