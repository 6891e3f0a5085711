//! Processes of this machine, as `/proc` shows them.

use rustix::process::{Pid, Signal, kill_process};
use std::{collections::BTreeMap, fs, os::unix::ffi::OsStrExt, path::Path};

#[derive(Debug, Clone)]
pub struct Process {
    pub pid: u32,
    pub command: String,
    pub environment: BTreeMap<String, String>,
}

/// All that have to do with `folder`: named in the command line or the environment, or worked in.
pub fn of_folder(folder: &Path) -> Vec<Process> {
    let name = folder.as_os_str().as_bytes();
    let names = |bytes: &[u8]| bytes.windows(name.len()).any(|w| w == name);
    let own = std::process::id();
    living()
        .filter(|pid| *pid != own)
        .filter(|pid| {
            let file = |what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
            let stands_in = fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
            names(&file("cmdline")) || names(&file("environ")) || stands_in
        })
        .map(read)
        .collect()
}

/// The work of one order: what has `RHUMB_ORDER` in its environment.
pub fn of_order(id: &str) -> Vec<Process> {
    living().map(read).filter(|p| p.environment.get("RHUMB_ORDER").is_some_and(|o| o == id)).collect()
}

/// Ends a process at once, as a power cut would.
///
/// # Panics
/// When there is no such process: a test that kills nothing proves nothing.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL).unwrap_or_else(|e| panic!("cannot kill process {pid}: {e}"));
}

/// Ends a process that may have ended by itself.
pub fn end(pid: u32) {
    let _ = signal(pid, Signal::KILL);
}

/// Sends a signal.
///
/// # Errors
/// When there is no such process.
pub fn signal(pid: u32, signal: Signal) -> rustix::io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH)?;
    kill_process(pid, signal)
}

pub fn is_alive(pid: u32) -> bool {
    living().any(|p| p == pid)
}

/// Ids of all processes that have not ended.
fn living() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(|pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // the state follows the command, which may itself hold brackets
        let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
        state.is_some_and(|s| s != 'Z' && s != 'X')
    })
}

fn read(pid: u32) -> Process {
    let text =
        |what: &str| String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default()).into_owned();
    let variables = text("environ");
    let pairs = variables.split('\0').filter_map(|v| v.split_once('='));
    Process {
        pid,
        command: text("cmdline").replace('\0', " "),
        environment: pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
    }
}
