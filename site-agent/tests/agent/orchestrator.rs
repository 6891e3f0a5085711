//! An orchestrator that answers what a test says, and an agent that calls it.

use crate::world::until;
use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use rhumb_agent::{AgentConfig, AgentError, config::Token};
use rhumb_wire::{
    AssignmentState, AssignmentStatus, Desired, Hearer, Report, SyncReply,
    report::{AssignmentKey, LogAck},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    runtime::Runtime,
    sync::{oneshot, watch},
    task::JoinHandle,
};

const TOKEN: &str = "a-token-of-a-test";

#[derive(Debug, Default)]
pub struct Heard {
    pub reports: Vec<Report>,
    pub logs: BTreeMap<AssignmentKey, String>,
    /// What it makes of them.
    pub hearer: Hearer,
}

#[derive(Debug, Clone, PartialEq)]
enum Answer {
    /// The newest there is.
    Desired(Option<Box<Desired>>),
    /// As if nobody were there.
    Deaf,
}

#[derive(Debug, Clone)]
struct Shared {
    answer: watch::Sender<Answer>,
    heard: Arc<Mutex<Heard>>,
}

/// With the tokio runtime that all of a test runs on.
#[derive(Debug)]
pub struct Orchestrator {
    pub tokio: Runtime,
    shared: Shared,
    address: std::net::SocketAddr,
}

impl Orchestrator {
    pub fn start() -> Self {
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let shared = Shared { answer: watch::Sender::new(Answer::Desired(None)), heard: Arc::default() };
        let listener = tokio.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/agent/v1/sync", post(sync)).with_state(shared.clone());
        tokio.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { tokio, shared, address }
    }

    pub fn want(&self, desired: Desired) {
        self.shared.answer.send_replace(Answer::Desired(Some(Box::new(desired))));
    }

    /// Nothing is answered from now on.
    pub fn deaf(&self) {
        self.shared.answer.send_replace(Answer::Deaf);
    }

    pub fn heard<T>(&self, look: impl FnOnce(&Heard) -> T) -> T {
        look(&self.shared.heard.lock().unwrap())
    }

    pub fn last(&self) -> Option<Report> {
        self.heard(|heard| heard.reports.last().cloned())
    }

    /// Waits for a report that has `key` in `state`.
    #[track_caller]
    pub fn until(&self, key: &AssignmentKey, state: AssignmentState) -> AssignmentStatus {
        until(&format!("{state:?}"), || status(&self.last()?, key).filter(|status| status.state == state))
    }

    /// Waits for the answered report after the next one.
    #[track_caller]
    pub fn until_reports(&self, more: usize) {
        let before = self.heard(|heard| heard.reports.len());
        until("reports", || (self.heard(|heard| heard.reports.len()) >= before + more).then_some(()));
    }

    pub fn config(&self, data_dir: &Path) -> AgentConfig {
        let text = format!(
            r#"{{"point": "edge-1", "orchestrator": "http://{}", "data_dir": "{}", "token": "{TOKEN}",
                "devices": {{"source": "file", "kinds": {{"H100": {{"memory": "80GiB"}}}},
                             "nodes": [{{"accelerators": {{"model": "H100", "count": 4, "islands": [4]}}, "cpu": 16, "memory": "64GiB"}}]}},
                "datasets": [{{"name": "corpus", "size": "100kB"}}],
                "sync": {{"wait": "300ms", "interval": "20ms", "backoff": "20ms", "backoff_max": "100ms", "tick": "20ms"}},
                "limits": {{"log_linger": "500ms"}}, "runtime": {{"process": {{"confine": "off"}}}},
                "supervisor": "{}"}}"#,
            self.address,
            data_dir.display(),
            env!("CARGO_BIN_EXE_rhumb-agent"),
        );
        serde_json::from_str(&text).unwrap()
    }
}

pub fn status(report: &Report, key: &AssignmentKey) -> Option<AssignmentStatus> {
    report.assignments.iter().find(|status| status.key == *key).cloned()
}

async fn sync(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Json(report): Json<Report>,
) -> Result<Json<SyncReply>, StatusCode> {
    if headers.get("authorization").is_none_or(|value| value != &format!("Bearer {TOKEN}")) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let mut answer = shared.answer.subscribe();
    if *answer.borrow() == Answer::Deaf {
        return Err(StatusCode::SERVICE_UNAVAILABLE);
    }
    let (seq, wait, known) = (report.seq, report.wait_ms, (report.epoch, report.generation));
    let (log_acks, inventory) = hear(&mut shared.heard.lock().unwrap(), report);
    let newer = answer.wait_for(|answer| match answer {
        Answer::Deaf => true,
        Answer::Desired(desired) => {
            desired.as_ref().is_some_and(|desired| (desired.epoch, desired.generation) != known)
        }
    });
    let _ = tokio::time::timeout(Duration::from_millis(wait), newer).await;
    match shared.answer.borrow().clone() {
        Answer::Deaf => Err(StatusCode::SERVICE_UNAVAILABLE),
        Answer::Desired(desired) => {
            let desired = desired.map(|desired| *desired);
            Ok(Json(SyncReply { seq, desired, log_acks, pause_ms: 0, inventory }))
        }
    }
}

fn hear(heard: &mut Heard, report: Report) -> (Vec<LogAck>, Option<u64>) {
    let mut acks = Vec::new();
    for chunk in &report.logs {
        let log = heard.logs.entry(chunk.key.clone()).or_default();
        assert!(chunk.offset <= log.len() as u64, "a gap in the output");
        assert_eq!(chunk.bytes, chunk.text.len() as u64);
        let known = log.len() - chunk.offset as usize;
        log.push_str(chunk.text.get(known..).unwrap_or_default());
        acks.push(LogAck { key: chunk.key.clone(), up_to: log.len() as u64 });
    }
    heard.hearer.hear(&report);
    let known = heard.hearer.acknowledged(&report);
    heard.reports.push(report);
    (acks, known)
}

/// An agent of this process.
#[derive(Debug)]
pub struct Agent {
    end: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), AgentError>>,
}

impl Agent {
    pub fn start(orchestrator: &Orchestrator, config: AgentConfig) -> Self {
        let (end, ended) = oneshot::channel();
        let task = orchestrator.tokio.spawn(rhumb_agent::run(config, async move {
            let _ = ended.await;
        }));
        Self { end: Some(end), task }
    }

    pub fn end(mut self, orchestrator: &Orchestrator) -> Result<(), AgentError> {
        drop(self.end.take());
        orchestrator.tokio.block_on(&mut self.task).unwrap()
    }

    /// Waits for an end of its own.
    pub fn fails(mut self, orchestrator: &Orchestrator) -> AgentError {
        orchestrator.tokio.block_on(&mut self.task).unwrap().unwrap_err()
    }
}

/// An agent as a process of its own, killed when dropped.
#[derive(Debug)]
pub struct AgentProcess(pub Child);

impl AgentProcess {
    pub fn start(config: &AgentConfig, folder: &TempDir) -> Self {
        let path: PathBuf = folder.path().join("agent.json");
        let config = AgentConfig { token: Some(Token(TOKEN.into())), ..config.clone() };
        std::fs::write(&path, serde_json::to_vec(&config).unwrap()).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_rhumb-agent"))
            .arg("--config")
            .arg(path)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
