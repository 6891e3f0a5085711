//! The laboratory as a federation: sites `a` and `b`, relays `r1` and `r2`, the orchestrator at site `d`.

use rhumb_lab::{Lab, Namespace, Router, Site};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use system_tests::{Cli, cli::binary, secs, wait_until};
use tempfile::TempDir;

const API: u16 = 7_070;
const REFLECTOR: u16 = 8_620;
const OVERLAY: u16 = 8_700;
pub const TUNNELS: (u32, u32) = (5_001, 5_016);
const INSIDE: &str = "10.200.0.0/24";
const ADMIN: &str = "an-administrators-token-of-this-test";
/// Points with agents.
pub const POINTS: [&str; 4] = ["a", "b", "r1", "r2"];

/// By `r1` it is far and cheap, by `r2` near and dear.
const FEDERATION: &str = "
currency: CNY
devices: {}
sites:
  - {name: a, jurisdiction: CN, prices: {cpu: 0.2 CNY}, nodes: [{count: 1, cpu: 16, memory: 64GiB}]}
  - {name: b, jurisdiction: CN, prices: {cpu: 0.2 CNY}, nodes: [{count: 1, cpu: 16, memory: 64GiB}]}
transit:
  - {name: r1, jurisdiction: CN, relay: true}
  - {name: r2, jurisdiction: CN, relay: true}
links:
  - {id: a-r1, from: a, to: r1, both_ways: true, capacity: 90Mbps, latency: 10ms, per_mbps_hour: 0.01 CNY}
  - {id: r1-b, from: r1, to: b, both_ways: true, capacity: 90Mbps, latency: 10ms, per_mbps_hour: 0.01 CNY}
  - {id: a-r2, from: a, to: r2, both_ways: true, capacity: 90Mbps, latency: 3ms, per_mbps_hour: 0.03 CNY}
  - {id: r2-b, from: r2, to: b, both_ways: true, capacity: 90Mbps, latency: 3ms, per_mbps_hour: 0.03 CNY}
";

pub struct Federation {
    pub lab: Lab,
    pub cli: Cli,
    processes: BTreeMap<String, Child>,
    folder: TempDir,
}

impl Federation {
    /// `None`, with a notice, where the laboratory cannot be built.
    pub fn start() -> Option<Self> {
        let lab = Lab::for_test('o', &["ip", "tc", "nft", "iperf3", "ping", "python3"])?;
        let folder = tempfile::Builder::new().prefix("rhumb-test-").tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, text) in [("federation.yaml", FEDERATION.to_owned()), ("admin", ADMIN.to_owned())] {
            fs::write(at(name), text).unwrap();
        }
        let tokens: Vec<Value> = POINTS
            .iter()
            .map(|point| {
                fs::write(at(&format!("token-{point}")), format!("a-token-of-{point}-that-only-this-test-has"))
                    .unwrap();
                json!({ "file": at(&format!("token-{point}")), "kind": "agent", "subject": point })
            })
            .chain([json!({ "file": at("admin"), "kind": "admin", "subject": "acme" })])
            .collect();
        let server = json!({
            "listen": format!("0.0.0.0:{API}"),
            "hosts": POINTS.map(office),
            "database": format!("sqlite:{}", at("rhumb.db").display()),
            "federation": at("federation.yaml"),
            "secret_file": at("secret"),
            "tokens": tokens,
            "endpoints": endpoints(),
            "times": { "bandwidth_interval": "0s" },
            "routes": { "hold_down_ms": 1_000 },
        });
        fs::write(at("server.json"), server.to_string()).unwrap();
        for point in POINTS {
            fs::write(at(&format!("{point}.json")), agent(point, folder.path()).to_string()).unwrap();
        }
        let cli = Cli {
            url: format!("http://127.0.0.1:{API}"),
            token: ADMIN.to_owned(),
            data: at("data"),
            scratch: folder.path().to_path_buf(),
            inside: Some(lab.site(Site::D).name().to_owned()),
        };
        let mut federation = Self { lab, cli, processes: BTreeMap::new(), folder };
        federation.begin("server");
        for point in POINTS {
            federation.begin(point);
        }
        federation.wait_for_links();
        Some(federation)
    }

    pub fn space(&self, point: &str) -> Namespace {
        match point {
            "a" => self.lab.site(Site::A),
            "b" => self.lab.site(Site::B),
            "r1" => self.lab.router(Router::R1),
            "r2" => self.lab.router(Router::R2),
            _ => self.lab.site(Site::D),
        }
    }

    /// Starts `server` or a point's agent.
    pub fn begin(&mut self, name: &str) {
        let what = if name == "server" { "server" } else { "agent" };
        let log = fs::File::options().create(true).append(true).open(self.log(name)).unwrap();
        let child = Command::new("ip")
            .args(["netns", "exec", self.space(name).name()])
            .arg(binary())
            .args([what, "--config"])
            .arg(self.folder.path().join(format!("{name}.json")))
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.processes.insert(name.to_owned(), child);
    }

    /// From one moment to the next, as a power cut ends it; what it ran runs on.
    pub fn kill(&mut self, name: &str) {
        let mut child = self.processes.remove(name).unwrap();
        // `ip netns exec` becomes what it starts
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn wait_for_links(&self) {
        wait_until(secs(60), "every link is measured", || {
            let answer = self.cli.run(&["link", "list"]);
            let links = answer.json["items"].as_array().cloned().unwrap_or_default();
            let measured = links.iter().filter(|l| l["rtt_us"]["p50"].as_i64().is_some()).count();
            if measured == 8 { Ok(()) } else { Err(format!("{measured} of 8: {}{}", answer.stderr, answer.stdout)) }
        });
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }
}

impl Drop for Federation {
    fn drop(&mut self) {
        for child in self.processes.values_mut() {
            // it may have ended by itself
            let _ = child.kill();
            let _ = child.wait();
        }
        for left in system_tests::processes::of_folder(self.folder.path()) {
            system_tests::processes::end(left.pid);
        }
        if std::thread::panicking() {
            for name in POINTS.iter().chain(&["server"]) {
                let text = fs::read_to_string(self.log(name)).unwrap_or_default();
                let lines: Vec<_> = text.lines().collect();
                println!("--- {name}\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
            }
        }
    }
}

/// Where a point reaches the orchestrator.
fn office(point: &str) -> String {
    let router = if point == "r1" { Router::R1 } else { Router::R2 };
    format!("{}:{API}", Site::D.underlay(router))
}

/// Where each link's far end is.
fn endpoints() -> Value {
    let mut all = serde_json::Map::new();
    for (site, name) in [(Site::A, "a"), (Site::B, "b")] {
        for router in Router::ALL {
            let id = if site == Site::A { format!("a-{}", router.name()) } else { format!("{}-b", router.name()) };
            let (there, back) = (site.underlay(router), router.underlay(site));
            // the first of the two leads to the router from `a`, and from it to `b`
            let (forward, reverse) = if name == "a" { (back, there) } else { (there, back) };
            for (link, host) in [(id.clone(), forward), (format!("{id}~"), reverse)] {
                let at = json!({ "probe": format!("{host}:{REFLECTOR}"), "overlay": format!("{host}:{OVERLAY}") });
                all.insert(link, at);
            }
        }
    }
    Value::Object(all)
}

fn agent(point: &str, folder: &Path) -> Value {
    let numbers = json!({ "from": TUNNELS.0, "to": TUNNELS.1 });
    let kernel = |site: Site| {
        let locator = format!("{}/64", site.locator(0));
        json!({ "underlay": [site.underlay(Router::R2)], "locator": locator, "numbers": numbers, "inside": INSIDE })
    };
    let relay = |router: Router| {
        let segment = json!({ "address": router.segment(), "link": "to-a" });
        json!({ "underlay": [router.underlay(Site::A)], "segment": segment, "numbers": numbers, "inside": INSIDE })
    };
    let mut config = json!({
        "point": point,
        "orchestrator": format!("http://{}", office(point)),
        "token_file": folder.join(format!("token-{point}")),
        "data_dir": folder.join(point),
        "listen": { "reflector": format!("0.0.0.0:{REFLECTOR}"), "overlay": format!("0.0.0.0:{OVERLAY}") },
        "sync": { "backoff_max": "500ms" },
        "routes": { "kernel": match point {
            "a" => kernel(Site::A),
            "b" => kernel(Site::B),
            "r1" => relay(Router::R1),
            _ => relay(Router::R2),
        } },
    });
    if ["a", "b"].contains(&point) {
        let nodes = json!([{ "count": 1, "cpu": 16, "memory": "64GiB" }]);
        config["devices"] = json!({ "source": "file", "nodes": nodes });
    }
    config
}
