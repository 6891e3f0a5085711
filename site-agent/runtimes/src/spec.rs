//! From work to the spec in its run's folder, alike for all runtimes whose supervisors read one.

use crate::{
    folder::{CHECKPOINT_VARIABLE, Folder, KEY_VARIABLE, Limits, ROOT_VARIABLE, RUN_VARIABLE, Spec},
    runtime::{RuntimeError, Work},
};
use rhumb_wire::report::AssignmentKey;
use rustix::process::Signal;
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};
use uuid::Uuid;

/// Longest argument vector and environment together, in bytes; the kernel takes 2 MiB with a usual stack.
const COMMAND_BYTES_MAX: usize = 1 << 20;
/// Longest single argument or variable, in bytes: the kernel's 32 pages, less their ends.
const WORD_BYTES_MAX: usize = (128 << 10) - 1;

/// What a spec says beside the work itself.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) log_limit_bytes: u64,
    pub(crate) inherit_devices: bool,
    pub(crate) inherit_image: bool,
    /// How long the site leaves a run between its polite signal and its kill; `None`: as long as the run's own grace.
    pub(crate) site_grace_ms: Option<u64>,
    pub(crate) limits: Limits,
}

/// Whether a supervisor could run it.
pub fn admit(work: &Work) -> Result<(), RuntimeError> {
    let refuse = |what, value: &str, remedy| {
        let value = format!("{:?}", value.chars().take(60).collect::<String>());
        Err(RuntimeError::Admit { what, value, remedy })
    };
    if let Some(bad) = work.command.iter().find(|argument| argument.contains('\0')) {
        return refuse("the argument", bad, "leave out NUL");
    }
    if work.command.first().is_some_and(String::is_empty) {
        return refuse("the command", "", "name a program");
    }
    for (name, value) in &work.env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return refuse("the variable", name, "use a name without = and NUL, and a value without NUL");
        }
    }
    if let Some(name) = work.checkpoint_signal.as_deref()
        && signal(name).is_none()
    {
        return refuse("the checkpoint signal", name, "use SIGUSR1, SIGUSR2, SIGHUP, SIGINT, SIGTERM or SIGCONT");
    }
    if let Some(long) = work.command.iter().find(|argument| argument.len() > WORD_BYTES_MAX) {
        return refuse("the argument", long, "use at most 128 KiB, and a file or the input for more");
    }
    if let Some((name, _)) = work.env.iter().find(|(name, value)| name.len() + value.len() + 1 > WORD_BYTES_MAX) {
        return refuse("the variable", name, "use at most 128 KiB with its value");
    }
    let bytes = work.command.iter().map(String::len).sum::<usize>()
        + work.env.iter().map(|(name, value)| name.len() + value.len() + 2).sum::<usize>();
    if bytes > COMMAND_BYTES_MAX {
        return refuse("a command of", &format!("{bytes} bytes"), "use at most 1 MiB with its environment");
    }
    Ok(())
}

pub(crate) fn spec(folder: &Folder, work: &Work, setting: Setting) -> Spec {
    let Setting { log_limit_bytes, inherit_devices, inherit_image, site_grace_ms, limits } = setting;
    let run = Uuid::now_v7();
    let mut env = work.env.clone();
    let path = |path: PathBuf| path.to_string_lossy().into_owned();
    // the marks by which every process of a run is found, and where it lives
    env.insert(RUN_VARIABLE.into(), run.to_string());
    env.insert(ROOT_VARIABLE.into(), path(folder.path().parent().unwrap_or(Path::new("/")).to_owned()));
    env.insert(KEY_VARIABLE.into(), folder.name().to_owned());
    env.insert(CHECKPOINT_VARIABLE.into(), path(folder.checkpoint_file()));
    env.insert("HOME".into(), path(folder.work()));
    Spec {
        run,
        command: work.command.clone(),
        env,
        grace_ms: work.grace_ms,
        checkpoint_signal: work.checkpoint_signal.as_deref().and_then(signal),
        log_limit_bytes,
        inherit_devices,
        inherit_image,
        site_grace_ms,
        limits,
    }
}

/// The runs that start with this one, itself among them; the first leads.
pub(crate) fn gang(key: &AssignmentKey, work: &Work) -> Vec<AssignmentKey> {
    let mut replicas = work.gang.clone();
    replicas.insert(key.replica);
    replicas.into_iter().map(|replica| AssignmentKey { replica, ..key.clone() }).collect()
}

/// The runs that have a spec below `root`.
pub(crate) fn list(root: &Path) -> io::Result<BTreeSet<AssignmentKey>> {
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    let mut keys = BTreeSet::new();
    for entry in entries {
        let entry = entry?;
        if let Some(key) = entry.file_name().to_str().and_then(Folder::key)
            && Folder::new(entry.path()).has_spec()
        {
            keys.insert(key);
        }
    }
    Ok(keys)
}

/// This executable, also where its file was replaced meanwhile.
pub(crate) fn own_executable() -> PathBuf {
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        _ => PathBuf::from("/proc/self/exe"),
    }
}

/// The number of a signal that can ask for a checkpoint.
fn signal(name: &str) -> Option<i32> {
    let signal = match name {
        "SIGUSR1" => Signal::USR1,
        "SIGUSR2" => Signal::USR2,
        "SIGHUP" => Signal::HUP,
        "SIGINT" => Signal::INT,
        "SIGTERM" => Signal::TERM,
        "SIGCONT" => Signal::CONT,
        _ => return None,
    };
    Some(signal.as_raw())
}
