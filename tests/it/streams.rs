//! What an order's processes say to each other travels along the decided path, at the reserved rate, counted at every hop.

use std::collections::BTreeMap;
use system_tests::{
    Demo,
    orders::{int, placed, sums, text},
    remains::items,
    secs, wait_until,
};

const SENT: i64 = 2_000_000;
const ANSWERED: i64 = 2;
const RATE_KBPS: i64 = 8_000;

/// Two megabytes from Paris to Guiyang at 8 Mbit/s, and two bytes back.
const DOCUMENT: &str = "\
name: stream
class: processing
components:
  - name: sender
    need: {cpu: 1, memory: 1GiB, accelerators: {count: 1, models: [L4]}}
    work: {duration: 5s}
    run:
      command:
        - python3
        - -c
        - |
          import hashlib, os, socket, time
          data = os.urandom(2000000)
          flow = socket.socket(socket.AF_UNIX)
          flow.connect(os.environ['RHUMB_FLOW_0'])
          begun = time.monotonic()
          flow.sendall(data)
          flow.shutdown(socket.SHUT_WR)
          answer = flow.recv(16)
          took = time.monotonic() - begun
          print(hashlib.sha256(data).hexdigest(), flush=True)
          print('took_ms', int(took * 1000), answer.decode(), flush=True)
          time.sleep(max(0, 5 - took))
  - name: receiver
    need: {cpu: 1, memory: 1GiB, accelerators: {count: 1, models: [Ascend910B]}}
    work: {duration: 5s}
    run:
      command:
        - python3
        - -c
        - |
          import hashlib, os, socket, time
          begun = time.monotonic()
          flow = socket.socket(socket.AF_UNIX)
          flow.connect(os.environ['RHUMB_FLOW_0'])
          seen = hashlib.sha256()
          while True:
              part = flow.recv(65536)
              if not part:
                  break
              seen.update(part)
          flow.sendall(b'ok')
          flow.shutdown(socket.SHUT_WR)
          print(seen.hexdigest(), flush=True)
          time.sleep(max(0, 5 - (time.monotonic() - begun)))
flows:
  - {from: sender, to: receiver, rate: 8Mbps, encrypted: true}
constraints: {sites: [paris-edge, guiyang-core]}
";

/// Most that a new path is tested with: three times 256 KiB.
const TESTED: i64 = 3 * (256 << 10);

pub(crate) fn bytes_travel_hop_by_hop(demo: &Demo) {
    let cli = &demo.cli;
    let passed = || -> BTreeMap<String, i64> {
        let list = cli.demo(&["wan", "list"]);
        items(&list).iter().map(|l| (text(&l["id"]), int(&l["tcp"]["passed_bytes"]))).collect()
    };
    let before = passed();
    let id = cli.order_text("stream", DOCUMENT);
    let order = cli.wait(&id, "running", "60s");
    let ends = (placed(&order, "sender"), placed(&order, "receiver"));
    let leg = &order["plan"]["flows"][0];
    let path: Vec<String> = leg["path"].as_array().into_iter().flatten().map(text).collect();
    assert!(path.len() >= 2, "{ends:?} are joined over {path:?}");
    assert_eq!(int(&leg["rate_kbps"]), RATE_KBPS);

    wait_until(secs(20), "every hop has carried all bytes", || {
        let routes = cli.ok(&["route", "get", &id]);
        let hops = items(&routes).first().map(|r| r["hops"].clone()).unwrap_or_default();
        let counts: Vec<i64> = hops.as_array().into_iter().flatten().map(|h| int(&h["bytes"])).collect();
        let all = counts.len() == path.len() + 1 && counts.iter().all(|n| *n == SENT + ANSWERED);
        if all { Ok(()) } else { Err(format!("{counts:?} of {}: {:?}", SENT + ANSWERED, cli.logs(&id))) }
    });
    let after = passed();
    for link in &path {
        let carried = after[link] - before[link];
        // headers and tags come on top, and what the route was tested with before
        assert!((SENT..SENT * 11 / 10 + TESTED).contains(&carried), "{link} carried {carried}");
    }
    cli.wait(&id, "completed", "30s");
    let said = cli.logs(&id);
    assert_eq!(sums(&said["sender/0"]), sums(&said["receiver/0"]), "{said:?}");
    assert_eq!(sums(&said["sender/0"]).len(), 1, "{said:?}");
    let took = said["sender/0"].split_whitespace().skip_while(|w| *w != "took_ms").nth(1);
    let took_ms: i64 = took.and_then(|t| t.parse().ok()).unwrap_or_else(|| panic!("{said:?}"));
    // a bucket may be full at first; a busy machine may be late
    let least_ms = SENT * 8 / RATE_KBPS;
    assert!((least_ms * 8 / 10..least_ms * 3).contains(&took_ms), "{took_ms} ms at a rate that asks for {least_ms} ms");
}
