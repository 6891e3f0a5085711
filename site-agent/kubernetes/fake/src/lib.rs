//! A Kubernetes API server for tests, with just enough of its controllers: it keeps objects as the real one does (resource
//! versions, watches with bookmarks, 409 and 410, selectors, finalisers), makes pods of jobs and runs their commands as processes
//! of this host. It proves how a client deals with all that, and nothing of a real cluster.

#![allow(clippy::unwrap_used)] // all of this is for tests

mod controllers;
mod jobs;
mod kubelet;
mod selector;
mod server;
mod store;

pub use kubelet::End;
pub use store::{Key, Refused, Store};

use axum::serve::ListenerExt;
use serde_json::{Value, json};
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;

/// What may differ from the usual.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How often a watch that hears nothing is told how far the store is.
    pub bookmark: Duration,
    /// Longest watch, whatever was asked for.
    pub watch_most: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { bookmark: Duration::from_secs(1), watch_most: Duration::from_mins(5) }
    }
}

/// A server and its cluster; all of it ends with this.
#[derive(Debug)]
pub struct FakeCluster {
    shared: Arc<Shared>,
    address: SocketAddr,
    folder: TempDir,
    tasks: Vec<tokio::task::AbortHandle>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    store: Mutex<Store>,
    options: Options,
    /// What requests are answered instead, by what their method and path hold; each as often as it is there.
    faults: Mutex<Vec<Fault>>,
    /// Method and path of every request.
    requests: Mutex<Vec<String>>,
    running: Mutex<kubelet::Running>,
    /// Resources that are watched, and how far each watch's client was told.
    watches: Mutex<Vec<(String, Weak<AtomicU64>)>>,
}

/// What goes wrong with the next request that holds `part`.
#[derive(Debug)]
pub(crate) struct Fault {
    part: String,
    code: u16,
    /// Whether it is done all the same, and only the answer lost.
    is_done: bool,
}

pub(crate) const TOKEN: &str = "fake-token";

impl FakeCluster {
    /// To be called below a runtime of tokio.
    pub fn start(options: Options) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            store: Mutex::new(Store::new()),
            options,
            faults: Mutex::default(),
            requests: Mutex::default(),
            running: Mutex::default(),
            watches: Mutex::default(),
        });
        let router = server::router(Arc::clone(&shared));
        // small answers are not to wait for more
        let listener = tokio::net::TcpListener::from_std(listener).unwrap().tap_io(|io| io.set_nodelay(true).unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let controlling = tokio::spawn(controllers::run(Arc::clone(&shared)));
        let tasks = vec![serving.abort_handle(), controlling.abort_handle()];
        let folder = TempDir::new().unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "fake", "user": {"token": TOKEN}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake", "namespace": "default"}}],
        });
        fs::write(folder.path().join("config"), kubeconfig.to_string()).unwrap();
        Self { shared, address, folder, tasks }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    /// A node that is ready, with these amounts to give.
    pub fn add_node(&self, name: &str, allocatable: &Value, labels: &Value) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {},
            "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        self.store().create(&Key::new("nodes", "", name), node).unwrap();
    }

    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.shared.store()
    }

    /// Forgets all that was, as after a compaction: watches that go on from before are told that it is gone.
    pub fn compact(&self) {
        self.store().forget();
    }

    /// The next request whose method and path hold `part` is answered with this code.
    pub fn fail(&self, part: &str, code: u16) {
        self.fault(part, code, false);
    }

    /// The same, but what was asked for is done.
    pub fn lose(&self, part: &str, code: u16) {
        self.fault(part, code, true);
    }

    fn fault(&self, part: &str, code: u16, is_done: bool) {
        self.shared.faults.lock().unwrap().push(Fault { part: part.to_owned(), code, is_done });
    }

    /// Whether all who watch this resource were told how far the store is.
    pub fn all_told(&self, resource: &str) -> bool {
        let version = self.store().version();
        let watches = self.shared.watches.lock().unwrap();
        let mut told =
            watches.iter().filter(|(of, _)| of == resource).filter_map(|(_, told)| told.upgrade()).peekable();
        told.peek().is_some() && told.all(|told| told.load(Ordering::SeqCst) >= version)
    }

    /// Ends a pod as its node would: for lack of memory, or to have its place for others. Nothing of it can say a last word.
    pub fn end_pod(&self, pod: &Key, why: End) {
        kubelet::end(&self.shared, pod, why);
    }

    /// Kueue's word that a job may begin.
    pub fn admit(&self, job: &Key) {
        self.store().change(job, |job| job["spec"]["suspend"] = json!(false));
    }

    /// How many requests so far held all of these words in method, path and query.
    pub fn asked(&self, words: &[&str]) -> usize {
        let requests = self.shared.requests.lock().unwrap();
        requests.iter().filter(|request| words.iter().all(|word| request.contains(word))).count()
    }
}

impl Drop for FakeCluster {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        kubelet::end_all(&self.shared);
    }
}

impl Shared {
    pub(crate) fn watching(&self, resource: &str, at: u64) -> Arc<AtomicU64> {
        let told = Arc::new(AtomicU64::new(at));
        let mut watches = self.watches.lock().unwrap();
        watches.retain(|(_, told)| told.strong_count() > 0);
        watches.push((resource.to_owned(), Arc::downgrade(&told)));
        told
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }
}

/// Whether the volumes of a pod lead where its mounts say: the processes here see the host's own folders.
pub(crate) fn is_mounted(spec: &Value, path: &Path) -> bool {
    let mounts = spec["containers"][0]["volumeMounts"].as_array().cloned().unwrap_or_default();
    let volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
    mounts.iter().any(|mount| {
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]);
        let place = Path::new(mount["mountPath"].as_str().unwrap_or_default());
        let inside = mount["subPath"].as_str();
        // a claim's root is wherever it is mounted
        let is_claim = volume.is_some_and(|volume| volume["persistentVolumeClaim"].is_object());
        let root = volume.and_then(|volume| volume["hostPath"]["path"].as_str()).map(Path::new);
        let Some(root) = root.or((is_claim && inside.is_none()).then_some(place)) else { return false };
        let real = inside.map_or_else(|| root.to_owned(), |inside| root.join(inside));
        real == place && real.exists() && path.starts_with(place)
    })
}
