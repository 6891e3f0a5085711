//! Orders from acknowledgement to bill.

use crate::{
    agents::{Agent, left_over, round, until},
    desk::{Rig, order, request, training},
};
use axum::http::{Method, StatusCode, header};
use rhumb_model::Phase;
use serde_json::Value;

pub async fn create(rig: &Rig, document: &str) -> String {
    let (status, body) = rig.call("t-acme", Method::POST, "/v1/orders", document).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    body["id"].as_str().unwrap().to_owned()
}

pub fn state(order: &Value) -> &str {
    order["state"].as_str().unwrap()
}

/// Whatever would lead out of the phase is not done.
pub fn stall(agents: &mut [Agent], phase: impl Into<Option<Phase>>) {
    let phase = phase.into();
    for agent in agents {
        agent.stall(phase);
    }
}

pub async fn clean(rig: &Rig) {
    let audit = rig.get("t-admin", "/v1/admin/audit").await;
    assert_eq!(audit["clean"], true, "{audit:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_placed_staged_run_and_billed_as_quoted() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    let id = create(&rig, &training("corpus-train", "west")).await;
    let done = until(&rig, &mut agents, &id, |o| state(o) == "completed").await;
    let cost = &done["cost"];
    let quoted = cost["compute_micros"].as_i64().unwrap()
        + cost["path_micros"].as_i64().unwrap()
        + cost["transfer_micros"].as_i64().unwrap();
    let billed = done["usage"]["cost_micros"].as_i64().unwrap();
    assert!((billed - quoted).abs() * 100 <= quoted, "billed {billed}, quoted {quoted}");
    let usage = rig.get("t-acme", &format!("/v1/orders/{id}/usage")).await;
    let moved: Vec<_> = usage["items"].as_array().unwrap().iter().filter(|i| i["kind"] == "gb_moved").collect();
    assert_eq!(moved.len(), 2, "one item for each of the two links: {usage:#}");
    assert!(moved.iter().all(|i| (i["quantity"].as_f64().unwrap() - 0.004).abs() < 1e-9));
    let phases: Vec<_> = rig.get("t-acme", &format!("/v1/orders/{id}/events")).await["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["kind"] == "phase")
        .map(|e| e["phase"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        phases,
        ["holding", "routing", "staging", "starting", "running", "stopping", "unrouting", "releasing", "settling"]
    );
    round(&rig, &mut agents).await;
    assert!(left_over(&agents).values().all(|n| *n == 0), "{:?}", left_over(&agents));
    clean(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_waits_with_its_reason_and_goes_ahead_later() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    stall(&mut agents, Phase::Running);
    let first = create(&rig, &training("first", "west")).await;
    until(&rig, &mut agents, &first, |o| o["phase"] == "running").await;
    let second = create(&rig, &training("second", "west")).await;
    let waiting = until(&rig, &mut agents, &second, |o| state(o) == "pending").await;
    assert_eq!(waiting["reasons"][0]["reason"], "capacity", "{waiting:#}");
    clean(&rig).await;
    let never = create(&rig, &training("never", "west").replace("count: 8", "count: 64")).await;
    until(&rig, &mut agents, &never, |o| state(o) == "rejected").await;
    stall(&mut agents, None);
    until(&rig, &mut agents, &first, |o| state(o) == "completed").await;
    until(&rig, &mut agents, &second, |o| state(o) == "completed").await;
    clean(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_waits_is_amended_and_decided_on_anew() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    stall(&mut agents, Phase::Running);
    let first = create(&rig, &training("first", "west")).await;
    until(&rig, &mut agents, &first, |o| o["phase"] == "running").await;
    let second = create(&rig, &training("second", "west")).await;
    until(&rig, &mut agents, &second, |o| state(o) == "pending").await;
    let path = format!("/v1/orders/{second}");
    let amend = |tag: String, body: String| {
        let mut asked = request("t-acme", Method::PATCH, &path, &body);
        asked.headers_mut().insert(header::IF_MATCH, tag.parse().unwrap());
        rig.send(asked)
    };
    let elsewhere = training("second-elsewhere", "east");
    assert_eq!(amend("\"0\"".to_owned(), elsewhere.clone()).await.0, StatusCode::PRECONDITION_FAILED);
    let unknown = training("second", "east").replace("dataset/corpus", "dataset/nothing");
    let (status, body) = amend("*".to_owned(), unknown).await;
    assert_eq!((status, &body["errors"][0]["pointer"]), (StatusCode::UNPROCESSABLE_ENTITY, &"/flows/0/from".into()));
    // the placer may move the version: whoever read it last is let through
    let (status, amended) = loop {
        let version = rig.get("t-acme", &path).await["version"].clone();
        let answer = amend(format!("\"{version}\""), elsewhere.clone()).await;
        if answer.0 != StatusCode::PRECONDITION_FAILED {
            break answer;
        }
    };
    assert_eq!(status, StatusCode::OK, "{amended:#}");
    assert_eq!(amended["name"], "second-elsewhere");
    until(&rig, &mut agents, &second, |o| o["phase"] == "running").await;
    // of what runs only rates and bounds of flows can be amended
    let moved = training("second-elsewhere", "west");
    assert_eq!(amend("*".to_owned(), moved).await.0, StatusCode::CONFLICT);
    stall(&mut agents, None);
    until(&rig, &mut agents, &second, |o| state(o) == "completed").await;
    let events = rig.get("t-acme", &format!("{path}/events")).await;
    let kinds: Vec<_> = events["items"].as_array().unwrap().iter().map(|e| e["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"amended"), "{kinds:?}");
    clean(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_quote_holds_until_it_expires() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    round(&rig, &mut agents).await;
    let document = training("quoted", "west");
    let (status, quote) = rig.call("t-acme", Method::POST, "/v1/quotes?hold=2s", &document).await;
    assert_eq!((status, quote["binding"].as_bool()), (StatusCode::CREATED, Some(true)), "{quote:#}");
    clean(&rig).await;
    let rival = create(&rig, &training("rival", "west")).await;
    let waiting = until(&rig, &mut agents, &rival, |o| state(o) == "pending").await;
    assert_eq!(waiting["reasons"][0]["reason"], "capacity");
    until(&rig, &mut agents, &rival, |o| state(o) == "completed").await;
    let body = format!("{{\"quote_id\": \"{}\"}}", quote["id"].as_str().unwrap());
    let (status, _) = rig.call("t-acme", Method::POST, "/v1/orders", &body).await;
    assert_eq!(status, StatusCode::CONFLICT, "an expired quote is not ordered");
    clean(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_takes_over_its_quotes_devices() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    round(&rig, &mut agents).await;
    let (_, quote) = rig.call("t-acme", Method::POST, "/v1/quotes?hold=5min", &training("quoted", "west")).await;
    let body = format!("{{\"quote_id\": \"{}\"}}", quote["id"].as_str().unwrap());
    let id = create(&rig, &body).await;
    let done = until(&rig, &mut agents, &id, |o| state(o) == "completed").await;
    assert_eq!(done["quote_id"], quote["id"]);
    assert_eq!(done["plan"], quote["plan"]);
    clean(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_stops_what_runs_and_leaves_nothing() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    stall(&mut agents, Phase::Running);
    let id = create(&rig, &training("stopped", "west")).await;
    until(&rig, &mut agents, &id, |o| o["phase"] == "running").await;
    let (status, body) = rig.call("t-acme", Method::DELETE, &format!("/v1/orders/{id}"), "").await;
    assert_eq!((status, state(&body)), (StatusCode::ACCEPTED, "cancelling"), "{body:#}");
    until(&rig, &mut agents, &id, |o| state(o) == "cancelled").await;
    assert!(left_over(&agents).values().all(|n| *n == 0));
    let waiting = create(&rig, &order("nowhere-yet", "east").replace("cpu: 4", "cpu: 97")).await;
    let (_, body) = rig.call("t-acme", Method::DELETE, &format!("/v1/orders/{waiting}"), "").await;
    assert!(["cancelled", "rejected"].contains(&state(&body)), "{body:#}");
    clean(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orchestrator_that_starts_again_continues_every_order() {
    let mut rig = Rig::start().await;
    let mut agents = Agent::all();
    stall(&mut agents, Phase::Running);
    let id = create(&rig, &training("lasting", "west")).await;
    until(&rig, &mut agents, &id, |o| o["phase"] == "running").await;
    rig = rig.restart().await;
    let after = until(&rig, &mut agents, &id, |o| o["phase"] == "running").await;
    assert_eq!(after["generation"], 1, "a restart places nothing again");
    stall(&mut agents, None);
    until(&rig, &mut agents, &id, |o| state(o) == "completed").await;
    clean(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_report_changes_nothing() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    let stale = agents[1].report();
    agents[1].sync(&rig).await;
    // an answer would prolong leases by a report that does not count
    assert_eq!(agents[1].post(&rig, &stale).await.0, StatusCode::CONFLICT);
    let mut former = agents[1].report();
    agents[1].boot = uuid::Uuid::now_v7();
    agents[1].sync(&rig).await;
    former.seq += 100;
    assert_eq!(agents[1].post(&rig, &former).await.0, StatusCode::CONFLICT, "a former boot is over");
    let id = create(&rig, &order("late", "west")).await;
    until(&rig, &mut agents, &id, |o| state(o) == "completed").await;
    clean(&rig).await;
}
