//! How runs end.

use crate::{Program, Site, Stand, site::key};
use rhumb_runtimes::{Ended, How, Observed};

async fn end_of<S: Stand>(stand: &S, program: Program) -> Ended {
    let (mut site, key) = (Site::new(stand), key());
    site.start(&key, &program).await;
    site.ended(&key).await
}

fn how(ended: &Ended) -> (How, Option<i32>, Option<i32>) {
    (ended.how, ended.exit_code, ended.signal)
}

pub(crate) async fn exit_zero_is_told<S: Stand>(stand: &S) {
    assert_eq!(how(&end_of(stand, Program::Exit(0)).await), (How::Exited, Some(0), None));
}

pub(crate) async fn exit_one_is_told<S: Stand>(stand: &S) {
    assert_eq!(how(&end_of(stand, Program::Exit(1)).await), (How::Exited, Some(1), None));
}

pub(crate) async fn the_highest_exit_code_is_told<S: Stand>(stand: &S) {
    assert_eq!(how(&end_of(stand, Program::Exit(255)).await), (How::Exited, Some(255), None));
}

pub(crate) async fn death_by_kill_is_told<S: Stand>(stand: &S) {
    assert_eq!(how(&end_of(stand, Program::Die(9)).await), (How::Exited, None, Some(9)));
}

pub(crate) async fn death_by_term_is_told<S: Stand>(stand: &S) {
    assert_eq!(how(&end_of(stand, Program::Die(15)).await), (How::Exited, None, Some(15)));
}

async fn end_of_program<S: Stand>(stand: &S, program: &str) -> Ended {
    let (mut site, key) = (Site::new(stand), key());
    let mut work = site.work(&Program::Exit(0));
    work.command = vec![program.to_owned()];
    site.begin(&key, &work).await;
    site.ended(&key).await
}

pub(crate) async fn a_program_that_is_not_there_is_127<S: Stand>(stand: &S) {
    let ended = end_of_program(stand, "no-such-program").await;
    assert_eq!(how(&ended), (How::Exited, Some(127), None));
    assert_eq!(ended.ran_us, 0);
    assert!(ended.message.contains("no-such-program"), "{}", ended.message);
}

pub(crate) async fn a_program_that_is_a_folder_is_126<S: Stand>(stand: &S) {
    let ended = end_of_program(stand, "/").await;
    assert_eq!(how(&ended), (How::Exited, Some(126), None));
}

pub(crate) async fn an_end_reads_the_same_at_every_look<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.start(&key, &Program::Exit(4)).await;
    let first = site.ended(&key).await;
    for _ in 0..3 {
        assert_eq!(site.ended(&key).await, first);
    }
}

pub(crate) async fn a_runs_length_is_measured<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.up(&key, &Program::Wait(0)).await;
    let Observed::Running { ran_us: first, started_us } = site.observe(&key).await else {
        panic!("it does not run");
    };
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let Observed::Running { ran_us: second, .. } = site.observe(&key).await else {
        panic!("it does not run");
    };
    assert!(second >= first + 50_000, "{first} {second}");
    site.release(&key);
    let ended = site.ended(&key).await;
    assert!(ended.ran_us >= second, "{} {second}", ended.ran_us);
    assert_eq!(ended.started_us, Some(started_us));
}

pub(crate) async fn what_a_command_leaves_behind_ends_with_it<S: Stand>(stand: &S) {
    if !stand.is_real() {
        return;
    }
    let (mut site, key) = (Site::new(stand), key());
    let mut work = site.work(&Program::Exit(0));
    work.command[2] = "setsid sleep 300 & echo $! > away; sleep 300 & echo $! > child; exit 0".into();
    site.begin(&key, &work).await;
    let ended = site.ended(&key).await;
    assert_eq!(how(&ended), (How::Exited, Some(0), None));
    for file in ["away", "child"] {
        let pid = site.written(&key, file).await;
        assert!(!stand.lives(&key, pid).await, "{file} is left");
    }
}

pub(crate) async fn a_checkpoints_name_is_kept<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.up(&key, &Program::Named("s3://bucket/step-400".into(), 3)).await;
    site.release(&key);
    let ended = site.ended(&key).await;
    assert_eq!((ended.exit_code, ended.checkpoint.as_deref()), (Some(3), Some("s3://bucket/step-400")));
}

pub(crate) async fn without_a_command_devices_are_held<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    let mut work = site.work(&Program::Exit(0));
    work.command.clear();
    site.begin(&key, &work).await;
    let end = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !matches!(site.observe(&key).await, Observed::Running { .. }) {
        assert!(std::time::Instant::now() < end, "it does not hold");
        crate::site::pause().await;
    }
    let ended = site.stopped(&key, "enough").await;
    assert_eq!((ended.how, ended.message.as_str()), (How::Stopped, "enough"));
}
