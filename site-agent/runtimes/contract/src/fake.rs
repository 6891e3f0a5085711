//! A runtime without a machine: runs are numbers that change when they are looked at. It shows what the suite asks for and no
//! more, and lets an agent be tested without processes.

use crate::{Program, Stand, program::VARIABLE};
use futures::future::BoxFuture;
use rhumb_model::{Bytes, Cores, NodeName};
use rhumb_runtimes::{
    Ended, How, Listing, Observed, Runtime, RuntimeError, Usage, Work,
    folder::{Folder, Hold},
    host::BootTime,
};
use rhumb_wire::report::AssignmentKey;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

const LOG_LIMIT: usize = 4 << 20;

/// The site: what goes on although no agent looks.
#[derive(Debug, Default)]
struct World {
    /// By their owner.
    runs: BTreeMap<(String, AssignmentKey), Run>,
    foreign: BTreeMap<String, u32>,
}

#[derive(Debug, Clone)]
struct Run {
    program: Program,
    work: Work,
    began: Option<Instant>,
    stop: Option<(String, Instant)>,
    log: String,
    ended: Option<Ended>,
}

#[derive(Debug, Clone)]
pub struct FakeRuntime {
    world: Arc<Mutex<World>>,
    owner: String,
    root: PathBuf,
}

impl FakeRuntime {
    /// What the site does by itself, up to now.
    fn advance(&self, key: &AssignmentKey, world: &mut World) {
        let gang = |replica: &u32| {
            let run = world.runs.get(&(self.owner.clone(), AssignmentKey { replica: *replica, ..key.clone() }));
            run.is_some_and(|run| run.began.is_some() || run.stop.is_none())
        };
        let Some(run) = world.runs.get(&(self.owner.clone(), key.clone())) else { return };
        let is_whole = run.work.gang.iter().all(gang);
        let folder = self.folder(key);
        let over = folder.hold().unwrap().as_ref().is_some_and(|hold: &Hold| hold.is_over(BootTime::now()));
        let Some(run) = world.runs.get_mut(&(self.owner.clone(), key.clone())) else { return };
        if over && run.stop.is_none() {
            run.stop = Some(("the lease ended without word from the orchestrator".into(), Instant::now()));
        }
        if run.ended.is_none() {
            match run.began {
                None if run.stop.is_some() => run.end(None, None),
                None if is_whole => {
                    fs::create_dir_all(folder.path().join("work")).unwrap();
                    run.began = Some(Instant::now());
                    run.begin(&folder);
                }
                None => {}
                Some(_) => run.go_on(&folder),
            }
        }
    }

    fn of(&self, key: &AssignmentKey) -> Option<Run> {
        let mut world = self.world.lock().unwrap();
        self.advance(key, &mut world);
        world.runs.get(&(self.owner.clone(), key.clone())).cloned()
    }
}

impl Run {
    fn end(&mut self, exit_code: Option<i32>, signal: Option<i32>) {
        let (how, message) = match &self.stop {
            Some((why, _)) => (How::Stopped, why.clone()),
            None => (How::Exited, String::new()),
        };
        let checkpoint = match &self.program {
            Program::Named(name, _) if self.began.is_some() => Some(name.clone()),
            _ => None,
        };
        let ran_us = self.began.map_or(0, |began| began.elapsed().as_micros() as u64);
        let started_us = self.began.map(|_| 1);
        self.ended = Some(Ended { how, exit_code, signal, ran_us, started_us, checkpoint, message });
    }

    fn say(&mut self, text: &str) {
        self.log.push_str(text);
        if self.log.len() > LOG_LIMIT {
            self.log.truncate(LOG_LIMIT);
            writeln!(self.log, "\n[output beyond {LOG_LIMIT} bytes is not kept]").unwrap();
        }
    }

    fn begin(&mut self, folder: &Folder) {
        match self.work.command.first().cloned().as_deref() {
            // devices are held
            None => return,
            Some("sh") => {}
            Some(program) => {
                self.end(Some(if program == "/" { 126 } else { 127 }), None);
                if let Some(ended) = &mut self.ended {
                    (ended.ran_us, ended.message) = (0, format!("cannot start {program}"));
                }
                return;
            }
        }
        match self.program.clone() {
            Program::Exit(code) => self.end(Some(code), None),
            Program::Die(signal) => self.end(None, Some(signal)),
            Program::Print(text, code) => {
                self.say(&text);
                self.end(Some(code), None);
            }
            Program::Raw(_, bytes) => {
                self.say(&String::from_utf8_lossy(&bytes).replace('\0', "\u{fffd}"));
                self.end(Some(0), None);
            }
            Program::Line(length) => {
                self.say(&("x".repeat(length) + "\n"));
                self.end(Some(0), None);
            }
            Program::Count => {
                let file = folder.path().parent().unwrap().join("count");
                let before = fs::read_to_string(&file).unwrap_or_default();
                fs::write(file, before + "once\n").unwrap();
                self.end(Some(0), None);
            }
            Program::Wait(_) | Program::Polite | Program::Deaf | Program::Checkpoint | Program::Named(..) => {
                self.say("up\n");
            }
        }
    }

    fn go_on(&mut self, folder: &Folder) {
        let grace = Duration::from_millis(self.work.grace_ms);
        let Some((_, asked)) = self.stop else {
            if folder.path().join("work/end").exists() {
                match self.program {
                    Program::Wait(code) => {
                        self.say("down\n");
                        self.end(Some(code), None);
                    }
                    Program::Named(_, code) => self.end(Some(code), None),
                    _ => {}
                }
            }
            return;
        };
        match (&self.program, self.work.command.is_empty()) {
            (_, true) => self.end(None, None),
            (Program::Polite, _) => {
                self.say("saved\n");
                self.end(Some(0), None);
            }
            (Program::Checkpoint, _) => {
                self.say("checkpoint\nend\n");
                self.end(Some(0), None);
            }
            (Program::Deaf, _) if asked.elapsed() < grace => {}
            (Program::Deaf, _) => self.end(None, Some(9)),
            _ => self.end(None, Some(15)),
        }
    }
}

impl Runtime for FakeRuntime {
    fn admit(&self, work: &Work) -> Result<(), RuntimeError> {
        // the rules of commands are those of the real ones
        rhumb_runtimes::admit(work)
    }

    async fn start(&mut self, key: &AssignmentKey, work: &Work) -> Result<(), RuntimeError> {
        let program = work.env.get(VARIABLE).and_then(|text| serde_json::from_str(text).ok());
        let program = program.unwrap_or(Program::Exit(0));
        let (work, log) = (work.clone(), String::new());
        let run = Run { program, work, began: None, stop: None, log, ended: None };
        self.world.lock().unwrap().runs.entry((self.owner.clone(), key.clone())).or_insert(run);
        self.of(key);
        Ok(())
    }

    async fn observe(&mut self, key: &AssignmentKey) -> Result<Observed, RuntimeError> {
        Ok(match self.of(key) {
            None => Observed::NotStarted,
            Some(Run { ended: Some(ended), .. }) => Observed::Ended(ended),
            Some(Run { began: None, .. }) => Observed::Starting { why: String::new() },
            Some(Run { began: Some(began), .. }) => {
                Observed::Running { ran_us: began.elapsed().as_micros() as u64, started_us: 1 }
            }
        })
    }

    async fn logs(&mut self, key: &AssignmentKey, from: u64, most: usize) -> Result<String, RuntimeError> {
        let Some(run) = self.of(key) else { return Ok(String::new()) };
        let rest = run.log.get(from as usize..).unwrap_or_default();
        Ok(rest[..rest.floor_char_boundary(most)].to_owned())
    }

    async fn stop(&mut self, key: &AssignmentKey, why: &str) -> Result<(), RuntimeError> {
        if let Some(run) = self.world.lock().unwrap().runs.get_mut(&(self.owner.clone(), key.clone())) {
            run.stop.get_or_insert_with(|| (why.to_owned(), Instant::now()));
        }
        Ok(())
    }

    async fn list_owned(&mut self) -> Result<Listing, RuntimeError> {
        let world = self.world.lock().unwrap();
        let mine = world.runs.keys().filter(|(owner, _)| *owner == self.owner);
        let owned: BTreeSet<AssignmentKey> = mine.map(|(_, key)| key.clone()).collect();
        let unmanaged = world.foreign.iter().map(|(id, count)| Usage {
            id: id.clone(),
            node: NodeName::new("n1").unwrap(),
            devices: BTreeSet::new(),
            count: Some(*count),
            cpu: Cores::ZERO,
            memory: Bytes::ZERO,
        });
        Ok(Listing { owned, unmanaged: unmanaged.collect(), ..Listing::default() })
    }

    fn folder(&self, key: &AssignmentKey) -> Folder {
        Folder::of(&self.root, key)
    }
}

/// A site of fakes.
#[derive(Debug, Clone, Default)]
pub struct FakeStand {
    world: Arc<Mutex<World>>,
}

impl Stand for FakeStand {
    type Runtime = FakeRuntime;

    fn open(&self, owner: &str, home: &Path) -> FakeRuntime {
        FakeRuntime { world: Arc::clone(&self.world), owner: owner.to_owned(), root: home.join("runs") }
    }

    fn node(&self) -> NodeName {
        NodeName::new("n1").unwrap()
    }

    fn is_real(&self) -> bool {
        false
    }

    fn many(&self) -> usize {
        1_000
    }

    fn has_gangs(&self) -> bool {
        true
    }

    fn foreign<'a>(&'a self, key: &'a AssignmentKey, devices: u32) -> BoxFuture<'a, String> {
        let id = format!("foreign-{}", key.order);
        self.world.lock().unwrap().foreign.insert(id.clone(), devices);
        Box::pin(async { id })
    }

    fn foreign_lives<'a>(&'a self, id: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async { self.world.lock().unwrap().foreign.contains_key(id) })
    }

    fn end_foreign<'a>(&'a self, id: &'a str) -> BoxFuture<'a, ()> {
        self.world.lock().unwrap().foreign.remove(id);
        Box::pin(async {})
    }

    fn sees_foreign(&self) -> bool {
        true
    }

    fn clean_up<'a>(&'a self, _: &'a AssignmentKey) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}
