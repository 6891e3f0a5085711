//! The orchestrator is killed at chosen and at random moments: every order goes on, and nothing is left over.

use std::time::{Duration, Instant};
use system_tests::{
    Demo,
    orders::{example, int, text},
    patience::until_moment,
    processes,
    remains::{audit_is_clean, items, nothing_is_left},
    secs,
    seed::Seed,
    wait_until,
};

/// Kills at moments that nobody chose, each with a new order on its way.
const RANDOM: u64 = 6;
/// Random moments lie within this time of the last restart: longer than an order needs to be running.
const WITHIN_MS: u64 = 5_000;

#[test]
fn orders_survive_the_loss_of_the_orchestrator() {
    let demo = Demo::start();
    let mut seed = Seed::new("orders_survive_the_loss_of_the_orchestrator");
    let mut ids: Vec<String> =
        ["training-two-sites", "processing-residency"].map(|e| demo.cli.order(&example(e).0)).into();
    wait_until(secs(30), "an order is staging", || {
        let found = ids.iter().map(|id| demo.cli.get(id)).any(|o| o["phase"] == "staging");
        if found { Ok(()) } else { Err("none is".to_owned()) }
    });
    kill_and_see_it_back(&demo);

    let more = ["pipeline", "processing-residency", "tuning-cheapest-window"];
    for round in 0..RANDOM {
        let next = Instant::now() + Duration::from_millis(seed.below(WITHIN_MS));
        ids.push(demo.cli.order(&example(more[round as usize % more.len()]).0));
        until_moment(next);
        kill_and_see_it_back(&demo);
        audit_is_clean(&demo);
    }
    let listed = demo.cli.ok(&["order", "list", "--all"]);
    for id in &ids {
        assert!(items(&listed).iter().any(|o| text(&o["id"]) == *id), "acknowledged order {id} is gone");
        let order = demo.cli.wait(id, "completed", "120s");
        // its work was never in doubt: agents run on without an orchestrator
        assert_eq!(int(&order["generation"]), 1, "{}", demo.cli.story(id));
        assert!(!demo.cli.logs(id).is_empty(), "{id} said nothing");
    }
    nothing_is_left(&demo, secs(20));
    demo.no_panics();
}

/// Kills the orchestrator, and waits until another process answers in its place.
fn kill_and_see_it_back(demo: &Demo) {
    let old = demo.pid("server");
    processes::kill(old);
    wait_until(secs(20), "the orchestrator is back", || {
        let new = demo.pids().get("server").copied().filter(|pid| *pid != old && processes::is_alive(*pid));
        let new = new.ok_or("there is no new process")?;
        let answer = demo.cli.run(&["order", "list", "--limit", "1"]);
        if answer.code == 0 { Ok(new) } else { Err(answer.stderr) }
    });
}
