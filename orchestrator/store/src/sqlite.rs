//! SQLite in one file: one writer that groups what is asked for at the same time into one transaction, several readers.
//!
//! A commit costs one fsync (`synchronous = FULL`), so callers that come together share it.

use crate::{
    Answer,
    apply::lead::{self, Claim},
    engine::{Engine, Guarded, Lease, guarded, unavailable},
    error::{StoreError, sql_error},
    intent::{Intent, Outcome},
    migration,
    session::Session,
};
use sqlx::{
    ConnectOptions as _, Connection as _, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use std::{os::unix::fs::OpenOptionsExt as _, path::Path, time::Duration};
use tokio::sync::{mpsc, oneshot};

/// Most callers in one transaction.
const GROUP: usize = 64;
/// Most callers that wait for the writer; further ones wait for a place.
const QUEUE: usize = 1_024;
const READERS: u32 = 4;
const BUSY: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct SqliteStore {
    jobs: mpsc::Sender<Job>,
    readers: SqlitePool,
    /// The epoch that commits are of.
    epoch: Option<u64>,
}

#[derive(Debug)]
enum Job {
    Commit {
        intents: Vec<Intent>,
        epoch: Option<u64>,
        answer: oneshot::Sender<Answer<Vec<Outcome>>>,
    },
    Claim {
        claim: Claim,
        answer: oneshot::Sender<Answer<Option<u64>>>,
    },
    /// The writer ends after this.
    Close {
        answer: oneshot::Sender<()>,
    },
}

impl SqliteStore {
    /// Opens the file, makes it if it is missing, and brings its schema up to date. Must be called within a Tokio runtime.
    pub async fn open(path: impl AsRef<Path>) -> Answer<Self> {
        const OPERATION: &str = "opening the database file";
        // its journals get the same mode
        let file = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path.as_ref());
        file.map_err(|e| sql_error(OPERATION, sqlx::Error::Io(e)))?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY)
            .disable_statement_logging();
        let once = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await;
        let once = once.map_err(unavailable(OPERATION))?;
        let migrated = migration::SQLITE.run(&once).await;
        once.close().await;
        migrated.map_err(|e| migration::error(&migration::SQLITE, e))?;
        let connection = options.connect().await.map_err(unavailable(OPERATION))?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .connect_with(options.clone().pragma("query_only", "ON"))
            .await
            .map_err(unavailable(OPERATION))?;
        let (jobs, queue) = mpsc::channel(QUEUE);
        tokio::spawn(Writer { connection, options }.run(queue));
        Ok(Self { jobs, readers, epoch: None })
    }

    /// Finishes what was asked for before and closes the file; whoever asks later is told that the store is closed.
    pub async fn close(&self) {
        let (answer, closed) = oneshot::channel();
        if self.jobs.send(Job::Close { answer }).await.is_ok() {
            // an error means that the writer has ended: closed as well
            closed.await.ok();
        }
        self.readers.close().await;
    }
}

impl Engine for SqliteStore {
    async fn lease(&self) -> Answer<Lease> {
        self.readers.acquire().await.map(Lease::sqlite).map_err(unavailable("waiting for a connection"))
    }

    async fn submit(&self, intents: Vec<Intent>) -> Answer<Vec<Outcome>> {
        let (answer, outcomes) = oneshot::channel();
        self.jobs.send(Job::Commit { intents, epoch: self.epoch, answer }).await.map_err(|_| StoreError::Closed)?;
        outcomes.await.map_err(|_| StoreError::Closed)?
    }

    async fn claim(&self, claim: Claim) -> Answer<Option<u64>> {
        let (answer, epoch) = oneshot::channel();
        self.jobs.send(Job::Claim { claim, answer }).await.map_err(|_| StoreError::Closed)?;
        epoch.await.map_err(|_| StoreError::Closed)?
    }

    fn led(&self, epoch: u64) -> Self {
        Self { epoch: Some(epoch), ..self.clone() }
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

struct Writer {
    connection: SqliteConnection,
    options: SqliteConnectOptions,
}

/// What a job will be told once the transaction is durable.
enum Told {
    Outcomes(oneshot::Sender<Answer<Vec<Outcome>>>, Answer<Vec<Outcome>>),
    Claim(oneshot::Sender<Answer<Option<u64>>>, Answer<Option<u64>>),
}

impl Told {
    fn tell(self) {
        // a caller that went away needs no answer; what it asked for is done
        match self {
            Self::Outcomes(to, answer) => drop(to.send(answer)),
            Self::Claim(to, answer) => drop(to.send(answer)),
        }
    }

    fn tell_failure(self, error: StoreError) {
        match self {
            Self::Outcomes(to, _) => drop(to.send(Err(error))),
            Self::Claim(to, _) => drop(to.send(Err(error))),
        }
    }
}

const COMMITTING: &str = "committing";

impl Writer {
    async fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        let mut jobs = Vec::with_capacity(GROUP);
        while queue.recv_many(&mut jobs, GROUP).await > 0 {
            let mut told = Vec::with_capacity(jobs.len());
            let mut closed = None;
            let end = self.transaction(jobs.drain(..), &mut told, &mut closed).await;
            match end {
                Ok(()) => told.into_iter().for_each(Told::tell),
                Err(error) => {
                    tracing::warn!(%error, callers = told.len(), "transaction lost");
                    self.recover().await;
                    let text = error.to_string();
                    let mut first = Some(error);
                    for one in told {
                        // each gets the error's text, one of them the error itself
                        let error = first.take().unwrap_or_else(|| sqlx::Error::Protocol(text.clone()));
                        one.tell_failure(lost(error));
                    }
                }
            }
            if let Some(answer) = closed {
                queue.close();
                if let Err(error) = self.connection.close().await {
                    tracing::warn!(%error, "database file was not closed in order");
                }
                answer.send(()).ok();
                return;
            }
        }
        if let Err(error) = self.connection.close().await {
            tracing::warn!(%error, "database file was not closed in order");
        }
    }

    /// All jobs in one transaction. Every job is in `told` afterwards, whatever happened.
    async fn transaction(
        &mut self,
        jobs: impl Iterator<Item = Job>,
        told: &mut Vec<Told>,
        closed: &mut Option<oneshot::Sender<()>>,
    ) -> Result<(), sqlx::Error> {
        let mut session = Session::Sqlite(&mut self.connection);
        let mut state = session.plain("BEGIN IMMEDIATE").await;
        for job in jobs {
            match job {
                Job::Commit { intents, epoch, answer } => {
                    let outcomes = match &state {
                        Ok(()) => match group(&mut session, &intents, epoch).await {
                            Ok(outcomes) => outcomes,
                            Err(error) => {
                                state = Err(error);
                                Err(StoreError::Closed)
                            }
                        },
                        Err(_) => Err(StoreError::Closed),
                    };
                    told.push(Told::Outcomes(answer, outcomes));
                }
                Job::Claim { claim, answer } => {
                    let epoch = match &state {
                        Ok(()) => {
                            lead::claim(&mut session, claim).await.map_err(|f| f.into_error("asking for the lead"))
                        }
                        Err(_) => Err(StoreError::Closed),
                    };
                    told.push(Told::Claim(answer, epoch));
                }
                Job::Close { answer } => *closed = Some(answer),
            }
        }
        state?;
        session.plain("COMMIT").await
    }

    /// After a transaction that could not be finished: none is open, on a connection that works.
    async fn recover(&mut self) {
        let mut session = Session::Sqlite(&mut self.connection);
        // fails where the database has rolled back by itself
        session.plain("ROLLBACK").await.ok();
        match self.options.connect().await {
            Ok(fresh) => {
                let old = std::mem::replace(&mut self.connection, fresh);
                if let Err(error) = old.close().await {
                    tracing::warn!(%error, "former connection was not closed in order");
                }
            }
            Err(error) => tracing::warn!(%error, "database file cannot be opened again yet"),
        }
    }
}

fn lost(error: sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::Protocol(text) => StoreError::Unavailable { operation: COMMITTING, source: text.into() },
        error => sql_error(COMMITTING, error),
    }
}

/// One caller's intents. The inner error is this caller's alone, the outer one ends the transaction.
async fn group(
    session: &mut Session<'_>,
    intents: &[Intent],
    epoch: Option<u64>,
) -> Result<Answer<Vec<Outcome>>, sqlx::Error> {
    if let Some(epoch) = epoch
        && let Err(fault) = lead::fence(session, epoch).await
    {
        return Ok(Err(fault.into_error(COMMITTING)));
    }
    session.plain("SAVEPOINT caller").await?;
    let mut outcomes = Vec::with_capacity(intents.len());
    for intent in intents {
        match guarded(session, intent).await {
            Ok(outcome) => outcomes.push(outcome),
            Err(Guarded::Lost(error)) => return Err(error),
            Err(Guarded::Failed(fault)) => {
                session.plain("ROLLBACK TO SAVEPOINT caller; RELEASE SAVEPOINT caller").await?;
                return Ok(Err(fault.into_error(COMMITTING)));
            }
        }
    }
    session.plain("RELEASE SAVEPOINT caller").await?;
    Ok(Ok(outcomes))
}
