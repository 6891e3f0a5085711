//! Who may do what.

use crate::desk::{Rig, order, request};
use axum::http::{Method, StatusCode, header};
use rhumb_api::{PUBLIC, openapi};

/// Every route and method that the interface describes.
fn all_routes() -> Vec<(Method, String)> {
    let document = serde_json::to_value(openapi()).unwrap();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            if let Ok(method) = method.to_uppercase().parse::<Method>() {
                found.push((method, path.clone()));
            }
        }
    }
    assert!(found.len() >= 25, "only {} routes described", found.len());
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_needs_a_credential() {
    let rig = Rig::start().await;
    for (method, path) in all_routes() {
        let concrete = path
            .replace("{id}", "0190a0a0-0000-7000-8000-000000000000")
            .replace("{name}", "east")
            .replace("{action}", "drain")
            .replace("{serial}", "0")
            .replace("{fingerprint}", "0");
        for token in ["", "wrong", "t-acme-", "t-acm"] {
            let (status, _) = rig.call(token, method.clone(), &concrete, "{}").await;
            if PUBLIC.contains(&path.as_str()) {
                assert_eq!(status, StatusCode::OK, "{method} {path}");
            } else {
                assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path} with {token:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_and_tenants_do_not_pass_for_each_other() {
    let rig = Rig::start().await;
    // who joins brings the credential in the body, whatever the headers say
    let by_header = |path: &str| !PUBLIC.contains(&path) && path != "/agent/v1/join";
    for (method, path) in all_routes().into_iter().filter(|(_, p)| by_header(p)) {
        let concrete = path
            .replace("{id}", "0190a0a0-0000-7000-8000-000000000000")
            .replace("{name}", "east")
            .replace("{action}", "drain")
            .replace("{serial}", "0")
            .replace("{fingerprint}", "0");
        let wrong = if path.starts_with("/agent/") { "t-admin" } else { "t-east" };
        let (status, _) = rig.call(wrong, method.clone(), &concrete, "{}").await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{method} {path} with {wrong}");
    }
    for path in ["/v1/admin/audit", "/metrics"] {
        assert_eq!(rig.call("t-acme", Method::GET, path, "").await.0, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_order_does_not_exist() {
    let rig = Rig::start().await;
    let (status, body) = rig.call("t-acme", Method::POST, "/v1/orders", &order("mine", "east")).await;
    assert_eq!(status, StatusCode::CREATED);
    let id = body["id"].as_str().unwrap();
    for (method, path) in all_routes().into_iter().filter(|(_, p)| p.contains("/orders/{id}")) {
        let (status, _) = rig.call("t-rival", method.clone(), &path.replace("{id}", id), "").await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{method} {path}");
    }
    assert_eq!(rig.get("t-rival", "/v1/orders").await["items"].as_array().unwrap().len(), 0);
    assert_eq!(rig.get("t-acme", "/v1/orders").await["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_speaks_for_its_own_point_only() {
    let rig = Rig::start().await;
    let mut east = crate::agents::Agent::new("east");
    let mut report = east.report();
    report.point = "west".parse().unwrap();
    assert_eq!(east.post(&rig, &report).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_hosts_and_origins_are_refused_for_every_method() {
    let rig = Rig::start().await;
    for method in [Method::GET, Method::POST, Method::DELETE, Method::PUT] {
        let mut rebound = request("t-acme", method.clone(), "/v1/orders", "");
        rebound.headers_mut().insert(header::HOST, "attacker.example:7070".parse().unwrap());
        assert_eq!(rig.send(rebound).await.0, StatusCode::MISDIRECTED_REQUEST, "{method}");
        let mut foreign = request("t-acme", method.clone(), "/v1/orders", "");
        foreign.headers_mut().insert(header::ORIGIN, "http://attacker.example".parse().unwrap());
        assert_eq!(rig.send(foreign).await.0, StatusCode::FORBIDDEN, "{method}");
    }
}
