//! The processes of a run, all of them: found through `/proc`, killed, and counted until none is left.

use crate::folder::{KEY_VARIABLE, ROOT_VARIABLE, RUN_VARIABLE};
use rustix::{
    io::Errno,
    process::{self, Pid, PidfdFlags, Signal, WaitOptions},
};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};
use uuid::Uuid;

/// Pauses between looks at processes that are being killed.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// A line of `/proc/<pid>/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    /// Dead already, and only waited for by its parent.
    dead: bool,
}

/// Kills everything below the calling process, which must be the reaper of its descendants, and reaps it. Returns once none is
/// left, however long that takes: a process in the kernel's hands cannot be killed, and the run has not ended before it is.
pub(crate) fn end_descendants(group: Option<Pid>) {
    if let Some(group) = group {
        // its first process is not reaped yet, so the number is still this group's
        let _ = process::kill_process_group(group, Signal::KILL);
    }
    let mut pause = FIRST_PAUSE;
    while !reap_all() {
        for pid in descendants(process::getpid().as_raw_nonzero().get()) {
            // a descendant's number stays its own until it is reaped, and only this process reaps
            let _ = Pid::from_raw(pid).map(|pid| process::kill_process(pid, Signal::KILL));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Reaps what has ended; true: no child is left.
fn reap_all() -> bool {
    loop {
        match process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Reaps descendants that ended and were left behind, but not `main`.
pub(crate) fn reap_orphans(main: Pid) {
    let own = process::getpid().as_raw_nonzero().get();
    for stat in all() {
        if stat.dead && stat.parent == own && stat.pid != main.as_raw_nonzero().get() {
            let _ = Pid::from_raw(stat.pid).map(|pid| process::waitpid(Some(pid), WaitOptions::NOHANG));
        }
    }
}

/// What is known of a run whose supervisor died.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traces {
    pub(crate) run: Uuid,
    /// Session of the supervisor and group of the command.
    pub(crate) session: i32,
    pub(crate) group: Option<i32>,
}

/// Kills what is left of a run and waits until it is gone, `limit` at most; true: nothing is left.
pub(crate) fn sweep(traces: Traces, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    let mut pause = FIRST_PAUSE;
    loop {
        let left = find(traces);
        if left.is_empty() {
            return true;
        }
        for pid in left {
            kill_if(pid, traces);
        }
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn find(traces: Traces) -> Vec<i32> {
    all().into_iter().filter(|stat| belongs(*stat, traces)).map(|stat| stat.pid).collect()
}

/// By the mark in its environment, or by group and session together where it changed its environment.
fn belongs(stat: Stat, traces: Traces) -> bool {
    !stat.dead && ((traces.group == Some(stat.group) && stat.session == traces.session) || marked(stat.pid, traces.run))
}

fn marked(pid: i32, run: Uuid) -> bool {
    let mark = format!("{RUN_VARIABLE}={run}");
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environment| environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes()))
}

/// Names of the runs below `root` that any process bears the marks of, dead or alive their folders.
pub(crate) fn of_runs(root: &Path) -> BTreeSet<String> {
    all().into_iter().filter(|stat| !stat.dead).filter_map(|stat| run_of(root, stat.pid)).collect()
}

/// Kills what bears the marks of one run, whose folder is gone.
pub(crate) fn end_run(root: &Path, name: &str) {
    for stat in all().into_iter().filter(|stat| !stat.dead) {
        let Some(pid) = Pid::from_raw(stat.pid) else { continue };
        let Ok(handle) = process::pidfd_open(pid, PidfdFlags::empty()) else { continue };
        // its number may have become another's before it was opened, not after
        if run_of(root, stat.pid).is_some_and(|run| run == name) {
            let _ = process::pidfd_send_signal(&handle, Signal::KILL);
        }
    }
}

fn run_of(root: &Path, pid: i32) -> Option<String> {
    let root = format!("{ROOT_VARIABLE}={}", root.display());
    let key = format!("{KEY_VARIABLE}=");
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|&byte| byte == 0);
    if !variables.clone().any(|variable| variable == root.as_bytes()) {
        return None;
    }
    let name = variables.find_map(|variable| variable.strip_prefix(key.as_bytes()))?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Kills the process only if it is still the one that was found: its number may have become another's.
fn kill_if(pid: i32, traces: Traces) {
    let Some(pid) = Pid::from_raw(pid) else { return };
    let Ok(handle) = process::pidfd_open(pid, PidfdFlags::empty()) else { return };
    if stat(pid.as_raw_nonzero().get()).is_some_and(|stat| belongs(stat, traces)) {
        let _ = process::pidfd_send_signal(&handle, Signal::KILL);
    }
}

/// Everything below `root`, not yet dead.
fn descendants(root: i32) -> BTreeSet<i32> {
    let all = all();
    let mut found = BTreeSet::from([root]);
    loop {
        let before = found.len();
        for stat in &all {
            if found.contains(&stat.parent) {
                found.insert(stat.pid);
            }
        }
        if found.len() == before {
            break;
        }
    }
    found.remove(&root);
    all.iter().filter(|stat| stat.dead).for_each(|stat| {
        found.remove(&stat.pid);
    });
    found
}

fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?)).collect()
}

fn stat(pid: i32) -> Option<Stat> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name of a process may hold anything, brackets too, so it ends at the last one.
fn parse(pid: i32, line: &str) -> Option<Stat> {
    let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let mut number = || fields.next()?.parse().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    Some(Stat { pid, parent, group, session, dead: matches!(state, "Z" | "X" | "x") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_process_name_does_not_mislead() {
        let line = "42 (a) Z 1 1 1 (b) S 7 8 9 0 -1 4194560 0";
        let expected = Stat { pid: 42, parent: 7, group: 8, session: 9, dead: false };
        assert_eq!(parse(42, line), Some(expected));
        assert_eq!(parse(42, "42 (x"), None);
    }

    #[test]
    fn this_process_is_found() {
        let own = std::process::id() as i32;
        assert!(all().iter().any(|stat| stat.pid == own && !stat.dead));
    }
}
