//! A desk over a small federation, and a client for it.

use axum::{
    Router,
    body::Body,
    http::{Method, Request, StatusCode, header},
};
use http_body_util::BodyExt;
use rhumb_api::{App, Hosts, router};
pub use rhumb_control::testing::{small as order, training};
use rhumb_control::{
    Base, Desk, ServerConfig,
    config::{Limits, Times},
    secrets::{Secret, sha256},
    testing::FEDERATION,
};
use rhumb_model::{FederationFile, Role, Scope, TokenId};
use rhumb_store::{AnyStore, Intent, PostgresLimits, Store, TokenRecord};
use serde_json::Value;
use tower::ServiceExt;

pub struct Rig {
    pub desk: Desk<AnyStore>,
    pub router: Router,
    setup: fn(&mut Limits, &mut Times),
    configure: fn(&mut ServerConfig),
    folder: tempfile::TempDir,
}

pub const TOKENS: [(&str, Role, &str); 11] = [
    ("t-acme", Role::Member, "acme"),
    ("t-viewer", Role::Viewer, "acme"),
    ("t-chief", Role::TenantAdmin, "acme"),
    ("t-rival", Role::Member, "acme-eu"),
    ("t-third", Role::TenantAdmin, "acm"),
    ("t-admin", Role::PlatformAdmin, "platform"),
    ("t-east-op", Role::SiteOperator, "east"),
    ("t-west-op", Role::SiteOperator, "west"),
    ("t-east", Role::Agent, "east"),
    ("t-west", Role::Agent, "west"),
    ("t-pop", Role::Agent, "pop"),
];

/// As the store has it under this number.
fn record(number: usize, (token, role, subject): (&str, Role, &str)) -> TokenRecord {
    let scope = match role {
        Role::SiteOperator => Scope::Sites([subject.parse().unwrap()].into()),
        Role::Agent => Scope::Point(subject.parse().unwrap()),
        _ => Scope::Tenant(subject.parse().unwrap()),
    };
    TokenRecord {
        id: token_id(number),
        sha256: sha256(token.as_bytes()),
        role,
        scope,
        created: jiff::Timestamp::UNIX_EPOCH,
        created_by: "configuration".to_owned(),
        expires: None,
        revoked: None,
    }
}

/// The id of the token at this place of `TOKENS`.
pub fn token_id(number: usize) -> TokenId {
    TokenId(uuid::Uuid::from_u128(number as u128 + 1))
}

impl Rig {
    pub async fn start() -> Self {
        Self::start_with(|_, _| {}).await
    }

    /// With other limits and times than usual.
    pub async fn start_with(setup: fn(&mut Limits, &mut Times)) -> Self {
        Self::open(tempfile::tempdir().unwrap(), setup, |_| {}).await
    }

    /// With another configuration than usual.
    pub async fn start_with_config(configure: fn(&mut ServerConfig)) -> Self {
        Self::open(tempfile::tempdir().unwrap(), |_, _| {}, configure).await
    }

    /// The same data folder under a new process, as far as the data can tell.
    pub async fn restart(self) -> Self {
        self.desk.stop().await;
        let Self { desk, router, setup, configure, folder } = self;
        desk.store().close().await;
        drop((desk, router));
        Self::open(folder, setup, configure).await
    }

    async fn open(
        folder: tempfile::TempDir,
        setup: fn(&mut Limits, &mut Times),
        configure: fn(&mut ServerConfig),
    ) -> Self {
        let path = |name: &str| folder.path().join(name);
        let url = format!("sqlite:{}", path("rhumb.db").display());
        let store = AnyStore::open(&url, PostgresLimits::default()).await.unwrap();
        let known = ["acme", "acme-eu", "acm", "platform"]
            .map(|name| Intent::KnowTenant { name: name.parse().unwrap(), at: jiff::Timestamp::UNIX_EPOCH });
        let tokens = TOKENS.into_iter().enumerate().map(|(i, token)| Intent::PutToken(record(i, token)));
        store.commit(known.into_iter().chain(tokens).collect()).await.unwrap();
        let mut config: ServerConfig = serde_json::from_value(serde_json::json!({
            "database": url, "federation": path("federation.yaml"), "secret_file": path("secret"),
        }))
        .unwrap();
        config.limits.request_burst = 10_000;
        config.limits.requests_per_second = 10_000;
        setup(&mut config.limits, &mut config.times);
        configure(&mut config);
        let base = Base::new(FederationFile::read(FEDERATION).unwrap()).unwrap();
        let secret = Secret::load(&config.secret_file).unwrap();
        let listen = config.listen;
        let desk = Desk::start(store, base, config, secret).await.unwrap();
        let router = router(App::new(desk.clone(), None), Hosts::new(listen, &[]));
        Self { desk, router, setup, configure, folder }
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
