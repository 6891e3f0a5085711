use crate::{
    bench::{Bench, open},
    fixture::*,
};
use rhumb_store::{AnyStore, PostgresLimits, Store as _, StoreError};
use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Names the database to the child of the next test.
const CHILD: &str = "RHUMB_STORE_SUITE_CHILD";

/// Not a test by itself: the process that is killed.
#[tokio::test]
async fn child_that_is_killed() {
    let Ok(url) = std::env::var(CHILD) else { return };
    let store = open(&url).await;
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        writers.spawn(async move {
            loop {
                let record = accepted(&store, "a").await;
                println!("answered {}", record.id);
            }
        });
    }
    writers.join_next().await;
    panic!("a writer ended");
}

pub async fn what_was_answered_survives_kill(bench: &Bench) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["crash::child_that_is_killed", "--exact", "--nocapture"])
        .env(CHILD, &bench.url)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answered = Vec::new();
    for line in lines {
        if let Some((_, id)) = line.unwrap().split_once("answered ") {
            answered.push(id.parse().unwrap());
        }
        if answered.len() == 60 {
            // SIGKILL, in the middle of other writers' commits; what it had still printed is read too
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(answered.len() >= 60, "the child answered {}", answered.len());
    let store = bench.again().await;
    for id in answered {
        assert!(store.order(id).await.unwrap().is_some(), "order {id} was answered and is lost");
        assert_eq!(store.order_events(id, 0, 10).await.unwrap().len(), 1);
    }
    accepted(&store, "goes-on").await;
}

pub async fn an_epoch_is_never_given_twice(bench: &Bench) {
    let other = bench.again().await;
    let mut epochs = Vec::new();
    for _ in 0..3 {
        epochs.push(bench.store.next_epoch().await.unwrap());
        epochs.push(other.next_epoch().await.unwrap());
    }
    assert_eq!(epochs, [1, 2, 3, 4, 5, 6]);
    let record = accepted(&bench.store, "a").await;
    assert!(other.order(record.id).await.unwrap().is_some(), "programs on one database see each other's commits");
    other.close().await;
    assert!(other.commit(vec![accept(&order("b"))]).await.is_err());
    assert!(other.next_epoch().await.is_err());
    assert_eq!(bench.again().await.next_epoch().await.unwrap(), 7);
}

pub async fn a_newer_schema_is_left_alone(bench: &Bench) {
    bench
        .sql(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             SELECT 4711, 'from the future', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1",
        )
        .await
        .unwrap();
    let error = AnyStore::open(&bench.url, PostgresLimits::default()).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 4711, known: 9 }), "{error:?}");
    let error = AnyStore::open("mysql://root:secret@db", PostgresLimits::default()).await.unwrap_err();
    assert!(matches!(&error, StoreError::Address(_)) && !error.to_string().contains("secret"), "{error}");
}

pub async fn several_may_open_at_once(bench: &Bench) {
    let opening: Vec<_> = (0..4)
        .map(|_| {
            let url = bench.url.clone();
            tokio::spawn(async move { open(&url).await })
        })
        .collect();
    for store in opening {
        accepted(&store.await.unwrap(), "a").await;
    }
    assert_eq!(bench.store.live_orders().await.unwrap().len(), 4);
}

pub async fn callers_that_go_away_leave_no_open_transaction(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![node("alpha", "n1", 8)]).await;
    for i in 0..100_u64 {
        let record = accepted(store, "a").await;
        let caller = tokio::spawn({
            let store = store.clone();
            async move {
                let record = record;
                let reservation = wants(vec![want("alpha", 0, gpus(1))]);
                store.commit(vec![reserve(&record, 1, reservation), release(&record, 2)]).await.ok();
                store.holdings().await.ok();
            }
        });
        // somewhere within it, from its beginning to its end
        tokio::time::sleep(Duration::from_micros(i * 40)).await;
        caller.abort();
        caller.await.ok();
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while !store.holdings().await.unwrap().replicas.is_empty() || open_transactions(bench).await > 0 {
        assert!(Instant::now() < deadline, "a transaction stays open");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    audit(store).await;
    let record = accepted(store, "all").await;
    granted(store, reserve(&record, 1, wants(vec![want("alpha", 0, gpus(8))]))).await;
}

async fn open_transactions(bench: &Bench) -> i64 {
    if !bench.is_postgres() {
        return 0;
    }
    let mut connection = <sqlx::PgConnection as sqlx::Connection>::connect(&bench.url).await.unwrap();
    sqlx::query_scalar(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap()
}
