//! Assignments from lease to end, with one orchestrator that never fails.

use crate::{
    orchestrator::{Agent, Orchestrator, status},
    world::{assignment, desired, folder, key, lives, until, written},
};
use rhumb_agent::{AgentError, config::OnShutdown};
use rhumb_model::site::Piece;
use rhumb_wire::{
    Assignment,
    AssignmentGoal::{Lease, Run, Stop},
    AssignmentState, DevicePart, FlowEndpoint, InputFile, OutputFile, Role, RunTerms, RunVariant,
};
use std::fs;

#[test]
fn an_assignment_is_leased_run_and_told_of_with_its_output() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let key = key(1, 1);
    let script = "echo $RHUMB_COMPONENT $RHUMB_REPLICA $RHUMB_SITE $RHUMB_NODE [$CUDA_VISIBLE_DEVICES] $TRACEPARENT $COLOUR; \
                  test -S $RHUMB_FLOW_0 && test -d $RHUMB_OUTPUT_DIR && echo flow; exit 7";
    let mut wanted = assignment(&key, Lease, &[1, 3], script);
    wanted.traceparent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    wanted.env = [("COLOUR", "blue"), ("RHUMB_SITE", "elsewhere"), ("CUDA_VISIBLE_DEVICES", "0")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    wanted.endpoints = vec![FlowEndpoint { flow: 0, legs: Vec::new(), role: Role::Source }];
    orchestrator.want(desired(1, 1, vec![wanted.clone()]));
    orchestrator.until(&key, AssignmentState::Staged);
    wanted.goal = Run;
    orchestrator.want(desired(1, 2, vec![wanted]));
    let ended = orchestrator.until(&key, AssignmentState::Exited);
    assert_eq!((ended.exit_code, ended.signal), (Some(7), None));
    let expected = "trainer 0 edge-1 n1 [1,3] 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 blue\nflow\n";
    until("the output", || orchestrator.heard(|heard| (heard.logs.get(&key)? == expected).then_some(())));
    let first = orchestrator.heard(|heard| heard.reports[0].clone());
    assert_eq!(first.nodes.unwrap()[0].devices.len(), 4);
    assert_eq!(first.datasets[0].bytes, 100_000);
    let ports: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("ports.json")).unwrap()).unwrap();
    assert_eq!(ports["overlay"], first.overlay_port.unwrap());
    assert!(orchestrator.last().unwrap().nodes.is_none(), "the inventory is sent once");
    let seqs: Vec<u64> = orchestrator.heard(|heard| heard.reports.iter().map(|report| report.seq).collect());
    assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
    agent.end(&orchestrator).unwrap();
}

/// A share and a slice: what each is shown of its device, and what keeps it to that.
#[test]
fn parts_of_devices_are_leased_and_their_work_is_told_what_it_has() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let mut config = orchestrator.config(folder.path());
    let devices = r#"{"source": "file", "kinds": {"H100": {"memory": "80GiB"}}, "nodes": [{"cpu": 16, "memory": "64GiB",
        "accelerators": {"model": "H100", "count": 2, "mig": {"3g.40gb": 1, "1g.10gb": 1}}}]}"#;
    config.devices = serde_json::from_str(devices).unwrap();
    let agent = Agent::start(&orchestrator, config);
    let script = "echo $CUDA_VISIBLE_DEVICES $RHUMB_ISOLATION $RHUMB_DEVICE_SHARE $RHUMB_DEVICE_MEMORY_BYTES \
                  $CUDA_MPS_PINNED_DEVICE_MEM_LIMIT $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
    let [first, second, slice, other] = [key(1, 1), key(2, 1), key(3, 1), key(4, 1)];
    let share = |key, part| Assignment { part: Some(part), ..assignment(key, Run, &[0], script) };
    let number = Piece::Slice { device: 1, slice: 1 }.number().unwrap();
    let of = |profile: &str| Some(DevicePart::Slice { profile: profile.parse().unwrap() });
    orchestrator.want(desired(
        1,
        1,
        vec![
            share(&first, DevicePart::Share { thousandths: 500, memory_bytes: None }),
            share(&second, DevicePart::Share { thousandths: 255, memory_bytes: Some(1 << 30) }),
            Assignment { part: of("3g.40gb"), ..assignment(&slice, Run, &[number], script) },
            Assignment { part: of("2g.20gb"), ..assignment(&other, Run, &[number - 1], script) },
        ],
    ));
    for (key, told) in [
        (&first, "0 advisory 500 42949672960 0=40960M 50\n"),
        (&second, "0 advisory 255 1073741824 0=1024M 26\n"),
        (&slice, "1:1 enforced\n"),
    ] {
        orchestrator.until(key, AssignmentState::Exited);
        until(told, || orchestrator.heard(|heard| (heard.logs.get(key)? == told).then_some(())));
    }
    let refused = orchestrator.until(&other, AssignmentState::Refused);
    assert!(
        refused.message.contains("slice 1/0 of node n1 is 1g.10gb now, 2g.20gb was asked for"),
        "{}",
        refused.message
    );
    agent.end(&orchestrator).unwrap();
}

#[test]
fn a_device_is_given_once_and_given_on_when_its_holder_leaves() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let (first, second, third) = (key(1, 1), key(2, 1), key(3, 1));
    let holder = assignment(&first, Run, &[0, 1], "trap '' TERM; echo $$ > main; while :; do sleep 0.1; done");
    orchestrator.want(desired(1, 1, vec![holder.clone(), assignment(&second, Run, &[1, 2], "true")]));
    let refused = orchestrator.until(&second, AssignmentState::Refused);
    assert!(refused.message.contains("device 1"), "{}", refused.message);
    let main = written(&folder.path().join("runs"), &first, "main");
    // it takes its grace to go; until then its devices are its own, and the next waits without being refused
    let next = assignment(&third, Run, &[1], "echo $$ > main; exec sleep 100");
    orchestrator.want(desired(1, 2, vec![next]));
    orchestrator.until(&third, AssignmentState::Running);
    assert!(!lives(main));
    orchestrator.heard(|heard| {
        for report in &heard.reports {
            let both = status(report, &first).is_some_and(|s| s.state == AssignmentState::Running)
                && status(report, &third).is_some_and(|s| s.state == AssignmentState::Running);
            assert!(!both, "both run at once");
            assert!(status(report, &third).is_none_or(|s| s.state != AssignmentState::Refused));
        }
    });
    orchestrator.want(desired(1, 3, Vec::new()));
    until("nothing to be left", || orchestrator.last()?.assignments.is_empty().then_some(()));
    agent.end(&orchestrator).unwrap();
}

#[test]
fn what_is_not_there_or_cannot_be_run_is_refused_and_stays_refused() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let keys = [key(1, 1), key(2, 1), key(3, 1)];
    let mut bad = [
        assignment(&keys[0], Run, &[9], "true"),
        assignment(&keys[1], Run, &[0, 0], "true"),
        assignment(&keys[2], Run, &[0], "a\0b"),
    ];
    orchestrator.want(desired(1, 1, bad.to_vec()));
    let messages = keys.clone().map(|key| orchestrator.until(&key, AssignmentState::Refused).message);
    assert!(messages[0].contains("no device 9") && messages[1].contains("twice") && messages[2].contains("NUL"));
    bad[0].devices = vec![0];
    orchestrator.want(desired(1, 2, bad.to_vec()));
    orchestrator.until_reports(3);
    orchestrator.until(&keys[0], AssignmentState::Refused);
    agent.end(&orchestrator).unwrap();
}

#[test]
fn what_is_no_longer_listed_is_stopped_and_removed_with_its_folder() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let (key, runs) = (key(1, 1), folder.path().join("runs"));
    let script = "echo out > $RHUMB_OUTPUT_DIR/result; sleep 100 & echo $! > child; echo $$ > main; sleep 100";
    orchestrator.want(desired(1, 1, vec![assignment(&key, Run, &[0], script)]));
    orchestrator.until(&key, AssignmentState::Running);
    let pids = ["child", "main"].map(|file| written(&runs, &key, file));
    orchestrator.want(desired(1, 2, Vec::new()));
    until("nothing to be left", || orchestrator.last()?.assignments.is_empty().then_some(()));
    assert_eq!(pids.map(lives), [false; 2]);
    assert!(!crate::world::folder(&runs, &key).exists());
    until("the outputs to go", || (fs::read_dir(folder.path().join("outputs")).ok()?.count() == 0).then_some(()));
    agent.end(&orchestrator).unwrap();
}

#[test]
fn a_stop_ends_the_work_and_keeps_its_record() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let (running, unknown) = (key(1, 1), key(2, 1));
    let wanted = |goal| assignment(&running, goal, &[0], "echo $$ > main; exec sleep 100");
    orchestrator.want(desired(1, 1, vec![wanted(Run)]));
    orchestrator.until(&running, AssignmentState::Running);
    orchestrator.want(desired(1, 2, vec![wanted(Stop), assignment(&unknown, Stop, &[0], "true")]));
    let stopped = orchestrator.until(&running, AssignmentState::Stopped);
    assert_eq!((stopped.signal, stopped.exit_code), (Some(15), None));
    assert!(stopped.ran_us > 0);
    orchestrator.until(&unknown, AssignmentState::Stopped);
    assert!(!lives(written(&folder.path().join("runs"), &running, "main")));
    agent.end(&orchestrator).unwrap();
}

#[test]
fn a_later_generation_ends_the_earlier_one_and_bars_its_return() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let (old, new) = (key(1, 1), key(1, 2));
    let script = "echo $$ > main; exec sleep 100";
    orchestrator.want(desired(1, 1, vec![assignment(&old, Run, &[0], script)]));
    orchestrator.until(&old, AssignmentState::Running);
    let both = vec![assignment(&old, Run, &[0], script), assignment(&new, Run, &[0], script)];
    orchestrator.want(desired(1, 2, both));
    let stopped = orchestrator.until(&old, AssignmentState::Stopped);
    assert!(stopped.message.contains("later generation"), "{}", stopped.message);
    orchestrator.until(&new, AssignmentState::Running);
    orchestrator.want(desired(1, 3, vec![assignment(&new, Run, &[0], script)]));
    until("the old one to go", || status(&orchestrator.last()?, &old).is_none().then_some(()));
    let back = vec![assignment(&old, Run, &[1], script), assignment(&new, Run, &[0], script)];
    orchestrator.want(desired(1, 4, back));
    let refused = orchestrator.until(&old, AssignmentState::Refused);
    assert!(refused.message.contains("generation 2"), "{}", refused.message);
    orchestrator.want(desired(1, 5, Vec::new()));
    until("nothing to be left", || orchestrator.last()?.assignments.is_empty().then_some(()));
    agent.end(&orchestrator).unwrap();
}

#[test]
fn a_dataset_held_here_is_an_input_whole_or_in_part() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let (whole, part, missing) = (key(1, 1), key(2, 1), key(3, 1));
    let input = |dataset: &str, offset, bytes| vec![InputFile { dataset: dataset.into(), leg: None, bytes, offset }];
    let script = "sha256sum < $RHUMB_DATASET_CORPUS | cut -c 1-64";
    let mut wanted = [&whole, &part, &missing].map(|key| assignment(key, Run, &[], script));
    wanted[0].inputs = input("corpus", 0, 100_000);
    wanted[1].inputs = input("corpus", 50_000, 20_000);
    wanted[2].inputs = input("nothing", 0, 10);
    orchestrator.want(desired(1, 1, wanted.to_vec()));
    for key in [&whole, &part] {
        let ended = orchestrator.until(key, AssignmentState::Exited);
        let sum = format!("{}\n", ended.staged_sha256[0]);
        until("the output", || orchestrator.heard(|heard| (heard.logs.get(key)? == &sum).then_some(())));
    }
    let sums = [&whole, &part].map(|key| orchestrator.until(key, AssignmentState::Exited).staged_sha256);
    assert_ne!(sums[0], sums[1]);
    assert_eq!(sums[0][0], orchestrator.last().unwrap().datasets[0].sha256);
    let waiting = orchestrator.until(&missing, AssignmentState::Leased);
    assert!(waiting.message.contains("no copy of dataset nothing"), "{}", waiting.message);
    agent.end(&orchestrator).unwrap();
}

#[test]
fn what_work_writes_becomes_a_dataset_of_its_site() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let mut wanted = assignment(&key(1, 1), Run, &[], "printf abc > $RHUMB_DATASET_REPORT_EU");
    wanted.outputs = vec![OutputFile { dataset: "report-eu".into(), leg: None, bytes: 3 }];
    orchestrator.want(desired(1, 1, vec![wanted]));
    let held =
        until("the dataset", || orchestrator.last()?.datasets.into_iter().find(|dataset| dataset.name == "report-eu"));
    assert_eq!(held.bytes, 3);
    assert_eq!(held.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    agent.end(&orchestrator).unwrap();
}

#[test]
fn told_to_take_its_work_along_the_agent_does() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let mut config = orchestrator.config(folder.path());
    config.on_shutdown = OnShutdown::StopJobs;
    let agent = Agent::start(&orchestrator, config.clone());
    let key = key(1, 1);
    orchestrator.want(desired(1, 1, vec![assignment(&key, Run, &[0], "echo $$ > main; exec sleep 100")]));
    orchestrator.until(&key, AssignmentState::Running);
    let main = written(&folder.path().join("runs"), &key, "main");
    agent.end(&orchestrator).unwrap();
    assert!(!lives(main));
    let last = status(&orchestrator.last().unwrap(), &key).unwrap();
    assert_eq!(last.state, AssignmentState::Stopped);
    assert!(last.message.contains("told to end"), "{}", last.message);
    assert!(self::folder(&folder.path().join("runs"), &key).exists());
}

#[test]
fn a_data_folder_serves_one_agent() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    orchestrator.until_reports(1);
    let second = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    assert!(matches!(second.fails(&orchestrator), AgentError::Locked { .. }));
    agent.end(&orchestrator).unwrap();
}

#[test]
fn a_command_for_the_family_of_the_devices_takes_the_place_of_the_usual_one() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let (with, without) = (key(1, 1), key(2, 1));
    let usual = "echo usual $RHUMB_IMAGE [${CUDA_VISIBLE_DEVICES-unset}] [${ROCR_VISIBLE_DEVICES-unset}]";
    let special = "echo cuda $RHUMB_IMAGE [${CUDA_VISIBLE_DEVICES-unset}] [${ROCR_VISIBLE_DEVICES-unset}] $RHUMB_CHECKPOINT; \
                   echo step-8 > $RHUMB_CHECKPOINT_FILE";
    let command = ["sh", "-c", special].map(str::to_owned).to_vec();
    let variants = [
        ("ascend", RunVariant { command: vec!["false".into()], image: Some("x/cann:1".into()) }),
        ("cuda", RunVariant { command, image: Some("x/cuda:1".into()) }),
    ];
    let terms = RunTerms {
        image: Some("x/any:1".into()),
        variants: variants.map(|(family, variant)| (family.to_owned(), variant)).into(),
        restart_from: Some("step-7".into()),
        ..RunTerms::default()
    };
    let mut wanted = [assignment(&with, Run, &[1, 2], usual), assignment(&without, Run, &[], usual)];
    for wanted in &mut wanted {
        wanted.terms.clone_from(&terms);
    }
    orchestrator.want(desired(1, 1, wanted.to_vec()));
    let ended = orchestrator.until(&with, AssignmentState::Exited);
    assert_eq!((ended.exit_code, ended.checkpoint.as_deref()), (Some(0), Some("step-8")));
    let log = |key| {
        until("the output", || {
            orchestrator.heard(|heard| heard.logs.get(key).filter(|log| log.ends_with('\n')).cloned())
        })
    };
    assert_eq!(log(&with), "cuda x/cuda:1 [1,2] [unset] step-7\n");
    // without a device no family is meant, and no device is shown
    assert_eq!(log(&without), "usual x/any:1 [] []\n");
    agent.end(&orchestrator).unwrap();
}
