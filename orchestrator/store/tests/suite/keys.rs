use crate::{bench::Bench, fixture::*};
use rhumb_model::TenantName;
use rhumb_store::{Conflict, IdempotencyRecord, Intent, Outcome, Store as _};

fn key(body: u8, answer: Option<&str>, seconds: i64) -> IdempotencyRecord {
    IdempotencyRecord {
        tenant: TenantName::new("acme").unwrap(),
        key: "k-1".to_owned(),
        body_sha256: [body; 32],
        answer: answer.map(|a| (201, a.to_owned())),
        at: at(seconds),
    }
}

pub async fn a_key_has_one_first_answer(bench: &Bench) {
    let store = &bench.store;
    assert_eq!(store.idempotency("acme", "k-1").await.unwrap(), None);
    done(store, Intent::Remember(key(1, None, 0))).await;
    assert_eq!(store.idempotency("acme", "k-1").await.unwrap(), Some(key(1, None, 0)));
    assert_eq!(refused(store, Intent::Remember(key(1, None, 1))).await, Conflict::Key);
    assert_eq!(refused(store, Intent::Remember(key(2, Some("other body"), 1))).await, Conflict::Key);
    done(store, Intent::Remember(key(1, Some("{}"), 2))).await;
    assert_eq!(refused(store, Intent::Remember(key(1, Some("second"), 3))).await, Conflict::Key);
    assert_eq!(store.idempotency("acme", "k-1").await.unwrap(), Some(key(1, Some("{}"), 2)));
    let other = IdempotencyRecord { tenant: TenantName::new("other").unwrap(), ..key(3, None, 0) };
    done(store, Intent::Remember(other)).await;
    done(store, Intent::Forget { before: at(2), at: at(2) }).await;
    assert!(store.idempotency("acme", "k-1").await.unwrap().is_some());
    assert!(store.idempotency("other", "k-1").await.unwrap().is_none());
}

pub async fn a_key_makes_one_order(bench: &Bench) {
    let store = &bench.store;
    let rivals = (0..10).map(|i| {
        let (store, record) = (store.clone(), order(&format!("o-{i}")));
        let answer = format!("{{\"id\":\"{}\"}}", record.id);
        let intent = Intent::AcceptOrder {
            record: Box::new(record.clone()),
            event: event("acknowledged"),
            idempotency: Some(key(1, Some(&answer), 0)),
        };
        tokio::spawn(async move { (one(&store, intent).await, answer) })
    });
    let mut won = Vec::new();
    for rival in rivals.collect::<Vec<_>>() {
        let (outcome, answer) = rival.await.unwrap();
        match outcome {
            Outcome::Changed { .. } => won.push(answer),
            other => assert_eq!(other, Outcome::Refused(Conflict::Key)),
        }
    }
    assert_eq!(won.len(), 1);
    let orders = store.live_orders().await.unwrap();
    assert_eq!(orders.len(), 1);
    let stored = store.idempotency("acme", "k-1").await.unwrap().unwrap();
    assert_eq!(stored.answer, Some((201, won.remove(0))));
    assert!(stored.answer.unwrap().1.contains(&orders[0].id.to_string()));
}

pub async fn a_claim_is_taken_over_when_it_is_old(bench: &Bench) {
    let store = &bench.store;
    done(store, Intent::Remember(key(1, None, 0))).await;
    assert_eq!(refused(store, Intent::Remember(key(1, None, 60))).await, Conflict::Key);
    assert_eq!(refused(store, Intent::Remember(key(2, None, 61))).await, Conflict::Key, "only with the same body");
    done(store, Intent::Remember(key(1, None, 61))).await;
}
