//! An agent is killed or cut off: leased work moves once its lease has ended, other work is taken up where it stood.

use serde_json::Value;
use std::collections::BTreeSet;
use system_tests::{
    Demo,
    orders::{example, in_phase, int, placed, text},
    processes,
    remains::{audit_is_clean, items, nothing_is_left},
    secs, wait_until,
};

#[test]
fn work_survives_the_loss_of_an_agent() {
    let demo = Demo::start();
    a_lease_moves_work_and_its_lack_keeps_it(&demo);
    nothing_is_left(&demo, secs(20));
    an_agent_killed_while_files_arrive_is_no_loss(&demo);
    nothing_is_left(&demo, secs(20));
    demo.said_no_errors();
}

/// Work that may move, and the sites that it has run at.
struct Leased {
    id: String,
    from: String,
}

impl Leased {
    fn begin(demo: &Demo, name: &str, document: &str) -> Self {
        let id = demo.cli.order_text(name, document);
        let order = demo.cli.wait(&id, "running", "60s");
        assert_eq!(int(&order["generation"]), 1, "{order}");
        let from = site_of(&order);
        wait_until(secs(5), "its work has a process", || match sites_of_work(&id) {
            sites if sites == BTreeSet::from([from.clone()]) => Ok(()),
            sites => Err(format!("{sites:?}")),
        });
        Self { id, from }
    }

    /// Whether a second generation runs elsewhere; at no time do two run.
    fn has_moved(&self, demo: &Demo) -> Result<(), String> {
        let sites = sites_of_work(&self.id);
        assert!(sites.len() <= 1, "two generations run at once: {sites:?}");
        let order = demo.cli.get(&self.id);
        let there = int(&order["generation"]) == 2 && order["phase"] == "running";
        if there && !sites.is_empty() && !sites.contains(&self.from) {
            return Ok(());
        }
        Err(format!("{} {} generation {} at {sites:?}", order["state"], order["phase"], order["generation"]))
    }

    fn stays_away(&self) {
        assert!(!sites_of_work(&self.id).contains(&self.from), "the old generation runs again at {}", self.from);
    }
}

fn site_of(order: &Value) -> String {
    placed(order, "tuner").into_keys().next().expect("an order that runs stands somewhere")
}

/// Sites where work of an order has processes now.
fn sites_of_work(id: &str) -> BTreeSet<String> {
    processes::of_order(id).into_iter().filter_map(|p| p.environment.get("RHUMB_SITE").cloned()).collect()
}

fn state_of(demo: &Demo, site: &str) -> String {
    text(&demo.cli.ok(&["site", "get", site])["state"])
}

/// Kills the agent as a power cut would, and keeps it down.
fn lose(demo: &Demo, point: &str) {
    processes::kill(demo.pid(point));
    demo.cli.demo(&["agent", "stop", point]);
}

/// Links of a site, without their other halves.
fn links_of(demo: &Demo, site: &str) -> Vec<String> {
    let list = demo.cli.ok(&["link", "list"]);
    let of = |l: &&Value| (l["from"] == site || l["to"] == site) && !text(&l["id"]).ends_with('~');
    items(&list).iter().filter(of).map(|l| text(&l["id"])).collect()
}

/// One site's agent is killed, another site is cut off; both had work with a lease, the first also work without one.
fn a_lease_moves_work_and_its_lack_keeps_it(demo: &Demo) {
    let cli = &demo.cli;
    let (_, leased) = example("failover");
    let leased = leased.replace("duration: 40s", "duration: 25s").replace("sleep 40", "sleep 25");
    assert!(leased.contains("sleep 25") && leased.contains("lease: 10s"));
    let abroad = leased.replace("jurisdictions: [CN]", "sites: [singapore-cloud, tokyo-cloud]");
    let moves = Leased::begin(demo, "moves", &leased);
    assert_eq!(moves.from, "shenzhen-cloud");
    let stays = cli.order_text("stays", STAYS);
    cli.wait(&stays, "running", "60s");
    let cut = Leased::begin(demo, "cut", &abroad);

    lose(demo, &moves.from);
    let links = links_of(demo, &cut.from);
    assert!(links.len() >= 2, "{links:?}");
    for link in &links {
        cli.demo(&["wan", "cut", link]);
    }
    wait_until(secs(60), "leased work runs elsewhere", || {
        audit_is_clean(demo);
        let moved = [moves.has_moved(demo), cut.has_moved(demo)];
        moved.into_iter().collect::<Result<Vec<_>, _>>()
    });
    assert_eq!((state_of(demo, &moves.from).as_str(), state_of(demo, &cut.from).as_str()), ("lost", "lost"));
    let unheard = cli.get(&stays);
    assert_eq!((&unheard["generation"], &unheard["stale"]), (&1.into(), &true.into()), "{unheard}");

    cli.demo(&["agent", "start", &moves.from]);
    for link in &links {
        cli.demo(&["wan", "heal", link]);
    }
    wait_until(secs(30), "the sites are back", || {
        moves.stays_away();
        cut.stays_away();
        match [&moves, &cut].map(|work| state_of(demo, &work.from)) {
            states if states.iter().all(|s| s == "ready") => Ok(()),
            states => Err(format!("{states:?}")),
        }
    });
    for work in [&moves, &cut] {
        let order = cli.wait(&work.id, "completed", "60s");
        work.stays_away();
        assert_eq!(int(&order["generation"]), 2, "{}", cli.story(&work.id));
        assert_ne!(site_of(&order), work.from);
    }
    let stayed = cli.wait(&stays, "completed", "60s");
    assert_eq!(int(&stayed["generation"]), 1, "work without a lease is not placed again: {}", cli.story(&stays));
    assert!(cli.logs(&stays)["tuner/0"].contains("stayed"), "output of the time without an agent is kept");
    audit_is_clean(demo);
}

/// Runs through the time without an agent.
const STAYS: &str = "\
name: stays
class: tuning
components:
  - name: tuner
    need: {accelerators: {count: 1, models: [L40S]}, cpu: 4, memory: 8GiB}
    work: {duration: 35s}
    run: {command: [/bin/sh, -c, 'sleep 35; echo stayed']}
constraints: {sites: [shenzhen-cloud]}
";

/// Source, relay and sink of a transfer: each is killed once while bytes are on their way.
fn an_agent_killed_while_files_arrive_is_no_loss(demo: &Demo) {
    let (_, document) = example("processing-residency");
    let document = document.replace("duration: 10s", "duration: 2s").replace("sleep 10", "sleep 2");
    // so short a run would rather stand beside its dataset
    let document = document.replace("encrypted: true", "encrypted: true, sites: [paris-edge]");
    for point in ["frankfurt-core", "pop-marseille", "paris-edge"] {
        let id = demo.cli.order_text("lost-while-staging", &document);
        in_phase(&demo.cli, &id, "staging");
        lose(demo, point);
        demo.cli.demo(&["agent", "start", point]);
        let order = demo.cli.wait(&id, "completed", "90s");
        println!("{point} lost while staging: generation {}", order["generation"]);
        audit_is_clean(demo);
    }
}
