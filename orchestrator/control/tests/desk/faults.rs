//! One order at fault stops itself only.

use crate::world::{World, is, tenant};
use rhumb_control::testing::small;
use rhumb_federation::View;
use rhumb_model::{Order, OrderId, OrderState, Phase};
use rhumb_placement::{Decision, Policy, Request};
use rhumb_store::{Intent, OrderChange, OrderRecord, Store};

/// A planner that cannot bear one order.
fn decide(view: &View, request: &Request<'_>, policy: &Policy) -> Decision {
    assert!(request.order.name.as_str() != "poison", "planted");
    rhumb_placement::decide(view, request, policy)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_the_planner_cannot_bear_fails_and_others_flow() {
    let mut world = World::start_with(decide).await;
    let poison = world.order(&small("poison", "west"), "poison").await;
    let well = world.order(&small("well", "west"), "well").await;
    world.until(well, is(OrderState::Completed)).await;
    let hub = world.desk.clone();
    let failed = world
        .until(poison, |o| {
            hub.hub().wake_placer_for_all();
            o.state.is_final()
        })
        .await;
    assert_eq!(failed.state, OrderState::Failed);
    assert!(failed.attention.is_some_and(|a| a.contains("3 attempts")));
    let another = world.order(&small("another", "east"), "another").await;
    world.until(another, is(OrderState::Completed)).await;
    // a quote for it fails by itself
    let document = Order::read(&small("poison", "west")).unwrap();
    world.desk.request_quote(&tenant(), document, None, false, None).await.unwrap_err();
    world.nothing_is_left().await;
}

/// An order for later, so that it holds what it has without a saga.
async fn held(world: &mut World, name: &str) -> OrderRecord {
    let now = jiff::Timestamp::now();
    let at = |hours: i64| {
        let time = now.checked_add(jiff::SignedDuration::from_hours(hours)).unwrap();
        time.strftime("%H:%M").to_string()
    };
    let window = format!("terms: {{window: {{from: \"{}\", to: \"{}\", tz: UTC}}}}\n", at(2), at(4));
    let id = world.order(&format!("{}{window}", small(name, "west")), name).await;
    world.until(id, is(OrderState::Held)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_whose_holdings_are_not_its_plans_fails_and_holds_nothing() {
    let mut world = World::start().await;
    let order = held(&mut world, "torn").await;
    assert!(world.desk.audit().await.unwrap().clean);
    let tear = OrderChange {
        state: Some(OrderState::InProgress),
        phase: Some(Some(Phase::Reserving)),
        release: vec![1],
        ..OrderChange::nothing(order.id, order.version, world.desk.now())
    };
    world.store.commit(vec![Intent::Change(Box::new(tear))]).await.unwrap();
    assert!(!world.desk.audit().await.unwrap().clean, "an order in progress holds its plan");
    let well = world.order(&small("well", "west"), "well").await;
    let hub = world.desk.clone();
    world
        .until(order.id, |o| {
            hub.hub().wake_placer_for_all();
            o.state == OrderState::Failed
        })
        .await;
    world.until(well, is(OrderState::Completed)).await;
    world.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_for_later_is_held_across_a_restart_and_can_be_cancelled() {
    let mut world = World::start().await;
    let order = held(&mut world, "later").await;
    world.restart().await;
    world.round().await;
    let again = world.until(order.id, is(OrderState::Held)).await;
    assert_eq!((again.generation, again.plan), (1, order.plan));
    assert!(world.desk.audit().await.unwrap().clean);
    let gone = world.desk.cancel(&tenant(), order.id, None).await.unwrap();
    assert_eq!(gone.state, OrderState::Cancelled);
    world.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_what_was_changed_since_is_refused() {
    let mut world = World::start().await;
    let order = held(&mut world, "later").await;
    let id: OrderId = order.id;
    let stale = world.desk.cancel(&tenant(), id, Some(order.version - 1)).await;
    assert!(matches!(stale, Err(rhumb_control::DeskError::Stale)), "{stale:?}");
    world.desk.cancel(&tenant(), id, Some(order.version)).await.unwrap();
}
