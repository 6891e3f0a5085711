//! The folder of one run: how agent and supervisor talk, across the death of either.
//!
//! ```text
//! spec.json        what to run; written by the agent before the supervisor is started. Gone: stop at once
//! supervisor.json  the supervisor's session; written before the command is started: from here on it may have run
//! started.json     the command's process group and when it began
//! exit.json        the end, written once nothing runs any more
//! alive            locked by the supervisor while it lives: no process number is ever trusted for that
//! lease            until when the work may run without word from the agent
//! stop             the agent asks for the end; holds the reason
//! job.json         what the site's scheduler calls it, where there is one
//! gang.json        the folders of all that start with this one, by task
//! checkpoint       written by the command: what names its last checkpoint
//! log              output, valid UTF-8
//! work/            home and working folder of the command
//! ```

use crate::{
    durable::{self, Keep},
    host::{self, BootTime},
    runtime::{Ended, How},
};
use rhumb_wire::report::{AssignmentKey, CHECKPOINT_BYTES_MAX, is_checkpoint_name};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};
use uuid::Uuid;

/// Marks every process of a run in its environment.
pub(crate) const RUN_VARIABLE: &str = "RHUMB_RUN";
/// Mark every process of a run too: the folder of all runs, and this one's name in it.
pub(crate) const ROOT_VARIABLE: &str = "RHUMB_RUNS";
pub(crate) const KEY_VARIABLE: &str = "RHUMB_KEY";
/// Where a command writes what names its last checkpoint.
pub const CHECKPOINT_VARIABLE: &str = "RHUMB_CHECKPOINT_FILE";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) run: Uuid,
    pub(crate) command: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) grace_ms: u64,
    #[serde(default)]
    pub(crate) checkpoint_signal: Option<i32>,
    pub(crate) log_limit_bytes: u64,
    /// Whether the site's scheduler says which devices the command sees, by the environment it gives.
    #[serde(default)]
    pub(crate) inherit_devices: bool,
    /// Whether it is in a container whose image says what is in the environment.
    #[serde(default)]
    pub(crate) inherit_image: bool,
    /// How long the site leaves it between its polite signal and its kill; `None`: as long as its own grace.
    #[serde(default)]
    pub(crate) site_grace_ms: Option<u64>,
    #[serde(default)]
    pub(crate) limits: Limits,
}

/// What holds the command, where the host can.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// Folder of all runs' control groups; `None`: a process group alone.
    #[serde(default)]
    pub(crate) cgroups: Option<PathBuf>,
    /// 0: no limit.
    #[serde(default)]
    pub(crate) cpu_milli: u64,
    /// 0: no limit.
    #[serde(default)]
    pub(crate) memory_bytes: u64,
    /// Processors that it runs on; empty: any.
    #[serde(default)]
    pub(crate) processors: Vec<usize>,
}

/// `job.json`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: String,
    /// The run of the first of its gang, which the job carries as its mark.
    pub(crate) lead: Uuid,
}

/// `gang.json`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gang {
    pub(crate) folders: Vec<PathBuf>,
    /// Devices of each task, which share what their node gives to the job.
    pub(crate) devices: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Supervisor {
    /// As in the spec, which may be taken away.
    pub(crate) run: Uuid,
    pub(crate) session: i32,
    /// Process number of the supervisor.
    #[serde(default)]
    pub(crate) process: i32,
    pub(crate) host_boot: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Started {
    /// Process group, and process number of the command; 0: nothing runs, the devices are held.
    pub(crate) group: i32,
    pub(crate) boottime: BootTime,
    pub(crate) wall_us: i64,
    pub(crate) host_boot: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    pub(crate) how: How,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) ran_us: u64,
    #[serde(default)]
    pub(crate) checkpoint: Option<String>,
    pub(crate) message: String,
}

/// The lease of one run. The polite signal comes early enough for everything to be gone when the lease ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    pub host_boot: String,
    pub stop_at: BootTime,
    pub kill_at: BootTime,
    /// The same on the wall clock, microseconds since 1970: for a supervisor on another host.
    #[serde(default)]
    pub stop_wall_us: i64,
    #[serde(default)]
    pub kill_wall_us: i64,
}

impl Hold {
    /// A lease of `lease_ms` from `from` on; at most a quarter of it is kept for the grace.
    pub fn new(from: BootTime, lease_ms: u64, grace_ms: u64) -> Self {
        Self::at(from, lease_ms, grace_ms, BootTime::now(), host::wall_us())
    }

    fn at(from: BootTime, lease_ms: u64, grace_ms: u64, now: BootTime, wall_us: i64) -> Self {
        let polite_ms = lease_ms - grace_ms.min(lease_ms / 4);
        let from_wall_us = wall_us.saturating_sub_unsigned(now.since(from));
        let wall = |ms: u64| from_wall_us.saturating_add_unsigned(ms.saturating_mul(1_000));
        Self {
            host_boot: host::boot_id().to_owned(),
            stop_at: from.plus_ms(polite_ms),
            kill_at: from.plus_ms(lease_ms),
            stop_wall_us: wall(polite_ms),
            kill_wall_us: wall(lease_ms),
        }
    }

    pub fn is_over(&self, now: BootTime) -> bool {
        self.host_boot != host::boot_id() || now >= self.stop_at
    }

    /// For a supervisor that may be on another host: how long until the polite signal and until the kill; zero: now.
    pub(crate) fn left(&self, shared: bool, now: BootTime, wall_us: i64) -> (Duration, Duration) {
        if self.host_boot == host::boot_id() {
            let left = |at: BootTime| Duration::from_micros(at.since(now));
            return (left(self.stop_at), left(self.kill_at));
        }
        if !shared {
            // an earlier start of this host
            return (Duration::ZERO, Duration::ZERO);
        }
        let left = |at: i64| Duration::from_micros(u64::try_from(at.saturating_sub(wall_us)).unwrap_or(0));
        (left(self.stop_wall_us), left(self.kill_wall_us))
    }
}

/// Held as long as its owner lives.
#[derive(Debug)]
pub(crate) struct Claim {
    _file: File,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where the run of `key` lives below `root`.
    pub fn of(root: &Path, key: &AssignmentKey) -> Self {
        Self(root.join(format!("{}.{}.{}.{}", key.order, key.generation, key.component, key.replica)))
    }

    /// The key in a folder's name, the other way round.
    pub fn key(name: &str) -> Option<AssignmentKey> {
        let mut parts = name.split('.');
        let key = AssignmentKey {
            order: parts.next()?.parse().ok()?,
            generation: parts.next()?.parse().ok()?,
            component: parts.next()?.parse().ok()?,
            replica: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(key)
    }

    /// The key as a name.
    pub fn name(&self) -> &str {
        self.0.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    pub(crate) fn spec(&self) -> io::Result<Option<Spec>> {
        durable::read_json(&self.0.join("spec.json"))
    }

    pub(crate) fn write_spec(&self, spec: &Spec) -> io::Result<()> {
        durable::write_json(&self.0.join("spec.json"), spec, Keep::Safe)
    }

    /// The way to ask for the end where nothing more can be written.
    pub(crate) fn remove_spec(&self) -> io::Result<()> {
        fs::remove_file(self.0.join("spec.json"))
    }

    pub(crate) fn has_spec(&self) -> bool {
        self.0.join("spec.json").exists()
    }

    pub(crate) fn supervisor(&self) -> io::Result<Option<Supervisor>> {
        durable::read_json(&self.0.join("supervisor.json"))
    }

    pub(crate) fn write_supervisor(&self, supervisor: &Supervisor) -> io::Result<()> {
        durable::write_json(&self.0.join("supervisor.json"), supervisor, Keep::Safe)
    }

    pub(crate) fn started(&self) -> io::Result<Option<Started>> {
        durable::read_json(&self.0.join("started.json"))
    }

    pub(crate) fn write_started(&self, started: &Started) -> io::Result<()> {
        durable::write_json(&self.0.join("started.json"), started, Keep::Loose)
    }

    pub(crate) fn exit(&self) -> io::Result<Option<Exit>> {
        durable::read_json(&self.0.join("exit.json"))
    }

    pub(crate) fn write_exit(&self, exit: &Exit) -> io::Result<()> {
        durable::write_json(&self.0.join("exit.json"), exit, Keep::Safe)
    }

    /// Whether its part of a gang is there: it began, or it is asked for and not stopped.
    pub(crate) fn is_ready(&self) -> io::Result<bool> {
        let began = self.supervisor()?.is_some() || self.started()?.is_some();
        Ok(began || (self.has_spec() && self.stop_reason().is_none() && self.exit()?.is_none()))
    }

    /// The end, if there was one.
    pub(crate) fn ended(&self) -> io::Result<Option<Ended>> {
        let Some(exit) = self.exit()? else { return Ok(None) };
        Ok(Some(self.with_start(exit)?))
    }

    /// Writes an end down and gives it.
    pub(crate) fn end(&self, exit: Exit) -> io::Result<Ended> {
        self.write_exit(&exit)?;
        self.with_start(exit)
    }

    fn with_start(&self, exit: Exit) -> io::Result<Ended> {
        let Exit { how, exit_code, signal, ran_us, checkpoint, message } = exit;
        let started_us = self.started()?.map(|started| started.wall_us);
        Ok(Ended { how, exit_code, signal, ran_us, started_us, checkpoint, message })
    }

    pub(crate) fn job(&self) -> io::Result<Option<Job>> {
        durable::read_json(&self.0.join("job.json"))
    }

    pub(crate) fn write_job(&self, job: &Job) -> io::Result<()> {
        durable::write_json(&self.0.join("job.json"), job, Keep::Safe)
    }

    pub(crate) fn gang(&self) -> io::Result<Option<Gang>> {
        durable::read_json(&self.0.join("gang.json"))
    }

    pub(crate) fn write_gang(&self, gang: &Gang) -> io::Result<()> {
        durable::write_json(&self.0.join("gang.json"), gang, Keep::Safe)
    }

    pub(crate) fn checkpoint_file(&self) -> PathBuf {
        self.0.join("checkpoint")
    }

    /// The first line of what the command wrote; what is no text, empty or too long is none.
    pub(crate) fn checkpoint(&self) -> Option<String> {
        let mut text = String::new();
        let file = File::open(self.checkpoint_file()).ok()?;
        file.take(CHECKPOINT_BYTES_MAX as u64 + 1).read_to_string(&mut text).ok()?;
        let name = text.lines().next()?.trim();
        is_checkpoint_name(name).then(|| name.to_owned())
    }

    pub fn hold(&self) -> io::Result<Option<Hold>> {
        durable::read_json(&self.0.join("lease"))
    }

    /// Not synced: an older lease only ends earlier.
    pub fn write_hold(&self, hold: Option<&Hold>) -> io::Result<()> {
        let path = self.0.join("lease");
        match hold {
            Some(hold) => fs::create_dir_all(&self.0).and_then(|()| durable::write_json(&path, hold, Keep::Loose)),
            None => match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }

    pub(crate) fn stop_reason(&self) -> Option<String> {
        fs::read_to_string(self.0.join("stop")).ok()
    }

    pub(crate) fn ask_stop(&self, why: &str) -> io::Result<()> {
        durable::write(&self.0.join("stop"), why.as_bytes(), Keep::Safe)
    }

    /// Takes the lock that says that the supervisor lives; `None`: another has it.
    pub(crate) fn claim(&self) -> io::Result<Option<Claim>> {
        let file = File::options().create(true).truncate(false).write(true).open(self.0.join("alive"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Claim { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_by_its_key_and_back() {
        let key = AssignmentKey {
            order: "0190d3a4-5b6c-7d8e-9f00-112233445566".parse().unwrap(),
            generation: 3,
            component: "train-er".parse().unwrap(),
            replica: 12,
        };
        let folder = Folder::of(Path::new("/x"), &key);
        assert_eq!(Folder::key(folder.path().file_name().unwrap().to_str().unwrap()), Some(key));
        for other in ["", "a.b.c.d", "0190d3a4-5b6c-7d8e-9f00-112233445566.1.x.0.new", "lost+found"] {
            assert_eq!(Folder::key(other), None, "{other}");
        }
    }

    #[test]
    fn the_polite_signal_comes_before_the_lease_ends() {
        let hold = Hold::at(BootTime(0), 60_000, 2_000, BootTime(1_000_000), 5_000_000);
        assert_eq!((hold.stop_at, hold.kill_at), (BootTime(58_000_000), BootTime(60_000_000)));
        assert_eq!((hold.stop_wall_us, hold.kill_wall_us), (62_000_000, 64_000_000));
        let hold = Hold::new(BootTime(0), 8_000, 30_000);
        assert_eq!((hold.stop_at, hold.kill_at), (BootTime(6_000_000), BootTime(8_000_000)));
        assert!(hold.is_over(BootTime(6_000_000)) && !hold.is_over(BootTime(5_999_999)));
        let earlier = Hold { host_boot: "another start of the host".into(), ..hold };
        assert!(earlier.is_over(BootTime(0)));
        let zero = (Duration::ZERO, Duration::ZERO);
        assert_eq!(earlier.left(false, BootTime(0), 0), zero);
        // another host goes by the wall clock
        let now = earlier.stop_wall_us - 1_000;
        let (stop, kill) = earlier.left(true, BootTime(u64::MAX), now);
        assert_eq!((stop, kill), (Duration::from_millis(1), Duration::from_millis(2_001)));
        assert_eq!(earlier.left(true, BootTime(0), i64::MAX), zero);
    }
}
