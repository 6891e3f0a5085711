//! Every route and method that the router has, with every kind of credential: what may pass is written down here, all else
//! must not. A route without a line here fails.

use crate::desk::{Rig, TOKENS, order, token_id};
use axum::http::{Method, StatusCode};
use jiff::SignedDuration;
use rhumb_api::{PUBLIC, openapi};
use rhumb_control::secrets::sha256;
use rhumb_model::{Action, Role, Scope, TokenId};
use rhumb_store::{Intent, Store, TokenRecord};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// What a route asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// A secret in the body, whatever the headers say.
    JoinToken,
    Action(Action),
    /// A certificate: no token opens it.
    Certificate,
}

/// The table, by hand.
const EXPECTED: &[(&str, &str, Needs)] = {
    use Action::*;
    use Needs::{Action as Of, Certificate, JoinToken, Nothing};
    &[
        ("GET", "/healthz", Nothing),
        ("GET", "/readyz", Nothing),
        ("GET", "/metrics", Of(Inspect)),
        ("GET", "/agent/v1/authority", Nothing),
        ("POST", "/agent/v1/join", JoinToken),
        ("POST", "/agent/v1/renew", Certificate),
        ("POST", "/agent/v1/sync", Of(Sync)),
        ("GET", "/v1/orders", Of(ReadWork)),
        ("POST", "/v1/orders", Of(Order)),
        ("GET", "/v1/orders/{id}", Of(ReadWork)),
        ("PATCH", "/v1/orders/{id}", Of(Order)),
        ("DELETE", "/v1/orders/{id}", Of(Order)),
        ("GET", "/v1/orders/{id}/explain", Of(ReadWork)),
        ("GET", "/v1/orders/{id}/events", Of(ReadWork)),
        ("GET", "/v1/orders/{id}/logs", Of(ReadWork)),
        ("GET", "/v1/orders/{id}/usage", Of(ReadWork)),
        ("POST", "/v1/quotes", Of(Order)),
        ("GET", "/v1/quotes/{id}", Of(ReadWork)),
        ("DELETE", "/v1/quotes/{id}", Of(Order)),
        ("GET", "/v1/sites", Of(ReadFederation)),
        ("GET", "/v1/sites/{name}", Of(ReadFederation)),
        ("GET", "/v1/links", Of(ReadFederation)),
        ("GET", "/v1/links/{id}", Of(ReadFederation)),
        ("GET", "/v1/links/{id}/history", Of(ReadFederation)),
        ("GET", "/v1/pairs", Of(ReadFederation)),
        ("GET", "/v1/transit", Of(ReadFederation)),
        ("GET", "/v1/regions", Of(ReadFederation)),
        ("GET", "/v1/datasets", Of(ReadFederation)),
        ("GET", "/v1/routes", Of(ReadWork)),
        ("GET", "/v1/paths", Of(ReadFederation)),
        ("GET", "/v1/metrics/four", Of(ReadWork)),
        ("GET", "/v1/events", Of(ReadFederation)),
        ("GET", "/v1/admin/audit", Of(Inspect)),
        ("GET", "/v1/admin/audit-log", Of(ReadAuditLog)),
        ("POST", "/v1/admin/sites/{name}/{action}", Of(OperateSites)),
        ("GET", "/v1/admin/tokens", Of(ManageTokens)),
        ("POST", "/v1/admin/tokens", Of(ManageTokens)),
        ("DELETE", "/v1/admin/tokens/{id}", Of(ManageTokens)),
        ("GET", "/v1/admin/tenants", Of(ReadTenants)),
        ("POST", "/v1/admin/tenants", Of(ManageTenants)),
        ("GET", "/v1/admin/tenants/{name}", Of(ReadTenants)),
        ("DELETE", "/v1/admin/tenants/{name}", Of(ManageTenants)),
        ("GET", "/v1/admin/quotas/{name}", Of(ReadTenants)),
        ("PUT", "/v1/admin/quotas/{name}", Of(ManageTenants)),
        ("POST", "/v1/admin/join-tokens", Of(OperateSites)),
        ("GET", "/v1/admin/points/{name}/certificates", Of(OperateSites)),
        ("DELETE", "/v1/admin/certificates/{serial}", Of(OperateSites)),
        ("POST", "/v1/admin/authorities", Of(ManageAuthorities)),
        ("DELETE", "/v1/admin/authorities/{fingerprint}", Of(ManageAuthorities)),
    ]
};

/// Whom an action is for, written down once more: the program's own table is held against it.
fn is_for(action: Action) -> &'static [Role] {
    use Role::{Agent, Member, PlatformAdmin, SiteOperator, TenantAdmin, Viewer};
    match action {
        Action::ReadFederation => &[Viewer, Member, TenantAdmin, SiteOperator, PlatformAdmin],
        Action::ReadWork => &[Viewer, Member, TenantAdmin, PlatformAdmin],
        Action::Order => &[Member, TenantAdmin, PlatformAdmin],
        Action::ManageTokens | Action::ReadTenants | Action::ReadAuditLog => &[TenantAdmin, PlatformAdmin],
        Action::OperateSites => &[SiteOperator, PlatformAdmin],
        Action::ManageTenants | Action::ManageAuthorities | Action::Inspect => &[PlatformAdmin],
        Action::Sync => &[Agent],
    }
}

const NOBODYS: &str = "0190a0a0-0000-7000-8000-000000000000";

fn concrete(path: &str) -> String {
    let name = if path.contains("tenants") || path.contains("quotas") { "nobody" } else { "east" };
    path.replace("{id}", NOBODYS)
        .replace("{name}", name)
        .replace("{action}", "undrain")
        .replace("{serial}", "0")
        .replace("{fingerprint}", "0")
}

/// Every route and method of the router, as it describes itself: it has no other way to have one.
fn routes() -> BTreeSet<(String, String)> {
    let document = serde_json::to_value(openapi()).unwrap();
    let methods = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
    let of = |path: &String, item: &serde_json::Value| {
        let known = item.as_object().unwrap().keys().filter(|m| methods.contains(&m.as_str()));
        known.map(|m| (m.to_uppercase(), path.clone())).collect::<Vec<_>>()
    };
    document["paths"].as_object().unwrap().iter().flat_map(|(path, item)| of(path, item)).collect()
}

fn expected() -> BTreeMap<(String, String), Needs> {
    let of = |(method, path, needs): &(&str, &str, Needs)| (((*method).to_owned(), (*path).to_owned()), *needs);
    EXPECTED.iter().map(of).collect()
}

/// Adds tokens that are good no more.
async fn ended(rig: &Rig) -> [&'static str; 4] {
    let now = rig.desk.now();
    let record = |n: u128, token: &str, tenant: &str| TokenRecord {
        id: TokenId(uuid::Uuid::from_u128(n)),
        sha256: sha256(token.as_bytes()),
        role: Role::TenantAdmin,
        scope: Scope::Tenant(tenant.parse().unwrap()),
        created: now,
        created_by: "configuration".to_owned(),
        expires: None,
        revoked: None,
    };
    let gone = || "gone".parse().unwrap();
    let past = now - SignedDuration::from_secs(1);
    let intents = vec![
        Intent::KnowTenant { name: gone(), at: now },
        Intent::PutToken(TokenRecord { expires: Some(past), ..record(100, "t-expired", "acme") }),
        Intent::PutToken(TokenRecord { role: Role::PlatformAdmin, ..record(101, "t-revoked", "platform") }),
        Intent::RevokeToken { id: TokenId(uuid::Uuid::from_u128(101)), within: None, at: now },
        Intent::PutToken(record(102, "t-closed", "gone")),
        Intent::CloseTenant { name: gone(), at: now },
    ];
    for outcome in rig.desk.store().commit(intents).await.unwrap() {
        assert!(!matches!(outcome, rhumb_store::Outcome::Refused(_)), "{outcome:?}");
    }
    ["t-expired", "t-revoked", "t-closed", "garbage"]
}

async fn ask(rig: &Rig, token: &str, method: &str, path: &str) -> StatusCode {
    use tower::ServiceExt;
    let method: Method = method.parse().unwrap();
    let request = crate::desk::request(token, method, &concrete(path), "{}");
    // without the body: a stream has no end
    rig.router.clone().oneshot(request).await.unwrap().status()
}

#[test]
fn every_route_has_its_line_and_every_line_its_route() {
    let (routes, expected) = (routes(), expected());
    assert_eq!(expected.len(), EXPECTED.len(), "a route has two lines");
    let missing: Vec<_> = routes.iter().filter(|r| !expected.contains_key(*r)).collect();
    assert!(missing.is_empty(), "say who may use these: {missing:?}");
    let gone: Vec<_> = expected.keys().filter(|r| !routes.contains(*r)).collect();
    assert!(gone.is_empty(), "these are no routes: {gone:?}");
    for ((_, path), needs) in &expected {
        assert_eq!(PUBLIC.contains(&path.as_str()), *needs == Needs::Nothing, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_route_opens_to_whom_it_is_for_and_to_nobody_else() {
    let rig = Rig::start().await;
    let worthless = ended(&rig).await;
    let expected = expected();
    let (mut asked, mut holes) = (0, Vec::new());
    for (method, path) in routes() {
        let needs = expected[&(method.clone(), path.clone())];
        let mut check = async |token: &str, right: &dyn Fn(StatusCode) -> bool| {
            let status = ask(&rig, token, &method, &path).await;
            asked += 1;
            if !right(status) {
                holes.push(format!("{method} {path} with {token:?}: {status}"));
            }
        };
        for token in worthless.into_iter().chain(["", "t-acme-", "t-acm", "T-ACME"]) {
            match needs {
                Needs::Nothing => check(token, &|s| s == StatusCode::OK).await,
                _ => check(token, &|s| s == StatusCode::UNAUTHORIZED).await,
            }
        }
        for (token, role, _) in TOKENS {
            match needs {
                Needs::Nothing => check(token, &|s| s == StatusCode::OK).await,
                Needs::JoinToken => check(token, &|s| s == StatusCode::UNAUTHORIZED).await,
                Needs::Certificate => check(token, &|s| s == StatusCode::FORBIDDEN).await,
                Needs::Action(action) if is_for(action).contains(&role) => {
                    let opened = |s: StatusCode| s != StatusCode::UNAUTHORIZED && s != StatusCode::FORBIDDEN;
                    // the path names the site east
                    let anothers = token == "t-west-op" && path.contains("{name}") && action == Action::OperateSites;
                    check(token, &|s| {
                        if anothers { s == StatusCode::FORBIDDEN } else { opened(s) && !s.is_server_error() }
                    })
                    .await;
                }
                Needs::Action(_) => check(token, &|s| s == StatusCode::FORBIDDEN).await,
            }
        }
    }
    assert!(holes.is_empty(), "{} holes of {asked}: {holes:#?}", holes.len());
    assert!(asked >= 49 * 19, "only {asked} asked");
}

/// H-S06 too: `acm` and `acme-eu` are other tenants than `acme`, whatever their names begin with.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_anothers_is_not_there() {
    let rig = Rig::start().await;
    let (status, body) = rig.call("t-acme", Method::POST, "/v1/orders", &order("mine", "east")).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    let order_id = body["id"].as_str().unwrap().to_owned();
    let (status, body) = rig.call("t-acme", Method::POST, "/v1/quotes?dry_run=true", &order("asked", "east")).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    let quote_id = body["id"].as_str().unwrap().to_owned();
    let token = token_id(0).to_string();
    for (method, path) in routes() {
        let things: &[(&str, &str)] = match path.as_str() {
            p if p.starts_with("/v1/orders/{id}") => &[("{id}", &order_id)],
            "/v1/quotes/{id}" => &[("{id}", &quote_id)],
            "/v1/admin/tokens/{id}" => &[("{id}", &token)],
            "/v1/admin/tenants/{name}" | "/v1/admin/quotas/{name}" => &[("{name}", "acme")],
            _ => continue,
        };
        let path = things.iter().fold(path.clone(), |path, (hole, with)| path.replace(hole, with));
        let method: Method = method.parse().unwrap();
        for stranger in ["t-rival", "t-third"] {
            let document = order("other", "east");
            let body = if method == Method::PATCH { document.as_str() } else { "{}" };
            let (status, answer) = rig.call(stranger, method.clone(), &path, body).await;
            let role = TOKENS.iter().find(|t| t.0 == stranger).unwrap().1;
            let action = expected().into_iter().find_map(|((m, p), needs)| {
                let same =
                    m == method.as_str() && things.iter().fold(p, |p, (hole, with)| p.replace(hole, with)) == path;
                match needs {
                    Needs::Action(action) if same => Some(action),
                    _ => None,
                }
            });
            let right =
                if is_for(action.unwrap()).contains(&role) { StatusCode::NOT_FOUND } else { StatusCode::FORBIDDEN };
            assert_eq!(status, right, "{method} {path} with {stranger}: {answer}");
            // and what does not exist at all looks the same
            if right == StatusCode::NOT_FOUND && path.contains(NOBODYS) {
                assert!(answer["detail"].as_str().unwrap().ends_with("does not exist"), "{answer}");
            }
        }
    }
    // lists have nothing of it
    for stranger in ["t-rival", "t-third"] {
        for path in ["/v1/orders", "/v1/routes?all=true"] {
            assert_eq!(rig.get(stranger, path).await["items"], json!([]), "{path}");
        }
        let four = rig.get(stranger, "/v1/metrics/four").await;
        assert_eq!(four["orders"], 0);
    }
    for path in ["/v1/admin/tokens", "/v1/admin/tenants", "/v1/admin/audit-log"] {
        let seen = rig.get("t-third", path).await;
        assert!(!seen.to_string().contains("acme"), "{path}: {seen}");
    }
}
