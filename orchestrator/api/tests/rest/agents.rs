//! Agents that do at once what they are told, over the same route as real ones.

use crate::desk::{Rig, request};
use axum::http::{Method, StatusCode};
use rhumb_control::testing::{FakeAgent, POINTS};
use rhumb_wire::{Report, SyncReply};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
    time::{Duration, Instant},
};

pub struct Agent {
    fake: FakeAgent,
    token: String,
}

impl Deref for Agent {
    type Target = FakeAgent;

    fn deref(&self) -> &FakeAgent {
        &self.fake
    }
}

impl DerefMut for Agent {
    fn deref_mut(&mut self) -> &mut FakeAgent {
        &mut self.fake
    }
}

impl Agent {
    pub fn new(point: &str) -> Self {
        Self { fake: FakeAgent::new(point), token: format!("t-{point}") }
    }

    /// East, west, and the relay between them.
    pub fn all() -> Vec<Self> {
        POINTS.map(Self::new).into()
    }

    pub async fn post(&mut self, rig: &Rig, report: &Report) -> (StatusCode, Option<SyncReply>) {
        let body = serde_json::to_string(report).unwrap();
        let (status, answer) = rig.send(request(&self.token, Method::POST, "/agent/v1/sync", &body)).await;
        let reply: Option<SyncReply> = serde_json::from_value(answer).ok();
        if let Some(reply) = &reply {
            self.fake.accept(reply);
        }
        (status, reply)
    }

    pub async fn sync(&mut self, rig: &Rig) {
        let report = self.fake.report();
        let (status, _) = self.post(rig, &report).await;
        assert_eq!(status, StatusCode::OK);
    }
}

/// What all of them wait for.
const PATIENCE: Duration = Duration::from_secs(30);

pub async fn round(rig: &Rig, agents: &mut [Agent]) {
    for agent in agents {
        agent.sync(rig).await;
    }
}

/// Agents sync until the order is as asked; panics with its history if it never is.
pub async fn until(rig: &Rig, agents: &mut [Agent], id: &str, done: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        round(rig, agents).await;
        let order = rig.get("t-admin", &format!("/v1/orders/{id}")).await;
        if done(&order) {
            return order;
        }
        if Instant::now() > deadline {
            let events = rig.get("t-admin", &format!("/v1/orders/{id}/events")).await;
            panic!("order never got there: {order:#}\n{events:#}");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Counts what agents still have.
pub fn left_over(agents: &[Agent]) -> BTreeMap<String, usize> {
    agents.iter().map(|a| (a.point.to_string(), a.has())).collect()
}
