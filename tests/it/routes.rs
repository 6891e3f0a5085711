//! A live order's flows take other paths when theirs no longer do, and its work does not notice.

use serde_json::Value;
use system_tests::{
    Demo,
    orders::{int, text},
    remains::{audit_is_clean, items, nothing_is_left},
    secs, wait_until,
};

/// From Shanghai to Singapore, a line every 20 ms for as long as it is let: the receiver says how long it ever waited.
fn document(name: &str, terms: &str) -> String {
    format!(
        "\
name: {name}
class: processing
components:
  - name: sender
    need: {{cpu: 1, memory: 1GiB, accelerators: {{count: 1, models: [H100]}}}}
    work: {{duration: 600s}}
    run:
      command:
        - python3
        - -c
        - |
          import os, socket, time
          flow = socket.socket(socket.AF_UNIX)
          flow.connect(os.environ['RHUMB_FLOW_0'])
          n = 0
          while True:
              flow.sendall(b'%08d\\n' % n)
              n += 1
              time.sleep(0.02)
  - name: receiver
    need: {{cpu: 1, memory: 1GiB, accelerators: {{count: 1, models: [L40S]}}}}
    work: {{duration: 600s}}
    run:
      command:
        - python3
        - -c
        - |
          import os, socket, time
          flow = socket.socket(socket.AF_UNIX)
          flow.connect(os.environ['RHUMB_FLOW_0'])
          lines = flow.makefile('rb')
          last, said, worst, expected = time.monotonic(), time.monotonic(), 0, 0
          for line in lines:
              now = time.monotonic()
              assert int(line) == expected, (line, expected)
              expected += 1
              worst, last = max(worst, now - last), now
              if now - said > 0.5:
                  print('at', expected, 'worst_ms', int(worst * 1000), flush=True)
                  said, worst = now, 0
flows:
  - {{from: sender, to: receiver, rate: 8Mbps, max_latency: 90ms{terms}}}
constraints: {{sites: [shanghai-core, singapore-cloud], max_sites: 2}}
"
    )
}

/// The one route of an order.
fn route(demo: &Demo, id: &str) -> Value {
    let routes = demo.cli.ok(&["route", "get", id]);
    items(&routes).first().cloned().unwrap_or_else(|| panic!("{id} has no route: {routes}"))
}

fn path(route: &Value) -> Vec<String> {
    route["path"].as_array().into_iter().flatten().map(text).collect()
}

fn active_beside(route: &Value, role: &str) -> Option<Vec<String>> {
    let others = route["others"].as_array()?;
    others.iter().find(|p| p["role"] == role && p["active"] == true).map(path)
}

/// What the receiver said: lines received so far, and the longest it waited for one in each half second.
fn heard(demo: &Demo, id: &str) -> Vec<(i64, i64)> {
    let said = demo.cli.logs(id).remove("receiver/0").unwrap_or_default();
    assert!(!said.contains("Error"), "{said}");
    let number = |word: Option<&str>| word.and_then(|w| w.parse().ok());
    let line = |l: &str| {
        let mut words = l.split_whitespace();
        Some((number(words.nth(1))?, number(words.nth(1))?))
    };
    said.lines().filter_map(line).collect()
}

fn lines(demo: &Demo, id: &str) -> i64 {
    heard(demo, id).last().map_or(0, |(lines, _)| *lines)
}

/// Hundred more lines come.
fn goes_on(demo: &Demo, id: &str) {
    let before = lines(demo, id);
    wait_until(secs(30), "the stream goes on", || match lines(demo, id) {
        now if now > before + 100 => Ok(()),
        now => Err(format!("{now} lines after {before}: {}", demo.cli.story(id))),
    });
}

fn same_work(demo: &Demo, id: &str) {
    let order = demo.cli.get(id);
    assert_eq!((int(&order["generation"]), text(&order["phase"])), (1, "running".to_owned()), "{}", demo.cli.story(id));
}

#[test]
fn flows_take_other_paths_and_their_work_goes_on() {
    let demo = Demo::start();
    let moved = demo.cli.order_text("moved", &document("moved", ""));
    demo.cli.wait(&moved, "running", "90s");
    is_measured_before_it_runs(&demo, &moved);
    leaves_a_slow_link(&demo, &moved);
    changes_its_rate_in_place(&demo, &moved);
    audit_is_clean(&demo);
    demo.cli.ok(&["order", "cancel", &moved]);
    demo.cli.wait(&moved, "cancelled", "60s");

    let kept = demo.cli.order_text("kept", &document("kept", ", protected: true"));
    demo.cli.wait(&kept, "running", "90s");
    takes_to_its_backup(&demo, &kept);
    audit_is_clean(&demo);
    demo.cli.ok(&["order", "cancel", &kept]);
    demo.cli.wait(&kept, "cancelled", "60s");
    nothing_is_left(&demo, secs(30));
    demo.said_no_errors();
}

fn is_measured_before_it_runs(demo: &Demo, id: &str) {
    let route = route(demo, id);
    let promised = int(&route["promised_us"]);
    let measured = int(&route["measured"]["latency_us"]);
    assert!(measured > 10_000 && measured <= promised * 11 / 10, "{route}");
    let (sent, arrived) = (int(&route["measured"]["sent_kbps"]), int(&route["measured"]["arrived_kbps"]));
    assert!(sent == 8_000 && arrived * 10 >= sent * 7, "{route}");
}

fn leaves_a_slow_link(demo: &Demo, id: &str) {
    goes_on(demo, id);
    let slow = path(&route(demo, id))[0].clone();
    demo.cli.demo(&["wan", "set", &slow, "--latency", "200ms"]);
    wait_until(secs(60), &format!("the flow leaves {slow}"), || {
        let now = route(demo, id);
        let there = now["state"] == "active" && now["others"].as_array().is_some_and(Vec::is_empty);
        if there && !path(&now).contains(&slow) {
            return Ok(());
        }
        Err(format!("{now}\n{}", demo.cli.story(id)))
    });
    goes_on(demo, id);
    same_work(demo, id);
    let worst = heard(demo, id).iter().map(|(_, worst)| *worst).max();
    println!("the longest pause of a stream that was moved: {worst:?} ms");
    demo.cli.demo(&["wan", "heal", &slow]);
}

fn changes_its_rate_in_place(demo: &Demo, id: &str) {
    let before = path(&route(demo, id));
    let text_of = |rate: &str, bound: &str| {
        let document = document("moved", "");
        document
            .replace("rate: 8Mbps", &format!("rate: {rate}"))
            .replace("max_latency: 90ms", &format!("max_latency: {bound}"))
    };
    let file = demo.cli.document("more.yaml", &text_of("12Mbps", "90ms"));
    demo.cli.ok(&["order", "amend", id, "-f", &file]);
    let now = route(demo, id);
    assert_eq!((int(&now["rate_kbps"]), path(&now)), (12_000, before.clone()), "{now}");
    // what no path has is refused, and everything stays
    for (rate, bound) in [("12Mbps", "5ms"), ("900Mbps", "90ms")] {
        let file = demo.cli.document("too-much.yaml", &text_of(rate, bound));
        let refused = demo.cli.run(&["order", "amend", id, "-f", &file]);
        assert_eq!(refused.code, 1, "{}{}", refused.stdout, refused.stderr);
        assert!(refused.stderr.contains("stays as it is"), "{}", refused.stderr);
    }
    let now = route(demo, id);
    assert_eq!((int(&now["rate_kbps"]), path(&now)), (12_000, before), "{now}");
    goes_on(demo, id);
    same_work(demo, id);
}

fn takes_to_its_backup(demo: &Demo, id: &str) {
    goes_on(demo, id);
    let before = route(demo, id);
    let (first, backup) = (path(&before), active_beside(&before, "backup").unwrap_or_else(|| panic!("{before}")));
    assert!(first.iter().all(|link| !backup.contains(link)), "{before}");
    let seen = heard(demo, id).len();
    let cut = first[0].clone();
    demo.cli.demo(&["wan", "cut", &cut]);
    wait_until(secs(30), "the backup carries", || {
        let now = route(demo, id);
        if path(&now) == backup { Ok(()) } else { Err(format!("{now}\n{}", demo.cli.story(id))) }
    });
    goes_on(demo, id);
    let pauses: Vec<i64> = heard(demo, id).iter().skip(seen).map(|(_, worst)| *worst).collect();
    println!("pauses around the cut, by half second: {pauses:?} ms");
    let worst = pauses.iter().copied().max().unwrap_or(0);
    assert!(worst < 2_000, "from cut to traffic {worst} ms");
    wait_until(secs(60), "another backup stands", || {
        let now = route(demo, id);
        match active_beside(&now, "backup") {
            Some(other) if !other.contains(&cut) => Ok(()),
            _ => Err(format!("{now}\n{}", demo.cli.story(id))),
        }
    });
    same_work(demo, id);
    demo.cli.demo(&["wan", "heal", &cut]);
}
