//! Leases, which end runs although nobody looks.

use crate::{Program, Site, Stand, site::key};
use rhumb_runtimes::{How, Observed, Runtime, folder::Hold, host::BootTime};
use rhumb_wire::report::AssignmentKey;
use std::time::Duration;

fn lease<S: Stand>(site: &Site<'_, S>, key: &AssignmentKey, ms: u64) {
    let hold = Hold::new(BootTime::now(), ms, 500);
    site.runtime.folder(key).write_hold(Some(&hold)).unwrap();
}

pub(crate) async fn a_lease_ends_a_run_although_nobody_looks<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.up(&key, &Program::Deaf).await;
    lease(&site, &key, 1_500);
    let file = site.runtime.folder(&key).path().join("exit.json");
    let end = std::time::Instant::now() + Duration::from_mins(1);
    while stand.is_real() && !file.exists() {
        assert!(std::time::Instant::now() < end, "it does not end");
        crate::site::pause().await;
    }
    let ended = site.ended(&key).await;
    assert_eq!(ended.how, How::Stopped);
    assert!(ended.message.contains("lease"), "{}", ended.message);
}

pub(crate) async fn a_lease_that_is_prolonged_keeps_a_run<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.up(&key, &Program::Wait(2)).await;
    for _ in 0..10 {
        lease(&site, &key, 20_000);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(matches!(site.observe(&key).await, Observed::Running { .. }));
    site.release(&key);
    assert_eq!(site.ended(&key).await.exit_code, Some(2));
}

pub(crate) async fn a_lease_that_is_over_lets_nothing_begin<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    let folder = site.runtime.folder(&key);
    std::fs::create_dir_all(folder.path()).unwrap();
    lease(&site, &key, 0);
    site.start(&key, &Program::Count).await;
    let ended = site.ended(&key).await;
    assert_eq!((ended.how, ended.ran_us), (How::Stopped, 0));
    assert_eq!(site.count(&key), 0);
}

pub(crate) async fn without_a_lease_a_run_goes_on<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.up(&key, &Program::Wait(2)).await;
    lease(&site, &key, 60_000);
    site.runtime.folder(&key).write_hold(None).unwrap();
    site.restart();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(matches!(site.observe(&key).await, Observed::Running { .. }));
    site.release(&key);
    assert_eq!(site.ended(&key).await.exit_code, Some(2));
}
