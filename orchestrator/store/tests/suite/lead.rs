use crate::{
    bench::{Bench, open},
    fixture::*,
};
use rhumb_model::OrderState;
use rhumb_store::{
    AnyStore, Intent, OrderChange, OrderFilter, OrderRecord, Store, StoreError, testing::PostgresServer,
};
use sqlx::{Connection as _, PgConnection, postgres::PgConnectOptions};
use std::time::{Duration, Instant};
use uuid::Uuid;

const LONG: Duration = Duration::from_hours(1);
const SHORT: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_secs(20);

pub async fn one_leads_at_a_time(bench: &Bench) {
    let (one, other) = (&bench.store, bench.again().await);
    let (mine, others) = (Uuid::now_v7(), Uuid::now_v7());
    assert_eq!(one.take_lead(mine, LONG).await.unwrap(), Some(1));
    assert_eq!(other.take_lead(others, LONG).await.unwrap(), None, "the lease lives");
    assert_eq!(one.take_lead(mine, LONG).await.unwrap(), None, "also for a holder who was begun anew");
    assert!(!other.renew_lead(others, 1, LONG).await.unwrap(), "it is another's");
    // from here on it is not renewed
    assert!(one.renew_lead(mine, 1, SHORT).await.unwrap());
    let deadline = Instant::now() + DEADLINE;
    while other.take_lead(others, LONG).await.unwrap().is_none() {
        assert!(Instant::now() < deadline, "the lease does not end");
    }
    assert!(!one.renew_lead(mine, 1, LONG).await.unwrap(), "a lower epoch is over");
    assert!(!one.renew_lead(mine, 2, LONG).await.unwrap(), "the epoch is another's");
    assert!(other.renew_lead(others, 2, LONG).await.unwrap());
}

pub async fn who_gives_up_is_followed_at_once(bench: &Bench) {
    let (one, other) = (&bench.store, bench.again().await);
    let (mine, others) = (Uuid::now_v7(), Uuid::now_v7());
    assert_eq!(one.take_lead(mine, LONG).await.unwrap(), Some(1));
    one.give_up_lead(mine, 1).await.unwrap();
    assert_eq!(other.take_lead(others, LONG).await.unwrap(), Some(2));
    // who gives up late, or for another, changes nothing
    one.give_up_lead(mine, 1).await.unwrap();
    one.give_up_lead(mine, 2).await.unwrap();
    assert!(other.renew_lead(others, 2, LONG).await.unwrap());
    assert_eq!(one.take_lead(mine, LONG).await.unwrap(), None);
}

pub async fn what_an_old_leader_commits_is_refused(bench: &Bench) {
    let epoch = bench.store.take_lead(Uuid::now_v7(), SHORT).await.unwrap().unwrap();
    let old = bench.store.as_leader(epoch);
    let first = accepted(&old, "first").await;
    let next = bench.again().await;
    let led = next.next_epoch().await.unwrap();
    let (alone, several) = (order("alone"), [order("one"), order("two")]);
    for intents in [vec![accept(&alone)], several.iter().map(accept).collect()] {
        let end = old.commit(intents).await;
        assert!(matches!(end, Err(StoreError::Fenced { epoch: 1 })), "{end:?}");
    }
    for record in several.iter().chain([&alone]) {
        assert_eq!(next.order(record.id).await.unwrap(), None, "nothing of it is left");
    }
    // it may look, and what needs no leadership goes on; so does the new leader
    assert!(old.order(first.id).await.unwrap().is_some());
    accepted(&bench.store, "free").await;
    accepted(&next.as_leader(led), "led").await;
    let ahead = next.as_leader(led + 1).commit(vec![accept(&order("ahead"))]).await;
    assert!(matches!(ahead, Err(StoreError::Fenced { .. })), "an epoch that nobody was given: {ahead:?}");
}

/// While eight writers of the old leader are at it, the new one begins: what it finds then is all there will be of them.
pub async fn nothing_of_an_old_leader_comes_after_the_new_one(bench: &Bench) {
    let old = bench.store.as_leader(bench.store.next_epoch().await.unwrap());
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let old = old.clone();
        writers.spawn(async move {
            let mut answered = 0;
            loop {
                match old.commit(vec![accept(&order("a"))]).await {
                    Ok(_) => answered += 1,
                    Err(StoreError::Fenced { .. }) => return answered,
                    Err(other) => panic!("{other}"),
                }
            }
        });
    }
    let deadline = Instant::now() + DEADLINE;
    while count(&bench.store).await < 30 {
        assert!(Instant::now() < deadline, "the writers do not write");
    }
    let next = bench.again().await;
    next.next_epoch().await.unwrap();
    let found = count(&next).await;
    let answered: usize = writers.join_all().await.into_iter().sum();
    assert_eq!(count(&next).await, found, "orders came after the new leader had begun");
    assert_eq!(found, answered, "what was answered is there, and nothing else");
}

async fn count(store: &AnyStore) -> usize {
    store.live_orders().await.unwrap().len()
}

pub async fn a_lease_of_before_the_clock_was_set_back_is_over(bench: &Bench) {
    let minute = Duration::from_mins(1);
    assert_eq!(bench.store.take_lead(Uuid::now_v7(), minute).await.unwrap(), Some(1));
    // as the row looks once the clock has gone back by an hour
    bench.sql("UPDATE leadership SET ends = ends + 3600000000").await.unwrap();
    assert_eq!(bench.store.take_lead(Uuid::now_v7(), minute).await.unwrap(), Some(2));
}

pub async fn what_a_frozen_leader_has_locked_is_let_go(server: &PostgresServer) {
    let url = server.database().await.unwrap();
    let store = open(&url).await;
    let old = accepted(&store.as_leader(store.next_epoch().await.unwrap()), "held").await;
    // a leader that was stopped in the middle of a transaction
    let options: PgConnectOptions = url.parse().unwrap();
    let mut frozen = PgConnection::connect_with(&options.application_name("rhumb")).await.unwrap();
    let lock = "BEGIN; SELECT * FROM orders FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut frozen).await.unwrap();
    let idle = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rhumb' AND datname = current_database() \
                AND state = 'idle in transaction' AND state_change < now() - INTERVAL '1 second'";
    let mut watcher = PgConnection::connect(&url).await.unwrap();
    let deadline = Instant::now() + DEADLINE;
    while sqlx::query_scalar::<_, i64>(idle).fetch_one(&mut watcher).await.unwrap() == 0 {
        assert!(Instant::now() < deadline, "the session does not become old");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let epoch = store.take_lead(Uuid::now_v7(), LONG).await.unwrap().unwrap();
    let begun = Instant::now();
    cancel(&store.as_leader(epoch), &old).await;
    println!("the new leader changed what the frozen one had locked within {:?}", begun.elapsed());
    assert!(sqlx::raw_sql("COMMIT").execute(&mut frozen).await.is_err(), "its session has ended");
    let listed = store.orders(&OrderFilter { limit: 10, ..OrderFilter::default() }).await.unwrap();
    assert_eq!(listed.items.len(), 1);
}

async fn cancel(store: &AnyStore, record: &OrderRecord) {
    let ended =
        OrderChange { state: Some(OrderState::Cancelled), ..OrderChange::nothing(record.id, record.version, at(5)) };
    done(store, Intent::Change(Box::new(ended))).await;
}
