//! Work that is moved goes on from what it named as its last checkpoint.

use crate::world::{World, is, tenant};
use rhumb_control::intake::Accepted;
use rhumb_model::{NodeName, Order, OrderState, Phase};
use rhumb_store::Store;
use std::collections::BTreeMap;

const TWO_NODES: &str = "
currency: CNY
devices: {H100: {memory: 80GiB, fp16: 1.0}}
sites:
  - {name: s1, prices: {H100: 20 CNY}, nodes: [{count: 3, accelerators: {model: H100, count: 1}, cpu: 16, memory: 64GiB}]}
  - {name: s2, prices: {H100: 20 CNY}, nodes: [{count: 1, cpu: 96, memory: 1TiB}]}
links: [{id: a, from: s1, to: s2, both_ways: true, capacity: 100Mbps, latency: 1ms}]
";

const GANG: &str = "name: g
class: training
components:
  - name: worker
    replicas: 2
    gang: true
    need: {accelerators: {count: 1, models: [H100]}, cpu: 1, memory: 1GiB}
    work: {duration: 6s}
    run: {command: ['true']}
constraints: {sites: [s1]}
terms: {checkpoint: {signal: SIGUSR1, grace: 5s}}
";

/// A node is lost with one of the gang. The other is stopped and says where it stands: in the next generation it is told.
/// The lost one said nothing, and begins anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_placed_again_is_told_its_checkpoint() {
    let mut world = World::start_on(TWO_NODES, &["s1", "s2"], rhumb_placement::decide).await;
    world.agents.iter_mut().for_each(|a| a.stall(Phase::Running));
    let accepted = world.desk.create_order(&tenant(), Order::read(GANG).unwrap(), None, None).await.unwrap();
    let Accepted::New(record) = accepted else { panic!("it is a new one") };
    let id = record.id;
    let running = world.until(id, |o| o.phase == Some(Phase::Running)).await;
    let replicas = running.saga.as_ref().unwrap().replicas.clone();
    let told = |world: &World, generation: u64| -> BTreeMap<u32, Option<String>> {
        let desired = world.agents[0].desired.as_ref().unwrap();
        let mine = desired.assignments.iter().filter(|a| a.key.generation == generation);
        mine.map(|a| (a.key.replica, a.terms.restart_from.clone())).collect()
    };
    assert_eq!(told(&world, 1), BTreeMap::from([(0, None), (1, None)]));
    world.agents[0].conduct.checkpoint = Some("step-400".into());
    let gone: NodeName = replicas[1].node.clone();
    world.agents[0].conduct.lost_nodes = [gone].into();
    let again = world.until(id, |o| o.generation > 1 && o.phase == Some(Phase::Running)).await;
    let (lost, kept) = (replicas[1].replica, replicas[0].replica);
    assert_eq!(told(&world, again.generation), BTreeMap::from([(kept, Some("step-400".into())), (lost, None)]));
    let events = world.store.order_events(id, 0, 200).await.unwrap();
    let named: Vec<_> = events.iter().filter(|e| e.event.kind == "checkpoint").map(|e| &e.event.message).collect();
    assert_eq!(named, [&format!("worker replica {kept} has the checkpoint step-400")]);
    // and what has gone on once goes on from the same if nothing newer is named
    world.agents[0].conduct.checkpoint = None;
    world.agents[0].conduct.lost_nodes = [again.saga.as_ref().unwrap().replicas[1].node.clone()].into();
    let third = world.until(id, |o| o.generation > again.generation && o.phase == Some(Phase::Running)).await;
    assert_eq!(told(&world, third.generation)[&kept], Some("step-400".into()));
    world.agents.iter_mut().for_each(|a| a.stall(None));
    world.until(id, is(OrderState::Completed)).await;
    world.nothing_is_left().await;
}
