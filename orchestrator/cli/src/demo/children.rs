//! The demo's child processes: started, watched, started again when they die, and ended together.
//!
//! Each child has an open pipe as standard input and ends when it closes: however the demo dies, its children follow.

use super::layout::replace;
use crate::output::say;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::File,
    io,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    process::{Child, Command},
    sync::watch,
    task::JoinSet,
};

/// A child that lived no longer than this, and was not killed, has a fault of its own: the pause before its next start doubles.
const SHORT_LIFE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How to run one child.
#[derive(Debug, Clone)]
pub struct Plan {
    pub name: String,
    pub arguments: Vec<OsString>,
    pub log: PathBuf,
    /// Between its death and its next start.
    pub pause: Duration,
    /// Written by the child; of no use once it is dead.
    pub forget: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Up,
    /// Killed, and not started again.
    Down,
    /// Asked to end.
    Ended,
    /// Killed, and over.
    Killed,
}

#[derive(Debug)]
struct State {
    pid: Option<u32>,
    starts: u32,
    wanted: watch::Sender<Wanted>,
}

#[derive(Debug)]
pub struct Children {
    shared: Arc<Shared>,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct Shared {
    executable: PathBuf,
    pids: PathBuf,
    states: Mutex<BTreeMap<String, State>>,
    /// Counts every change of a state.
    changes: watch::Sender<u64>,
}

/// A child as `demo status` shows it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ChildStatus {
    pub name: String,
    pub pid: Option<u32>,
    pub starts: u32,
    /// False: stopped by hand.
    pub wanted: bool,
}

impl Children {
    /// `pids` is the file that says which process is whose.
    pub fn new(pids: PathBuf) -> Self {
        let shared =
            Shared { executable: own_executable(), pids, states: Mutex::default(), changes: watch::Sender::new(0) };
        Self { shared: Arc::new(shared), tasks: Mutex::default() }
    }

    /// Must be called within a tokio runtime.
    pub fn add(&self, plan: Plan) {
        let (wanted, asked) = watch::channel(Wanted::Up);
        let state = State { pid: None, starts: 0, wanted };
        self.shared.states().insert(plan.name.clone(), state);
        let shared = Arc::clone(&self.shared);
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(async move { shared.tend(&plan, asked).await });
    }

    pub fn status(&self) -> Vec<ChildStatus> {
        let states = self.shared.states();
        let shown = |(name, state): (&String, &State)| ChildStatus {
            name: name.clone(),
            pid: state.pid,
            starts: state.starts,
            wanted: *state.wanted.borrow() == Wanted::Up,
        };
        states.iter().map(shown).collect()
    }

    /// Kills the child (SIGKILL) and does not start it again; false: there is none of that name. Done once it is dead.
    pub async fn stop(&self, name: &str) -> bool {
        self.shared.want(name, Wanted::Down)
            && self.until(|states| states.get(name).is_none_or(|s| s.pid.is_none())).await
    }

    /// Starts a stopped child again; false: there is none of that name. Done once it is there.
    pub async fn start(&self, name: &str) -> bool {
        self.shared.want(name, Wanted::Up)
            && self.until(|states| states.get(name).is_none_or(|s| s.pid.is_some())).await
    }

    /// Asks these to end and waits; kills what is left at the limit, or when `hurry` is done.
    pub async fn end(&self, names: &[String], limit: Duration, hurry: impl Future<Output = ()>) {
        self.shared.want_all(names, Wanted::Ended);
        let gone = || self.until(|states| names.iter().all(|n| states.get(n).is_none_or(|s| s.pid.is_none())));
        tokio::select! {
            _ = gone() => return,
            () = tokio::time::sleep(limit) => say("some children do not end by themselves and are killed"),
            () = hurry => say("the children are killed"),
        }
        self.shared.want_all(names, Wanted::Killed);
        gone().await;
    }

    /// Waits until the states are so; true.
    async fn until(&self, so: impl Fn(&BTreeMap<String, State>) -> bool) -> bool {
        let mut changes = self.shared.changes.subscribe();
        while !so(&self.shared.states()) {
            if changes.changed().await.is_err() {
                break;
            }
        }
        true
    }
}

impl Shared {
    fn states(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn want(&self, name: &str, wanted: Wanted) -> bool {
        let states = self.states();
        let Some(state) = states.get(name) else { return false };
        // what is over stays so
        state.wanted.send_if_modified(|now| {
            let changes =
                *now != wanted && *now != Wanted::Killed && !(*now == Wanted::Ended && wanted != Wanted::Killed);
            if changes {
                *now = wanted;
            }
            changes
        });
        true
    }

    fn want_all(&self, names: &[String], wanted: Wanted) {
        for name in names {
            self.want(name, wanted);
        }
    }

    fn set(&self, name: &str, pid: Option<u32>) {
        let mut states = self.states();
        if let Some(state) = states.get_mut(name) {
            state.pid = pid;
            state.starts += u32::from(pid.is_some());
        }
        let live: BTreeMap<_, _> = states.iter().filter_map(|(name, s)| Some((name, s.pid?))).collect();
        let written = serde_json::to_vec_pretty(&live).map_err(io::Error::from).and_then(|t| replace(&self.pids, &t));
        if let Err(error) = written {
            say(&format!("cannot write {}: {error}", self.pids.display()));
        }
        drop(states);
        self.changes.send_modify(|n| *n += 1);
    }

    /// One child's life, from its first start to the end of the demo.
    async fn tend(&self, plan: &Plan, mut asked: watch::Receiver<Wanted>) {
        let mut pause = plan.pause;
        loop {
            let wanted = *asked.borrow_and_update();
            match wanted {
                Wanted::Up => {}
                Wanted::Down => {
                    if asked.changed().await.is_err() {
                        return;
                    }
                    continue;
                }
                Wanted::Ended | Wanted::Killed => return,
            }
            let begun = Instant::now();
            let mut own_fault = true;
            let end = match self.spawn(plan) {
                Ok(child) => {
                    self.set(&plan.name, child.id());
                    let end = watch_over(child, &mut asked).await;
                    plan.forget.iter().for_each(|file| drop(std::fs::remove_file(file)));
                    self.set(&plan.name, None);
                    own_fault = !end.as_ref().is_ok_and(|status| was_killed(*status));
                    end.map_or_else(|e| e.to_string(), shown)
                }
                Err(error) => format!("cannot be started: {error}"),
            };
            let wanted = *asked.borrow();
            match wanted {
                Wanted::Up => {}
                Wanted::Down => {
                    say(&format!("{} is stopped ({end})", plan.name));
                    continue;
                }
                Wanted::Ended | Wanted::Killed => return,
            }
            let short = own_fault && begun.elapsed() < SHORT_LIFE;
            pause = if short { (pause * 2).min(LONGEST_PAUSE) } else { plan.pause };
            say(&format!(
                "{} ended ({end}), starts again in {} s; see {}",
                plan.name,
                pause.as_secs(),
                plan.log.display()
            ));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = asked.changed() => asked.mark_changed(),
            }
        }
    }

    fn spawn(&self, plan: &Plan) -> io::Result<Child> {
        plan.forget.iter().for_each(|file| drop(std::fs::remove_file(file)));
        let log = File::options().create(true).append(true).open(&plan.log)?;
        let mut command = Command::new(&self.executable);
        command
            .args(&plan.arguments)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C reaches the demo alone, which ends its children in order
            .process_group(0)
            .kill_on_drop(true)
            .env_remove("RHUMB_TOKEN");
        for name in ["NO_PROXY", "no_proxy"] {
            let set = std::env::var(name).unwrap_or_default();
            command.env(name, if set.is_empty() { "127.0.0.1".to_owned() } else { format!("{set},127.0.0.1") });
        }
        if std::env::var_os("OTEL_RESOURCE_ATTRIBUTES").is_none() {
            command.env("OTEL_RESOURCE_ATTRIBUTES", format!("service.instance.id={}", plan.name));
        }
        command.spawn()
    }
}

/// Until the child is dead; does to it what is asked meanwhile.
async fn watch_over(mut child: Child, asked: &mut watch::Receiver<Wanted>) -> io::Result<ExitStatus> {
    // waiting would close it, and the child would end
    let _held = child.stdin.take();
    loop {
        tokio::select! {
            end = child.wait() => return end,
            _ = asked.changed() => {
                let wanted = *asked.borrow_and_update();
                match wanted {
                    Wanted::Up => {}
                    Wanted::Down | Wanted::Killed => child.start_kill()?,
                    // not reaped yet, so the number is still its own
                    Wanted::Ended => if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id as i32)) {
                        kill_process(pid, Signal::TERM)?;
                    },
                }
            }
        }
    }
}

/// Somebody ended it with SIGKILL: no sign that it cannot live.
fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::KILL.as_raw())
}

fn shown(status: ExitStatus) -> String {
    status.to_string()
}

/// This executable, also where its file was replaced meanwhile.
fn own_executable() -> PathBuf {
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        _ => PathBuf::from("/proc/self/exe"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        folder: tempfile::TempDir,
        children: Children,
    }

    impl World {
        /// A shell in place of this program.
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let mut children = Children::new(folder.path().join("pids.json"));
            Arc::get_mut(&mut children.shared).unwrap().executable = "/bin/sh".into();
            Self { folder, children }
        }

        fn add(&self, name: &str, script: &str) {
            self.children.add(Plan {
                name: name.to_owned(),
                arguments: vec!["-c".into(), script.into()],
                log: self.folder.path().join("log"),
                pause: Duration::from_millis(20),
                forget: None,
            });
        }

        async fn until(&self, so: impl Fn(&ChildStatus) -> bool) -> ChildStatus {
            let deadline = Instant::now() + Duration::from_secs(10);
            loop {
                if let Some(found) = self.children.status().into_iter().find(|c| so(c)) {
                    return found;
                }
                assert!(Instant::now() < deadline, "not within 10 s: {:?}", self.children.status());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }

        fn pids(&self) -> BTreeMap<String, u32> {
            serde_json::from_str(&std::fs::read_to_string(self.folder.path().join("pids.json")).unwrap()).unwrap()
        }
    }

    #[tokio::test]
    async fn a_child_that_dies_is_started_again_and_its_number_is_told() {
        let world = World::new();
        world.add("one", "exec sleep 60");
        let first = world.until(|c| c.pid.is_some()).await;
        assert_eq!(world.pids(), BTreeMap::from([("one".to_owned(), first.pid.unwrap())]));
        kill_process(Pid::from_raw(first.pid.unwrap() as i32).unwrap(), Signal::KILL).unwrap();
        let second = world.until(|c| c.starts == 2 && c.pid.is_some()).await;
        assert_ne!(second.pid, first.pid);
        world.children.end(&["one".into()], Duration::from_secs(10), std::future::pending()).await;
        assert!(world.pids().is_empty());
    }

    #[tokio::test]
    async fn a_stopped_child_stays_down_until_it_is_started() {
        let world = World::new();
        world.add("one", "exec sleep 60");
        world.until(|c| c.pid.is_some()).await;
        assert!(world.children.stop("one").await);
        let status = &world.children.status()[0];
        assert_eq!((status.pid, status.wanted), (None, false));
        assert!(world.children.start("one").await);
        assert_eq!(world.children.status()[0].starts, 2);
        assert!(!world.children.stop("two").await);
        world.children.end(&["one".into()], Duration::from_secs(10), std::future::pending()).await;
    }

    #[tokio::test]
    async fn what_does_not_end_when_asked_is_killed() {
        let world = World::new();
        world.add("deaf", "trap '' TERM; while :; do sleep 0.05; done");
        world.until(|c| c.pid.is_some()).await;
        world.children.end(&["deaf".into()], Duration::from_millis(300), std::future::pending()).await;
        assert_eq!(world.children.status()[0].pid, None);
    }

    #[tokio::test]
    async fn standard_input_stays_open_as_long_as_the_demo_lives() {
        let world = World::new();
        world.add("reader", "cat; echo done > ended");
        world.until(|c| c.pid.is_some()).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(world.children.status()[0].starts, 1, "it was not told to end");
        world.children.end(&["reader".into()], Duration::from_secs(10), std::future::pending()).await;
    }
}
