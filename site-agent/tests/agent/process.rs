//! The `process` runtime alone.

use crate::world::{folder, key, lives, until, written};
use rhumb_agent::runtime::{Ended, How, Observed, ProcessRuntime, Runtime, Work};
use rhumb_wire::report::AssignmentKey;
use rustix::process::{Pid, Signal, kill_process};
use std::{collections::BTreeMap, fs, path::Path};
use tempfile::TempDir;

const SUPERVISOR: &str = env!("CARGO_BIN_EXE_rhumb-agent");

fn runtime(root: &Path) -> ProcessRuntime {
    ProcessRuntime::new(root.to_owned(), Some(Path::new(SUPERVISOR)), 4_096)
}

fn work(script: &str) -> Work {
    Work {
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]),
        grace_ms: 1_000,
        checkpoint_signal: None,
    }
}

#[track_caller]
fn end(runtime: &mut ProcessRuntime, key: &AssignmentKey) -> Ended {
    until("the end of the run", || match runtime.observe(key).unwrap() {
        Observed::Ended(ended) => Some(ended),
        _ => None,
    })
}

fn begun(script: &str) -> (TempDir, ProcessRuntime, AssignmentKey) {
    let root = tempfile::tempdir().unwrap();
    let (mut runtime, key) = (runtime(root.path()), key(1, 1));
    runtime.start(&key, &work(script)).unwrap();
    (root, runtime, key)
}

#[test]
fn a_run_ends_with_its_exit_code_its_output_and_its_length() {
    let (root, mut runtime, key) = begun("echo out; echo err >&2; sleep 0.4; pwd; exit 3");
    let ended = end(&mut runtime, &key);
    assert_eq!((ended.how, ended.exit_code, ended.signal), (How::Exited, Some(3), None));
    assert!((400_000..2_000_000).contains(&ended.ran_us), "{}", ended.ran_us);
    let log = runtime.logs(&key, 0, 10_000).unwrap();
    let home = folder(root.path(), &key).join("work");
    assert_eq!(log, format!("out\nerr\n{}\n", home.display()));
    assert_eq!(runtime.logs(&key, 4, 4).unwrap(), "err\n");
}

#[test]
fn the_environment_is_the_orders_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let (mut runtime, key) = (runtime(root.path()), key(1, 1));
    let mut work = work("env");
    work.env.insert("COLOUR".into(), "blue\ngreen".into());
    runtime.start(&key, &work).unwrap();
    end(&mut runtime, &key);
    let log = runtime.logs(&key, 0, 10_000).unwrap();
    assert!(log.contains("COLOUR=blue\ngreen\n") && log.contains("HOME=") && log.contains("RHUMB_RUN="), "{log}");
    assert!(!log.contains("CARGO"), "{log}");
}

#[test]
fn a_command_that_is_not_there_is_an_exit_not_a_hang() {
    let root = tempfile::tempdir().unwrap();
    let (mut runtime, key) = (runtime(root.path()), key(1, 1));
    runtime.start(&key, &Work { command: vec!["no-such-program".into()], ..work("") }).unwrap();
    let ended = end(&mut runtime, &key);
    assert_eq!((ended.how, ended.exit_code, ended.ran_us), (How::Exited, Some(127), 0));
    assert!(ended.message.contains("no-such-program"), "{}", ended.message);
}

#[test]
fn death_by_a_signal_is_told() {
    let (_root, mut runtime, key) = begun("kill -9 $$");
    let ended = end(&mut runtime, &key);
    assert_eq!((ended.how, ended.exit_code, ended.signal), (How::Exited, None, Some(9)));
}

#[test]
fn stopping_kills_grandchildren_deaf_ones_and_ones_that_left_the_group() {
    let (root, mut runtime, key) = begun(
        "sleep 100 & echo $! > child; setsid sleep 100 & echo $! > away; trap '' TERM; echo $$ > main; \
         while :; do sleep 1; done",
    );
    let pids = ["child", "away", "main"].map(|file| written(root.path(), &key, file));
    runtime.stop(&key, "enough").unwrap();
    let ended = end(&mut runtime, &key);
    assert_eq!((ended.how, ended.message.as_str(), ended.signal), (How::Stopped, "enough", Some(9)));
    assert_eq!(pids.map(lives), [false; 3]);
}

#[test]
fn a_polite_end_within_the_grace_is_left_alone() {
    let (root, mut runtime, key) =
        begun("trap 'echo saved; exit 0' TERM; echo $$ > main; while :; do sleep 0.01; done");
    written(root.path(), &key, "main");
    runtime.stop(&key, "enough").unwrap();
    let ended = end(&mut runtime, &key);
    assert_eq!((ended.how, ended.exit_code), (How::Stopped, Some(0)));
    assert!(runtime.logs(&key, 0, 100).unwrap().ends_with("saved\n"));
}

#[test]
fn a_checkpoint_is_asked_for_before_the_polite_signal() {
    let root = tempfile::tempdir().unwrap();
    let (mut runtime, key) = (runtime(root.path()), key(1, 1));
    let script =
        "trap 'echo checkpoint' USR1; trap 'echo end; exit 0' TERM; echo $$ > main; while :; do sleep 0.01; done";
    let work = Work { checkpoint_signal: Some("SIGUSR1".into()), ..work(script) };
    runtime.start(&key, &work).unwrap();
    written(root.path(), &key, "main");
    runtime.stop(&key, "enough").unwrap();
    assert_eq!(end(&mut runtime, &key).how, How::Stopped);
    let log = runtime.logs(&key, 0, 1_000).unwrap();
    assert!(log.find("checkpoint").unwrap() < log.find("end").unwrap(), "{log}");
}

#[test]
fn what_a_command_leaves_behind_ends_with_it() {
    let (root, mut runtime, key) = begun("setsid sleep 100 & echo $! > away; sleep 100 & echo $! > child; exit 0");
    let ended = end(&mut runtime, &key);
    assert_eq!((ended.how, ended.exit_code), (How::Exited, Some(0)));
    assert_eq!(["away", "child"].map(|file| lives(written(root.path(), &key, file))), [false; 2]);
}

#[test]
fn a_run_is_adopted_by_another_start_of_the_agent() {
    let (root, mut first, key) = begun("echo $$ > main; sleep 100");
    let main = written(root.path(), &key, "main");
    until("the run", || matches!(first.observe(&key).unwrap(), Observed::Running { .. }).then_some(()));
    drop(first);
    let mut second = runtime(root.path());
    assert_eq!(second.list_owned().unwrap(), std::slice::from_ref(&key));
    assert!(matches!(second.observe(&key).unwrap(), Observed::Running { ran_us: 1.., .. }));
    second.start(&key, &work("echo again > again")).unwrap();
    assert!(lives(main));
    second.stop(&key, "enough").unwrap();
    assert_eq!(end(&mut second, &key).how, How::Stopped);
    assert!(!lives(main));
    assert!(!folder(root.path(), &key).join("work/again").exists());
}

#[test]
fn a_run_that_ended_is_not_run_again() {
    let (root, mut runtime, key) = begun("echo once >> count");
    let first = end(&mut runtime, &key);
    runtime.start(&key, &work("echo twice >> count")).unwrap();
    assert_eq!(end(&mut runtime, &key), first);
    assert_eq!(fs::read_to_string(folder(root.path(), &key).join("work/count")).unwrap(), "once\n");
}

#[test]
fn without_its_supervisor_a_run_is_lost_and_nothing_of_it_is_left() {
    let (root, mut runtime, key) =
        begun("sleep 100 & echo $! > child; setsid sleep 100 & echo $! > away; echo $$ > main; sleep 100");
    let pids = ["child", "away", "main"].map(|file| written(root.path(), &key, file));
    let record = fs::read(folder(root.path(), &key).join("supervisor.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    let supervisor = Pid::from_raw(record["session"].as_i64().unwrap() as i32).unwrap();
    kill_process(supervisor, Signal::KILL).unwrap();
    let ended = end(&mut runtime, &key);
    assert_eq!((ended.how, ended.exit_code), (How::Lost, None));
    assert!(ended.ran_us > 0);
    assert_eq!(pids.map(lives), [false; 3]);
}

#[test]
fn a_run_whose_folder_is_removed_stops() {
    let (root, _runtime, key) = begun("echo $$ > main; exec sleep 100");
    let main = written(root.path(), &key, "main");
    // what still runs may write into it meanwhile
    until("the end of the folder", || fs::remove_dir_all(folder(root.path(), &key)).ok());
    until("the end of the process", || (!lives(main)).then_some(()));
}

#[test]
fn without_a_command_devices_are_held_until_stopped() {
    let root = tempfile::tempdir().unwrap();
    let (mut runtime, key) = (runtime(root.path()), key(1, 1));
    runtime.start(&key, &Work { command: Vec::new(), ..work("") }).unwrap();
    assert!(matches!(runtime.observe(&key).unwrap(), Observed::Running { .. }));
    runtime.stop(&key, "enough").unwrap();
    let ended = end(&mut runtime, &key);
    assert_eq!((ended.how, ended.message.as_str()), (How::Stopped, "enough"));
}

#[test]
fn output_without_end_is_cut_and_does_not_block_the_command() {
    let (_root, mut runtime, key) = begun("yes | head -c 1000000; echo done > done");
    assert_eq!(end(&mut runtime, &key).exit_code, Some(0));
    let log = runtime.logs(&key, 0, 100_000).unwrap();
    assert!(log.len() < 4_200 && log.ends_with("[output beyond 4096 bytes is not kept]\n"), "{}", log.len());
}

#[test]
fn what_cannot_be_run_is_refused_before() {
    let root = tempfile::tempdir().unwrap();
    let runtime = runtime(root.path());
    assert!(runtime.admit(&work("true")).is_ok());
    for bad in ["a\0b", &"x".repeat(2 << 20)] {
        assert!(runtime.admit(&work(bad)).is_err());
    }
    let mut named = work("true");
    named.env.insert("A=B".into(), "c".into());
    assert!(runtime.admit(&named).is_err());
}
