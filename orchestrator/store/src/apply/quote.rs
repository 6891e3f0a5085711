//! Quotes: offered with what they hold, accepted once, or ended.

use crate::{
    apply::{admission, hold, order},
    codec::{Reader, json, json_or_null},
    error::Fault,
    intent::{Conflict, Holder, Outcome, QuotaKind, Reservation},
    read::admission as read,
    record::{NewEvent, OrderRecord, QuoteRecord},
    session::{Session, args},
};
use jiff::Timestamp;
use rhumb_model::QuoteId;

/// Holdings of a quote have this generation; those of the order made from it `ACCEPTED`.
const QUOTED: u64 = 0;
const ACCEPTED: u64 = 1;

pub async fn offer(
    session: &mut Session<'_>,
    record: &QuoteRecord,
    reservation: Option<&Reservation>,
) -> Result<Outcome, Fault> {
    let binds = record.binding && reservation.is_some();
    let quota = admission::admit(session, &record.tenant).await?;
    if binds && quota.quotes.is_some() {
        let has = read::live_quotes(session, &record.tenant).await?;
        admission::one_more(QuotaKind::Quotes, quota.quotes, has)?;
    }
    let sql = "INSERT INTO quotes (id, tenant, document, plan, decided_us, decision, view, binding, created_us, \
               expires_us, ended_us, order_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) \
               ON CONFLICT (id) DO NOTHING";
    let args = args![
        record.id.0,
        record.tenant.as_str(),
        json("order document", &record.document)?,
        json_or_null("plan", record.plan.as_ref())?,
        record.decision.at.as_microsecond(),
        order::decision_body(&record.decision)?,
        record.decision.view.as_str(),
        binds,
        record.created.as_microsecond(),
        record.expires.as_microsecond(),
        record.ended.map(Timestamp::as_microsecond),
        record.order.map(|o| o.0),
    ];
    if session.run(sql, args).await? == 0 {
        return Err(Conflict::Exists(format!("quote {}", record.id)).into());
    }
    match reservation {
        Some(reservation) if record.binding => {
            let before = admission::accelerators_before(session, &record.tenant, quota).await?;
            let grants = hold::take(session, Holder::Quote(record.id), QUOTED, reservation, record.created).await?;
            admission::within_accelerators(session, &record.tenant, quota, before).await?;
            Ok(Outcome::Reserved { version: 0, grants })
        }
        _ => Ok(Outcome::Done),
    }
}

pub async fn accept(
    session: &mut Session<'_>,
    quote: QuoteId,
    at: Timestamp,
    record: &OrderRecord,
    events: &[NewEvent],
) -> Result<Outcome, Fault> {
    order::admit(session, &record.tenant).await?;
    let mut record = record.clone();
    record.quote_id = Some(quote);
    record.generation = ACCEPTED;
    order::insert(session, &record, events).await?;
    // a quote of another tenant does not exist for this one
    let sql = "UPDATE quotes SET ended_us = $2, order_id = $3 WHERE id = $1 AND tenant = $4 AND ended_us IS NULL \
               AND binding = $5 AND expires_us > $2 RETURNING id";
    let args = args![quote.0, at.as_microsecond(), record.id.0, record.tenant.as_str(), true];
    if session.first(sql, args).await?.is_none() {
        let known = session
            .first("SELECT id FROM quotes WHERE id = $1 AND tenant = $2", args![quote.0, record.tenant.as_str()])
            .await?;
        let missing = || Conflict::Missing(format!("quote {quote}"));
        return Err(known.map_or_else(missing, |_| Conflict::Quote(quote)).into());
    }
    let grants = hold::rekey(session, (Holder::Quote(quote), QUOTED), (Holder::Order(record.id), ACCEPTED)).await?;
    Ok(Outcome::Reserved { version: record.version, grants })
}

/// Ending an ended quote again changes nothing; one that became an order is that order's.
pub async fn end(session: &mut Session<'_>, quote: QuoteId, at: Timestamp) -> Result<Outcome, Fault> {
    let sql = "UPDATE quotes SET ended_us = coalesce(ended_us, $2) WHERE id = $1 RETURNING order_id";
    let Some(row) = session.first(sql, args![quote.0, at.as_microsecond()]).await? else {
        return Err(Conflict::Missing(format!("quote {quote}")).into());
    };
    if Reader::new("quotes", &row).uuid_or_null("order_id")?.is_some() {
        return Err(Conflict::Quote(quote).into());
    }
    hold::release(session, Holder::Quote(quote), &[QUOTED], at).await?;
    Ok(Outcome::Done)
}
