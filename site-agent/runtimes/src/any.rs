//! The runtime that an agent's settings name.

use crate::{
    batch::{Environment, Ground},
    erased::Erased,
    folder::Folder,
    process::ProcessRuntime,
    ray::{Ray, RayRuntime},
    runtime::{Listing, Observed, Runtime, RuntimeError, Work},
    settings::RuntimeSettings,
    slurm::{Slurm, SlurmRuntime},
    spec,
};
use rhumb_model::Span;
use rhumb_wire::report::AssignmentKey;
use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

/// What Ray leaves a job between its polite signal and its kill.
const RAY_KILL_WAIT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub struct AnyRuntime(Kind);

#[derive(Debug)]
enum Kind {
    Process(ProcessRuntime),
    Slurm(Box<SlurmRuntime>),
    Ray(Box<RayRuntime>),
    Other(Box<dyn Erased>),
}

/// What every runtime needs of its agent.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    /// The name of the agent's point: whose jobs these are.
    pub owner: &'a str,
    /// Runs of this host's own processes live below it.
    pub runs: &'a Path,
    /// The executable whose `__supervise` is the supervisor; `None`: this one.
    pub supervisor: Option<&'a Path>,
    /// Output kept of one run, in bytes.
    pub log_limit_bytes: u64,
}

/// The executable that supervises runs, as this host has it.
pub fn supervisor_of(base: Base<'_>) -> PathBuf {
    base.supervisor.map_or_else(spec::own_executable, Path::to_owned)
}

impl AnyRuntime {
    /// One that is built elsewhere.
    pub fn other(runtime: impl Runtime + Sync + fmt::Debug) -> Self {
        Self(Kind::Other(Box::new(runtime)))
    }

    /// Makes folders; asks nobody.
    pub fn open(settings: &RuntimeSettings, base: Base<'_>) -> Result<Self, RuntimeError> {
        let ground = |shared: &Path, supervisor: Option<&PathBuf>, poll: Span, kill_wait| {
            let failed = |source| RuntimeError::Run { what: "keep", path: shared.into(), source };
            std::fs::create_dir_all(shared).map_err(failed)?;
            Ok(Ground {
                owner: base.owner.to_owned(),
                root: shared.to_owned(),
                supervisor: supervisor.map_or_else(|| supervisor_of(base), Clone::clone),
                log_limit_bytes: base.log_limit_bytes,
                poll: Duration::from_micros(poll.micros()),
                kill_wait,
                environment: Environment::Order,
            })
        };
        Ok(Self(match settings {
            RuntimeSettings::Process(process) => {
                let runs = base.runs.to_owned();
                Kind::Process(ProcessRuntime::new(runs, base.supervisor, base.log_limit_bytes, process)?)
            }
            RuntimeSettings::Slurm(slurm) => {
                let kill_wait = Duration::from_micros(slurm.kill_wait.micros());
                let ground = ground(&slurm.shared, slurm.supervisor.as_ref(), slurm.poll, kill_wait)?;
                Kind::Slurm(Box::new(Slurm::runtime(ground, slurm)?))
            }
            RuntimeSettings::Ray(ray) => {
                let ground = ground(&ray.shared, ray.supervisor.as_ref(), ray.poll, RAY_KILL_WAIT)?;
                Kind::Ray(Box::new(Ray::runtime(ground, ray)?))
            }
            RuntimeSettings::Kubernetes(_) => {
                return Err(RuntimeError::Admit {
                    what: "the runtime",
                    value: "kubernetes".into(),
                    remedy: "use an agent that was built with the feature kubernetes (cargo build --features kubernetes)",
                });
            }
        }))
    }
}

/// The same call of whichever it is.
macro_rules! each {
    ($self:ident, $it:ident => $call:expr, $other:expr) => {
        match &mut $self.0 {
            Kind::Process($it) => $call.await,
            Kind::Slurm($it) => $call.await,
            Kind::Ray($it) => $call.await,
            Kind::Other($it) => $other.await,
        }
    };
}

impl Runtime for AnyRuntime {
    fn admit(&self, work: &Work) -> Result<(), RuntimeError> {
        match &self.0 {
            Kind::Process(it) => it.admit(work),
            Kind::Slurm(it) => it.admit(work),
            Kind::Ray(it) => it.admit(work),
            Kind::Other(it) => it.erased_admit(work),
        }
    }

    async fn start(&mut self, key: &AssignmentKey, work: &Work) -> Result<(), RuntimeError> {
        each!(self, it => it.start(key, work), it.erased_start(key, work))
    }

    async fn observe(&mut self, key: &AssignmentKey) -> Result<Observed, RuntimeError> {
        each!(self, it => it.observe(key), it.erased_observe(key))
    }

    async fn logs(&mut self, key: &AssignmentKey, from: u64, most: usize) -> Result<String, RuntimeError> {
        each!(self, it => it.logs(key, from, most), it.erased_logs(key, from, most))
    }

    async fn stop(&mut self, key: &AssignmentKey, why: &str) -> Result<(), RuntimeError> {
        each!(self, it => it.stop(key, why), it.erased_stop(key, why))
    }

    async fn list_owned(&mut self) -> Result<Listing, RuntimeError> {
        each!(self, it => it.list_owned(), it.erased_list_owned())
    }

    fn folder(&self, key: &AssignmentKey) -> Folder {
        match &self.0 {
            Kind::Process(it) => it.folder(key),
            Kind::Slurm(it) => it.folder(key),
            Kind::Ray(it) => it.folder(key),
            Kind::Other(it) => it.erased_folder(key),
        }
    }
}
