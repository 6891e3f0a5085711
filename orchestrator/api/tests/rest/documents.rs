//! Bodies: what is wrong is named, nothing of it stays.

use crate::desk::{Rig, order, request};
use axum::http::{Method, StatusCode};
use serde_json::Value;

fn pointers(body: &Value) -> Vec<&str> {
    body["errors"].as_array().map(|e| e.iter().filter_map(|p| p["pointer"].as_str()).collect()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_order_names_the_field_and_leaves_nothing() {
    let rig = Rig::start().await;
    let good = order("good", "east");
    let cases = [
        (good.replace("class:", "clas:"), "/clas"),
        (good.replace("memory: 1GiB", "memory: 1"), "/components/0/need/memory"),
        (good.replace("cpu: 4", "cpu: -4"), "/components/0/need/cpu"),
        (good.replace("cpu: 4", "cpu: .nan"), "/components/0/need/cpu"),
        (good.replace("cpu: 4", "cpu: 1e309"), "/components/0/need/cpu"),
        (good.replace("need:", "replicas: 0\n    need:"), "/components/0/replicas"),
        (good.replace("need:", "replicas: 99999999999\n    need:"), "/components/0/replicas"),
        (good.replace("name: good", "name: \"a\\0b\""), "/name"),
        (good.replace("sites: [east]", "sites: [nowhere]"), "/constraints/sites"),
        (format!("{good}flows: [{{from: dataset/nothing, to: job}}]\n"), "/flows/0/from"),
        (format!("{good}flows: [{{from: dataset/corpus, to: job, volume: 5MB}}]\n"), "/flows/0/volume"),
        (format!("{good}tenant: other\n"), "/tenant"),
        (good.replace("run: {command: [\"true\"]}", "run: {}"), "/components/0/run"),
    ];
    for (document, pointer) in cases {
        for path in ["/v1/orders", "/v1/quotes"] {
            let (status, body) = rig.call("t-acme", Method::POST, path, &document).await;
            assert!(status.is_client_error(), "{path} {pointer}: {status} {body}");
            assert!(pointers(&body).iter().any(|p| p.starts_with(pointer)), "{path} {pointer}: {body}");
        }
    }
    assert!(rig.get("t-acme", "/v1/orders").await["items"].as_array().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_or_foreign_body_is_refused_early() {
    let rig = Rig::start().await;
    let large = " ".repeat((1 << 20) + 1);
    assert_eq!(rig.call("t-acme", Method::POST, "/v1/orders", &large).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    let deep = "[".repeat(100_000);
    assert!(rig.call("t-acme", Method::POST, "/v1/orders", &deep).await.0.is_client_error());
    let mut foreign = request("t-acme", Method::POST, "/v1/orders", "x");
    foreign.headers_mut().insert("content-type", "text/html".parse().unwrap());
    assert_eq!(rig.send(foreign).await.0, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_makes_one_order() {
    let rig = Rig::start().await;
    let keyed = |token: &str, body: &str| {
        let mut r = request(token, Method::POST, "/v1/orders", body);
        r.headers_mut().insert("idempotency-key", "k-1".parse().unwrap());
        r
    };
    let body = order("once", "east");
    let (first, second) = tokio::join!(rig.send(keyed("t-acme", &body)), rig.send(keyed("t-acme", &body)));
    assert_eq!((first.0, second.0), (StatusCode::CREATED, StatusCode::CREATED));
    assert_eq!(first.1["id"], second.1["id"]);
    assert_eq!(rig.send(keyed("t-acme", &order("other", "east"))).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    let rival = rig.send(keyed("t-rival", &body)).await;
    assert_eq!(rival.0, StatusCode::CREATED);
    assert_ne!(rival.1["id"], first.1["id"]);
    let again = rig.send(keyed("t-acme", &body)).await;
    assert_eq!(again.1["id"], first.1["id"]);
}

#[test]
fn the_console_is_built_against_this_interface() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/openapi.json")).unwrap();
    let written: Value = serde_json::from_str(&text).unwrap();
    let ours = serde_json::to_value(rhumb_api::openapi()).unwrap();
    assert!(
        written == ours,
        "web/openapi.json is old; run: cargo run -p rhumb-api --example openapi > web/openapi.json; npm run generate in web/"
    );
}
