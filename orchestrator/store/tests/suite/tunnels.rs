//! Numbers of tunnels: each given once, and given back once.

use crate::{bench::Bench, fixture::*};
use rhumb_store::{Conflict, Intent, OrderChange, OrderRecord, Outcome, Store as _, TunnelWant};
use std::collections::BTreeSet;

fn numbers(order: &OrderRecord, path: u32, count: u32) -> TunnelWant {
    let points = vec![site("alpha"), site("beta")];
    TunnelWant { order: order.id, generation: 1, leg: 0, path, count, from: 5_001, to: 5_016, points }
}

fn numbered(outcome: Outcome) -> Vec<u32> {
    match outcome {
        Outcome::Numbered(numbers) => numbers,
        other => panic!("should have been given numbers: {other:?}"),
    }
}

async fn take(bench: &Bench, want: TunnelWant) -> Vec<u32> {
    numbered(one(&bench.store, Intent::TakeTunnels(want)).await)
}

/// Of generation 1, as a reservation makes it.
async fn reserved(bench: &Bench, name: &str) -> OrderRecord {
    let record = accepted(&bench.store, name).await;
    let first = OrderChange { generation: Some(1), ..change(&record, 1) };
    done(&bench.store, Intent::Change(Box::new(first))).await;
    OrderRecord { generation: 1, version: 2, ..record }
}

/// As two orchestrators do: each of the twenty asks for itself, through one of two connections to the data.
pub async fn of_twenty_at_once_sixteen_get_distinct_numbers(bench: &Bench) {
    let mut orders = Vec::new();
    for i in 0..20 {
        orders.push(reserved(bench, &format!("o-{i}")).await);
    }
    let other = bench.again().await;
    let rivals: Vec<_> = orders
        .iter()
        .enumerate()
        .map(|(i, record)| {
            let (store, want) = (if i % 2 == 0 { bench.store.clone() } else { other.clone() }, numbers(record, 0, 1));
            tokio::spawn(async move { one(&store, Intent::TakeTunnels(want)).await })
        })
        .collect();
    let (mut given, mut reasons) = (BTreeSet::new(), Vec::new());
    for rival in rivals {
        match rival.await.unwrap() {
            Outcome::Numbered(numbers) => assert!(numbers.len() == 1 && given.insert(numbers[0]), "{numbers:?} twice"),
            Outcome::Refused(conflict) => reasons.push(conflict),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(given, (5_001..=5_016).collect());
    assert_eq!(reasons, vec![Conflict::Tunnels { from: 5_001, to: 5_016, free: 0, needed: 1 }; 4]);
    let text = reasons[0].to_string();
    assert!(text.starts_with("the pool of tunnel numbers 5001 to 5016 has 0 free, 1 needed"), "{text}");
    let held = bench.store.holdings().await.unwrap().tunnels;
    assert_eq!(held.iter().map(|t| t.number).collect::<BTreeSet<_>>(), given);
    // one that ends gives its number to one that waited, and to no second one
    let ended = orders.iter().find(|o| o.id == held[7].order).unwrap();
    done(&bench.store, release(ended, 2)).await;
    let waiting: Vec<_> = orders.iter().filter(|o| held.iter().all(|t| t.order != o.id)).collect();
    assert_eq!(take(bench, numbers(waiting[0], 0, 1)).await, [5_008]);
    refused(&bench.store, Intent::TakeTunnels(numbers(waiting[1], 0, 1))).await;
}

pub async fn a_path_has_its_numbers_until_nothing_is_left_of_it(bench: &Bench) {
    let store = &bench.store;
    let (a, b) = (reserved(bench, "a").await, reserved(bench, "b").await);
    let first = take(bench, numbers(&a, 0, 2)).await;
    assert_eq!(first, [5_001, 5_002]);
    assert_eq!(take(bench, numbers(&a, 0, 2)).await, first, "asked again, after a lost answer");
    assert_eq!(take(bench, numbers(&a, 1, 1)).await, [5_003]);
    assert_eq!(take(bench, numbers(&b, 0, 1)).await, [5_004]);
    // a path that is gone gives back what is its, and nothing of another's
    let gone = OrderChange { free_tunnels: vec![5_001, 5_002, 5_004], ..change(&a, 2) };
    done(store, Intent::Change(Box::new(gone))).await;
    let held = |holdings: rhumb_store::Holdings| holdings.tunnels.into_iter().map(|t| t.number).collect::<Vec<_>>();
    assert_eq!(held(store.holdings().await.unwrap()), [5_003, 5_004]);
    // the end of the order gives back the rest, but for what may be left at a point that is silent
    assert_eq!(take(bench, numbers(&a, 2, 2)).await, [5_001, 5_002]);
    let ended = Some(rhumb_model::OrderState::Failed);
    let end = OrderChange { release: vec![1], keep_tunnels: vec![5_002], state: ended, ..change(&a, 3) };
    done(store, Intent::Change(Box::new(end))).await;
    let left = store.holdings().await.unwrap().tunnels;
    assert_eq!(left.iter().map(|t| t.number).collect::<Vec<_>>(), [5_002, 5_004]);
    assert_eq!((left[0].order, left[0].leg, left[0].path, left[0].hop), (a.id, 0, 2, 1));
    assert_eq!(left[0].points, [site("alpha"), site("beta")]);
    let free = |order: &OrderRecord| {
        let (order, numbers) = (order.id, vec![5_002, 5_004]);
        Intent::FreeTunnels { order, generation: 1, numbers }
    };
    // b has not ended: what is its stays, whoever thinks otherwise
    for order in [&a, &a, &b] {
        done(store, free(order)).await;
    }
    assert_eq!(held(store.holdings().await.unwrap()), [5_004], "b's");
}

pub async fn what_has_ended_or_is_of_before_gets_no_number(bench: &Bench) {
    let store = &bench.store;
    let a = reserved(bench, "a").await;
    let of = |generation| Intent::TakeTunnels(TunnelWant { generation, ..numbers(&a, 0, 1) });
    assert_eq!(refused(store, of(0)).await, Conflict::Version(a.id, 2));
    assert_eq!(refused(store, of(2)).await, Conflict::Version(a.id, 2));
    let missing = TunnelWant { order: new_id(), ..numbers(&a, 0, 1) };
    assert!(matches!(refused(store, Intent::TakeTunnels(missing)).await, Conflict::Missing(_)));
    let end = OrderChange { state: Some(rhumb_model::OrderState::Cancelled), ..change(&a, 2) };
    done(store, Intent::Change(Box::new(end))).await;
    assert_eq!(refused(store, of(1)).await, Conflict::Final(a.id));
    assert!(store.holdings().await.unwrap().tunnels.is_empty());
}

/// Whatever a program does, the data itself does not take a number twice.
pub async fn a_number_twice_is_impossible(bench: &Bench) {
    let (a, b) = (reserved(bench, "a").await, reserved(bench, "b").await);
    take(bench, numbers(&a, 0, 1)).await;
    take(bench, numbers(&b, 0, 1)).await;
    for sql in [
        "UPDATE tunnels SET number = 5001",
        "UPDATE tunnels SET number = 0 WHERE number = 5001",
        "UPDATE tunnels SET number = 16777216 WHERE number = 5001",
        "INSERT INTO tunnels SELECT 5003, order_id, generation, leg, path, hop, points FROM tunnels WHERE number = 5001",
    ] {
        assert!(bench.sql(sql).await.is_err(), "{sql}");
    }
}
