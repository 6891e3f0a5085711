//! What administrators do.

use crate::desk::{Rig, request};
use axum::http::{Method, StatusCode};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_was_made_opens_what_it_is_for_until_it_ends() {
    let rig = Rig::start().await;
    let make =
        async |body: serde_json::Value| rig.call("t-admin", Method::POST, "/v1/admin/tokens", &body.to_string()).await;
    let newcomer = json!({ "kind": "tenant", "subject": "newcomer" });
    let (status, unknown) = make(newcomer.clone()).await;
    assert_eq!((status, &unknown["errors"][0]["pointer"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("/tenant")));
    for name in ["newcomer", "guest", "a", "late"] {
        let body = json!({ "name": name }).to_string();
        assert_eq!(rig.call("t-admin", Method::POST, "/v1/admin/tenants", &body).await.0, StatusCode::CREATED);
    }
    let (status, made) = make(newcomer).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let token = made["token"].as_str().unwrap();
    assert_eq!(rig.get(token, "/v1/orders").await["items"], json!([]));
    assert_eq!(rig.call(token, Method::GET, "/v1/admin/audit", "").await.0, StatusCode::FORBIDDEN);

    let (status, made) = make(json!({ "kind": "agent", "subject": "west" })).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let token = made["token"].as_str().unwrap();
    assert_eq!(rig.call(token, Method::GET, "/v1/orders", "").await.0, StatusCode::FORBIDDEN);
    assert_eq!(rig.call(token, Method::POST, "/agent/v1/sync", "{}").await.0, StatusCode::BAD_REQUEST);

    let soon = (rig.desk.now() + jiff::SignedDuration::from_millis(300)).to_string();
    let (status, made) = make(json!({ "kind": "tenant", "subject": "guest", "expires": soon })).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let token = made["token"].as_str().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while rig.call(token, Method::GET, "/v1/orders", "").await.0 != StatusCode::UNAUTHORIZED {
        assert!(std::time::Instant::now() < deadline, "a token outlives its end");
    }

    for (wrong, pointer) in [
        (json!({ "kind": "tenant", "subject": "" }), "/subject"),
        (json!({ "kind": "tenant", "subject": "a b" }), "/subject"),
        (json!({ "kind": "agent", "subject": "nowhere" }), "/subject"),
        (json!({ "kind": "admin", "subject": "me" }), "/kind"),
        (json!({ "kind": "tenant", "subject": "late", "expires": "2020-01-01T00:00:00Z" }), "/expires"),
        (json!({ "kind": "tenant", "subject": "late", "expires": "soon" }), "/expires"),
        (json!({ "kind": "tenant", "subject": "x", "sha256": "y" }), "/sha256"),
    ] {
        let (status, body) = make(wrong).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}");
        assert_eq!(body["errors"][0]["pointer"], pointer, "{body}");
    }
    let refused = rig.call("t-acme", Method::POST, "/v1/admin/tokens", "{}").await.0;
    assert_eq!(refused, StatusCode::FORBIDDEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_shown_once() {
    let rig = Rig::start().await;
    rig.call("t-admin", Method::POST, "/v1/admin/tenants", "{\"name\": \"a\"}").await;
    let keyed = || {
        let mut r = request("t-admin", Method::POST, "/v1/admin/tokens", "{\"kind\": \"tenant\", \"subject\": \"a\"}");
        r.headers_mut().insert("idempotency-key", "k".parse().unwrap());
        r
    };
    assert_eq!(rig.send(keyed()).await.0, StatusCode::CREATED);
    assert_eq!(rig.send(keyed()).await.0, StatusCode::CONFLICT);
}
