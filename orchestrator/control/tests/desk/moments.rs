//! Things that happen at an awkward moment.

use crate::world::{World, tenant};
use rhumb_control::testing::{Trouble, training};
use rhumb_model::{OrderState, Phase};
use rhumb_store::Store;
use tokio::task::JoinSet;

/// Cancels after so many rounds of reports, while the agents go on.
async fn cancelled_after(rounds: usize, trouble: Option<(u64, Trouble)>) {
    let mut world = World::start().await;
    if let Some((nth, trouble)) = trouble {
        world.store.trouble(nth, trouble);
    }
    let id = world.order(&training("short", "west"), "k").await;
    for _ in 0..rounds {
        world.round().await;
    }
    let asked = loop {
        match world.desk.cancel(&tenant(), id, None).await {
            Ok(order) => break order,
            Err(error) => assert!(!matches!(error, rhumb_control::DeskError::NotFound { .. }), "{error}"),
        }
        world.round().await;
    };
    // only work that is being wound up already is not stopped
    let heard = asked.state.is_final() || asked.state == OrderState::Cancelling;
    assert!(heard || asked.phase >= Some(Phase::Stopping), "after {rounds}, {trouble:?}: {asked:?}");
    let done = world.until(id, |o| o.state.is_final()).await;
    assert!(matches!(done.state, OrderState::Cancelled | OrderState::Completed), "after {rounds}: {done:?}");
    world.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_at_any_moment_leaves_nothing() {
    let mut cases = JoinSet::new();
    for rounds in 0..20 {
        cases.spawn(cancelled_after(rounds, None));
    }
    while let Some(case) = cases.join_next().await {
        case.unwrap();
    }
}

/// The saga is in the store, and the task of the sagas has not heard of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_finds_an_order_whose_beginning_was_not_answered() {
    let mut cases = JoinSet::new();
    for nth in 0..5 {
        for rounds in 0..6 {
            cases.spawn(cancelled_after(rounds, Some((nth, Trouble::AnswerLost))));
        }
    }
    while let Some(case) = cases.join_next().await {
        case.unwrap();
    }
}

/// A stop and a start in every phase; whatever was confirmed before counts anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_in_any_phase_places_nothing_again() {
    let phases = [Phase::Holding, Phase::Routing, Phase::Staging, Phase::Starting, Phase::Running, Phase::Stopping];
    let mut cases = JoinSet::new();
    for phase in phases {
        cases.spawn(async move {
            let mut world = World::start().await;
            world.agents.iter_mut().for_each(|a| a.stall(phase));
            let id = world.order(&training("lasting", "west"), "k").await;
            world.until(id, |o| o.phase == Some(phase)).await;
            world.restart().await;
            world.round().await;
            world.agents.iter_mut().for_each(|a| a.stall(None));
            let done = world.until(id, |o| o.state.is_final()).await;
            assert_eq!((done.state, done.generation), (OrderState::Completed, 1), "{phase}: {done:?}");
            let usage = world.store.usage(id).await.unwrap();
            assert!(!usage.is_empty(), "{phase}: nothing was billed");
            world.nothing_is_left().await;
        });
    }
    while let Some(case) = cases.join_next().await {
        case.unwrap();
    }
}
