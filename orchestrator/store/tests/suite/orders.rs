use crate::{bench::Bench, fixture::*};
use rhumb_model::{OrderState, Phase, Reason, TenantName};
use rhumb_provision::Checkpoint;
use rhumb_store::{Conflict, Intent, OrderChange, OrderFilter, OrderRecord, Outcome, Store as _, UsageRecord};
use serde_json::json;
use std::collections::BTreeSet;

fn reason() -> Reason {
    serde_json::from_value(json!({"reason": "capacity", "site": "alpha", "needed": "8 H100", "free": "3 H100"}))
        .unwrap()
}

/// Every field filled.
fn full() -> OrderRecord {
    let cost = json!({"total_micros": 7, "compute_micros": 1, "path_micros": 2, "transfer_micros": 4, "time_micros": 0,
                      "lateness_micros": 0, "fragmentation_micros": 0, "currency": "CNY"});
    let plan = json!({
        "components": [{"name": "trainer", "assignments": [{"site": "alpha", "replicas": 2, "model": "H100", "devices_per_replica": 4}]}],
        "flows": [{"flow": 0, "from": "dataset/d", "to": "trainer", "from_site": "beta", "to_site": "alpha", "path": ["ab~"],
                   "rate_kbps": 5_000, "volume_bytes": 9_000_000_000_000_000_u64, "demand_mrps": 0, "latency_us": 12}],
        "start": "2026-10-01T00:00:00.000001Z", "finish": "2026-10-01T06:00:00.123456Z", "cost": cost,
        "lower_bound_micros": 6, "gap_ppm": 142_858, "proven_optimal": false
    });
    let saga = json!({"generation": 1, "phase": "holding", "goal": "complete", "replicas": [], "legs": [],
                      "barrier": {"epoch": 3, "generation": 9}, "phase_since": "2026-10-01T00:00:00.000001Z"});
    OrderRecord {
        state: OrderState::InProgress,
        phase: Some(Phase::Holding),
        attention: Some("相当 \u{0} \"quoted\" \\ 🚀".replace('\0', "")),
        reasons: vec![reason()],
        plan: Some(serde_json::from_value(plan).unwrap()),
        cost: Some(serde_json::from_value(cost).unwrap()),
        saga: Some(serde_json::from_value(saga).unwrap()),
        checkpoints: vec![checkpoint(1, "step-400")],
        quote_id: Some(quote("q").id),
        generation: 4,
        version: 17,
        updated: at(1),
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
        ..order("full")
    }
}

fn checkpoint(replica: u32, name: &str) -> Checkpoint {
    Checkpoint { component: "trainer".parse().unwrap(), replica, name: name.to_owned() }
}

pub async fn an_order_reads_back_as_it_was_accepted(bench: &Bench) {
    let store = &bench.store;
    for record in [full(), order("bare")] {
        assert_eq!(done(store, accept(&record)).await, Outcome::Changed { version: record.version });
        assert_eq!(store.order(record.id).await.unwrap().as_ref(), Some(&record));
        let events = store.order_events(record.id, 0, 10).await.unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!((events[0].number, events[0].at), (1, record.created));
        assert_eq!((&events[0].event, &events[0].tenant), (&event("acknowledged"), &record.tenant));
        assert!(matches!(refused(store, accept(&record)).await, Conflict::Exists(_)), "an id is used once");
    }
    assert_eq!(store.order(new_id()).await.unwrap(), None);
    store.ping().await.unwrap();
}

pub async fn a_change_needs_the_current_version(bench: &Bench) {
    let store = &bench.store;
    let record = accepted(store, "a").await;
    let pending = OrderChange { state: Some(OrderState::Pending), ..change(&record, 1) };
    assert_eq!(done(store, Intent::Change(Box::new(pending.clone()))).await, Outcome::Changed { version: 2 });
    let conflict = refused(store, Intent::Change(Box::new(pending))).await;
    assert_eq!(conflict, Conflict::Version(record.id, 1));

    let rivals = (0..8).map(|_| {
        let store = store.clone();
        let intent = Intent::Change(Box::new(OrderChange { events: vec![event("won")], ..change(&record, 2) }));
        tokio::spawn(async move { one(&store, intent).await })
    });
    let mut won = 0;
    for rival in rivals.collect::<Vec<_>>() {
        won += u32::from(rival.await.unwrap() == Outcome::Changed { version: 3 });
    }
    assert_eq!(won, 1, "of changes made on one version one wins");
    assert_eq!(store.order_events(record.id, 1, 10).await.unwrap().len(), 1);
}

/// A gang of three was decided on; before that was committed, the order was amended to a gang of seven.
pub async fn what_was_decided_on_an_older_document_is_refused_and_holds_nothing(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![node("alpha", "n0", 5)]).await;
    let record = accepted(store, "three").await;
    let seven = document("seven");
    let amend = OrderChange { document: Some(seven.clone()), events: vec![event("amended")], ..change(&record, 1) };
    assert_eq!(done(store, Intent::Change(Box::new(amend))).await, Outcome::Changed { version: 2 });
    let three = || wants((0..3).map(|i| want("alpha", i, gpus(1))).collect());
    assert_eq!(refused(store, reserve(&record, 1, three())).await, Conflict::Version(record.id, 1));
    let holdings = store.holdings().await.unwrap();
    assert!(holdings.replicas.is_empty() && holdings.links.is_empty(), "{holdings:?}");
    let after = store.order(record.id).await.unwrap().unwrap();
    assert_eq!(after, OrderRecord { document: seven, version: 2, updated: at(1), ..record.clone() });
    let named = OrderFilter { name: Some("seven".to_owned()), limit: 10, ..OrderFilter::default() };
    assert_eq!(store.orders(&named).await.unwrap().items, [after]);
    // of the seven there is room for five: none of them is held
    let seven = wants((0..7).map(|i| want("alpha", i, gpus(1))).collect());
    assert!(matches!(refused(store, reserve(&record, 2, seven)).await, Conflict::Room { .. }));
    assert!(store.holdings().await.unwrap().replicas.is_empty());
    assert_eq!(granted(store, reserve(&record, 2, three())).await.len(), 3);
    audit(store).await;
}

pub async fn what_a_change_leaves_out_stays(bench: &Bench) {
    let store = &bench.store;
    let record = full();
    done(store, accept(&record)).await;
    done(store, Intent::Change(Box::new(change(&record, 17)))).await;
    let after = store.order(record.id).await.unwrap().unwrap();
    assert_eq!(after, OrderRecord { version: 18, updated: at(17), ..record.clone() });

    let all = OrderChange {
        state: Some(OrderState::Pending),
        phase: Some(None),
        attention: Some(None),
        reasons: Some(vec![]),
        plan: Some(None),
        cost: Some(None),
        saga: Some(None),
        checkpoints: Some(vec![checkpoint(0, "步 7"), checkpoint(1, "step-500")]),
        generation: Some(5),
        decision: Some(decision()),
        ..change(&record, 18)
    };
    done(store, Intent::Change(Box::new(all))).await;
    let bare = OrderRecord {
        state: OrderState::Pending,
        phase: None,
        attention: None,
        reasons: vec![],
        plan: None,
        cost: None,
        saga: None,
        checkpoints: vec![checkpoint(0, "步 7"), checkpoint(1, "step-500")],
        generation: 5,
        version: 19,
        updated: at(18),
        ..record.clone()
    };
    assert_eq!(store.order(record.id).await.unwrap().unwrap(), bare);
    assert_eq!(store.decision(record.id).await.unwrap(), Some(decision()));
    assert_eq!(store.decision(new_id()).await.unwrap(), None);
}

pub async fn a_final_state_is_final(bench: &Bench) {
    let store = &bench.store;
    let record = accepted(store, "a").await;
    let end = OrderChange { state: Some(OrderState::Completed), ..change(&record, 1) };
    done(store, Intent::Change(Box::new(end))).await;
    for version in [1, 2] {
        let again = OrderChange { state: Some(OrderState::Pending), ..change(&record, version) };
        assert_eq!(refused(store, Intent::Change(Box::new(again))).await, Conflict::Final(record.id));
    }
    let error = bench.sql("UPDATE orders SET state = 'pending'").await.unwrap_err();
    assert!(error.contains("final"), "{error}");
    assert!(bench.sql("UPDATE orders SET state = 'lost'").await.is_err(), "states are a closed set");
}

pub async fn orders_come_in_pages_newest_first(bench: &Bench) {
    let store = &bench.store;
    let mut ids = Vec::new();
    for i in 0..25 {
        let tenant = TenantName::new(if i % 5 == 0 { "other" } else { "acme" }).unwrap();
        let state = if i % 2 == 0 { OrderState::Pending } else { OrderState::Failed };
        let record = OrderRecord { tenant, state, ..order(&format!("o-{i}")) };
        done(store, accept(&record)).await;
        ids.push(record.id);
    }
    ids.reverse();
    let mut filter = OrderFilter { limit: 10, ..OrderFilter::default() };
    let mut seen = Vec::new();
    let mut pages = 0;
    loop {
        let page = store.orders(&filter).await.unwrap();
        seen.extend(page.items.iter().map(|o| o.id));
        pages += 1;
        assert!(page.items.len() <= 10);
        filter.before = page.next;
        if filter.before.is_none() {
            break;
        }
    }
    assert_eq!((seen, pages), (ids.clone(), 3));

    let count = async |filter: OrderFilter| store.orders(&filter).await.unwrap().items.len();
    let all = OrderFilter { limit: 200, ..OrderFilter::default() };
    assert_eq!(count(OrderFilter { tenant: Some(TenantName::new("other").unwrap()), ..all.clone() }).await, 5);
    assert_eq!(count(OrderFilter { states: vec![OrderState::Failed], ..all.clone() }).await, 12);
    assert_eq!(count(OrderFilter { states: vec![OrderState::Failed, OrderState::Pending], ..all.clone() }).await, 25);
    assert_eq!(count(OrderFilter { states: vec![OrderState::Held], ..all.clone() }).await, 0);
    assert_eq!(count(OrderFilter { name: Some("o-7".to_owned()), ..all.clone() }).await, 1);
    assert_eq!(count(OrderFilter { before: Some(ids[20]), ..all.clone() }).await, 4);
    assert_eq!(count(OrderFilter { limit: 0, ..all }).await, 1, "a page holds at least one");
}

pub async fn live_orders_are_those_without_an_end(bench: &Bench) {
    let store = &bench.store;
    let mut expected = Vec::new();
    for state in OrderState::ALL {
        let record = OrderRecord { state: *state, ..order("a") };
        done(store, accept(&record)).await;
        if !state.is_final() {
            expected.push(record.id);
        }
    }
    let live: Vec<_> = store.live_orders().await.unwrap().into_iter().map(|o| o.id).collect();
    assert_eq!(live, expected, "oldest first");
}

pub async fn one_bad_intent_leaves_only_itself_out(bench: &Bench) {
    let store = &bench.store;
    let (a, b, c) = (order("a"), order("b"), order("c"));
    let stale = OrderChange { events: vec![event("stale")], ..change(&a, 9) };
    let outcomes = store
        .commit(vec![accept(&a), Intent::Change(Box::new(stale)), accept(&b), accept(&a), accept(&c)])
        .await
        .unwrap();
    assert_eq!(outcomes.len(), 5);
    assert_eq!(outcomes[1], Outcome::Refused(Conflict::Version(a.id, 9)));
    assert!(matches!(outcomes[3], Outcome::Refused(Conflict::Exists(_))));
    for record in [&a, &b, &c] {
        assert_eq!(store.order(record.id).await.unwrap().as_ref(), Some(record));
        assert_eq!(store.order_events(record.id, 0, 10).await.unwrap().len(), 1);
    }
    assert!(store.commit(vec![]).await.unwrap().is_empty());

    // what the database itself refuses is an error of this caller alone, and leaves nothing
    let bad = UsageRecord { quantity_micro: -1, ..usage("replica/trainer/0") };
    let broken = OrderChange { usage: vec![bad], ..change(&b, 1) };
    let good = OrderChange { events: vec![event("good")], ..change(&c, 1) };
    let (broken, good) = tokio::join!(
        store.commit(vec![accept(&order("d")), Intent::Change(Box::new(broken))]),
        store.commit(vec![Intent::Change(Box::new(good))]),
    );
    assert!(broken.is_err());
    assert_eq!(good.unwrap(), [Outcome::Changed { version: 2 }]);
    let names: BTreeSet<_> =
        store.live_orders().await.unwrap().into_iter().map(|o| o.document.name.to_string()).collect();
    assert_eq!(names, ["a", "b", "c"].map(str::to_owned).into());
}

fn usage(item: &str) -> UsageRecord {
    UsageRecord {
        kind: "accelerator_seconds".to_owned(),
        subject: "alpha".to_owned(),
        quantity_micro: 6_000_000,
        cost_micros: 12,
        generation: 1,
        item: item.to_owned(),
    }
}

pub async fn the_ledger_bills_a_fact_once(bench: &Bench) {
    let store = &bench.store;
    let record = accepted(store, "a").await;
    let bill = |version, usage| Intent::Change(Box::new(OrderChange { usage, ..change(&record, version) }));
    done(store, bill(1, vec![usage("replica/trainer/0"), usage("replica/trainer/1")])).await;
    let dearer = UsageRecord { cost_micros: 99, ..usage("replica/trainer/0") };
    let later = UsageRecord { generation: 2, ..usage("replica/trainer/0") };
    done(store, bill(2, vec![dearer, later.clone()])).await;
    let ledger = store.usage(record.id).await.unwrap();
    assert_eq!(ledger, [usage("replica/trainer/0"), usage("replica/trainer/1"), later], "the first entry stays");
    assert!(store.usage(new_id()).await.unwrap().is_empty());
}

pub async fn what_does_not_exist_is_named(bench: &Bench) {
    let store = &bench.store;
    let ghost = order("ghost");
    let missing = |what: String| Conflict::Missing(what);
    let expected = missing(format!("order {}", ghost.id));
    assert_eq!(refused(store, Intent::Change(Box::new(change(&ghost, 1)))).await, expected);
    assert_eq!(refused(store, reserve(&ghost, 1, wants(vec![]))).await, expected);
    let q = quote("q").id;
    assert_eq!(refused(store, Intent::EndQuote { quote: q, at: at(0) }).await, missing(format!("quote {q}")));
    assert_eq!(refused(store, Intent::Drain { site: site("x"), draining: true }).await, missing("site x".to_owned()));
    let inventory = Intent::Inventory { site: site("x"), nodes: vec![] };
    assert_eq!(refused(store, inventory).await, missing("site x".to_owned()));
    let record = accepted(store, "a").await;
    let nowhere = wants(vec![want("x", 0, gpus(1))]);
    assert_eq!(refused(store, reserve(&record, 1, nowhere)).await, missing("site x".to_owned()));
    assert_eq!(refused(store, reserve(&record, 1, on_link("xy", 1))).await, missing("link xy".to_owned()));
}
