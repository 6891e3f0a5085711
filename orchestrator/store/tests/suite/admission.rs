//! Who is let in: tenants, tokens, quotas, and the log of what administrators did.

use crate::{Bench, fixture::*};
use rhumb_model::{PointName, Role, Scope, TenantName, TokenId};
use rhumb_store::{
    AuditEntry, AuditFilter, Conflict, Intent, Outcome, Quota, QuotaKind, Store as _, TenantRecord, TokenFilter,
    TokenRecord,
};
use std::path::Path;
use uuid::Uuid;

fn name(text: &str) -> TenantName {
    text.parse().unwrap()
}

fn token(n: u8, role: Role, scope: Scope) -> TokenRecord {
    TokenRecord {
        id: TokenId(Uuid::from_u128(u128::from(n))),
        sha256: [n; 32],
        role,
        scope,
        created: at(0),
        created_by: "configuration".to_owned(),
        expires: (n == 1).then(|| at(60)),
        revoked: None,
    }
}

fn of(tenant: &str) -> Scope {
    Scope::Tenant(name(tenant))
}

fn all() -> Vec<TokenRecord> {
    let sites = Scope::Sites([site("alpha"), site("beta")].into());
    vec![
        token(1, Role::Viewer, of("acme")),
        token(2, Role::Member, of("acme")),
        token(3, Role::TenantAdmin, of("acme")),
        token(4, Role::SiteOperator, sites),
        token(5, Role::PlatformAdmin, of("acme")),
        token(6, Role::Agent, Scope::Point(PointName::new("alpha").unwrap())),
        token(7, Role::Member, of("other")),
    ]
}

pub async fn tokens_read_back(bench: &Bench) {
    let store = &bench.store;
    for token in all() {
        done(store, Intent::PutToken(token.clone())).await;
        assert_eq!(store.token(&token.sha256).await.unwrap(), Some(token));
    }
    assert_eq!(store.token(&[9; 32]).await.unwrap(), None);
    // a file that names it at each start changes what it is, not who it is
    let again = TokenRecord { id: TokenId(Uuid::from_u128(77)), expires: Some(at(1)), ..all().remove(1) };
    done(store, Intent::PutToken(again)).await;
    assert_eq!(store.token(&[2; 32]).await.unwrap(), Some(TokenRecord { expires: Some(at(1)), ..all().remove(1) }));
    let stranger = token(8, Role::Member, of("nobody"));
    assert_eq!(refused(store, Intent::PutToken(stranger)).await, Conflict::Tenant(name("nobody")));
    // what does not fit together is not stored, whoever asks
    assert!(store.commit(vec![Intent::PutToken(token(8, Role::Agent, of("acme")))]).await.is_err());
    assert!(bench.sql("UPDATE tokens SET role = 'site-operator' WHERE role = 'member'").await.is_err());
}

pub async fn a_revoked_token_stays_so(bench: &Bench) {
    let store = &bench.store;
    for token in all() {
        done(store, Intent::PutToken(token)).await;
    }
    let revoke = |n: u128, within: Option<&str>, s| Intent::RevokeToken {
        id: TokenId(Uuid::from_u128(n)),
        within: within.map(name),
        at: at(s),
    };
    for n in [4, 5, 6, 7, 99] {
        assert!(matches!(refused(store, revoke(n, Some("acme"), 1)).await, Conflict::Missing(_)), "{n}");
    }
    done(store, revoke(2, Some("acme"), 1)).await;
    done(store, revoke(2, None, 5)).await;
    done(store, Intent::PutToken(all().remove(1))).await;
    assert_eq!(store.token(&[2; 32]).await.unwrap().unwrap().revoked, Some(at(1)));
    done(store, revoke(5, None, 1)).await;
    assert!(bench.sql("UPDATE tokens SET revoked_us = NULL").await.is_err());
}

pub async fn tokens_come_in_pages_as_far_as_one_may_see_them(bench: &Bench) {
    let store = &bench.store;
    for token in all() {
        done(store, Intent::PutToken(token)).await;
    }
    let ids = async |filter: TokenFilter| -> Vec<u128> {
        store.tokens(&filter).await.unwrap().iter().map(|t| t.id.0.as_u128()).collect()
    };
    assert_eq!(ids(TokenFilter { limit: 3, ..TokenFilter::default() }).await, [7, 6, 5]);
    let before = Some(TokenId(Uuid::from_u128(5)));
    assert_eq!(ids(TokenFilter { before, limit: 200, ..TokenFilter::default() }).await, [4, 3, 2, 1]);
    assert_eq!(ids(TokenFilter { tenant: Some(name("acme")), before: None, limit: 200 }).await, [3, 2, 1]);
    assert_eq!(ids(TokenFilter { tenant: Some(name("acm")), before: None, limit: 200 }).await, [0; 0]);
}

pub async fn a_closed_tenant_is_let_in_no_more(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![node("alpha", "n1", 8)]).await;
    let fresh = TenantRecord { name: name("fresh"), created: at(1), closed: None, quota: Quota::default() };
    done(store, Intent::PutTenant(fresh.clone())).await;
    assert!(matches!(refused(store, Intent::PutTenant(fresh.clone())).await, Conflict::Exists(_)));
    let names: Vec<_> = store.tenants(None, 200).await.unwrap().into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["acme", "fresh", "other"].map(name));
    assert_eq!(store.tenants(Some(&name("acme")), 1).await.unwrap(), [fresh]);
    for token in all() {
        done(store, Intent::PutToken(token)).await;
    }
    let running = accepted(store, "running").await;
    let quoted = quote("quoted");
    let held = wants(vec![want("alpha", 0, gpus(1))]);
    let offer = |record: &rhumb_store::QuoteRecord| Intent::OfferQuote {
        record: Box::new(record.clone()),
        reservation: Some(held.clone()),
        idempotency: None,
    };
    done(store, offer(&quoted)).await;

    done(store, Intent::CloseTenant { name: name("acme"), at: at(9) }).await;
    done(store, Intent::CloseTenant { name: name("acme"), at: at(10) }).await;
    done(store, Intent::KnowTenant { name: name("acme"), at: at(11) }).await;
    assert_eq!(store.tenant(&name("acme")).await.unwrap().unwrap().closed, Some(at(9)));
    assert!(matches!(
        refused(store, Intent::CloseTenant { name: name("nobody"), at: at(9) }).await,
        Conflict::Missing(_)
    ));
    let closed = Conflict::Tenant(name("acme"));
    assert_eq!(refused(store, accept(&order("late"))).await, closed);
    assert_eq!(refused(store, offer(&quote("late"))).await, closed);
    let accept_quote = Intent::AcceptQuote {
        quote: quoted.id,
        at: at(9),
        record: Box::new(order("late")),
        events: vec![],
        idempotency: None,
    };
    assert_eq!(refused(store, accept_quote).await, closed);
    assert_eq!(refused(store, Intent::PutToken(token(9, Role::Viewer, of("acme")))).await, closed);
    for n in [1, 2, 3] {
        assert_eq!(store.token(&[n; 32]).await.unwrap(), None, "{n}");
    }
    let others = [4, 5, 6, 7];
    for n in others {
        assert_eq!(store.token(&[n; 32]).await.unwrap().unwrap().revoked, None, "{n}");
    }
    // what runs goes on
    granted(store, reserve(&running, 1, held.clone())).await;
    // a tenant whose record is gone is no tenant
    let unknown = rhumb_store::OrderRecord { tenant: name("nobody"), ..order("a") };
    assert_eq!(refused(store, accept(&unknown)).await, Conflict::Tenant(name("nobody")));
}

pub async fn what_administrators_did_is_written_with_it_and_stays(bench: &Bench) {
    let store = &bench.store;
    let entry = |n: i64, tenant: Option<&str>| AuditEntry {
        at: at(n),
        actor: "somebody".to_owned(),
        role: "platform-admin".to_owned(),
        action: "token.revoke".to_owned(),
        target: n.to_string(),
        tenant: tenant.map(name),
        detail: serde_json::json!({ "n": n }),
    };
    let administer = |change: Intent, entry| Intent::Administer { change: Box::new(change), entry };
    let close = |tenant: &str| Intent::CloseTenant { name: name(tenant), at: at(1) };
    done(store, administer(close("other"), entry(1, Some("other")))).await;
    // of what was refused there is nothing
    assert!(matches!(refused(store, administer(close("nobody"), entry(2, None))).await, Conflict::Missing(_)));
    for n in 3..6 {
        done(store, administer(Intent::KnowTenant { name: name("acme"), at: at(n) }, entry(n, Some("acme")))).await;
    }
    let read = async |tenant: Option<&str>, before, limit| {
        store.audit_log(&AuditFilter { tenant: tenant.map(name), before, limit }).await.unwrap()
    };
    let found = read(None, None, 200).await;
    assert_eq!(
        found.iter().map(|r| r.entry.clone()).collect::<Vec<_>>(),
        [5, 4, 3, 1].map(|n| entry(n, Some(if n == 1 { "other" } else { "acme" })))
    );
    assert_eq!(read(None, Some(found[1].seq), 1).await, found[2..3]);
    assert_eq!(read(Some("other"), None, 200).await, found[3..]);
    for change in ["UPDATE audit_log SET actor = 'nobody'", "DELETE FROM audit_log"] {
        let error = bench.sql(change).await.unwrap_err();
        assert!(error.contains("only grows"), "{error}");
    }
    if bench.is_postgres() {
        assert!(bench.sql("TRUNCATE audit_log").await.unwrap_err().contains("only grows"));
    }
    assert_eq!(read(None, None, 200).await, found);
}

/// A database of before the table of tenants, brought up to date.
pub async fn a_tenant_of_before_is_known(bench: &Bench) {
    let postgres = bench.is_postgres();
    let fresh = Bench::empty(bench).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
    let folder = folder.join(if postgres { "postgres" } else { "sqlite" });
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let this = files.iter().position(|f| f.ends_with("0009_admit_tenants.sql")).unwrap();
    for file in &files[..this] {
        fresh.sql(&std::fs::read_to_string(file).unwrap()).await.unwrap();
    }
    let bytes = |digit: u8, count: usize| {
        let hex = format!("0{digit}").repeat(count);
        if postgres { format!("decode('{hex}', 'hex')") } else { format!("x'{hex}'") }
    };
    let id = if postgres { "gen_random_uuid()".to_owned() } else { bytes(1, 16) };
    let order = format!(
        "INSERT INTO orders (id, tenant, name, document, state, reasons, generation, version, created_us, updated_us) \
         VALUES ({id}, 'orders-only', 'a', '{{}}', 'completed', '[]', 0, 1, 5, 5)"
    );
    fresh.sql(&order).await.unwrap();
    for (digit, kind, subject) in [(1, "tenant", "acme"), (2, "admin", "platform"), (3, "agent", "alpha")] {
        let sql = format!(
            "INSERT INTO tokens (sha256, kind, subject, created_us, expires_us) \
             VALUES ({}, '{kind}', '{subject}', 7, {})",
            bytes(digit, 32),
            if digit == 1 { "9" } else { "NULL" }
        );
        fresh.sql(&sql).await.unwrap();
    }
    fresh.sql(&std::fs::read_to_string(&files[this]).unwrap()).await.unwrap();
    let count = async |table: &str, filter: &str| {
        fresh.sql(&format!("UPDATE {table} SET created_us = created_us WHERE {filter}")).await.unwrap()
    };
    assert_eq!(count("tenants", "name IN ('orders-only', 'acme', 'platform') AND closed_us IS NULL").await, 3);
    assert_eq!(count("tenants", "TRUE").await, 3);
    assert_eq!(count("tokens", "role = 'member' AND tenant = 'acme' AND expires_us = 9 AND created_us = 7").await, 1);
    assert_eq!(count("tokens", "role = 'platform-admin' AND tenant = 'platform' AND expires_us IS NULL").await, 1);
    assert_eq!(count("tokens", "role = 'agent' AND tenant IS NULL AND point = 'alpha'").await, 1);
    assert_eq!(count("tokens", &format!("sha256 = {}", bytes(2, 32))).await, 1);
}

pub async fn of_eight_at_once_a_quota_lets_as_many_in_as_it_says(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![node("alpha", "n1", 8)]).await;
    let quota = Quota { accelerators: Some(4), orders: Some(3), quotes: Some(2) };
    done(store, Intent::SetQuota { tenant: name("acme"), quota }).await;
    assert_eq!(store.tenant(&name("acme")).await.unwrap().unwrap().quota, quota);
    // two programs on one database
    let stores = [store.clone(), bench.again().await];
    let race = async |intents: Vec<Intent>| {
        let tasks: Vec<_> = intents
            .into_iter()
            .enumerate()
            .map(|(i, intent)| {
                let store = stores[i % 2].clone();
                tokio::spawn(async move { store.commit(vec![intent]).await.unwrap().remove(0) })
            })
            .collect();
        let mut refusals = Vec::new();
        for task in tasks {
            if let Outcome::Refused(why) = task.await.unwrap() {
                refusals.push(why);
            }
        }
        refusals
    };
    let orders = |n: u32| (0..n).map(|i| accept(&order(&format!("o{i}")))).collect::<Vec<_>>();
    let refusals = race(orders(8)).await;
    assert_eq!(refusals.len(), 5);
    let full = Conflict::Quota { kind: QuotaKind::Orders, needed_milli: 1_000, free_milli: 0 };
    assert!(refusals.iter().all(|why| *why == full), "{refusals:?}");
    // another tenant's are another's
    let others = (0..8).map(|i| accept(&rhumb_store::OrderRecord { tenant: name("other"), ..order(&format!("t{i}")) }));
    assert_eq!(race(others.collect()).await, []);
    let offers = (0..8).map(|i| Intent::OfferQuote {
        record: Box::new(quote(&format!("q{i}"))),
        reservation: Some(wants(vec![want("alpha", 0, gpus(1))])),
        idempotency: None,
    });
    assert_eq!(race(offers.collect()).await.len(), 6);
    // of four accelerators two are quoted: one of these fits
    let live: Vec<_> = store.live_orders().await.unwrap().into_iter().filter(|o| o.tenant == name("acme")).collect();
    let refusals = race(live.iter().map(|o| reserve(o, 1, wants(vec![want("alpha", 0, gpus(2))]))).collect()).await;
    let full = Conflict::Quota { kind: QuotaKind::Accelerators, needed_milli: 2_000, free_milli: 0 };
    assert_eq!(refusals, [full.clone(), full]);
    let held = store.held(&name("acme")).await.unwrap();
    assert_eq!((held.accelerators_milli, held.orders, held.quotes), (4_000, 3, 2));
    audit(store).await;
}

pub async fn accelerators_are_counted_where_they_are_held(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![node("alpha", "n1", 8)]).await;
    done(store, Intent::SetQuota { tenant: name("acme"), quota: Quota { accelerators: Some(3), ..Quota::default() } })
        .await;
    let two = || wants(vec![want("alpha", 0, gpus(2))]);
    let (first, second) = (accepted(store, "first").await, accepted(store, "second").await);
    granted(store, reserve(&first, 1, two())).await;
    let why = refused(store, reserve(&second, 1, two())).await;
    assert_eq!(why, Conflict::Quota { kind: QuotaKind::Accelerators, needed_milli: 2_000, free_milli: 1_000 });
    assert_eq!(why.to_string(), "the tenant's quota of accelerators has 1 free, 2 needed");
    // nothing of it is left: neither what it held nor its version
    assert_eq!(store.held(&name("acme")).await.unwrap().accelerators_milli, 2_000);
    let share = need(serde_json::json!({"accelerators": {"share": "50%", "memory": "10GiB"}}));
    granted(store, reserve(&second, 1, wants(vec![want("alpha", 0, share)]))).await;
    assert_eq!(store.held(&name("acme")).await.unwrap().accelerators_milli, 2_500);
    done(store, release(&first, 2)).await;
    assert_eq!(store.held(&name("acme")).await.unwrap().accelerators_milli, 500);
    // who holds more than a new quota allows keeps it and gets no more; work without accelerators goes on
    done(store, Intent::SetQuota { tenant: name("acme"), quota: Quota { accelerators: Some(0), ..Quota::default() } })
        .await;
    let third = accepted(store, "third").await;
    let why = refused(store, reserve(&third, 1, two())).await;
    assert_eq!(why, Conflict::Quota { kind: QuotaKind::Accelerators, needed_milli: 2_000, free_milli: 0 });
    granted(store, reserve(&third, 1, wants(vec![want("alpha", 0, need(serde_json::json!({"cpu": 1})))]))).await;
    audit(store).await;
}
