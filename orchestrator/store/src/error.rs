//! Errors of the store.

use crate::intent::Conflict;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// What went wrong, and whether trying again may help.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("database is unavailable while {operation}: try again")]
    Unavailable {
        operation: &'static str,
        #[source]
        source: Source,
    },
    #[error("database refused {operation}")]
    Database {
        operation: &'static str,
        #[source]
        source: Source,
    },
    #[error("row of {table} cannot be read: {detail}")]
    Corrupt { table: &'static str, detail: String },
    #[error("database has schema {found}, this program knows {known}: start a newer program")]
    Newer { found: i64, known: i64 },
    #[error("\"{0}\" names no database: write sqlite:PATH or postgres://USER@HOST/NAME")]
    Address(String),
    #[error("value {value} of {what} does not fit the database")]
    Range { what: &'static str, value: String },
    #[error("committing is fenced: epoch {epoch} is over, another orchestrator leads; send it there")]
    Fenced { epoch: u64 },
    #[error("store is closed")]
    Closed,
}

/// How one intent, or one read, can fail inside.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The caller's answer; nothing of the intent is left.
    Refused(Conflict),
    Sql(sqlx::Error),
    /// The epoch that was led is over.
    Fenced(u64),
    Corrupt {
        table: &'static str,
        detail: String,
    },
    Range {
        what: &'static str,
        value: String,
    },
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Conflict> for Fault {
    fn from(conflict: Conflict) -> Self {
        Self::Refused(conflict)
    }
}

impl Fault {
    /// A refusal is no error: callers take it out before.
    pub(crate) fn into_error(self, operation: &'static str) -> StoreError {
        match self {
            Self::Sql(error) => sql_error(operation, error),
            Self::Fenced(epoch) => StoreError::Fenced { epoch },
            Self::Corrupt { table, detail } => StoreError::Corrupt { table, detail },
            Self::Range { what, value } => StoreError::Range { what, value },
            Self::Refused(conflict) => StoreError::Database { operation, source: Box::new(conflict) },
        }
    }

    /// Lost against another transaction; the same may well succeed now.
    pub(crate) fn is_serialization(&self) -> bool {
        matches!(self, Self::Sql(sqlx::Error::Database(e)) if matches!(e.code().as_deref(), Some("40001" | "40P01")))
    }
}

impl Fault {
    /// Such as a server that has become read-only: another connection may reach a better one.
    pub(crate) fn spoils_connection(&self) -> bool {
        matches!(self, Self::Sql(error) if is_passing(error)) && !self.is_serialization()
    }
}

pub(crate) fn sql_error(operation: &'static str, error: sqlx::Error) -> StoreError {
    if is_passing(&error) {
        StoreError::Unavailable { operation, source: Box::new(error) }
    } else {
        StoreError::Database { operation, source: Box::new(error) }
    }
}

/// Whether the state of the server or its connection is at fault, not the statement.
fn is_passing(error: &sqlx::Error) -> bool {
    use sqlx::Error as E;
    match error {
        E::Io(_) | E::Tls(_) | E::PoolTimedOut | E::PoolClosed | E::WorkerCrashed | E::BeginFailed => true,
        E::Database(e) => {
            let code = e.code();
            let code = code.as_deref().unwrap_or_default();
            // PostgreSQL: connection, resources, operator intervention, transaction conflicts, locks, read-only server.
            // SQLite: busy 5, locked 6, I/O 10, full 13, cannot open 14, with extended codes above the low byte.
            let postgres = code.len() == 5
                && (["08", "53", "57", "58"].iter().any(|class| code.starts_with(class))
                    || ["40001", "40P01", "55P03", "25006", "25P03"].contains(&code));
            let sqlite = code.len() != 5 && code.parse::<i64>().is_ok_and(|c| [5, 6, 10, 13, 14].contains(&(c & 0xff)));
            postgres || sqlite
        }
        _ => false,
    }
}
