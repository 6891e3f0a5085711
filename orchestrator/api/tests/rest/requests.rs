//! What a request may look like, and what it is told.

use crate::{
    agents::{Agent, round, until},
    desk::{Rig, order, request, training},
    life::{clean, create, state},
};
use axum::http::{Method, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;
use std::time::{Duration, Instant};
use tower::ServiceExt;

fn keyed(token: &str, path: &str, key: &str, body: &str) -> axum::http::Request<axum::body::Body> {
    let mut r = request(token, Method::POST, path, body);
    r.headers_mut().insert("idempotency-key", key.parse().unwrap());
    r
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_malformed_orders_each_name_their_field() {
    let rig = Rig::start().await;
    let good = training("good", "east");
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replace(from, to)
    };
    let flows = "flows: [{from: dataset/corpus, to: trainer}]";
    let cases = [
        (with("class:", "clas:"), "/clas"),
        (with("class: training", "class: mining"), "/class"),
        (with("name: good", "name: ''"), "/name"),
        (with("name: good", "name: \"a\\0b\""), "/name"),
        (with("name: good", "name: \"../../etc\""), "/name"),
        (with("name: good", &format!("name: {}", "x".repeat(5_000))), "/name"),
        (with("name: good", "name: [a]"), "/name"),
        (with("memory: 8GiB", "memory: 8"), "/components/0/need/memory"),
        (with("memory: 8GiB", "memory: 8Gbps"), "/components/0/need/memory"),
        (with("memory: 8GiB", "memory: -8GiB"), "/components/0/need/memory"),
        (with("memory: 8GiB", "memory: 99999999999999999999GiB"), "/components/0/need/memory"),
        (with("cpu: 8", "cpu: -8"), "/components/0/need/cpu"),
        (with("cpu: 8", "cpu: .nan"), "/components/0/need/cpu"),
        (with("cpu: 8", "cpu: .inf"), "/components/0/need/cpu"),
        (with("cpu: 8", "cpu: 1e309"), "/components/0/need/cpu"),
        (with("count: 8", "count: 0"), "/components/0/need/accelerators"),
        (with("count: 8", "count: 18446744073709551615"), "/components/0/need/accelerators"),
        (with("models: [H100]", "models: [X9]"), "/components/0/need/accelerators/models"),
        (with("need:", "replicas: 0\n    need:"), "/components/0/replicas"),
        (with("need:", "replicas: 99999999999\n    need:"), "/components/0/replicas"),
        (with("need:", "replicas: {min: 3, max: 1}\n    need:"), "/components/0/replicas"),
        (with("duration: 6s", "duration: 6"), "/components/0/work/duration"),
        (with("duration: 6s", "duration: 0s"), "/components/0/work"),
        (with("run: {command: [\"true\"]}", "run: {}"), "/components/0/run"),
        (with(flows, "flows: [{from: dataset/nothing, to: trainer}]"), "/flows/0/from"),
        (with(flows, "flows: [{from: region/nowhere, to: trainer, rate: 1Mbps}]"), "/flows/0/to"),
        (with(flows, "flows: [{from: dataset/corpus, to: nobody}]"), "/flows/0/to"),
        (with(flows, "flows: [{from: trainer, to: trainer, rate: 1Mbps, split: true}]"), "/flows/0/split"),
        (with(flows, "flows: [{from: dataset/corpus, to: trainer, volume: 5MB}]"), "/flows/0/volume"),
        (with(flows, "flows: [{from: dataset/corpus, to: trainer, max_latency: 5Mbps}]"), "/flows/0/max_latency"),
        (with("sites: [east]", "sites: [nowhere]"), "/constraints/sites"),
        (with("sites: [east]", "sites: [east], not_sites: [east]"), "/constraints/not_sites"),
        (format!("{good}tenant: other\n"), "/tenant"),
        (format!("{good}terms: {{priority: 101}}\n"), "/terms/priority"),
        (format!("{good}terms: {{budget: 5}}\n"), "/terms/budget"),
        (format!("{good}terms: {{deadline: tomorrow}}\n"), "/terms/deadline"),
        (format!("{good}terms: {{failover: {{lease: 1s}}}}\n"), "/terms/failover/lease"),
    ];
    assert!(cases.len() >= 30);
    for (document, pointer) in cases {
        let (status, body) = rig.call("t-acme", Method::POST, "/v1/orders", &document).await;
        assert!(status.is_client_error(), "{pointer}: {status} {body}");
        let named: Vec<_> = body["errors"].as_array().into_iter().flatten().map(|e| e["pointer"].clone()).collect();
        assert!(
            named.iter().any(|p| p.as_str().is_some_and(|p| p.starts_with(pointer))),
            "{pointer} is not among {named:?}: {body}"
        );
    }
    for broken in ["", "null", "[]", "42", "name: [", "{\"name\": \"a\",", "\u{feff}\u{0}", "- - - -", "%TAG"] {
        let (status, body) = rig.call("t-acme", Method::POST, "/v1/orders", broken).await;
        assert!(status.is_client_error(), "{broken:?}: {status} {body}");
    }
    assert!(rig.get("t-acme", "/v1/orders").await["items"].as_array().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_grow_when_they_are_read_are_refused_soon() {
    let rig = Rig::start().await;
    let level = |i: usize| format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 8].join(", "));
    let bomb: String =
        std::iter::once("a0: &a0 [x, x, x, x, x, x, x, x]\n".to_owned()).chain((1..30).map(level)).collect();
    let begun = Instant::now();
    for body in [bomb, "[".repeat(100_000), "{\"a\":".repeat(50_000), format!("name: [{}]", "x,".repeat(400_000))] {
        assert!(rig.call("t-acme", Method::POST, "/v1/orders", &body).await.0.is_client_error());
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let mut packed = request("t-acme", Method::POST, "/v1/orders", &order("a", "east"));
    packed.headers_mut().insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
    assert_eq!(rig.send(packed).await.0, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_error_is_a_problem() {
    let rig = Rig::start().await;
    let cases = [
        (Method::GET, "/v1/orders/%FF%FE", StatusCode::BAD_REQUEST),
        (Method::GET, "/v1/orders/..%2f..%2fetc", StatusCode::NOT_FOUND),
        (Method::GET, "/v1/orders/0190a0a0-0000-7000-8000-000000000000", StatusCode::NOT_FOUND),
        (Method::GET, "/v1/nothing", StatusCode::NOT_FOUND),
        (Method::POST, "/v1/nothing", StatusCode::NOT_FOUND),
        (Method::DELETE, "/nothing/at/all", StatusCode::NOT_FOUND),
        (Method::PUT, "/v1/orders", StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, "/", StatusCode::METHOD_NOT_ALLOWED),
        (Method::GET, "/v1/orders?limit=0", StatusCode::UNPROCESSABLE_ENTITY),
        (Method::GET, "/v1/orders?limit=201", StatusCode::UNPROCESSABLE_ENTITY),
        (Method::GET, "/v1/orders?limit=1000000000000", StatusCode::BAD_REQUEST),
        (Method::GET, "/v1/orders?cursor=x", StatusCode::UNPROCESSABLE_ENTITY),
        (Method::GET, "/v1/orders?state=gone", StatusCode::UNPROCESSABLE_ENTITY),
        (Method::GET, "/v1/orders?sort=name;drop", StatusCode::BAD_REQUEST),
        (Method::GET, "/v1/paths?from=east&to=nowhere", StatusCode::NOT_FOUND),
        (Method::GET, "/v1/paths?from=east&to=west&gb=99999999999", StatusCode::UNPROCESSABLE_ENTITY),
        (Method::GET, "/v1/paths?from=east&to=west&max_latency=1ms", StatusCode::UNPROCESSABLE_ENTITY),
        (Method::GET, "/v1/paths?from=east&to=west&disjoint=roads", StatusCode::BAD_REQUEST),
        (Method::POST, "/v1/quotes?hold=0s", StatusCode::UNPROCESSABLE_ENTITY),
        (Method::POST, "/v1/quotes?hold=5", StatusCode::UNPROCESSABLE_ENTITY),
    ];
    for (method, path, expected) in cases {
        let asked = request("t-acme", method.clone(), path, &order("a", "east"));
        let response = rig.router.clone().oneshot(asked).await.unwrap();
        assert_eq!(response.status(), expected, "{method} {path}");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json", "{method} {path}");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let problem: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(problem["status"], expected.as_u16(), "{method} {path}");
        assert!(!problem["detail"].as_str().unwrap().is_empty() && problem["type"].is_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_holds_to_the_version_that_was_read() {
    let rig = Rig::start().await;
    let path = format!("/v1/orders/{}", create(&rig, &order("later", "west")).await);
    let delete = |tag: &str| {
        let mut r = request("t-acme", Method::DELETE, &path, "");
        r.headers_mut().insert(header::IF_MATCH, tag.parse().unwrap());
        r
    };
    let response = rig.router.clone().oneshot(request("t-acme", Method::GET, &path, "")).await.unwrap();
    let tag = response.headers()[header::ETAG].to_str().unwrap().to_owned();
    assert_eq!(rig.send(delete("\"0\"")).await.0, StatusCode::PRECONDITION_FAILED);
    assert_eq!(rig.send(delete("\"999\"")).await.0, StatusCode::PRECONDITION_FAILED);
    // reports and the placer move the version: whoever read it last is let through
    let mut tag = tag;
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let (status, body) = rig.send(delete(&tag)).await;
        if status != StatusCode::PRECONDITION_FAILED {
            assert!(status.is_success(), "{status} {body}");
            break;
        }
        assert!(Instant::now() < deadline);
        tag = format!("\"{}\"", rig.get("t-acme", &path).await["version"]);
    }
    assert!(rig.send(delete("*")).await.0.is_success());
    // what has ended stays as it is
    let amended = training("amended", "west");
    assert_eq!(rig.call("t-acme", Method::PATCH, &path, &amended).await.0, StatusCode::CONFLICT);
    assert_eq!(rig.call("t-acme", Method::PATCH, &path, "{}").await.0, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_gives_the_same_quote_and_holds_once() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    round(&rig, &mut agents).await;
    let body = training("quoted", "west");
    let ask = |path: &str| keyed("t-acme", path, "q-1", &body);
    let (first, second) = tokio::join!(rig.send(ask("/v1/quotes")), rig.send(ask("/v1/quotes")));
    assert_eq!((first.0, second.0), (StatusCode::CREATED, StatusCode::CREATED), "{} {}", first.1, second.1);
    assert_eq!(first.1["id"], second.1["id"]);
    assert_eq!(first.1["binding"], true);
    // the same key for another question is another question
    assert_eq!(rig.send(ask("/v1/quotes?dry_run=true")).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(rig.send(ask("/v1/orders")).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    let path = format!("/v1/quotes/{}", first.1["id"].as_str().unwrap());
    assert_eq!(rig.call("t-acme", Method::DELETE, &path, "").await.0, StatusCode::NO_CONTENT);
    clean(&rig).await;
    let held = rig.get("t-acme", "/v1/sites/west").await["accelerators"][0]["free"].clone();
    assert_eq!(held, 8, "given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quote_that_became_an_order_cannot_be_given_back() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    round(&rig, &mut agents).await;
    let (_, quote) = rig.call("t-acme", Method::POST, "/v1/quotes", &training("quoted", "west")).await;
    let body = format!("{{\"quote_id\": {}}}", quote["id"]);
    let (first, second) = tokio::join!(
        rig.send(keyed("t-acme", "/v1/orders", "a", &body)),
        rig.send(keyed("t-acme", "/v1/orders", "b", &body))
    );
    let mut both = [first.0, second.0];
    both.sort();
    assert_eq!(both, [StatusCode::CREATED, StatusCode::CONFLICT], "one quote, one order");
    let path = format!("/v1/quotes/{}", quote["id"].as_str().unwrap());
    assert_eq!(rig.call("t-acme", Method::DELETE, &path, "").await.0, StatusCode::CONFLICT);
    let id = if first.0 == StatusCode::CREATED { first.1 } else { second.1 };
    until(&rig, &mut agents, id["id"].as_str().unwrap(), |o| state(o) == "completed").await;
    clean(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_hold_every_order_once() {
    let rig = Rig::start().await;
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.push(create(&rig, &order(&format!("paged-{n}"), "west")).await);
    }
    let (mut seen, mut path) = (Vec::new(), "/v1/orders?limit=3".to_owned());
    loop {
        let page = rig.get("t-acme", &path).await;
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 3);
        seen.extend(items.iter().map(|o| o["id"].as_str().unwrap().to_owned()));
        // what comes in meanwhile does not move the pages
        create(&rig, &order("meanwhile", "west")).await;
        match page["next"].as_str() {
            Some(next) => path = format!("/v1/orders?limit=3&cursor={next}"),
            None => break,
        }
    }
    ids.reverse();
    assert_eq!(seen, ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_a_tenant_are_his_own() {
    let rig = Rig::start_with(|limits, _| {
        limits.orders_per_tenant = 2;
        limits.quotes_per_tenant = 1;
    })
    .await;
    let mut agents = Agent::all();
    round(&rig, &mut agents).await;
    for n in 0..2 {
        create(&rig, &order(&format!("own-{n}"), "west").replace("cpu: 4", "cpu: 90")).await;
    }
    let (status, body) = rig.call("t-acme", Method::POST, "/v1/orders", &order("third", "west")).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{body}");
    assert_eq!(rig.call("t-rival", Method::POST, "/v1/orders", &order("a", "west")).await.0, StatusCode::CREATED);
    let ask = async || rig.call("t-rival", Method::POST, "/v1/quotes", &order("q", "east")).await;
    let (status, quote) = ask().await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(ask().await.0, StatusCode::TOO_MANY_REQUESTS);
    let path = format!("/v1/quotes/{}", quote["id"].as_str().unwrap());
    assert_eq!(rig.call("t-rival", Method::DELETE, &path, "").await.0, StatusCode::NO_CONTENT);
    assert_eq!(ask().await.0, StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_credential_is_slowed_and_others_are_not() {
    let rig = Rig::start_with(|limits, _| {
        limits.requests_per_second = 1;
        limits.request_burst = 5;
    })
    .await;
    let mut answers = Vec::new();
    for _ in 0..20 {
        answers.push(rig.call("t-acme", Method::GET, "/v1/regions", "").await.0);
    }
    assert_eq!(answers[0], StatusCode::OK);
    assert!(answers.contains(&StatusCode::TOO_MANY_REQUESTS), "{answers:?}");
    assert_eq!(rig.call("t-rival", Method::GET, "/v1/regions", "").await.0, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trace_of_a_request_goes_with_the_work() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    round(&rig, &mut agents).await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut asked = request("t-acme", Method::POST, "/v1/orders", &order("traced", "west"));
    asked.headers_mut().insert("traceparent", trace.parse().unwrap());
    let (_, body) = rig.send(asked).await;
    agents[1].stall(rhumb_model::Phase::Running);
    until(&rig, &mut agents, body["id"].as_str().unwrap(), |o| o["phase"] == "running").await;
    let desired = agents[1].desired.clone().unwrap();
    assert_eq!(desired.assignments[0].traceparent.as_deref(), Some(trace));
}
