//! The site of one case: a runtime with a home of its own, and patience.

use crate::Program;
use futures::future::BoxFuture;
use rhumb_model::{ComponentName, NodeName, OrderId};
use rhumb_runtimes::{Ended, Listing, Observed, Runtime, RuntimeError, Work};
use rhumb_wire::report::AssignmentKey;
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use uuid::Uuid;

/// Longest that anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// A kind of runtime, and what is around it.
pub trait Stand: Send + Sync + 'static {
    type Runtime: Runtime;

    /// The runtime as an agent's start makes it: what was under the same home before is still there.
    fn open(&self, owner: &str, home: &Path) -> Self::Runtime;

    /// A node that work may go to.
    fn node(&self) -> NodeName;

    /// Whether commands are real processes of this host.
    fn is_real(&self) -> bool {
        true
    }

    /// Whether a process that a run wrote down is there, where the run is.
    fn lives<'a>(&'a self, _: &'a AssignmentKey, pid: i32) -> BoxFuture<'a, bool> {
        Box::pin(async move { lives(pid) })
    }

    /// Ends a process of a run in a way that leaves it no last word.
    fn kill<'a>(&'a self, _: &'a AssignmentKey, pid: i32) -> BoxFuture<'a, ()> {
        std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        Box::pin(async {})
    }

    /// How many runs make many.
    fn many(&self) -> usize;

    /// Whether replicas can start as one.
    fn has_gangs(&self) -> bool;

    /// Starts work of somebody else that looks like that of `key` and holds so many devices; gives what it is called.
    fn foreign<'a>(&'a self, key: &'a AssignmentKey, devices: u32) -> BoxFuture<'a, String>;

    fn foreign_lives<'a>(&'a self, id: &'a str) -> BoxFuture<'a, bool>;

    fn end_foreign<'a>(&'a self, id: &'a str) -> BoxFuture<'a, ()>;

    /// Whether the runtime sees the devices of foreign work.
    fn sees_foreign(&self) -> bool;

    /// Makes the site forget what it knows of the ended run of `key`; its folder is not the site's.
    fn clean_up<'a>(&'a self, key: &'a AssignmentKey) -> BoxFuture<'a, ()>;
}

#[derive(Debug)]
pub struct Site<'a, S: Stand> {
    pub stand: &'a S,
    pub home: TempDir,
    pub owner: String,
    pub runtime: S::Runtime,
}

impl<'a, S: Stand> Site<'a, S> {
    pub fn new(stand: &'a S) -> Self {
        // below a folder that every user may enter: nodes' daemons may be another
        let home = TempDir::new().unwrap();
        let owner = format!("site-{}", &Uuid::now_v7().simple().to_string()[20..]);
        let runtime = stand.open(&owner, home.path());
        Self { stand, home, owner, runtime }
    }

    /// As if the agent were killed and started again.
    pub fn restart(&mut self) {
        self.runtime = self.stand.open(&self.owner, self.home.path());
    }

    pub fn work(&self, program: &Program) -> Work {
        program.work(&self.stand.node())
    }

    /// As an agent does it, which asks again where a scheduler does not answer in time.
    pub async fn begin(&mut self, key: &AssignmentKey, work: &Work) {
        let end = Instant::now() + PATIENCE;
        while let Err(error) = self.runtime.start(key, work).await {
            patient(end, &error).await;
        }
    }

    pub async fn observe(&mut self, key: &AssignmentKey) -> Observed {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.runtime.observe(key).await {
                Ok(observed) => return observed,
                Err(error) => patient(end, &error).await,
            }
        }
    }

    pub async fn stop(&mut self, key: &AssignmentKey, why: &str) {
        let end = Instant::now() + PATIENCE;
        while let Err(error) = self.runtime.stop(key, why).await {
            patient(end, &error).await;
        }
    }

    pub async fn list(&mut self) -> Listing {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.runtime.list_owned().await {
                Ok(listing) => return listing,
                Err(error) => patient(end, &error).await,
            }
        }
    }

    pub async fn start(&mut self, key: &AssignmentKey, program: &Program) {
        let work = self.work(program);
        self.begin(key, &work).await;
    }

    /// Starts it and waits until it runs and says so.
    pub async fn up(&mut self, key: &AssignmentKey, program: &Program) {
        self.start(key, program).await;
        self.is_up(key).await;
    }

    pub async fn is_up(&mut self, key: &AssignmentKey) {
        let end = Instant::now() + PATIENCE;
        loop {
            let observed = self.observe(key).await;
            let runs = matches!(observed, Observed::Running { .. });
            if runs && self.runtime.logs(key, 0, 1_000).await.unwrap().contains("up\n") {
                return;
            }
            assert!(
                Instant::now() < end && !matches!(observed, Observed::Ended(_)),
                "it does not come up: {observed:?}"
            );
            pause().await;
        }
    }

    pub async fn ended(&mut self, key: &AssignmentKey) -> Ended {
        let end = Instant::now() + PATIENCE;
        loop {
            let observed = self.observe(key).await;
            if let Observed::Ended(ended) = observed {
                return ended;
            }
            assert!(Instant::now() < end, "waited in vain for the end: {observed:?}");
            pause().await;
        }
    }

    /// Asks for the end, as an agent does it: until it is reached.
    pub async fn stopped(&mut self, key: &AssignmentKey, why: &str) -> Ended {
        let end = Instant::now() + PATIENCE;
        loop {
            self.stop(key, why).await;
            let observed = self.observe(key).await;
            if let Observed::Ended(ended) = observed {
                return ended;
            }
            assert!(Instant::now() < end, "waited in vain for the end: {observed:?}");
            pause().await;
        }
    }

    /// Lets a program that waits come to its end.
    pub fn release(&self, key: &AssignmentKey) {
        fs::write(self.runtime.folder(key).path().join("work/end"), "").unwrap();
    }

    pub async fn log(&mut self, key: &AssignmentKey) -> String {
        self.runtime.logs(key, 0, 64 << 20).await.unwrap()
    }

    pub async fn owned(&mut self) -> BTreeSet<AssignmentKey> {
        self.list().await.owned
    }

    /// Forgets a run as an agent does it.
    pub fn forget(&self, key: &AssignmentKey) {
        let folder = self.runtime.folder(key);
        // what still runs may write into it meanwhile
        let end = Instant::now() + PATIENCE;
        while folder.path().exists() {
            let _ = fs::remove_dir_all(folder.path());
            assert!(Instant::now() < end, "the folder cannot be removed");
        }
    }

    /// How often `Program::Count` ran here.
    pub fn count(&self, key: &AssignmentKey) -> usize {
        let file = self.runtime.folder(key).path().parent().unwrap().join("count");
        fs::read_to_string(file).map_or(0, |text| text.lines().count())
    }

    /// A process number that a run wrote into its folder.
    pub async fn written(&self, key: &AssignmentKey, file: &str) -> i32 {
        let path = self.runtime.folder(key).path().join("work").join(file);
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(pid) = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok()) {
                return pid;
            }
            assert!(Instant::now() < end, "waited in vain for {}", path.display());
            pause().await;
        }
    }
}

/// Only silence of a scheduler is to be waited for.
async fn patient(end: Instant, error: &RuntimeError) {
    assert!(matches!(error, RuntimeError::Site { .. }) && Instant::now() < end, "{error}");
    pause().await;
}

pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// An order of this case alone.
pub fn key() -> AssignmentKey {
    AssignmentKey {
        order: OrderId(Uuid::now_v7()),
        generation: 1,
        component: ComponentName::new("trainer").unwrap(),
        replica: 0,
    }
}

/// Whether a process is there and not just waiting to be reaped.
pub fn lives(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z')))
}
