//! More is asked for than there is, by all at once (F56).

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
use system_tests::{
    Cli, Demo, links,
    orders::{example, in_phase, int, placed, text},
    processes,
    remains::{audit_is_clean, items, nothing_is_left},
    secs, wait_until,
};

/// Nodes with eight H100s in the demo's federation.
const ROOM: usize = 20;
const ASKED: usize = 50;

#[test]
fn devices_and_links_are_given_once() {
    let demo = Demo::start();
    a_key_makes_it_one_order(&demo.cli);
    quotes_hold_until_they_expire(&demo);
    a_cancel_while_staging_leaves_nothing(&demo);
    fifty_orders_for_room_of_twenty(&demo);
    nothing_is_left(&demo, secs(30));
    demo.said_no_errors();
}

/// All of the small devices at one site, for a second.
fn all_of_paris(name: &str) -> String {
    format!(
        "\
name: {name}
class: processing
components:
  - name: worker
    replicas: 2
    need: {{accelerators: {{count: 4, models: [L4]}}, cpu: 4, memory: 8GiB}}
    work: {{duration: 2s}}
    run: {{command: [/bin/sleep, \"2\"]}}
constraints: {{sites: [paris-edge]}}
"
    )
}

fn a_key_makes_it_one_order(cli: &Cli) {
    let file = cli.document("keyed.yaml", &all_of_paris("keyed"));
    let first = cli.ok(&["order", "create", "-f", &file, "--key", "the-same"]);
    let again = cli.ok(&["order", "create", "-f", &file, "--key", "the-same"]);
    assert_eq!(first["id"], again["id"]);
    let other = cli.document("keyed-other.yaml", &all_of_paris("keyed-other"));
    let refused = cli.run(&["order", "create", "-f", &other, "--key", "the-same"]);
    assert_eq!(refused.code, 1, "the same key with another body: {}", refused.stdout);
    cli.wait(&text(&first["id"]), "completed", "30s");
}

/// Most of the short link between Shanghai and Zhangjiakou, which alone is short enough.
const HALF_OF_A_LINK: &str = "\
name: wide
class: training
components:
  - name: trainer
    replicas: 2
    need: {cpu: 1, memory: 1GiB}
    work: {duration: 2s}
    run: {command: [/bin/sleep, \"2\"]}
    place: {spread: site}
flows:
  - {from: trainer, to: trainer, rate: 30Mbps, max_latency: 11ms}
constraints: {sites: [shanghai-core, zhangjiakou-core]}
";

/// A rival waits while a quote holds what both want, devices or a link, and goes ahead when it has expired.
fn quotes_hold_until_they_expire(demo: &Demo) {
    let cli = &demo.cli;
    let paris = cli.document("paris.yaml", &all_of_paris("rival"));
    let wide = cli.document("wide.yaml", HALF_OF_A_LINK);
    links::settle(demo);
    let kept = [&paris, &wide].map(|file| cli.ok(&["quote", "-f", file, "--hold", "10s"]));
    let rivals = [&paris, &wide].map(|file| cli.order(file));
    for (rival, true_reasons) in rivals.iter().zip([&["capacity", "shape"][..], &["bandwidth", "latency"]]) {
        let waiting = cli.wait(rival, "pending", "8s");
        assert_eq!(waiting["state"], "pending", "a rival went ahead of a quote: {waiting}");
        let reasons: Vec<_> = waiting["reasons"].as_array().into_iter().flatten().map(|r| text(&r["reason"])).collect();
        assert!(reasons.iter().any(|r| true_reasons.contains(&r.as_str())), "{waiting}");
    }
    audit_is_clean(demo);
    for (rival, quote) in rivals.iter().zip(&kept) {
        assert_eq!(quote["binding"], true, "{quote}");
        let done = cli.wait(rival, "completed", "45s");
        assert!(text(&done["updated"]) > text(&quote["expires"]), "a rival ended before the quote did: {done}");
        let late = cli.run(&["order", "create", "--quote", &text(&quote["id"])]);
        assert_eq!(late.code, 1, "a quote that has expired is taken up: {}", late.stdout);
    }

    // a quote that is taken up in time is what was quoted
    let quote = cli.ok(&["quote", "-f", &paris, "--hold", "30s"]);
    let order = cli.ok(&["order", "create", "--quote", &text(&quote["id"])]);
    let order = cli.wait(&text(&order["id"]), "completed", "45s");
    assert_eq!(placed(&order, "worker"), placed(&quote, "worker"));
    assert_eq!(order["quote_id"], quote["id"]);
    let twice = cli.run(&["order", "create", "--quote", &text(&quote["id"])]);
    assert_eq!(twice.code, 1, "a quote is taken up once: {}", twice.stdout);
}

/// Cancelled while its files are on their way.
fn a_cancel_while_staging_leaves_nothing(demo: &Demo) {
    links::settle(demo);
    let id = demo.cli.order(&example("training-two-sites").0);
    in_phase(&demo.cli, &id, "staging");
    demo.cli.ok(&["order", "cancel", &id]);
    let order = demo.cli.wait(&id, "cancelled", "30s");
    assert!(processes::of_order(&id).is_empty(), "{order}");
    nothing_is_left(demo, secs(20));
}

fn fifty_orders_for_room_of_twenty(demo: &Demo) {
    let cli = &demo.cli;
    let document = |i: usize| {
        format!(
            "\
name: rush-{i}
class: training
components:
  - name: trainer
    need: {{accelerators: {{count: 8, models: [H100], interconnect: nvlink}}, cpu: 16, memory: 128GiB}}
    work: {{duration: 10min}}
    run: {{command: [/bin/sleep, \"600\"]}}
flows:
  - {{from: dataset/corpus, to: trainer, volume: 200kB, rate: 1Mbps}}
"
        )
    };
    let files: Vec<_> = (0..ASKED).map(|i| cli.document(&format!("rush-{i}.yaml"), &document(i))).collect();
    let over = AtomicBool::new(false);
    let ids: Vec<String> = thread::scope(|scope| {
        let auditor = scope.spawn(|| {
            let mut times = 0;
            while !over.load(Ordering::Relaxed) {
                audit_is_clean(demo);
                nothing_is_given_twice(cli);
                times += 1;
            }
            times
        });
        let clients: Vec<_> = files.iter().map(|file| scope.spawn(move || cli.order(file))).collect();
        let ids = clients.into_iter().map(|c| c.join().expect("an order is taken")).collect::<Vec<_>>();
        let settled =
            thread::Builder::new().spawn_scoped(scope, || as_many_as_there_is_room_for(cli)).expect("a thread").join();
        over.store(true, Ordering::Relaxed);
        let audits = auditor.join().expect("every audit is clean");
        println!("{audits} audits while {ASKED} orders came");
        settled.expect("the room is shared out");
        ids
    });
    every_reason_is_true(cli);
    nothing_is_given_twice(cli);
    audit_is_clean(demo);

    thread::scope(|scope| {
        for id in &ids {
            scope.spawn(move || cli.ok(&["order", "cancel", id]));
        }
    });
    wait_until(secs(60), "every order is cancelled", || {
        let left: Vec<_> =
            rush(cli).into_iter().filter(|o| o["state"] != "cancelled").map(|o| o["state"].clone()).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{} are not: {left:?}", left.len())) }
    });
}

fn rush(cli: &Cli) -> Vec<Value> {
    let list = cli.ok(&["order", "list", "--all"]);
    items(&list).iter().filter(|o| text(&o["name"]).starts_with("rush-")).cloned().collect()
}

fn as_many_as_there_is_room_for(cli: &Cli) {
    wait_until(secs(90), "twenty run and thirty wait", || {
        let orders = rush(cli);
        assert_eq!(orders.len(), ASKED);
        let count = |wanted: &dyn Fn(&Value) -> bool| orders.iter().filter(|o| wanted(o)).count();
        let placed = count(&|o| o["state"] == "inProgress" || o["state"] == "held");
        assert!(placed <= ROOM, "{placed} orders in room for {ROOM}");
        let running = count(&|o| o["phase"] == "running");
        let pending = count(&|o| o["state"] == "pending");
        let seen = format!("{placed} placed, {running} running, {pending} pending");
        if running == ROOM && pending == ASKED - ROOM { Ok(()) } else { Err(seen) }
    });
}

/// Who waits, waits for devices, and says how many there are: none.
fn every_reason_is_true(cli: &Cli) {
    for order in rush(cli).iter().filter(|o| o["state"] == "pending") {
        let reasons = order["reasons"].as_array().cloned().unwrap_or_default();
        assert!(!reasons.is_empty(), "{order}");
        for reason in &reasons {
            assert!(["capacity", "shape"].iter().any(|r| reason["reason"] == *r), "{reason}");
            assert!(!text(&reason["needed"]).is_empty() && !text(&reason["free"]).is_empty(), "{reason}");
        }
    }
    let sites = cli.ok(&["site", "list"]);
    let counts = items(&sites).iter().flat_map(|s| s["accelerators"].as_array().into_iter().flatten());
    let free: i64 = counts.filter(|c| c["model"] == "H100").map(|c| int(&c["free"])).sum();
    assert_eq!(free, 0, "{sites}");
}

/// Counted by hand: eight devices for each order, no more on a link than it has.
fn nothing_is_given_twice(cli: &Cli) {
    let mut held: BTreeMap<String, usize> = BTreeMap::new();
    for site in items(&cli.ok(&["site", "list"])) {
        for node in site["nodes"].as_array().into_iter().flatten() {
            let devices = node["devices"].as_array().into_iter().flatten();
            let on_node: BTreeSet<String> = devices
                .filter(|d| d["model"] == "H100" && !d["order"].is_null())
                .map(|d| {
                    assert!(int(&d["share"]) <= 1_000, "{d}");
                    *held.entry(text(&d["order"])).or_default() += 1;
                    text(&d["order"])
                })
                .collect();
            assert!(on_node.len() <= 1, "{} is shared by {on_node:?}", node["name"]);
        }
    }
    assert!(held.len() <= ROOM && held.values().all(|n| *n == 8), "{held:?}");
    for link in items(&cli.ok(&["link", "list"])) {
        let (reserved, capacity) = (int(&link["reserved_kbps"]), int(&link["capacity_kbps"]));
        assert!((0..=capacity).contains(&reserved), "{link}");
        assert_eq!(int(&link["available_kbps"]), capacity - reserved, "{link}");
    }
}
