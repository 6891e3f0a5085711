//! Each commit of an order's life goes wrong once, in each way that it can.

use crate::world::{World, is, tenant};
use rhumb_control::testing::{Trouble, training};
use rhumb_model::{OrderState, Phase};
use rhumb_store::Store;

const ALL: [Trouble; 4] = [Trouble::NotDone, Trouble::AnswerLost, Trouble::DeadBefore, Trouble::DeadAfter];

/// From acceptance to settling; the commits there were.
async fn complete(trouble: Option<(u64, Trouble)>) -> (World, u64) {
    let mut world = World::start().await;
    let before = world.store.commits();
    if let Some((nth, trouble)) = trouble {
        world.store.trouble(nth, trouble);
    }
    let id = world.order(&training("lasting", "west"), "k").await;
    let done = world.until(id, |o| o.state.is_final()).await;
    assert_eq!(done.state, OrderState::Completed, "{trouble:?}: {:?}", done.attention);
    assert_eq!(done.generation, 1, "{trouble:?}: placed once");
    // housekeeping commits too: what comes after the order's end may be what the process dies of
    world.store.calm();
    if world.store.is_dead() {
        world.restart().await;
    }
    let usage = world.store.usage(id).await.unwrap();
    let seconds: i64 = usage.iter().filter(|u| u.kind == "accelerator_seconds").map(|u| u.quantity_micro).sum();
    assert_eq!(seconds, 8 * 6_000_000, "{trouble:?}: billed once, for what ran");
    // a new process counts anew
    let commits = world.store.commits().saturating_sub(before);
    world.nothing_is_left().await;
    assert_eq!(world.orders().await, 1, "{trouble:?}: one order was asked for");
    (world, commits)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_survives_trouble_at_each_of_its_commits() {
    let (_, commits) = complete(None).await;
    assert!(commits >= 10, "only {commits} commits");
    let mut cases = tokio::task::JoinSet::new();
    for trouble in ALL {
        for nth in 0..commits {
            cases.spawn(async move { drop(complete(Some((nth, trouble))).await) });
        }
    }
    while let Some(case) = cases.join_next().await {
        case.unwrap();
    }
}

async fn cancelled(trouble: Option<(u64, Trouble)>) -> u64 {
    let mut world = World::start().await;
    world.agents.iter_mut().for_each(|a| a.stall(Phase::Running));
    let id = world.order(&training("stopped", "west"), "k").await;
    world.until(id, |o| o.phase == Some(Phase::Running)).await;
    let before = world.store.commits();
    if let Some((nth, trouble)) = trouble {
        world.store.trouble(nth, trouble);
    }
    world.agents.iter_mut().for_each(|a| a.stall(Phase::Running));
    // as a client does that is told to come back
    for _ in 0..20 {
        match world.desk.cancel(&tenant(), id, None).await {
            Ok(order) => {
                assert!(matches!(order.state, OrderState::Cancelling | OrderState::Cancelled), "{trouble:?} {order:?}");
                break;
            }
            Err(_) if world.store.is_dead() => world.restart().await,
            Err(_) => {}
        }
    }
    world.until(id, is(OrderState::Cancelled)).await;
    // a new process counts anew
    let commits = world.store.commits().saturating_sub(before);
    world.nothing_is_left().await;
    commits
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_survives_trouble_at_each_of_its_commits() {
    let commits = cancelled(None).await;
    let mut cases = tokio::task::JoinSet::new();
    for trouble in ALL {
        for nth in 0..commits {
            cases.spawn(cancelled(Some((nth, trouble))));
        }
    }
    while let Some(case) = cases.join_next().await {
        case.unwrap();
    }
}
