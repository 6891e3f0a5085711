//! The interrupt key ends everything, and the next start goes on from there; so does one after a launcher was killed.

use serde_json::Value;
use system_tests::{
    Demo,
    demo::Home,
    orders::{example, int, text},
    processes,
    remains::{audit_is_clean, held, items, nothing_is_left},
    secs, wait_until,
};

const QUICK: &str = "\
name: done
class: processing
components:
  - {name: worker, need: {cpu: 1, memory: 1GiB}, work: {duration: 1s}, run: {command: [/bin/echo, done]}}
";

/// Orders that were there before a stop.
struct Before {
    done: String,
    bill: Value,
    service: String,
    training: String,
}

#[test]
fn an_interrupted_federation_goes_on_at_its_next_start() {
    let demo = Demo::start();
    let before = orders(&demo);
    let home = demo.interrupt(secs(30));
    nothing_runs(&home, &before);

    let demo = Demo::start_in(home, &[]);
    goes_on(&demo, &before);
    demo.cli.wait(&before.training, "completed", "90s");
    let home = demo.kill(secs(30));
    nothing_runs(&home, &before);

    let demo = Demo::start_in(home, &[]);
    goes_on(&demo, &before);
    assert!(!held(&demo).is_empty(), "a service holds what it uses");
    demo.cli.ok(&["order", "cancel", &before.service]);
    assert_eq!(text(&demo.cli.wait(&before.service, "cancelled", "30s")["state"]), "cancelled");
    nothing_is_left(&demo, secs(20));
    demo.said_no_errors();
}

/// One order that has ended, a service and a training that run.
fn orders(demo: &Demo) -> Before {
    let cli = &demo.cli;
    let done = cli.order_text("done", QUICK);
    cli.wait(&done, "completed", "30s");
    let bill = cli.ok(&["order", "usage", &done]);
    let service = cli.order(&example("service-near-users").0);
    let training = cli.order(&example("pipeline").0);
    for id in [&service, &training] {
        cli.wait(id, "running", "60s");
        assert!(!processes::of_order(id).is_empty(), "what runs has processes");
    }
    Before { done, bill, service, training }
}

fn nothing_runs(home: &Home, before: &Before) {
    let left: Vec<_> =
        processes::of_folder(&home.data()).into_iter().map(|p| format!("{} {}", p.pid, p.command)).collect();
    assert!(left.is_empty(), "a stop left processes: {left:?}");
    for id in [&before.service, &before.training] {
        assert!(processes::of_order(id).is_empty(), "a stop left work of {id}");
    }
}

/// What had ended is as it was, and the service runs again.
fn goes_on(demo: &Demo, before: &Before) {
    let cli = &demo.cli;
    let listed = cli.ok(&["order", "list", "--all"]);
    assert_eq!(items(&listed).len(), 3, "{listed}");
    let done = cli.get(&before.done);
    assert_eq!((&done["state"], int(&done["generation"])), (&"completed".into(), 1));
    assert_eq!(cli.ok(&["order", "usage", &before.done]), before.bill);
    assert!(cli.logs(&before.done)["worker/0"].contains("done"));
    wait_until(secs(60), "the service runs again", || {
        let order = cli.get(&before.service);
        let works = !processes::of_order(&before.service).is_empty();
        let runs = order["phase"] == "running" && order["stale"] == false && works;
        if runs { Ok(()) } else { Err(cli.story(&before.service)) }
    });
    audit_is_clean(demo);
}
