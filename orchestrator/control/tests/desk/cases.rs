//! Faults of other schedulers as their users reported them: what happened there must not happen here. The inputs are read
//! from `cases/open.json` beside the data folder (`RHUMB_DATA`, else `../shared/data` beside the project).

use crate::world::{World, is, member, tenant};
use public_data::case;
use rhumb_control::{DeskError, intake::Accepted};
use rhumb_federation::View;
use rhumb_model::{NodeName, Order, OrderId, OrderState, Phase, ReasonKind};
use rhumb_placement::{Decision, Policy, Request};
use rhumb_store::{Holder, OrderRecord, Store};
use serde_json::Value;
use std::{
    sync::{
        Barrier, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// An order for `replicas` of `devices` accelerators each at one site.
fn devices(name: &str, replicas: u64, devices: u64, site: &str) -> String {
    format!(
        "name: {name}\nclass: training\ncomponents:\n  - name: worker\n    replicas: {replicas}\n    gang: true\n    \
         need: {{accelerators: {{count: {devices}, models: [H100]}}, cpu: 1, memory: 1GiB}}\n    work: {{duration: 6s}}\n    \
         run: {{command: [\"true\"]}}\nconstraints: {{sites: [{site}]}}\n"
    )
}

async fn create(world: &World, document: &str) -> OrderId {
    let accepted = world.desk.create_order(&tenant(), Order::read(document).unwrap(), None, None).await.unwrap();
    match accepted {
        Accepted::New(record) => record.id,
        Accepted::Again(id) => id,
    }
}

/// Devices held for an order.
async fn held(world: &World, order: OrderId) -> usize {
    let held = world.store.holdings().await.unwrap();
    held.replicas.iter().filter(|h| h.holder == Holder::Order(order)).map(|h| h.devices.len()).sum()
}

async fn order(world: &World, id: OrderId) -> OrderRecord {
    world.store.order(id).await.unwrap().unwrap()
}

/// One site with a node of eight accelerators, another with none.
const ONE_NODE: &str = "
currency: CNY
devices: {H100: {memory: 80GiB, fp16: 1.0}}
sites:
  - {name: s1, prices: {H100: 20 CNY}, nodes: [{count: 1, accelerators: {model: H100, count: 8}, cpu: 96, memory: 1TiB}]}
  - {name: s2, prices: {H100: 20 CNY}, nodes: [{count: 1, cpu: 96, memory: 1TiB}]}
links: [{id: a, from: s1, to: s2, both_ways: true, capacity: 100Mbps, latency: 1ms}]
";

/// H-O02: what has been promised is taken from what is free before the site reports again.
#[tokio::test(flavor = "multi_thread")]
async fn orders_that_arrive_faster_than_reports_do_not_share_the_same_devices() {
    let Some(case) = case("H-O02") else { return };
    let (orders, each) = (number(&case["orders_concurrent"]), number(&case["each_gpus"]));
    let free = number(&case["sites"][0]["free_gpus"]);
    assert_eq!((free, number(&case["sites"][1]["free_gpus"])), (8, 0), "the federation here is the case's");
    let mut world = World::start_on(ONE_NODE, &["s1", "s2"], rhumb_placement::decide).await;
    world.agents.iter_mut().for_each(|a| a.stall(Phase::Running));
    // taken before anything was placed, and kept by the network
    let mut late = world.agents[0].report();
    let text = |i| devices(&format!("o-{i}"), 1, each, "s1").replace("constraints: {sites: [s1]}\n", "");
    let created = (0..orders).map(|i| {
        let (desk, document) = (world.desk.clone(), Order::read(&text(i)).unwrap());
        tokio::spawn(async move { desk.create_order(&tenant(), document, None, None).await.unwrap() })
    });
    let mut ids = Vec::new();
    for task in created.collect::<Vec<_>>() {
        let Accepted::New(record) = task.await.unwrap() else { panic!("each is new") };
        ids.push(record.id);
    }
    let fit = (free / each) as usize;
    let deadline = Instant::now() + Duration::from_secs(40);
    let placed = async |world: &World| {
        let mut placed = Vec::new();
        for id in &ids {
            let order = order(world, *id).await;
            match order.state {
                OrderState::InProgress => placed.push(*id),
                OrderState::Acknowledged => return None,
                _ => {
                    assert_eq!(order.state, OrderState::Pending, "{order:?}");
                    assert_eq!(order.reasons[0].reason, ReasonKind::Capacity, "{:?}", order.reasons);
                }
            }
        }
        Some(placed)
    };
    // no report is heard while they are decided on
    let first = loop {
        if let Some(placed) = placed(&world).await {
            break placed;
        }
        assert!(Instant::now() < deadline, "some were never decided on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(first.len(), fit);
    late.wait_ms = 0;
    world.desk.sync(&late.point.clone(), late).await.unwrap();
    // one more is decided on after all that waited were looked at again
    world.desk.hub().wake_placer_for_all();
    let last = create(&world, &text(orders)).await;
    world.until(last, is(OrderState::Pending)).await;
    assert_eq!(placed(&world).await, Some(first.clone()));
    let mut sum = 0;
    for id in &first {
        sum += held(&world, *id).await;
    }
    assert_eq!(sum as u64, free);
    assert!(world.desk.audit().await.unwrap().clean);
}

/// Four nodes with one accelerator each.
const FOUR_NODES: &str = "
currency: CNY
devices: {H100: {memory: 80GiB, fp16: 1.0}}
sites:
  - {name: s1, prices: {H100: 20 CNY}, nodes: [{count: 4, accelerators: {model: H100, count: 1}, cpu: 16, memory: 64GiB}]}
  - {name: s2, prices: {H100: 20 CNY}, nodes: [{count: 1, cpu: 96, memory: 1TiB}]}
links: [{id: a, from: s1, to: s2, both_ways: true, capacity: 100Mbps, latency: 1ms}]
";

/// H-O04: a gang that lost a member has all of its devices or none, whoever comes meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_gang_that_loses_a_member_holds_all_or_nothing() {
    let Some(case) = case("H-O04") else { return };
    let (members, each) = (number(&case["gang"]["min"]), number(&case["gang"]["gpus_each"]));
    let all = (members * each) as usize;
    assert_eq!((members, each), (4, 1), "the federation here is the case's");
    let mut world = World::start_on(FOUR_NODES, &["s1", "s2"], rhumb_placement::decide).await;
    world.agents.iter_mut().for_each(|a| a.stall(Phase::Running));
    let gang = create(&world, &devices("g", members, each, "s1")).await;
    world.until(gang, |o| o.phase == Some(Phase::Running)).await;
    assert_eq!(held(&world, gang).await, all);
    world.agents[0].conduct.lost_nodes = [NodeName::new("n003").unwrap()].into();
    // torn down and waiting, for one node is missing; never with part of what it needs
    let deadline = Instant::now() + Duration::from_secs(40);
    loop {
        world.round().await;
        let holds = held(&world, gang).await;
        assert!(holds == all || holds == 0, "{holds} of {all} held");
        if order(&world, gang).await.state == OrderState::Pending && holds == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{:?}", order(&world, gang).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let rival = create(&world, &devices("r", 1, number(&case["rival"]["gpus"]), "s1")).await;
    world.until(rival, |o| o.phase == Some(Phase::Running)).await;
    // the node comes back: three are free, and the gang takes none of them
    world.agents[0].conduct.lost_nodes.clear();
    world.round().await;
    world.desk.hub().wake_placer_for_all();
    let another = create(&world, &devices("another", 4, 1, "s1")).await;
    world.until(another, is(OrderState::Pending)).await;
    let waiting = order(&world, gang).await;
    assert_eq!((waiting.state, held(&world, gang).await), (OrderState::Pending, 0));
    world.desk.cancel(&tenant(), another, None).await.unwrap();
    // and once the rival is done, all four
    world.desk.cancel(&tenant(), rival, None).await.unwrap();
    let hub = world.desk.clone();
    let again = world
        .until(gang, |o| {
            hub.hub().wake_placer_for_all();
            o.phase == Some(Phase::Running)
        })
        .await;
    assert_eq!(held(&world, gang).await, all);
    assert!(again.generation > 1);
    world.agents.iter_mut().for_each(|a| a.stall(None));
    world.until(gang, is(OrderState::Completed)).await;
    world.nothing_is_left().await;
}

static DECIDED: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(2));
static AMENDED: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(2));
static ONCE: AtomicBool = AtomicBool::new(false);

/// The first decision on the gang is made, and not acted on before the order has been amended.
fn slowly(view: &View, request: &Request<'_>, policy: &Policy) -> Decision {
    let decision = rhumb_placement::decide(view, request, policy);
    if request.order.name.as_str() == "gang" && !ONCE.swap(true, Ordering::SeqCst) {
        assert!(decision.plan().is_some(), "there is room for the order as it was");
        DECIDED.wait();
        AMENDED.wait();
    }
    decision
}

async fn meet(barrier: &'static LazyLock<Barrier>) {
    tokio::task::spawn_blocking(|| barrier.wait()).await.unwrap();
}

/// H-O05: a plan for the order as it was is refused when it is committed, and leaves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_for_an_order_that_was_amended_meanwhile_holds_nothing() {
    let Some(case) = case("H-O05") else { return };
    let (before, after) = (number(&case["order"]["gang_min"]), number(&case["patch"]["gang_min"]));
    let free = number(&case["free_gpus"]);
    assert!(before <= free && free < after && after <= 8, "the case is about room for one of the two");
    let mut world = World::start_on(ONE_NODE, &["s1", "s2"], slowly).await;
    world.agents.iter_mut().for_each(|a| a.stall(Phase::Running));
    let other = create(&world, &devices("other", 8 - free, 1, "s1")).await;
    world.until(other, |o| o.phase == Some(Phase::Running)).await;
    let gang = create(&world, &devices("gang", before, 1, "s1")).await;
    meet(&DECIDED).await;
    let version = order(&world, gang).await.version;
    let more = Order::read(&devices("gang", after, 1, "s1")).unwrap();
    let stranger = member("rival");
    let refused = world.desk.amend(&stranger, gang, more.clone(), None).await;
    assert!(matches!(refused, Err(DeskError::NotFound { .. })), "{refused:?}");
    let stale = world.desk.amend(&tenant(), gang, more.clone(), Some(version + 1)).await;
    assert!(matches!(stale, Err(DeskError::Stale)), "{stale:?}");
    let amended = world.desk.amend(&tenant(), gang, more.clone(), Some(version)).await.unwrap();
    assert_eq!((&amended.document, amended.version), (&more, version + 1));
    meet(&AMENDED).await;
    let waiting = world.until(gang, is(OrderState::Pending)).await;
    assert_eq!((waiting.plan, waiting.generation), (None, 0));
    assert_eq!(waiting.reasons[0].reason, ReasonKind::Capacity, "{:?}", waiting.reasons);
    assert_eq!(held(&world, gang).await, 0);
    let audit = world.desk.audit().await.unwrap();
    assert!(audit.clean, "{audit:#?}");
    // with the others gone there is room for all of the gang
    world.desk.cancel(&tenant(), other, None).await.unwrap();
    world.until(gang, |o| o.phase == Some(Phase::Running)).await;
    assert_eq!(held(&world, gang).await as u64, after);
    let late = world.desk.amend(&tenant(), gang, Order::read(&devices("gang", before, 1, "s1")).unwrap(), None).await;
    assert!(matches!(late, Err(DeskError::Conflict(_))), "{late:?}");
    world.agents.iter_mut().for_each(|a| a.stall(None));
    world.until(gang, is(OrderState::Completed)).await;
    world.nothing_is_left().await;
}
