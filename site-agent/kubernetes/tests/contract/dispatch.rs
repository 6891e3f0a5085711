//! Workloads of Kueue are sent to the cluster that a decision names.

use crate::{stand::until, tokio};
use fake_kubernetes::{FakeCluster, Key, Options};
use kube::{
    Api, Client, Config,
    api::{ApiResource, Patch, PatchParams},
    core::{DynamicObject, GroupVersionKind},
};
use rhumb_kubernetes::multikueue::{Asked, Decide, DecideError, Decision, Dispatcher, QuoteSettings, Quotes};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

const SPACE: &str = "ml";

/// Gives what it was told to, in order, and keeps what it was asked.
#[derive(Debug, Default)]
struct Script {
    asked: Arc<Mutex<Vec<Asked>>>,
    answers: Mutex<VecDeque<Decision>>,
}

impl Script {
    fn saying(answers: impl IntoIterator<Item = Decision>) -> Self {
        Self { asked: Arc::default(), answers: Mutex::new(answers.into_iter().collect()) }
    }
}

impl Decide for Script {
    async fn decide(&self, asked: &Asked) -> Result<Decision, DecideError> {
        self.asked.lock().unwrap().push(asked.clone());
        let answer = self.answers.lock().unwrap().pop_front();
        Ok(answer.unwrap_or_else(|| Decision::Wait { why: "nothing more to say".into() }))
    }
}

fn to(cluster: &str) -> Decision {
    Decision::Nominate(cluster.into())
}

fn workloads() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("kueue.x-k8s.io", "v1beta2", "Workload"), "workloads")
}

fn client(cluster: &FakeCluster) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = Config::new(cluster.url().parse().unwrap());
    config.auth_info.token = Some("fake-token".to_owned().into());
    Client::try_from(config).unwrap()
}

/// A manager cluster with three workers, one of which is away.
fn manager() -> FakeCluster {
    let cluster = FakeCluster::start(Options::default());
    let make = |resource: &str, namespace: &str, name: &str, object: Value| {
        let key = Key::new(&format!("kueue.x-k8s.io/{resource}"), namespace, name);
        let mut object = object;
        object["apiVersion"] = json!("kueue.x-k8s.io/v1beta2");
        cluster.store().create(&key, object).unwrap();
    };
    let parameters = json!({"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"});
    let check = |controller: &str| json!({"kind": "AdmissionCheck", "spec": {"controllerName": controller, "parameters": parameters}});
    make("admissionchecks", "", "send", check("kueue.x-k8s.io/multikueue"));
    make("admissionchecks", "", "other", check("kueue.x-k8s.io/provisioning-request"));
    make(
        "multikueueconfigs",
        "",
        "all",
        json!({"kind": "MultiKueueConfig", "spec": {"clusters": ["w1", "w2", "away"]}}),
    );
    for (name, active) in [("w1", "True"), ("w2", "True"), ("away", "False")] {
        let status = json!({"conditions": [{"type": "Active", "status": active}]});
        make("multikueueclusters", "", name, json!({"kind": "MultiKueueCluster", "status": status}));
    }
    cluster
}

/// As Kueue writes it: spec and then status, by its own manager.
async fn submit(cluster: &FakeCluster, name: &str, check: &str) -> Api<DynamicObject> {
    let limits = json!({"nvidia.com/gpu": "8"});
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "4", "memory": "1Gi"}, "limits": limits}});
    let template = json!({"metadata": {}, "spec": {"containers": [container], "nodeSelector": {"zone": "z1"}}});
    let spec = json!({"queueName": "corpus", "podSets": [{"name": "main", "count": 2, "template": template}]});
    let object =
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {}, "spec": spec, "status": {}});
    cluster.store().create(&Key::new("kueue.x-k8s.io/workloads", SPACE, name), object).unwrap();
    let api = Api::namespaced_with(client(cluster), SPACE, &workloads());
    reserved(&api, name, check, json!({})).await;
    api
}

/// Kueue's word on its admission, with whatever else.
async fn reserved(api: &Api<DynamicObject>, name: &str, check: &str, more: Value) {
    let mut status = json!({
        "conditions": [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""}],
        "admission": {"clusterQueue": "q"},
        "admissionChecks": [{"name": check, "state": "Pending", "message": ""}],
    });
    status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let patch = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "status": status});
    let how = PatchParams::apply("kueue-admission").force();
    api.patch_status(name, &how, &Patch::Apply(&patch)).await.unwrap();
}

fn status(cluster: &FakeCluster, name: &str) -> Value {
    let store = cluster.store();
    store.get(&Key::new("kueue.x-k8s.io/workloads", SPACE, name)).unwrap()["status"].clone()
}

/// Steps until it is so.
async fn stepping<D: Decide>(dispatcher: &mut Dispatcher<D>, what: &str, is: impl Fn() -> bool) {
    for _ in 0..500 {
        dispatcher.step().await.unwrap();
        if is() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("waited in vain for {what}");
}

async fn open<D: Decide>(cluster: &FakeCluster, decide: D, widen: Duration) -> Dispatcher<D> {
    Dispatcher::open(client(cluster), decide, widen).await.unwrap()
}

#[test]
fn a_workload_is_sent_where_the_decision_says_and_stays_kueues() {
    tokio().block_on(async {
        let cluster = manager();
        let api = submit(&cluster, "train", "send").await;
        let script = Script::saying([to("w2")]);
        let asked = Arc::clone(&script.asked);
        let mut dispatcher = open(&cluster, script, Duration::from_hours(1)).await;
        let nominated = || status(&cluster, "train")["nominatedClusterNames"] == json!(["w2"]);
        stepping(&mut dispatcher, "its nomination", nominated).await;
        // what it was asked: what is left of Kueue's words, and no cluster that is away
        let first = asked.lock().unwrap()[0].clone();
        assert_eq!(
            (first.queue.as_str(), first.clusters.as_slice()),
            ("corpus", ["w1".to_owned(), "w2".to_owned()].as_slice())
        );
        assert_eq!((first.pods[0].count, first.pods[0].cpu_milli), (2, 4_000));
        assert_eq!(first.pods[0].devices.as_ref().unwrap()["nvidia.com/gpu"], 8);
        // all that the manager of admission owned is there still
        let is = status(&cluster, "train");
        assert_eq!(is["admission"]["clusterQueue"], "q");
        assert_eq!(is["conditions"][0]["type"], "QuotaReserved");
        assert_eq!(is["admissionChecks"][0]["state"], "Pending");
        // and Kueue can take the nomination away by leaving it out, once a cluster has admitted it
        reserved(&api, "train", "send", json!({"clusterName": "w2"})).await;
        let is = status(&cluster, "train");
        assert_eq!((is["nominatedClusterNames"].is_null(), &is["clusterName"]), (true, &json!("w2")));
        for _ in 0..5 {
            dispatcher.step().await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(asked.lock().unwrap().len(), 1, "it is settled");
    });
}

#[test]
fn what_is_not_for_other_clusters_is_left_alone() {
    tokio().block_on(async {
        let cluster = manager();
        submit(&cluster, "here", "other").await;
        let api = submit(&cluster, "over", "send").await;
        let over = json!({"conditions": [
            {"type": "QuotaReserved", "status": "True"}, {"type": "Finished", "status": "True"}]});
        reserved(&api, "over", "send", over).await;
        submit(&cluster, "train", "send").await;
        let script = Script::saying([to("w1"), to("w1"), to("w1")]);
        let asked = Arc::clone(&script.asked);
        let mut dispatcher = open(&cluster, script, Duration::from_hours(1)).await;
        let nominated = || status(&cluster, "train")["nominatedClusterNames"] == json!(["w1"]);
        stepping(&mut dispatcher, "its nomination", nominated).await;
        let names: Vec<String> = asked.lock().unwrap().iter().map(|asked| asked.name.clone()).collect();
        assert_eq!(names, ["train"]);
    });
}

/// While it thinks, somebody else writes.
struct Slow {
    cluster: &'static FakeCluster,
    script: Script,
}

impl Decide for Slow {
    async fn decide(&self, asked: &Asked) -> Result<Decision, DecideError> {
        if self.script.asked.lock().unwrap().is_empty() {
            let key = Key::new("kueue.x-k8s.io/workloads", SPACE, &asked.name);
            self.cluster
                .store()
                .change(&key, |workload| workload["status"]["accumulatedPastExecutionTimeSeconds"] = json!(7));
        }
        self.script.decide(asked).await
    }
}

#[test]
fn a_write_on_an_old_version_is_refused_and_decided_anew() {
    tokio().block_on(async {
        // for as long as this process: a decision outlives what it borrows otherwise
        let cluster: &'static FakeCluster = Box::leak(Box::new(manager()));
        submit(cluster, "train", "send").await;
        let slow = Slow { cluster, script: Script::saying([to("w1"), to("w2")]) };
        let mut dispatcher = open(cluster, slow, Duration::from_hours(1)).await;
        let nominated = || status(cluster, "train")["nominatedClusterNames"] == json!(["w2"]);
        stepping(&mut dispatcher, "its nomination", nominated).await;
        let writes = cluster.asked(&["PATCH", "status", "kueue-admission", "force"]);
        assert_eq!(writes, 3, "Kueue's, one that met another, and one that did not");
        assert_eq!(status(cluster, "train")["accumulatedPastExecutionTimeSeconds"], 7);
    });
}

#[test]
fn a_cluster_that_does_not_admit_in_time_is_not_the_last() {
    tokio().block_on(async {
        let cluster = manager();
        submit(&cluster, "train", "send").await;
        let script = Script::saying([to("w2"), to("w1")]);
        let asked = Arc::clone(&script.asked);
        let mut dispatcher = open(&cluster, script, Duration::from_millis(100)).await;
        let both = || status(&cluster, "train")["nominatedClusterNames"] == json!(["w2", "w1"]);
        stepping(&mut dispatcher, "a second cluster", both).await;
        assert_eq!(asked.lock().unwrap()[1].clusters, ["w1"], "only where it was not yet");
    });
}

/// An orchestrator that gives one plan and keeps what it was asked.
async fn orchestrator(site: &'static str) -> (String, Arc<Mutex<Vec<(String, Value)>>>) {
    use axum::{Json, Router, extract::RawQuery, http::HeaderMap, routing::post};
    let asked: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
    let kept = Arc::clone(&asked);
    let answer = move |RawQuery(query): RawQuery, headers: HeaderMap, Json(order): Json<Value>| async move {
        let token = headers["authorization"].to_str().unwrap().to_owned();
        kept.lock().unwrap().push((format!("{token} {}", query.unwrap_or_default()), order));
        let plan = json!({"components": [{"name": "main", "assignments": [{"site": site, "replicas": 2}]}]});
        Json(json!({"id": "q", "outcome": "plan", "plan": plan}))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/v1/quotes", post(answer))).await.unwrap() });
    (url, asked)
}

#[test]
fn the_orchestrator_is_asked_for_a_quote_that_holds() {
    tokio().block_on(async {
        let cluster = manager();
        submit(&cluster, "train", "send").await;
        let (url, asked) = orchestrator("beijing-1").await;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "tenant-token\n").unwrap();
        let settings: QuoteSettings = serde_json::from_value(json!({
            "orchestrator": url, "token_file": folder.path().join("token"),
            "clusters": {"w1": "shanghai-1", "w2": "beijing-1"}, "models": {"nvidia.com/gpu": ["H100"]},
            "queues": {"*": {"flows": [{"from": "dataset/corpus", "to": "main", "volume": "2TB"}]}},
        }))
        .unwrap();
        let mut dispatcher = open(&cluster, Quotes::new(settings).unwrap(), Duration::from_hours(1)).await;
        let nominated = || status(&cluster, "train")["nominatedClusterNames"] == json!(["w2"]);
        stepping(&mut dispatcher, "its nomination", nominated).await;
        until("the question", || !asked.lock().unwrap().is_empty()).await;
        let (how, order) = asked.lock().unwrap()[0].clone();
        assert_eq!(how, "Bearer tenant-token hold=1m");
        assert_eq!(order["flows"][0]["volume"], "2TB");
        rhumb_model::Order::read_json(&order.to_string()).unwrap();
    });
}
