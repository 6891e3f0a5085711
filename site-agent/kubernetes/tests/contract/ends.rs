//! How runs end when the cluster ends them, and what becomes of their objects.

use crate::{
    stand::{FakeStand, NAMESPACE, fresh_key, until},
    tokio,
};
use fake_kubernetes::{End, Key, Options};
use rhumb_runtimes::{How, Observed, Runtime};
use rhumb_wire::report::AssignmentKey;
use runtime_contract::{Program, Site};
use serde_json::{Value, json};

/// The pods of an order, in the order of their places.
fn pods(stand: &FakeStand, key: &AssignmentKey) -> Vec<(Key, Value)> {
    let store = stand.cluster.store();
    let of = |pod: &Value| pod["metadata"]["labels"]["rhumb/order"] == key.order.to_string().as_str();
    let mut pods: Vec<(Key, Value)> =
        store.all("pods", NAMESPACE).filter(|(_, pod)| of(pod)).map(|(key, pod)| (key.clone(), pod.clone())).collect();
    pods.sort_by_key(|(_, pod)| pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"].to_string());
    pods
}

async fn ended_by(why: End) -> (rhumb_runtimes::Ended, rhumb_runtimes::Ended) {
    let stand = FakeStand::start(Options::default());
    let mut site = Site::new(&stand);
    let key = fresh_key();
    site.up(&key, &Program::Wait(0)).await;
    stand.cluster.end_pod(&pods(&stand, &key)[0].0, why);
    let ended = site.ended(&key).await;
    site.restart();
    site.start(&key, &Program::Exit(0)).await;
    (ended, site.ended(&key).await)
}

#[test]
fn a_run_out_of_memory_died_by_the_kill_and_says_so() {
    tokio().block_on(async {
        let (ended, again) = ended_by(End::OutOfMemory).await;
        assert_eq!((ended.how, ended.exit_code, ended.signal), (How::Exited, None, Some(9)));
        assert!(ended.message.contains("OOMKilled"), "{}", ended.message);
        assert_eq!(again, ended, "it is not run twice");
    });
}

#[test]
fn an_evicted_run_was_stopped_and_says_by_what() {
    tokio().block_on(async {
        let (ended, again) = ended_by(End::Evicted).await;
        assert_eq!((ended.how, ended.exit_code), (How::Stopped, None));
        assert!(ended.message.contains("Evicted (The node was low on resource"), "{}", ended.message);
        assert_eq!(again, ended, "it is not run twice");
    });
}

#[test]
fn a_run_whose_job_somebody_deletes_has_a_last_word() {
    tokio().block_on(async {
        let stand = FakeStand::start(Options::default());
        let mut site = Site::new(&stand);
        let key = fresh_key();
        site.up(&key, &Program::Polite).await;
        let job = stand.cluster.store().all("batch/jobs", NAMESPACE).next().unwrap().0.clone();
        stand.cluster.store().remove(&job);
        let ended = site.ended(&key).await;
        assert_eq!((ended.how, ended.exit_code), (How::Stopped, Some(0)));
        assert!(ended.message.contains("the site asked for its end"), "{}", ended.message);
    });
}

#[test]
fn what_was_cleaned_up_without_a_record_is_unknown_and_not_run_again() {
    tokio().block_on(async {
        let stand = FakeStand::start(Options::default());
        let mut site = Site::new(&stand);
        let key = fresh_key();
        site.up(&key, &Program::Wait(0)).await;
        let pod = pods(&stand, &key)[0].0.clone();
        // while no agent looks
        stand.cluster.end_pod(&pod, End::OutOfMemory);
        {
            let mut store = stand.cluster.store();
            let jobs: Vec<Key> = store.all("batch/jobs", NAMESPACE).map(|(key, _)| key.clone()).collect();
            for job in &jobs {
                store.remove(job);
            }
            store.remove(&pod);
        }
        site.restart();
        let ended = site.ended(&key).await;
        assert_eq!((ended.how, ended.exit_code, ended.signal), (How::Lost, None, None));
        assert!(ended.message.contains("no record of job rhumb-"), "{}", ended.message);
        site.start(&key, &Program::Exit(0)).await;
        assert_eq!(site.ended(&key).await, ended);
    });
}

#[test]
fn objects_stay_until_the_end_is_acknowledged_and_go_then() {
    tokio().block_on(async {
        let stand = FakeStand::start(Options::default());
        let mut site = Site::new(&stand);
        let (one, gang) = (fresh_key(), fresh_key());
        let second = AssignmentKey { replica: 1, ..gang.clone() };
        site.start(&one, &Program::Exit(0)).await;
        let mut work = site.work(&Program::Exit(5));
        work.gang = [0, 1].into();
        site.begin(&gang, &work).await;
        site.begin(&second, &work).await;
        for key in [&one, &gang, &second] {
            site.ended(key).await;
        }
        until("the jobs' own ends", || {
            stand.cluster.store().all("batch/jobs", NAMESPACE).all(|(_, job)| job["status"]["conditions"].is_array())
        })
        .await;
        assert_eq!(site.owned().await.len(), 3);
        assert_eq!((pods(&stand, &one).len(), pods(&stand, &gang).len()), (1, 2));
        // one of the gang is acknowledged: the other's records stay
        site.forget(&one);
        site.forget(&second);
        let mut left = 3;
        for _ in 0..500 {
            // as an agent goes through what nobody knows of
            for key in site.owned().await {
                if !site.runtime.folder(&key).path().exists() {
                    site.stop(&key, "nobody knows of it").await;
                }
            }
            left = pods(&stand, &one).len() + pods(&stand, &gang).len();
            if left == 1 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!((left, pods(&stand, &gang).len()), (1, 1), "the first of the gang is still to be acknowledged");
        assert_eq!(stand.cluster.store().all("batch/jobs", NAMESPACE).count(), 1);
        assert_eq!(site.ended(&gang).await.exit_code, Some(5));
        site.forget(&gang);
        for _ in 0..500 {
            for key in site.owned().await {
                site.stop(&key, "nobody knows of it").await;
            }
            // the agent hears of it a moment later
            if stand.cluster.store().all("batch/jobs", NAMESPACE).count() == 0 && site.owned().await.is_empty() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert!(site.owned().await.is_empty());
        assert_eq!(stand.cluster.store().all("batch/jobs", NAMESPACE).count(), 0);
    });
}

#[test]
fn a_pod_without_its_job_is_ours_still_and_goes_with_its_run() {
    tokio().block_on(async {
        let stand = FakeStand::start(Options::default());
        let mut site = Site::new(&stand);
        let key = fresh_key();
        site.up(&key, &Program::Polite).await;
        // somebody deletes the job and leaves what it owned
        {
            let mut store = stand.cluster.store();
            let job = store.all("batch/jobs", NAMESPACE).next().unwrap().0.clone();
            let pod = store.all("pods", NAMESPACE).next().unwrap().0.clone();
            store.change(&pod, |pod| pod["metadata"]["ownerReferences"] = json!([]));
            store.remove(&job);
        }
        assert!(site.owned().await.contains(&key));
        assert!(matches!(site.observe(&key).await, Observed::Running { .. }));
        // the agent's records are lost too
        site.forget(&key);
        site.restart();
        let mut left = 1;
        for _ in 0..500 {
            site.stop(&key, "nobody knows of it").await;
            left = pods(&stand, &key).len();
            // the agent hears of it a moment later
            if left == 0 && site.owned().await.is_empty() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(left, 0);
        assert!(site.owned().await.is_empty());
    });
}

#[test]
fn one_of_a_gang_that_is_killed_leaves_the_others_alone() {
    tokio().block_on(async {
        let stand = FakeStand::start(Options::default());
        let mut site = Site::new(&stand);
        let first = fresh_key();
        let second = AssignmentKey { replica: 1, ..first.clone() };
        let mut work = site.work(&Program::Wait(6));
        work.gang = [0, 1].into();
        site.begin(&first, &work).await;
        site.begin(&second, &work).await;
        site.is_up(&first).await;
        site.is_up(&second).await;
        stand.cluster.end_pod(&pods(&stand, &first)[1].0, End::OutOfMemory);
        assert_eq!(site.ended(&second).await.signal, Some(9));
        assert!(matches!(site.observe(&first).await, Observed::Running { .. }));
        // also when the killed one is forgotten
        site.forget(&second);
        site.stop(&second, "nobody knows of it").await;
        site.release(&first);
        assert_eq!(site.ended(&first).await.exit_code, Some(6));
    });
}

#[test]
fn pods_that_do_not_see_the_agents_volume_are_no_success() {
    tokio().block_on(async {
        let stand =
            FakeStand::with(Options::default(), json!({"supervisor": "/bin/true", "volume": {"host_path": "/"}}));
        let mut site = Site::new(&stand);
        let key = fresh_key();
        site.start(&key, &Program::Exit(0)).await;
        let ended = site.ended(&key).await;
        assert_eq!((ended.how, ended.exit_code), (How::Lost, None), "{ended:?}");
    });
}
