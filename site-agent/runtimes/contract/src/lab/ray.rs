//! Ray as a stand for the contract: a head on this host, with devices that are only numbers.

use crate::{Stand, lives};
use futures::future::BoxFuture;
use rhumb_model::NodeName;
use rhumb_runtimes::{AnyRuntime, Base, RaySettings, RuntimeSettings};
use rhumb_wire::report::AssignmentKey;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::{
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_mins(2);

#[derive(Debug)]
pub struct RayStand {
    head: Child,
    url: String,
    supervisor: PathBuf,
    node: NodeName,
    client: reqwest::Client,
    _folder: TempDir,
}

impl RayStand {
    pub fn start(supervisor: &Path) -> Option<Self> {
        if !super::is_asked_for() {
            return None;
        }
        let Some(programs) = std::env::var_os("RHUMB_RAY").map(PathBuf::from) else {
            super::skip("RHUMB_RAY does not say where the programs of Ray are");
            return None;
        };
        let folder = tempfile::Builder::new().prefix("ray-").tempdir().unwrap();
        let port = super::free_ports(1)[0];
        let head = Command::new(programs.join("ray"))
            .args(["start", "--head", "--block", "--node-ip-address=127.0.0.1", "--dashboard-host=127.0.0.1"])
            .args(["--port=0".to_owned(), format!("--dashboard-port={port}")])
            .args(["--num-cpus=64", "--num-gpus=16", "--object-store-memory=100000000", "--disable-usage-stats"])
            .arg(format!("--temp-dir={}", folder.path().display()))
            .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().timeout(Duration::from_secs(10)).no_proxy().build().unwrap();
        let url = format!("http://127.0.0.1:{port}");
        let mut stand = Self {
            head,
            url,
            supervisor: supervisor.into(),
            node: NodeName::new("unknown").unwrap(),
            client,
            _folder: folder,
        };
        let node =
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(stand.first_node());
        stand.node = node;
        Some(stand)
    }

    pub fn settings(&self, home: &Path) -> RuntimeSettings {
        RuntimeSettings::Ray(RaySettings {
            url: self.url.clone(),
            shared: home.join("runs"),
            supervisor: Some(self.supervisor.clone()),
            token_file: None,
            poll: "200ms".parse().unwrap(),
        })
    }

    async fn first_node(&self) -> NodeName {
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = self.call(reqwest::Method::GET, "/api/v0/nodes?detail=1", None).await;
            let nodes = &answer["data"]["result"]["result"];
            if let Some(name) = nodes[0]["node_name"].as_str() {
                return NodeName::new(name).unwrap();
            }
            assert!(Instant::now() < end, "Ray has no node: {answer}");
            assert!(lives(self.head.id() as i32), "Ray does not start");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn call(&self, method: reqwest::Method, path: &str, body: Option<serde_json::Value>) -> serde_json::Value {
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        if let Some(body) = body {
            request = request.json(&body);
        }
        let Ok(answer) = request.send().await else { return serde_json::Value::Null };
        answer.json().await.unwrap_or_default()
    }

    async fn status(&self, id: &str) -> String {
        let answer = self.call(reqwest::Method::GET, &format!("/api/jobs/{id}"), None).await;
        answer["status"].as_str().unwrap_or_default().to_owned()
    }
}

impl Drop for RayStand {
    fn drop(&mut self) {
        // this head alone, and not by `ray stop`: others may run on this host
        let head = Pid::from_child(&self.head);
        let _ = kill_process(head, Signal::TERM);
        let end = Instant::now() + Duration::from_secs(20);
        while matches!(self.head.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = kill_process_group(head, Signal::KILL);
    }
}

impl Stand for RayStand {
    type Runtime = AnyRuntime;

    fn open(&self, owner: &str, home: &Path) -> AnyRuntime {
        let settings = self.settings(home);
        settings.check().unwrap();
        AnyRuntime::open(&settings, Base { owner, runs: home, supervisor: None, log_limit_bytes: 4 << 20 }).unwrap()
    }

    fn node(&self) -> NodeName {
        self.node.clone()
    }

    fn many(&self) -> usize {
        20
    }

    fn has_gangs(&self) -> bool {
        true
    }

    /// With the same words for people, and with a mark that is not this job's.
    fn foreign<'a>(&'a self, key: &'a AssignmentKey, devices: u32) -> BoxFuture<'a, String> {
        Box::pin(async move {
            let AssignmentKey { order, generation, component, replica } = key;
            let id = format!("foreign-{order}");
            let body = serde_json::json!({
                "entrypoint": "exec sleep 300",
                "submission_id": id,
                "entrypoint_num_gpus": devices,
                "metadata": {"name": format!("rhumb-{order}-{generation}-{component}"),
                             "rhumb": format!("rhumb1:somebody:{order}:{order}:{generation}:{component}:{replica}")},
            });
            self.call(reqwest::Method::POST, "/api/jobs/", Some(body)).await;
            let end = Instant::now() + PATIENCE;
            while self.status(&id).await != "RUNNING" {
                assert!(Instant::now() < end, "somebody else's job does not run");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            id
        })
    }

    fn foreign_lives<'a>(&'a self, id: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move { self.status(id).await == "RUNNING" })
    }

    fn end_foreign<'a>(&'a self, id: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.call(reqwest::Method::POST, &format!("/api/jobs/{id}/stop"), None).await;
        })
    }

    fn sees_foreign(&self) -> bool {
        true
    }

    /// Ended jobs can be deleted, which anybody may do.
    fn clean_up<'a>(&'a self, key: &'a AssignmentKey) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mark = format!(":{}:", key.order);
            let end = Instant::now() + PATIENCE;
            loop {
                let jobs = self.call(reqwest::Method::GET, "/api/jobs/", None).await;
                let of =
                    |job: &&serde_json::Value| job["metadata"]["rhumb"].as_str().is_some_and(|m| m.contains(&mark));
                let Some(job) = jobs.as_array().into_iter().flatten().find(of) else { return };
                let id = job["submission_id"].as_str().unwrap();
                self.call(reqwest::Method::DELETE, &format!("/api/jobs/{id}"), None).await;
                assert!(Instant::now() < end, "Ray does not forget");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        })
    }
}
