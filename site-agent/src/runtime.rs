//! Where work runs. A runtime starts a run once, says what became of it and stops all of it; whether and when is the
//! agent's business.

mod family;
pub(crate) mod folder;
mod log;
mod process;
mod supervisor;

pub(crate) use folder::Hold;
pub use process::ProcessRuntime;
pub use supervisor::{SUPERVISE, supervise_main};

use rhumb_wire::report::AssignmentKey;
use std::{collections::BTreeMap, io, path::PathBuf};

/// What is to be run, complete: nothing is looked up later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// Argument vector, not passed to a shell; empty: the devices are held and nothing runs.
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Between the polite signal and the kill.
    pub grace_ms: u64,
    /// Such as `SIGUSR1`; sent to the command's first process at the start of the grace.
    /// The polite signal follows at half of it.
    pub checkpoint_signal: Option<String>,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// Nothing of it ran, and nothing will unless it is started.
    NotStarted,
    Starting,
    Running {
        /// Length so far.
        ran_us: u64,
        /// Wall clock, informative.
        started_us: i64,
    },
    /// Nothing of it runs any more.
    Ended(Ended),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub how: How,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// From just after the command began to the end of its first process, by a monotonic clock.
    pub ran_us: u64,
    /// Wall clock, informative; absent if it never began.
    pub started_us: Option<i64>,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// By itself, or it could not begin.
    Exited,
    /// Because it was asked to, or its lease ended.
    Stopped,
    /// It left no record of its end.
    Lost,
}

#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error("{what} {value} cannot be run: {remedy}")]
    Admit { what: &'static str, value: String, remedy: &'static str },
    #[error("cannot {what} the run in {path}", path = path.display())]
    Run { what: &'static str, path: PathBuf, source: io::Error },
}

/// Calls answer from what is known and do not wait for work to end. All are idempotent.
pub trait Runtime: Send + 'static {
    /// Whether this runtime could run it.
    fn admit(&self, work: &Work) -> Result<(), RuntimeError>;

    /// Starts the run unless it was started before.
    fn start(&mut self, key: &AssignmentKey, work: &Work) -> Result<(), RuntimeError>;

    fn observe(&mut self, key: &AssignmentKey) -> Result<Observed, RuntimeError>;

    /// Output from byte `from` on, at most `most` bytes, whole characters, without NUL.
    fn logs(&self, key: &AssignmentKey, from: u64, most: usize) -> Result<String, RuntimeError>;

    /// Asks for the end of all of it; `observe` says when it is reached.
    fn stop(&mut self, key: &AssignmentKey, why: &str) -> Result<(), RuntimeError>;

    /// Every run that this runtime has traces of, whoever knows of it.
    fn list_owned(&self) -> Result<Vec<AssignmentKey>, RuntimeError>;
}
