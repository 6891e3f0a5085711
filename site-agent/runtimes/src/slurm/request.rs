//! From a submission to what Slurm is asked for.

use crate::{batch::Submission, settings::SlurmSettings, shell::quoted, supervisor::SUPERVISE};
use serde_json::{Value, json};
use std::path::Path;

/// A job for Slurm, the same for both ways to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    name: String,
    comment: String,
    partition: Option<String>,
    account: Option<String>,
    nodes: Vec<String>,
    tasks: u32,
    /// `None`: the nodes take different numbers of tasks.
    tasks_per_node: Option<u32>,
    cpus_per_task: u64,
    /// Absent: the cluster's default.
    memory_mib: Option<u64>,
    /// Devices of one task, and what they are called.
    devices: u64,
    gres: Option<String>,
    /// Where the batch step's own words go.
    output: String,
    /// Holds paths of the site and no word of an order.
    pub(super) script: String,
}

impl Request {
    pub(super) fn new(job: &Submission, settings: &SlurmSettings) -> Self {
        let counts: Vec<u32> = job.nodes.values().copied().collect();
        let even = counts.iter().all(|count| *count == counts[0]).then(|| counts[0]);
        let mib = job.work.memory.bytes().div_ceil(1 << 20);
        let most = u64::from(counts.iter().copied().max().unwrap_or(1));
        Self {
            name: job.job_name(),
            comment: job.mark.to_string(),
            partition: settings.partition.clone(),
            account: settings.account.clone(),
            nodes: job.nodes.keys().cloned().collect(),
            tasks: job.replicas(),
            tasks_per_node: even,
            cpus_per_task: job.work.cpu.milli().div_ceil(1_000).max(1),
            memory_mib: (mib > 0).then(|| mib * most),
            devices: job.work.devices.len() as u64,
            gres: settings.gres.clone(),
            output: job.folder.join("job.log").to_string_lossy().into_owned(),
            script: script(&job.supervisor, &job.folder, job.replicas()),
        }
    }

    fn devices(&self, count: u64) -> String {
        self.gres.as_ref().map_or_else(|| count.to_string(), |kind| format!("{kind}:{count}"))
    }

    /// Arguments of `sbatch`, which reads the script from its input.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut words = vec![
            "--parsable".to_owned(),
            "--no-requeue".into(),
            "--export=NIL".into(),
            "--input=/dev/null".into(),
            format!("--job-name={}", self.name),
            format!("--comment={}", self.comment),
            format!("--output={}", self.output.replace('%', "%%")),
            format!("--nodelist={}", self.nodes.join(",")),
            format!("--nodes={}", self.nodes.len()),
            format!("--ntasks={}", self.tasks),
            format!("--cpus-per-task={}", self.cpus_per_task),
        ];
        words.extend(self.partition.iter().map(|partition| format!("--partition={partition}")));
        words.extend(self.account.iter().map(|account| format!("--account={account}")));
        words.extend(self.memory_mib.map(|mib| format!("--mem={mib}M")));
        words.extend(self.tasks_per_node.map(|tasks| format!("--ntasks-per-node={tasks}")));
        match (self.devices, self.tasks_per_node) {
            (0, _) => {}
            (devices, Some(tasks)) => {
                words.push(format!("--gpus-per-node={}", self.devices(devices * u64::from(tasks))));
            }
            (devices, None) => words.push(format!("--gpus-per-task={}", self.devices(devices))),
        }
        words
    }

    /// Body of `POST /job/submit`.
    pub(super) fn body(&self) -> Value {
        let mut job = json!({
            "name": self.name,
            "comment": self.comment,
            "requeue": false,
            "environment": {"PATH": "/usr/local/bin:/usr/bin:/bin"},
            "current_working_directory": "/",
            "standard_input": "/dev/null",
            "standard_output": self.output.replace('%', "%%"),
            // not in the interface's description, which has no word for it, and taken all the same
            "nodelist": self.nodes.join(","),
            "nodes": [self.nodes.len(), self.nodes.len()],
            "tasks": self.tasks,
            "cpus_per_task": self.cpus_per_task,
        });
        let mut set = |name: &str, value: Value| job[name] = value;
        if let Some(partition) = &self.partition {
            set("partition", json!(partition));
        }
        if let Some(account) = &self.account {
            set("account", json!(account));
        }
        if let Some(mib) = self.memory_mib {
            set("memory_per_node", json!(mib));
        }
        if let Some(tasks) = self.tasks_per_node {
            set("tasks_per_node", json!(tasks));
        }
        match (self.devices, self.tasks_per_node) {
            (0, _) => {}
            (devices, Some(tasks)) => set("gpus_per_node", json!(self.devices(devices * u64::from(tasks)))),
            (devices, None) => set("gpus_per_task", json!(self.devices(devices))),
        }
        json!({"job": job, "script": self.script})
    }
}

fn script(supervisor: &Path, folder: &Path, tasks: u32) -> String {
    let (supervisor, folder) = (quoted(supervisor), quoted(folder));
    let launch = match tasks {
        1 => "",
        // one replica that fails or ends early leaves the others alone
        _ => "srun --kill-on-bad-exit=0 --wait=0 --mpi=none --export=ALL ",
    };
    format!("#!/bin/sh\nexport PATH=/usr/local/bin:/usr/bin:/bin\nexec {launch}{supervisor} {SUPERVISE} {folder}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_holds_two_paths_and_nothing_of_an_order() {
        let text = script(Path::new("/s u"), Path::new("/r"), 2);
        let last = text.trim_end().lines().last().unwrap();
        assert_eq!(last, "exec srun --kill-on-bad-exit=0 --wait=0 --mpi=none --export=ALL '/s u' __supervise '/r'");
        assert!(script(Path::new("/s"), Path::new("/r"), 1).ends_with("exec '/s' __supervise '/r'\n"));
    }
}
