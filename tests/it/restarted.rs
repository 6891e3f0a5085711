//! The interrupt key ends everything, and a second start goes on from there.

use system_tests::{
    Demo,
    demo::Home,
    orders::{example, int, text},
    processes,
    remains::{audit_is_clean, held, items, nothing_is_left},
    secs, wait_until,
};

#[test]
fn an_interrupted_federation_goes_on_at_its_next_start() {
    let demo = Demo::start();
    let cli = &demo.cli;
    let done = cli.order_text("done", QUICK);
    cli.wait(&done, "completed", "30s");
    let bill = cli.ok(&["order", "usage", &done]);
    let service = cli.order(&example("service-near-users").0);
    let training = cli.order(&example("pipeline").0);
    cli.wait(&service, "running", "60s");
    cli.wait(&training, "running", "60s");
    assert!(!processes::of_order(&service).is_empty(), "a service that runs has processes");

    let home = demo.interrupt(secs(30));
    let folder = home.data();
    let left: Vec<_> = processes::of_folder(&folder).into_iter().map(|p| format!("{} {}", p.pid, p.command)).collect();
    assert!(left.is_empty(), "an interrupt left processes: {left:?}");
    for id in [&service, &training] {
        assert!(processes::of_order(id).is_empty(), "an interrupt left work of {id}");
    }
    goes_on(home, &done, &bill, &service, &training);
}

const QUICK: &str = "\
name: done
class: processing
components:
  - {name: worker, need: {cpu: 1, memory: 1GiB}, work: {duration: 1s}, run: {command: [/bin/echo, done]}}
";

fn goes_on(home: Home, done: &str, bill: &serde_json::Value, service: &str, training: &str) {
    let demo = Demo::start_in(home, &[]);
    let cli = &demo.cli;
    let listed = cli.ok(&["order", "list", "--all"]);
    assert_eq!(items(&listed).len(), 3, "{listed}");
    let before = cli.get(done);
    assert_eq!((&before["state"], int(&before["generation"])), (&"completed".into(), 1));
    assert_eq!(&cli.ok(&["order", "usage", done]), bill);
    assert!(cli.logs(done)["worker/0"].contains("done"));

    wait_until(secs(60), "the service runs again", || {
        let order = cli.get(service);
        let heard = !processes::of_order(service).is_empty();
        if order["phase"] == "running" && order["stale"] == false && heard { Ok(()) } else { Err(cli.story(service)) }
    });
    cli.wait(training, "completed", "90s");
    audit_is_clean(&demo);
    assert!(!held(&demo).is_empty(), "a service holds what it uses");
    cli.ok(&["order", "cancel", service]);
    assert_eq!(text(&cli.wait(service, "cancelled", "30s")["state"]), "cancelled");
    nothing_is_left(&demo, secs(20));
    demo.said_no_errors();
}
