//! Each run once, whatever is killed when.

use crate::{
    Program, Site, Stand,
    site::{key, pause},
};
use rhumb_runtimes::{How, Observed};
use rhumb_wire::report::AssignmentKey;
use std::collections::BTreeSet;

pub(crate) async fn starting_twice_runs_once<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    for _ in 0..5 {
        site.start(&key, &Program::Count).await;
    }
    site.ended(&key).await;
    site.start(&key, &Program::Count).await;
    assert_eq!(site.ended(&key).await.exit_code, Some(0));
    assert_eq!(site.count(&key), 1);
}

pub(crate) async fn what_ended_is_not_run_again<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.start(&key, &Program::Count).await;
    let ended = site.ended(&key).await;
    site.restart();
    site.start(&key, &Program::Exit(9)).await;
    assert_eq!(site.ended(&key).await, ended);
    assert_eq!(site.count(&key), 1);
}

pub(crate) async fn nothing_is_known_before_the_first_start<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.restart();
    assert!(site.owned().await.is_empty());
    assert_eq!(site.observe(&key).await, Observed::NotStarted);
}

pub(crate) async fn a_restart_right_after_the_start_runs_it_once<S: Stand>(stand: &S) {
    let mut site = Site::new(stand);
    for round in 1..=3 {
        let key = key();
        site.start(&key, &Program::Count).await;
        site.restart();
        assert!(site.owned().await.contains(&key));
        // an agent that does not know whether it came to it asks again
        site.start(&key, &Program::Count).await;
        assert_eq!(site.ended(&key).await.exit_code, Some(0));
        assert_eq!(site.count(&key), round);
    }
}

pub(crate) async fn a_restart_while_it_runs_adopts_it<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.up(&key, &Program::Wait(5)).await;
    site.restart();
    assert_eq!(site.owned().await, BTreeSet::from([key.clone()]));
    assert!(matches!(site.observe(&key).await, Observed::Running { ran_us: 1.., .. }));
    site.start(&key, &Program::Exit(0)).await;
    site.release(&key);
    let ended = site.ended(&key).await;
    assert_eq!((ended.how, ended.exit_code), (How::Exited, Some(5)));
    assert_eq!(site.log(&key).await, "up\ndown\n");
}

pub(crate) async fn a_restart_while_it_stops_goes_on_stopping<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.up(&key, &Program::Deaf).await;
    site.stop(&key, "enough").await;
    site.restart();
    let ended = site.ended(&key).await;
    assert_eq!((ended.how, ended.message.as_str()), (How::Stopped, "enough"));
}

pub(crate) async fn a_restart_after_the_end_tells_the_same_end<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.start(&key, &Program::Exit(3)).await;
    let ended = site.ended(&key).await;
    site.restart();
    assert!(site.owned().await.contains(&key));
    assert_eq!(site.ended(&key).await, ended);
}

pub(crate) async fn generations_are_runs_of_their_own<S: Stand>(stand: &S) {
    let (mut site, old) = (Site::new(stand), key());
    let new = AssignmentKey { generation: 2, ..old.clone() };
    site.up(&old, &Program::Wait(1)).await;
    site.up(&new, &Program::Wait(2)).await;
    let ended = site.stopped(&old, "a later generation is known").await;
    assert_eq!(ended.how, How::Stopped);
    assert!(matches!(site.observe(&new).await, Observed::Running { .. }));
    site.release(&new);
    assert_eq!(site.ended(&new).await.exit_code, Some(2));
}

pub(crate) async fn replicas_are_runs_of_their_own<S: Stand>(stand: &S) {
    let (mut site, first) = (Site::new(stand), key());
    let keys = [0, 1, 2].map(|replica| AssignmentKey { replica, ..first.clone() });
    for key in &keys {
        site.start(key, &Program::Exit(10 + key.replica as i32)).await;
    }
    for key in &keys {
        assert_eq!(site.ended(key).await.exit_code, Some(10 + key.replica as i32));
    }
}

pub(crate) async fn a_gang_starts_as_one<S: Stand>(stand: &S) {
    if !stand.has_gangs() {
        return;
    }
    let (mut site, first) = (Site::new(stand), key());
    let keys = [0, 1, 2].map(|replica| AssignmentKey { replica, ..first.clone() });
    for key in &keys {
        let mut work = site.work(&Program::Wait(20 + key.replica as i32));
        work.gang = [0, 1, 2].into();
        work.devices = [key.replica].into();
        site.begin(key, &work).await;
    }
    for key in &keys {
        site.is_up(key).await;
    }
    assert_eq!(site.owned().await, BTreeSet::from(keys.clone()));
    // each comes to its own end, and the others go on
    site.release(&keys[1]);
    assert_eq!(site.ended(&keys[1]).await.exit_code, Some(21));
    assert!(matches!(site.observe(&keys[0]).await, Observed::Running { .. }));
    site.release(&keys[0]);
    assert_eq!(site.ended(&keys[0]).await.exit_code, Some(20));
    let ended = site.stopped(&keys[2], "enough").await;
    assert_eq!(ended.how, How::Stopped);
}

pub(crate) async fn a_gang_waits_for_all_of_it<S: Stand>(stand: &S) {
    if !stand.has_gangs() {
        return;
    }
    let (mut site, first) = (Site::new(stand), key());
    let second = AssignmentKey { replica: 1, ..first.clone() };
    let mut work = site.work(&Program::Count);
    work.gang = [0, 1].into();
    site.begin(&first, &work).await;
    for _ in 0..5 {
        assert!(!matches!(site.observe(&first).await, Observed::Running { .. } | Observed::Ended(_)));
        pause().await;
    }
    assert_eq!(site.count(&first), 0);
    let ended = site.stopped(&first, "its gang does not come").await;
    assert_eq!((ended.how, ended.ran_us), (How::Stopped, 0));
    site.begin(&second, &work).await;
    assert_eq!(site.count(&first), 0);
    site.stopped(&second, "enough").await;
}
