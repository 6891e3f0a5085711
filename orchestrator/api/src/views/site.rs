//! Sites with their nodes and devices.

use super::device::{self, NodeView};
use rhumb_control::{
    Desk,
    hub::{LastReport, State},
};
use rhumb_federation::ProberFault;
use rhumb_model::{PointName, SiteName, ratio::whole_micros, site::Coordinates, state::SiteState};
use rhumb_provision::Prices;
use rhumb_store::{AnyStore, Holder, Holdings, NodeRecord, PointRecord};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub struct SiteView {
    pub name: String,
    pub tier: String,
    #[schema(value_type = Option<Object>)]
    pub place: Option<Coordinates>,
    /// Millionths of a degree.
    pub lat_micro: Option<i64>,
    pub lon_micro: Option<i64>,
    pub jurisdiction: Option<String>,
    pub labels: Vec<String>,
    #[schema(value_type = String)]
    pub state: SiteState,
    pub observed_age_ms: Option<u64>,
    pub stale: bool,
    pub accelerators: Vec<ModelCount>,
    /// Mean use of the devices of which it is known, and of how many that is; null: of none.
    pub utilisation_pct: Option<u8>,
    pub utilisation_known: u32,
    pub nodes: Vec<NodeView>,
    pub prices: PriceView,
    pub unmanaged: u32,
    /// What is wrong with its prober: `silent`, `deaf` or `untrue`; its links are stale then.
    pub prober_fault: Option<&'static str>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ModelCount {
    pub model: String,
    pub total: u32,
    pub free: u32,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct PriceView {
    pub currency: String,
    /// Micro-units per device-hour, before windows.
    pub devices: BTreeMap<String, i64>,
    pub cpu_micros: i64,
    pub memory_gib_micros: i64,
    /// Factor of the price window that is open now.
    pub factor_now: f64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TransitView {
    pub name: String,
    #[schema(value_type = Option<Object>)]
    pub place: Option<Coordinates>,
    pub lat_micro: Option<i64>,
    pub lon_micro: Option<i64>,
    pub jurisdiction: Option<String>,
    pub relay: bool,
    #[schema(value_type = String)]
    pub state: SiteState,
    pub observed_age_ms: Option<u64>,
    pub stale: bool,
    /// As of a site.
    pub prober_fault: Option<&'static str>,
}

fn prober_fault(state: &State, point: &PointName) -> Option<&'static str> {
    state.figures.review().faults.get(point).map(|fault| match fault {
        ProberFault::Silent => "silent",
        ProberFault::Deaf => "deaf",
        ProberFault::Untrue => "untrue",
    })
}

fn micro(place: Option<&Coordinates>) -> (Option<i64>, Option<i64>) {
    let scaled = |d: rhumb_model::Decimal| d.times(1_000_000).and_then(|m| i64::try_from(m).ok());
    (place.and_then(|p| scaled(p.lat)), place.and_then(|p| scaled(p.lon)))
}

/// Whom a caller sees named on a device: the holder's id for his own, `held` for others'.
pub type Shown<'a> = &'a dyn Fn(&Holder) -> String;

pub fn sites(
    desk: &Desk<AnyStore>,
    nodes: &[NodeRecord],
    points: &[PointRecord],
    held: &Holdings,
    shown: Shown<'_>,
) -> Vec<SiteView> {
    let file = &desk.base().file;
    file.sites
        .iter()
        .map(|s| site(desk, &s.name, nodes, points, held, shown))
        .collect::<Option<Vec<_>>>()
        .unwrap_or_default()
}

pub fn site(
    desk: &Desk<AnyStore>,
    name: &SiteName,
    nodes: &[NodeRecord],
    points: &[PointRecord],
    held: &Holdings,
    shown: Shown<'_>,
) -> Option<SiteView> {
    let entry = desk.base().file.sites.iter().find(|s| &s.name == name)?;
    let state = desk.hub().lock();
    let last = state.points.get(name).and_then(|p| p.last.as_ref());
    let draining = points.iter().any(|p| &p.name == name && p.draining);
    let site_state = LastReport::state(last, desk.config().times.lost_after, draining);
    let heard = last.map(|l| &l.devices);
    let nodes: Vec<_> = nodes.iter().filter(|n| &n.site == name).map(|n| device::node(n, held, shown, heard)).collect();
    let mut models: BTreeMap<String, ModelCount> = BTreeMap::new();
    for d in nodes.iter().flat_map(|n| &n.devices) {
        let count =
            models.entry(d.model.clone()).or_insert_with(|| ModelCount { model: d.model.clone(), total: 0, free: 0 });
        count.total += 1;
        // one in slices is given to nobody as a whole
        count.free += u32::from(d.share == 0 && d.health == "ok" && d.mig != Some("on"));
    }
    let used: Vec<u32> =
        nodes.iter().flat_map(|n| &n.devices).filter_map(|d| d.utilisation_pct.map(u32::from)).collect();
    let (lat_micro, lon_micro) = micro(entry.place.as_ref());
    let base = desk.base();
    let factor = entry.prices.factor_at(desk.now());
    Some(SiteView {
        name: name.to_string(),
        tier: entry.tier.to_string(),
        place: entry.place,
        lat_micro,
        lon_micro,
        jurisdiction: entry.jurisdiction.as_ref().map(ToString::to_string),
        labels: entry.labels.iter().map(ToString::to_string).collect(),
        state: site_state,
        observed_age_ms: last.map(|l| l.heard.elapsed().as_millis() as u64),
        stale: matches!(site_state, SiteState::Lost | SiteState::NeverSeen),
        accelerators: models.into_values().collect(),
        utilisation_pct: used.iter().sum::<u32>().checked_div(used.len() as u32).map(|pct| pct as u8),
        utilisation_known: used.len() as u32,
        nodes,
        prices: PriceView {
            currency: base.currency().to_string(),
            devices: entry.prices.devices.keys().map(|m| (m.to_string(), whole_micros(base.device(name, m)))).collect(),
            cpu_micros: whole_micros(base.core(name)),
            memory_gib_micros: whole_micros(base.gib(name)),
            factor_now: *factor.numer() as f64 / *factor.denom() as f64,
        },
        unmanaged: last.map_or(0, |l| l.report.unmanaged),
        prober_fault: prober_fault(&state, name),
    })
}

pub fn transit(desk: &Desk<AnyStore>) -> Vec<TransitView> {
    let state = desk.hub().lock();
    desk.base()
        .file
        .transit
        .iter()
        .map(|t| {
            let last = state.points.get(&t.name).and_then(|p| p.last.as_ref());
            let point = LastReport::state(last, desk.config().times.lost_after, false);
            let (lat_micro, lon_micro) = micro(t.place.as_ref());
            TransitView {
                name: t.name.to_string(),
                place: t.place,
                lat_micro,
                lon_micro,
                jurisdiction: t.jurisdiction.as_ref().map(ToString::to_string),
                relay: t.relay,
                state: point,
                observed_age_ms: last.map(|l| l.heard.elapsed().as_millis() as u64),
                stale: t.relay && matches!(point, SiteState::Lost | SiteState::NeverSeen),
                prober_fault: prober_fault(&state, &t.name),
            }
        })
        .collect()
}
