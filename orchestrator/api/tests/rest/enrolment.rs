//! Agents that join, come with certificates over TLS, renew them, and lose them.

use crate::desk::Rig;
use axum::http::{Method, StatusCode};
use jiff::SignedDuration;
use reqwest::{Certificate, Client, Identity};
use rhumb_api::{Hosts, serve_tls, tls};
use rhumb_control::testing::FakeAgent;
use rhumb_identity::{AgentKey, Authority, JoinToken, Serial};
use rhumb_model::{PointName, Span};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What an agent keeps.
pub struct Holder {
    key: String,
    certificate: String,
    authorities: String,
}

impl Holder {
    pub fn client(&self) -> Client {
        client(&self.authorities, Some(&format!("{}{}", self.key, self.certificate)))
    }
}

fn client(authorities: &str, identity: Option<&str>) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let roots = Certificate::from_pem_bundle(authorities.as_bytes()).unwrap();
    let mut builder = Client::builder().tls_certs_only(roots).timeout(Duration::from_secs(20));
    if let Some(identity) = identity {
        builder = builder.identity(Identity::from_pem(identity.as_bytes()).unwrap());
    }
    builder.build().unwrap()
}

/// The rig behind TLS, with the address that agents use.
pub async fn secured(rig: &Rig) -> (String, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = rhumb_api::router(rhumb_api::App::new(rig.desk.clone(), None), Hosts::new(address, &[]));
    let current = tls::keep(&rig.desk, &["127.0.0.1".to_owned()]).unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(serve_tls(listener, router, current, 100, stop.clone()));
    (format!("https://{address}"), stop)
}

pub async fn token(rig: &Rig, wish: &Value) -> JoinToken {
    let (status, made) = rig.call("t-admin", Method::POST, "/v1/admin/join-tokens", &wish.to_string()).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    made["token"].as_str().unwrap().parse().unwrap()
}

pub async fn join(rig: &Rig, token: &JoinToken) -> Result<Holder, (StatusCode, Value)> {
    let key = AgentKey::generate().unwrap();
    let body = json!({"secret": token.secret.as_str(), "request": key.request().unwrap()}).to_string();
    let (status, answer) = rig.call("", Method::POST, "/agent/v1/join", &body).await;
    if status != StatusCode::CREATED {
        return Err((status, answer));
    }
    let text = |field: &str| answer[field].as_str().unwrap().to_owned();
    Ok(Holder { key: key.to_pem(), certificate: text("certificate"), authorities: text("authorities") })
}

pub async fn sync(client: &Client, url: &str, agent: &mut FakeAgent, wait_ms: u64) -> (u16, Value) {
    let mut report = agent.report();
    report.wait_ms = wait_ms;
    let answer = client.post(format!("{url}/agent/v1/sync")).json(&report).send().await.unwrap();
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap();
    if let Ok(reply) = serde_json::from_value(body.clone()) {
        agent.accept(&reply);
    }
    (status, body)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_joined_is_known_by_its_certificate_alone() {
    let rig = Rig::start().await;
    let (url, _stop) = secured(&rig).await;
    let east = join(&rig, &token(&rig, &json!({"point": "east"})).await).await.ok().unwrap();
    let (mut agent, mut other) = (FakeAgent::new("east"), FakeAgent::new("west"));
    assert_eq!(sync(&east.client(), &url, &mut agent, 0).await.0, 200);
    // it speaks for no other point
    assert_eq!(sync(&east.client(), &url, &mut other, 0).await.0, 403);
    // whoever comes without a certificate is served, and needs another credential
    assert_eq!(sync(&client(&east.authorities, None), &url, &mut agent, 0).await.0, 401);
    let orders = client(&east.authorities, None).get(format!("{url}/v1/orders")).bearer_auth("t-acme").send().await;
    assert_eq!(orders.unwrap().status().as_u16(), 200);
    // and a certificate opens nothing that is not an agent's
    let orders = east.client().get(format!("{url}/v1/orders")).send().await.unwrap();
    assert_eq!(orders.status().as_u16(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_agents_with_one_join_token_one_joins() {
    let rig = Rig::start().await;
    let token = token(&rig, &json!({"point": "east", "life": "10m"})).await;
    let all = futures::future::join_all((0..50).map(|_| join(&rig, &token))).await;
    assert_eq!(all.iter().filter(|joined| joined.is_ok()).count(), 1);
    for refused in all.into_iter().filter_map(Result::err) {
        assert_eq!(refused.0, StatusCode::UNAUTHORIZED, "{}", refused.1);
    }
    let known = rig.get("t-admin", "/v1/admin/points/east/certificates").await;
    assert_eq!(known["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn join_tokens_that_are_not_good_open_nothing() {
    let rig = Rig::start().await;
    let good = token(&rig, &json!({"point": "east"})).await;
    let key = AgentKey::generate().unwrap().request().unwrap();
    let body = |secret: &str, request: &str| json!({"secret": secret, "request": request}).to_string();
    for secret in ["", "t-admin", &"0".repeat(32), &good.secret.as_str()[1..], &good.reveal()] {
        let (status, answer) = rig.call("", Method::POST, "/agent/v1/join", &body(secret, &key)).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{answer}");
        assert!(!answer.to_string().contains(good.secret.as_str()));
    }
    // a request that is none does not use the token up
    let (status, answer) = rig.call("", Method::POST, "/agent/v1/join", &body(good.secret.as_str(), "nonsense")).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    assert!(join(&rig, &good).await.is_ok());
    for (wish, field) in [
        (json!({"point": "nowhere"}), "/point"),
        (json!({"point": "east", "life": "0s"}), "/life"),
        (json!({"point": "east", "life": "8d"}), "/life"),
    ] {
        let (status, answer) = rig.call("t-admin", Method::POST, "/v1/admin/join-tokens", &wish.to_string()).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        assert_eq!(answer["errors"][0]["pointer"], field);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_token_ends_and_so_does_a_certificate() {
    let rig = Rig::start_with_config(|config| config.identity.certificate_life = Span::from_micros(1_500_000)).await;
    let (url, _stop) = secured(&rig).await;
    let short = token(&rig, &json!({"point": "west", "life": "1s"})).await;
    let east = join(&rig, &token(&rig, &json!({"point": "east"})).await).await.ok().unwrap();
    let kept_open = east.client();
    let mut agent = FakeAgent::new("east");
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let (status, answer) = sync(&kept_open, &url, &mut agent, 0).await;
        if status == 401 {
            assert!(answer["detail"].as_str().unwrap().contains("expired"), "{answer}");
            break;
        }
        assert!(Instant::now() < deadline, "the certificate never ended");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // a new connection does not even get that far; there the time of a certificate ends with a whole second
    while east.client().get(format!("{url}/healthz")).send().await.is_ok() {
        assert!(Instant::now() < deadline, "the certificate never ended");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(join(&rig, &short).await.err().unwrap().0, StatusCode::UNAUTHORIZED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_agent_hears_nothing_more_on_its_open_connection() {
    let rig = Rig::start().await;
    let (url, _stop) = secured(&rig).await;
    let east = join(&rig, &token(&rig, &json!({"point": "east"})).await).await.ok().unwrap();
    let client = east.client();
    let mut agent = FakeAgent::new("east");
    assert_eq!(sync(&client, &url, &mut agent, 0).await.0, 200);
    let known = rig.get("t-admin", "/v1/admin/points/east/certificates").await;
    let serial = known["items"][0]["serial"].as_str().unwrap().to_owned();
    let (waiting, again) = (client.clone(), url.clone());
    // a call that the orchestrator holds
    let held = tokio::spawn(async move {
        loop {
            let (status, answer) = sync(&waiting, &again, &mut agent, 60_000).await;
            if status != 200 {
                return (status, answer, agent);
            }
        }
    });
    let path = format!("/v1/admin/certificates/{serial}");
    let (status, _) = rig.call("t-admin", Method::DELETE, &path, "").await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let (status, _, mut agent) = tokio::time::timeout(Duration::from_secs(5), held).await.unwrap().unwrap();
    assert_eq!(status, 401);
    let (status, answer) = sync(&client, &url, &mut agent, 0).await;
    assert_eq!(status, 401);
    assert!(answer["detail"].as_str().unwrap().contains("revoked"), "{answer}");
    let request = AgentKey::generate().unwrap().request().unwrap();
    let renewed = client.post(format!("{url}/agent/v1/renew")).json(&json!({"request": request})).send().await.unwrap();
    assert_eq!(renewed.status().as_u16(), 401);
    assert_eq!(rig.call("t-admin", Method::DELETE, "/v1/admin/certificates/00", "").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_others_signed_or_that_are_for_something_else_are_refused() {
    let rig = Rig::start().await;
    let (url, _stop) = secured(&rig).await;
    let trust = rig.desk.trust().borrow().clone().unwrap();
    let (now, life) = (jiff::Timestamp::now(), SignedDuration::from_hours(1));
    let east = PointName::new("east").unwrap();
    let key = AgentKey::generate().unwrap();
    let request = key.request().unwrap();
    let (stranger, _) = Authority::create("rhumb", now, life).unwrap();
    let forged = stranger.sign_agent(&request, &east, Serial::new([3; 16]), now, life).unwrap();
    let (server, server_key) = trust.authority.sign_server(&["a".into()], Serial::new([4; 16]), now, life).unwrap();
    let early = now + SignedDuration::from_hours(2);
    let early = trust.authority.sign_agent(&request, &east, Serial::new([5; 16]), early, life).unwrap();
    for (key, certificate) in [(key.to_pem(), forged.pem), (server_key, server.pem), (key.to_pem(), early.pem)] {
        let client = client(&trust.bundle, Some(&format!("{key}{certificate}")));
        let answer = client.get(format!("{url}/healthz")).send().await;
        assert!(answer.is_err(), "{answer:?}");
    }
    // signed by the right one, but never given out
    let unknown = trust.authority.sign_agent(&request, &east, Serial::new([6; 16]), now, life).unwrap();
    let client = client(&trust.bundle, Some(&format!("{}{}", key.to_pem(), unknown.pem)));
    assert_eq!(sync(&client, &url, &mut FakeAgent::new("east"), 0).await.0, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn authorities_change_while_agents_go_on() {
    let rig = Rig::start().await;
    let (url, _stop) = secured(&rig).await;
    let first = rig.get("t-admin", "/agent/v1/authority").await;
    let east = join(&rig, &token(&rig, &json!({"point": "east"})).await).await.ok().unwrap();
    let mut agent = FakeAgent::new("east");
    let (status, second) = rig.call("t-admin", Method::POST, "/v1/admin/authorities", "").await;
    assert_eq!(status, StatusCode::CREATED);
    assert_ne!(first["fingerprint"], second["fingerprint"]);
    // who knows the first one only goes on, and learns of the second with its next certificate
    assert_eq!(sync(&east.client(), &url, &mut agent, 0).await.0, 200);
    let key = AgentKey::generate().unwrap();
    let body = json!({"request": key.request().unwrap()});
    let renewed = east.client().post(format!("{url}/agent/v1/renew")).json(&body).send().await.unwrap();
    assert_eq!(renewed.status().as_u16(), 201);
    let answer: Value = renewed.json().await.unwrap();
    let text = |field: &str| answer[field].as_str().unwrap().to_owned();
    let renewed = Holder { key: key.to_pem(), certificate: text("certificate"), authorities: text("authorities") };
    assert_eq!(sync(&renewed.client(), &url, &mut agent, 0).await.0, 200);
    let retire = |of: &Value| format!("/v1/admin/authorities/{}", of["fingerprint"].as_str().unwrap());
    // the one that signs stays
    assert_eq!(rig.call("t-admin", Method::DELETE, &retire(&second), "").await.0, StatusCode::NOT_FOUND);
    assert_eq!(rig.call("t-admin", Method::DELETE, &retire(&first), "").await.0, StatusCode::NO_CONTENT);
    let deadline = Instant::now() + Duration::from_secs(20);
    // what serves new connections is replaced a moment later
    while east.client().get(format!("{url}/healthz")).send().await.is_ok() {
        assert!(Instant::now() < deadline, "the retired authority's certificates are still taken");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(sync(&renewed.client(), &url, &mut agent, 0).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_does_not_grow_beyond_what_it_was_enrolled_for() {
    let rig = Rig::start().await;
    let (url, _stop) = secured(&rig).await;
    let mut agent = FakeAgent::new("east");
    let has: usize = agent.report().nodes.iter().flatten().map(|n| n.devices.len()).sum();
    assert!(has > 1);
    let wish = |most: usize| json!({"point": "east", "most_accelerators": most});
    let tight = join(&rig, &token(&rig, &wish(has - 1)).await).await.ok().unwrap();
    let (status, answer) = sync(&tight.client(), &url, &mut agent, 0).await;
    assert_eq!(status, 403);
    let detail = answer["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("{has} accelerators")) && detail.contains("ceiling"), "{detail}");
    let wide = join(&rig, &token(&rig, &wish(has)).await).await.ok().unwrap();
    assert_eq!(sync(&wide.client(), &url, &mut FakeAgent::new("east"), 0).await.0, 200);
}
