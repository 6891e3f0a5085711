//! What a scheduler must be able to say and do, and how a job says whose it is.

use crate::runtime::{NodeStock, RuntimeError, Usage, Work};
use rhumb_model::{Bytes, ComponentName, Cores, NodeName, OrderId};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    str::FromStr,
    time::Duration,
};
use uuid::Uuid;

/// The scheduler of a site. Calls end within seconds, with or without an answer.
pub trait Controller: Send + Sync + 'static {
    /// For people.
    fn name(&self) -> String;

    /// Whether it starts several tasks as one job.
    fn has_gangs(&self) -> bool;

    /// Whether jobs that ended stay until they are cancelled.
    fn keeps_ended(&self) -> bool {
        false
    }

    /// How long one that does not answer is left alone: everybody waits for its answer.
    fn left_alone(&self) -> Duration {
        Duration::from_secs(15)
    }

    /// What only this scheduler cannot run.
    fn admit(&self, work: &Work) -> Result<(), RuntimeError>;

    /// Every job that it has, ended ones too as long as it knows them, and its nodes.
    fn snapshot(&self) -> impl Future<Output = Result<Snapshot, RuntimeError>> + Send;

    /// Gives the job's number.
    fn submit(&self, job: &Submission) -> impl Future<Output = Result<String, RuntimeError>> + Send;

    /// One that is over or gone is well.
    fn cancel(&self, id: &str) -> impl Future<Output = Result<(), RuntimeError>> + Send;
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    pub jobs: Vec<SiteJob>,
    pub nodes: Vec<NodeStock>,
    /// Use of nodes that no job in the list accounts for.
    pub unmanaged: Vec<Usage>,
    /// Everything in use by node, ours and others', where the scheduler does not say what each job holds.
    pub used: Vec<Usage>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteJob {
    pub id: String,
    /// `None`: somebody else's.
    pub mark: Option<Mark>,
    pub state: JobState,
    pub nodes: Vec<JobNode>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    Waiting {
        why: String,
    },
    /// Holds what it was given, also while it begins or ends.
    Running,
    Ended {
        /// In the scheduler's word.
        word: String,
        end: JobEnd,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// By itself: its exit code.
    Exited(i32),
    Signalled(i32),
    /// The scheduler, or somebody through it, ended it.
    Taken,
    /// Its node failed, or nobody knows.
    Lost,
}

/// What a job holds of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobNode {
    pub node: NodeName,
    pub devices: BTreeSet<u32>,
    /// `None`: it cannot be read.
    pub count: Option<u32>,
    pub cpu: Cores,
    pub memory: Bytes,
}

impl SiteJob {
    /// What it holds now.
    pub fn usage(&self) -> impl Iterator<Item = Usage> + '_ {
        self.nodes.iter().map(|held| Usage {
            id: self.id.clone(),
            node: held.node.clone(),
            devices: held.devices.clone(),
            count: held.count,
            cpu: held.cpu,
            memory: held.memory,
        })
    }
}

/// A job to be.
#[derive(Debug, Clone)]
pub struct Submission {
    pub mark: Mark,
    /// The executable that supervises runs, as the nodes see it.
    pub supervisor: PathBuf,
    /// The folder of the run, or of the first of its gang.
    pub folder: PathBuf,
    /// Of one replica.
    pub work: Work,
    /// Replicas by node.
    pub nodes: BTreeMap<String, u32>,
}

impl Submission {
    pub fn replicas(&self) -> u32 {
        self.nodes.values().sum()
    }

    /// For people, who read it in the scheduler's lists.
    pub fn job_name(&self) -> String {
        format!("rhumb-{}-{}-{}", self.mark.order, self.mark.generation, self.mark.component)
    }
}

/// `rhumb1:owner:run:order:generation:component:0+1+2`: whose a job is and what it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub owner: String,
    /// The number of the run, or of the first of its gang: new for every run, so that no name makes a job ours.
    pub lead: Uuid,
    pub order: OrderId,
    pub generation: u64,
    pub component: ComponentName,
    pub replicas: BTreeSet<u32>,
}

const VERSION: &str = "rhumb1";

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, lead, order, generation, component, replicas } = self;
        write!(f, "{VERSION}:{owner}:{lead}:{order}:{generation}:{component}:")?;
        for (place, replica) in replicas.iter().enumerate() {
            write!(f, "{}{replica}", if place == 0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

/// What does not read as a mark is somebody else's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMark;

impl FromStr for Mark {
    type Err = NoMark;

    fn from_str(text: &str) -> Result<Self, NoMark> {
        let parts: Vec<&str> = text.split(':').collect();
        let [VERSION, owner, lead, order, generation, component, replicas] = parts[..] else { return Err(NoMark) };
        let replicas = replicas.split('+').map(str::parse).collect::<Result<BTreeSet<u32>, _>>();
        Ok(Self {
            owner: owner.to_owned(),
            lead: lead.parse().map_err(|_| NoMark)?,
            order: order.parse().map_err(|_| NoMark)?,
            generation: generation.parse().map_err(|_| NoMark)?,
            component: component.parse().map_err(|_| NoMark)?,
            replicas: replicas.map_err(|_| NoMark)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_reads_back_and_nothing_else_is_one() {
        let text =
            "rhumb1:edge-1:0190d3a4-5b6c-7d8e-9f00-112233445566:0190d3a4-5b6c-7d8e-9f00-112233445567:3:trainer:0+2";
        let mark: Mark = text.parse().unwrap();
        assert_eq!((mark.to_string().as_str(), mark.generation), (text, 3));
        assert_eq!(mark.replicas, BTreeSet::from([0, 2]));
        for other in
            ["", "rhumb1", "rhumb-0190d3a4-trainer", &text.replace("rhumb1", "rhumb2"), &text.replace(":3:", ":x:")]
        {
            assert_eq!(other.parse::<Mark>(), Err(NoMark), "{other}");
        }
    }
}
