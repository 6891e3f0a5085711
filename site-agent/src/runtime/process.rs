//! The `process` runtime: runs are processes of this host, each under its own supervisor.

use super::{
    Ended, How, Observed, Runtime, RuntimeError, Work,
    family::{self, Traces},
    folder::{Exit, Folder, RUN_VARIABLE, Spec, Started},
    log,
    supervisor::SUPERVISE,
};
use crate::host::{self, BootTime};
use rhumb_wire::report::AssignmentKey;
use rustix::process::Signal;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};
use uuid::Uuid;

/// Longest argument vector and environment together, in bytes; the kernel takes 2 MiB with a usual stack.
const COMMAND_BYTES_MAX: usize = 1 << 20;
/// How long one look at a run waits for processes that are being killed.
const SWEEP: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct ProcessRuntime {
    root: PathBuf,
    /// The executable whose `__supervise` is the supervisor.
    supervisor: PathBuf,
    log_limit_bytes: u64,
    /// Supervisors this process started, until they are reaped.
    children: BTreeMap<AssignmentKey, Child>,
}

impl ProcessRuntime {
    /// Runs live in folders below `root`.
    pub fn new(root: PathBuf, supervisor: Option<&Path>, log_limit_bytes: u64) -> Self {
        let supervisor = supervisor.map_or_else(own_executable, Path::to_owned);
        Self { root, supervisor, log_limit_bytes, children: BTreeMap::new() }
    }

    fn folder(&self, key: &AssignmentKey) -> Folder {
        Folder::of(&self.root, key)
    }

    /// Whether a supervisor that this process started still lives; reaps it otherwise.
    fn is_child(&mut self, key: &AssignmentKey) -> bool {
        let Some(child) = self.children.get_mut(key) else { return false };
        let lives = matches!(child.try_wait(), Ok(None));
        if !lives {
            self.children.remove(key);
        }
        lives
    }

    fn spawn(&mut self, key: &AssignmentKey, folder: &Folder) -> io::Result<()> {
        let words = File::options().create(true).append(true).open(folder.path().join("supervisor.log"))?;
        let child = Command::new(&self.supervisor)
            .arg(SUPERVISE)
            .arg(folder.path())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(words)
            .spawn()?;
        self.children.insert(key.clone(), child);
        Ok(())
    }

    fn look(&mut self, key: &AssignmentKey, folder: &Folder) -> io::Result<Observed> {
        let is_child = self.is_child(key);
        if let Some(ended) = folder.ended()? {
            return Ok(Observed::Ended(ended));
        }
        let started = folder.started()?;
        if let Some(started) = started.as_ref().filter(|started| started.group == 0) {
            return held(folder, started);
        }
        if is_child {
            return Ok(running(started.as_ref()));
        }
        if !folder.path().exists() {
            return Ok(Observed::NotStarted);
        }
        let Some(_claim) = folder.claim()? else { return Ok(running(started.as_ref())) };
        // it may have ended between the first look and the lock
        if let Some(ended) = folder.ended()? {
            return Ok(Observed::Ended(ended));
        }
        let Some(supervisor) = folder.supervisor()? else {
            // nothing ran, and while the lock is held nothing begins
            return match folder.stop_reason() {
                None => Ok(Observed::NotStarted),
                Some(message) => end(folder, How::Stopped, 0, message),
            };
        };
        if supervisor.host_boot != host::boot_id() {
            return end(folder, How::Lost, 0, "the host was restarted".into());
        }
        let traces = Traces {
            run: supervisor.run,
            session: supervisor.session,
            group: started.as_ref().map(|started| started.group),
        };
        if !family::sweep(traces, SWEEP) {
            tracing::warn!(order = %key.order, "processes of a run without a supervisor cannot be killed yet");
            return Ok(running(started.as_ref()));
        }
        let ran_us = started.map_or(0, |started| BootTime::now().since(started.boottime));
        end(folder, How::Lost, ran_us, "its supervisor ended without a record; what was left of it was killed".into())
    }
}

impl Runtime for ProcessRuntime {
    fn admit(&self, work: &Work) -> Result<(), RuntimeError> {
        let refuse = |what, value: &str, remedy| {
            let value = format!("{:?}", value.chars().take(60).collect::<String>());
            Err(RuntimeError::Admit { what, value, remedy })
        };
        if let Some(bad) = work.command.iter().find(|argument| argument.contains('\0')) {
            return refuse("the argument", bad, "leave out NUL");
        }
        if work.command.first().is_some_and(String::is_empty) {
            return refuse("the command", "", "name a program");
        }
        for (name, value) in &work.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return refuse("the variable", name, "use a name without = and NUL, and a value without NUL");
            }
        }
        if let Some(name) = work.checkpoint_signal.as_deref()
            && signal(name).is_none()
        {
            return refuse("the checkpoint signal", name, "use SIGUSR1, SIGUSR2, SIGHUP, SIGINT, SIGTERM or SIGCONT");
        }
        let bytes = work.command.iter().map(String::len).sum::<usize>()
            + work.env.iter().map(|(name, value)| name.len() + value.len() + 2).sum::<usize>();
        if bytes > COMMAND_BYTES_MAX {
            return refuse("a command of", &format!("{bytes} bytes"), "use at most 1 MiB with its environment");
        }
        Ok(())
    }

    fn start(&mut self, key: &AssignmentKey, work: &Work) -> Result<(), RuntimeError> {
        let folder = self.folder(key);
        let mut start = || {
            fs::create_dir_all(folder.path())?;
            if folder.exit()?.is_some() || folder.supervisor()?.is_some() || folder.started()?.is_some() {
                return Ok(());
            }
            let mut spec = Spec {
                run: Uuid::now_v7(),
                command: work.command.clone(),
                env: work.env.clone(),
                grace_ms: work.grace_ms,
                checkpoint_signal: work.checkpoint_signal.as_deref().and_then(signal),
                log_limit_bytes: self.log_limit_bytes,
            };
            spec.env.insert(RUN_VARIABLE.into(), spec.run.to_string());
            // the marks by which every process of a run is found
            spec.env.insert("HOME".into(), folder.work().to_string_lossy().into_owned());
            if !folder.has_spec() {
                folder.write_spec(&spec)?;
            }
            if work.command.is_empty() {
                let (boottime, wall_us) = (BootTime::now(), host::wall_us());
                let started = Started { group: 0, boottime, wall_us, host_boot: host::boot_id().to_owned() };
                return folder.write_started(&started);
            }
            if self.is_child(key) { Ok(()) } else { self.spawn(key, &folder) }
        };
        start().map_err(|source| RuntimeError::Run { what: "start", path: folder.path().into(), source })
    }

    fn observe(&mut self, key: &AssignmentKey) -> Result<Observed, RuntimeError> {
        let folder = self.folder(key);
        self.look(key, &folder).map_err(|source| RuntimeError::Run {
            what: "observe",
            path: folder.path().into(),
            source,
        })
    }

    fn logs(&self, key: &AssignmentKey, from: u64, most: usize) -> Result<String, RuntimeError> {
        let folder = self.folder(key);
        log::read(&folder.log(), from, most).map_err(|source| RuntimeError::Run {
            what: "read the output of",
            path: folder.path().into(),
            source,
        })
    }

    fn stop(&mut self, key: &AssignmentKey, why: &str) -> Result<(), RuntimeError> {
        let folder = self.folder(key);
        if folder.stop_reason().is_some() || !folder.path().exists() {
            return Ok(());
        }
        // a full disk must not keep work alive: taking a file away needs no room
        folder.ask_stop(why).or_else(|_| folder.remove_spec()).map_err(|source| RuntimeError::Run {
            what: "stop",
            path: folder.path().into(),
            source,
        })
    }

    fn list_owned(&self) -> Result<Vec<AssignmentKey>, RuntimeError> {
        let list = || -> io::Result<Vec<AssignmentKey>> {
            let mut keys = Vec::new();
            for entry in fs::read_dir(&self.root)? {
                let entry = entry?;
                if let Some(key) = entry.file_name().to_str().and_then(Folder::key)
                    && Folder::new(entry.path()).has_spec()
                {
                    keys.push(key);
                }
            }
            keys.sort();
            Ok(keys)
        };
        match list() {
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(RuntimeError::Run { what: "list", path: self.root.clone(), source }),
            Ok(keys) => Ok(keys),
        }
    }
}

/// The number of a signal that can ask for a checkpoint.
fn signal(name: &str) -> Option<i32> {
    let signal = match name {
        "SIGUSR1" => Signal::USR1,
        "SIGUSR2" => Signal::USR2,
        "SIGHUP" => Signal::HUP,
        "SIGINT" => Signal::INT,
        "SIGTERM" => Signal::TERM,
        "SIGCONT" => Signal::CONT,
        _ => return None,
    };
    Some(signal.as_raw())
}

/// This executable, also where its file was replaced meanwhile.
fn own_executable() -> PathBuf {
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        _ => PathBuf::from("/proc/self/exe"),
    }
}

fn running(started: Option<&Started>) -> Observed {
    match started {
        None => Observed::Starting,
        Some(started) => {
            let ran_us = BootTime::now().since(started.boottime);
            Observed::Running { ran_us, started_us: started.wall_us }
        }
    }
}

/// Devices held with nothing running: the agent itself is what supervises.
fn held(folder: &Folder, started: &Started) -> io::Result<Observed> {
    let now = BootTime::now();
    if started.host_boot != host::boot_id() {
        return end(folder, How::Lost, 0, "the host was restarted".into());
    }
    let ran_us = now.since(started.boottime);
    if let Some(why) = folder.stop_reason() {
        return end(folder, How::Stopped, ran_us, why);
    }
    match folder.hold()? {
        Some(hold) if hold.is_over(now) => {
            let ran_us = hold.stop_at.since(started.boottime).min(ran_us);
            end(folder, How::Stopped, ran_us, "the lease ended without word from the orchestrator".into())
        }
        _ => Ok(running(Some(started))),
    }
}

fn end(folder: &Folder, how: How, ran_us: u64, message: String) -> io::Result<Observed> {
    let exit = Exit { how, exit_code: None, signal: None, ran_us, message };
    folder.write_exit(&exit)?;
    let Exit { how, exit_code, signal, ran_us, message } = exit;
    let started_us = folder.started()?.map(|started| started.wall_us);
    Ok(Observed::Ended(Ended { how, exit_code, signal, ran_us, started_us, message }))
}
