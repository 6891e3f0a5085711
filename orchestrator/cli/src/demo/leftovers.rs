//! What an earlier demo, or a killed agent, left running: ended before a start and after a stop.
//!
//! Runs are under supervisors of their own, which outlive an agent that was killed. They end their run, all of it, when a file
//! `stop` stands in the run's folder.

use super::layout::Layout;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Children of a killed demo end by themselves, with their work.
const CHILDREN: Duration = Duration::from_secs(20);
/// Runs get their grace.
const RUNS: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(50);
/// Marks every process of a run in its environment; `HOME` is in the run's folder.
const RUN_MARK: &[u8] = b"RHUMB_RUN=";

/// Ends everything that belongs to the demo in this folder; blocks until it is gone. Its lock must be held.
pub fn end(layout: &Layout) {
    let children = || children(layout);
    if !wait(CHILDREN, || children().is_empty()) {
        kill_all(&children);
    }
    end_runs(layout);
}

/// Ends the runs of agents that are gone.
pub fn end_runs(layout: &Layout) {
    let supervisors = || supervisors(layout);
    for (_, folder) in supervisors() {
        // one that cannot be asked is killed below
        let _ = fs::write(folder.join("stop"), "the demo was stopped");
    }
    if !wait(RUNS, || supervisors().is_empty()) {
        kill_all(&|| supervisors().into_iter().map(|(pid, _)| pid).collect());
    }
    kill_all(&|| of_runs(layout));
}

fn wait(limit: Duration, done: impl Fn() -> bool) -> bool {
    let until = Instant::now() + limit;
    while !done() {
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(LOOK);
    }
    true
}

/// Kills until none is found, for a while.
fn kill_all(find: &dyn Fn() -> Vec<i32>) {
    wait(Duration::from_secs(5), || {
        let found = find();
        for raw in &found {
            let Some(pid) = Pid::from_raw(*raw) else { continue };
            let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            // its number may have become another's between the look and the handle
            if find().contains(raw) {
                let _ = pidfd_send_signal(&handle, Signal::KILL);
            }
        }
        found.is_empty()
    });
}

/// Children that `pids.json` names and whose command line is still that of this folder.
fn children(layout: &Layout) -> Vec<i32> {
    let text = fs::read_to_string(layout.pids()).unwrap_or_default();
    let pids: BTreeMap<String, i32> = serde_json::from_str(&text).unwrap_or_default();
    let own = |(name, pid): (&String, &i32)| {
        let config = layout.config(name);
        words(*pid).iter().any(|word| Path::new(OsStr::from_bytes(word)) == config).then_some(*pid)
    };
    pids.iter().filter_map(own).collect()
}

/// Supervisors of runs in this folder, each with its run's folder.
fn supervisors(layout: &Layout) -> Vec<(i32, PathBuf)> {
    let agents = layout.agents();
    let own = |pid: i32| {
        let words = words(pid);
        let [_, verb, folder, ..] = &words[..] else { return None };
        let folder = PathBuf::from(OsStr::from_bytes(folder));
        (verb == rhumb_agent::SUPERVISE.as_bytes() && folder.starts_with(&agents)).then_some((pid, folder))
    };
    processes().into_iter().filter_map(own).collect()
}

/// Processes of runs in this folder, whoever watches over them.
fn of_runs(layout: &Layout) -> Vec<i32> {
    let agents = layout.agents();
    let own = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let variables: Vec<&[u8]> = environment.split(|b| *b == 0).collect();
        variables.iter().any(|v| v.starts_with(RUN_MARK))
            && variables.iter().any(|v| {
                let home = v.strip_prefix(b"HOME=").map(|home| Path::new(OsStr::from_bytes(home)));
                home.is_some_and(|home| home.starts_with(&agents))
            })
    };
    processes().into_iter().filter(own).collect()
}

fn processes() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The command line; of a process that is gone or a zombie, nothing.
fn words(pid: i32) -> Vec<Vec<u8>> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|b| *b == 0).filter(|w| !w.is_empty()).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn run_of(layout: &Layout, home: &Path) -> Child {
        let _ = layout;
        let mut command = Command::new("sleep");
        command.arg("60").env("RHUMB_RUN", "0190d3a4").env("HOME", home);
        command.stdin(Stdio::null()).spawn().unwrap()
    }

    #[test]
    fn a_run_without_its_agent_is_ended_and_a_strangers_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (layout, _lock) = Layout::open(&folder.path().join("demo"), false).unwrap();
        let mut own = run_of(&layout, &layout.agent("a").join("runs/x/work"));
        let mut foreign = run_of(&layout, Path::new("/nowhere"));
        let reaper = std::thread::spawn(move || own.wait().unwrap());
        end(&layout);
        assert!(!reaper.join().unwrap().success());
        assert!(foreign.try_wait().unwrap().is_none());
        foreign.kill().unwrap();
        foreign.wait().unwrap();
    }

    #[test]
    fn a_number_that_became_anothers_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (layout, _lock) = Layout::open(&folder.path().join("demo"), false).unwrap();
        let pids = format!("{{\"server\": {}}}", std::process::id());
        fs::write(layout.pids(), pids).unwrap();
        assert_eq!(children(&layout), Vec::<i32>::new());
    }
}
