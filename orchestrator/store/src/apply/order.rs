//! Orders: new ones, and changes under their version.

use crate::{
    apply::{admission, hold, links, tunnel},
    codec::{Reader, int, json, json_or_null},
    error::Fault,
    intent::{Conflict, Holder, OrderChange, Outcome, QuotaKind, Reservation},
    read::admission as read,
    record::{DecisionRecord, NewEvent, OrderRecord, UsageRecord},
    rows::DecisionBody,
    session::{Session, Value, args},
};
use jiff::Timestamp;
use rhumb_model::{OrderId, TenantName};

/// Lets a new order of the tenant in, if it may have one more.
pub async fn admit(session: &mut Session<'_>, tenant: &TenantName) -> Result<(), Fault> {
    let quota = admission::admit(session, tenant).await?;
    if quota.orders.is_some() {
        let has = read::live_orders(session, tenant).await?;
        admission::one_more(QuotaKind::Orders, quota.orders, has)?;
    }
    Ok(())
}

pub async fn insert(session: &mut Session<'_>, record: &OrderRecord, events: &[NewEvent]) -> Result<(), Fault> {
    let sql = "INSERT INTO orders (id, tenant, name, document, state, phase, attention, reasons, plan, cost, saga, \
               quote_id, generation, version, events, created_us, updated_us, traceparent, checkpoints) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) \
               ON CONFLICT (id) DO NOTHING";
    let args = args![
        record.id.0,
        record.tenant.as_str(),
        record.document.name.as_str(),
        json("order document", &record.document)?,
        record.state.as_str(),
        record.phase.map(|p| p.as_str().to_owned()),
        record.attention.clone(),
        json("reasons", &record.reasons)?,
        json_or_null("plan", record.plan.as_ref())?,
        json_or_null("cost", record.cost.as_ref())?,
        json_or_null("saga", record.saga.as_ref())?,
        record.quote_id.map(|q| q.0),
        int("generation", record.generation)?,
        record.version,
        int("events", events.len() as u64)?,
        record.created.as_microsecond(),
        record.updated.as_microsecond(),
        record.traceparent.clone(),
        json("checkpoints", &record.checkpoints)?,
    ];
    if session.run(sql, args).await? == 0 {
        return Err(Conflict::Exists(format!("order {}", record.id)).into());
    }
    insert_events(session, record.id, record.tenant.as_str(), 1, record.created, events).await
}

/// What a change left behind.
#[derive(Debug)]
pub struct Changed {
    pub version: i64,
    pub tenant: TenantName,
}

pub async fn change(session: &mut Session<'_>, change: &OrderChange) -> Result<Changed, Fault> {
    // version and state are looked at by the statement that changes them: no other writer can come between
    let sql = "UPDATE orders SET version = version + 1, updated_us = $3, events = events + $4, \
               state = coalesce($5, state), generation = coalesce($6, generation), reasons = coalesce($7, reasons), \
               phase = CASE WHEN $8 THEN $9 ELSE phase END, attention = CASE WHEN $10 THEN $11 ELSE attention END, \
               plan = CASE WHEN $12 THEN $13 ELSE plan END, cost = CASE WHEN $14 THEN $15 ELSE cost END, \
               saga = CASE WHEN $16 THEN $17 ELSE saga END, \
               document = coalesce($18, document), name = coalesce($19, name), \
               checkpoints = coalesce($20, checkpoints) \
               WHERE id = $1 AND version = $2 \
               AND state NOT IN ('rejected', 'completed', 'partial', 'failed', 'cancelled') \
               RETURNING version, events, tenant, generation";
    let args = args![
        change.id.0,
        change.version,
        change.at.as_microsecond(),
        int("events", change.events.len() as u64)?,
        change.state.map(|s| s.as_str().to_owned()),
        change.generation.map(|g| int("generation", g)).transpose()?,
        json_or_null("reasons", change.reasons.as_ref())?,
        change.phase.is_some(),
        change.phase.flatten().map(|p| p.as_str().to_owned()),
        change.attention.is_some(),
        change.attention.clone().flatten(),
        change.plan.is_some(),
        json_or_null("plan", change.plan.as_ref().and_then(Option::as_ref))?,
        change.cost.is_some(),
        json_or_null("cost", change.cost.as_ref().and_then(Option::as_ref))?,
        change.saga.is_some(),
        json_or_null("saga", change.saga.as_ref().and_then(Option::as_ref))?,
        json_or_null("order document", change.document.as_ref())?,
        change.document.as_ref().map(|d| d.name.to_string()),
        json_or_null("checkpoints", change.checkpoints.as_ref())?,
    ];
    let Some(row) = session.first(sql, args).await? else {
        return Err(why_unchanged(session, change).await?.into());
    };
    let r = Reader::new("orders", &row);
    let (version, events, tenant) = (r.int("version")?, r.int("events")?, r.text("tenant")?);
    let first = events - change.events.len() as i64 + 1;
    insert_events(session, change.id, &tenant, first, change.at, &change.events).await?;
    if let Some(decision) = &change.decision {
        put_decision(session, change.id, decision).await?;
    }
    insert_usage(session, change.id, &change.usage).await?;
    if let Some(wants) = &change.rehold {
        links::replace(session, Holder::Order(change.id), r.int("generation")?, wants, change.at).await?;
    }
    hold::release(session, Holder::Order(change.id), &change.release, change.at).await?;
    tunnel::free(session, change.id, r.count("generation")?, &change.free_tunnels).await?;
    for generation in &change.release {
        tunnel::release(session, change.id, *generation, &change.keep_tunnels).await?;
    }
    Ok(Changed { version, tenant: r.parsed("tenant")? })
}

async fn why_unchanged(session: &mut Session<'_>, change: &OrderChange) -> Result<Conflict, Fault> {
    let row = session.first("SELECT state FROM orders WHERE id = $1", args![change.id.0]).await?;
    let Some(row) = row else {
        return Ok(Conflict::Missing(format!("order {}", change.id)));
    };
    let state: rhumb_model::OrderState = Reader::new("orders", &row).parsed("state")?;
    Ok(if state.is_final() { Conflict::Final(change.id) } else { Conflict::Version(change.id, change.version) })
}

pub async fn reserve(
    session: &mut Session<'_>,
    order: OrderId,
    generation: u64,
    reservation: &Reservation,
    then: &OrderChange,
) -> Result<Outcome, Fault> {
    if then.id != order {
        return Err(Conflict::Missing(format!("order {order} in the change of order {}", then.id)).into());
    }
    let changed = change(session, then).await?;
    let quota = admission::quota(session, &changed.tenant).await?;
    let before = admission::accelerators_before(session, &changed.tenant, quota).await?;
    let grants = hold::take(session, Holder::Order(order), generation, reservation, then.at).await?;
    admission::within_accelerators(session, &changed.tenant, quota, before).await?;
    Ok(Outcome::Reserved { version: changed.version, grants })
}

/// Numbered from `first`; the caller holds the order's row and has counted them there.
async fn insert_events(
    session: &mut Session<'_>,
    order: OrderId,
    tenant: &str,
    first: i64,
    at: Timestamp,
    events: &[NewEvent],
) -> Result<(), Fault> {
    let mut rows = Vec::with_capacity(events.len());
    for (number, event) in (first..).zip(events) {
        rows.push(args![
            order.0,
            tenant,
            number,
            at.as_microsecond(),
            event.kind.as_str(),
            event.phase.map(|p| p.as_str().to_owned()),
            event.message.as_str(),
            json("event detail", &event.detail)?,
        ]);
    }
    let head = "INSERT INTO events (order_id, tenant, number, at_us, kind, phase, message, detail)";
    session.run_many(head, 8, rows, "").await?;
    Ok(())
}

async fn put_decision(session: &mut Session<'_>, order: OrderId, decision: &DecisionRecord) -> Result<(), Fault> {
    let sql = "INSERT INTO decisions (order_id, at_us, body, view) VALUES ($1, $2, $3, $4) ON CONFLICT (order_id) \
               DO UPDATE SET at_us = excluded.at_us, body = excluded.body, view = excluded.view";
    let body = decision_body(decision)?;
    session.run(sql, args![order.0, decision.at.as_microsecond(), body, decision.view.as_str()]).await?;
    Ok(())
}

pub fn decision_body(decision: &DecisionRecord) -> Result<String, Fault> {
    let DecisionRecord { sites, reasons, would_fit_if, .. } = decision;
    json("decision", &DecisionBody { sites, reasons, would_fit_if })
}

/// The ledger only grows, and what is in it stays: the same fact again changes nothing.
async fn insert_usage(session: &mut Session<'_>, order: OrderId, usage: &[UsageRecord]) -> Result<(), Fault> {
    let mut rows: Vec<Vec<Value>> = Vec::with_capacity(usage.len());
    for u in usage {
        rows.push(args![
            order.0,
            int("generation", u.generation)?,
            u.kind.as_str(),
            u.item.as_str(),
            u.subject.as_str(),
            u.quantity_micro,
            u.cost_micros,
        ]);
    }
    let head = "INSERT INTO usage (order_id, generation, kind, item, subject, quantity_micro, cost_micros)";
    session.run_many(head, 7, rows, "ON CONFLICT (order_id, generation, kind, item, subject) DO NOTHING").await?;
    Ok(())
}
