//! Runs as jobs of a scheduler that the site has already. A job is one supervisor, or one for each replica of a gang; what it
//! is to run and how it ended stand in the run's folder, which all nodes share, as with processes of one host. So a run has the
//! same states, output and exit codes everywhere, and its true end is known after the scheduler has forgotten the job.

mod ending;
mod job;

pub use job::{Controller, JobEnd, JobNode, JobState, Mark, SiteJob, Snapshot, Submission};

use crate::{
    durable,
    folder::{Folder, Gang, Job, Limits},
    host::{self, BootTime},
    log,
    runtime::{Listing, Observed, Runtime, RuntimeError, Usage, Work},
    spec::{self, Setting},
};
use rhumb_model::{Bytes, Cores, NodeName};
use rhumb_wire::report::AssignmentKey;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

/// How long after a job's end its supervisor's last word may still be on its way through the shared folder.
const LAST_WORD: Duration = Duration::from_secs(5);
/// Beyond the grace, for a supervisor to end what it was asked to end; then the scheduler is asked.
const STOP_MARGIN: Duration = Duration::from_secs(10);
/// How many answers of the scheduler in a row must lack a job before it counts as gone.
const MISSES: u32 = 3;

/// Where a batch runtime keeps its runs, and how it starts them.
#[derive(Debug, Clone)]
pub struct Ground {
    /// Whose jobs these are: the name of the agent's point.
    pub owner: String,
    /// Folder of the runs.
    pub root: PathBuf,
    pub supervisor: PathBuf,
    pub log_limit_bytes: u64,
    /// How old an answer of the scheduler may be that is gone by.
    pub poll: Duration,
    /// How long the scheduler waits between its own polite signal and its kill.
    pub kill_wait: Duration,
    pub environment: Environment,
}

/// What a command finds in its environment beside what its order says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Environment {
    /// Nothing.
    Order,
    /// What its container's image says; the image's search path comes first.
    Image,
}

#[derive(Debug)]
pub struct Batch<C> {
    ground: Ground,
    controller: C,
    /// The scheduler's last answer, or why there is none.
    seen: Option<(Instant, Result<Snapshot, String>)>,
    watch: BTreeMap<AssignmentKey, Watch>,
}

/// What is remembered of a run between two looks; nothing of it must outlive the agent.
#[derive(Debug, Default)]
struct Watch {
    /// Since when its job is over or gone without its supervisor's word.
    silent: Option<Instant>,
    misses: u32,
    /// Which answer was looked at last.
    looked: Option<Instant>,
    asked: Option<Instant>,
    cancelled: Option<Instant>,
}

impl<C: Controller> Batch<C> {
    /// A runtime whose runs live on this ground, as jobs of this controller.
    pub fn new(ground: Ground, controller: C) -> Self {
        Self { ground, controller, seen: None, watch: BTreeMap::new() }
    }

    /// The scheduler's jobs, not older than `age`.
    async fn snapshot(&mut self, age: Duration) -> Result<&Snapshot, RuntimeError> {
        let left_alone = self.controller.left_alone();
        let is_old = |(at, answer): &(Instant, Result<Snapshot, String>)| {
            at.elapsed() > if answer.is_ok() { age } else { left_alone }
        };
        if self.seen.as_ref().is_none_or(is_old) {
            let answer = self.controller.snapshot().await.map_err(|error| error.to_string());
            // its age counts from here: one that took long is not asked for again for every run
            self.seen = Some((Instant::now(), answer));
        }
        match &self.seen {
            Some((_, Ok(snapshot))) => Ok(snapshot),
            Some((_, Err(answer))) => Err(self.silent("ask for jobs", answer.clone())),
            None => Err(self.silent("ask for jobs", String::new())),
        }
    }

    fn silent(&self, what: &'static str, answer: String) -> RuntimeError {
        RuntimeError::Site { what, site: self.controller.name(), answer }
    }

    /// The job that carries this run, as of the last answer.
    fn job(&self, key: &AssignmentKey, recorded: Option<&Job>) -> Option<SiteJob> {
        let (_, Ok(snapshot)) = self.seen.as_ref()? else { return None };
        let jobs = snapshot.jobs.iter().filter(|job| {
            let mark = job.mark.as_ref().filter(|mark| mark.owner == self.ground.owner && mark.carries(key));
            mark.is_some_and(|mark| recorded.is_none_or(|recorded| recorded.lead == mark.lead))
        });
        // of two with one mark, the one that lives
        jobs.min_by_key(|job| (matches!(job.state, JobState::Ended { .. }), job.id.clone())).cloned()
    }

    async fn begin(&mut self, key: &AssignmentKey, work: &Work) -> Result<(), RuntimeError> {
        let folder = self.folder(key);
        let failed = |source| RuntimeError::Run { what: "start", path: folder.path().into(), source };
        let prepared = self.prepare(key, &folder, work).map_err(failed)?;
        let Some((gang, fresh)) = prepared else { return Ok(()) };
        if self.controller.has_gangs() {
            return self.submit(&gang, fresh, work).await;
        }
        for key in &gang {
            let folder = self.folder(key);
            if folder.job().map_err(failed)?.is_none() && folder.exit().map_err(failed)?.is_none() {
                self.submit(std::slice::from_ref(key), fresh, work).await?;
            }
        }
        Ok(())
    }

    /// One job for all of these.
    async fn submit(&mut self, gang: &[AssignmentKey], fresh: bool, work: &Work) -> Result<(), RuntimeError> {
        let Some(key) = gang.first() else { return Ok(()) };
        let lead = self.folder(key);
        let failed = |source| RuntimeError::Run { what: "start", path: lead.path().into(), source };
        let Some(run) = lead.spec().map_err(failed)?.map(|spec| spec.run) else { return Ok(()) };
        if !fresh {
            // an earlier try may have come through although its answer did not
            self.snapshot(Duration::ZERO).await?;
            if let Some(job) = self.job(key, Some(&Job { id: String::new(), lead: run })) {
                return self.submitted(gang, &Job { id: job.id, lead: run }).map_err(failed);
            }
        }
        let mark = Mark::new(&self.ground.owner, run, gang);
        let (supervisor, folder) = (self.ground.supervisor.clone(), lead.path().to_owned());
        let submission = Submission { mark, supervisor, folder, work: work.clone(), nodes: self.nodes(gang, work) };
        let id = self.controller.submit(&submission).await?;
        tracing::info!(job = id, order = %key.order, component = %key.component, replicas = gang.len(), "job submitted");
        self.submitted(gang, &Job { id, lead: run }).map_err(failed)
    }

    /// Writes down what is to run. `None`: it was begun before, or others of its gang are still to come. Otherwise its gang,
    /// and whether nothing of it can have been submitted yet.
    fn prepare(
        &self,
        key: &AssignmentKey,
        folder: &Folder,
        work: &Work,
    ) -> io::Result<Option<(Vec<AssignmentKey>, bool)>> {
        durable::make_folder(folder.path())?;
        let begun = folder.exit()?.is_some() || folder.supervisor()?.is_some() || folder.job()?.is_some();
        if begun {
            return Ok(None);
        }
        let fresh = !folder.has_spec();
        if fresh {
            let log_limit_bytes = self.ground.log_limit_bytes;
            let site_grace_ms = Some(self.ground.kill_wait.as_millis() as u64);
            let limits = Limits::default();
            let inherit_image = self.ground.environment == Environment::Image;
            let setting = Setting { log_limit_bytes, inherit_devices: true, inherit_image, site_grace_ms, limits };
            folder.write_spec(&spec::spec(folder, work, setting))?;
            let claim =
                Claim { node: work.node.clone(), devices: work.devices.len(), cpu: work.cpu, memory: work.memory };
            durable::write_json(&claim_file(folder), &claim, durable::Keep::Safe)?;
        }
        let gang = spec::gang(key, work);
        let folders: Vec<Folder> = gang.iter().map(|key| self.folder(key)).collect();
        for folder in &folders {
            if !folder.is_ready()? {
                return Ok(None);
            }
        }
        if gang.len() > 1 && self.controller.has_gangs() {
            let folders = folders.iter().map(|folder| folder.path().to_owned()).collect();
            Folder::of(&self.ground.root, &gang[0]).write_gang(&Gang { folders, devices: work.devices.len() })?;
        }
        Ok(Some((gang, fresh)))
    }

    /// How many of the gang go to each node.
    fn nodes(&self, gang: &[AssignmentKey], work: &Work) -> BTreeMap<String, u32> {
        let mut nodes = BTreeMap::new();
        for key in gang {
            let claim = self.claim(key);
            *nodes.entry(claim.map_or_else(|| work.node.to_string(), |claim| claim.node.to_string())).or_default() += 1;
        }
        nodes
    }

    fn claim(&self, key: &AssignmentKey) -> Option<Claim> {
        durable::read_json(&claim_file(&self.folder(key))).ok().flatten()
    }

    /// What is in use beyond our own running jobs, where the scheduler tells it by node only.
    fn beyond(&self, snapshot: &Snapshot) -> Vec<Usage> {
        let mine = snapshot.jobs.iter().filter(|job| job.state == JobState::Running);
        let mine = mine.filter_map(|job| job.mark.as_ref()).filter(|mark| mark.owner == self.ground.owner);
        let claims: Vec<Claim> = mine.flat_map(Mark::keys).filter_map(|key| self.claim(&key)).collect();
        let mut rest = Vec::new();
        for used in &snapshot.used {
            let mut used = used.clone();
            for claim in claims.iter().filter(|claim| claim.node == used.node) {
                used.count = used.count.map(|count| count.saturating_sub(claim.devices as u32));
                used.cpu = used.cpu.checked_sub(claim.cpu).unwrap_or(Cores::ZERO);
                used.memory = used.memory.saturating_sub(claim.memory);
            }
            if used.count != Some(0) || used.cpu != Cores::ZERO || used.memory != Bytes::ZERO {
                rest.push(used);
            }
        }
        rest
    }

    fn submitted(&mut self, gang: &[AssignmentKey], job: &Job) -> io::Result<()> {
        // an answer from before the submission does not say that there is no job
        self.seen = None;
        gang.iter().rev().try_for_each(|key| Folder::of(&self.ground.root, key).write_job(job))
    }

    async fn look(&mut self, key: &AssignmentKey) -> Result<Observed, RuntimeError> {
        let folder = self.folder(key);
        let failed = |source| RuntimeError::Run { what: "observe", path: folder.path().into(), source };
        if let Some(ended) = folder.ended().map_err(failed)? {
            self.watch.remove(key);
            return Ok(Observed::Ended(ended));
        }
        let recorded = folder.job().map_err(failed)?;
        let poll = self.ground.poll;
        self.snapshot(poll).await?;
        let job = self.job(key, recorded.as_ref());
        let Some(job) = job else { return self.missing(key, &folder, recorded).map_err(failed) };
        if let Some(watch) = self.watch.get_mut(key) {
            watch.misses = 0;
        }
        match job.state {
            JobState::Waiting { why } => Ok(Observed::Starting { why }),
            JobState::Running => running(&folder).map_err(failed),
            JobState::Ended { .. } => self.over(key, &folder, &job).map_err(failed),
        }
    }

    async fn end(&mut self, key: &AssignmentKey, why: &str) -> Result<(), RuntimeError> {
        let folder = self.folder(key);
        let failed = |source| RuntimeError::Run { what: "stop", path: folder.path().into(), source };
        if folder.exit().map_err(failed)?.is_some() {
            return Ok(());
        }
        let is_there = folder.path().exists();
        if is_there && folder.stop_reason().is_none() {
            folder.ask_stop(why).or_else(|_| folder.remove_spec()).map_err(failed)?;
        }
        let poll = self.ground.poll;
        self.snapshot(poll).await?;
        let Some(job) = self.job(key, folder.job().map_err(failed)?.as_ref()) else { return Ok(()) };
        let grace = folder.spec().ok().flatten().map_or(0, |spec| spec.grace_ms);
        let watch = self.watch.entry(key.clone()).or_default();
        let asked = *watch.asked.get_or_insert_with(Instant::now);
        let due = match job.state {
            JobState::Waiting { .. } => true,
            JobState::Running => !is_there || asked.elapsed() > Duration::from_millis(grace) + STOP_MARGIN,
            // it was kept until its end was recorded and acknowledged
            JobState::Ended { .. } => self.controller.keeps_ended() && !is_there,
        };
        let again = watch.cancelled.is_none_or(|at| at.elapsed() > STOP_MARGIN);
        if due && again && self.is_unwanted(&job) {
            if let Some(watch) = self.watch.get_mut(key) {
                watch.cancelled = Some(Instant::now());
            }
            self.controller.cancel(&job.id).await?;
            self.seen = None;
        }
        Ok(())
    }

    /// Whether nobody in the job's gang wants it any more; of one that waits, one is enough: a gang is all or nothing.
    fn is_unwanted(&self, job: &SiteJob) -> bool {
        let Some(mark) = &job.mark else { return false };
        matches!(job.state, JobState::Waiting { .. })
            || mark.keys().all(|key| {
                let folder = Folder::of(&self.ground.root, &key);
                !folder.path().exists() || folder.stop_reason().is_some() || folder.exit().is_ok_and(|e| e.is_some())
            })
    }
}

impl<C: Controller> Runtime for Batch<C> {
    fn admit(&self, work: &Work) -> Result<(), RuntimeError> {
        spec::admit(work)?;
        self.controller.admit(work)
    }

    async fn start(&mut self, key: &AssignmentKey, work: &Work) -> Result<(), RuntimeError> {
        self.begin(key, work).await
    }

    async fn observe(&mut self, key: &AssignmentKey) -> Result<Observed, RuntimeError> {
        self.look(key).await
    }

    async fn logs(&mut self, key: &AssignmentKey, from: u64, most: usize) -> Result<String, RuntimeError> {
        let folder = self.folder(key);
        let failed = |source| RuntimeError::Run { what: "read the output of", path: folder.path().into(), source };
        log::read(&folder.log(), from, most).map_err(failed)
    }

    async fn stop(&mut self, key: &AssignmentKey, why: &str) -> Result<(), RuntimeError> {
        self.end(key, why).await
    }

    async fn list_owned(&mut self) -> Result<Listing, RuntimeError> {
        let failed = |source| RuntimeError::Run { what: "list", path: self.ground.root.clone(), source };
        let mut owned = spec::list(&self.ground.root).map_err(failed)?;
        let owner = self.ground.owner.clone();
        let snapshot = self.snapshot(Duration::ZERO).await?.clone();
        let mut unmanaged = self.beyond(&snapshot);
        unmanaged.extend(snapshot.unmanaged);
        let mut held = Vec::new();
        for job in &snapshot.jobs {
            match job.mark.as_ref().filter(|mark| mark.owner == owner) {
                Some(mark) => {
                    owned.extend(mark.keys());
                    held.extend(job.usage());
                }
                None => unmanaged.extend(job.usage()),
            }
        }
        unmanaged.sort();
        Ok(Listing { owned, held, unmanaged, nodes: snapshot.nodes })
    }

    fn folder(&self, key: &AssignmentKey) -> Folder {
        Folder::of(&self.ground.root, key)
    }
}

/// `claim.json`: what a run takes of its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    node: NodeName,
    devices: usize,
    cpu: Cores,
    memory: Bytes,
}

fn claim_file(folder: &Folder) -> PathBuf {
    folder.path().join("claim.json")
}

/// As its supervisor tells it, by whichever clock is good for its host.
fn running(folder: &Folder) -> io::Result<Observed> {
    let Some(started) = folder.started()? else { return Ok(Observed::Starting { why: String::new() }) };
    let ran_us = if started.host_boot == host::boot_id() {
        BootTime::now().since(started.boottime)
    } else {
        u64::try_from(host::wall_us().saturating_sub(started.wall_us)).unwrap_or(0)
    };
    Ok(Observed::Running { ran_us, started_us: started.wall_us })
}

/// The keys of a mark, in order.
impl Mark {
    pub fn carries(&self, key: &AssignmentKey) -> bool {
        (self.order, self.generation, &self.component) == (key.order, key.generation, &key.component)
            && self.replicas.contains(&key.replica)
    }

    pub fn keys(&self) -> impl Iterator<Item = AssignmentKey> + '_ {
        self.replicas.iter().map(|&replica| AssignmentKey {
            order: self.order,
            generation: self.generation,
            component: self.component.clone(),
            replica,
        })
    }

    fn new(owner: &str, lead: uuid::Uuid, gang: &[AssignmentKey]) -> Self {
        let AssignmentKey { order, generation, ref component, .. } = gang[0];
        let replicas: BTreeSet<u32> = gang.iter().map(|key| key.replica).collect();
        Self { owner: owner.to_owned(), lead, order, generation, component: component.clone(), replicas }
    }
}
