//! A desk over a small federation, and a client for it.

use axum::{
    Router,
    body::Body,
    http::{Method, Request, StatusCode, header},
};
use http_body_util::BodyExt;
use rhumb_api::{App, Hosts, router};
use rhumb_control::{
    Base, Desk, ServerConfig,
    secrets::{Secret, sha256},
};
use rhumb_model::FederationFile;
use rhumb_store::{AnyStore, Intent, PostgresLimits, Store, TokenKind, TokenRecord};
use serde_json::Value;
use tower::ServiceExt;

pub const FEDERATION: &str = "
currency: CNY
devices:
  H100: {memory: 80GiB, fp16: 1.0}
sites:
  - {name: east, jurisdiction: CN, prices: {H100: 28 CNY, cpu: 0.2 CNY}, nodes: [{count: 1, accelerators: {model: H100, count: 8, islands: [8]}, cpu: 96, memory: 1TiB}]}
  - {name: west, jurisdiction: CN, prices: {H100: 20 CNY, cpu: 0.2 CNY}, nodes: [{count: 1, accelerators: {model: H100, count: 8, islands: [8]}, cpu: 96, memory: 1TiB}]}
transit: [{name: pop, jurisdiction: CN, relay: true}]
links:
  - {id: e-p, from: east, to: pop, both_ways: true, capacity: 100Mbps, latency: 5ms, jurisdictions: [CN], per_gb: 0.1 CNY}
  - {id: p-w, from: pop, to: west, both_ways: true, capacity: 100Mbps, latency: 5ms, jurisdictions: [CN], per_gb: 0.1 CNY}
datasets: [{name: corpus, size: 4MB, at: [east]}]
regions: [{name: users, at: pop, access: 1ms}]
";

pub struct Rig {
    pub desk: Desk<AnyStore>,
    pub router: Router,
    folder: tempfile::TempDir,
}

pub const TOKENS: [(&str, TokenKind, &str); 6] = [
    ("t-acme", TokenKind::Tenant, "acme"),
    ("t-rival", TokenKind::Tenant, "acme-eu"),
    ("t-admin", TokenKind::Admin, "platform"),
    ("t-east", TokenKind::Agent, "east"),
    ("t-west", TokenKind::Agent, "west"),
    ("t-pop", TokenKind::Agent, "pop"),
];

impl Rig {
    pub async fn start() -> Self {
        Self::open(tempfile::tempdir().unwrap()).await
    }

    /// The same data folder under a new process, as far as the data can tell.
    pub async fn restart(self) -> Self {
        self.desk.stop().await;
        let Self { desk, router, folder } = self;
        desk.store().close().await;
        drop((desk, router));
        Self::open(folder).await
    }

    async fn open(folder: tempfile::TempDir) -> Self {
        let path = |name: &str| folder.path().join(name);
        let url = format!("sqlite:{}", path("rhumb.db").display());
        let store = AnyStore::open(&url, PostgresLimits::default()).await.unwrap();
        let tokens = TOKENS.iter().map(|(token, kind, subject)| {
            Intent::PutToken(TokenRecord {
                sha256: sha256(token.as_bytes()),
                kind: *kind,
                subject: (*subject).to_owned(),
                created: jiff::Timestamp::UNIX_EPOCH,
                expires: None,
            })
        });
        store.commit(tokens.collect()).await.unwrap();
        let mut config: ServerConfig = serde_json::from_value(serde_json::json!({
            "database": url, "federation": path("federation.yaml"), "secret_file": path("secret"),
        }))
        .unwrap();
        config.limits.request_burst = 10_000;
        config.limits.requests_per_second = 10_000;
        let base = Base::new(FederationFile::read(FEDERATION).unwrap()).unwrap();
        let secret = Secret::load(&config.secret_file).unwrap();
        let listen = config.listen;
        let desk = Desk::start(store, base, config, secret).await.unwrap();
        let router = router(App::new(desk.clone(), None), Hosts::new(listen, &[]));
        Self { desk, router, folder }
    }

    pub async fn send(&self, request: Request<Body>) -> (StatusCode, Value) {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body =
            serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into()));
        (status, body)
    }

    pub async fn call(&self, token: &str, method: Method, path: &str, body: &str) -> (StatusCode, Value) {
        self.send(request(token, method, path, body)).await
    }

    pub async fn get(&self, token: &str, path: &str) -> Value {
        let (status, body) = self.call(token, Method::GET, path, "").await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        body
    }
}

pub fn request(token: &str, method: Method, path: &str, body: &str) -> Request<Body> {
    let mut builder = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:7070");
    if !token.is_empty() {
        builder = builder.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    builder.header(header::CONTENT_TYPE, "application/yaml").body(Body::from(body.to_owned())).unwrap()
}

/// A CPU order that names its site.
pub fn order(name: &str, site: &str) -> String {
    format!(
        "name: {name}\nclass: processing\ncomponents:\n  - name: job\n    need: {{cpu: 4, memory: 1GiB}}\n    work: {{duration: 6s}}\n    \
         run: {{command: [\"true\"]}}\nconstraints: {{sites: [{site}]}}\n"
    )
}

/// An order for all devices of one site; its data comes from `east`.
pub fn training(name: &str, site: &str) -> String {
    format!(
        "name: {name}\nclass: training\ncomponents:\n  - name: trainer\n    need: {{accelerators: {{count: 8, models: [H100], interconnect: nvlink}}, cpu: 8, memory: 8GiB}}\n    \
         work: {{duration: 6s}}\n    run: {{command: [\"true\"]}}\nflows: [{{from: dataset/corpus, to: trainer}}]\nconstraints: {{sites: [{site}]}}\n"
    )
}
