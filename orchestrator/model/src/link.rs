//! Directed links between points, as configured. Measured figures are the federation view's.

use crate::{
    money::Amount,
    name::{Jurisdiction, LinkId, PointName, ProviderName, SrlgName},
    quantity::{Bandwidth, Latency, Ppm},
    tariff::Tariff,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    pub id: LinkId,
    pub from: PointName,
    pub to: PointName,
    /// What orders may reserve.
    pub capacity: Bandwidth,
    /// One way, as configured.
    pub latency: Latency,
    pub jitter: Latency,
    pub loss: Ppm,
    pub per_gb: Option<Amount>,
    pub per_mbps_hour: Option<Amount>,
    /// Beside these.
    pub tariff: Option<Tariff>,
    pub provider: Option<ProviderName>,
    /// Every jurisdiction that it crosses; empty: unstated.
    pub jurisdictions: BTreeSet<Jurisdiction>,
    pub encrypted: bool,
    pub srlg: BTreeSet<SrlgName>,
    /// The other half of a link declared both ways.
    pub reverse: Option<LinkId>,
}

/// Where a figure for a link's bandwidth is from, the most trusted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BandwidthMethod {
    /// The contract's committed rate.
    Reserved,
    /// That less what counters saw pass.
    Counters,
    /// Packet trains.
    Trains,
    /// A bounded run of TCP.
    Tcp,
}

/// How far to trust a measured bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    Low,
    Medium,
    High,
}
