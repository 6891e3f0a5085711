//! One order on every runtime: the same states, the same output, the same exit code. Schedulers are real, where
//! `tests/runtimes.sh` starts them.

use crate::{
    orchestrator::{Agent, Orchestrator},
    world::{assignment, desired, key, until},
};
#[cfg(not(feature = "kubernetes"))]
use rhumb_agent::runtimes::{AnyRuntime, Base};
use rhumb_agent::{
    AgentConfig,
    config::Devices,
    runtimes::{Confinement, ProcessSettings, RuntimeSettings},
};
use rhumb_model::site::Health;
use rhumb_wire::{
    AssignmentGoal::{Lease, Run},
    AssignmentState,
};
use runtime_contract::{
    Stand,
    lab::{RayStand, SlurmLab},
};
use std::path::Path;

const SUPERVISOR: &str = env!("CARGO_BIN_EXE_rhumb-agent");

/// What a tenant sees of it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    states: Vec<AssignmentState>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    checkpoint: Option<String>,
    log: String,
}

fn run(orchestrator: &Orchestrator, config: AgentConfig, node: &str) -> Seen {
    let agent = Agent::start(orchestrator, config);
    until("the node", || {
        let nodes = orchestrator.heard(|heard| heard.reports.iter().rev().find_map(|report| report.nodes.clone()))?;
        let here = nodes.iter().find(|n| n.name.as_str() == node)?;
        (here.devices.iter().filter(|device| device.health == Health::Ok).count() >= 2).then_some(())
    });
    let key = key(1, 1);
    let script = "echo $RHUMB_COMPONENT $RHUMB_REPLICA $RHUMB_NODE | sed s/$RHUMB_NODE/here/; echo step-9 > $RHUMB_CHECKPOINT_FILE; \
                  echo $CUDA_VISIBLE_DEVICES | tr , '\\n' | grep -c .; sleep 1; exit 7";
    let mut wanted = assignment(&key, Lease, &[0, 1], script);
    wanted.node = node.parse().unwrap();
    orchestrator.want(desired(1, 1, vec![wanted.clone()]));
    orchestrator.until(&key, AssignmentState::Staged);
    wanted.goal = Run;
    orchestrator.want(desired(1, 2, vec![wanted]));
    let ended = orchestrator.until(&key, AssignmentState::Exited);
    let log = until("the output", || {
        orchestrator.heard(|heard| heard.logs.get(&key).filter(|log| log.lines().count() == 2).cloned())
    });
    let mut states: Vec<AssignmentState> = orchestrator.heard(|heard| {
        let of = heard.reports.iter().flat_map(|report| &report.assignments).filter(|status| status.key == key);
        of.map(|status| status.state).collect()
    });
    states.dedup();
    agent.end(orchestrator).unwrap();
    Seen { states, exit_code: ended.exit_code, signal: ended.signal, checkpoint: ended.checkpoint, log }
}

fn expected() -> Seen {
    Seen {
        states: [AssignmentState::Staged, AssignmentState::Running, AssignmentState::Exited].to_vec(),
        exit_code: Some(7),
        signal: None,
        checkpoint: Some("step-9".into()),
        log: "trainer 0 here\n2\n".into(),
    }
}

fn with_scheduler(orchestrator: &Orchestrator, data: &Path, runtime: RuntimeSettings, word: &str) -> AgentConfig {
    let devices =
        serde_json::json!({"source": "runtime", "models": {word: "A100"}, "kinds": {"A100": {"memory": "80GiB"}}});
    let devices: Devices = serde_json::from_value(devices).unwrap();
    AgentConfig { runtime, devices: Some(devices), ..orchestrator.config(data) }
}

#[test]
fn one_order_is_the_same_as_a_process() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let runtime = RuntimeSettings::Process(ProcessSettings { confine: Confinement::Off });
    let config = AgentConfig { runtime, ..orchestrator.config(folder.path()) };
    assert_eq!(run(&orchestrator, config, "n1"), expected());
}

#[test]
fn one_order_is_the_same_on_slurm() {
    let Some(lab) = SlurmLab::start(Path::new(SUPERVISOR)) else { return };
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let runtime = lab.settings(lab.rest(), folder.path());
    let config = with_scheduler(&orchestrator, &folder.path().join("data"), runtime, "a100");
    assert_eq!(run(&orchestrator, config, "n2"), expected());
}

#[test]
fn one_order_is_the_same_on_ray() {
    let Some(stand) = RayStand::start(Path::new(SUPERVISOR)) else { return };
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let runtime = stand.settings(folder.path());
    let config = with_scheduler(&orchestrator, &folder.path().join("data"), runtime, "gpu");
    assert_eq!(run(&orchestrator, config, stand.node().as_str()), expected());
}

/// Without the feature the settings are known and refused, with what is missing.
#[cfg(not(feature = "kubernetes"))]
#[test]
fn a_cluster_is_refused_by_an_agent_that_was_built_without() {
    let folder = tempfile::tempdir().unwrap();
    let settings = serde_json::json!({"kubernetes": {"namespace": "n", "shared": "/s", "volume": {"claim": "c"}}});
    let settings: RuntimeSettings = serde_json::from_value(settings).unwrap();
    settings.check().unwrap();
    let base = Base { owner: "edge-1", runs: folder.path(), supervisor: None, log_limit_bytes: 1 };
    let refused = AnyRuntime::open(&settings, base).unwrap_err().to_string();
    assert!(refused.contains("use an agent that was built with the feature kubernetes"), "{refused}");
}

/// Against an API server that is not a real one: it runs pods as processes of this host.
#[cfg(feature = "kubernetes")]
mod cluster {
    use super::{RuntimeSettings, expected, run, with_scheduler};
    use crate::{
        orchestrator::{Agent, Orchestrator},
        world::{assignment, desired, key, until},
    };
    use fake_kubernetes::{FakeCluster, Options};
    use rhumb_agent::AgentConfig;
    use rhumb_wire::{
        AssignmentGoal::{Lease, Run},
        AssignmentState,
    };
    use serde_json::json;
    use std::path::Path;

    fn cluster(tokio: &tokio::runtime::Runtime) -> FakeCluster {
        let cluster = tokio.block_on(async { FakeCluster::start(Options::default()) });
        let gives = json!({"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "4"});
        cluster.add_node("n1", &gives, &json!({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}));
        cluster
    }

    fn config(orchestrator: &Orchestrator, cluster: &FakeCluster, home: &Path) -> AgentConfig {
        let runtime = json!({"kubernetes": {
            "kubeconfig": cluster.kubeconfig(), "namespace": "rhumb", "shared": home.join("runs"),
            "volume": {"host_path": home}, "mount": home, "image": "registry.example/base:1",
        }});
        let runtime: RuntimeSettings = serde_json::from_value(runtime).unwrap();
        with_scheduler(orchestrator, &home.join("data"), runtime, "NVIDIA-A100-SXM4-40GB")
    }

    fn tokio() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
    }

    #[test]
    fn one_order_is_the_same_on_kubernetes() {
        let (tokio, folder, orchestrator) = (tokio(), tempfile::tempdir().unwrap(), Orchestrator::start());
        let cluster = cluster(&tokio);
        let config = config(&orchestrator, &cluster, folder.path());
        assert_eq!(run(&orchestrator, config, "n1"), expected());
    }

    #[test]
    fn a_job_stays_until_its_end_is_acknowledged_and_goes_then() {
        let (tokio, folder, orchestrator) = (tokio(), tempfile::tempdir().unwrap(), Orchestrator::start());
        let cluster = cluster(&tokio);
        let agent = Agent::start(&orchestrator, config(&orchestrator, &cluster, folder.path()));
        let key = key(1, 1);
        let mut wanted = assignment(&key, Lease, &[0], "exit 3");
        orchestrator.want(desired(1, 1, vec![wanted.clone()]));
        orchestrator.until(&key, AssignmentState::Staged);
        wanted.goal = Run;
        orchestrator.want(desired(1, 2, vec![wanted]));
        assert_eq!(orchestrator.until(&key, AssignmentState::Exited).exit_code, Some(3));
        let left = || {
            let store = cluster.store();
            store.all("batch/jobs", "").count() + store.all("pods", "").count()
        };
        assert_eq!(left(), 2, "its job and its pod");
        // nobody lists it any more: its end is known
        orchestrator.want(desired(1, 3, Vec::new()));
        until("its removal", || (left() == 0).then_some(()));
        agent.end(&orchestrator).unwrap();
    }
}
