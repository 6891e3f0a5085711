//! An agent is killed: leased work moves once its lease has ended, other work is taken up where it stood.

use std::collections::BTreeSet;
use system_tests::{
    Cli, Demo,
    orders::{example, int, placed, text},
    processes,
    remains::{audit_is_clean, nothing_is_left},
    secs, wait_until,
};

const SITE: &str = "shenzhen-cloud";
const ELSEWHERE: &str = "hangzhou-edge";

#[test]
fn work_survives_the_loss_of_an_agent() {
    let demo = Demo::start();
    a_lease_moves_work_and_its_lack_keeps_it(&demo);
    nothing_is_left(&demo, secs(20));
    an_agent_killed_while_files_arrive_is_no_loss(&demo);
    nothing_is_left(&demo, secs(20));
    demo.no_panics();
}

/// Sites where work of an order has processes now.
fn sites_of_work(id: &str) -> BTreeSet<String> {
    processes::of_order(id).into_iter().filter_map(|p| p.environment.get("RHUMB_SITE").cloned()).collect()
}

/// Kills the agent as a power cut would, and keeps it down.
fn lose(demo: &Demo, point: &str) {
    processes::kill(demo.pid(point));
    demo.cli.demo(&["agent", "stop", point]);
}

fn a_lease_moves_work_and_its_lack_keeps_it(demo: &Demo) {
    let cli = &demo.cli;
    let (_, leased) = example("failover");
    let leased = leased.replace("duration: 40s", "duration: 20s").replace("sleep 40", "sleep 20");
    assert!(leased.contains("sleep 20") && leased.contains("lease: 10s"));
    let moves = cli.order_text("moves", &leased);
    let stays = cli.order_text("stays", STAYS);
    let order = cli.wait(&moves, "running", "60s");
    assert_eq!((placed(&order, "tuner").into_keys().next().as_deref(), int(&order["generation"])), (Some(SITE), 1));
    cli.wait(&stays, "running", "60s");
    wait_until(secs(5), "both run", || {
        let found = (sites_of_work(&moves), sites_of_work(&stays));
        let here = BTreeSet::from([SITE.to_owned()]);
        if found == (here.clone(), here) { Ok(()) } else { Err(format!("{found:?}")) }
    });

    lose(demo, SITE);
    wait_until(secs(60), "leased work runs elsewhere", || {
        let sites = sites_of_work(&moves);
        assert!(sites.len() <= 1, "two generations run at once: {sites:?}");
        audit_is_clean(demo);
        let order = cli.get(&moves);
        let found = format!("{} {} generation {} at {sites:?}", order["state"], order["phase"], order["generation"]);
        let there = int(&order["generation"]) == 2 && order["phase"] == "running" && sites.contains(ELSEWHERE);
        if there { Ok(()) } else { Err(found) }
    });
    assert_eq!(text(&cli.ok(&["site", "get", SITE])["state"]), "lost");
    let unheard = cli.get(&stays);
    assert_eq!((&unheard["generation"], &unheard["stale"]), (&1.into(), &true.into()), "{unheard}");

    cli.demo(&["agent", "start", SITE]);
    wait_until(secs(30), "the agent is back", || {
        assert!(!sites_of_work(&moves).contains(SITE), "the old generation runs again");
        match text(&cli.ok(&["site", "get", SITE])["state"]) {
            state if state == "ready" => Ok(()),
            state => Err(format!("its site is {state}")),
        }
    });
    let moved = cli.wait(&moves, "completed", "60s");
    assert_eq!(
        (int(&moved["generation"]), placed(&moved, "tuner").into_keys().next().as_deref()),
        (2, Some(ELSEWHERE))
    );
    let stayed = cli.wait(&stays, "completed", "60s");
    assert_eq!(int(&stayed["generation"]), 1, "work without a lease is not placed again: {}", cli.story(&stays));
    assert!(cli.logs(&stays)["worker/0"].contains("stayed"), "output of the time without an agent is kept");
    audit_is_clean(demo);
}

/// Runs through the time without an agent.
const STAYS: &str = "\
name: stays
class: tuning
components:
  - name: worker
    need: {accelerators: {count: 1, models: [L40S]}, cpu: 4, memory: 8GiB}
    work: {duration: 35s}
    run: {command: [/bin/sh, -c, 'sleep 35; echo stayed']}
constraints: {sites: [shenzhen-cloud]}
";

/// Source, relay and sink of a transfer: each is killed once while bytes are on their way.
fn an_agent_killed_while_files_arrive_is_no_loss(demo: &Demo) {
    for point in ["frankfurt-core", "pop-marseille", "paris-edge"] {
        let (file, _) = example("processing-residency");
        let id = demo.cli.order(&file);
        in_phase(&demo.cli, &id, "staging");
        lose(demo, point);
        demo.cli.demo(&["agent", "start", point]);
        let order = demo.cli.wait(&id, "completed", "90s");
        println!("{point} lost while staging: generation {}", order["generation"]);
        audit_is_clean(demo);
    }
}

/// Waits for just this phase: an order that is past it proves nothing.
fn in_phase(cli: &Cli, id: &str, phase: &str) {
    wait_until(secs(30), &format!("{id} is {phase}"), || {
        let order = cli.get(id);
        match text(&order["phase"]) {
            now if now == phase => Ok(()),
            now => Err(format!("it is {} {now}", order["state"])),
        }
    });
}
