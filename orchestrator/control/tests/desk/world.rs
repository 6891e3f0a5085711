//! A desk, its agents and what must be true of both.

use rhumb_control::{
    Base, Caller, Decide, Desk, ServerConfig,
    intake::Accepted,
    secrets::Secret,
    testing::{FEDERATION, FakeAgent, FlakyStore, POINTS},
};
use rhumb_model::{FederationFile, Order, OrderId, OrderState, Role, Scope, TokenId};
use rhumb_store::{Intent, OrderFilter, OrderRecord, SqliteStore, Store};
use std::time::{Duration, Instant};

/// `a` to `b` by way of `r`, which is cheap, or of `s`.
pub const DIAMOND: &str = "
currency: CNY
devices: {}
sites:
  - {name: a, jurisdiction: CN, prices: {cpu: 0.2 CNY}, nodes: [{count: 1, cpu: 16, memory: 64GiB}]}
  - {name: b, jurisdiction: CN, prices: {cpu: 0.2 CNY}, nodes: [{count: 1, cpu: 16, memory: 64GiB}]}
transit:
  - {name: r, jurisdiction: CN, relay: true}
  - {name: s, jurisdiction: CN, relay: true}
links:
  - {id: a-r, from: a, to: r, both_ways: true, capacity: 100Mbps, latency: 5ms, per_mbps_hour: 0.01 CNY}
  - {id: r-b, from: r, to: b, both_ways: true, capacity: 100Mbps, latency: 5ms, per_mbps_hour: 0.01 CNY}
  - {id: a-s, from: a, to: s, both_ways: true, capacity: 200Mbps, latency: 5ms, per_mbps_hour: 0.03 CNY}
  - {id: s-b, from: s, to: b, both_ways: true, capacity: 200Mbps, latency: 5ms, per_mbps_hour: 0.03 CNY}
datasets: [{name: corpus, size: 4MB, at: [a]}]
";

pub struct World {
    pub store: FlakyStore,
    pub desk: Desk<FlakyStore>,
    pub agents: Vec<FakeAgent>,
    decide: Decide,
    federation: &'static str,
    folder: tempfile::TempDir,
}

pub fn member(tenant: &str) -> Caller {
    let scope = Scope::Tenant(tenant.parse().unwrap());
    Caller { token: TokenId(uuid::Uuid::nil()), role: Role::Member, scope }
}

pub fn tenant() -> Caller {
    member("acme")
}

async fn desk(store: FlakyStore, decide: Decide, federation: &str, folder: &tempfile::TempDir) -> Desk<FlakyStore> {
    let path = |name: &str| folder.path().join(name);
    let config: ServerConfig = serde_json::from_value(serde_json::json!({
        "database": "sqlite:unused", "federation": path("federation.yaml"), "secret_file": path("secret"),
        // a site at fault is tried again while a test waits
        "times": { "avoid": "1s", "lease_margin": "1s" },
        // and a path at fault is left
        "routes": { "confirm_ms": 300, "lost_ms": 300, "hold_down_ms": 500, "retry_ms": 500 },
    }))
    .unwrap();
    let base = Base::new(FederationFile::read(federation).unwrap()).unwrap();
    let secret = Secret::load(&config.secret_file).unwrap();
    Desk::start_with(store, base, config, secret, decide).await.unwrap()
}

impl World {
    /// With every agent heard of.
    pub async fn start() -> Self {
        Self::start_with(rhumb_placement::decide).await
    }

    pub async fn start_with(decide: Decide) -> Self {
        Self::start_on(FEDERATION, &POINTS, decide).await
    }

    /// Another federation, with agents at these points.
    pub async fn start_on(federation: &'static str, points: &[&str], decide: Decide) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("rhumb.db")).await.unwrap();
        let known = ["acme", "rival"]
            .map(|name| Intent::KnowTenant { name: name.parse().unwrap(), at: jiff::Timestamp::UNIX_EPOCH });
        store.commit(known.into()).await.unwrap();
        let store = FlakyStore::new(store);
        let desk = desk(store.clone(), decide, federation, &folder).await;
        let agents = points.iter().map(|p| FakeAgent::of(p, federation)).collect();
        let mut world = Self { store, desk, agents, decide, federation, folder };
        world.round().await;
        world
    }

    /// A new process on the same data; the agents live on.
    pub async fn restart(&mut self) {
        self.desk.stop().await;
        self.store = self.store.for_a_new_process();
        self.desk = desk(self.store.clone(), self.decide, self.federation, &self.folder).await;
    }

    /// Every agent reports once. One that gets no answer reports again in the next round.
    pub async fn round(&mut self) {
        for agent in &mut self.agents {
            let report = agent.report();
            if let Ok(reply) = self.desk.sync(&agent.point, report).await {
                agent.accept(&reply);
            }
        }
    }

    /// As a client does that is told to come back: with the same key, until there is an answer.
    pub async fn order(&mut self, document: &str, key: &str) -> OrderId {
        let document_read = Order::read(document).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let body_sha256 = rhumb_control::secrets::sha256(document.as_bytes());
            let key = rhumb_control::intake::Idempotency { key: key.to_owned(), body_sha256 };
            match self.desk.create_order(&tenant(), document_read.clone(), Some(key), None).await {
                Ok(Accepted::New(record)) => return record.id,
                Ok(Accepted::Again(id)) => return id,
                Err(_) if self.store.is_dead() => self.restart().await,
                Err(error) => assert!(Instant::now() < deadline, "never accepted: {error}"),
            }
        }
    }

    /// Rounds until the order is as asked; a dead process is begun anew.
    pub async fn until(&mut self, id: OrderId, done: impl Fn(&OrderRecord) -> bool) -> OrderRecord {
        let deadline = Instant::now() + Duration::from_secs(40);
        loop {
            if self.store.is_dead() {
                self.restart().await;
            }
            self.round().await;
            if let Ok(Some(order)) = self.store.order(id).await {
                if done(&order) {
                    return order;
                }
                if Instant::now() > deadline {
                    let events = self.store.order_events(id, 0, 1_000).await.unwrap_or_default();
                    let events: Vec<_> = events.into_iter().map(|e| e.event.message).collect();
                    panic!("order never got there: {:?} {:?} {:#?}\n{events:#?}", order.state, order.phase, order.saga);
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Nothing is held, no agent has anything, the audit is clean.
    pub async fn nothing_is_left(&mut self) {
        self.store.calm();
        if self.store.is_dead() {
            self.restart().await;
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.agents.iter().any(|a| a.has() > 0) {
            assert!(Instant::now() < deadline, "an agent still has something");
            self.round().await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let held = self.store.holdings().await.unwrap();
        assert!(held.replicas.is_empty() && held.links.is_empty() && held.tunnels.is_empty(), "{held:#?}");
        let audit = self.desk.audit().await.unwrap();
        assert!(audit.clean, "{audit:#?}");
    }

    pub async fn orders(&self) -> usize {
        let filter = OrderFilter { limit: 200, ..OrderFilter::default() };
        self.store.orders(&filter).await.unwrap().items.len()
    }
}

pub fn is(state: OrderState) -> impl Fn(&OrderRecord) -> bool {
    move |order| order.state == state
}
