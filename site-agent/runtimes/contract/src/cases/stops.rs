//! How runs are ended.

use crate::{
    Program, Site, Stand,
    site::{key, pause},
};
use rhumb_runtimes::{How, Observed};

pub(crate) async fn what_was_never_started_is_not_there<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    assert_eq!(site.observe(&key).await, Observed::NotStarted);
    site.stop(&key, "enough").await;
    assert_eq!(site.observe(&key).await, Observed::NotStarted);
}

pub(crate) async fn a_run_that_was_just_asked_for_can_be_stopped<S: Stand>(stand: &S) {
    let mut site = Site::new(stand);
    for _ in 0..4 {
        let key = key();
        site.start(&key, &Program::Wait(0)).await;
        let ended = site.stopped(&key, "enough").await;
        assert_eq!((ended.how, ended.message.as_str()), (How::Stopped, "enough"));
    }
}

pub(crate) async fn a_polite_end_is_left_alone<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    let mut work = site.work(&Program::Polite);
    // as long as it takes, on a busy machine too
    work.grace_ms = 60_000;
    site.begin(&key, &work).await;
    site.is_up(&key).await;
    let ended = site.stopped(&key, "enough").await;
    assert_eq!((ended.how, ended.exit_code, ended.message.as_str()), (How::Stopped, Some(0), "enough"));
    let log = site.log(&key).await;
    assert!(log.starts_with("up\n") && log.ends_with("saved\n"), "{log}");
}

pub(crate) async fn who_does_not_hear_is_killed_after_the_grace<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.up(&key, &Program::Deaf).await;
    let ended = site.stopped(&key, "enough").await;
    assert_eq!((ended.how, ended.exit_code, ended.signal), (How::Stopped, None, Some(9)));
}

pub(crate) async fn a_checkpoint_is_asked_for_first<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    let mut work = site.work(&Program::Checkpoint);
    (work.checkpoint_signal, work.grace_ms) = (Some("SIGUSR1".into()), 4_000);
    site.begin(&key, &work).await;
    site.is_up(&key).await;
    let ended = site.stopped(&key, "enough").await;
    assert_eq!((ended.how, ended.exit_code), (How::Stopped, Some(0)));
    let log = site.log(&key).await;
    let place = |word: &str| log.find(word).unwrap();
    assert!(place("checkpoint\n") < place("end\n"), "{log}");
}

pub(crate) async fn stopping_twice_is_stopping_once<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.up(&key, &Program::Deaf).await;
    site.stop(&key, "first").await;
    site.stop(&key, "second").await;
    let ended = site.ended(&key).await;
    assert_eq!((ended.how, ended.message.as_str()), (How::Stopped, "first"));
}

pub(crate) async fn stopping_what_ended_changes_nothing<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.start(&key, &Program::Exit(6)).await;
    let ended = site.ended(&key).await;
    site.stop(&key, "late").await;
    assert_eq!(site.ended(&key).await, ended);
    site.restart();
    assert_eq!(site.ended(&key).await, ended);
}

pub(crate) async fn grandchildren_are_stopped_too<S: Stand>(stand: &S) {
    if !stand.is_real() {
        return;
    }
    let (mut site, key) = (Site::new(stand), key());
    let mut work = site.work(&Program::Exit(0));
    work.command[2] = "sleep 300 & echo $! > child; setsid sleep 300 & echo $! > away; trap '' TERM; echo $$ > main; \
                       while :; do sleep 1; done"
        .into();
    site.begin(&key, &work).await;
    let mut pids = Vec::new();
    for file in ["child", "away", "main"] {
        pids.push(site.written(&key, file).await);
    }
    let ended = site.stopped(&key, "enough").await;
    assert_eq!((ended.how, ended.signal), (How::Stopped, Some(9)));
    for pid in pids {
        assert!(!stand.lives(&key, pid).await);
    }
}

pub(crate) async fn a_stopped_run_does_not_start_again<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.up(&key, &Program::Deaf).await;
    let ended = site.stopped(&key, "enough").await;
    site.start(&key, &Program::Exit(0)).await;
    for _ in 0..5 {
        assert_eq!(site.ended(&key).await, ended);
        pause().await;
    }
}

pub(crate) async fn the_last_checkpoint_is_named_by_a_stopped_run_too<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.up(&key, &Program::Named("step-7".into(), 0)).await;
    let ended = site.stopped(&key, "enough").await;
    assert_eq!((ended.how, ended.checkpoint.as_deref()), (How::Stopped, Some("step-7")));
}

/// Nothing of how its supervisor takes signals is left to a command; a shell would make up for that.
pub(crate) async fn a_program_without_a_shell_hears_the_polite_signal<S: Stand>(stand: &S) {
    if !stand.is_real() {
        return;
    }
    let (mut site, key) = (Site::new(stand), key());
    let mut work = site.work(&Program::Exit(0));
    (work.command, work.grace_ms) = (["sleep", "300"].map(str::to_owned).to_vec(), 60_000);
    site.begin(&key, &work).await;
    let end = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !matches!(site.observe(&key).await, Observed::Running { .. }) {
        assert!(std::time::Instant::now() < end, "it does not run");
        pause().await;
    }
    let ended = site.stopped(&key, "enough").await;
    assert_eq!((ended.how, ended.signal), (How::Stopped, Some(15)));
}
