//! What the routes answer: domain values rendered with units in the names.

pub mod site;

use rhumb_control::{Base, Desk, hub::LastReport};
use rhumb_model::{LinkId, OrderState, PointName, QuoteId, Reason, Verdict, plan, refusal::Change, state::SiteState};
use rhumb_provision::Prices;
use rhumb_store::{AnyStore, DecisionRecord, EventRecord, Holdings, OrderRecord, QuoteRecord, UsageRecord};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct List<T: ToSchema> {
    pub items: Vec<T>,
    /// Give it as `cursor` for the next page.
    pub next: Option<String>,
}

impl<T: ToSchema> List<T> {
    pub fn all(items: Vec<T>) -> Self {
        Self { items, next: None }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct OrderView {
    pub id: String,
    pub name: String,
    pub tenant: String,
    pub class: String,
    #[schema(value_type = String)]
    pub state: OrderState,
    #[schema(value_type = Option<String>)]
    pub phase: Option<rhumb_model::Phase>,
    /// What a person should look at.
    pub attention: Option<String>,
    #[schema(value_type = Vec<Object>)]
    pub reasons: Vec<Reason>,
    #[schema(value_type = Option<Object>)]
    pub plan: Option<rhumb_model::Plan>,
    #[schema(value_type = Option<String>)]
    pub quote_id: Option<QuoteId>,
    #[schema(value_type = String, format = DateTime)]
    pub created: jiff::Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated: jiff::Timestamp,
    /// Age of the oldest report that the state rests on; absent while nothing runs.
    pub observed_age_ms: Option<u64>,
    pub stale: bool,
    pub generation: u64,
    pub version: i64,
    #[schema(value_type = Option<Object>)]
    pub cost: Option<plan::Cost>,
    pub usage: Option<UsageTotals>,
}

impl OrderView {
    pub fn new(record: OrderRecord, desk: &Desk<AnyStore>, usage: Option<&[UsageRecord]>) -> Self {
        let limit = desk.config().times.lost_after.micros() / 1_000;
        let points = record.saga.as_ref().map(rhumb_provision::Saga::sites).unwrap_or_default();
        let age = |p: &PointName| desk.hub().age(p).map_or(u64::MAX, |a| a.as_millis() as u64);
        let observed = points.iter().map(age).max();
        Self {
            id: record.id.to_string(),
            name: record.document.name.to_string(),
            tenant: record.tenant.to_string(),
            class: record.document.class.to_string(),
            state: record.state,
            phase: record.phase,
            attention: record.attention,
            reasons: record.reasons,
            plan: record.plan,
            quote_id: record.quote_id,
            created: record.created,
            updated: record.updated,
            observed_age_ms: observed.filter(|a| *a != u64::MAX),
            stale: observed.is_some_and(|a| a > limit),
            generation: record.generation,
            version: record.version,
            cost: record.cost,
            usage: usage.map(UsageTotals::of),
        }
    }
}

#[derive(Debug, Serialize, ToSchema, Default)]
pub struct UsageTotals {
    pub accelerator_seconds: f64,
    pub cpu_seconds: f64,
    pub gb_moved: f64,
    pub mbps_hours: f64,
    pub cost_micros: i64,
}

impl UsageTotals {
    pub fn of(records: &[UsageRecord]) -> Self {
        let mut totals = Self::default();
        for r in records {
            let quantity = r.quantity_micro as f64 / 1e6;
            match r.kind.as_str() {
                "accelerator_seconds" => totals.accelerator_seconds += quantity,
                "cpu_seconds" => totals.cpu_seconds += quantity,
                "gb_moved" => totals.gb_moved += quantity,
                _ => totals.mbps_hours += quantity,
            }
            totals.cost_micros += r.cost_micros;
        }
        totals
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct UsageView {
    pub items: Vec<UsageItem>,
    pub total_micros: i64,
    pub currency: String,
}

/// Sum of one kind at one site or link.
#[derive(Debug, Serialize, ToSchema)]
pub struct UsageItem {
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    pub quantity: f64,
    pub cost_micros: i64,
}

impl UsageView {
    pub fn new(records: &[UsageRecord], base: &Base) -> Self {
        let mut sums: BTreeMap<(&str, &str), (i64, i64)> = BTreeMap::new();
        for r in records {
            let sum = sums.entry((&r.kind, &r.subject)).or_default();
            sum.0 += r.quantity_micro;
            sum.1 += r.cost_micros;
        }
        let item = |((kind, subject), (quantity, cost)): ((&str, &str), (i64, i64))| {
            let at_site = kind.ends_with("seconds");
            UsageItem {
                kind: kind.to_owned(),
                site: at_site.then(|| subject.to_owned()),
                link: (!at_site).then(|| subject.to_owned()),
                quantity: quantity as f64 / 1e6,
                cost_micros: cost,
            }
        };
        Self {
            items: sums.into_iter().map(item).collect(),
            total_micros: records.iter().map(|r| r.cost_micros).sum(),
            currency: base.currency().to_string(),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ExplainView {
    #[serde(flatten)]
    pub order: OrderView,
    #[schema(value_type = Vec<Object>)]
    pub sites: Vec<Verdict>,
    #[schema(value_type = Vec<Object>)]
    pub would_fit_if: Vec<Change>,
    /// The instant that the decision was made as of.
    #[schema(value_type = Option<String>)]
    pub decided_at: Option<jiff::Timestamp>,
    /// The view it was made on, as a federation file; only where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub view: Option<serde_json::Value>,
}

impl ExplainView {
    pub fn new(order: OrderView, decision: Option<DecisionRecord>, with_view: bool) -> Self {
        let decided_at = decision.as_ref().map(|d| d.at);
        let view = decision.as_ref().filter(|_| with_view).and_then(|d| serde_json::from_str(&d.view).ok());
        let (sites, would_fit_if) = decision.map(|d| (d.sites, d.would_fit_if)).unwrap_or_default();
        Self { order, sites, would_fit_if, decided_at, view }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct QuoteView {
    pub id: String,
    #[schema(value_type = String, format = DateTime)]
    pub created: jiff::Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub expires: jiff::Timestamp,
    /// It holds devices and link capacity until then.
    pub binding: bool,
    /// Expired, given back or ordered.
    pub ended: bool,
    pub order_id: Option<String>,
    /// `plan` or `refusal`.
    pub outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub plan: Option<rhumb_model::Plan>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub reasons: Vec<Reason>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub would_fit_if: Vec<Change>,
    #[schema(value_type = Vec<Object>)]
    pub sites: Vec<Verdict>,
}

impl From<QuoteRecord> for QuoteView {
    fn from(q: QuoteRecord) -> Self {
        Self {
            id: q.id.to_string(),
            created: q.created,
            expires: q.expires,
            binding: q.binding,
            ended: q.ended.is_some(),
            order_id: q.order.map(|o| o.to_string()),
            outcome: if q.plan.is_some() { "plan" } else { "refusal" }.to_owned(),
            plan: q.plan,
            reasons: q.decision.reasons,
            would_fit_if: q.decision.would_fit_if,
            sites: q.decision.sites,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct EventView {
    pub seq: u64,
    pub order: String,
    /// Position in the order's history, from 1 without gaps.
    pub number: u64,
    #[schema(value_type = String, format = DateTime)]
    pub at: jiff::Timestamp,
    pub kind: String,
    #[schema(value_type = Option<String>)]
    pub phase: Option<rhumb_model::Phase>,
    pub message: String,
    #[schema(value_type = Object)]
    pub detail: serde_json::Value,
}

impl From<EventRecord> for EventView {
    fn from(e: EventRecord) -> Self {
        Self {
            seq: e.seq,
            order: e.order.to_string(),
            number: e.number,
            at: e.at,
            kind: e.event.kind,
            phase: e.event.phase,
            message: e.event.message,
            detail: e.event.detail,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct LogView {
    pub generation: u64,
    pub component: String,
    pub replica: u32,
    pub offset: u64,
    pub text: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RouteView {
    pub order: String,
    pub order_name: String,
    pub generation: u64,
    pub leg: u32,
    pub flow: u32,
    pub from: String,
    pub to: String,
    pub path: Vec<String>,
    pub provider: String,
    pub encrypted: bool,
    pub rate_kbps: u64,
    #[schema(value_type = String)]
    pub state: rhumb_model::RouteState,
    /// Payload bytes seen at each point, in path order.
    pub hops: Vec<HopView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct HopView {
    pub point: String,
    pub bytes: u64,
}

impl RouteView {
    pub fn of(record: &OrderRecord) -> Vec<Self> {
        let Some(saga) = &record.saga else { return Vec::new() };
        saga.legs
            .iter()
            .map(|leg| Self {
                order: record.id.to_string(),
                order_name: record.document.name.to_string(),
                generation: saga.generation,
                leg: leg.leg,
                flow: leg.flow,
                from: leg.source().to_string(),
                to: leg.sink().to_string(),
                path: leg.links.iter().map(ToString::to_string).collect(),
                provider: "overlay".to_owned(),
                encrypted: leg.encrypted,
                rate_kbps: leg.rate.kbps(),
                state: leg.route_state(saga.phase),
                hops: leg
                    .points
                    .iter()
                    .map(|p| HopView { point: p.to_string(), bytes: leg.bytes.get(p).copied().unwrap_or(0) })
                    .collect(),
            })
            .collect()
    }
}

impl RouteView {
    /// Routes that an ended order had, as its last plan says; their bytes are in the order's usage.
    pub fn ended(record: &OrderRecord, base: &Base) -> Vec<Self> {
        let legs = record.plan.iter().flat_map(|p| p.flows.iter().enumerate()).filter(|(_, l)| !l.path.is_empty());
        legs.map(|(index, leg)| {
            let to = |link: &LinkId| base.ends(link).map(|(_, to)| to.to_string()).unwrap_or_default();
            let points = std::iter::once(leg.from_site.to_string()).chain(leg.path.iter().map(to));
            let flow = record.document.flows.get(leg.flow as usize);
            Self {
                order: record.id.to_string(),
                order_name: record.document.name.to_string(),
                generation: record.generation,
                leg: index as u32,
                flow: leg.flow,
                from: leg.from_site.to_string(),
                to: leg.to_site.to_string(),
                path: leg.path.iter().map(ToString::to_string).collect(),
                provider: "overlay".to_owned(),
                encrypted: record.document.constraints.encrypted || flow.is_some_and(|f| f.encrypted),
                rate_kbps: leg.rate_kbps,
                state: rhumb_model::RouteState::Terminated,
                hops: points.map(|point| HopView { point, bytes: 0 }).collect(),
            }
        })
        .collect()
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct LinkView {
    pub id: String,
    pub from: String,
    pub to: String,
    pub configured_latency_us: u64,
    /// Measured: half the RTT p50.
    pub latency_us: Option<u64>,
    pub rtt_us: Option<RttView>,
    /// Of the window, this direction.
    pub loss_ppm: Option<u64>,
    pub jitter_us: Option<u64>,
    pub capacity_kbps: u64,
    /// Capacity less what is reserved.
    pub available_kbps: u64,
    pub reserved_kbps: u64,
    /// Of the last reply to a probe.
    pub age_ms: Option<u64>,
    pub stale: bool,
    /// The figures are configured ones: no agent at an end, or not measured yet.
    pub estimated: bool,
    pub provider: Option<String>,
    pub per_gb_micros: i64,
    pub per_mbps_hour_micros: i64,
    pub jurisdictions: Vec<String>,
    pub encrypted: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RttView {
    pub min: u64,
    pub p50: u64,
    pub p95: u64,
}

pub fn links(desk: &Desk<AnyStore>, holdings: &Holdings) -> Vec<LinkView> {
    let reserved: BTreeMap<&LinkId, u64> = holdings.reserved.iter().map(|(l, r, _)| (l, r.kbps())).collect();
    let stale_after_ms = desk.config().times.stale_after.micros() / 1_000;
    let state = desk.hub().lock();
    desk.base()
        .links
        .values()
        .map(|link| {
            let figure = state.figure(&link.id);
            // a window without a reply shows the last known figure, ageing
            let known = figure.and_then(|(f, age)| Some((f, age, f.rtt_p50_us?)));
            let age_ms = figure.and_then(|(f, age)| Some(f.last_reply_age_us? / 1_000 + age.as_millis() as u64));
            let reserved_kbps = reserved.get(&link.id).copied().unwrap_or(0);
            let micros = |ratio| rhumb_model::ratio::round_half_up(ratio).clamp(0, i128::from(i64::MAX)) as i64;
            LinkView {
                id: link.id.to_string(),
                from: link.from.to_string(),
                to: link.to.to_string(),
                configured_latency_us: link.latency.micros(),
                latency_us: known.map(|(_, _, p50)| p50 / 2),
                rtt_us: known.map(|(f, _, p50)| RttView {
                    min: f.rtt_min_us.unwrap_or(p50),
                    p50,
                    p95: f.rtt_p95_us.unwrap_or(p50),
                }),
                loss_ppm: figure.and_then(|(f, _)| f.loss_forward_ppm),
                jitter_us: figure.and_then(|(f, _)| f.jitter_us),
                capacity_kbps: link.capacity.kbps(),
                available_kbps: link.capacity.kbps().saturating_sub(reserved_kbps),
                reserved_kbps,
                age_ms,
                stale: age_ms.is_none_or(|a| a > stale_after_ms),
                estimated: known.is_none(),
                provider: link.provider.as_ref().map(ToString::to_string),
                per_gb_micros: micros(desk.base().per_gb(&link.id)),
                per_mbps_hour_micros: micros(desk.base().per_mbps_hour(&link.id)),
                jurisdictions: link.jurisdictions.iter().map(ToString::to_string).collect(),
                encrypted: link.encrypted,
            }
        })
        .collect()
}

/// State of a point, from when its agent was last heard.
pub fn point_state(desk: &Desk<AnyStore>, last: Option<&LastReport>, draining: bool) -> SiteState {
    let limit = desk.config().times.lost_after.micros();
    match last {
        None => SiteState::NeverSeen,
        Some(l) if l.heard.elapsed().as_micros() as u64 > limit => SiteState::Lost,
        Some(_) if draining => SiteState::Draining,
        Some(_) => SiteState::Ready,
    }
}
