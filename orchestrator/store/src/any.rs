//! The database that a URL names.

use crate::{
    Answer,
    apply::lead::Claim,
    engine::{Engine, Lease},
    error::StoreError,
    intent::{Intent, Outcome},
    postgres::{PostgresLimits, PostgresStore},
    sqlite::SqliteStore,
};
use std::time::Duration;

/// Either store, chosen at run time.
#[derive(Debug, Clone)]
pub enum AnyStore {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
}

impl AnyStore {
    /// `sqlite:PATH` (or `sqlite://PATH`), or `postgres://USER:PASSWORD@HOST:PORT/NAME`.
    pub async fn open(url: &str, limits: PostgresLimits) -> Answer<Self> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if !path.is_empty() {
                return SqliteStore::open(path).await.map(Self::Sqlite);
            }
        }
        if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            return PostgresStore::connect(url, limits).await.map(Self::Postgres);
        }
        // only what stands before a password may be shown
        Err(StoreError::Address(
            url.chars().take_while(|c| *c != ':').take(20).flat_map(char::escape_default).collect(),
        ))
    }

    pub async fn close(&self) {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }
}

impl Engine for AnyStore {
    async fn lease(&self) -> Answer<Lease> {
        match self {
            Self::Sqlite(store) => store.lease().await,
            Self::Postgres(store) => store.lease().await,
        }
    }

    async fn submit(&self, intents: Vec<Intent>) -> Answer<Vec<Outcome>> {
        match self {
            Self::Sqlite(store) => store.submit(intents).await,
            Self::Postgres(store) => store.submit(intents).await,
        }
    }

    async fn claim(&self, claim: Claim) -> Answer<Option<u64>> {
        match self {
            Self::Sqlite(store) => store.claim(claim).await,
            Self::Postgres(store) => store.claim(claim).await,
        }
    }

    fn led(&self, epoch: u64) -> Self {
        match self {
            Self::Sqlite(store) => Self::Sqlite(store.led(epoch)),
            Self::Postgres(store) => Self::Postgres(store.led(epoch)),
        }
    }

    fn patience(&self) -> Duration {
        match self {
            Self::Sqlite(store) => store.patience(),
            Self::Postgres(store) => store.patience(),
        }
    }
}
