//! What one tenant learns of another: nothing.

use crate::{
    agents::{Agent, round, until},
    desk::{Rig, training},
    life::{create, stall, state},
    stream::Events,
};
use axum::http::{Method, StatusCode};
use rhumb_model::Phase;
use rhumb_wire::{LogChunk, report::AssignmentKey};
use serde_json::Value;

const SECRET: &str = "acme-secret-project";

#[tokio::test(flavor = "multi_thread")]
async fn no_list_page_or_stream_names_another_tenants_order() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    stall(&mut agents, Phase::Running);
    round(&rig, &mut agents).await;
    let mut rivals = Events::open(&rig, "t-rival", Some(0)).await;
    let id = create(&rig, &training(SECRET, "west")).await;
    until(&rig, &mut agents, &id, |o| o["phase"] == "running").await;
    let (status, quote) = rig.call("t-acme", Method::POST, "/v1/quotes", &training(SECRET, "east")).await;
    assert_eq!((status, &quote["binding"]), (StatusCode::CREATED, &Value::Bool(true)), "{quote:#}");
    let quote = quote["id"].as_str().unwrap().to_owned();

    let lists = [
        "orders",
        "routes",
        "routes?all=true",
        "sites",
        "sites/west",
        "links",
        "links/e-p/history",
        "pairs",
        "transit",
        "regions",
        "datasets",
    ];
    for path in lists.into_iter().chain(["metrics/four"]) {
        let text = rig.get("t-rival", &format!("/v1/{path}")).await.to_string();
        for private in [SECRET, id.as_str(), quote.as_str(), "acme\""] {
            assert!(!text.contains(private), "/v1/{path} tells {private}: {text}");
        }
    }
    for path in [format!("/v1/quotes/{quote}")] {
        assert_eq!(rig.call("t-rival", Method::GET, &path, "").await.0, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(rig.call("t-rival", Method::DELETE, &path, "").await.0, StatusCode::NOT_FOUND, "{path}");
    }
    let taken = rig.call("t-rival", Method::POST, "/v1/orders", &format!("{{\"quote_id\": \"{quote}\"}}")).await;
    assert_eq!(taken.0, StatusCode::NOT_FOUND, "{}", taken.1);
    // its owner sees his own, and that the quote's devices are held
    let sites = rig.get("t-acme", "/v1/sites").await.to_string();
    assert!(sites.contains(&id) && sites.contains("\"held\"") && !sites.contains(&quote));

    // all that the stream says until it tells of the rival's own order
    let (_, own) = rig.call("t-rival", Method::POST, "/v1/orders", &training("own", "west")).await;
    let own = own["id"].as_str().unwrap();
    agents[1].boot = uuid::Uuid::now_v7();
    round(&rig, &mut agents).await;
    let (mut told, mut site) = (false, false);
    while !(told && site) {
        let event = rivals.next().await.unwrap();
        let text = event.data.to_string();
        assert!(!text.contains(&id) && !text.contains(SECRET), "the stream tells of another's order: {text}");
        told |= event.name == "event" && event.data["order"] == own;
        site |= event.name == "site";
    }
}

fn chunk(id: &str, component: &str, generation: u64, offset: u64, text: &str) -> LogChunk {
    let key =
        AssignmentKey { order: id.parse().unwrap(), generation, component: component.parse().unwrap(), replica: 0 };
    LogChunk { key, offset, bytes: text.len() as u64, text: text.to_owned() }
}

/// Only the agent that was given the work may say what it wrote.
#[tokio::test(flavor = "multi_thread")]
async fn a_site_writes_into_the_logs_of_its_own_work_only() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    stall(&mut agents, Phase::Running);
    round(&rig, &mut agents).await;
    let id = create(&rig, &training("logged", "west")).await;
    until(&rig, &mut agents, &id, |o| o["phase"] == "running").await;
    let log = async |rig: &Rig| {
        let items = rig.get("t-acme", &format!("/v1/orders/{id}/logs")).await["items"].clone();
        items.as_array().unwrap().iter().map(|c| c["text"].as_str().unwrap().to_owned()).collect::<String>()
    };
    let say = async |agent: &mut Agent, chunks: Vec<LogChunk>| {
        let mut report = agent.report();
        report.logs = chunks;
        let (status, reply) = agent.post(&rig, &report).await;
        assert_eq!(status, StatusCode::OK);
        reply.unwrap().log_acks.len()
    };
    // another site, another component, another generation, an offset that no output has, an order that is not there
    assert_eq!(say(&mut agents[0], vec![chunk(&id, "trainer", 1, 0, "forged")]).await, 1, "not asked for again");
    say(&mut agents[1], vec![chunk(&id, "other", 1, 0, "forged")]).await;
    say(&mut agents[1], vec![chunk(&id, "trainer", 2, 0, "forged")]).await;
    assert_eq!(say(&mut agents[1], vec![chunk(&id, "trainer", 1, u64::MAX, "forged")]).await, 0);
    say(&mut agents[1], vec![chunk(&id, "trainer", 1, 1 << 63, "forged")]).await;
    say(&mut agents[1], vec![chunk("0190a0a0-0000-7000-8000-000000000000", "trainer", 1, 0, "forged")]).await;
    assert_eq!(log(&rig).await, "");
    assert_eq!(say(&mut agents[1], vec![chunk(&id, "trainer", 1, 0, "own ")]).await, 1);
    assert_eq!(say(&mut agents[1], vec![chunk(&id, "trainer", 1, 0, "own ")]).await, 1, "the same again");
    assert_eq!(log(&rig).await, "own ");
    // what comes after the end still belongs to it
    stall(&mut agents, None);
    until(&rig, &mut agents, &id, |o| state(o) == "completed").await;
    say(&mut agents[0], vec![chunk(&id, "trainer", 1, 4, "forged")]).await;
    say(&mut agents[1], vec![chunk(&id, "trainer", 1, 4, "words")]).await;
    assert_eq!(log(&rig).await, "own words");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_follows_a_later_epoch_is_not_answered() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    round(&rig, &mut agents).await;
    let mut report = agents[1].report();
    report.epoch += 1;
    assert_eq!(agents[1].post(&rig, &report).await.0, StatusCode::CONFLICT);
}
