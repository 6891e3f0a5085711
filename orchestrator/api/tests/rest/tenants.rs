//! Tenants, their tokens, their quotas, sites' operators, and the log of what was done about them.

use crate::{
    agents::{Agent, round, until},
    desk::{Rig, order, token_id, training},
    life::{clean, create, state},
    stream::Events,
};
use axum::http::{Method, StatusCode};
use rhumb_store::Store;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

async fn post(rig: &Rig, token: &str, path: &str, body: Value) -> (StatusCode, Value) {
    rig.call(token, Method::POST, path, &body.to_string()).await
}

async fn delete(rig: &Rig, token: &str, path: &str) -> StatusCode {
    rig.call(token, Method::DELETE, path, "").await.0
}

async fn token(rig: &Rig, by: &str, body: Value) -> (String, String) {
    let (status, made) = post(rig, by, "/v1/admin/tokens", body).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    (made["token"].as_str().unwrap().to_owned(), made["id"].as_str().unwrap().to_owned())
}

async fn quota(rig: &Rig, tenant: &str, body: Value) {
    let path = format!("/v1/admin/quotas/{tenant}");
    let (status, answer) = rig.call("t-admin", Method::PUT, &path, &body.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_administrator_says_who_else_may_for_his_tenant_alone() {
    let rig = Rig::start().await;
    for role in ["viewer", "member", "tenant-admin"] {
        let (made, id) = token(&rig, "t-chief", json!({ "role": role })).await;
        assert!(rig.get(&made, "/v1/orders").await["items"].is_array());
        let seen = rig.get("t-chief", "/v1/admin/tokens").await;
        let seen = seen["items"].as_array().unwrap().iter().find(|t| t["id"] == id.as_str()).unwrap().clone();
        assert_eq!((&seen["role"], &seen["tenant"]), (&json!(role), &json!("acme")));
        assert_eq!(seen["created_by"], token_id(2).to_string());
        // a tenant's name that is another's, or the beginning of another's, is another's
        for stranger in ["t-third", "t-rival"] {
            let status = delete(&rig, stranger, &format!("/v1/admin/tokens/{id}")).await;
            assert_ne!(status, StatusCode::NO_CONTENT, "{stranger}");
        }
        assert_eq!(rig.call(&made, Method::GET, "/v1/orders", "").await.0, StatusCode::OK);
        assert_eq!(delete(&rig, "t-chief", &format!("/v1/admin/tokens/{id}")).await, StatusCode::NO_CONTENT);
        assert_eq!(rig.call(&made, Method::GET, "/v1/orders", "").await.0, StatusCode::UNAUTHORIZED);
    }
    for (body, status) in [
        (json!({ "role": "platform-admin" }), StatusCode::FORBIDDEN),
        (json!({ "role": "site-operator", "sites": ["east"] }), StatusCode::FORBIDDEN),
        (json!({ "role": "agent", "point": "east" }), StatusCode::FORBIDDEN),
        (json!({ "kind": "agent", "subject": "east" }), StatusCode::FORBIDDEN),
        (json!({ "role": "viewer", "tenant": "acme-eu" }), StatusCode::UNPROCESSABLE_ENTITY),
        (json!({ "role": "viewer", "tenant": "nobody" }), StatusCode::UNPROCESSABLE_ENTITY),
        (json!({ "role": "viewer", "sites": ["east"] }), StatusCode::UNPROCESSABLE_ENTITY),
        (json!({ "role": "viewer", "kind": "tenant", "subject": "acme" }), StatusCode::UNPROCESSABLE_ENTITY),
        (json!({ "role": "root" }), StatusCode::UNPROCESSABLE_ENTITY),
        (json!({}), StatusCode::UNPROCESSABLE_ENTITY),
    ] {
        let (found, answer) = post(&rig, "t-chief", "/v1/admin/tokens", body.clone()).await;
        assert_eq!(found, status, "{body}: {answer}");
    }
    // whether another tenant exists is not told
    let detail = async |tenant: &str| {
        let body = json!({ "role": "viewer", "tenant": tenant });
        post(&rig, "t-chief", "/v1/admin/tokens", body).await.1["detail"].as_str().unwrap().replace(tenant, "X")
    };
    assert_eq!(detail("acme-eu").await, detail("nobody").await);
    // a platform administrator's token is none of a tenant's, though it orders for one
    let (_, chief) = token(&rig, "t-admin", json!({ "role": "platform-admin", "tenant": "acme" })).await;
    assert_eq!(delete(&rig, "t-chief", &format!("/v1/admin/tokens/{chief}")).await, StatusCode::NOT_FOUND);
    let seen = rig.get("t-chief", "/v1/admin/tokens?limit=200").await;
    let roles: BTreeSet<_> = seen["items"].as_array().unwrap().iter().map(|t| t["role"].as_str().unwrap()).collect();
    assert_eq!(roles, BTreeSet::from(["viewer", "member", "tenant-admin"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_opens_nothing_at_once_and_its_stream_ends() {
    let rig = Rig::start().await;
    let (made, id) = token(&rig, "t-chief", json!({ "role": "member" })).await;
    let (other, _) = token(&rig, "t-chief", json!({ "role": "member" })).await;
    let mut stream = Events::open(&rig, &made, None).await;
    let mut others = Events::open(&rig, &other, None).await;
    assert_eq!(delete(&rig, "t-admin", &format!("/v1/admin/tokens/{id}")).await, StatusCode::NO_CONTENT);
    let revoked = Instant::now();
    for (method, path) in [(Method::GET, "/v1/orders"), (Method::POST, "/v1/orders"), (Method::GET, "/v1/events")] {
        assert_eq!(rig.call(&made, method, path, &order("late", "east")).await.0, StatusCode::UNAUTHORIZED, "{path}");
    }
    let ended = tokio::time::timeout(Duration::from_secs(5), async { while stream.next().await.is_some() {} }).await;
    assert!(ended.is_ok(), "the stream is open {:?} after its token was revoked", revoked.elapsed());
    assert!(others.next().await.is_some());
    // again is the same; what never was is not there
    assert_eq!(delete(&rig, "t-admin", &format!("/v1/admin/tokens/{id}")).await, StatusCode::NO_CONTENT);
    assert_eq!(
        delete(&rig, "t-admin", "/v1/admin/tokens/0190a0a0-0000-7000-8000-000000000000").await,
        StatusCode::NOT_FOUND
    );
    // and a restart brings it back no more
    let rig = rig.restart().await;
    assert_eq!(rig.call(&made, Method::GET, "/v1/orders", "").await.0, StatusCode::UNAUTHORIZED);
}

/// F81: no tenant, a closed one, one without a right to anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_tenant_may_nothing() {
    let rig = Rig::start().await;
    let name = json!({ "name": "brief" });
    let (status, made) = post(&rig, "t-admin", "/v1/admin/tenants", name.clone()).await;
    assert_eq!((status, &made["closed"]), (StatusCode::CREATED, &Value::Null), "{made}");
    assert_eq!(post(&rig, "t-admin", "/v1/admin/tenants", name.clone()).await.0, StatusCode::CONFLICT);
    let (member, _) = token(&rig, "t-admin", json!({ "role": "member", "tenant": "brief" })).await;
    let (keeper, _) = token(&rig, "t-admin", json!({ "role": "platform-admin", "tenant": "brief" })).await;
    let (status, mine) = rig.call(&member, Method::POST, "/v1/orders", &order("mine", "east")).await;
    assert_eq!(status, StatusCode::CREATED);
    let mut stream = Events::open(&rig, &member, None).await;
    assert_eq!(delete(&rig, "t-admin", "/v1/admin/tenants/brief").await, StatusCode::NO_CONTENT);
    assert_eq!(rig.call(&member, Method::GET, "/v1/orders", "").await.0, StatusCode::UNAUTHORIZED);
    let ended = tokio::time::timeout(Duration::from_secs(5), async { while stream.next().await.is_some() {} }).await;
    assert!(ended.is_ok(), "the stream of a closed tenant stays open");
    // an administrator who orders for it orders no more, and administers on
    let (status, answer) = rig.call(&keeper, Method::POST, "/v1/orders", &order("late", "east")).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("brief is unknown or closed"), "{answer}");
    let (status, _) = rig.call(&keeper, Method::POST, "/v1/quotes", &order("late", "east")).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(rig.get(&keeper, "/v1/admin/tenants/brief").await["name"], "brief");
    let body = json!({ "role": "viewer", "tenant": "brief" });
    assert_eq!(post(&rig, "t-admin", "/v1/admin/tokens", body).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        post(&rig, "t-admin", "/v1/admin/tenants", name).await.0,
        StatusCode::CONFLICT,
        "names are not used again"
    );
    // what it had goes on
    let mine = rig.get("t-admin", &format!("/v1/orders/{}", mine["id"].as_str().unwrap())).await;
    assert_ne!(state(&mine), "cancelled");
    for wrong in ["", "a b", "Ac\u{0}me", "../x", &"x".repeat(100)] {
        let (status, answer) = post(&rig, "t-admin", "/v1/admin/tenants", json!({ "name": wrong })).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        assert_eq!(answer["errors"][0]["pointer"], "/name");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_runs_his_sites_and_no_others() {
    let rig = Rig::start().await;
    for (site, status) in [("east", StatusCode::NO_CONTENT), ("west", StatusCode::FORBIDDEN)] {
        let path = format!("/v1/admin/sites/{site}/drain");
        assert_eq!(rig.call("t-east-op", Method::POST, &path, "").await.0, status, "{site}");
    }
    let points = rig.desk.store().points().await.unwrap();
    let draining: Vec<_> = points.iter().filter(|p| p.draining).map(|p| p.name.as_str()).collect();
    assert_eq!(draining, ["east"]);
    let join = async |site: &str| post(&rig, "t-east-op", "/v1/admin/join-tokens", json!({ "point": site })).await;
    assert_eq!(join("west").await.0, StatusCode::FORBIDDEN);
    let (status, made) = join("east").await;
    assert_eq!(status, StatusCode::CREATED);
    // the agent that joined by it is the operator's to put out, and nobody else's
    let joined: rhumb_identity::JoinToken = made["token"].as_str().unwrap().parse().unwrap();
    let request = rhumb_identity::AgentKey::generate().unwrap().request().unwrap();
    let body = json!({ "secret": joined.secret.as_str(), "request": request });
    assert_eq!(post(&rig, "", "/agent/v1/join", body).await.0, StatusCode::CREATED);
    let known = rig.get("t-east-op", "/v1/admin/points/east/certificates").await;
    let path = format!("/v1/admin/certificates/{}", known["items"][0]["serial"].as_str().unwrap());
    assert_eq!(delete(&rig, "t-west-op", &path).await, StatusCode::NOT_FOUND);
    assert_eq!(delete(&rig, "t-east-op", &path).await, StatusCode::NO_CONTENT);
    // orders are none of his business: neither read nor told of
    create(&rig, &order("private-name", "west")).await;
    let mut stream = Events::open(&rig, "t-east-op", Some(0)).await;
    for _ in 0..3 {
        let event = stream.next().await.unwrap();
        assert!(!event.data.to_string().contains("private-name"), "{event:?}");
        assert!(!["order", "event"].contains(&event.name.as_str()), "{event:?}");
    }
    let (status, made) =
        post(&rig, "t-admin", "/v1/admin/tokens", json!({ "role": "site-operator", "sites": [] })).await;
    assert_eq!((status, &made["errors"][0]["pointer"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("/sites")));
    let both = json!({ "role": "site-operator", "sites": ["east", "west"] });
    let (both, _) = token(&rig, "t-admin", both).await;
    for site in ["east", "west"] {
        let path = format!("/v1/admin/sites/{site}/undrain");
        assert_eq!(rig.call(&both, Method::POST, &path, "").await.0, StatusCode::NO_CONTENT, "{site}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_administrators_do_is_written_down_without_secrets() {
    let rig = Rig::start().await;
    post(&rig, "t-admin", "/v1/admin/tenants", json!({ "name": "fresh" })).await;
    let (secret, id) = token(&rig, "t-admin", json!({ "role": "viewer", "tenant": "fresh" })).await;
    delete(&rig, "t-admin", &format!("/v1/admin/tokens/{id}")).await;
    quota(&rig, "fresh", json!({ "orders": 3 })).await;
    rig.call("t-east-op", Method::POST, "/v1/admin/sites/east/drain", "").await;
    let (_, join) = post(&rig, "t-east-op", "/v1/admin/join-tokens", json!({ "point": "east" })).await;
    let join = join["token"].as_str().unwrap();
    delete(&rig, "t-admin", "/v1/admin/tenants/fresh").await;
    // what was refused did not happen
    delete(&rig, "t-admin", "/v1/admin/tenants/nobody").await;
    rig.call("t-west-op", Method::POST, "/v1/admin/sites/east/undrain", "").await;
    let log = rig.get("t-admin", "/v1/admin/audit-log").await;
    let items = log["items"].as_array().unwrap();
    let done: Vec<_> =
        items.iter().rev().map(|i| (i["action"].as_str().unwrap(), i["target"].as_str().unwrap())).collect();
    let expected = [
        ("tenant.create", "fresh"),
        ("token.create", &id),
        ("token.revoke", &id),
        ("quota.set", "fresh"),
        ("site.drain", "east"),
        ("join-token.create", "east"),
        ("tenant.close", "fresh"),
    ];
    assert_eq!(done, expected);
    assert_eq!((&items[0]["actor"], &items[0]["role"]), (&json!(token_id(5).to_string()), &json!("platform-admin")));
    assert_eq!((&items[2]["actor"], &items[2]["role"]), (&json!(token_id(6).to_string()), &json!("site-operator")));
    assert_eq!(items[3]["detail"], json!({ "accelerators": null, "orders": 3, "quotes": null }));
    let text = log.to_string();
    let hash = rhumb_control::secrets::sha256(secret.as_bytes()).map(|b| format!("{b:02x}")).concat();
    let joined: rhumb_identity::JoinToken = join.parse().unwrap();
    for planted in [secret.as_str(), &secret[6..], &hash, join, joined.secret.as_str(), "t-admin"] {
        assert!(!text.contains(planted), "the log has a secret");
    }
    // page by page it is the same
    let (mut paged, mut path) = (Vec::new(), "/v1/admin/audit-log?limit=2".to_owned());
    loop {
        let page = rig.get("t-admin", &path).await;
        paged.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/admin/audit-log?limit=2&cursor={next}");
    }
    assert_eq!(&paged, items);
    for wrong in ["limit=0", "limit=201", "cursor=x", "cursor=-1"] {
        let (status, _) = rig.call("t-admin", Method::GET, &format!("/v1/admin/audit-log?{wrong}"), "").await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{wrong}");
    }
    // a tenant's administrator reads what concerns his tenant
    assert_eq!(rig.get("t-chief", "/v1/admin/audit-log").await["items"], json!([]));
    let (_, own) = token(&rig, "t-chief", json!({ "role": "viewer" })).await;
    let seen = rig.get("t-chief", "/v1/admin/audit-log").await;
    assert_eq!(seen["items"][0]["target"], own.as_str());
    assert_eq!(rig.get("t-third", "/v1/admin/audit-log").await["items"], json!([]));
}

/// F74: what a tenant may have is counted where it is taken.
#[tokio::test(flavor = "multi_thread")]
async fn of_eight_requests_at_once_a_quota_lets_in_what_it_says() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    round(&rig, &mut agents).await;
    quota(&rig, "acme", json!({ "orders": 3, "quotes": 2 })).await;
    let eight = async |path: &'static str| {
        let orders: Vec<_> = (0..8).map(|i| order(&format!("o-{i}"), "east")).collect();
        let sent = orders.iter().map(|document| rig.call("t-acme", Method::POST, path, document));
        futures::future::join_all(sent).await
    };
    for (path, most, what) in [("/v1/quotes", 2, "1 live quotes"), ("/v1/orders", 3, "1 live orders")] {
        let answers = eight(path).await;
        let (taken, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|a| a.0 == StatusCode::CREATED);
        assert_eq!(taken.len(), most, "{path}");
        for (status, answer) in refused {
            assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
            let reason = &answer["refusals"][0];
            assert_eq!((&reason["reason"], &reason["needed"]), (&json!("quota"), &json!(what)), "{answer}");
            assert_eq!(reason["free"], "0 of the tenant's quota");
        }
    }
    let used = rig.get("t-chief", "/v1/admin/quotas/acme").await;
    assert_eq!((&used["held"]["orders"], &used["held"]["quotes"]), (&json!(3), &json!(2)), "{used}");
    // a question that holds nothing is no quote, and another tenant is another
    for (token, path) in [("t-acme", "/v1/quotes?dry_run=true"), ("t-rival", "/v1/quotes"), ("t-rival", "/v1/orders")] {
        let (status, answer) = rig.call(token, Method::POST, path, &order("more", "east")).await;
        assert_eq!(status, StatusCode::CREATED, "{path}: {answer}");
    }
    for wrong in [
        json!({ "orders": -1 }),
        json!({ "orders": 4_294_967_296_u64 }),
        json!({ "orders": "3" }),
        json!({ "gpus": 1 }),
    ] {
        let (status, answer) = rig.call("t-admin", Method::PUT, "/v1/admin/quotas/acme", &wrong.to_string()).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{wrong}: {answer}");
    }
    clean(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_beyond_the_tenants_accelerators_waits_and_says_why() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    round(&rig, &mut agents).await;
    quota(&rig, "acme", json!({ "accelerators": 7 })).await;
    let id = create(&rig, &training("big", "west")).await;
    let waiting = until(&rig, &mut agents, &id, |o| state(o) == "pending").await;
    let reasons = waiting["reasons"].as_array().unwrap();
    assert_eq!(reasons.len(), 1, "{waiting}");
    assert_eq!(reasons[0]["reason"], "quota");
    assert_eq!(
        (&reasons[0]["needed"], &reasons[0]["free"]),
        (&json!("8 accelerators"), &json!("7 of the tenant's quota"))
    );
    for path in ["/v1/quotes", "/v1/quotes?dry_run=true"] {
        let (status, answer) = rig.call("t-acme", Method::POST, path, &training("big", "west")).await;
        assert_eq!((status, &answer["outcome"]), (StatusCode::CREATED, &json!("refusal")), "{answer}");
        assert_eq!((&answer["reasons"][0], &answer["binding"]), (&reasons[0], &json!(false)), "{answer}");
    }
    assert_eq!(rig.get("t-admin", "/v1/admin/quotas/acme").await["held"]["accelerators_milli"], 0);
    // another tenant's fits meanwhile, and more is allowed later
    quota(&rig, "acme", json!({ "accelerators": 8 })).await;
    until(&rig, &mut agents, &id, |o| state(o) == "completed").await;
    clean(&rig).await;
}
