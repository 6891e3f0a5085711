//! Idempotency keys.

use crate::{
    error::Fault,
    intent::{Conflict, Outcome},
    record::IdempotencyRecord,
    session::{Session, args},
};
use jiff::Timestamp;

/// A claim whose process went away without an answer may be taken over after this long.
const CLAIM_LIFE_US: i64 = 60_000_000;

/// The answer that goes with an intent, if the request had a key.
pub async fn answer(session: &mut Session<'_>, record: Option<&IdempotencyRecord>) -> Result<(), Fault> {
    match record {
        Some(record) => remember(session, record).await,
        None => Ok(()),
    }
}

/// The first answer stays. A claim (no answer yet) becomes its answer if the body is the same; an old claim can be claimed anew.
pub async fn remember(session: &mut Session<'_>, record: &IdempotencyRecord) -> Result<(), Fault> {
    let sql = "INSERT INTO idempotency (tenant, key, body_sha256, status, answer, at_us) VALUES ($1, $2, $3, $4, $5, $6) \
               ON CONFLICT (tenant, key) DO UPDATE SET status = excluded.status, answer = excluded.answer, \
               at_us = excluded.at_us WHERE idempotency.status IS NULL \
               AND idempotency.body_sha256 = excluded.body_sha256 \
               AND (excluded.status IS NOT NULL OR idempotency.at_us < excluded.at_us - $7)";
    let (status, body) = match &record.answer {
        Some((status, body)) => (Some(i64::from(*status)), Some(body.clone())),
        None => (None, None),
    };
    let args = args![
        record.tenant.as_str(),
        record.key.as_str(),
        record.body_sha256.as_slice(),
        status,
        body,
        record.at.as_microsecond(),
        CLAIM_LIFE_US,
    ];
    if session.run(sql, args).await? == 0 { Err(Conflict::Key.into()) } else { Ok(()) }
}

pub async fn forget(session: &mut Session<'_>, before: Timestamp) -> Result<Outcome, Fault> {
    session.run("DELETE FROM idempotency WHERE at_us < $1", args![before.as_microsecond()]).await?;
    Ok(Outcome::Done)
}
