//! What goes on while the store is away, or a decision takes long.

use crate::world::{World, is, tenant};
use rhumb_control::testing::{Trouble, small};
use rhumb_federation::View;
use rhumb_model::OrderState;
use rhumb_placement::{Decision, Policy, Request};
use rhumb_store::Store;
use std::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// An answer prolongs leases: work must not be stopped because the store cannot take an inventory down.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_answered_while_nothing_can_be_stored_and_nothing_of_it_is_lost() {
    let mut world = World::start().await;
    let mut report = world.agents[1].report();
    let nodes = report.nodes.as_mut().unwrap();
    nodes.truncate(1);
    nodes[0].devices.truncate(2);
    world.store.trouble(0, Trouble::NotDone);
    let point = world.agents[1].point.clone();
    world.desk.sync(&point, report).await.expect("it was heard, so it is answered");
    assert!(world.store.is_over());
    let devices = async |world: &World| {
        let nodes = world.store.nodes().await.unwrap();
        nodes.iter().filter(|n| n.site == point).map(|n| n.node.devices.len()).sum::<usize>()
    };
    assert_eq!(devices(&world).await, 8, "as it was before");
    // the agent knows that it was answered and says no more of its nodes
    let mut report = world.agents[1].report();
    report.nodes = None;
    world.desk.sync(&point, report).await.unwrap();
    assert_eq!(devices(&world).await, 2);
}

static ENTERED: AtomicBool = AtomicBool::new(false);
static RELEASED: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

/// Takes until it is let go.
fn decide(view: &View, request: &Request<'_>, policy: &Policy) -> Decision {
    if request.order.name.as_str() == "hard" {
        ENTERED.store(true, Ordering::SeqCst);
        let (released, changed) = &RELEASED;
        let released = released.lock().unwrap();
        drop(changed.wait_timeout_while(released, Duration::from_secs(30), |released| !*released).unwrap());
    }
    rhumb_placement::decide(view, request, policy)
}

#[tokio::test(flavor = "current_thread")]
async fn everything_else_goes_on_while_a_decision_is_hard() {
    let mut world = World::start_with(decide).await;
    let hard = world.order(&small("hard", "west"), "hard").await;
    let deadline = Instant::now() + Duration::from_secs(20);
    while !ENTERED.load(Ordering::SeqCst) {
        assert!(Instant::now() < deadline, "never decided on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // reports, quotes, new orders and cancels are answered
    world.round().await;
    let document = rhumb_model::Order::read(&small("quoted", "east")).unwrap();
    let quote = world.desk.request_quote(&tenant(), document, None, true, None).await.unwrap();
    assert!(quote.plan.is_some());
    let waits = world.order(&small("waits", "west"), "waits").await;
    assert_eq!(world.desk.cancel(&tenant(), waits, None).await.unwrap().state, OrderState::Cancelled);
    let (released, changed) = &RELEASED;
    *released.lock().unwrap() = true;
    changed.notify_all();
    world.until(hard, is(OrderState::Completed)).await;
    world.nothing_is_left().await;
}
