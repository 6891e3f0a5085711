//! Control groups for real, where this host has them and lets them be made.

use crate::process::SUPERVISOR;
use rhumb_model::NodeName;
use rhumb_runtimes::{Confinement, Observed, ProcessRuntime, ProcessSettings, Runtime, Work};
use rhumb_wire::report::AssignmentKey;
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use uuid::Uuid;

/// A group of this test's own on the unified hierarchy.
fn group() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let at = words.next()?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(at))
    })?;
    let path = mount.join(format!("rhumb-test-{}", Uuid::now_v7()));
    fs::create_dir(&path).ok()?;
    Some(path)
}

#[test]
fn a_run_is_held_in_a_group_of_its_own_and_nothing_of_it_is_left() {
    let Some(group) = group() else {
        println!("skipped: no control group can be made here (it takes cgroup2 and the right to write there)");
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let settings = ProcessSettings { confine: Confinement::Cgroup(group.clone()) };
    let runs = home.path().join("runs");
    let mut runtime = ProcessRuntime::new(runs.clone(), Some(Path::new(SUPERVISOR)), 4_096, &settings).unwrap();
    let key = AssignmentKey {
        order: Uuid::now_v7().to_string().parse().unwrap(),
        generation: 1,
        component: "trainer".parse().unwrap(),
        replica: 0,
    };
    let script = "cat /proc/self/cgroup | grep ^0::; sleep 300 & sleep 300 & while ! test -e end; do sleep 0.02; done";
    let mut work = Work::bare(NodeName::new("n1").unwrap(), ["sh", "-c", script].map(str::to_owned).to_vec());
    work.env.insert("PATH".into(), "/usr/bin:/bin".into());
    let wait = tokio::runtime::Builder::new_current_thread().build().unwrap();
    wait.block_on(runtime.start(&key, &work)).unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    let mut until = |what: &str, look: &mut dyn FnMut(&mut ProcessRuntime) -> bool| {
        while !look(&mut runtime) {
            assert!(Instant::now() < end, "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    until("its output", &mut |runtime| wait.block_on(runtime.logs(&key, 0, 1_000)).unwrap().ends_with('\n'));
    let own = fs::read_dir(&group).unwrap().flatten().find(|entry| entry.path().is_dir()).unwrap();
    let inside = fs::read_to_string(own.path().join("cgroup.procs")).unwrap();
    assert!(inside.lines().count() >= 3, "the command and its two children: {inside}");
    fs::write(runs.join(format!("{}.1.trainer.0/work/end", key.order)), "").unwrap();
    until("the end", &mut |runtime| matches!(wait.block_on(runtime.observe(&key)).unwrap(), Observed::Ended(_)));
    let log = wait.block_on(runtime.logs(&key, 0, 1_000)).unwrap();
    assert!(log.trim().ends_with(own.file_name().to_str().unwrap()), "{log}");
    assert!(!own.path().exists(), "its group is left");
    fs::remove_dir(&group).unwrap();
}
