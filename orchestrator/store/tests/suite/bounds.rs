//! What only a server can do to its clients.

use crate::{bench::know, fixture::*};
use rhumb_store::{AnyStore, PostgresLimits, Store as _, StoreError, testing::PostgresServer};
use sqlx::{Connection as _, PgConnection};
use std::time::{Duration, Instant};

async fn locked(url: &str) -> PgConnection {
    let mut operator = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE").execute(&mut operator).await.unwrap();
    operator
}

pub async fn a_lock_that_stays_is_given_up(server: &PostgresServer) {
    let url = server.database().await.unwrap();
    let limits = PostgresLimits { lock: Duration::from_millis(200), ..PostgresLimits::default() };
    let store = AnyStore::open(&url, limits).await.unwrap();
    know(&store).await;
    let operator = locked(&url).await;
    let record = order("a");
    let error = store.commit(vec![accept(&record)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(matches!(store.order(record.id).await, Err(StoreError::Unavailable { .. })));
    operator.close().await.unwrap();
    done(&store, accept(&record)).await;
}

pub async fn a_server_that_hangs_is_left(server: &PostgresServer) {
    let url = server.database().await.unwrap();
    let limits = PostgresLimits { patience: Duration::from_millis(300), writers: 1, ..PostgresLimits::default() };
    let store = AnyStore::open(&url, limits).await.unwrap();
    know(&store).await;
    let mut operator = locked(&url).await;
    let begun = Instant::now();
    let record = order("a");
    let error = store.commit(vec![accept(&record)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(3));
    sqlx::raw_sql("ROLLBACK").execute(&mut operator).await.unwrap();
    // the only connection was in the middle of it: it was closed, and its transaction came to nothing
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let open: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL \
             AND pid <> pg_backend_pid()",
        )
        .fetch_one(&mut operator)
        .await
        .unwrap();
        if open == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "a transaction stays open");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(store.order(record.id).await.unwrap(), None);
    done(&store, accept(&record)).await;
}

pub async fn a_read_only_server_is_not_ready(server: &PostgresServer) {
    let url = server.database().await.unwrap();
    let store = AnyStore::open(&url, PostgresLimits::default()).await.unwrap();
    store.ping().await.unwrap();
    know(&store).await;
    let mut operator = PgConnection::connect(&url).await.unwrap();
    let mut set = async |value: &'static str| {
        sqlx::raw_sql(value).execute(&mut operator).await.unwrap();
    };
    set("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$")
        .await;
    set(OTHERS_END).await;
    assert!(matches!(store.ping().await, Err(StoreError::Unavailable { .. })));
    let record = order("a");
    let error = store.commit(vec![accept(&record)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(AnyStore::open(&url, PostgresLimits::default()).await.is_err());
    set("SET default_transaction_read_only = off").await;
    set("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET default_transaction_read_only', current_database()); END $$")
        .await;
    // without a restart, and without anyone ending the connections that could only read
    store.ping().await.unwrap();
    done(&store, accept(&record)).await;
}

/// What a switch-over does to the connections that are open.
const OTHERS_END: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                          WHERE datname = current_database() AND pid <> pg_backend_pid()";
