//! The `slurm` runtime: jobs of a Slurm cluster, through slurmrestd or the commands.
//!
//! Jobs are found again by their comment and their user, never by their name. A gang is one job with a task for each replica.

mod access;
mod answers;
mod gres;
mod request;

use crate::{
    batch::{Batch, Controller, Ground, Snapshot, Submission},
    runtime::{RuntimeError, Work},
    settings::{SlurmAccess, SlurmSettings},
};
use access::Access;
use serde_json::Value;

pub(crate) type SlurmRuntime = Batch<Slurm>;

/// The cluster's controller.
#[derive(Debug)]
pub(crate) struct Slurm {
    access: Access,
    settings: SlurmSettings,
}

impl Slurm {
    pub(crate) fn runtime(ground: Ground, settings: &SlurmSettings) -> Result<SlurmRuntime, RuntimeError> {
        Ok(Batch::new(ground, Self { access: Access::open(&settings.access)?, settings: settings.clone() }))
    }

    /// Whether a job is of the agent's own user: a comment can be written by anybody.
    fn is_mine(&self, job: &Value) -> bool {
        match &self.settings.access {
            SlurmAccess::Rest { user: Some(user), .. } => job["user_name"] == user.as_str(),
            _ => job["user_id"] == u64::from(rustix::process::getuid().as_raw()),
        }
    }
}

impl Controller for Slurm {
    fn name(&self) -> String {
        "the Slurm controller".into()
    }

    fn has_gangs(&self) -> bool {
        true
    }

    fn admit(&self, _work: &Work) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn snapshot(&self) -> Result<Snapshot, RuntimeError> {
        // nodes first: a job that begins in between is counted twice rather than not at all
        let nodes = self.access.nodes().await?;
        let jobs = self.access.jobs().await?;
        Ok(answers::snapshot(&nodes, &jobs, |job| self.is_mine(job)))
    }

    async fn submit(&self, job: &Submission) -> Result<String, RuntimeError> {
        self.access.submit(&request::Request::new(job, &self.settings)).await
    }

    async fn cancel(&self, id: &str) -> Result<(), RuntimeError> {
        self.access.cancel(id).await
    }
}
