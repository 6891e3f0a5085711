//! The orchestrator and agents are killed at chosen and at random moments: every order goes on, and nothing is left over.

use std::{
    thread,
    time::{Duration, Instant},
};
use system_tests::{
    Demo, links,
    orders::{example, in_phase, int, text},
    patience::until_moment,
    processes,
    remains::{audit_is_clean, items, nothing_is_left},
    secs,
    seed::Seed,
    wait_until,
};

/// Kills at moments that nobody chose, each with a new order on its way.
const RANDOM: u64 = 10;
/// Random moments lie within this time of the order: longer than one needs to be running.
const WITHIN_MS: u64 = 4_000;

#[test]
fn orders_survive_the_loss_of_the_orchestrator() {
    let demo = Demo::start();
    let mut seed = Seed::new("orders_survive_the_loss_of_the_orchestrator");
    links::settle(&demo);
    let mut ids = vec![demo.cli.order(&example("training-two-sites").0)];
    in_phase(&demo.cli, &ids[0], "staging");
    kill_and_see_it_back(&demo, "server");
    let agents: Vec<String> = demo.pids().into_keys().filter(|name| name != "server").collect();
    for round in 0..RANDOM {
        let chosen = seed.below(2 * agents.len() as u64) as usize;
        let victim = agents.get(chosen).map_or("server", String::as_str);
        let moment = Duration::from_millis(seed.below(WITHIN_MS));
        println!("round {round}: {victim} is killed {} ms after the order was sent", moment.as_millis());
        ids.push(order_while_it_is_killed(&demo, round, victim, moment));
        audit_is_clean(&demo);
    }
    let listed = demo.cli.ok(&["order", "list", "--all"]);
    assert_eq!(items(&listed).len(), ids.len(), "a request that was repeated made one order: {listed}");
    for id in &ids {
        assert!(items(&listed).iter().any(|o| text(&o["id"]) == *id), "acknowledged order {id} is gone");
        let order = demo.cli.wait(id, "completed", "120s");
        // no site was away for longer than a restart takes: work was never in doubt
        assert_eq!(int(&order["generation"]), 1, "{}", demo.cli.story(id));
        assert!(!demo.cli.logs(id).is_empty(), "{id} said nothing");
    }
    nothing_is_left(&demo, secs(20));
    demo.said_no_errors();
}

/// Sends an order with a key, again until it is answered, while something is killed. The answer is the order's id.
fn order_while_it_is_killed(demo: &Demo, round: u64, victim: &str, after: Duration) -> String {
    let names = ["pipeline", "processing-residency", "tuning-cheapest-window"];
    let (file, _) = example(names[round as usize % names.len()]);
    let key = format!("round-{round}");
    let send = || {
        wait_until(secs(30), "the order is answered", || {
            let answer = demo.cli.run(&["order", "create", "-f", &file, "--key", &key]);
            if answer.code == 0 { Ok(text(&answer.json["id"])) } else { Err(answer.stderr) }
        })
    };
    let moment = Instant::now() + after;
    let first = thread::scope(|scope| {
        let sent = scope.spawn(send);
        until_moment(moment);
        kill_and_see_it_back(demo, victim);
        sent.join().expect("the order is taken")
    });
    assert_eq!(send(), first, "the same key is the same order");
    first
}

/// Kills a process of the demo, and waits until another one answers in its place.
fn kill_and_see_it_back(demo: &Demo, name: &str) {
    let old = demo.pid(name);
    processes::kill(old);
    wait_until(secs(30), &format!("{name} is back"), || {
        let new = demo.pids().get(name).copied().filter(|pid| *pid != old && processes::is_alive(*pid));
        new.ok_or("there is no new process")?;
        let answer = demo.cli.run(&["order", "list", "--limit", "1"]);
        if answer.code == 0 { Ok(()) } else { Err(answer.stderr) }
    });
}
