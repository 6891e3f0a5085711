//! The example orders, from quote to bill.

use serde_json::Value;
use std::collections::BTreeMap;
use system_tests::{
    Cli, Demo, links,
    orders::{example, int, placed, sums, text},
    remains::{audit_is_clean, items, nothing_is_left},
    secs, wait_until,
};

/// An example on its way.
struct Running {
    name: &'static str,
    file: String,
    id: String,
    quote: Value,
}

/// Where each component may stand: sites, all of them used, of which any one set is right.
type Right<'a> = &'a [(&'a str, &'a [&'a [&'a str]])];

const RIGHT: &[(&str, Right<'static>)] = &[
    ("training-near-data", &[("trainer", &[&["shanghai-core"]])]),
    ("training-two-sites", &[("trainer", &[&["shanghai-core", "zhangjiakou-core"]])]),
    // by the hour
    (
        "tuning-cheapest-window",
        &[("tuner", &[&["singapore-cloud"], &["ashburn-cloud"], &["zhangjiakou-core"], &["frankfurt-core"]])],
    ),
    ("processing-residency", &[("cleaner", &[&["paris-edge"]])]),
    ("pipeline", &[("decoder", &[&["hangzhou-edge"]]), ("trainer", &[&["guiyang-core"]])]),
];

#[test]
fn every_example_is_quoted_decided_run_and_billed() {
    let demo = Demo::start();
    let cli = &demo.cli;
    // one after the other where the bill is held against the quote: work that shares two cores takes longer
    let mut logs = BTreeMap::new();
    for (index, (name, right)) in RIGHT.iter().enumerate() {
        links::settle(&demo);
        let running = begin(cli, name, index);
        let order = cli.wait(&running.id, "running", "60s");
        is_right(&order, name, right);
        if *name == "processing-residency" {
            relays_carry_every_byte(cli, &running.id);
        }
        let followed = cli.run(&["order", "events", &running.id, "--follow"]);
        assert!(followed.code == 0 && followed.stdout.contains("completed"), "{}{}", followed.stdout, followed.stderr);
        let order = cli.wait(&running.id, "completed", "5s");
        the_decision_is_repeated_offline(cli, &running);
        the_bill_is_the_quote(cli, &running, &order);
        let said = cli.logs(&running.id);
        assert!(!said.is_empty() && said.values().all(|t| !t.is_empty()), "{name} said nothing: {said:?}");
        logs.insert(*name, said);
        audit_is_clean(&demo);
    }
    a_service_runs_until_it_is_cancelled(cli);
    staged_files_are_their_sources(cli, &logs);
    crate::streams::bytes_travel_hop_by_hop(&demo);
    a_failure_is_told(cli);
    what_fits_nowhere_is_rejected(cli);
    nothing_is_left(&demo, secs(20));
    demo.said_no_errors();
}

/// Quotes and orders an example: from the quote that was given, or from the document.
fn begin(cli: &Cli, name: &'static str, index: usize) -> Running {
    let (file, _) = example(name);
    let from_quote = index.is_multiple_of(2);
    let how = if from_quote { &["--hold", "1m"][..] } else { &["--dry-run"] };
    let quote = cli.ok(&[&["quote", "-f", &file], how].concat());
    assert_eq!((&quote["outcome"], &quote["binding"]), (&"plan".into(), &from_quote.into()), "{quote}");
    assert!(quote["sites"].as_array().is_some_and(|v| v.iter().any(|v| v["verdict"] == "chosen")), "{quote}");
    let id = if from_quote {
        text(&cli.ok(&["order", "create", "--quote", &text(&quote["id"])])["id"])
    } else {
        cli.order(&file)
    };
    Running { name, file, id, quote }
}

fn is_right(order: &Value, name: &str, right: Right<'_>) {
    for (component, choices) in right {
        let sites: Vec<String> = placed(order, component).into_keys().collect();
        assert!(choices.iter().any(|c| *c == sites), "{name}: {component} stands at {sites:?}");
    }
    if name == "processing-residency" {
        let inbound = &order["plan"]["flows"][0]["path"];
        assert_eq!(inbound, &serde_json::json!(["fra-mrs", "mrs-par"]), "the short way passes Belgium");
    }
}

/// Every hop has passed on as many bytes as the dataset has, while the route exists.
fn relays_carry_every_byte(cli: &Cli, id: &str) {
    let routes = cli.ok(&["route", "get", id]);
    let routes = items(&routes);
    let inbound = routes.iter().find(|r| r["flow"] == 0).unwrap_or_else(|| panic!("no route of flow 0: {routes:?}"));
    assert_eq!(inbound["encrypted"], true, "{inbound}");
    wait_until(secs(10), "every hop counts what it carried", || {
        let routes = cli.ok(&["route", "get", id]);
        let inbound = items(&routes).iter().find(|r| r["flow"] == 0).cloned().unwrap_or_default();
        let hops = inbound["hops"].as_array().cloned().unwrap_or_default();
        let counts: Vec<_> = hops.iter().map(|h| (text(&h["point"]), h["bytes"].as_i64().unwrap_or(-1))).collect();
        let expected = ["frankfurt-core", "pop-marseille", "paris-edge"].map(|p| (p.to_owned(), 10_000_000));
        if counts == expected { Ok(()) } else { Err(format!("{counts:?}")) }
    });
}

/// The same view and the same order give the same plan at the same price, without a server.
fn the_decision_is_repeated_offline(cli: &Cli, running: &Running) {
    let view = cli.document(&format!("{}-view.yaml", running.name), "");
    let explained = cli.ok(&["order", "explain", &running.id, "--export", &view]);
    let again = cli.ok(&["place", "--federation", &view, "--order", &running.file]);
    assert_eq!(again["outcome"], "plan", "{}: {again}", running.name);
    for part in ["components", "flows", "cost", "start", "finish", "lower_bound_micros"] {
        assert_eq!(again["plan"][part], explained["plan"][part], "{}: {part} differs", running.name);
    }
    assert_eq!(again["sites"], explained["sites"], "{}: the verdicts differ", running.name);
}

/// Compute, path and transfer, within a hundredth.
fn the_bill_is_the_quote(cli: &Cli, running: &Running, order: &Value) {
    let cost = &running.quote["plan"]["cost"];
    let quoted: i64 = ["compute_micros", "path_micros", "transfer_micros"].iter().map(|t| int(&cost[*t])).sum();
    let usage = cli.ok(&["order", "usage", &running.id]);
    let billed = int(&usage["total_micros"]);
    println!("{}: quoted {quoted}, billed {billed}", running.name);
    assert!(
        (billed - quoted).abs() * 100 <= quoted,
        "{}: quoted {quoted}, billed {billed}: {usage} {cost}",
        running.name
    );
    let total: i64 = items(&usage).iter().map(|i| int(&i["cost_micros"])).sum();
    assert_eq!(total, billed, "{usage}");
    assert_eq!(int(&order["usage"]["cost_micros"]), billed, "{order}");
}

fn a_service_runs_until_it_is_cancelled(cli: &Cli) {
    let (file, _) = example("service-near-users");
    let quote = cli.ok(&["quote", "-f", &file, "--dry-run"]);
    let id = cli.order(&file);
    let order = cli.wait(&id, "running", "60s");
    assert_eq!(placed(&order, "server"), placed(&quote, "server"));
    // 30 requests a second need two replicas of 20
    assert_eq!(placed(&order, "server").values().sum::<i64>(), 2, "{order}");
    the_decision_is_repeated_offline(cli, &Running { name: "service-near-users", file, id: id.clone(), quote });
    wait_until(secs(15), "a service is heard", || match cli.logs(&id) {
        said if said.len() == 2 && said.values().all(|t| t.contains("serves at")) => Ok(()),
        said => Err(format!("{said:?}")),
    });
    cli.ok(&["order", "cancel", &id]);
    cli.wait(&id, "cancelled", "30s");
}

fn what_fits_nowhere_is_rejected(cli: &Cli) {
    let (file, _) = example("refused");
    let quote = cli.run(&["quote", "-f", &file]);
    assert_eq!((quote.code, &quote.json["outcome"]), (1, &Value::from("refusal")), "{}{}", quote.stdout, quote.stderr);
    let id = cli.order(&file);
    let order = cli.wait(&id, "rejected", "20s");
    assert!(order["reasons"].as_array().is_some_and(|r| !r.is_empty()), "{order}");
    let explained = cli.ok(&["order", "explain", &id]);
    assert!(explained["would_fit_if"].as_array().is_some_and(|c| !c.is_empty()), "{explained}");
    let waited = cli.run(&["order", "wait", &id, "--for", "completed", "--timeout", "5s"]);
    assert_eq!(waited.code, 1, "another final state is not waited for: {}", waited.stderr);
}

/// Work that fails says so, and its order ends as failed.
fn a_failure_is_told(cli: &Cli) {
    let document = "\
name: fails
class: processing
components:
  - name: worker
    need: {cpu: 1, memory: 1GiB}
    work: {duration: 1s}
    run: {command: [/bin/sh, -c, 'echo about to fail; exit 3']}
";
    let id = cli.order_text("fails", document);
    let order = cli.wait(&id, "failed", "30s");
    assert!(text(&order["attention"]).contains("exit code 3"), "{order}");
    assert!(cli.logs(&id)["worker/0"].contains("about to fail"));
}

/// SHA-256 of what was staged is that of the copies that the sites held from the start.
fn staged_files_are_their_sources(cli: &Cli, logs: &BTreeMap<&str, BTreeMap<String, String>>) {
    let document = "\
name: sources
class: processing
components:
  - name: reader
    need: {cpu: 1, memory: 1GiB}
    work: {duration: 1s}
    run:
      command:
        - /bin/sh
        - -c
        - |
          sha256sum \"$RHUMB_DATASET_BASE_MODEL\" \"$RHUMB_DATASET_RECORDS_EU\"
          head -c 2000000 \"$RHUMB_DATASET_RECORDS_EU\" | sha256sum
          sha256sum <\"$RHUMB_DATASET_REPORT_EU\"
flows:
  - {from: dataset/base-model, to: reader}
  - {from: dataset/records-eu, to: reader}
  - {from: dataset/report-eu, to: reader}
constraints: {sites: [frankfurt-core]}
";
    let id = cli.order_text("sources", document);
    let order = cli.wait(&id, "completed", "30s");
    assert!(
        order["plan"]["flows"].as_array().is_some_and(|f| f.iter().all(|l| l["path"] == serde_json::json!([]))),
        "{order}"
    );
    let said = cli.logs(&id);
    let [model, records, report, written] = &sums(&said["reader/0"])[..] else { panic!("{said:?}") };
    let sum_of = |name: &str, replica: &str| sums(&logs[name][replica]);
    assert_eq!(sum_of("tuning-cheapest-window", "tuner/0"), [model.as_str()]);
    assert_eq!(sum_of("processing-residency", "cleaner/0"), [records.as_str()]);
    assert_eq!(report, written, "what the cleaner wrote has come back to its dataset");
    let source = sum_of("training-near-data", "trainer/0");
    assert_eq!(source.len(), 1, "{logs:?}");
    for replica in ["trainer/0", "trainer/1"] {
        assert_eq!(sum_of("training-two-sites", replica), source, "one replica stands at the source, one does not");
    }
}
