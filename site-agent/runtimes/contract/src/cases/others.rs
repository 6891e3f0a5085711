//! Ours and others', and what the site does of itself.

use crate::{
    Program, Site, Stand,
    site::{key, pause},
};
use rhumb_runtimes::{How, Observed, Runtime};
use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

pub(crate) async fn what_was_started_is_listed_until_it_is_forgotten<S: Stand>(stand: &S) {
    let (mut site, running, over) = (Site::new(stand), key(), key());
    site.up(&running, &Program::Wait(0)).await;
    site.start(&over, &Program::Exit(0)).await;
    site.ended(&over).await;
    assert_eq!(site.owned().await, BTreeSet::from([running.clone(), over.clone()]));
    site.forget(&over);
    assert!(site.owned().await.contains(&running));
    assert_eq!(site.log(&over).await, "");
    site.stopped(&running, "enough").await;
}

pub(crate) async fn a_namesake_of_somebody_else_is_not_ours<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    let foreign = stand.foreign(&key, 0).await;
    assert!(!site.owned().await.contains(&key));
    assert_eq!(site.observe(&key).await, Observed::NotStarted);
    site.stop(&key, "enough").await;
    assert!(stand.foreign_lives(&foreign).await);
    site.up(&key, &Program::Wait(7)).await;
    site.restart();
    site.release(&key);
    assert_eq!(site.ended(&key).await.exit_code, Some(7));
    site.forget(&key);
    site.owned().await;
    assert!(stand.foreign_lives(&foreign).await, "somebody else's work is gone");
    stand.end_foreign(&foreign).await;
}

pub(crate) async fn devices_of_others_are_counted<S: Stand>(stand: &S) {
    if !stand.sees_foreign() {
        return;
    }
    let (mut site, key) = (Site::new(stand), key());
    let foreign = stand.foreign(&key, 2).await;
    // what a scheduler tells of its nodes' use may be seconds old
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        let listing = site.list().await;
        assert!(listing.owned.is_empty());
        let held: Option<u32> = listing.unmanaged.iter().map(|held| held.count).sum();
        if held.is_some_and(|held| held >= 2) {
            break;
        }
        assert!(Instant::now() < end, "{:?}", listing.unmanaged);
        pause().await;
    }
    assert!(stand.foreign_lives(&foreign).await);
    stand.end_foreign(&foreign).await;
}

pub(crate) async fn a_runs_end_is_known_after_the_site_forgot_it<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.start(&key, &Program::Exit(8)).await;
    let ended = site.ended(&key).await;
    stand.clean_up(&key).await;
    site.restart();
    assert_eq!(site.ended(&key).await, ended);
    site.start(&key, &Program::Exit(0)).await;
    assert_eq!(site.ended(&key).await, ended);
}

pub(crate) async fn an_end_while_nobody_looked_is_known_after_the_site_forgot_it<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.up(&key, &Program::Wait(5)).await;
    let file = site.runtime.folder(&key).path().join("exit.json");
    site.release(&key);
    // no call meanwhile, as if the agent were away
    let end = Instant::now() + Duration::from_mins(1);
    while stand.is_real() && !file.exists() {
        assert!(Instant::now() < end, "it does not end");
        pause().await;
    }
    stand.clean_up(&key).await;
    site.restart();
    let ended = site.ended(&key).await;
    assert_eq!((ended.how, ended.exit_code), (How::Exited, Some(5)));
    site.start(&key, &Program::Exit(0)).await;
    assert_eq!(site.ended(&key).await, ended);
    assert_eq!(site.log(&key).await, "up\ndown\n");
}

pub(crate) async fn a_run_that_lost_its_supervisor_is_no_success<S: Stand>(stand: &S) {
    if !stand.is_real() {
        return;
    }
    let (mut site, key) = (Site::new(stand), key());
    site.up(&key, &Program::Wait(0)).await;
    let record = fs::read(site.runtime.folder(&key).path().join("supervisor.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    let supervisor = record["process"].as_i64().unwrap();
    stand.kill(&key, supervisor as i32).await;
    let ended = site.ended(&key).await;
    assert_ne!(ended.exit_code, Some(0), "{ended:?}");
    site.start(&key, &Program::Exit(0)).await;
    assert_eq!(site.ended(&key).await, ended, "it is not run twice");
}

/// As after the loss of the disk: nobody but the runtime itself knows of the run. It must not look as if nothing ran.
pub(crate) async fn nothing_runs_beside_its_removed_folder<S: Stand>(stand: &S) {
    if !stand.is_real() {
        return;
    }
    let (mut site, key) = (Site::new(stand), key());
    let mut work = site.work(&Program::Exit(0));
    work.command[2] = "trap '' TERM; echo $$ > main; while :; do sleep 0.1; done".into();
    // until it was seen, on a slow site too
    work.grace_ms = 60_000;
    site.begin(&key, &work).await;
    let main = site.written(&key, "main").await;
    site.forget(&key);
    site.restart();
    let mut seen = false;
    let end = Instant::now() + Duration::from_mins(1);
    while stand.lives(&key, main).await {
        let owned = site.owned().await.contains(&key);
        let observed = site.observe(&key).await;
        // what is listed and looked at while it lived
        if stand.lives(&key, main).await {
            assert!(owned, "it runs and is not listed");
            assert_ne!(observed, Observed::NotStarted);
            seen = true;
            site.stop(&key, "nobody knows of it").await;
        }
        assert!(Instant::now() < end, "it goes on for ever");
        pause().await;
    }
    assert!(seen, "it ended before anybody looked");
}

pub(crate) async fn two_agents_do_not_see_each_others_runs<S: Stand>(stand: &S) {
    let (mut first, mut second, key) = (Site::new(stand), Site::new(stand), key());
    first.up(&key, &Program::Wait(3)).await;
    assert!(second.owned().await.is_empty());
    assert_eq!(second.observe(&key).await, Observed::NotStarted);
    second.stop(&key, "not yours").await;
    second.start(&key, &Program::Exit(4)).await;
    assert_eq!(second.ended(&key).await.exit_code, Some(4));
    first.release(&key);
    assert_eq!(first.ended(&key).await.exit_code, Some(3));
}
