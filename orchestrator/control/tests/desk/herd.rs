//! Many who all want the same.

use crate::world::{World, tenant};
use rhumb_control::intake::Accepted;
use rhumb_model::{Order, OrderState, Phase};
use rhumb_store::Store;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Three sites of 16 cores that differ by price alone.
const SITES: &str = "
currency: CNY
sites:
  - {name: cheap, prices: {cpu: 1 CNY}, nodes: [{count: 4, cpu: 4, memory: 1TiB}]}
  - {name: dear, prices: {cpu: 3 CNY}, nodes: [{count: 4, cpu: 4, memory: 1TiB}]}
  - {name: fair, prices: {cpu: 2 CNY}, nodes: [{count: 4, cpu: 4, memory: 1TiB}]}
";
const ASKED: usize = 40;

/// Fault F56, at the desk: all orders come before anybody reports again, and one site is the best for all of them. What was
/// promised to one is not there for the next: nobody is placed twice, and no node holds more than it has.
#[tokio::test(flavor = "multi_thread")]
async fn f56_a_herd_is_spread_as_there_is_room() {
    let mut world = World::start_on(SITES, &["cheap", "dear", "fair"], rhumb_placement::decide).await;
    // what is promised stays a promise: no agent ever says that it has it
    world.agents.iter_mut().for_each(|agent| agent.stall(Phase::Holding));
    let document = |i: usize| {
        let need = "need: {cpu: 1, memory: 1GiB}";
        let text = format!(
            "name: herd-{i:03}\nclass: processing\ncomponents:\n  - {{name: job, {need}, work: {{duration: 1h}}, run: {{command: [\"true\"]}}}}\n"
        );
        Order::read(&text).unwrap()
    };
    let creating = (0..ASKED).map(|i| {
        let desk = world.desk.clone();
        tokio::spawn(async move { desk.create_order(&tenant(), document(i), None, None).await })
    });
    for created in creating.collect::<Vec<_>>() {
        assert!(matches!(created.await.unwrap().unwrap(), Accepted::New(_)));
    }
    let deadline = Instant::now() + Duration::from_mins(2);
    let orders = loop {
        let orders = world.store.live_orders().await.unwrap();
        if orders.iter().filter(|o| o.plan.is_some()).count() == ASKED {
            break orders;
        }
        assert!(
            Instant::now() < deadline,
            "{} of {ASKED} are placed",
            orders.iter().filter(|o| o.plan.is_some()).count()
        );
        world.round().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let mut placed: BTreeMap<String, usize> = BTreeMap::new();
    for order in &orders {
        assert_eq!((order.state, order.generation), (OrderState::InProgress, 1), "{}", order.document.name);
        for assignment in order.plan.iter().flat_map(|plan| &plan.components).flat_map(|c| &c.assignments) {
            *placed.entry(assignment.site.to_string()).or_default() += 1;
        }
    }
    assert_eq!(placed, BTreeMap::from([("cheap".into(), 16), ("dear".into(), 8), ("fair".into(), 16)]));
    // no node holds more than it has
    let mut cores: BTreeMap<_, u64> = BTreeMap::new();
    for hold in world.store.holdings().await.unwrap().replicas {
        *cores.entry((hold.site, hold.node)).or_default() += hold.cpu_milli;
    }
    assert!(cores.values().all(|milli| *milli <= 4_000), "{cores:?}");
    let audit = world.desk.audit().await.unwrap();
    assert!(audit.clean, "{audit:#?}");
    world.desk.stop().await;
}
