//! `rhumb demo` as a process of the test.

use crate::{
    cli::{Cli, binary, project},
    patience::{secs, wait_until},
    processes,
};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Longest start that is waited for; what a user may expect is asserted where the start is the matter.
const START: Duration = secs(90);
/// Lines of output kept, and lines of each log shown when a test fails.
const KEPT: usize = 2_000;
const SHOWN: usize = 60;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A running federation.
#[derive(Debug)]
pub struct Demo {
    pub cli: Cli,
    /// From the start of the process until it said that it is ready.
    pub ready_after: Duration,
    child: Child,
    said: Arc<Mutex<VecDeque<String>>>,
    folder: PathBuf,
    /// Kept until an interrupt hands it on.
    home: Option<Home>,
}

/// The folder that a federation lives in, across its restarts.
#[derive(Debug)]
pub struct Home {
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Home {
    pub fn new() -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::Builder::new().prefix("rhumb-test-").tempdir().expect("a folder for temporary files");
        Self { folder, _turn: turn }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Demo {
    /// A new federation.
    pub fn start() -> Self {
        Self::start_in(Home::new(), &["--fresh"])
    }

    /// A federation in a folder that may have been one before.
    pub fn start_in(home: Home, args: &[&str]) -> Self {
        let data = home.data();
        let scratch = home.folder.path().join("scratch");
        fs::create_dir_all(&scratch).expect("the temporary folder can be written");
        let address = free_address();
        let begun = Instant::now();
        let mut child = Command::new(binary())
            .args(["demo", "--listen", &address, "--data"])
            .arg(&data)
            .args(args)
            .current_dir(project())
            .env_remove("RHUMB_URL")
            .env_remove("RHUMB_TOKEN")
            .env("RUST_BACKTRACE", "1")
            // a group of its own, as a shell gives it: the interrupt key reaches all of it
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("rhumb can be started");
        let said = Arc::new(Mutex::new(VecDeque::new()));
        listen(child.stdout.take(), &said);
        listen(child.stderr.take(), &said);
        let cli = Cli { url: format!("http://{address}"), token: String::new(), data, scratch, inside: None };
        let folder = home.folder.path().to_path_buf();
        let mut demo = Self { cli, ready_after: Duration::ZERO, child, said, folder, home: Some(home) };
        demo.cli.token = wait_until(START, "the demo says RHUMB_TOKEN=", || {
            if let Some(status) = demo.child.try_wait().map_err(|e| e.to_string())? {
                panic!("rhumb demo ended with {status} before it was ready");
            }
            demo.said_line("RHUMB_TOKEN=").ok_or_else(|| "it has not said it".to_owned())
        });
        demo.ready_after = begun.elapsed();
        demo
    }

    /// What follows `prefix` on the first line of output that begins with it.
    pub fn said_line(&self, prefix: &str) -> Option<String> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.iter().find_map(|l| l.trim().strip_prefix(prefix).map(|rest| rest.trim().to_owned()))
    }

    /// Process id of `server`, or of the agent of a site or relay point.
    pub fn pid(&self, name: &str) -> u32 {
        let pids = self.pids();
        *pids.get(name).unwrap_or_else(|| panic!("pids.json has no {name}: {pids:?}"))
    }

    pub fn pids(&self) -> BTreeMap<String, u32> {
        let path = self.cli.data.join("pids.json");
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
        let pids: BTreeMap<String, Value> = serde_json::from_str(&text).expect("pids.json is an object");
        pids.into_iter().filter_map(|(name, pid)| Some((name, u32::try_from(pid.as_u64()?).ok()?))).collect()
    }

    /// Everything that has to do with this federation and has not ended.
    pub fn processes(&self) -> Vec<processes::Process> {
        processes::of_folder(&self.folder)
    }

    /// The interrupt key: the whole group gets the signal at once. Returns the folder once the demo has ended.
    ///
    /// # Panics
    /// When it has not ended within `limit`, or not with success.
    pub fn interrupt(mut self, limit: Duration) -> Home {
        self.signal_group(Signal::INT);
        let status = wait_until(limit, "the demo ends after an interrupt", || {
            self.child.try_wait().map_err(|e| e.to_string())?.ok_or_else(|| "it runs".to_owned())
        });
        assert!(status.success(), "an interrupted demo ended with {status}");
        self.home.take().expect("a demo is interrupted once")
    }

    /// The launcher alone is gone from one moment to the next. Returns the folder once nothing of the federation runs.
    ///
    /// # Panics
    /// When something still runs after `limit`.
    pub fn kill(mut self, limit: Duration) -> Home {
        processes::kill(self.child.id());
        self.child.wait().expect("a killed child can be waited for");
        wait_until(limit, "the federation ends with its launcher", || match self.processes() {
            left if left.is_empty() => Ok(()),
            left => Err(left.iter().map(|p| format!("{} {}", p.pid, p.command)).collect::<Vec<_>>().join("; ")),
        });
        self.home.take().expect("a demo is killed once")
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // it may have ended by itself
            let _ = kill_process_group(group, signal);
        }
    }

    /// Nothing was said that a person must act on.
    ///
    /// # Panics
    /// Where a process panicked or wrote an error.
    pub fn said_no_errors(&self) {
        for (name, text) in self.logs() {
            let found: Vec<_> = text.lines().filter(|l| l.contains("panicked at") || l.contains(" ERROR ")).collect();
            assert!(found.is_empty(), "{name}: {found:?}");
        }
    }

    fn logs(&self) -> Vec<(String, String)> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = vec![("rhumb demo".to_owned(), said.iter().cloned().collect::<Vec<_>>().join("\n"))];
        logs_below(&self.cli.data, &mut found);
        found
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if thread::panicking() {
            for (name, text) in self.logs() {
                let lines: Vec<_> = text.lines().collect();
                println!("--- {name}");
                lines[lines.len().saturating_sub(SHOWN)..].iter().for_each(|l| println!("{l}"));
            }
        }
        let running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        if running(&mut self.child) {
            self.signal_group(Signal::INT);
            let until = Instant::now() + secs(15);
            while running(&mut self.child) && Instant::now() < until {
                thread::sleep(Duration::from_millis(50));
            }
        }
        self.signal_group(Signal::KILL);
        let _ = self.child.wait();
        for left in processes::of_folder(&self.folder) {
            println!("ended by the harness: {} {}", left.pid, left.command);
            // it may have ended by itself
            let _ = processes::signal(left.pid, Signal::KILL);
        }
    }
}

/// An address that was free a moment ago.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port of this machine");
    listener.local_addr().expect("a bound socket has an address").to_string()
}

fn listen(pipe: Option<impl Read + Send + 'static>, said: &Arc<Mutex<VecDeque<String>>>) {
    let (pipe, said) = (pipe.expect("output is a pipe"), Arc::clone(said));
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            if said.len() == KEPT {
                // the first lines say where it listens and how it is asked
                said.remove(KEPT / 2);
            }
            said.push_back(line);
        }
    });
}

fn logs_below(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            logs_below(&path, found);
        } else if path.extension().is_some_and(|e| e == "log") {
            found.push((
                path.display().to_string(),
                String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned(),
            ));
        }
    }
}
