//! Sites that fall silent, refuse, or run what fails.

use crate::{
    agents::{Agent, left_over, round, until},
    desk::{Rig, order, training},
    life::{clean, create, stall, state},
};
use axum::http::{Method, StatusCode};
use rhumb_control::config::{Limits, Times};
use rhumb_model::{Phase, Span};
use serde_json::Value;
use std::time::{Duration, Instant};

const fn ms(n: u64) -> Span {
    Span::from_micros(n * 1_000)
}

/// Silence is noticed soon, though not so soon that a busy machine looks like a silent site.
fn alert(_: &mut Limits, times: &mut Times) {
    times.lost_after = ms(2_000);
    times.lease_margin = ms(200);
}

/// Phases are short.
fn impatient(_: &mut Limits, times: &mut Times) {
    times.phase_limit = ms(2_000);
}

/// The shortest lease there is.
const LEASE: Duration = Duration::from_secs(5);

fn anywhere(document: &str) -> String {
    document.replace("sites: [west]", "sites: []")
}

fn site(order: &Value) -> &str {
    order["plan"]["components"][0]["assignments"][0]["site"].as_str().unwrap_or("none")
}

/// East, west and the relay: without the one named.
fn without(agents: &mut Vec<Agent>, point: &str) -> Agent {
    let index = agents.iter().position(|a| a.point.as_str() == point).unwrap();
    agents.remove(index)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_with_a_lease_moves_once_the_lease_of_its_silent_site_has_ended() {
    let rig = Rig::start_with(alert).await;
    let mut agents = Agent::all();
    stall(&mut agents, Phase::Running);
    let document = format!("{}terms: {{failover: {{lease: 5s}}}}\n", anywhere(&training("moving", "west")));
    round(&rig, &mut agents).await;
    let id = create(&rig, &document).await;
    let running = until(&rig, &mut agents, &id, |o| o["phase"] == "running").await;
    assert_eq!(site(&running), "west", "the cheaper one");
    let mut west = without(&mut agents, "west");
    let silent = Instant::now();
    let waits = until(&rig, &mut agents, &id, |o| !o["attention"].is_null()).await;
    assert_eq!((waits["generation"].as_u64(), &waits["stale"]), (Some(1), &Value::Bool(true)), "{waits:#}");
    let moved = until(&rig, &mut agents, &id, |o| o["generation"] == 2 && o["phase"] == "running").await;
    assert!(silent.elapsed() >= LEASE, "placed again after {:?}, its lease is {LEASE:?}", silent.elapsed());
    assert_eq!((site(&moved), &moved["attention"]), ("east", &Value::Null));
    clean(&rig).await;

    // the old copy comes back, says that it runs, and is told to stop
    let (status, _) = {
        let report = west.report();
        assert!(!report.assignments.is_empty());
        west.post(&rig, &report).await
    };
    assert_eq!(status, StatusCode::OK);
    assert_eq!(west.has(), 0, "nothing of the order is wanted there any more");
    agents.push(west);
    round(&rig, &mut agents).await;
    stall(&mut agents, None);
    let done = until(&rig, &mut agents, &id, |o| state(o) == "completed").await;
    assert_eq!(done["generation"], 2);
    round(&rig, &mut agents).await;
    assert!(left_over(&agents).values().all(|n| *n == 0));
    clean(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_without_a_lease_stays_with_its_silent_site() {
    let rig = Rig::start_with(|limits, times| {
        alert(limits, times);
        impatient(limits, times);
    })
    .await;
    let mut agents = Agent::all();
    stall(&mut agents, Phase::Running);
    round(&rig, &mut agents).await;
    let id = create(&rig, &anywhere(&training("staying", "west"))).await;
    until(&rig, &mut agents, &id, |o| o["phase"] == "running").await;
    let west = without(&mut agents, "west");
    let told = until(&rig, &mut agents, &id, |o| !o["attention"].is_null()).await;
    assert!(told["attention"].as_str().unwrap().contains("west"), "{told:#}");
    assert_eq!((state(&told), &told["generation"], &told["stale"]), ("inProgress", &1.into(), &true.into()));
    // a cancel waits for the site as well, and says for whom
    assert_eq!(rig.call("t-acme", Method::DELETE, &format!("/v1/orders/{id}"), "").await.0, StatusCode::ACCEPTED);
    let waits = until(&rig, &mut agents, &id, |o| {
        o["attention"].as_str().is_some_and(|a| a.contains("stopping waits for west"))
    })
    .await;
    assert_eq!(state(&waits), "cancelling");
    clean(&rig).await;
    agents.push(west);
    stall(&mut agents, None);
    let done = until(&rig, &mut agents, &id, |o| state(o) == "cancelled").await;
    assert_eq!(done["attention"], Value::Null);
    clean(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_is_lost_before_the_start_is_given_up_at_once() {
    let rig = Rig::start_with(alert).await;
    let mut agents = Agent::all();
    round(&rig, &mut agents).await;
    let mut west = without(&mut agents, "west");
    let id = create(&rig, &anywhere(&training("early", "west"))).await;
    until(&rig, &mut agents, &id, |o| o["phase"] == "holding" && site(o) == "west").await;
    let done = until(&rig, &mut agents, &id, |o| state(o) == "completed").await;
    assert_eq!((site(&done), &done["generation"]), ("east", &2.into()));
    clean(&rig).await;
    west.sync(&rig).await;
    assert_eq!(west.has(), 0);
    clean(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_lease_goes_elsewhere_and_not_back() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    round(&rig, &mut agents).await;
    agents[1].conduct.refuses = true;
    let id = create(&rig, &anywhere(&training("refused", "west"))).await;
    let done = until(&rig, &mut agents, &id, |o| state(o) == "completed").await;
    assert_eq!((site(&done), &done["generation"]), ("east", &2.into()));
    // only west will do, and west was tried a moment ago: no hot loop
    let id = create(&rig, &order("only-west", "west")).await;
    let waits = until(&rig, &mut agents, &id, |o| o["generation"] == 1 && state(o) == "pending").await;
    assert_eq!(waits["plan"], Value::Null, "{waits:#}");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(500) {
        round(&rig, &mut agents).await;
        let now = rig.get("t-acme", &format!("/v1/orders/{id}")).await;
        assert_eq!((state(&now), &now["generation"]), ("pending", &1.into()), "{now:#}");
    }
    clean(&rig).await;
}

/// A site that leases and never starts is not tried again at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_phase_that_lasts_too_long_is_given_up_and_its_site_avoided() {
    let rig = Rig::start_with(impatient).await;
    let mut agents = Agent::all();
    round(&rig, &mut agents).await;
    agents[1].stall(Phase::Starting);
    let id = create(&rig, &anywhere(&training("slow", "west"))).await;
    let done = until(&rig, &mut agents, &id, |o| state(o) == "completed").await;
    assert_eq!((site(&done), &done["generation"]), ("east", &2.into()));
    clean(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_ends_badly_fails_with_attention_and_is_not_tried_again() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    agents[1].conduct.exit_code = 3;
    let id = create(&rig, &training("bad", "west")).await;
    let failed = until(&rig, &mut agents, &id, |o| state(o) == "failed").await;
    assert!(failed["attention"].as_str().unwrap().contains("exit code 3"), "{failed:#}");
    assert_eq!(failed["generation"], 1);
    assert!(failed["usage"]["cost_micros"].as_i64().unwrap() > 0, "what it used is billed");
    round(&rig, &mut agents).await;
    assert!(left_over(&agents).values().all(|n| *n == 0));
    clean(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_site_takes_nothing_new_and_lets_run_what_runs() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    stall(&mut agents, Phase::Running);
    round(&rig, &mut agents).await;
    let running = create(&rig, &order("running", "west")).await;
    until(&rig, &mut agents, &running, |o| o["phase"] == "running").await;
    let drain = |action: &str| format!("/v1/admin/sites/west/{action}");
    assert_eq!(rig.call("t-acme", Method::POST, &drain("drain"), "").await.0, StatusCode::FORBIDDEN);
    assert_eq!(rig.call("t-admin", Method::POST, &drain("drain"), "").await.0, StatusCode::NO_CONTENT);
    assert_eq!(rig.get("t-acme", "/v1/sites/west").await["state"], "draining");
    let waits = create(&rig, &order("waits", "west")).await;
    let waiting = until(&rig, &mut agents, &waits, |o| state(o) == "pending").await;
    assert_eq!(waiting["reasons"][0]["reason"], "draining", "{waiting:#}");
    stall(&mut agents, None);
    until(&rig, &mut agents, &running, |o| state(o) == "completed").await;
    assert_eq!(rig.call("t-admin", Method::POST, &drain("undrain"), "").await.0, StatusCode::NO_CONTENT);
    until(&rig, &mut agents, &waits, |o| state(o) == "completed").await;
    clean(&rig).await;
}
