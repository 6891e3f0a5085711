//! Every question that a store answers, on one connection.

pub mod admission;
pub mod enrolment;

use crate::{
    codec::bound,
    error::Fault,
    record::{
        DecisionRecord, EventRecord, Holdings, IdempotencyRecord, LinkWindow, LogRecord, NodeRecord, OrderFilter,
        OrderRecord, Page, Picture, PointRecord, QuoteRecord, UsageRecord,
    },
    rows,
    session::{Dialect, Row, Session, args},
};
use jiff::Timestamp;
use rhumb_model::{LinkId, OrderId, OrderState, QuoteId};

/// Most orders on one page.
pub const ORDERS: u32 = 200;
/// Most events in one answer.
pub const EVENTS: u32 = 1_000;
/// Most bytes of log text in one answer (and one chunk more than none).
pub const LOG_BYTES: u32 = 1 << 20;

/// Most windows of a link in one answer: two weeks of minutes.
pub const WINDOWS: u32 = 20_000;

type Answer<T> = Result<T, Fault>;

fn each<T>(found: &[Row], record: impl Fn(&Row) -> Answer<T>) -> Answer<Vec<T>> {
    found.iter().map(record).collect()
}

macro_rules! order_sql {
    ($tail:literal) => {
        concat!(
            "SELECT id, tenant, document, state, phase, attention, reasons, plan, cost, saga, checkpoints, quote_id, \
             generation, version, created_us, updated_us, traceparent FROM orders ",
            $tail
        )
    };
}

pub async fn order(session: &mut Session<'_>, id: OrderId) -> Answer<Option<OrderRecord>> {
    session.first(order_sql!("WHERE id = $1"), args![id.0]).await?.as_ref().map(rows::order).transpose()
}

pub async fn orders(session: &mut Session<'_>, filter: &OrderFilter) -> Answer<Page<OrderRecord>> {
    let limit = filter.limit.clamp(1, ORDERS);
    let mut sql = String::from(order_sql!("WHERE 1 = 1"));
    let mut args = Vec::new();
    let mut bind = |text: &str, value| {
        args.push(value);
        sql.push_str(text);
        sql.push_str(&args.len().to_string());
    };
    if let Some(tenant) = &filter.tenant {
        bind(" AND tenant = $", tenant.as_str().into());
    }
    if let Some(name) = &filter.name {
        bind(" AND name = $", name.as_str().into());
    }
    if let Some(before) = filter.before {
        bind(" AND id < $", before.0.into());
    }
    for (index, state) in filter.states.iter().enumerate() {
        bind(if index == 0 { " AND state IN ($" } else { ", $" }, state.as_str().into());
    }
    if !filter.states.is_empty() {
        sql.push(')');
    }
    sql.push_str(" ORDER BY id DESC LIMIT $");
    args.push((limit + 1).into());
    sql.push_str(&args.len().to_string());
    let found = session.all_built(sql, args).await?;
    let more = found.len() > limit as usize;
    let mut items = each(&found, rows::order)?;
    items.truncate(limit as usize);
    let next = if more { items.last().map(|o| o.id) } else { None };
    Ok(Page { items, next })
}

pub async fn live_orders(session: &mut Session<'_>) -> Answer<Vec<OrderRecord>> {
    let states: Vec<OrderState> = OrderState::ALL.iter().copied().filter(|s| !s.is_final()).collect();
    let mut sql = String::from(order_sql!("WHERE state IN "));
    sql.push_str(&crate::session::placeholders(1, states.len()));
    sql.push_str(" ORDER BY id");
    let args = states.iter().map(|s| s.as_str().into()).collect();
    each(&session.all_built(sql, args).await?, rows::order)
}

pub async fn decision(session: &mut Session<'_>, id: OrderId) -> Answer<Option<DecisionRecord>> {
    let row = session.first("SELECT at_us, body, view FROM decisions WHERE order_id = $1", args![id.0]).await?;
    row.as_ref().map(rows::decision).transpose()
}

macro_rules! event_sql {
    ($tail:literal) => {
        concat!("SELECT seq, order_id, tenant, number, at_us, kind, phase, message, detail FROM events ", $tail)
    };
}

pub async fn order_events(session: &mut Session<'_>, id: OrderId, after: u64, limit: u32) -> Answer<Vec<EventRecord>> {
    let args = args![id.0, bound(after), limit.clamp(1, EVENTS)];
    let found = session.all(event_sql!("WHERE order_id = $1 AND number > $2 ORDER BY number LIMIT $3"), args).await?;
    each(&found, rows::event)
}

/// The highest sequence number below which no transaction is still open, so that nothing can appear behind a reader.
///
/// SQLite has one writer, which draws numbers in the order of its commits. In PostgreSQL a transaction that will write
/// events holds, before it draws a number, a shared advisory lock named by the last number drawn so far: all of its own
/// are higher. Read in this order, a number up to the counter is either locked, hence above a lock's name, or decided.
async fn settled(session: &mut Session<'_>) -> Answer<i64> {
    let highest = match session.dialect() {
        Dialect::Sqlite => "SELECT coalesce(max(seq), 0) AS settled FROM events",
        Dialect::Postgres => "SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS settled FROM events_seq_seq",
    };
    let row = session.first(highest, vec![]).await?;
    let highest: i64 = row.map_or(Ok(0), |r| r.get("settled"))?;
    if session.dialect() == Dialect::Sqlite {
        return Ok(highest);
    }
    let open = "SELECT min(((classid::bigint << 32) | objid::bigint) - 5929000000000000000) AS settled FROM pg_locks \
                WHERE locktype = 'advisory' AND objsubid = 1 AND mode = 'ShareLock' \
                AND ((classid::bigint << 32) | objid::bigint) BETWEEN 5929000000000000000 AND 5930000000000000000 \
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let row = session.first(open, vec![]).await?;
    let lowest: Option<i64> = row.map_or(Ok(None), |r| r.get("settled"))?;
    Ok(lowest.map_or(highest, |lowest| highest.min(lowest)))
}

pub async fn events_since(session: &mut Session<'_>, seq: u64, limit: u32) -> Answer<Vec<EventRecord>> {
    let settled = settled(session).await?;
    let args = args![bound(seq), settled, limit.clamp(1, EVENTS)];
    let found = session.all(event_sql!("WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3"), args).await?;
    each(&found, rows::event)
}

pub async fn last_event(session: &mut Session<'_>) -> Answer<u64> {
    Ok(u64::try_from(settled(session).await?).unwrap_or(0))
}

macro_rules! quote_sql {
    ($tail:literal) => {
        concat!(
            "SELECT id, tenant, document, plan, decided_us, decision, view, binding, created_us, expires_us, ended_us, \
             order_id FROM quotes ",
            $tail
        )
    };
}

pub async fn quote(session: &mut Session<'_>, id: QuoteId) -> Answer<Option<QuoteRecord>> {
    session.first(quote_sql!("WHERE id = $1"), args![id.0]).await?.as_ref().map(rows::quote).transpose()
}

pub async fn live_quotes(session: &mut Session<'_>) -> Answer<Vec<QuoteRecord>> {
    let sql = quote_sql!("WHERE ended_us IS NULL AND binding = $1 ORDER BY id");
    each(&session.all(sql, args![true]).await?, rows::quote)
}

/// Within one snapshot, so that columns and sums agree.
pub async fn holdings(session: &mut Session<'_>) -> Answer<Holdings> {
    let replicas = "SELECT holder_kind, holder, generation, component, replica, site, node, devices, share_permille, \
                    device_memory_bytes, cpu_milli, memory_bytes FROM replica_holds \
                    ORDER BY holder, generation, component, replica";
    let links = "SELECT holder_kind, holder, generation, link, first_slot, end_slot, rate_kbps FROM link_holds \
                 ORDER BY holder, generation, link, first_slot, end_slot";
    let reserved = "SELECT id, reserved_kbps, capacity_kbps FROM links ORDER BY id";
    let slots = "SELECT link, slot, reserved_kbps FROM link_slots ORDER BY link, slot";
    let tunnels = "SELECT number, order_id, generation, leg, path, hop, points FROM tunnels ORDER BY number";
    Ok(Holdings {
        replicas: each(&session.all(replicas, vec![]).await?, rows::replica_hold)?,
        links: each(&session.all(links, vec![]).await?, rows::link_hold)?,
        reserved: each(&session.all(reserved, vec![]).await?, rows::link)?,
        slots: each(&session.all(slots, vec![]).await?, rows::link_slot)?,
        tunnels: each(&session.all(tunnels, vec![]).await?, rows::tunnel)?,
    })
}

pub async fn points(session: &mut Session<'_>) -> Answer<Vec<PointRecord>> {
    let sql = "SELECT p.name, p.draining, r.boot, coalesce(r.seq, 0) AS seq, r.heard_us \
               FROM points p LEFT JOIN reports r ON r.point = p.name ORDER BY p.name";
    each(&session.all(sql, vec![]).await?, rows::point)
}

/// Within one snapshot.
pub async fn picture(session: &mut Session<'_>) -> Answer<Picture> {
    Ok(Picture {
        orders: live_orders(session).await?,
        quotes: live_quotes(session).await?,
        holdings: holdings(session).await?,
        nodes: nodes(session).await?,
        points: points(session).await?,
    })
}

pub async fn nodes(session: &mut Session<'_>) -> Answer<Vec<NodeRecord>> {
    let sql = "SELECT site, body FROM nodes WHERE present = $1 ORDER BY site, node";
    each(&session.all(sql, args![true]).await?, rows::node)
}

pub async fn usage(session: &mut Session<'_>, id: OrderId) -> Answer<Vec<UsageRecord>> {
    let sql = "SELECT kind, subject, quantity_micro, cost_micros, generation, item FROM usage \
               WHERE order_id = $1 ORDER BY position";
    each(&session.all(sql, args![id.0]).await?, rows::usage)
}

pub async fn logs(session: &mut Session<'_>, id: OrderId, after: u64, limit: u32) -> Answer<Vec<LogRecord>> {
    let limit = limit.clamp(1, LOG_BYTES);
    // the chunk that `after` lies in comes too; at most `limit` further bytes begin after it
    let sql = "SELECT generation, component, replica, offset_bytes, position_bytes, text FROM log_chunks \
               WHERE order_id = $1 AND position_bytes + length_bytes > $2 AND position_bytes < $3 ORDER BY position_bytes";
    let args = args![id.0, bound(after), bound(after.saturating_add(u64::from(limit)))];
    let found = session.all(sql, args).await?;
    let mut out: Vec<LogRecord> = Vec::new();
    let mut bytes = 0;
    for row in &found {
        let mut chunk = rows::log(id, row)?;
        let position: i64 = row.get("position_bytes")?;
        let skip = usize::try_from(bound(after).saturating_sub(position)).unwrap_or(0);
        let cut = chunk.text.ceil_char_boundary(skip);
        chunk.text.drain(..cut);
        chunk.offset += cut as u64;
        bytes += chunk.text.len();
        if bytes > limit as usize && !out.is_empty() {
            break;
        }
        if !chunk.text.is_empty() {
            out.push(chunk);
        }
    }
    Ok(out)
}

pub async fn link_windows(
    session: &mut Session<'_>,
    link: &LinkId,
    from: Timestamp,
    to: Timestamp,
) -> Answer<Vec<LinkWindow>> {
    let sql = "SELECT link, at_us, window_us, sent, received, rtt_min_us, rtt_p50_us, rtt_p95_us, rtt_p99_us, loss_ppm, \
               record FROM link_windows WHERE link = $1 AND at_us > $2 AND at_us <= $3 ORDER BY at_us LIMIT $4";
    let args = args![link.as_str(), from.as_microsecond(), to.as_microsecond(), WINDOWS];
    each(&session.all(sql, args).await?, rows::window)
}

pub async fn idempotency(session: &mut Session<'_>, tenant: &str, key: &str) -> Answer<Option<IdempotencyRecord>> {
    let sql = "SELECT tenant, key, body_sha256, status, answer, at_us FROM idempotency WHERE tenant = $1 AND key = $2";
    session.first(sql, args![tenant, key]).await?.as_ref().map(rows::idempotency).transpose()
}
