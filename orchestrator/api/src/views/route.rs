//! Routes: the legs of orders, hop by hop.

use rhumb_control::Base;
use rhumb_model::LinkId;
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
