//! Records from rows.

use crate::{
    Holder,
    codec::Reader,
    error::Fault,
    record::{
        DecisionRecord, EventRecord, IdempotencyRecord, LinkHold, LinkWindow, LogRecord, NewEvent, NodeRecord,
        OrderRecord, PointRecord, QuoteRecord, ReplicaHold, TunnelHold, UsageRecord, WindowRtt,
    },
    session::Row,
};
use rhumb_model::{Bandwidth, Change, Latency, LinkId, OrderId, Ppm, QuoteId, Reason, Slots, Span, Verdict};
use serde::{Deserialize, Serialize};

pub fn order(row: &Row) -> Result<OrderRecord, Fault> {
    let r = Reader::new("orders", row);
    Ok(OrderRecord {
        id: OrderId(r.uuid("id")?),
        tenant: r.parsed("tenant")?,
        document: r.json("document")?,
        state: r.parsed("state")?,
        phase: r.parsed_or_null("phase")?,
        attention: r.text_or_null("attention")?,
        reasons: r.json("reasons")?,
        plan: r.json_or_null("plan")?,
        cost: r.json_or_null("cost")?,
        saga: r.json_or_null("saga")?,
        checkpoints: r.json_or_null("checkpoints")?.unwrap_or_default(),
        quote_id: r.uuid_or_null("quote_id")?.map(QuoteId),
        generation: r.count("generation")?,
        version: r.int("version")?,
        created: r.time("created_us")?,
        updated: r.time("updated_us")?,
        traceparent: r.text_or_null("traceparent")?,
    })
}

/// What of a decision is one JSON document; its view has a column of its own.
#[derive(Serialize)]
pub struct DecisionBody<'a> {
    pub sites: &'a [Verdict],
    pub reasons: &'a [Reason],
    pub would_fit_if: &'a [Change],
}

#[derive(Deserialize)]
struct StoredDecision {
    sites: Vec<Verdict>,
    reasons: Vec<Reason>,
    would_fit_if: Vec<Change>,
}

fn decision_of(r: &Reader<'_>, at: &'static str, body: &'static str) -> Result<DecisionRecord, Fault> {
    let stored: StoredDecision = r.json(body)?;
    Ok(DecisionRecord {
        at: r.time(at)?,
        sites: stored.sites,
        reasons: stored.reasons,
        would_fit_if: stored.would_fit_if,
        view: r.text("view")?,
    })
}

pub fn decision(row: &Row) -> Result<DecisionRecord, Fault> {
    decision_of(&Reader::new("decisions", row), "at_us", "body")
}

pub fn quote(row: &Row) -> Result<QuoteRecord, Fault> {
    let r = Reader::new("quotes", row);
    Ok(QuoteRecord {
        id: QuoteId(r.uuid("id")?),
        tenant: r.parsed("tenant")?,
        document: r.json("document")?,
        plan: r.json_or_null("plan")?,
        decision: decision_of(&r, "decided_us", "decision")?,
        binding: r.flag("binding")?,
        created: r.time("created_us")?,
        expires: r.time("expires_us")?,
        ended: r.time_or_null("ended_us")?,
        order: r.uuid_or_null("order_id")?.map(OrderId),
    })
}

pub fn event(row: &Row) -> Result<EventRecord, Fault> {
    let r = Reader::new("events", row);
    Ok(EventRecord {
        seq: r.count("seq")?,
        order: OrderId(r.uuid("order_id")?),
        tenant: r.parsed("tenant")?,
        number: r.count("number")?,
        at: r.time("at_us")?,
        event: NewEvent {
            kind: r.text("kind")?,
            phase: r.parsed_or_null("phase")?,
            message: r.text("message")?,
            detail: r.json("detail")?,
        },
    })
}

fn holder(r: &Reader<'_>) -> Result<Holder, Fault> {
    let id = r.uuid("holder")?;
    match r.text("holder_kind")?.as_str() {
        "order" => Ok(Holder::Order(OrderId(id))),
        "quote" => Ok(Holder::Quote(QuoteId(id))),
        other => Err(r.corrupt("holder_kind", format_args!("\"{other}\" is unknown"))),
    }
}

pub fn replica_hold(row: &Row) -> Result<ReplicaHold, Fault> {
    let r = Reader::new("replica_holds", row);
    Ok(ReplicaHold {
        holder: holder(&r)?,
        generation: r.count("generation")?,
        component: r.parsed("component")?,
        replica: r.count("replica")?,
        site: r.parsed("site")?,
        node: r.parsed("node")?,
        devices: r.json("devices")?,
        share: r.count("share_permille")?,
        device_memory_bytes: r.count("device_memory_bytes")?,
        cpu_milli: r.count("cpu_milli")?,
        memory_bytes: r.count("memory_bytes")?,
    })
}

pub fn link_hold(row: &Row) -> Result<LinkHold, Fault> {
    let r = Reader::new("link_holds", row);
    Ok(LinkHold {
        holder: holder(&r)?,
        generation: r.count("generation")?,
        link: r.parsed("link")?,
        slots: Slots::new(r.count("first_slot")?, r.count("end_slot")?),
        rate: Bandwidth::from_kbps(r.count("rate_kbps")?),
    })
}

pub fn link_slot(row: &Row) -> Result<(LinkId, Slots, Bandwidth), Fault> {
    let r = Reader::new("link_slots", row);
    let slot: u32 = r.count("slot")?;
    let slots = Slots::new(slot, slot.saturating_add(1)).ok_or_else(|| r.corrupt("slot", "is out of range"))?;
    Ok((r.parsed("link")?, slots, Bandwidth::from_kbps(r.count("reserved_kbps")?)))
}

/// Id, reserved, capacity.
pub fn link(row: &Row) -> Result<(LinkId, Bandwidth, Bandwidth), Fault> {
    let r = Reader::new("links", row);
    let rate = |column| Ok::<_, Fault>(Bandwidth::from_kbps(r.count(column)?));
    Ok((r.parsed("id")?, rate("reserved_kbps")?, rate("capacity_kbps")?))
}

pub fn point(row: &Row) -> Result<PointRecord, Fault> {
    let r = Reader::new("points", row);
    Ok(PointRecord {
        name: r.parsed("name")?,
        draining: r.flag("draining")?,
        boot: r.uuid_or_null("boot")?,
        seq: r.count("seq")?,
        heard: r.time_or_null("heard_us")?,
    })
}

pub fn node(row: &Row) -> Result<NodeRecord, Fault> {
    let r = Reader::new("nodes", row);
    Ok(NodeRecord { site: r.parsed("site")?, node: r.json("body")? })
}

pub fn usage(row: &Row) -> Result<UsageRecord, Fault> {
    let r = Reader::new("usage", row);
    Ok(UsageRecord {
        kind: r.text("kind")?,
        subject: r.text("subject")?,
        quantity_micro: r.int("quantity_micro")?,
        cost_micros: r.int("cost_micros")?,
        generation: r.count("generation")?,
        item: r.text("item")?,
    })
}

pub fn log(order: OrderId, row: &Row) -> Result<LogRecord, Fault> {
    let r = Reader::new("log_chunks", row);
    Ok(LogRecord {
        order,
        generation: r.count("generation")?,
        component: r.parsed("component")?,
        replica: r.count("replica")?,
        offset: r.count("offset_bytes")?,
        text: r.text("text")?,
    })
}

pub fn idempotency(row: &Row) -> Result<IdempotencyRecord, Fault> {
    let r = Reader::new("idempotency", row);
    let status: Option<i64> = row.get("status")?;
    let answer = match (status, r.text_or_null("answer")?) {
        (Some(status), Some(body)) => Some((
            u16::try_from(status).map_err(|_| r.corrupt("status", format_args!("{status} is out of range")))?,
            body,
        )),
        _ => None,
    };
    Ok(IdempotencyRecord {
        tenant: r.parsed("tenant")?,
        key: r.text("key")?,
        body_sha256: r.sha256("body_sha256")?,
        answer,
        at: r.time("at_us")?,
    })
}

pub fn tunnel(row: &Row) -> Result<TunnelHold, Fault> {
    let r = Reader::new("tunnels", row);
    Ok(TunnelHold {
        number: r.count("number")?,
        order: OrderId(r.uuid("order_id")?),
        generation: r.count("generation")?,
        leg: r.count("leg")?,
        path: r.count("path")?,
        hop: r.count("hop")?,
        points: r.json("points")?,
    })
}

pub fn window(row: &Row) -> Result<LinkWindow, Fault> {
    let r = Reader::new("link_windows", row);
    let us = |column: &'static str| -> Result<Option<Latency>, Fault> {
        let value: Option<i64> = row.get(column)?;
        let value = value.map(|v| u64::try_from(v).map_err(|_| r.corrupt(column, format_args!("{v} is negative"))));
        Ok(value.transpose()?.map(Latency::from_micros))
    };
    let (min, p50) = (us("rtt_min_us")?, us("rtt_p50_us")?);
    let (p95, p99) = (us("rtt_p95_us")?, us("rtt_p99_us")?);
    let rtt = match (min, p50, p95, p99) {
        (Some(min), Some(p50), Some(p95), Some(p99)) => Some(WindowRtt { min, p50, p95, p99 }),
        _ => None,
    };
    Ok(LinkWindow {
        link: r.parsed("link")?,
        at: r.time("at_us")?,
        length: Span::from_micros(r.count("window_us")?),
        sent: r.count("sent")?,
        received: r.count("received")?,
        rtt,
        loss: us("loss_ppm")?.map(|ppm| Ppm::from_ppm(ppm.micros())),
        record: row.get("record")?,
    })
}
