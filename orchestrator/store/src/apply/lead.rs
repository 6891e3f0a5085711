//! Who leads: a row that is compared and swapped, by the clock of the database.
//!
//! In PostgreSQL the statements that must not meet a commit halfway are functions of the schema.

use crate::{
    codec::{self, Reader},
    error::Fault,
    session::{Dialect, Session, args},
};
use std::time::Duration;
use uuid::Uuid;

/// What may be asked of the leadership. Each gives the epoch that is led then, or nothing.
#[derive(Debug, Clone, Copy)]
pub enum Claim {
    /// Whoever leads: a new epoch, without a lease.
    Seize,
    /// A new epoch, unless another's lease lives.
    Take { holder: Uuid, lease: Duration },
    /// A longer lease on the epoch, if it is still the holder's.
    Renew { holder: Uuid, epoch: u64, lease: Duration },
    /// The epoch's lease ends now, if it is still the holder's.
    GiveUp { holder: Uuid, epoch: u64 },
}

const NOW: &str = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)";

pub async fn claim(session: &mut Session<'_>, claim: Claim) -> Result<Option<u64>, Fault> {
    let dialect = session.dialect();
    let now = match dialect {
        Dialect::Sqlite => NOW,
        Dialect::Postgres => "lead_now()",
    };
    let (sql, args) = match (claim, dialect) {
        (Claim::Seize, Dialect::Postgres) => ("SELECT lead_take(NULL, 0, true) AS epoch".to_owned(), vec![]),
        (Claim::Take { holder, lease }, Dialect::Postgres) => {
            ("SELECT lead_take($1, $2, false) AS epoch".to_owned(), args![holder, micros(lease)?])
        }
        (Claim::Seize, Dialect::Sqlite) => (
            "UPDATE leadership SET epoch = epoch + 1, holder = NULL, ends = 0 WHERE one = 1 RETURNING epoch".to_owned(),
            vec![],
        ),
        (Claim::Take { holder, lease }, Dialect::Sqlite) => (
            format!(
                "UPDATE leadership SET epoch = epoch + 1, holder = $1, ends = {NOW} + $2, duration = $2 WHERE one = 1 \
                 AND (holder IS NULL OR ends <= {NOW} OR ends > {NOW} + duration) RETURNING epoch"
            ),
            args![holder, micros(lease)?],
        ),
        (Claim::Renew { holder, epoch, lease }, _) => (
            format!(
                "UPDATE leadership SET ends = {now} + $3, duration = $3 WHERE one = 1 AND holder = $1 AND epoch = $2 \
                 RETURNING epoch"
            ),
            args![holder, codec::int("epoch", epoch)?, micros(lease)?],
        ),
        (Claim::GiveUp { holder, epoch }, _) => (
            "UPDATE leadership SET holder = NULL, ends = 0 WHERE one = 1 AND holder = $1 AND epoch = $2 RETURNING epoch"
                .to_owned(),
            args![holder, codec::int("epoch", epoch)?],
        ),
    };
    let row = session.all_built(sql, args).await?.into_iter().next();
    let epoch: Option<i64> = row.as_ref().map(|row| row.get("epoch")).transpose()?.flatten();
    match (epoch, row) {
        (Some(_), Some(row)) => Reader::new("leadership", &row).count("epoch").map(Some),
        _ => Ok(None),
    }
}

/// Within SQLite's one writer: nobody takes over before the transaction ends.
pub async fn fence(session: &mut Session<'_>, led: u64) -> Result<(), Fault> {
    let row = session.first("SELECT epoch FROM leadership WHERE one = 1", vec![]).await?;
    let now: Option<u64> = row.map(|row| Reader::new("leadership", &row).count("epoch")).transpose()?;
    if now == Some(led) { Ok(()) } else { Err(Fault::Fenced(led)) }
}

fn micros(lease: Duration) -> Result<i64, Fault> {
    i64::try_from(lease.as_micros()).map_err(|_| Fault::Range { what: "lease", value: format!("{lease:?}") })
}
