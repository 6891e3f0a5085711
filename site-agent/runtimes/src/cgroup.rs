//! Control groups (version 2): a run's processes held together, and held to what was ordered of processors and memory.
//!
//! Devices are not held by them: that takes a program in the kernel. The variables of the device families say what a command
//! may see.

use crate::folder::Limits;
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};
use uuid::Uuid;

/// Length of the kernel's accounting period, its default, in microseconds.
const PERIOD_US: u64 = 100_000;
/// Least share of a period that the kernel takes, in microseconds.
const LEAST_QUOTA_US: u64 = 1_000;
/// For a group whose last process is on its way out.
const EMPTY: Duration = Duration::from_secs(1);

/// The group of one run. It goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    path: PathBuf,
    /// Where its supervisor belongs.
    home: PathBuf,
}

/// As long as this lives, the calling process is in the group.
#[derive(Debug)]
pub(crate) struct Inside<'a>(&'a Group);

impl Group {
    /// `None`: there is none to be had, and the run goes without.
    pub(crate) fn make(run: Uuid, limits: &Limits) -> Option<Self> {
        let base = limits.cgroups.as_ref()?;
        let path = base.join(run.to_string());
        let made = || -> io::Result<Self> {
            let home = own()?;
            fs::create_dir_all(&path)?;
            for (file, value) in settings(limits) {
                let file = path.join(file);
                // absent: this controller is not given to groups here
                if file.exists() {
                    fs::write(&file, value)?;
                }
            }
            Ok(Self { path: path.clone(), home })
        };
        made().inspect_err(|error| eprintln!("no control group {}: {error}", path.display())).ok()
    }

    pub(crate) fn enter(&self) -> Inside<'_> {
        if let Err(error) = join(&self.path) {
            eprintln!("cannot enter the control group {}: {error}", self.path.display());
        }
        Inside(self)
    }

    /// Everything in it, at once.
    pub(crate) fn kill(&self) {
        // absent before Linux 5.14: what is left is found by its marks
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Err(error) = join(&self.0.home) {
            eprintln!("cannot go back to the control group {}: {error}", self.0.home.display());
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let until = Instant::now() + EMPTY;
        while fs::remove_dir(&self.path).is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
            if Instant::now() >= until {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What the group's files are to say.
fn settings(limits: &Limits) -> Vec<(&'static str, String)> {
    let mut files = Vec::new();
    if limits.cpu_milli > 0 {
        let quota = (limits.cpu_milli * PERIOD_US / 1_000).max(LEAST_QUOTA_US);
        files.push(("cpu.max", format!("{quota} {PERIOD_US}")));
    }
    if limits.memory_bytes > 0 {
        files.push(("memory.max", limits.memory_bytes.to_string()));
        // what does not fit ends, all of it, instead of one process at random
        files.push(("memory.oom.group", "1".to_owned()));
    }
    files
}

/// A folder for runs' groups below the calling process's own, with as many controllers as are given to it.
pub(crate) fn base() -> io::Result<PathBuf> {
    let own = own()?;
    let base = own.join("rhumb");
    fs::create_dir_all(&base)?;
    enable(&own);
    enable(&base);
    // whether runs' supervisors will be let in and out
    let probe = base.join(format!("probe-{}", Uuid::now_v7()));
    fs::create_dir(&probe)?;
    let may = fs::OpenOptions::new().write(true).open(probe.join("cgroup.procs")).map(drop);
    fs::remove_dir(&probe)?;
    may.map(|()| base)
}

/// Gives controllers on to the groups below. Where the kernel does not, runs are held together without limits.
pub(crate) fn enable(group: &Path) {
    for controller in ["+cpu", "+memory"] {
        let _ = fs::write(group.join("cgroup.subtree_control"), controller);
    }
}

fn join(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), "0")
}

/// The calling process's own group.
fn own() -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    find(&mounts, &groups).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no cgroup2 file system is mounted"))
}

fn find(mounts: &str, groups: &str) -> Option<PathBuf> {
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (at, kind) = (words.nth(1)?, words.next()?);
        (kind == "cgroup2").then_some(at)
    })?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(mount).join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_beside_older_hierarchies() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let groups = "5:cpu:/a\n0::/system.slice/agent.service\n";
        let expected = "/sys/fs/cgroup/unified/system.slice/agent.service";
        assert_eq!(find(mounts, groups), Some(PathBuf::from(expected)));
        assert_eq!(find("proc /proc proc rw 0 0", groups), None);
        assert_eq!(find(mounts, "5:cpu:/a\n"), None);
    }

    #[test]
    fn what_was_ordered_is_what_the_kernel_is_told() {
        let limits = Limits { cpu_milli: 2_500, memory_bytes: 1 << 30, ..Limits::default() };
        let expected = [("cpu.max", "250000 100000"), ("memory.max", "1073741824"), ("memory.oom.group", "1")];
        assert_eq!(settings(&limits), expected.map(|(file, value)| (file, value.to_owned())));
        assert!(settings(&Limits::default()).is_empty());
        let little = Limits { cpu_milli: 1, ..Limits::default() };
        assert_eq!(settings(&little), [("cpu.max", "1000 100000".to_owned())]);
    }

    #[test]
    fn limits_are_written_where_the_controller_is_there_and_only_there() {
        let base = tempfile::tempdir().unwrap();
        let run = Uuid::from_u128(7);
        let group = base.path().join(run.to_string());
        fs::create_dir(&group).unwrap();
        fs::write(group.join("cpu.max"), "max 100000").unwrap();
        let limits = Limits { cgroups: Some(base.path().into()), cpu_milli: 500, memory_bytes: 1, ..Limits::default() };
        let Some(made) = Group::make(run, &limits) else {
            println!("skipped: no cgroup2 file system is mounted here");
            return;
        };
        assert_eq!(fs::read_to_string(group.join("cpu.max")).unwrap(), "50000 100000");
        assert!(!group.join("memory.max").exists());
        fs::remove_file(group.join("cpu.max")).unwrap();
        drop(made);
        assert!(!group.exists());
    }
}
