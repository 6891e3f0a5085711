//! Many orders at once, and cancels in every phase.

use crate::{
    agents::{Agent, left_over, round, until},
    desk::{Rig, training},
    life::{clean, create, stall, state},
};
use axum::http::{Method, StatusCode};
use rhumb_model::Phase;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

const ASKED: usize = 50;

async fn states(rig: &Rig) -> BTreeMap<String, usize> {
    let page = rig.get("t-acme", "/v1/orders?limit=200").await;
    let mut counts = BTreeMap::new();
    for order in page["items"].as_array().unwrap() {
        *counts.entry(state(order).to_owned()).or_default() += 1;
    }
    counts
}

/// No device belongs to two, whatever the audit says.
async fn given_once(rig: &Rig) {
    let sites = rig.get("t-admin", "/v1/sites").await;
    let held: Vec<&Value> = sites["items"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|s| s["nodes"].as_array().unwrap())
        .flat_map(|n| n["devices"].as_array().unwrap())
        .filter(|d| !d["order"].is_null())
        .collect();
    assert!(held.iter().all(|d| d["share"] == 1_000), "{held:#?}");
    let mut by_order: BTreeMap<&str, usize> = BTreeMap::new();
    for device in held {
        *by_order.entry(device["order"].as_str().unwrap()).or_default() += 1;
    }
    assert!(by_order.values().all(|n| *n == 8), "{by_order:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_orders_for_room_of_two_hold_what_two_can() {
    let rig = Arc::new(Rig::start().await);
    let mut agents = Agent::all();
    stall(&mut agents, Phase::Running);
    round(&rig, &mut agents).await;
    let mut clients = JoinSet::new();
    for n in 0..ASKED {
        let rig = Arc::clone(&rig);
        let document = training(&format!("rush-{n}"), "west").replace("sites: [west]", "sites: []");
        clients.spawn(async move { create(&rig, &document).await });
    }
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        clean(&rig).await;
        given_once(&rig).await;
        round(&rig, &mut agents).await;
        let counts = states(&rig).await;
        assert!(counts.get("inProgress").copied().unwrap_or(0) <= 2, "{counts:?}");
        if counts.get("inProgress") == Some(&2) && counts.get("pending") == Some(&(ASKED - 2)) {
            break;
        }
        assert!(Instant::now() < deadline, "never shared out: {counts:?}");
    }
    let ids = clients.join_all().await;
    for order in rig.get("t-acme", "/v1/orders?state=pending&limit=200").await["items"].as_array().unwrap() {
        let reasons = order["reasons"].as_array().unwrap();
        assert!(!reasons.is_empty() && reasons.iter().all(|r| r["reason"] == "capacity"), "{order:#}");
    }
    // one ends, one goes ahead: the oldest that waits
    let running: Vec<String> = rig.get("t-acme", "/v1/orders?state=inProgress").await["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| o["id"].as_str().unwrap().to_owned())
        .collect();
    let oldest = ids.iter().filter(|id| !running.contains(id)).min().unwrap().clone();
    let path = format!("/v1/orders/{}", running[0]);
    assert_eq!(rig.call("t-acme", Method::DELETE, &path, "").await.0, StatusCode::ACCEPTED);
    until(&rig, &mut agents, &oldest, |o| state(o) == "inProgress").await;
    clean(&rig).await;
    for id in &ids {
        rig.call("t-acme", Method::DELETE, &format!("/v1/orders/{id}"), "").await;
    }
    for id in &ids {
        until(&rig, &mut agents, id, |o| state(o) == "cancelled").await;
    }
    round(&rig, &mut agents).await;
    assert!(left_over(&agents).values().all(|n| *n == 0));
    clean(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_in_any_phase_leaves_nothing() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    round(&rig, &mut agents).await;
    for phase in [Phase::Holding, Phase::Routing, Phase::Staging, Phase::Starting, Phase::Running] {
        stall(&mut agents, phase);
        let id = create(&rig, &training("short", "west")).await;
        until(&rig, &mut agents, &id, |o| o["phase"] == phase.as_str()).await;
        clean(&rig).await;
        let (status, body) = rig.call("t-acme", Method::DELETE, &format!("/v1/orders/{id}"), "").await;
        assert_eq!((status, state(&body)), (StatusCode::ACCEPTED, "cancelling"), "{phase}: {body:#}");
        // again is the same
        let (status, body) = rig.call("t-acme", Method::DELETE, &format!("/v1/orders/{id}"), "").await;
        assert_eq!((status, state(&body)), (StatusCode::ACCEPTED, "cancelling"), "{phase}: {body:#}");
        stall(&mut agents, None);
        until(&rig, &mut agents, &id, |o| state(o) == "cancelled").await;
        round(&rig, &mut agents).await;
        assert!(left_over(&agents).values().all(|n| *n == 0), "{phase}: {:?}", left_over(&agents));
        clean(&rig).await;
        let (status, body) = rig.call("t-acme", Method::DELETE, &format!("/v1/orders/{id}"), "").await;
        assert_eq!((status, state(&body)), (StatusCode::OK, "cancelled"), "final is final");
    }
}
