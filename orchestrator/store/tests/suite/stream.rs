use crate::{bench::Bench, fixture::*};
use rhumb_store::{AnyStore, Intent, OrderChange, OrderRecord, Outcome, Store as _};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// Writes one more event, however often another comes between.
async fn write(store: &AnyStore, record: &OrderRecord, kind: &str) {
    loop {
        let version = store.order(record.id).await.unwrap().unwrap().version;
        let change = OrderChange { events: vec![event(kind), event(kind)], ..change(record, version) };
        if let Outcome::Changed { .. } = one(store, Intent::Change(Box::new(change))).await {
            return;
        }
    }
}

pub async fn events_of_an_order_have_no_gaps_under_concurrency(bench: &Bench) {
    let store = &bench.store;
    let record = accepted(store, "a").await;
    let writers = (0..6).map(|writer| {
        let (store, record) = (store.clone(), record.clone());
        tokio::spawn(async move {
            for _ in 0..5 {
                write(&store, &record, &format!("by-{writer}")).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let events = store.order_events(record.id, 0, 1_000).await.unwrap();
    let numbers: Vec<u64> = events.iter().map(|e| e.number).collect();
    assert_eq!(numbers, (1..=61).collect::<Vec<u64>>());
    assert!(events.is_sorted_by(|a, b| a.seq < b.seq), "the global sequence rises with the order's");
    let page = store.order_events(record.id, 10, 5).await.unwrap();
    assert_eq!(page.iter().map(|e| e.number).collect::<Vec<_>>(), [11, 12, 13, 14, 15]);
    let twice = "INSERT INTO events (order_id, tenant, number, at_us, kind, message, detail) \
                 SELECT order_id, tenant, number, at_us, kind, message, detail FROM events WHERE number = 7";
    assert!(bench.sql(twice).await.is_err(), "the database refuses a number used twice");
}

pub async fn a_follower_sees_every_event_once(bench: &Bench) {
    const ORDERS: usize = 8;
    const EACH: usize = 12;
    let store = &bench.store;
    let start = store.last_event().await.unwrap();
    let follower = tokio::spawn({
        let store = store.clone();
        async move {
            let (mut seen, mut after) = (Vec::new(), start);
            let deadline = Instant::now() + Duration::from_mins(1);
            while seen.len() < ORDERS * (1 + 2 * EACH) {
                assert!(Instant::now() < deadline, "{} events seen", seen.len());
                let page = store.events_since(after, 7).await.unwrap();
                assert!(page.len() <= 7);
                for event in page {
                    assert!(event.seq > after, "the sequence rises");
                    after = event.seq;
                    seen.push((event.order, event.number));
                }
                tokio::task::yield_now().await;
            }
            (seen, after)
        }
    });
    let writers = (0..ORDERS).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            let record = accepted(&store, "a").await;
            for round in 0..EACH {
                // one that is refused draws numbers too and leaves a gap
                let stale = OrderChange { events: vec![event("stale")], ..change(&record, 999) };
                let good = OrderChange { events: vec![event("x"), event("y")], ..change(&record, 1 + round as i64) };
                let both = vec![Intent::Change(Box::new(stale)), Intent::Change(Box::new(good))];
                store.commit(both).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let (seen, last) = follower.await.unwrap();
    let distinct: BTreeSet<_> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "nothing twice");
    let mut numbers: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for (order, number) in seen {
        numbers.entry(order).or_default().push(number);
    }
    assert_eq!(numbers.len(), ORDERS);
    for of_one in numbers.values() {
        assert_eq!(*of_one, (1..=1 + 2 * EACH as u64).collect::<Vec<_>>(), "in order, without a gap");
    }
    assert!(store.last_event().await.unwrap() >= last);
    assert!(store.events_since(u64::MAX, 10).await.unwrap().is_empty());
}
