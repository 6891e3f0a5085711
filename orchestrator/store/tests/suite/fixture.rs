//! Records to work with.

use jiff::Timestamp;
use rhumb_model::{
    Bandwidth, LinkId, ModelName, NodeName, Order, OrderId, OrderState, QuoteId, SiteName, TenantName, order::Need,
};
use rhumb_store::{
    AnyStore, Conflict, DecisionRecord, Grant, Intent, LinkWant, NewEvent, NodeRecord, OrderChange, OrderRecord,
    Outcome, PointRecord, QuoteRecord, ReplicaWant, Reservation, Store as _,
};
use serde_json::{Value, json};
use uuid::Uuid;

pub fn at(seconds: i64) -> Timestamp {
    // microseconds that a float would lose
    Timestamp::from_microsecond(1_790_000_000_000_001 + seconds * 1_000_000).unwrap()
}

pub fn site(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

pub fn link(name: &str) -> LinkId {
    LinkId::new(name).unwrap()
}

pub fn new_id() -> OrderId {
    OrderId(Uuid::now_v7())
}

pub fn document(name: &str) -> Order {
    serde_json::from_value(json!({
        "name": name,
        "class": "training",
        "components": [{"name": "trainer", "replicas": 2, "need": {"accelerators": {"count": 4, "models": ["H100"]}, "cpu": 1.5}}],
        "terms": {"budget": "4.2 CNY", "deadline": "2026-12-01T08:00:00Z"}
    }))
    .unwrap()
}

pub fn order(name: &str) -> OrderRecord {
    OrderRecord {
        id: new_id(),
        tenant: TenantName::new("acme").unwrap(),
        document: document(name),
        state: OrderState::Acknowledged,
        phase: None,
        attention: None,
        reasons: vec![],
        plan: None,
        cost: None,
        saga: None,
        checkpoints: Vec::new(),
        quote_id: None,
        generation: 0,
        version: 1,
        created: at(0),
        updated: at(0),
        traceparent: None,
    }
}

pub fn event(kind: &str) -> NewEvent {
    NewEvent { kind: kind.to_owned(), phase: None, message: format!("{kind} it is"), detail: json!({"kind": kind}) }
}

pub fn accept(record: &OrderRecord) -> Intent {
    Intent::AcceptOrder { record: Box::new(record.clone()), event: event("acknowledged"), idempotency: None }
}

pub fn change(record: &OrderRecord, version: i64) -> OrderChange {
    OrderChange {
        id: record.id,
        version,
        at: at(version),
        document: None,
        state: None,
        phase: None,
        attention: None,
        reasons: None,
        plan: None,
        cost: None,
        saga: None,
        checkpoints: None,
        generation: None,
        decision: None,
        events: vec![],
        usage: vec![],
        release: vec![],
        keep_tunnels: vec![],
        free_tunnels: vec![],
        rehold: None,
    }
}

pub fn decision() -> DecisionRecord {
    DecisionRecord { at: at(5), sites: vec![], reasons: vec![], would_fit_if: vec![], view: "sites: []".to_owned() }
}

pub fn quote(name: &str) -> QuoteRecord {
    QuoteRecord {
        id: QuoteId(Uuid::now_v7()),
        tenant: TenantName::new("acme").unwrap(),
        document: document(name),
        plan: None,
        decision: decision(),
        binding: true,
        created: at(0),
        expires: at(300),
        ended: None,
        order: None,
    }
}

/// A node with so many H100 in NVLink islands of four.
pub fn node(site_name: &str, name: &str, devices: u32) -> NodeRecord {
    node_from(site_name, json!({"name": name, "devices": devices_json(devices), "cpu": 32, "memory": "256GiB"}))
}

pub fn devices_json(devices: u32) -> Vec<Value> {
    (0..devices)
        .map(|i| json!({"index": i, "model": "H100", "memory": "80GiB", "island": i / 4, "health": "ok"}))
        .collect()
}

pub fn node_from(site_name: &str, node: Value) -> NodeRecord {
    NodeRecord { site: site(site_name), node: serde_json::from_value(node).unwrap() }
}

pub fn point(name: &str) -> PointRecord {
    PointRecord { name: site(name), draining: false, boot: None, seq: 0, heard: None }
}

pub fn need(value: Value) -> Need {
    serde_json::from_value(value).unwrap()
}

pub fn gpus(count: u32) -> Need {
    need(json!({"accelerators": {"count": count}}))
}

pub fn want(site_name: &str, replica: u32, need: Need) -> ReplicaWant {
    ReplicaWant {
        component: rhumb_model::ComponentName::new("trainer").unwrap(),
        replica,
        site: site(site_name),
        model: need.accelerators.is_some().then(|| ModelName::new("H100").unwrap()),
        need,
        own_node: false,
    }
}

pub fn wants(replicas: Vec<ReplicaWant>) -> Reservation {
    Reservation { replicas, links: vec![] }
}

pub fn on_link(id: &str, kbps: u64) -> Reservation {
    let want = LinkWant { link: link(id), slots: None, rate: Bandwidth::from_kbps(kbps) };
    Reservation { replicas: vec![], links: vec![want] }
}

pub fn reserve(record: &OrderRecord, version: i64, reservation: Reservation) -> Intent {
    let change = OrderChange { generation: Some(1), ..change(record, version) };
    Intent::Reserve { order: record.id, generation: 1, reservation, change: Box::new(change) }
}

pub fn release(record: &OrderRecord, version: i64) -> Intent {
    Intent::Change(Box::new(OrderChange { release: vec![1], ..change(record, version) }))
}

pub async fn one(store: &AnyStore, intent: Intent) -> Outcome {
    let mut outcomes = store.commit(vec![intent]).await.unwrap();
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

/// Commits what must succeed.
pub async fn done(store: &AnyStore, intent: Intent) -> Outcome {
    let outcome = one(store, intent).await;
    assert!(!matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    outcome
}

pub async fn refused(store: &AnyStore, intent: Intent) -> Conflict {
    match one(store, intent).await {
        Outcome::Refused(conflict) => conflict,
        other => panic!("should be refused: {other:?}"),
    }
}

pub async fn granted(store: &AnyStore, intent: Intent) -> Vec<Grant> {
    match one(store, intent).await {
        Outcome::Reserved { grants, .. } => grants,
        other => panic!("should be reserved: {other:?}"),
    }
}

pub async fn accepted(store: &AnyStore, name: &str) -> OrderRecord {
    let record = order(name);
    done(store, accept(&record)).await;
    record
}

/// One site `alpha` with these nodes, and a link `ab` of 1 Gbps.
pub async fn world(store: &AnyStore, nodes: Vec<NodeRecord>) {
    let links = vec![(link("ab"), Bandwidth::from_mbps(1_000))];
    done(store, Intent::Configure { points: vec![point("alpha"), point("beta")], links }).await;
    done(store, Intent::Inventory { site: site("alpha"), nodes }).await;
}

pub fn node_name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

pub fn devices(grants: &[Grant]) -> Vec<Vec<u32>> {
    grants.iter().map(|g| g.devices.clone()).collect()
}

/// Sums of holds equal the columns, and nothing is over-full.
pub async fn audit(store: &AnyStore) {
    let holdings = store.holdings().await.unwrap();
    for (id, reserved, capacity) in &holdings.reserved {
        let here = || holdings.links.iter().filter(|h| &h.link == id);
        let sum: u64 = here().filter(|h| h.slots.is_none()).map(|h| h.rate.kbps()).sum();
        assert_eq!(sum, reserved.kbps(), "link {id}");
        let mut peak = 0;
        for (_, slot, kbps) in holdings.slots.iter().filter(|(link, ..)| link == id) {
            let covers =
                |h: &&rhumb_store::LinkHold| h.slots.is_some_and(|s| (s.first()..s.end()).contains(&slot.first()));
            let sum: u64 = here().filter(covers).map(|h| h.rate.kbps()).sum();
            assert_eq!(sum, kbps.kbps(), "link {id} in {slot:?}");
            peak = peak.max(sum);
        }
        assert!(reserved.kbps() + peak <= capacity.kbps(), "link {id}");
    }
    let mut cards = std::collections::BTreeMap::new();
    for hold in &holdings.replicas {
        for device in &hold.devices {
            *cards.entry((hold.site.clone(), hold.node.clone(), *device)).or_insert(0_u32) += u32::from(hold.share);
        }
    }
    for (card, share) in cards {
        assert!(share <= 1_000, "{card:?} is over-full: {share}");
    }
}
