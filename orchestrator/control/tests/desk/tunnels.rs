//! Paths of live orders in the points' kernels: chosen where all offer it, left where one cannot, numbered once.

use crate::world::{DIAMOND, World, tenant};
use rhumb_model::{LinkId, OrderId, OrderState, Phase};
use rhumb_provision::{Carriage, PathRole};
use rhumb_store::{Holdings, OrderRecord, Store};
use rhumb_wire::{KernelOffer, Route, TunnelNumbers};
use std::collections::BTreeSet;

const POINTS: [&str; 4] = ["a", "b", "r", "s"];

/// Two parts, too large for one site, and a flow between them.
fn document(terms: &str) -> String {
    let part = |name: &str| {
        format!(
            "{{name: {name}, need: {{cpu: 10, memory: 1GiB}}, work: {{duration: 6s}}, run: {{command: [\"true\"]}}}}"
        )
    };
    format!(
        "name: pair\nclass: processing\ncomponents:\n - {}\n - {}\n\
         flows: [{{from: left, to: right, rate: 10Mbps, max_latency: 20ms}}]\n\
         constraints: {{sites: [a, b]}}\n{terms}",
        part("left"),
        part("right"),
    )
}

/// Work at `b` on data of `a`.
const SMALL: &str = "
name: small
class: processing
components:
  - {name: job, need: {cpu: 0.5, memory: 1GiB}, work: {duration: 6s}, run: {command: [\"true\"]}}
flows: [{from: dataset/corpus, to: job, rate: 1Mbps}]
constraints: {sites: [b]}
";

fn offer(number: usize, to: u32) -> KernelOffer {
    KernelOffer {
        underlay: vec![format!("10.0.0.{}", number + 1).parse().unwrap()],
        locator: Some(format!("fd00:a:{number}::/64").parse().unwrap()),
        segment: Some(format!("fd00:e:{number}::e").parse().unwrap()),
        numbers: TunnelNumbers { from: 5_001, to, inside: "10.200.0.0/24".parse().unwrap() },
        networks: Vec::new(),
    }
}

/// Every agent's kernel carries routes.
async fn world(to: u32) -> World {
    let mut world = World::start_on(DIAMOND, &POINTS, rhumb_placement::decide).await;
    for (number, agent) in world.agents.iter_mut().enumerate() {
        agent.conduct.kernel = Some(offer(number, to));
        agent.stall(Phase::Running);
    }
    world.round().await;
    world
}

async fn running(world: &mut World, key: &str) -> OrderRecord {
    let id = world.order(&document(""), key).await;
    world.until(id, |o| o.phase == Some(Phase::Running)).await
}

fn carriage(order: &OrderRecord) -> &Carriage {
    &order.saga.as_ref().unwrap().legs[0].carry().carriage
}

async fn held(world: &World) -> Vec<u32> {
    let Holdings { tunnels, .. } = world.store.holdings().await.unwrap();
    tunnels.into_iter().map(|t| t.number).collect()
}

/// What a point is to have, as it was told last.
fn routes(world: &World, point: &str) -> Vec<Route> {
    let agent = world.agents.iter().find(|a| a.point.as_str() == point).unwrap();
    agent.desired.iter().flat_map(|d| d.routes.clone()).collect()
}

async fn said(world: &World, id: OrderId) -> String {
    let events = world.store.order_events(id, 0, 500).await.unwrap();
    events.into_iter().map(|e| e.event.message).collect::<Vec<_>>().join("\n")
}

async fn end(world: &mut World, id: OrderId) {
    world.desk.cancel(&tenant(), id, None).await.unwrap();
    world.until(id, |o| o.state.is_final()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_whose_points_all_offer_it_is_a_tunnel_and_its_number_comes_back() {
    let mut world = world(5_016).await;
    let order = running(&mut world, "k").await;
    assert_eq!((carriage(&order).provider(), carriage(&order).numbers()), ("kernel", vec![5_001]));
    assert_eq!(held(&world).await, [5_001]);
    let leg = &order.saga.as_ref().unwrap().legs[0];
    let kernel = routes(&world, leg.source().as_str())[0].kernel.clone().unwrap();
    let next = kernel.next.unwrap();
    assert_eq!((next.number, next.segments.len(), kernel.overlay_port), (5_001, 1, 4_000));
    assert!(routes(&world, "r")[0].kernel.as_ref().is_some_and(|k| k.next.is_none() && k.previous.is_none()));
    assert!(
        said(&world, order.id).await.contains("is carried by the kernel over a-r"),
        "{}",
        said(&world, order.id).await
    );
    // another orchestrator goes on with the same tunnel before it has heard of anybody's kernel
    let before: Vec<Route> = POINTS.iter().flat_map(|p| routes(&world, p)).collect();
    world.restart().await;
    world.round().await;
    world.round().await;
    assert_eq!(POINTS.iter().flat_map(|p| routes(&world, p)).collect::<Vec<_>>(), before);
    assert!(world.desk.audit().await.unwrap().clean);
    // the far agent comes back elsewhere: only its port is new
    let sink = world.agents.iter_mut().find(|a| &a.point == leg.sink()).unwrap();
    sink.overlay_port = 4_711;
    let told = |o: &OrderRecord| matches!(carriage(o), Carriage::Tunnels(r) if r[0].overlay_port == 4_711);
    let now = world.until(order.id, told).await;
    assert_eq!((carriage(&now).numbers(), now.generation), (vec![5_001], 1));
    end(&mut world, order.id).await;
    world.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_one_point_offers_no_kernel_relays_carry_and_it_is_said_why() {
    let mut world = world(5_016).await;
    world.agents[2].conduct.kernel = None;
    let order = running(&mut world, "k").await;
    assert_eq!(carriage(&order), &Carriage::Relays);
    assert!(held(&world).await.is_empty());
    let said = said(&world, order.id).await;
    assert!(said.contains("is carried by relays over a-r") && said.contains("at r carries no routes"), "{said}");
    end(&mut world, order.id).await;
    world.nothing_is_left().await;
}

/// From the kernels to relays by another path, which stands before the first goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_is_left_for_a_path_by_relays_and_gives_its_number_back() {
    let mut world = world(5_016).await;
    world.agents[3].conduct.kernel = None;
    let order = running(&mut world, "k").await;
    assert_eq!(carriage(&order).numbers(), [5_001]);
    for agent in &mut world.agents {
        let slow = ["a-r", "a-r~"].map(|l| (LinkId::new(l).unwrap(), 400_000));
        agent.conduct.rtt_us = slow.into();
    }
    let moved = |o: &OrderRecord| {
        let leg = &o.saga.as_ref().unwrap().legs[0];
        leg.carry().path > 0 && leg.paths[0].role == PathRole::Gone
    };
    let after = world.until(order.id, moved).await;
    assert_eq!((carriage(&after), after.generation, after.phase), (&Carriage::Relays, 1, Some(Phase::Running)));
    assert!(held(&world).await.is_empty(), "nothing is left of the tunnel");
    end(&mut world, order.id).await;
    world.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_that_a_point_cannot_build_gives_way_to_relays_over_the_same_links() {
    let mut world = world(5_016).await;
    world.agents[2].conduct.tunnels_fail = true;
    let order = running(&mut world, "k").await;
    let leg = &order.saga.as_ref().unwrap().legs[0];
    assert_eq!((order.generation, leg.carry().path, carriage(&order)), (1, 1, &Carriage::Relays));
    assert_eq!(leg.carry().links, leg.paths[0].links);
    let said = said(&world, order.id).await;
    assert!(said.contains("goes through relays over a-r") && said.contains("at r no tunnels here"), "{said}");
    // and where the agent's kernel is taken away from it while the work runs
    world.agents[2].conduct.tunnels_fail = false;
    world.until(order.id, |o| o.saga.as_ref().unwrap().legs[0].paths[0].role == PathRole::Gone).await;
    end(&mut world, order.id).await;
    let order = running(&mut world, "l").await;
    assert_eq!(carriage(&order).numbers(), [5_001]);
    world.agents[1].conduct.kernel = None;
    let left = |o: &OrderRecord| {
        let leg = &o.saga.as_ref().unwrap().legs[0];
        carriage(o) == &Carriage::Relays && leg.is_active() && leg.paths[0].role == PathRole::Gone
    };
    let after = world.until(order.id, left).await;
    assert_eq!((after.generation, after.phase), (1, Some(Phase::Running)));
    end(&mut world, order.id).await;
    world.nothing_is_left().await;
}

/// Sixteen numbers for twenty orders at once: each number is one order's, and who has none goes by relays and says so.
#[tokio::test(flavor = "multi_thread")]
async fn of_twenty_orders_at_once_sixteen_have_a_tunnel_and_four_say_why_not() {
    let mut world = world(5_016).await;
    let mut ids = Vec::new();
    for n in 0..20 {
        ids.push(world.order(SMALL, &format!("k{n}")).await);
    }
    let mut numbers = BTreeSet::new();
    let mut relayed = Vec::new();
    for id in &ids {
        let order = world.until(*id, |o| o.phase == Some(Phase::Running)).await;
        match carriage(&order) {
            Carriage::Tunnels(_) => assert!(numbers.insert(carriage(&order).numbers()[0])),
            _ => relayed.push(*id),
        }
    }
    assert_eq!((numbers.len(), relayed.len()), (16, 4));
    for id in relayed {
        let said = said(&world, id).await;
        assert!(said.contains("the pool of tunnel numbers 5001 to 5016 has 0 free, 1 needed"), "{said}");
    }
    for id in ids {
        end(&mut world, id).await;
    }
    world.nothing_is_left().await;
}

/// Of a point that fell silent nobody knows whether its end of the tunnel is gone: nobody else gets its number until it says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_stays_held_until_a_silent_point_has_spoken() {
    let mut world = world(5_016).await;
    let leased = document("terms: {failover: {lease: 5s}}\n");
    let id = world.order(&leased, "k").await;
    world.until(id, |o| o.phase == Some(Phase::Running)).await;
    let silent = world.agents.remove(1);
    world.desk.cancel(&tenant(), id, None).await.unwrap();
    let done = world.until(id, |o| o.state.is_final()).await;
    assert_eq!((done.state, held(&world).await), (OrderState::Cancelled, vec![5_001]));
    world.agents.insert(1, silent);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !held(&world).await.is_empty() {
        assert!(std::time::Instant::now() < deadline, "the number never came back");
        world.round().await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    world.nothing_is_left().await;
}

/// A move and a cancel in the same moment, the orchestrator killed in between every second time: no number is left held.
#[tokio::test(flavor = "multi_thread")]
async fn a_move_and_a_cancel_at_once_leave_no_number() {
    for round in 0..6 {
        let mut world = world(5_016).await;
        let order = running(&mut world, "k").await;
        assert!(carriage(&order).is_tunnels());
        for agent in &mut world.agents {
            let slow = ["a-r", "a-r~"].map(|l| (LinkId::new(l).unwrap(), 400_000));
            agent.conduct.rtt_us = slow.into();
        }
        world.until(order.id, |o| o.saga.as_ref().is_some_and(|s| s.legs[0].paths.len() > 1)).await;
        for _ in 0..round / 2 {
            world.round().await;
        }
        if round % 2 == 0 {
            world.restart().await;
        }
        end(&mut world, order.id).await;
        world.nothing_is_left().await;
    }
}
