//! Nodes: a pod's command as a process of this host, its signals, and how it ended.

use crate::{
    Shared, is_mounted,
    store::{Key, now},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};
use tokio::process::{Child, Command};

/// Processes by the uid of their pods.
pub(crate) type Running = BTreeMap<String, Process>;

#[derive(Debug)]
pub(crate) struct Process {
    pid: Pid,
    /// The polite signal was sent.
    is_asked: bool,
    why: Option<End>,
}

/// Why a node ends a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    OutOfMemory,
    Evicted,
}

/// Starts what is to run and is not, and ends what is to end.
pub(crate) fn step(shared: &Arc<Shared>) {
    let pods: Vec<(Key, Value)> = {
        let store = shared.store();
        let placed = store
            .all("pods", "")
            .filter(|(_, pod)| pod["spec"]["nodeName"].is_string() || !pod["metadata"]["deletionTimestamp"].is_null());
        placed.map(|(key, pod)| (key.clone(), pod.clone())).collect()
    };
    for (key, pod) in pods {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let is_going = !pod["metadata"]["deletionTimestamp"].is_null();
        let is_there = shared.running.lock().unwrap().contains_key(&uid);
        match (is_going, is_there) {
            (true, true) => ask(shared, &uid, &pod),
            (true, false) => drop(shared.store().remove(&key)),
            (false, false) if pod["status"]["phase"] == "Pending" => begin(shared, &key, &pod, uid),
            (false, _) => {}
        }
    }
}

fn ask(shared: &Arc<Shared>, uid: &str, pod: &Value) {
    let mut running = shared.running.lock().unwrap();
    let Some(process) = running.get_mut(uid).filter(|process| !process.is_asked) else { return };
    process.is_asked = true;
    let _ = kill_process(process.pid, Signal::TERM);
    let grace = Duration::from_secs(pod["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(30));
    let (shared, uid) = (Arc::clone(shared), uid.to_owned());
    tokio::spawn(async move {
        tokio::time::sleep(grace).await;
        if let Some(process) = shared.running.lock().unwrap().get(&uid) {
            kill(process.pid);
        }
    });
}

fn begin(shared: &Arc<Shared>, key: &Key, pod: &Value, uid: String) {
    let container = &pod["spec"]["containers"][0];
    let word = |value: &Value| value.as_str().unwrap_or_default().replace("$$(", "$(");
    let words: Vec<String> = ["command", "args"]
        .iter()
        .flat_map(|list| container[*list].as_array().into_iter().flatten())
        .map(word)
        .collect();
    // what begins with a slash and is not of the host's own must be in a volume
    let unseen = words
        .iter()
        .find(|word| word.starts_with('/') && !word.starts_with("/bin/") && !is_mounted(&pod["spec"], Path::new(word)));
    if let Some(path) = unseen {
        let message = format!("{path}: no such file or directory");
        return shared.store().change(key, |pod| pod["status"] = over(pod, 128, "StartError", &message));
    }
    let mut command = Command::new(words.first().map_or("", String::as_str));
    command.args(words.iter().skip(1)).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOSTNAME", &key.name)
        .env("KUBERNETES_PORT", "tcp://192.0.2.1:443");
    for variable in container["env"].as_array().into_iter().flatten() {
        command.env(variable["name"].as_str().unwrap_or_default(), variable["value"].as_str().unwrap_or_default());
    }
    match command.spawn() {
        Ok(child) => {
            let pid = Pid::from_raw(child.id().unwrap() as i32).unwrap();
            shared.running.lock().unwrap().insert(uid.clone(), Process { pid, is_asked: false, why: None });
            let state = json!({"running": {"startedAt": now()}});
            shared
                .store()
                .change(key, |pod| pod["status"] = json!({"phase": "Running", "containerStatuses": [status(&state)]}));
            tokio::spawn(wait(Arc::clone(shared), key.clone(), uid, child, pid));
        }
        Err(error) => {
            let message = error.to_string();
            shared.store().change(key, |pod| pod["status"] = over(pod, 128, "StartError", &message));
        }
    }
}

async fn wait(shared: Arc<Shared>, key: Key, uid: String, mut child: Child, pid: Pid) {
    let ended = child.wait().await.unwrap();
    // with its first process a container ends
    end_session(pid);
    let process = shared.running.lock().unwrap().remove(&uid);
    let why = process.and_then(|process| process.why);
    let is_this = |pod: &Value| pod["metadata"]["uid"] == uid;
    let mut store = shared.store();
    if !store.get(&key).is_some_and(is_this) {
        return;
    }
    store.change(&key, |pod| pod["status"] = status_of(pod, ended, why));
}

fn status_of(pod: &Value, ended: ExitStatus, why: Option<End>) -> Value {
    let code = ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0));
    match why {
        Some(End::OutOfMemory) => over(pod, 137, "OOMKilled", ""),
        Some(End::Evicted) => {
            let mut status = over(pod, 137, "Error", "");
            status["reason"] = json!("Evicted");
            status["message"] = json!("The node was low on resource: memory.");
            status
        }
        None => over(pod, code, if code == 0 { "Completed" } else { "Error" }, ""),
    }
}

fn over(pod: &Value, code: i32, reason: &str, message: &str) -> Value {
    let terminated = json!({"exitCode": code, "reason": reason, "message": message, "finishedAt": now()});
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    json!({"phase": phase, "conditions": conditions, "containerStatuses": [status(&json!({"terminated": terminated}))]})
}

fn status(state: &Value) -> Value {
    json!({"name": "run", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state})
}

pub(crate) fn end(shared: &Shared, key: &Key, why: End) {
    let uid = shared.store().get(key).and_then(|pod| pod["metadata"]["uid"].as_str().map(str::to_owned)).unwrap();
    let mut running = shared.running.lock().unwrap();
    let process = running.get_mut(&uid).unwrap();
    process.why = Some(why);
    kill(process.pid);
}

pub(crate) fn end_all(shared: &Shared) {
    for process in shared.running.lock().unwrap().values() {
        kill(process.pid);
    }
}

fn kill(pid: Pid) {
    let _ = kill_process(pid, Signal::KILL);
    end_session(pid);
}

/// What is left of a container: its supervisor began a session of its own.
fn end_session(pid: Pid) {
    let own = pid.as_raw_nonzero().get().to_string();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let session = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(3));
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        if let (Some(number), true) = (number, session == Some(own.as_str())) {
            let _ = kill_process(number, Signal::KILL);
        }
    }
}
