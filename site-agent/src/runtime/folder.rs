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
//! log              output, valid UTF-8
//! work/            home and working folder of the command
//! ```

use super::{Ended, How};
use crate::{
    durable::{self, Keep},
    host::{self, BootTime},
};
use rhumb_wire::report::AssignmentKey;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};
use uuid::Uuid;

/// Marks every process of a run in its environment.
pub(super) const RUN_VARIABLE: &str = "RHUMB_RUN";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spec {
    pub(super) run: Uuid,
    pub(super) command: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) grace_ms: u64,
    #[serde(default)]
    pub(super) checkpoint_signal: Option<i32>,
    pub(super) log_limit_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Supervisor {
    /// As in the spec, which may be taken away.
    pub(super) run: Uuid,
    /// Session, and process number of the supervisor.
    pub(super) session: i32,
    pub(super) host_boot: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Started {
    /// Process group, and process number of the command; 0: nothing runs, the devices are held.
    pub(super) group: i32,
    pub(super) boottime: BootTime,
    pub(super) wall_us: i64,
    pub(super) host_boot: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Exit {
    pub(super) how: How,
    pub(super) exit_code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) ran_us: u64,
    pub(super) message: String,
}

/// The lease of one run. The polite signal comes early enough for everything to be gone when the lease ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hold {
    pub(crate) host_boot: String,
    pub(crate) stop_at: BootTime,
    pub(crate) kill_at: BootTime,
}

impl Hold {
    /// A lease of `lease_ms` from `from` on; at most a quarter of it is kept for the grace.
    pub(crate) fn new(from: BootTime, lease_ms: u64, grace_ms: u64) -> Self {
        let polite_ms = lease_ms - grace_ms.min(lease_ms / 4);
        Self {
            host_boot: host::boot_id().to_owned(),
            stop_at: from.plus_ms(polite_ms),
            kill_at: from.plus_ms(lease_ms),
        }
    }

    pub(crate) fn is_over(&self, now: BootTime) -> bool {
        self.host_boot != host::boot_id() || now >= self.stop_at
    }
}

/// Held as long as its owner lives.
#[derive(Debug)]
pub(super) struct Claim {
    _file: File,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where the run of `key` lives below `root`.
    pub(crate) fn of(root: &Path, key: &AssignmentKey) -> Self {
        Self(root.join(format!("{}.{}.{}.{}", key.order, key.generation, key.component, key.replica)))
    }

    /// The key in a folder's name, the other way round.
    pub(crate) fn key(name: &str) -> Option<AssignmentKey> {
        let mut parts = name.split('.');
        let key = AssignmentKey {
            order: parts.next()?.parse().ok()?,
            generation: parts.next()?.parse().ok()?,
            component: parts.next()?.parse().ok()?,
            replica: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(key)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    pub(super) fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    pub(super) fn spec(&self) -> io::Result<Option<Spec>> {
        durable::read_json(&self.0.join("spec.json"))
    }

    pub(super) fn write_spec(&self, spec: &Spec) -> io::Result<()> {
        durable::write_json(&self.0.join("spec.json"), spec, Keep::Safe)
    }

    /// The way to ask for the end where nothing more can be written.
    pub(super) fn remove_spec(&self) -> io::Result<()> {
        fs::remove_file(self.0.join("spec.json"))
    }

    pub(super) fn has_spec(&self) -> bool {
        self.0.join("spec.json").exists()
    }

    pub(super) fn supervisor(&self) -> io::Result<Option<Supervisor>> {
        durable::read_json(&self.0.join("supervisor.json"))
    }

    pub(super) fn write_supervisor(&self, supervisor: &Supervisor) -> io::Result<()> {
        durable::write_json(&self.0.join("supervisor.json"), supervisor, Keep::Safe)
    }

    pub(super) fn started(&self) -> io::Result<Option<Started>> {
        durable::read_json(&self.0.join("started.json"))
    }

    pub(super) fn write_started(&self, started: &Started) -> io::Result<()> {
        durable::write_json(&self.0.join("started.json"), started, Keep::Loose)
    }

    pub(super) fn exit(&self) -> io::Result<Option<Exit>> {
        durable::read_json(&self.0.join("exit.json"))
    }

    pub(super) fn write_exit(&self, exit: &Exit) -> io::Result<()> {
        durable::write_json(&self.0.join("exit.json"), exit, Keep::Safe)
    }

    /// The end, if there was one.
    pub(super) fn ended(&self) -> io::Result<Option<Ended>> {
        let Some(exit) = self.exit()? else { return Ok(None) };
        let Exit { how, exit_code, signal, ran_us, message } = exit;
        let started_us = self.started()?.map(|started| started.wall_us);
        Ok(Some(Ended { how, exit_code, signal, ran_us, started_us, message }))
    }

    pub(crate) fn hold(&self) -> io::Result<Option<Hold>> {
        durable::read_json(&self.0.join("lease"))
    }

    /// Not synced: an older lease only ends earlier.
    pub(crate) fn write_hold(&self, hold: Option<&Hold>) -> io::Result<()> {
        let path = self.0.join("lease");
        match hold {
            Some(hold) => durable::write_json(&path, hold, Keep::Loose),
            None => match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }

    pub(super) fn stop_reason(&self) -> Option<String> {
        fs::read_to_string(self.0.join("stop")).ok()
    }

    pub(super) fn ask_stop(&self, why: &str) -> io::Result<()> {
        durable::write(&self.0.join("stop"), why.as_bytes(), Keep::Safe)
    }

    /// Takes the lock that says that the supervisor lives; `None`: another has it.
    pub(super) fn claim(&self) -> io::Result<Option<Claim>> {
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
        let hold = Hold::new(BootTime(0), 60_000, 2_000);
        assert_eq!((hold.stop_at, hold.kill_at), (BootTime(58_000_000), BootTime(60_000_000)));
        let hold = Hold::new(BootTime(0), 8_000, 30_000);
        assert_eq!((hold.stop_at, hold.kill_at), (BootTime(6_000_000), BootTime(8_000_000)));
        assert!(hold.is_over(BootTime(6_000_000)) && !hold.is_over(BootTime(5_999_999)));
        let earlier = Hold { host_boot: "another start of the host".into(), ..hold };
        assert!(earlier.is_over(BootTime(0)));
    }
}
