//! What a decision is asked, and by which rules.

use jiff::Timestamp;
use rhumb_model::{Amount, Order, order::Need, quantity::Bandwidth};
use serde::{Deserialize, Serialize};

/// One order to decide on. `seed` breaks no tie today (ties are broken by name); it is part of the question so that
/// a policy that samples stays repeatable.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub order: &'a Order,
    /// The instant from which times count.
    pub submit: Timestamp,
    pub seed: u64,
}

impl<'a> Request<'a> {
    pub fn new(order: &'a Order, submit: Timestamp) -> Self {
        Self { order, submit, seed: 0 }
    }
}

/// The rules of a decision, as `--policy FILE` writes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Nodes that one search may open before it ends with the gap it has. A node takes microseconds.
    pub node_budget: u64,
    /// The highest rung that staging may take.
    pub staging_max: Bandwidth,
    /// Take links whose figures are too old.
    pub allow_stale: bool,
    /// The route provider encrypts end to end, so that any link carries an encrypted flow.
    pub overlay_encrypts: bool,
    /// Paths that one leg may choose from where several legs share a full link.
    pub alternatives: u32,
    /// Searches that one explanation may spend on changes that would make the order fit. Beside it their nodes are limited:
    /// changes that take longer to prove are left out.
    pub counterfactuals: u32,
    /// What orders usually ask for: nodes within a site are chosen so that the least of their capacity is lost for these.
    /// Empty: the tightest nodes are chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub demand_mix: Vec<DemandEntry>,
    /// What it costs that one device is made unusable for the demand mix for an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragmentation_per_device_hour: Option<Amount>,
}

/// A need, and how often it comes beside the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DemandEntry {
    pub need: Need,
    pub weight: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            node_budget: 20_000,
            staging_max: Bandwidth::from_mbps(10_000),
            allow_stale: false,
            overlay_encrypts: false,
            alternatives: 64,
            counterfactuals: 400,
            demand_mix: Vec::new(),
            fragmentation_per_device_hour: None,
        }
    }
}
