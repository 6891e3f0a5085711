//! Namespaces, and work inside them.

use nix::sched::{CloneFlags, setns};
use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Command, Output},
};

/// A named network namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Namespace(String);

/// Where `ip netns` keeps them.
const PLACE: &str = "/run/netns";

impl Namespace {
    pub fn named(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    pub fn path(&self) -> PathBuf {
        PathBuf::from(PLACE).join(&self.0)
    }

    /// A command that runs there.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, program]);
        command
    }

    /// `ip` there, words parted by blanks.
    pub fn ip(&self, words: &str) -> Result<String, String> {
        ip(&format!("-n {} {words}", self.0))
    }

    /// Writes a setting of the namespace, such as `net.ipv4.ip_forward`.
    pub fn set(&self, setting: &str, value: &str) -> Result<(), String> {
        let path = PathBuf::from("/proc/sys").join(setting.replace('.', "/"));
        let write = move || fs::write(&path, value).map_err(|error| format!("{}: {error}", path.display()));
        within(self, write)?
    }

    /// Every namespace whose name begins so.
    pub fn all(prefix: &str) -> Vec<Self> {
        let Ok(entries) = fs::read_dir(PLACE) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut found: Vec<Self> = names.filter(|name| name.starts_with(prefix)).map(Self).collect();
        found.sort();
        found
    }
}

/// Does `work` on a thread of the namespace. Sockets and threads made there stay there.
pub fn within<T: Send>(space: &Namespace, work: impl FnOnce() -> T + Send) -> Result<T, String> {
    let file = File::open(space.path()).map_err(|error| format!("{}: {error}", space.path().display()))?;
    let inside = || {
        setns(file, CloneFlags::CLONE_NEWNET).map_err(|error| format!("cannot enter {}: {error}", space.name()))?;
        Ok(work())
    };
    std::thread::scope(|scope| scope.spawn(inside).join()).unwrap_or_else(|_| Err("the work panicked".to_owned()))
}

pub(crate) fn ip(words: &str) -> Result<String, String> {
    let output = Command::new("ip").args(words.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
    let Output { status, stdout, stderr } = output;
    if status.success() {
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    } else {
        Err(format!("ip {words}: {}", String::from_utf8_lossy(&stderr).trim()))
    }
}
