//! What pods ask for, what they may, and what is free on nodes.

use crate::{
    stand::{FakeStand, NAMESPACE, fresh_key, until},
    tokio,
};
use fake_kubernetes::{Key, Options};
use rhumb_model::{Bytes, Cores};
use rhumb_runtimes::DeviceFamily;
use rhumb_wire::report::AssignmentKey;
use runtime_contract::{Program, Site};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn pod(stand: &FakeStand) -> Option<Value> {
    let store = stand.cluster.store();
    store.all("pods", NAMESPACE).find(|(_, pod)| pod["spec"]["nodeName"].is_string()).map(|(_, pod)| pod.clone())
}

#[test]
fn a_pod_asks_for_what_was_leased_and_may_do_nothing_else() {
    tokio().block_on(async {
        let stand = FakeStand::start(Options::default());
        let mut site = Site::new(&stand);
        let key = fresh_key();
        let mut work = site.work(&Program::Exit(0));
        (work.cpu, work.memory) = (Cores::from_milli(1_500), Bytes::from_bytes(3 << 30));
        (work.devices, work.family) = ([4, 6].into(), Some(DeviceFamily::Cuda));
        work.env.insert("RHUMB_IMAGE".into(), "registry.example/train:$(X)".into());
        site.begin(&key, &work).await;
        site.ended(&key).await;
        let pod = pod(&stand).unwrap();
        let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
        let asked = json!({"cpu": "1500m", "memory": "3221225472", "nvidia.com/gpu": "2"});
        assert_eq!((&container["resources"]["requests"], &container["resources"]["limits"]), (&asked, &asked));
        assert_eq!(container["image"], "registry.example/train:$(X)");
        assert_eq!(container["env"], json!([{"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"}]));
        assert_eq!(spec["tolerations"], json!([{"key": "nvidia.com/gpu", "operator": "Exists"}]));
        assert_eq!((&spec["automountServiceAccountToken"], &spec["restartPolicy"]), (&json!(false), &json!("Never")));
        let may = &container["securityContext"];
        assert_eq!((&may["allowPrivilegeEscalation"], &may["capabilities"]["drop"]), (&json!(false), &json!(["ALL"])));
        assert_eq!(spec["securityContext"]["runAsUser"], json!(rustix::process::getuid().as_raw()));
        assert_eq!(spec["terminationGracePeriodSeconds"], 5);
        // no word of the order is in the command, and of the volume it sees its own folder and the supervisor
        let folder = rhumb_runtimes::Runtime::folder(&site.runtime, &key);
        assert_eq!(container["command"][2], folder.path().to_str().unwrap());
        assert_eq!(container["command"].as_array().unwrap().len(), 3);
        let mounts: Vec<&str> = container["volumeMounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|mount| mount["mountPath"].as_str().unwrap())
            .collect();
        assert_eq!(
            mounts,
            [folder.path().to_str().unwrap(), site.home.path().join("runs/.supervisor").to_str().unwrap()]
        );
    });
}

/// The agent's data is on the volume too, or the order does not begin.
#[test]
fn a_pod_sees_its_own_data_and_no_others() {
    tokio().block_on(async {
        let stand = FakeStand::start(Options::default());
        let mut site = Site::new(&stand);
        let key = fresh_key();
        let data = site.home.path().join("data");
        std::fs::create_dir_all(data.join("outputs/o")).unwrap();
        std::fs::write(data.join("corpus"), "text").unwrap();
        let mut work = site.work(&Program::Exit(0));
        let path = |name: &str| data.join(name).to_str().unwrap().to_owned();
        work.env.insert("RHUMB_DATASET_CORPUS".into(), path("corpus"));
        work.env.insert("RHUMB_DATASET_MODEL".into(), path("outputs/o/model"));
        work.env.insert("RHUMB_OUTPUT_DIR".into(), path("outputs/o"));
        site.begin(&key, &work).await;
        assert_eq!(site.ended(&key).await.exit_code, Some(0));
        let pod = pod(&stand).unwrap();
        let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array().unwrap();
        let seen: Vec<(&str, bool)> =
            mounts[2..].iter().map(|m| (m["mountPath"].as_str().unwrap(), m["readOnly"] == true)).collect();
        assert_eq!(seen, [(path("outputs/o").as_str(), false), (path("corpus").as_str(), true)]);
        work.env.insert("RHUMB_DATASET_CORPUS".into(), "/elsewhere/corpus".into());
        let refused = rhumb_runtimes::Runtime::start(&mut site.runtime, &fresh_key(), &work).await.unwrap_err();
        assert!(refused.to_string().contains("put the agent's data_dir below"), "{refused}");
    });
}

#[test]
fn a_gang_goes_to_the_nodes_of_its_plan_as_many_to_each() {
    tokio().block_on(async {
        let stand = FakeStand::start(Options::default());
        for name in ["n2", "n3"] {
            stand.cluster.add_node(name, &json!({"nvidia.com/gpu": "2"}), &json!({}));
        }
        let mut site = Site::new(&stand);
        let first = fresh_key();
        for replica in 0..4 {
            let key = AssignmentKey { replica, ..first.clone() };
            let mut work = site.work(&Program::Exit(0));
            work.node = if replica < 2 { "n2" } else { "n3" }.parse().unwrap();
            (work.devices, work.gang) = ([replica % 2].into(), (0..4).collect());
            site.begin(&key, &work).await;
        }
        for replica in 0..4 {
            site.ended(&AssignmentKey { replica, ..first.clone() }).await;
        }
        let store = stand.cluster.store();
        let nodes: Vec<&str> =
            store.all("pods", NAMESPACE).map(|(_, pod)| pod["spec"]["nodeName"].as_str().unwrap()).collect();
        assert_eq!(nodes.iter().filter(|node| **node == "n2").count(), 2, "{nodes:?}");
        assert_eq!(nodes.iter().filter(|node| **node == "n3").count(), 2, "{nodes:?}");
        let (_, pod) = store.all("pods", NAMESPACE).next().unwrap();
        let spread = &pod["spec"]["topologySpreadConstraints"][0];
        assert_eq!((&spread["maxSkew"], &spread["whenUnsatisfiable"]), (&json!(1), &json!("DoNotSchedule")));
    });
}

#[test]
fn pods_of_others_take_from_what_is_free_and_say_of_which_kind() {
    tokio().block_on(async {
        let stand = FakeStand::start(Options::default());
        let gives = json!({"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2", "nvidia.com/mig-1g.5gb": "3"});
        stand.cluster.add_node("mixed", &gives, &json!({"nvidia.com/gpu.product": "A100"}));
        let theirs = |name: &str, phase: &str, limits: Value| {
            let container = json!({"name": "c", "resources": {"limits": limits, "requests": {"cpu": "500m"}}});
            let pod = json!({"spec": {"nodeName": "mixed", "containers": [container]}, "status": {"phase": phase}});
            stand.cluster.store().create(&Key::new("pods", "theirs", name), pod).unwrap();
        };
        theirs("a", "Running", json!({"nvidia.com/mig-1g.5gb": "2"}));
        theirs("b", "Running", json!({"nvidia.com/gpu": "1"}));
        theirs("over", "Succeeded", json!({"nvidia.com/gpu": "1"}));
        let mut site = Site::new(&stand);
        let mut listing = site.list().await;
        until("what others hold", || listing.unmanaged.len() == 2).await;
        listing.unmanaged.sort();
        let held: Vec<(&str, Option<u32>, &BTreeSet<u32>, u64)> =
            listing.unmanaged.iter().map(|h| (h.id.as_str(), h.count, &h.devices, h.cpu.milli())).collect();
        assert_eq!(
            held,
            [("theirs/a", Some(2), &[3, 4].into(), 500), ("theirs/b", Some(1), &[1].into(), 500)],
            "from the end of each kind"
        );
        let mixed = listing.nodes.iter().find(|node| node.name.as_str() == "mixed").unwrap();
        let expected = vec![("A100".to_owned(), 2), ("nvidia.com/mig-1g.5gb".to_owned(), 3)];
        assert_eq!(mixed.devices, Some(expected));
    });
}

#[test]
fn a_slice_that_stands_is_asked_for_by_its_own_name() {
    tokio().block_on(async {
        let stand = FakeStand::start(Options::default());
        stand.cluster.add_node("mixed", &json!({"nvidia.com/gpu": "2", "nvidia.com/mig-1g.5gb": "3"}), &json!({}));
        let mut site = Site::new(&stand);
        let key = fresh_key();
        let mut work = site.work(&Program::Exit(0));
        (work.node, work.devices) = ("mixed".parse().unwrap(), [3].into());
        site.begin(&key, &work).await;
        site.ended(&key).await;
        let limits = &pod(&stand).unwrap()["spec"]["containers"][0]["resources"]["limits"];
        assert_eq!(*limits, json!({"nvidia.com/mig-1g.5gb": "1"}));
    });
}

#[test]
fn an_order_without_an_image_is_refused_where_the_site_has_none() {
    tokio().block_on(async {
        let stand = FakeStand::with(Options::default(), json!({"image": null}));
        let site = Site::new(&stand);
        let work = site.work(&Program::Exit(0));
        let refused = rhumb_runtimes::Runtime::admit(&site.runtime, &work).unwrap_err().to_string();
        assert_eq!(
            refused,
            "work without an image cannot be run: name run.image in the order, or runtime.kubernetes.image at the site"
        );
    });
}
