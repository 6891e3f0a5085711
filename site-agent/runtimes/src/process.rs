//! The `process` runtime: runs are processes of this host, each under its own supervisor.

use crate::{
    cgroup, durable,
    family::{self, Traces},
    folder::{Exit, Folder, KEY_VARIABLE, Limits, ROOT_VARIABLE, Started},
    host::{self, BootTime},
    log, pinning,
    runtime::{How, Listing, Observed, Runtime, RuntimeError, Work},
    settings::{Confinement, ProcessSettings},
    spec::{self, Setting},
    supervisor::SUPERVISE,
};
use rhumb_wire::report::AssignmentKey;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// How long one look at a run waits for processes that are being killed.
const SWEEP: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct ProcessRuntime {
    root: PathBuf,
    /// The executable whose `__supervise` is the supervisor.
    supervisor: PathBuf,
    log_limit_bytes: u64,
    cgroups: Option<PathBuf>,
    /// Supervisors this process started, until they are reaped.
    children: BTreeMap<AssignmentKey, Child>,
}

impl ProcessRuntime {
    /// Runs live in folders below `root`.
    pub fn new(
        root: PathBuf,
        supervisor: Option<&Path>,
        log_limit_bytes: u64,
        settings: &ProcessSettings,
    ) -> Result<Self, RuntimeError> {
        let cgroups = match &settings.confine {
            Confinement::Off => None,
            Confinement::Auto => match cgroup::base() {
                Ok(base) => Some(base),
                Err(error) => {
                    tracing::info!(%error, "no control groups here; runs are held by process groups");
                    None
                }
            },
            Confinement::Cgroup(path) => {
                let failed = |source| RuntimeError::Run { what: "hold in a control group", path: path.clone(), source };
                fs::create_dir_all(path).map_err(failed)?;
                cgroup::enable(path);
                Some(path.clone())
            }
        };
        let supervisor = supervisor.map_or_else(spec::own_executable, Path::to_owned);
        Ok(Self { root, supervisor, log_limit_bytes, cgroups, children: BTreeMap::new() })
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
            // by these it is found where its folder is gone
            .env(ROOT_VARIABLE, &self.root)
            .env(KEY_VARIABLE, folder.name())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(words)
            .spawn()?;
        self.children.insert(key.clone(), child);
        Ok(())
    }

    fn begin(&mut self, key: &AssignmentKey, folder: &Folder, work: &Work) -> io::Result<()> {
        durable::make_folder(folder.path())?;
        if is_begun(folder)? {
            return Ok(());
        }
        if !folder.has_spec() {
            let limits = Limits {
                cgroups: self.cgroups.clone(),
                cpu_milli: work.cpu.milli(),
                memory_bytes: work.memory.bytes(),
                processors: pinning::near(&work.numa, work.cpu, Path::new("/")),
            };
            let (log_limit_bytes, site_grace_ms) = (self.log_limit_bytes, None);
            let (inherit_devices, inherit_image) = (false, false);
            let setting = Setting { log_limit_bytes, inherit_devices, inherit_image, site_grace_ms, limits };
            folder.write_spec(&spec::spec(folder, work, setting))?;
        }
        let gang = spec::gang(key, work);
        for key in &gang {
            if !self.folder(key).is_ready()? {
                return Ok(());
            }
        }
        for key in &gang {
            let folder = self.folder(key);
            if is_begun(&folder)? || self.is_child(key) {
                continue;
            }
            if work.command.is_empty() {
                let (boottime, wall_us) = (BootTime::now(), host::wall_us());
                let host_boot = host::boot_id().to_owned();
                folder.write_started(&Started { group: 0, boottime, wall_us, host_boot })?;
            } else {
                self.spawn(key, &folder)?;
            }
        }
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
        if !folder.has_spec() && folder.supervisor()?.is_none() {
            // whoever runs although the folder was taken away is on its way out
            if family::of_runs(&self.root).contains(folder.name()) {
                return Ok(running(None));
            }
            if !folder.path().exists() {
                return Ok(Observed::NotStarted);
            }
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
        spec::admit(work)
    }

    async fn start(&mut self, key: &AssignmentKey, work: &Work) -> Result<(), RuntimeError> {
        let folder = self.folder(key);
        self.begin(key, &folder, work).map_err(|source| RuntimeError::Run {
            what: "start",
            path: folder.path().into(),
            source,
        })
    }

    async fn observe(&mut self, key: &AssignmentKey) -> Result<Observed, RuntimeError> {
        let folder = self.folder(key);
        self.look(key, &folder).map_err(|source| RuntimeError::Run {
            what: "observe",
            path: folder.path().into(),
            source,
        })
    }

    async fn logs(&mut self, key: &AssignmentKey, from: u64, most: usize) -> Result<String, RuntimeError> {
        let folder = self.folder(key);
        log::read(&folder.log(), from, most).map_err(|source| RuntimeError::Run {
            what: "read the output of",
            path: folder.path().into(),
            source,
        })
    }

    async fn stop(&mut self, key: &AssignmentKey, why: &str) -> Result<(), RuntimeError> {
        let folder = self.folder(key);
        if !folder.path().exists() {
            family::end_run(&self.root, folder.name());
            return Ok(());
        }
        if folder.stop_reason().is_some() {
            return Ok(());
        }
        // a full disk must not keep work alive: taking a file away needs no room
        folder.ask_stop(why).or_else(|_| folder.remove_spec()).map_err(|source| RuntimeError::Run {
            what: "stop",
            path: folder.path().into(),
            source,
        })
    }

    async fn list_owned(&mut self) -> Result<Listing, RuntimeError> {
        let failed = |source| RuntimeError::Run { what: "list", path: self.root.clone(), source };
        let mut owned = spec::list(&self.root).map_err(failed)?;
        owned.extend(family::of_runs(&self.root).iter().filter_map(|name| Folder::key(name)));
        Ok(Listing { owned, ..Listing::default() })
    }

    fn folder(&self, key: &AssignmentKey) -> Folder {
        Folder::of(&self.root, key)
    }
}

fn is_begun(folder: &Folder) -> io::Result<bool> {
    Ok(folder.exit()?.is_some() || folder.supervisor()?.is_some() || folder.started()?.is_some())
}

fn running(started: Option<&Started>) -> Observed {
    match started {
        None => Observed::Starting { why: String::new() },
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
    let exit = Exit { how, exit_code: None, signal: None, ran_us, checkpoint: folder.checkpoint(), message };
    folder.end(exit).map(Observed::Ended)
}
