//! What only processes of this host do.

use crate::process::ProcessStand;
use rhumb_runtimes::{How, Runtime};
use rhumb_wire::report::AssignmentKey;
use runtime_contract::{Program, Site, lives};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    time::{Duration, Instant},
};
use uuid::Uuid;

fn key() -> AssignmentKey {
    let order = Uuid::now_v7().to_string().parse().unwrap();
    AssignmentKey { order, generation: 1, component: "trainer".parse().unwrap(), replica: 0 }
}

/// A run under way that writes its processes' numbers into files of these names.
async fn begun<'a>(
    stand: &'a ProcessStand,
    script: &str,
    files: &[&str],
) -> (Site<'a, ProcessStand>, AssignmentKey, Vec<i32>) {
    let (mut site, key) = (Site::new(stand), key());
    let mut work = site.work(&Program::Exit(0));
    script.clone_into(&mut work.command[2]);
    site.begin(&key, &work).await;
    let mut pids = Vec::new();
    for file in files {
        pids.push(site.written(&key, file).await);
    }
    (site, key, pids)
}

fn supervisor(site: &Site<'_, ProcessStand>, key: &AssignmentKey) -> Pid {
    let record = fs::read(site.runtime.folder(key).path().join("supervisor.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    Pid::from_raw(record["process"].as_i64().unwrap() as i32).unwrap()
}

#[test]
fn without_its_supervisor_a_run_is_lost_and_nothing_of_it_is_left() {
    crate::tokio().block_on(async {
        let script = "sleep 100 & echo $! > child; setsid sleep 100 & echo $! > away; echo $$ > main; sleep 100";
        let (mut site, key, pids) = begun(&ProcessStand, script, &["child", "away", "main"]).await;
        kill_process(supervisor(&site, &key), Signal::KILL).unwrap();
        let ended = site.ended(&key).await;
        assert_eq!((ended.how, ended.exit_code), (How::Lost, None));
        assert!(ended.ran_us > 0 && !pids.into_iter().any(lives));
    });
}

/// As when the host is shut down in order.
#[test]
fn a_supervisor_that_is_told_to_end_ends_its_run_and_says_so() {
    crate::tokio().block_on(async {
        let script = "trap 'echo saved; exit 0' TERM; echo $$ > main; while :; do sleep 0.02; done";
        let (mut site, key, pids) = begun(&ProcessStand, script, &["main"]).await;
        kill_process(supervisor(&site, &key), Signal::TERM).unwrap();
        let ended = site.ended(&key).await;
        assert_eq!((ended.how, ended.exit_code), (How::Stopped, Some(0)));
        assert!(ended.message.contains("the site asked for its end"), "{}", ended.message);
        assert!(site.log(&key).await.ends_with("saved\n") && !lives(pids[0]));
    });
}

#[test]
fn a_run_whose_folder_is_removed_stops() {
    crate::tokio().block_on(async {
        let (site, key, pids) = begun(&ProcessStand, "echo $$ > main; exec sleep 100", &["main"]).await;
        site.forget(&key);
        let end = Instant::now() + Duration::from_secs(30);
        while lives(pids[0]) {
            assert!(Instant::now() < end, "it does not stop");
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}
