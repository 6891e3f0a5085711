//! PostgreSQL: every commit is a transaction of its own (the server groups their fsyncs), in a task that ends it even if
//! the caller goes away.
//!
//! READ COMMITTED with row locks in one order (see `apply`); what still loses against another transaction is tried again.

use crate::{
    Answer,
    apply::{self, lead::Claim},
    codec,
    engine::{Engine, Guarded, Lease, detached, guarded, unavailable},
    error::{Fault, StoreError},
    intent::{Intent, Outcome},
    migration,
    session::Session,
};
use sqlx::{
    ConnectOptions as _, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

/// Bounds of everything that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresLimits {
    /// Connections that commit.
    pub writers: u32,
    /// Connections that answer questions; kept apart, so that neither starves the other.
    pub readers: u32,
    /// Waiting for a connection, and for the server to accept one.
    pub acquire: Duration,
    /// One statement, on the server.
    pub statement: Duration,
    /// Waiting for one lock, on the server.
    pub lock: Duration,
    /// A transaction whose client says nothing, on the server.
    pub idle_in_transaction: Duration,
    /// One transaction or question as a whole, on this side: a server that hangs is left.
    pub patience: Duration,
    /// Times that a transaction is tried again after a conflict with another one.
    pub retries: u32,
}

impl Default for PostgresLimits {
    fn default() -> Self {
        Self {
            writers: 16,
            readers: 16,
            acquire: Duration::from_secs(3),
            statement: Duration::from_secs(10),
            lock: Duration::from_secs(5),
            idle_in_transaction: Duration::from_secs(15),
            patience: Duration::from_secs(30),
            retries: 8,
        }
    }
}

#[derive(Debug, Clone)]
pub struct PostgresStore {
    writers: PgPool,
    readers: PgPool,
    /// Asks who leads; nothing else may keep it waiting.
    leaders: PgPool,
    limits: PostgresLimits,
    /// The epoch that commits are of.
    epoch: Option<u64>,
}

const COMMITTING: &str = "committing";
/// The state by which the schema's `lead_fence` refuses.
const FENCED: &str = "RHF01";

impl PostgresStore {
    /// Connects and brings the schema up to date (several programs may start at once: one of them migrates).
    pub async fn connect(url: &str, limits: PostgresLimits) -> Answer<Self> {
        const OPERATION: &str = "connecting to PostgreSQL";
        let options: PgConnectOptions = url.parse().map_err(unavailable(OPERATION))?;
        let ms = |d: Duration| d.as_millis().to_string();
        let options = options
            .application_name("rhumb")
            .options([
                ("statement_timeout", ms(limits.statement)),
                ("lock_timeout", ms(limits.lock)),
                ("idle_in_transaction_session_timeout", ms(limits.idle_in_transaction)),
            ])
            .disable_statement_logging();
        let pool = |connections| {
            PgPoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(limits.acquire)
                .connect_lazy_with(options.clone())
        };
        let (writers, readers, leaders) = (pool(limits.writers.max(1)), pool(limits.readers.max(1)), pool(1));
        let migrated = migration::POSTGRES.run(&writers).await;
        migrated.map_err(|e| migration::error(&migration::POSTGRES, e))?;
        Ok(Self { writers, readers, leaders, limits, epoch: None })
    }

    /// Waits for what is under way and closes all connections.
    pub async fn close(&self) {
        self.writers.close().await;
        self.readers.close().await;
        self.leaders.close().await;
    }

    async fn transact(&self, intents: &[Intent]) -> Answer<Vec<Outcome>> {
        let mut tried = 0;
        loop {
            let lease = self.writers.acquire().await.map(Lease::postgres);
            let once = once(lease.map_err(unavailable("waiting for a connection"))?, intents, self.epoch);
            let fault = match tokio::time::timeout(self.limits.patience, once).await {
                Ok(Ok(outcomes)) => return Ok(outcomes),
                Ok(Err(fault)) => fault,
                Err(late) => return Err(StoreError::Unavailable { operation: COMMITTING, source: late.into() }),
            };
            if !fault.is_serialization() || tried == self.limits.retries {
                return Err(fault.into_error(COMMITTING));
            }
            tried += 1;
            tokio::time::sleep(pause(tried)).await;
        }
    }
}

impl Engine for PostgresStore {
    async fn lease(&self) -> Answer<Lease> {
        self.readers.acquire().await.map(Lease::postgres).map_err(unavailable("waiting for a connection"))
    }

    async fn submit(&self, intents: Vec<Intent>) -> Answer<Vec<Outcome>> {
        let store = self.clone();
        detached(async move { store.transact(&intents).await }).await
    }

    async fn claim(&self, claim: Claim) -> Answer<Option<u64>> {
        const OPERATION: &str = "asking for the lead";
        let store = self.clone();
        detached(async move {
            let lease = store.leaders.acquire().await.map(Lease::postgres);
            let mut lease = lease.map_err(unavailable("waiting for a connection"))?;
            let mut session = lease.start()?;
            let epoch = tokio::time::timeout(store.limits.patience, apply::lead::claim(&mut session, claim)).await;
            let epoch = epoch.map_err(|late| StoreError::Unavailable { operation: OPERATION, source: late.into() })?;
            let epoch = epoch.map_err(|fault| fault.into_error(OPERATION))?;
            lease.finish();
            Ok(epoch)
        })
        .await
    }

    fn led(&self, epoch: u64) -> Self {
        Self { epoch: Some(epoch), ..self.clone() }
    }

    fn patience(&self) -> Duration {
        self.limits.patience
    }
}

/// Doubles from 2 ms to 256 ms; a random part of it, so that those who met do not meet again. The standard library seeds
/// its hashers at random.
fn pause(tried: u32) -> Duration {
    let most = 2_000_u64 << tried.min(7);
    Duration::from_micros(RandomState::new().build_hasher().finish() % most + 1)
}

/// One transaction; `lease` is closed instead of given back unless it ended in order.
async fn once(mut lease: Lease, intents: &[Intent], epoch: Option<u64>) -> Result<Vec<Outcome>, Fault> {
    let mut session = lease.start().map_err(|e| Fault::Sql(sqlx::Error::Protocol(e.to_string())))?;
    // see `read::settled`: the lock is named by the last number drawn, in a range of its own
    session
        .plain(if intents.iter().any(apply::writes_events) {
            concat!(
                "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock_shared(5929000000000000000 + ",
                "CASE WHEN is_called THEN last_value ELSE 0 END) FROM events_seq_seq"
            )
        } else {
            "BEGIN ISOLATION LEVEL READ COMMITTED"
        })
        .await?;
    let end = match intents {
        [only] => alone(&mut session, only).await,
        many => several(&mut session, many).await,
    };
    let end = match end {
        Ok(outcomes) => finish(&mut session, epoch).await.map(|()| outcomes),
        Err(fault) => Err(fault),
    };
    match end {
        Ok(outcomes) => {
            lease.finish();
            Ok(outcomes)
        }
        Err(fault) => {
            if session.plain("ROLLBACK").await.is_ok() && !fault.spoils_connection() {
                lease.finish();
            }
            match fault {
                Fault::Refused(conflict) => Ok(vec![Outcome::Refused(conflict)]),
                fault => Err(fault),
            }
        }
    }
}

/// The one place where transactions become durable.
async fn finish(session: &mut Session<'_>, epoch: Option<u64>) -> Result<(), Fault> {
    let Some(epoch) = epoch else { return Ok(session.plain("COMMIT").await?) };
    session.commit_fenced(codec::int("epoch", epoch)?).await.map_err(|error| match error {
        sqlx::Error::Database(e) if e.code().as_deref() == Some(FENCED) => Fault::Fenced(epoch),
        error => Fault::Sql(error),
    })
}

/// Needs no savepoint: the transaction is its own.
async fn alone(session: &mut Session<'_>, intent: &Intent) -> Result<Vec<Outcome>, Fault> {
    Ok(vec![apply::intent(session, intent).await?])
}

async fn several(session: &mut Session<'_>, intents: &[Intent]) -> Result<Vec<Outcome>, Fault> {
    let mut outcomes = Vec::with_capacity(intents.len());
    for intent in intents {
        outcomes.push(guarded(session, intent).await.map_err(|failed| match failed {
            Guarded::Failed(fault) => fault,
            Guarded::Lost(error) => Fault::Sql(error),
        })?);
    }
    Ok(outcomes)
}
