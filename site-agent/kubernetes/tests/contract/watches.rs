//! What the API does to its clients: watches that end, versions that are gone, answers that are lost, names that are taken.

use crate::{
    stand::{FakeStand, NAMESPACE, fresh_key, until},
    tokio,
};
use fake_kubernetes::{Key, Options};
use rhumb_runtimes::{How, Observed, Runtime, RuntimeError};
use runtime_contract::{Program, Site};
use serde_json::{Value, json};
use std::{fs, time::Duration};

/// How often something was listed anew.
fn lists(stand: &FakeStand, resource: &str) -> usize {
    let all = stand.cluster.asked(&["GET ", resource, "labelSelector"]);
    all - stand.cluster.asked(&["GET ", resource, "labelSelector", "watch"])
}

const SHORT: Options = Options { bookmark: Duration::from_millis(20), watch_most: Duration::from_millis(300) };

#[test]
fn a_watch_goes_on_from_its_last_bookmark() {
    tokio().block_on(async {
        let stand = FakeStand::start(SHORT);
        let mut site = Site::new(&stand);
        let key = fresh_key();
        site.up(&key, &Program::Wait(3)).await;
        let before = (lists(&stand, "/jobs"), stand.cluster.asked(&["/jobs", "watch"]));
        // others change, ours do not, and what was is forgotten: only a bookmark is still good
        for round in 0..8 {
            let node = Key::new("nodes", "", "n1");
            stand.cluster.store().change(&node, |node| node["metadata"]["labels"]["round"] = json!(round.to_string()));
            until("a bookmark", || stand.cluster.all_told("batch/jobs")).await;
            stand.cluster.compact();
        }
        // and as far as it was told, it takes up its watch again
        let twice = || stand.cluster.asked(&["/jobs", "watch"]) >= before.1 + 2;
        until("two more watches", twice).await;
        until("a watch", || stand.cluster.all_told("batch/jobs")).await;
        assert_eq!(lists(&stand, "/jobs"), before.0, "it was listed anew");
        site.release(&key);
        assert_eq!(site.ended(&key).await.exit_code, Some(3));
    });
}

#[test]
fn what_happened_behind_a_version_that_is_gone_is_not_missed() {
    tokio().block_on(async {
        // no bookmark ever comes in time
        let slow = Options { bookmark: Duration::from_hours(1), watch_most: Duration::from_hours(1) };
        let stand = FakeStand::start(slow);
        let mut site = Site::new(&stand);
        let key = fresh_key();
        site.up(&key, &Program::Wait(3)).await;
        let before = lists(&stand, "/pods");
        // in one breath, so that no watch can tell of it
        {
            let mut store = stand.cluster.store();
            let jobs: Vec<Key> = store.all("batch/jobs", NAMESPACE).map(|(key, _)| key.clone()).collect();
            for job in jobs {
                store.change(&job, |job| job["metadata"]["labels"]["seen"] = json!("no"));
            }
            let pods: Vec<Key> = store.all("pods", NAMESPACE).map(|(key, _)| key.clone()).collect();
            for pod in pods {
                store.change(&pod, |pod| pod["metadata"]["labels"]["seen"] = json!("no"));
            }
            store.forget();
        }
        until("a new list", || lists(&stand, "/pods") > before).await;
        assert!(matches!(site.observe(&key).await, Observed::Running { .. }));
        site.release(&key);
        assert_eq!(site.ended(&key).await.exit_code, Some(3));
    });
}

#[test]
fn nothing_is_said_while_the_server_does_not_answer() {
    tokio().block_on(async {
        let stand = FakeStand::start(SHORT);
        let mut site = Site::new(&stand);
        let key = fresh_key();
        site.up(&key, &Program::Wait(4)).await;
        for _ in 0..2 {
            stand.cluster.fail("/jobs", 503);
        }
        let mut refused = None;
        for _ in 0..1_500 {
            if let Err(error) = site.runtime.list_owned().await {
                refused = Some(error);
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let refused = refused.expect("what is not known was told");
        assert!(
            matches!(&refused, RuntimeError::Site { answer, .. } if answer.contains("as the test asked")),
            "{refused}"
        );
        // by itself it is well again, and the run was never lost
        assert!(site.owned().await.contains(&key));
        site.release(&key);
        assert_eq!(site.ended(&key).await.exit_code, Some(4));
    });
}

#[test]
fn a_job_whose_answer_was_lost_is_not_made_twice() {
    tokio().block_on(async {
        let stand = FakeStand::start(Options::default());
        let mut site = Site::new(&stand);
        let key = fresh_key();
        stand.cluster.lose("POST /apis/batch", 504);
        let work = site.work(&Program::Count);
        let lost = site.runtime.start(&key, &work).await;
        assert!(matches!(lost, Err(RuntimeError::Site { .. })), "{lost:?}");
        site.begin(&key, &work).await;
        assert_eq!(site.ended(&key).await.exit_code, Some(0));
        assert_eq!(site.count(&key), 1);
        assert_eq!(stand.cluster.store().all("batch/jobs", NAMESPACE).count(), 1);
    });
}

/// The number of a run, as its folder has it.
fn run_of(site: &Site<'_, FakeStand>, key: &rhumb_wire::report::AssignmentKey) -> String {
    let spec = fs::read(site.runtime.folder(key).path().join("spec.json")).unwrap();
    serde_json::from_slice::<Value>(&spec).unwrap()["run"].as_str().unwrap().to_owned()
}

#[test]
fn a_name_that_is_taken_is_not_taken_over() {
    tokio().block_on(async {
        let stand = FakeStand::start(Options::default());
        let mut site = Site::new(&stand);
        let key = fresh_key();
        stand.cluster.fail("POST /apis/batch", 500);
        let work = site.work(&Program::Count);
        site.runtime.start(&key, &work).await.unwrap_err();
        let theirs = Key::new("batch/jobs", NAMESPACE, &format!("rhumb-{}", run_of(&site, &key)));
        let job = json!({"metadata": {"labels": {"rhumb/run": "x"}}, "spec": {"suspend": true}, "status": {}});
        stand.cluster.store().create(&theirs, job).unwrap();
        let refused = site.runtime.start(&key, &work).await.unwrap_err();
        assert!(refused.to_string().contains("not this agent's"), "{refused}");
        assert!(!matches!(site.observe(&key).await, Observed::Running { .. }));
        let ended = site.stopped(&key, "enough").await;
        assert_eq!((ended.how, site.count(&key)), (How::Stopped, 0));
        assert!(stand.cluster.store().get(&theirs).is_some(), "somebody else's job is gone");
    });
}

#[test]
fn a_removal_that_meets_another_write_is_tried_again() {
    tokio().block_on(async {
        let stand = FakeStand::start(Options::default());
        let mut site = Site::new(&stand);
        let key = fresh_key();
        site.start(&key, &Program::Exit(0)).await;
        site.ended(&key).await;
        site.forget(&key);
        stand.cluster.fail("DELETE /apis/batch", 409);
        site.stop(&key, "nobody knows of it").await;
        until("its removal", || stand.cluster.store().all("batch/jobs", NAMESPACE).count() == 0).await;
        assert_eq!(stand.cluster.asked(&["DELETE /apis/batch"]), 2);
    });
}

#[test]
fn long_lists_are_read_to_their_end() {
    tokio().block_on(async {
        let stand = FakeStand::start(Options::default());
        for number in 0..1_200 {
            let pod =
                json!({"metadata": {}, "spec": {"nodeName": "n1", "containers": []}, "status": {"phase": "Running"}});
            // as a node other than this one keeps it
            stand.cluster.store().create(&Key::new("pods", "theirs", &format!("p{number}")), pod).unwrap();
        }
        let mut site = Site::new(&stand);
        assert_eq!(site.list().await.unmanaged.len(), 1_200);
        assert!(stand.cluster.asked(&["/pods", "continue"]) >= 2);
    });
}
