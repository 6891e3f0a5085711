//! Kueue, Volcano and JobSet, as far as their objects go.

use crate::{
    stand::{FakeStand, NAMESPACE, fresh_key, until},
    tokio,
};
use fake_kubernetes::{Key, Options};
use rhumb_runtimes::Observed;
use rhumb_wire::report::AssignmentKey;
use runtime_contract::{Program, Site};
use serde_json::{Value, json};

fn only(stand: &FakeStand, resource: &str) -> (Key, Value) {
    let store = stand.cluster.store();
    let mut all = store.all(resource, NAMESPACE);
    let (key, object) = all.next().unwrap_or_else(|| panic!("there is no {resource}"));
    assert!(all.next().is_none());
    (key.clone(), object.clone())
}

#[test]
fn a_queued_job_begins_once_it_is_admitted() {
    tokio().block_on(async {
        let stand = FakeStand::with(Options::default(), json!({"queue": {"kueue": "gpus"}}));
        let mut site = Site::new(&stand);
        let key = fresh_key();
        site.start(&key, &Program::Wait(2)).await;
        let (job, object) = only(&stand, "batch/jobs");
        assert_eq!(object["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "gpus");
        assert_eq!(object["spec"]["suspend"], true);
        let mut why = String::new();
        for _ in 0..500 {
            match site.observe(&key).await {
                Observed::Starting { why: said } if said.contains("queue") => {
                    why = said;
                    break;
                }
                Observed::Starting { .. } => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
                other => panic!("{other:?}"),
            }
        }
        assert!(why.contains("waits to be admitted"), "{why}");
        stand.cluster.admit(&job);
        site.is_up(&key).await;
        site.release(&key);
        assert_eq!(site.ended(&key).await.exit_code, Some(2));
    });
}

#[test]
fn a_queued_job_that_is_not_wanted_any_more_leaves_the_queue() {
    tokio().block_on(async {
        let stand = FakeStand::with(Options::default(), json!({"queue": {"kueue": "gpus"}}));
        let mut site = Site::new(&stand);
        let key = fresh_key();
        site.start(&key, &Program::Count).await;
        let ended = site.stopped(&key, "enough").await;
        assert_eq!((ended.message.as_str(), ended.ran_us), ("enough", 0));
        until("its removal", || stand.cluster.store().all("batch/jobs", NAMESPACE).count() == 0).await;
        assert_eq!(site.count(&key), 0);
    });
}

async fn gang(site: &mut Site<'_, FakeStand>) -> [AssignmentKey; 2] {
    let first = fresh_key();
    let keys = [first.clone(), AssignmentKey { replica: 1, ..first }];
    for key in &keys {
        let mut work = site.work(&Program::Wait(30 + key.replica as i32));
        work.gang = [0, 1].into();
        site.begin(key, &work).await;
    }
    keys
}

#[test]
fn a_gang_is_one_group_of_volcano() {
    tokio().block_on(async {
        let stand = FakeStand::with(Options::default(), json!({"queue": {"volcano": "train"}}));
        let mut site = Site::new(&stand);
        let keys = gang(&mut site).await;
        for key in &keys {
            site.is_up(key).await;
        }
        let (_, group) = only(&stand, "scheduling.volcano.sh/podgroups");
        assert_eq!((&group["spec"]["minMember"], &group["spec"]["queue"]), (&json!(2), &json!("train")));
        for key in &keys {
            site.release(key);
            assert_eq!(site.ended(key).await.exit_code, Some(30 + key.replica as i32));
        }
    });
}

#[test]
fn a_gang_can_be_a_job_set() {
    tokio().block_on(async {
        let stand = FakeStand::with(Options::default(), json!({"workload": "job_set", "queue": {"kueue": "gpus"}}));
        let mut site = Site::new(&stand);
        let keys = gang(&mut site).await;
        let (set, object) = only(&stand, "jobset.x-k8s.io/jobsets");
        assert_eq!(object["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "gpus");
        stand.cluster.admit(&set);
        for key in &keys {
            site.is_up(key).await;
        }
        site.restart();
        assert_eq!(site.owned().await, keys.clone().into());
        for key in &keys {
            site.release(key);
            assert_eq!(site.ended(key).await.exit_code, Some(30 + key.replica as i32));
        }
        for key in &keys {
            site.forget(key);
        }
        for _ in 0..500 {
            for key in site.owned().await {
                site.stop(&key, "nobody knows of it").await;
            }
            if stand.cluster.store().all("jobset.x-k8s.io/jobsets", NAMESPACE).count() == 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(stand.cluster.store().all("jobset.x-k8s.io/jobsets", NAMESPACE).count(), 0);
    });
}
