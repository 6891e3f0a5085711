//! An order's route from its first packet to its last.

use crate::federation::{Federation, POINTS};
use rhumb_lab::Namespace;
use serde_json::Value;
use std::process::{Child, Stdio};
use system_tests::{
    orders::{int, text},
    remains::items,
    secs, wait_until,
};

/// Two parts too large for one site. The one sends a line every 20 ms, the other tells of every gap in them; both begin
/// anew when an agent does.
fn document(rate: &str, bound: &str) -> String {
    let part = |name: &str, code: &str| {
        format!(
            "  - name: {name}\n    need: {{cpu: 10, memory: 1GiB}}\n    work: {{duration: 600s}}\n    run:\n      command:\n        \
             - python3\n        - -c\n        - |\n          import os, socket, time\n          while True:\n            try:\n              \
             flow = socket.socket(socket.AF_UNIX)\n              flow.connect(os.environ['RHUMB_FLOW_0'])\n{code}            \
             except OSError:\n              time.sleep(0.2)\n"
        )
    };
    let indent = "              ";
    let send = ["n = 0", "while True:", "  flow.sendall(b'%08d\\n' % n)", "  n += 1", "  time.sleep(0.02)"];
    let hear = [
        "n = None",
        "for line in flow.makefile('rb'):",
        "  assert n is None or int(line) == n + 1, (line, n)",
        "  n = int(line)",
        "  if n % 50 == 0: print('at', n, flush=True)",
    ];
    let code = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|l| format!("{indent}{l}\n")).collect();
        lines.concat()
    };
    format!(
        "name: carried\nclass: processing\ncomponents:\n{}{}flows:\n  - {{from: left, to: right, rate: {rate}, max_latency: {bound}}}\n\
         constraints: {{sites: [a, b]}}\n",
        part("left", &code(&send)),
        part("right", &code(&hear)),
    )
}

fn route(f: &Federation, id: &str) -> Value {
    let answer = f.cli.run(&["route", "get", id]);
    items(&answer.json).first().cloned().unwrap_or(Value::Null)
}

fn path(route: &Value) -> Vec<String> {
    route["path"].as_array().into_iter().flatten().map(text).collect()
}

/// Everything of the network that a namespace has, without counters and ages.
fn everything(space: &Namespace) -> String {
    let shown = |program: &str, words: &str| {
        let output = space.command(program).args(words.split(' ')).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let all: String = ["-d -o link", "rule", "-6 rule", "route show table all", "-6 route show table all"]
        .map(|words| shown("ip", words))
        .into_iter()
        .chain([shown("tc", "qdisc"), shown("nft", "list ruleset")])
        .collect();
    // what the kernel does by itself with IPv6 comes and goes
    let own = |line: &&str| !["expires", "fe80:", "ff00:"].iter().any(|mark| line.contains(mark));
    all.lines().filter(own).map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Numbers of the tunnels that end there.
fn tunnels(f: &Federation, point: &str) -> Vec<u32> {
    let links = f.space(point).ip("-o link").unwrap();
    let names = links.lines().filter_map(|line| line.split(": ").nth(1));
    names.filter_map(|name| name.strip_prefix("rh")?.parse().ok()).collect()
}

/// The two addresses inside a tunnel, the source's first.
fn inside(f: &Federation, number: u32) -> (String, String) {
    let address = |point: &str| {
        let shown = f.space(point).ip(&format!("-o -4 addr show dev rh{number}")).unwrap();
        let word = shown.split_whitespace().nth(3).unwrap();
        word.split('/').next().unwrap().to_owned()
    };
    (address("a"), address("b"))
}

/// Mbit/s that arrive of a greedy sender through the tunnel, from `a` to `b`.
fn carried(f: &Federation, number: u32, seconds: u32) -> f64 {
    let (from, to) = inside(f, number);
    let listening = || {
        let shown = f.space("b").command("ss").args(["-ltnH", "sport = :5201"]).output().unwrap();
        if shown.stdout.is_empty() { Err("iperf3 does not listen".to_owned()) } else { Ok(()) }
    };
    let mut server =
        f.space("b").command("iperf3").args(["-s", "-1", "-B", &to]).stdout(Stdio::null()).spawn().unwrap();
    wait_until(secs(10), "the receiver listens", listening);
    let time = seconds.to_string();
    let words = ["-c", &to, "-B", &from, "-t", &time, "-O", "1", "-C", "cubic", "-J"];
    let output = f.space("a").command("iperf3").args(words).output().unwrap();
    // it ends with its one test
    let _ = server.wait();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    json["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or_else(|| panic!("{json}")) / 1e6
}

fn ping(f: &Federation, number: u32, count: u32) -> Child {
    let (_, to) = inside(f, number);
    let (count, every) = (count.to_string(), "0.02");
    let words = ["-q", "-c", &count, "-i", every, "-W", "2", &to];
    f.space("a").command("ping").args(words).stdout(Stdio::piped()).spawn().unwrap()
}

/// How many of them came back.
fn echoes(child: Child) -> u32 {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let received = said.split(", ").find_map(|part| part.strip_suffix(" received"));
    received.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

/// Waits until the route is active over these links, and carried by the kernel, alone.
fn stands(f: &Federation, id: &str, links: &[&str]) -> Value {
    wait_until(secs(60), &format!("the route stands over {links:?}"), || {
        let now = route(f, id);
        let alone = now["others"].as_array().is_some_and(Vec::is_empty);
        if now["state"] == "active" && path(&now) == links && now["provider"] == "kernel" && alone {
            return Ok(now);
        }
        Err(format!("{now}\n{}", f.cli.story(id)))
    })
}

/// Lines that the receiver has counted, and that it has missed none.
fn heard(f: &Federation, id: &str) -> usize {
    let said = f.cli.logs(id).remove("right/0").unwrap_or_default();
    assert!(!said.contains("Error"), "{said}");
    said.lines().count()
}

fn goes_on(f: &Federation, id: &str) {
    let before = heard(f, id);
    wait_until(secs(30), "the stream goes on", || match heard(f, id) {
        now if now > before + 1 => Ok(()),
        now => Err(format!("{now} after {before}: {}", f.cli.story(id))),
    });
}

#[test]
fn an_order_is_carried_by_the_kernels_whatever_dies_meanwhile() {
    let Some(mut f) = Federation::start() else { return };
    let before: Vec<String> = POINTS.iter().map(|p| everything(&f.space(p))).collect();
    let by_r1 = ["a-r1", "r1-b"];
    let by_r2 = ["a-r2", "r2-b"];

    let id = f.cli.order_text("carried", &document("50Mbps", "25ms"));
    f.cli.wait(&id, "running", "90s");
    let (from, order) = (text(&route(&f, &id)["from"]), f.cli.get(&id));
    // either part may be at either site: the flow then goes the other way
    let turned = from == "b";
    let links = |forward: [&'static str; 2]| {
        if turned { [format!("{}~", forward[1]), format!("{}~", forward[0])] } else { forward.map(str::to_owned) }
    };
    let (far, near) = (links(by_r1), links(by_r2));
    let first = stands(&f, &id, &far.each_ref().map(String::as_str));
    assert_eq!(int(&order["generation"]), 1, "{}", f.cli.story(&id));
    let measured = int(&first["measured"]["latency_us"]);
    assert!((20_000..27_500).contains(&measured), "{first}");
    assert_eq!((tunnels(&f, "a"), tunnels(&f, "b")), (vec![5_001], vec![5_001]));
    assert!(tunnels(&f, "r1").is_empty(), "a segment needs no tunnel of its own");
    goes_on(&f, &id);
    let rate = carried(&f, 5_001, 4);
    eprintln!("{rate:.1} Mbit/s arrived of 50 reserved");
    assert!((47.0..=51.0).contains(&rate), "{rate} Mbit/s of 50");

    // a shorter promise: by the other router, before the first way goes, and the work notices nothing
    let file = f.cli.document("nearer.yaml", &document("20Mbps", "10ms"));
    f.cli.ok(&["order", "amend", &id, "-f", &file]);
    let moved = stands(&f, &id, &near.each_ref().map(String::as_str));
    assert!(int(&moved["measured"]["latency_us"]) < 11_000, "{moved}");
    assert_eq!((tunnels(&f, "a"), tunnels(&f, "b")), (vec![5_002], vec![5_002]));
    goes_on(&f, &id);
    let rate = carried(&f, 5_002, 4);
    eprintln!("{rate:.1} Mbit/s arrived of 20 reserved, by the nearer router");
    assert!((18.0..=20.4).contains(&rate), "{rate} Mbit/s of 20");

    // whoever dies, packets pass on, and the next one takes up the same tunnel
    for name in ["server", "a", "r2", "b"] {
        let running = ping(&f, 5_002, 200);
        f.kill(name);
        f.begin(name);
        assert_eq!(echoes(running), 200, "the death of {name} was felt");
        wait_until(secs(60), &format!("{name} is back"), || {
            let now = route(&f, &id);
            let active = now["state"] == "active" && now["provider"] == "kernel";
            if active { Ok(()) } else { Err(format!("{now}\n{}", f.cli.run(&["site", "list"]).stdout)) }
        });
        assert_eq!(tunnels(&f, "a"), [5_002], "after the death of {name}");
    }
    goes_on(&f, &id);
    assert_eq!(int(&f.cli.get(&id)["generation"]), 1, "{}", f.cli.story(&id));

    // the end, with an agent and the orchestrator killed in the middle of it
    f.cli.ok(&["order", "cancel", &id]);
    for name in ["b", "server"] {
        f.kill(name);
        f.begin(name);
    }
    wait_until(secs(60), "the order is cancelled", || {
        let state = f.cli.run(&["order", "get", &id]).json["state"].clone();
        if state == "cancelled" { Ok(()) } else { Err(format!("{state}: {}", f.cli.story(&id))) }
    });
    for (point, before) in POINTS.iter().zip(&before) {
        wait_until(secs(20), &format!("{point} is as it was"), || {
            let now = everything(&f.space(point));
            let only = |one: &str, other: &str| -> Vec<String> {
                one.lines().filter(|line| !other.lines().any(|known| known == *line)).map(str::to_owned).collect()
            };
            if &now == before {
                Ok(())
            } else {
                Err(format!("new {:#?}, gone {:#?}", only(&now, before), only(before, &now)))
            }
        });
    }
    let audit = f.cli.run(&["audit"]);
    assert_eq!((audit.code, &audit.json["clean"]), (0, &Value::Bool(true)), "{}{}", audit.stdout, audit.stderr);
    // and its numbers are free again
    let next = f.cli.order_text("next", &document("20Mbps", "25ms"));
    f.cli.wait(&next, "running", "90s");
    assert_eq!(tunnels(&f, "a"), [5_001]);
    f.cli.ok(&["order", "cancel", &next]);
    f.cli.wait(&next, "cancelled", "60s");
    assert!(tunnels(&f, "a").is_empty());
}
