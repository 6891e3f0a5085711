//! A plan leaves nothing to decide: sites and models for each component, path and rate for each leg, cost by term.

use crate::{
    money::Currency,
    name::{ComponentName, LinkId, ModelName, PointName, SiteName},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub components: Vec<PlacedComponent>,
    pub flows: Vec<Leg>,
    /// All components start then; rounded half up to the microsecond.
    pub start: Timestamp,
    pub finish: Timestamp,
    pub cost: Cost,
    /// Bounds the total of any plan for this order on the same view.
    pub lower_bound_micros: i64,
    /// (total - bound) / total x 10^6, rounded up.
    pub gap_ppm: u32,
    pub proven_optimal: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedComponent {
    pub name: ComponentName,
    pub assignments: Vec<SiteAssignment>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteAssignment {
    pub site: SiteName,
    pub replicas: u32,
    /// `None` for CPU work.
    pub model: Option<ModelName>,
    pub devices_per_replica: u32,
}

/// One flow between one pair of ends; of a flow that is split, one of its paths with its part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    /// Index of the flow in the order.
    pub flow: u32,
    /// As the order writes it: a component, `dataset/NAME` or `region/NAME`.
    pub from: String,
    pub to: String,
    pub from_site: PointName,
    pub to_site: PointName,
    /// Empty when both ends are the same site.
    pub path: Vec<LinkId>,
    /// Of a protected flow: the links of the path that stands by, which holds the same rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backup: Vec<LinkId>,
    pub rate_kbps: u64,
    pub volume_bytes: u64,
    pub demand_mrps: u64,
    /// One way, rounded half up.
    pub latency_us: u64,
}

/// Micro-units of the federation's currency, by term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    pub total_micros: i64,
    pub compute_micros: i64,
    pub path_micros: i64,
    pub transfer_micros: i64,
    pub time_micros: i64,
    pub lateness_micros: i64,
    pub fragmentation_micros: i64,
    pub currency: Currency,
}
