//! Slurm as a stand for the contract, by both ways to its controller.

use super::cluster::SlurmLab;
use crate::Stand;
use futures::future::BoxFuture;
use rhumb_model::NodeName;
use rhumb_runtimes::{AnyRuntime, SlurmAccess};
use rhumb_wire::report::AssignmentKey;
use std::{
    path::Path,
    time::{Duration, Instant},
};

#[derive(Debug)]
pub struct SlurmStand {
    pub lab: SlurmLab,
    pub access: SlurmAccess,
}

impl Stand for SlurmStand {
    type Runtime = AnyRuntime;

    fn open(&self, owner: &str, home: &Path) -> AnyRuntime {
        self.lab.runtime(self.access.clone(), owner, home)
    }

    fn node(&self) -> NodeName {
        NodeName::new("n1").unwrap()
    }

    fn many(&self) -> usize {
        300
    }

    fn has_gangs(&self) -> bool {
        true
    }

    /// Of the same name and user; and with a comment that speaks of this very run, but as somebody else's.
    fn foreign<'a>(&'a self, key: &'a AssignmentKey, devices: u32) -> BoxFuture<'a, String> {
        Box::pin(async move {
            let AssignmentKey { order, generation, component, replica } = key;
            let name = format!("--job-name=rhumb-{order}-{generation}-{component}");
            let comment = format!("--comment=rhumb1:somebody:{order}:{order}:{generation}:{component}:{replica}");
            let devices = format!("--gres=gpu:a100:{devices}");
            let words = ["--parsable", "--output=/dev/null", &name, &comment, &devices, "--wrap", "exec sleep 300"];
            let id = self.lab.command("sbatch", &words).trim().to_owned();
            let end = Instant::now() + Duration::from_mins(1);
            while self.lab.command("squeue", &["-h", "-j", &id, "-o", "%T"]).trim() != "RUNNING" {
                assert!(Instant::now() < end, "somebody else's job does not run");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            id
        })
    }

    fn foreign_lives<'a>(&'a self, id: &'a str) -> BoxFuture<'a, bool> {
        let state = self.lab.command("squeue", &["-h", "-j", id, "-o", "%T"]);
        Box::pin(async move { state.trim() == "RUNNING" })
    }

    fn end_foreign<'a>(&'a self, id: &'a str) -> BoxFuture<'a, ()> {
        self.lab.command("scancel", &[id]);
        Box::pin(async {})
    }

    fn sees_foreign(&self) -> bool {
        true
    }

    /// Slurm forgets ended jobs by itself; until it has.
    fn clean_up<'a>(&'a self, key: &'a AssignmentKey) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mark = format!(":{}:", key.order);
            let end = Instant::now() + Duration::from_mins(3);
            while self.lab.command("squeue", &["-h", "-t", "all", "-o", "%k"]).contains(&mark) {
                assert!(Instant::now() < end, "Slurm does not forget");
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        })
    }
}
