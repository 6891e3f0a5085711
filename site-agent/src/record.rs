//! What the agent knows of each assignment, on disk before it acts on it.

use crate::{
    durable::{self, Keep},
    lease::Claim,
};
use rhumb_runtimes::{Ended, How, folder::Folder};
use rhumb_wire::{AssignmentState, report::AssignmentKey};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) key: AssignmentKey,
    pub(crate) claim: Claim,
    pub(crate) lease_ms: Option<u64>,
    pub(crate) grace_ms: u64,
    pub(crate) phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub(crate) enum Phase {
    /// Holds its devices; nothing was started.
    Leased,
    /// May have been started; the runtime knows.
    Started,
    /// Holds nothing. Stays until it is no longer listed, so that it is not run again.
    Ended(End),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) state: AssignmentState,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) ran_us: u64,
    pub(crate) started_us: Option<i64>,
    #[serde(default)]
    pub(crate) checkpoint: Option<String>,
    pub(crate) message: String,
}

impl End {
    /// The end of something that never ran.
    pub(crate) fn unrun(state: AssignmentState, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { state, exit_code: None, signal: None, ran_us: 0, started_us: None, checkpoint: None, message }
    }
}

impl From<Ended> for End {
    fn from(ended: Ended) -> Self {
        let Ended { how, exit_code, signal, ran_us, started_us, checkpoint, message } = ended;
        let state = match how {
            How::Exited => AssignmentState::Exited,
            How::Stopped => AssignmentState::Stopped,
            How::Lost => AssignmentState::Lost,
        };
        Self { state, exit_code, signal, ran_us, started_us, checkpoint, message }
    }
}

/// The records of one agent: a file in each run's folder.
#[derive(Debug)]
pub(crate) struct Records {
    root: PathBuf,
}

impl Records {
    pub(crate) fn open(root: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&root)?;
        Ok(Self { root })
    }

    /// Every record; a folder without one that reads is left alone and not listed.
    pub(crate) fn load(&self) -> io::Result<Vec<Record>> {
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            let Some(key) = entry.file_name().to_str().and_then(Folder::key) else { continue };
            match durable::read_json::<Record>(&path(&entry.path())) {
                Ok(Some(record)) if record.key == key => records.push(record),
                Ok(None) => {}
                Ok(Some(_)) => {
                    tracing::warn!(folder = %entry.path().display(), "a record of another assignment is ignored");
                }
                Err(error) => tracing::warn!(folder = %entry.path().display(), %error, "a record cannot be read"),
            }
        }
        records.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(records)
    }

    pub(crate) fn save(&self, record: &Record) -> io::Result<()> {
        let folder = self.folder(&record.key);
        let fresh = !folder.path().exists();
        fs::create_dir_all(folder.path())?;
        durable::write_json(&path(folder.path()), record, Keep::Safe)?;
        if fresh { durable::sync_folder(&self.root) } else { Ok(()) }
    }

    pub(crate) fn remove(&self, key: &AssignmentKey) -> io::Result<()> {
        durable::remove_folder(self.folder(key).path())
    }

    fn folder(&self, key: &AssignmentKey) -> Folder {
        Folder::of(&self.root, key)
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join("record.json")
}
