//! What survives when the agent, the orchestrator or the way between them fails.

use crate::{
    orchestrator::{Agent, AgentProcess, Orchestrator, status},
    world::{assignment, desired, key, lives, until, written},
};
use rhumb_agent::config::OnShutdown;
use rhumb_model::Span;
use rhumb_wire::{AssignmentGoal::Run, AssignmentState, report::AssignmentKey};
use std::{fs, path::Path, time::Instant};

/// A run that is under way: its process.
fn under_way(orchestrator: &Orchestrator, data_dir: &Path, key: &AssignmentKey, lease_ms: Option<u64>) -> i32 {
    let mut wanted = assignment(key, Run, &[0], "echo $$ > main; while ! test -e end; do sleep 0.02; done; exit 5");
    wanted.lease_ms = lease_ms;
    orchestrator.want(desired(1, 5, vec![wanted]));
    orchestrator.until(key, AssignmentState::Running);
    written(&data_dir.join("runs"), key, "main")
}

/// Lets it come to its own end.
fn let_end(data_dir: &Path, key: &AssignmentKey) {
    fs::write(crate::world::folder(&data_dir.join("runs"), key).join("work/end"), "").unwrap();
}

#[test]
fn an_older_desired_state_changes_nothing_and_a_new_epoch_counts_anew() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let key = key(1, 1);
    let main = under_way(&orchestrator, folder.path(), &key, None);
    for (epoch, generation) in [(1, 4), (0, 99), (1, 5)] {
        orchestrator.want(desired(epoch, generation, Vec::new()));
        orchestrator.until_reports(4);
        let last = orchestrator.last().unwrap();
        assert_eq!((last.epoch, last.generation), (1, 5));
        assert_eq!(status(&last, &key).unwrap().state, AssignmentState::Running);
    }
    assert!(lives(main));
    orchestrator.want(desired(2, 1, Vec::new()));
    until("nothing to be left", || orchestrator.last()?.assignments.is_empty().then_some(()));
    let last = orchestrator.last().unwrap();
    assert_eq!((last.epoch, last.generation), (2, 1));
    assert!(!lives(main));
    agent.end(&orchestrator).unwrap();
}

#[test]
fn an_agent_started_again_goes_on_without_the_orchestrator() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let key = key(1, 1);
    let main = under_way(&orchestrator, folder.path(), &key, None);
    agent.end(&orchestrator).unwrap();
    assert!(lives(main), "work outlives its agent");
    orchestrator.deaf();
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let_end(folder.path(), &key);
    // told by nobody, the agent records the end and gives the device back
    let record = crate::world::folder(&folder.path().join("runs"), &key).join("record.json");
    until("the record of the end", || fs::read_to_string(&record).ok()?.contains("exited").then_some(()));
    let next = crate::world::key(2, 1);
    let same = assignment(&key, Run, &[0], "echo again > again");
    orchestrator.want(desired(1, 6, vec![same, assignment(&next, Run, &[0], "true")]));
    orchestrator.until(&next, AssignmentState::Exited);
    assert_eq!(orchestrator.until(&key, AssignmentState::Exited).exit_code, Some(5));
    assert!(!crate::world::folder(&folder.path().join("runs"), &key).join("work/again").exists());
    agent.end(&orchestrator).unwrap();
}

#[test]
fn the_work_of_a_killed_agent_is_adopted() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let data = folder.path().join("data");
    let config = orchestrator.config(&data);
    let mut process = AgentProcess::start(&config, &folder);
    let key = key(1, 1);
    let main = under_way(&orchestrator, &data, &key, None);
    process.0.kill().unwrap();
    process.0.wait().unwrap();
    assert!(lives(main));
    let boot = orchestrator.last().unwrap().boot_id;
    let again = AgentProcess::start(&config, &folder);
    until("the next start's report", || (orchestrator.last()?.boot_id != boot).then_some(()));
    orchestrator.until(&key, AssignmentState::Running);
    let_end(&data, &key);
    assert_eq!(orchestrator.until(&key, AssignmentState::Exited).exit_code, Some(5));
    drop(again);
}

#[test]
fn without_an_answer_leased_work_ends_and_does_not_come_back() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let mut config = orchestrator.config(folder.path());
    // longer than the lease: the agent must not wait that long
    config.sync.wait = Span::from_micros(5_000_000);
    let agent = Agent::start(&orchestrator, config);
    let (leased, free) = (key(1, 1), key(2, 1));
    let main = under_way(&orchestrator, folder.path(), &leased, Some(2_000));
    let unleased = assignment(&free, Run, &[1], "echo $$ > main; exec sleep 100");
    let both = {
        let mut first = assignment(&leased, Run, &[0], "true");
        first.lease_ms = Some(2_000);
        vec![first, unleased]
    };
    orchestrator.want(desired(1, 6, both.clone()));
    orchestrator.until(&free, AssignmentState::Running);
    let began = Instant::now();
    // answered reports prolong it well beyond its length
    until("some time", || (began.elapsed().as_millis() > 2_500).then_some(()));
    assert!(lives(main));
    orchestrator.deaf();
    until("the end of the lease", || (!lives(main)).then_some(()));
    assert!(lives(written(&folder.path().join("runs"), &free, "main")), "work without a lease goes on");
    orchestrator.want(desired(1, 7, both));
    let stopped = orchestrator.until(&leased, AssignmentState::Stopped);
    assert!(stopped.message.contains("lease"), "{}", stopped.message);
    orchestrator.want(desired(1, 8, Vec::new()));
    until("nothing to be left", || orchestrator.last()?.assignments.is_empty().then_some(()));
    agent.end(&orchestrator).unwrap();
}

#[test]
fn leased_work_ends_with_its_lease_although_its_agent_is_dead() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let data = folder.path().join("data");
    let mut process = AgentProcess::start(&orchestrator.config(&data), &folder);
    let key = key(1, 1);
    let main = under_way(&orchestrator, &data, &key, Some(3_000));
    process.0.kill().unwrap();
    process.0.wait().unwrap();
    assert!(lives(main));
    let began = Instant::now();
    until("the end of the lease", || (!lives(main)).then_some(()));
    assert!(began.elapsed().as_millis() < 3_500, "{:?}", began.elapsed());
    let again = Agent::start(&orchestrator, orchestrator.config(&data));
    let stopped = orchestrator.until(&key, AssignmentState::Stopped);
    assert!(stopped.message.contains("lease"), "{}", stopped.message);
    again.end(&orchestrator).unwrap();
}

#[test]
fn before_the_first_answer_nothing_is_stopped() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let key = key(1, 1);
    let main = under_way(&orchestrator, folder.path(), &key, None);
    agent.end(&orchestrator).unwrap();
    fs::remove_file(folder.path().join("desired.json")).unwrap();
    orchestrator.deaf();
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let_end(folder.path(), &key);
    let record = crate::world::folder(&folder.path().join("runs"), &key).join("record.json");
    until("the record of the end", || fs::read_to_string(&record).ok()?.contains("exited").then_some(()));
    assert!(!lives(main));
    agent.end(&orchestrator).unwrap();
}

#[test]
fn an_agent_whose_parent_is_gone_ends_and_takes_its_work_along() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let data = folder.path().join("data");
    let mut config = orchestrator.config(&data);
    config.on_shutdown = OnShutdown::StopJobs;
    config.stop_with_parent = true;
    let mut process = AgentProcess::start(&config, &folder);
    let main = under_way(&orchestrator, &data, &key(1, 1), None);
    drop(process.0.stdin.take());
    assert!(process.0.wait().unwrap().success());
    assert!(!lives(main));
}

#[test]
fn output_is_told_once_and_whole_although_answers_are_lost() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let key = key(1, 1);
    let wanted =
        assignment(&key, Run, &[0], "echo $$ > main; seq 1 50000; while ! test -e end; do sleep 0.02; done; seq 1 9");
    orchestrator.want(desired(1, 1, vec![wanted.clone()]));
    written(&folder.path().join("runs"), &key, "main");
    orchestrator.deaf();
    let_end(folder.path(), &key);
    orchestrator.want(desired(1, 1, vec![wanted]));
    orchestrator.until(&key, AssignmentState::Exited);
    let numbers: Vec<String> = (1..=50_000).chain(1..=9).map(|n| n.to_string()).collect();
    let expected = numbers.join("\n") + "\n";
    until("the output", || orchestrator.heard(|heard| (heard.logs.get(&key)? == &expected).then_some(())));
    agent.end(&orchestrator).unwrap();
}

#[test]
fn an_agent_killed_at_any_moment_runs_each_assignment_once() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let (data, count) = (folder.path().join("data"), folder.path().join("count"));
    let config = orchestrator.config(&data);
    for round in 1..=12 {
        let key = key(u128::from(round), 1);
        let mut process = AgentProcess::start(&config, &folder);
        let boot = until("the agent", || {
            let seen = orchestrator.last()?;
            (seen.generation == round - 1).then_some(seen.boot_id)
        });
        let script = format!("echo {round} >> {}", count.display());
        orchestrator.want(desired(1, round, vec![assignment(&key, Run, &[0], &script)]));
        let began = Instant::now();
        until("the moment", || (began.elapsed().as_millis() as u64 >= 4 * round).then_some(()));
        process.0.kill().unwrap();
        process.0.wait().unwrap();
        let again = AgentProcess::start(&config, &folder);
        until("the next start's report", || (orchestrator.last()?.boot_id != boot).then_some(()));
        assert_eq!(orchestrator.until(&key, AssignmentState::Exited).exit_code, Some(0));
        drop(again);
    }
    let lines: Vec<String> = fs::read_to_string(&count).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(lines, (1..=12).map(|round| round.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_run_whose_record_was_lost_is_adopted_and_not_run_again() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let key = key(1, 1);
    let main = under_way(&orchestrator, folder.path(), &key, None);
    agent.end(&orchestrator).unwrap();
    fs::remove_file(folder.path().join("desired.json")).unwrap();
    fs::remove_file(crate::world::folder(&folder.path().join("runs"), &key).join("record.json")).unwrap();
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    orchestrator.until_reports(2);
    orchestrator.until(&key, AssignmentState::Running);
    assert!(lives(main));
    let_end(folder.path(), &key);
    assert_eq!(orchestrator.until(&key, AssignmentState::Exited).exit_code, Some(5));
    agent.end(&orchestrator).unwrap();
}

/// The disk of the agent is empty: its supervisors end what they can no longer record, and nothing is run a second time.
#[test]
fn with_an_empty_disk_a_run_is_told_as_ended_and_not_run_again() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let (data, count) = (folder.path().join("data"), folder.path().join("count"));
    let mut process = AgentProcess::start(&orchestrator.config(&data), &folder);
    let key = key(1, 1);
    let script = format!("echo once >> {}; trap '' TERM; while :; do sleep 0.05; done", count.display());
    let mut wanted = assignment(&key, Run, &[0], &script);
    // long enough for the agent to be back before it is over
    wanted.grace_ms = 6_000;
    orchestrator.want(desired(1, 5, vec![wanted]));
    orchestrator.until(&key, AssignmentState::Running);
    until("its start", || count.exists().then_some(()));
    let boot = orchestrator.last().unwrap().boot_id;
    process.0.kill().unwrap();
    process.0.wait().unwrap();
    until("the end of the disk", || fs::remove_dir_all(&data).ok());
    let again = AgentProcess::start(&orchestrator.config(&data), &folder);
    until("the next start's report", || (orchestrator.last()?.boot_id != boot).then_some(()));
    let ended = until("the end", || {
        let status = status(&orchestrator.last()?, &key)?;
        matches!(status.state, AssignmentState::Lost | AssignmentState::Stopped).then_some(status)
    });
    assert_eq!(ended.exit_code, None);
    assert_eq!(fs::read_to_string(&count).unwrap(), "once\n");
    drop(again);
}
