//! What is measured follows the network, and decisions follow what is measured.

use serde_json::Value;
use system_tests::{
    Demo,
    links::{self, astray, near},
    orders::{example, int, placed, text},
    remains::{audit_is_clean, items, nothing_is_left},
    secs, wait_until,
};

fn site_state(demo: &Demo, site: &str) -> String {
    text(&demo.cli.ok(&["site", "get", site])["state"])
}

fn follows(demo: &Demo, id: &str, expected_us: i64, configured_us: i64) {
    wait_until(secs(30), &format!("the figure of {id} follows the network"), || {
        let link = links::one(demo, id);
        assert_eq!(int(&link["configured_latency_us"]), configured_us, "the configured figure stays: {link}");
        match link["latency_us"].as_i64() {
            Some(measured) if near(measured, expected_us) => Ok(()),
            other => Err(format!("{other:?} instead of {expected_us}")),
        }
    });
}

#[test]
fn figures_follow_the_network_and_decisions_follow_the_figures() {
    let demo = Demo::start();
    println!("ready after {:.1} s", demo.ready_after.as_secs_f64());
    assert!(demo.ready_after < secs(15), "a new federation was ready after {:?}", demo.ready_after);
    the_federation_is_there(&demo);
    a_changed_delay_changes_the_next_decision(&demo);
    a_site_without_links_is_cut_off(&demo);
    nothing_is_left(&demo, secs(20));
    demo.said_no_errors();
}

fn the_federation_is_there(demo: &Demo) {
    let sites = demo.cli.ok(&["site", "list"]);
    assert!(items(&sites).len() >= 8, "{sites}");
    for site in items(&sites) {
        assert_eq!(site["state"], "ready", "{site}");
    }
    let first = links::all(demo);
    assert!(first.len() >= 20, "at least ten links, both ways: {}", first.len());
    wait_until(secs(5), "when the demo is ready, nine in ten links are measured", || match astray(&links::all(demo)) {
        late if late.len() * 10 <= first.len() => Ok(()),
        late => Err(late.join("; ")),
    });
    wait_until(secs(30), "every link is measured within 10 % and 1 ms", || match astray(&links::all(demo)) {
        wrong if wrong.is_empty() => Ok(()),
        wrong => Err(wrong.join("; ")),
    });

    links::settle(demo);
    let path = demo.cli.ok(&["path", "shanghai-core", "singapore-cloud", "--mbps", "10"]);
    let ids: Vec<String> = path["path"].as_array().into_iter().flatten().map(text).collect();
    assert!(!ids.is_empty(), "{path}");
    let expected: i64 = ids.iter().map(|id| int(&links::one(demo, id)["configured_latency_us"])).sum();
    assert!(near(int(&path["latency_us"]), expected), "{path} should take {expected} us");
    assert!(int(&path["free_kbps"]) >= 10_000, "{path}");
}

/// Raises the delay on the way to the cheapest site, and sees the next order of the same kind go elsewhere.
fn a_changed_delay_changes_the_next_decision(demo: &Demo) {
    let (file, _) = example("service-near-users");
    let before = demo.cli.order(&file);
    let placed_before = placed(&demo.cli.wait(&before, "running", "60s"), "server");
    assert_eq!(placed_before.keys().collect::<Vec<_>>(), ["singapore-cloud"]);

    demo.cli.demo(&["wan", "set", "hk-sg", "--latency", "200ms"]);
    follows(demo, "hk-sg", 200_000, 16_488);
    follows(demo, "hk-sg~", 200_000, 16_488);
    // a burst moves no decision, what lasts for three windows does
    wait_until(secs(60), "decisions follow a change that lasts", || {
        let refused = demo.cli.run(&["path", "pop-wuhan", "singapore-cloud", "--max-latency", "50ms"]);
        if refused.code == 1 { Ok(()) } else { Err(format!("{}{}", refused.stdout, refused.stderr)) }
    });
    let around = demo.cli.ok(&["path", "pop-wuhan", "singapore-cloud"]);
    assert!(int(&around["latency_us"]) > 50_000, "{around}");

    let after = demo.cli.order(&file);
    let order = demo.cli.wait(&after, "running", "60s");
    let site = placed(&order, "server").keys().next().cloned();
    assert_eq!(site.as_deref(), Some("shenzhen-cloud"), "{}", demo.cli.story(&after));
    let explained = demo.cli.ok(&["order", "explain", &after]);
    let verdicts = explained["sites"].as_array().cloned().unwrap_or_default();
    let of = |site: &str| verdicts.iter().find(|v| v["site"] == site).cloned().unwrap_or_default();
    assert_eq!(of("shenzhen-cloud")["verdict"], "chosen", "{explained}");
    let singapore = of("singapore-cloud");
    assert_eq!(
        (&singapore["verdict"], &singapore["reason"]["reason"]),
        (&"refused".into(), &"latency".into()),
        "{singapore}"
    );

    demo.cli.demo(&["wan", "heal", "hk-sg"]);
    follows(demo, "hk-sg", 16_488, 16_488);
    for id in [before, after] {
        demo.cli.ok(&["order", "cancel", &id]);
        demo.cli.wait(&id, "cancelled", "30s");
    }
    audit_is_clean(demo);
}

/// Bytes that have passed these links, both ways.
fn passed(demo: &Demo, links: &[&str]) -> i64 {
    let list = demo.cli.demo(&["wan", "list"]);
    let of = |l: &&Value| links.contains(&text(&l["id"]).trim_end_matches('~'));
    items(&list).iter().filter(of).map(|l| int(&l["udp"]["passed_bytes"]) + int(&l["tcp"]["passed_bytes"])).sum()
}

/// Cuts every link of a site: it is not heard of any more, gets no work, and takes work again once it is back.
fn a_site_without_links_is_cut_off(demo: &Demo) {
    let cut = ["fra-par", "mrs-par", "par-iad"];
    for id in cut {
        demo.cli.demo(&["wan", "cut", id]);
    }
    let silent = passed(demo, &cut);
    wait_until(secs(30), "a cut-off site is lost", || match site_state(demo, "paris-edge") {
        state if state == "lost" => Ok(()),
        state => Err(format!("it is {state}")),
    });
    let document = "\
name: only-in-paris
class: processing
components:
  - {name: worker, need: {cpu: 1, memory: 1GiB}, work: {duration: 1s}, run: {command: [/bin/sleep, \"1\"]}}
constraints: {sites: [paris-edge]}
";
    let order = demo.cli.order_text("only-in-paris", document);
    let waiting = demo.cli.wait(&order, "pending", "20s");
    assert_eq!(waiting["state"], "pending", "nothing is placed at a lost site: {waiting}");
    assert!(!waiting["reasons"].as_array().is_none_or(Vec::is_empty), "{waiting}");
    let cut_link = links::one(demo, "fra-par");
    assert!(int(&cut_link["age_ms"]) > 5_000, "no reply has come over a cut link: {cut_link}");
    assert_eq!(passed(demo, &cut), silent, "bytes have passed a cut link");

    for id in cut {
        demo.cli.demo(&["wan", "heal", id]);
    }
    wait_until(secs(30), "a site that is back is ready", || match site_state(demo, "paris-edge") {
        state if state == "ready" => Ok(()),
        state => Err(format!("it is {state}")),
    });
    demo.cli.wait(&order, "completed", "60s");
}
