//! Output of replicas: each byte once, a bounded number of them.

use crate::{
    codec::{Reader, int},
    error::Fault,
    intent::Outcome,
    record::LogRecord,
    session::{Session, args},
};
use rhumb_model::OrderId;
use std::collections::BTreeMap;

/// Log text kept per order; what comes after is not stored, and a last line says so.
pub const KEPT_BYTES: u64 = 4 << 20;
const CUT: &str = "\n[the rest of this log is not kept: 4 MiB per order are]\n";

pub async fn append(session: &mut Session<'_>, chunks: &[LogRecord]) -> Result<Outcome, Fault> {
    // by order, in one order of locks
    let mut by_order: BTreeMap<OrderId, Vec<&LogRecord>> = BTreeMap::new();
    for chunk in chunks {
        by_order.entry(chunk.order).or_default().push(chunk);
    }
    for (order, chunks) in by_order {
        append_to(session, order, &chunks).await?;
    }
    Ok(Outcome::Done)
}

async fn append_to(session: &mut Session<'_>, order: OrderId, chunks: &[&LogRecord]) -> Result<(), Fault> {
    if session.first("SELECT id FROM orders WHERE id = $1", args![order.0]).await?.is_none() {
        // an agent may know an order that this database does not; the others' text must not wait for it
        tracing::debug!(%order, "log text of an unknown order is ignored");
        return Ok(());
    }
    // locks the total's row until the transaction ends, so that positions follow each other
    let sql = "INSERT INTO log_totals (order_id, bytes, truncated) VALUES ($1, 0, $2) \
               ON CONFLICT (order_id) DO UPDATE SET bytes = log_totals.bytes RETURNING bytes, truncated";
    let row = session.first(sql, args![order.0, false]).await?;
    let missing = || Fault::Corrupt { table: "log_totals", detail: format!("no row for order {order}") };
    let row = row.ok_or_else(missing)?;
    let r = Reader::new("log_totals", &row);
    let (mut total, mut truncated): (u64, bool) = (r.count("bytes")?, r.flag("truncated")?);
    let before = (total, truncated);
    for chunk in chunks {
        if truncated {
            break;
        }
        // one byte for one byte: PostgreSQL's text holds no NUL
        let text = chunk.text.replace('\0', "\u{1a}");
        let end = end_of(session, chunk).await?;
        let skip = usize::try_from(end.saturating_sub(chunk.offset)).unwrap_or(usize::MAX).min(text.len());
        let start = text.ceil_char_boundary(skip);
        let room = usize::try_from(KEPT_BYTES - total.min(KEPT_BYTES)).unwrap_or(0);
        let fresh = &text[start..];
        let fits = &fresh[..fresh.floor_char_boundary(room)];
        truncated = fits.len() < fresh.len();
        let kept = if truncated { format!("{fits}{CUT}") } else { fits.to_owned() };
        if kept.is_empty() {
            continue;
        }
        insert(session, chunk, chunk.offset + start as u64, total, &kept).await?;
        total += kept.len() as u64;
    }
    if (total, truncated) != before {
        let sql = "UPDATE log_totals SET bytes = $2, truncated = $3 WHERE order_id = $1";
        session.run(sql, args![order.0, int("log bytes", total)?, truncated]).await?;
    }
    Ok(())
}

/// Where what is stored of this replica's output ends.
async fn end_of(session: &mut Session<'_>, chunk: &LogRecord) -> Result<u64, Fault> {
    let sql = "SELECT offset_bytes + length_bytes AS ends FROM log_chunks WHERE order_id = $1 AND generation = $2 \
               AND component = $3 AND replica = $4 ORDER BY offset_bytes DESC LIMIT 1";
    let args = args![chunk.order.0, int("generation", chunk.generation)?, chunk.component.as_str(), chunk.replica];
    match session.first(sql, args).await? {
        Some(row) => Reader::new("log_chunks", &row).count("ends"),
        None => Ok(0),
    }
}

async fn insert(
    session: &mut Session<'_>,
    chunk: &LogRecord,
    offset: u64,
    position: u64,
    text: &str,
) -> Result<(), Fault> {
    let sql = "INSERT INTO log_chunks (order_id, position_bytes, generation, component, replica, offset_bytes, \
               length_bytes, text) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let args = args![
        chunk.order.0,
        int("log position", position)?,
        int("generation", chunk.generation)?,
        chunk.component.as_str(),
        chunk.replica,
        int("log offset", offset)?,
        int("log length", text.len() as u64)?,
        text,
    ];
    session.run(sql, args).await?;
    Ok(())
}
