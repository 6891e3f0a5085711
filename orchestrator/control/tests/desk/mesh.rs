//! Who probes what, as the agents are told, and what becomes of links that nobody probes.

use jiff::Timestamp;
use rhumb_control::{Base, Desk, ServerConfig, secrets::Secret};
use rhumb_model::{FederationFile, PointName};
use rhumb_store::SqliteStore;
use rhumb_wire::{Desired, LinkFigures, PROTOCOL, PairFigures, Report};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    time::{Duration, Instant},
};
use uuid::Uuid;

struct World {
    desk: Desk<SqliteStore>,
    agents: Vec<Agent>,
    _folder: tempfile::TempDir,
}

struct Agent {
    point: PointName,
    boot: Uuid,
    seq: u64,
    desired: Option<Desired>,
}

impl World {
    async fn start(federation: &str, config: serde_json::Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut whole = serde_json::json!({
            "database": "sqlite:unused", "federation": path("federation.yaml"), "secret_file": path("secret"),
        });
        whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
        let config: ServerConfig = serde_json::from_value(whole).unwrap();
        let store = SqliteStore::open(path("rhumb.db")).await.unwrap();
        let base = Base::new(FederationFile::read(federation).unwrap()).unwrap();
        let agent = |point: &PointName| Agent { point: point.clone(), boot: Uuid::now_v7(), seq: 0, desired: None };
        let agents = base.agents().map(agent).collect();
        let secret = Secret::load(&config.secret_file).unwrap();
        Self { desk: Desk::start(store, base, config, secret).await.unwrap(), agents, _folder: folder }
    }

    /// Every agent reports on what it is told to probe.
    async fn round(&mut self, rtt_us: impl Fn(&str) -> u64) {
        for agent in &mut self.agents {
            agent.seq += 1;
            let reply = self.desk.sync(&agent.point, agent.report(&rtt_us)).await.unwrap();
            agent.desired = reply.desired.or(agent.desired.take());
        }
    }

    /// Rounds until it is so.
    async fn until(&mut self, rtt_us: impl Fn(&str) -> u64, done: impl AsyncFn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            self.round(&rtt_us).await;
            if done(self).await {
                return;
            }
            assert!(Instant::now() < deadline, "it never came to that");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Agent {
    fn report(&self, rtt_us: impl Fn(&str) -> u64) -> Report {
        let figures = |link: &rhumb_model::LinkId| {
            let rtt = rtt_us(link.as_str());
            LinkFigures {
                link: link.clone(),
                window_us: 10_000_000,
                sent: 50,
                received: 50,
                rtt_min_us: Some(rtt),
                rtt_p50_us: Some(rtt),
                rtt_p95_us: Some(rtt),
                loss_forward_ppm: Some(0),
                loss_backward_ppm: Some(0),
                jitter_us: Some(0),
                last_reply_age_us: Some(0),
                rtt_p99_us: Some(rtt),
                bandwidths: Vec::new(),
                stale: false,
            }
        };
        let pair = |to: &PointName| PairFigures {
            to: to.clone(),
            sent: 50,
            received: 50,
            rtt_min_us: Some(40_000),
            rtt_p50_us: Some(41_000),
            rtt_p95_us: Some(42_000),
            last_reply_age_us: Some(0),
        };
        let desired = self.desired.as_ref();
        Report {
            protocol: PROTOCOL,
            point: self.point.clone(),
            boot_id: self.boot,
            seq: self.seq,
            epoch: desired.map_or(0, |d| d.epoch),
            generation: desired.map_or(0, |d| d.generation),
            wait_ms: 0,
            probe_port: Some(862),
            overlay_port: None,
            kernel: None,
            nodes: None,
            inventory: rhumb_wire::InventoryUpdate::default(),
            assignments: Vec::new(),
            routes: Vec::new(),
            links: desired.into_iter().flat_map(|d| &d.probes).map(|target| figures(&target.link)).collect(),
            windows: Vec::new(),
            pairs: desired.into_iter().flat_map(|d| &d.pairs).map(|target| pair(&target.to)).collect(),
            trains: Vec::new(),
            logs: Vec::new(),
            datasets: Vec::new(),
            unmanaged: 0,
        }
    }
}

const SITES: usize = 44;

/// Everybody linked to everybody, on a line of 1 ms from one to the next.
fn line() -> (String, BTreeMap<String, u64>) {
    let mut file = "currency: CNY\nsites:\n".to_owned();
    for i in 0..SITES {
        writeln!(file, "  - {{name: s{i:02}}}").unwrap();
    }
    file.push_str("links:\n");
    let mut rtts = BTreeMap::new();
    for a in 0..SITES {
        for b in 0..a {
            let ms = a - b;
            let (id, line) = (format!("s{a:02}/s{b:02}"), format!("from: s{a:02}, to: s{b:02}, both_ways: true"));
            writeln!(file, "  - {{id: {id}, {line}, capacity: 1Gbps, latency: {ms}ms}}").unwrap();
            rtts.insert(format!("{id}~"), ms as u64 * 2_000);
            rtts.insert(id, ms as u64 * 2_000);
        }
    }
    (file, rtts)
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sites_probe_a_planned_mesh_and_what_they_leave_out_is_estimated_and_says_so() {
    let (federation, rtts) = line();
    let end = |id: &String| (id.clone(), serde_json::json!({ "probe": "127.0.0.1:862", "overlay": "127.0.0.1:863" }));
    let endpoints: serde_json::Map<_, _> = rtts.keys().map(end).collect();
    let mut world = World::start(&federation, serde_json::json!({ "endpoints": endpoints })).await;
    let rtt = |link: &str| rtts[link];
    world.round(rtt).await;
    let probed = |world: &World| world.agents.iter().map(|a| a.desired.as_ref().unwrap().probes.len()).sum::<usize>();
    assert!(probed(&world) < SITES * (SITES - 1) * 4 / 5, "{}", probed(&world));
    assert!(world.agents.iter().all(|a| a.desired.as_ref().unwrap().probes.len() >= 8));
    world
        .until(rtt, async |world| {
            let view = world.desk.view(Timestamp::now()).await.unwrap();
            view.graph.edge_weights().all(|link| !link.stale)
        })
        .await;
    let view = world.desk.view(Timestamp::now()).await.unwrap();
    assert_eq!(view.graph.edge_weights().filter(|link| !link.estimated).count(), probed(&world));
    for link in view.graph.edge_weights().filter(|link| link.estimated) {
        // never nearer than it is: a way of that length is known
        let truth = rtts[link.id.as_str()] / 2;
        assert!((truth..=truth * 3).contains(&link.latency.micros()), "{}: {} for {truth}", link.id, link.latency);
        assert!(link.encrypted);
    }
    world.desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_opaque_transit_the_whole_way_is_measured() {
    let federation = "
currency: CNY
sites: [{name: a}, {name: b}]
transit: [{name: cloud}, {name: core}]
links:
  - {id: a-c, from: a, to: cloud, both_ways: true, capacity: 1Gbps, latency: 5ms}
  - {id: c-c, from: cloud, to: core, both_ways: true, capacity: 1Gbps, latency: 5ms}
  - {id: c-b, from: core, to: b, both_ways: true, capacity: 1Gbps, latency: 5ms}
";
    let points = serde_json::json!({ "points": { "a": "192.0.2.1", "b": "2001:db8::1" } });
    let mut world = World::start(federation, points).await;
    let pairs = |world: &World| -> Vec<(String, String)> {
        let pairs = world.agents.iter().flat_map(|a| a.desired.iter().flat_map(|d| &d.pairs));
        pairs.map(|p| (p.to.to_string(), p.address.clone())).collect()
    };
    world.until(|_| 0, async |world| pairs(world).len() == 2).await;
    let expected = [("b".to_owned(), "[2001:db8::1]:862".to_owned()), ("a".to_owned(), "192.0.2.1:862".to_owned())];
    assert_eq!(pairs(&world), expected);
    world.round(|_| 0).await;
    let pair = (PointName::new("a").unwrap(), PointName::new("b").unwrap());
    let seen = world.desk.hub().lock().pairs[&pair];
    assert_eq!(seen.rtt_p50.micros(), 41_000);
    // the links keep what is configured, and say so
    let view = world.desk.view(Timestamp::now()).await.unwrap();
    assert!(view.graph.edge_weights().all(|link| link.estimated && link.latency.micros() == 5_000));
    world.desk.stop().await;
}
