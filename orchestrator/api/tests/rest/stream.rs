//! Events as they are streamed.

use crate::{
    agents::{Agent, round, until},
    desk::{Rig, order, request},
    life::{create, state},
};
use axum::{
    body::BodyDataStream,
    http::{Method, StatusCode},
};
use futures::StreamExt;
use serde_json::Value;
use std::time::Duration;
use tower::ServiceExt;

pub struct Events {
    body: BodyDataStream,
    text: String,
}

#[derive(Debug)]
pub struct Event {
    pub name: String,
    pub id: Option<u64>,
    pub data: Value,
}

impl Events {
    pub async fn open(rig: &Rig, token: &str, last: Option<u64>) -> Self {
        let mut request = request(token, Method::GET, "/v1/events", "");
        if let Some(last) = last {
            request.headers_mut().insert("last-event-id", last.to_string().parse().unwrap());
        }
        let response = rig.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Self { body: response.into_body().into_data_stream(), text: String::new() }
    }

    /// `None`: the stream has ended.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| {
                    block.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':').map(|v| v.trim().to_owned()))
                };
                let Some(data) = field("data") else { continue };
                let data = serde_json::from_str(&data).unwrap();
                let id = field("id").map(|id| id.parse().unwrap());
                return Some(Event { name: field("event").unwrap(), id, data });
            }
            let next = tokio::time::timeout(Duration::from_secs(20), self.body.next()).await.expect("no event");
            self.text.push_str(std::str::from_utf8(&next?.unwrap()).unwrap());
        }
    }

    /// The next of an order's history, whatever else comes between.
    async fn history(&mut self) -> Event {
        loop {
            let event = self.next().await.expect("the stream has ended");
            if event.name == "event" {
                return event;
            }
        }
    }
}

async fn history_of(rig: &Rig, id: &str) -> Vec<(u64, String)> {
    let events = rig.get("t-acme", &format!("/v1/orders/{id}/events")).await;
    let pair = |e: &Value| (e["seq"].as_u64().unwrap(), e["message"].as_str().unwrap().to_owned());
    events["items"].as_array().unwrap().iter().map(pair).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_an_orders_history_and_goes_on_after_the_last_event_seen() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    round(&rig, &mut agents).await;
    let mut events = Events::open(&rig, "t-acme", None).await;
    let id = create(&rig, &order("told", "west")).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let event = events.history().await;
        assert_eq!(event.data["order"], id.as_str());
        seen.push((event.id.unwrap(), event.data["message"].as_str().unwrap().to_owned()));
        round(&rig, &mut agents).await;
    }
    drop(events);
    // all that happens now happens while nobody listens
    until(&rig, &mut agents, &id, |o| state(o) == "completed").await;
    let all = history_of(&rig, &id).await;
    let mut events = Events::open(&rig, "t-acme", Some(seen[2].0)).await;
    while seen.len() < all.len() {
        let event = events.history().await;
        seen.push((event.id.unwrap(), event.data["message"].as_str().unwrap().to_owned()));
    }
    assert_eq!(seen, all, "nothing is missing, nothing comes twice");
    // after a resume the order as it is now comes too
    loop {
        let event = events.next().await.unwrap();
        if event.name == "order" {
            assert_eq!((&event.data["id"], state(&event.data)), (&Value::from(id.as_str()), "completed"));
            break;
        }
    }
    // it goes on live
    let next = create(&rig, &order("next", "west")).await;
    assert_eq!(events.history().await.data["order"], next.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_from_another_time_is_no_reason_to_say_nothing() {
    let rig = Rig::start().await;
    let mut request = request("t-acme", Method::GET, "/v1/events", "");
    request.headers_mut().insert("last-event-id", "yesterday".parse().unwrap());
    assert_eq!(rig.send(request).await.0, StatusCode::BAD_REQUEST);
    let mut events = Events::open(&rig, "t-acme", Some(u64::MAX)).await;
    let id = create(&rig, &order("told", "west")).await;
    assert_eq!(events.history().await.data["order"], id.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn places_for_streams_are_counted_and_given_back() {
    let rig = Rig::start_with(|limits, _| limits.streams = 1).await;
    let first = Events::open(&rig, "t-acme", None).await;
    let (status, problem) = rig.call("t-acme", Method::GET, "/v1/events", "").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{problem}");
    drop(first);
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        let response = rig.router.clone().oneshot(request("t-acme", Method::GET, "/v1/events", "")).await.unwrap();
        if response.status() == StatusCode::OK {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "the place is not given back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_credential_and_with_the_server() {
    let rig = Rig::start().await;
    let soon = rig.desk.now() + jiff::SignedDuration::from_millis(500);
    let body = serde_json::json!({ "kind": "tenant", "subject": "acme", "expires": soon.to_string() }).to_string();
    let (_, made) = rig.call("t-admin", Method::POST, "/v1/admin/tokens", &body).await;
    let mut short = Events::open(&rig, made["token"].as_str().unwrap(), None).await;
    let mut long = Events::open(&rig, "t-acme", None).await;
    while short.next().await.is_some() {}
    assert!(long.next().await.is_some());
    rig.desk.stop().await;
    while long.next().await.is_some() {}
}
