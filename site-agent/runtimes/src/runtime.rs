//! What a runtime is: it starts a run once, says what became of it and stops all of it.

use crate::folder::Folder;
use rhumb_model::{Bytes, Cores, NodeName};
use rhumb_wire::report::AssignmentKey;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
};

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
    pub node: NodeName,
    /// Indices of whole devices of the node.
    pub devices: BTreeSet<u32>,
    /// What kind they are; `None`: there are none, or it is not known.
    pub family: Option<DeviceFamily>,
    /// Memory nodes that the devices stand next to; empty: not known, or no device.
    pub numa: BTreeSet<u16>,
    pub cpu: Cores,
    pub memory: Bytes,
    /// The replicas that start here as one, this one among them; one or none: it starts by itself.
    pub gang: BTreeSet<u32>,
}

impl Work {
    /// Work that needs a command and nothing else.
    pub fn bare(node: NodeName, command: Vec<String>) -> Self {
        Self {
            command,
            env: BTreeMap::new(),
            grace_ms: 2_000,
            checkpoint_signal: None,
            node,
            devices: BTreeSet::new(),
            family: None,
            numa: BTreeSet::new(),
            cpu: Cores::ZERO,
            memory: Bytes::ZERO,
            gang: BTreeSet::new(),
        }
    }
}

/// Devices that are programmed and shown to work in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceFamily {
    Cuda,
    Ascend,
    Rocm,
}

impl DeviceFamily {
    pub const ALL: [Self; 3] = [Self::Cuda, Self::Ascend, Self::Rocm];

    /// The variable that says which devices a process may see.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Cuda => "CUDA_VISIBLE_DEVICES",
            Self::Ascend => "ASCEND_RT_VISIBLE_DEVICES",
            Self::Rocm => "ROCR_VISIBLE_DEVICES",
        }
    }

    /// As orders name it in `run.variants`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Ascend => "ascend",
            Self::Rocm => "rocm",
        }
    }
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// Nothing of it ran, and nothing will unless it is started.
    NotStarted,
    Starting {
        /// What it waits for, in the words of the site; may be empty.
        why: String,
    },
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
    /// What the command named as its last checkpoint, if it did.
    pub checkpoint: Option<String>,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// By itself, or by the site, or it could not begin.
    Exited,
    /// Because it was asked to, or its lease ended.
    Stopped,
    /// It left no record of its end.
    Lost,
}

/// Everything that a runtime has, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Every run of this agent that the runtime has traces of, whoever knows of it.
    pub owned: BTreeSet<AssignmentKey>,
    /// What of the nodes our own jobs hold, by the word of the site's scheduler; empty: it has none.
    pub held: Vec<Usage>,
    /// What others hold, which nobody ordered here. It is subtracted from what is free and left alone.
    pub unmanaged: Vec<Usage>,
    /// Nodes as the site's own scheduler has them; empty: the runtime has no word of its own.
    pub nodes: Vec<NodeStock>,
}

/// What a job holds of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usage {
    /// As the site numbers it.
    pub id: String,
    pub node: NodeName,
    /// Which devices it holds, where the site says which.
    pub devices: BTreeSet<u32>,
    /// How many it holds; `None`: that cannot be read, and nothing more may be placed on its node.
    pub count: Option<u32>,
    pub cpu: Cores,
    pub memory: Bytes,
}

/// What a node has by the word of the site's scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStock {
    pub name: NodeName,
    /// Kinds and numbers of its devices, as the scheduler calls them, in the order of their indices; `None`: that cannot be read.
    pub devices: Option<Vec<(String, u32)>>,
    pub cpu: Cores,
    pub memory: Bytes,
    /// Whether the scheduler would start anything on it.
    pub is_up: bool,
    pub rack: Option<String>,
    /// What joins the devices of several nodes as one.
    pub nvl_domain: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error("{what} {value} cannot be run: {remedy}")]
    Admit { what: &'static str, value: String, remedy: &'static str },
    #[error("cannot {what} the run in {path}", path = path.display())]
    Run { what: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot {what}: {site} answered {answer}")]
    Site { what: &'static str, site: String, answer: String },
}

/// Calls answer from what is known or can be asked at once; none waits for work to begin or end. All are idempotent.
pub trait Runtime: Send + 'static {
    /// Whether this runtime could run it.
    fn admit(&self, work: &Work) -> Result<(), RuntimeError>;

    /// Starts the run unless it was started before.
    fn start(&mut self, key: &AssignmentKey, work: &Work) -> impl Future<Output = Result<(), RuntimeError>> + Send;

    fn observe(&mut self, key: &AssignmentKey) -> impl Future<Output = Result<Observed, RuntimeError>> + Send;

    /// Output from byte `from` on, at most `most` bytes, whole characters, without NUL.
    fn logs(
        &mut self,
        key: &AssignmentKey,
        from: u64,
        most: usize,
    ) -> impl Future<Output = Result<String, RuntimeError>> + Send;

    /// Asks for the end of all of it; `observe` says when it is reached. To be called until then.
    fn stop(&mut self, key: &AssignmentKey, why: &str) -> impl Future<Output = Result<(), RuntimeError>> + Send;

    /// What there is, ours and others'.
    fn list_owned(&mut self) -> impl Future<Output = Result<Listing, RuntimeError>> + Send;

    /// Where the run's records are: its lease is written there, and it is removed once the run is forgotten.
    fn folder(&self, key: &AssignmentKey) -> Folder;
}
