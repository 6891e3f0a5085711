//! Routes: the legs of orders, path by path and hop by hop.

use rhumb_control::Base;
use rhumb_model::{LinkId, RouteState};
use rhumb_provision::{LegState, PathRole, PathState, Saga};
use rhumb_store::OrderRecord;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub struct RouteView {
    pub order: String,
    pub order_name: String,
    pub generation: u64,
    pub leg: u32,
    pub flow: u32,
    pub from: String,
    pub to: String,
    /// Links of the path that carries, or is to.
    pub path: Vec<String>,
    pub provider: String,
    pub encrypted: bool,
    pub protected: bool,
    pub rate_kbps: u64,
    /// One-way delay promised of the path, without a region's access.
    pub promised_us: Option<u64>,
    #[schema(value_type = String)]
    pub state: RouteState,
    /// Why it is out of its promise, where it is.
    pub trouble: Option<String>,
    /// How often it took another path within the last hour.
    pub moves: u64,
    /// What was measured over the path that carries.
    pub measured: Option<MeasuredView>,
    /// The other paths there are: standing by, being built, being left.
    pub others: Vec<PathStateView>,
    /// Payload bytes seen at each point, in path order.
    pub hops: Vec<HopView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct PathStateView {
    /// `backup`, `next`, `leaving` or `closing`.
    #[schema(value_type = String)]
    pub role: PathRole,
    pub path: Vec<String>,
    pub active: bool,
    pub measured: Option<MeasuredView>,
}

/// Figures of one path, by bytes over that path alone; and by the probes of its links.
#[derive(Debug, Serialize, ToSchema)]
pub struct MeasuredView {
    /// Half of the shortest round trip before it carried, or while it stands by.
    pub latency_us: Option<u64>,
    /// Half the median round trips of its links, now.
    pub links_latency_us: Option<u64>,
    /// What a few bytes at the route's rate came out at.
    pub arrived_kbps: Option<u64>,
    /// What they were sent at.
    pub sent_kbps: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct HopView {
    pub point: String,
    pub bytes: u64,
}

impl RouteView {
    pub fn of(record: &OrderRecord) -> Vec<Self> {
        let Some(saga) = &record.saga else { return Vec::new() };
        saga.legs.iter().map(|leg| Self::leg(record, saga, leg)).collect()
    }

    fn leg(record: &OrderRecord, saga: &Saga, leg: &LegState) -> Self {
        let carry = leg.carry();
        let other = |p: &&PathState| !matches!(p.role, PathRole::Carry | PathRole::Gone);
        let trouble = leg.trouble.as_ref().or(leg.bare.as_ref()).map(|t| match &t.stuck {
            Some((_, reason)) => format!("{}; there is no other path: {reason}", t.cause),
            None => t.cause.clone(),
        });
        Self {
            order: record.id.to_string(),
            order_name: record.document.name.to_string(),
            generation: saga.generation,
            leg: leg.leg,
            flow: leg.flow,
            from: leg.source().to_string(),
            to: leg.sink().to_string(),
            path: names(&carry.links),
            provider: carry.carriage.provider().to_owned(),
            encrypted: leg.encrypted,
            protected: leg.protected,
            rate_kbps: leg.rate_of(carry).kbps(),
            promised_us: leg.bound.map(rhumb_model::Latency::micros),
            state: leg.route_state(saga.phase),
            trouble,
            moves: leg.moves.len() as u64,
            measured: MeasuredView::of(carry),
            others: leg.paths.iter().filter(other).map(PathStateView::of).collect(),
            hops: carry
                .points
                .iter()
                .map(|p| HopView { point: p.to_string(), bytes: carry.bytes.get(p).copied().unwrap_or(0) })
                .collect(),
        }
    }

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
                path: names(&leg.path),
                // what carried it went with it
                provider: "unknown".to_owned(),
                encrypted: record.document.constraints.encrypted || flow.is_some_and(|f| f.encrypted),
                protected: !leg.backup.is_empty(),
                rate_kbps: leg.rate_kbps,
                promised_us: base.path_bound(&record.document, leg.flow).map(rhumb_model::Latency::micros),
                state: RouteState::Terminated,
                trouble: None,
                moves: 0,
                measured: None,
                others: Vec::new(),
                hops: points.map(|point| HopView { point, bytes: 0 }).collect(),
            }
        })
        .collect()
    }
}

impl PathStateView {
    fn of(path: &PathState) -> Self {
        let (path_names, active) = (names(&path.links), path.is_active());
        Self { role: path.role, path: path_names, active, measured: MeasuredView::of(path) }
    }
}

impl MeasuredView {
    fn of(path: &PathState) -> Option<Self> {
        let tested = path.figures.and_then(|f| f.tested);
        let known = path.figures.is_some() || path.sight.is_some();
        known.then(|| Self {
            latency_us: path.measured().map(rhumb_model::Latency::micros),
            links_latency_us: path.sight.map(rhumb_model::Latency::micros),
            arrived_kbps: tested.map(|t| t.arrived.kbps()),
            sent_kbps: tested.map(|t| t.sent.kbps()),
        })
    }
}

fn names(links: &[LinkId]) -> Vec<String> {
    links.iter().map(ToString::to_string).collect()
}
