//! Why something does not fit, and what would have to change.

use crate::{
    name::{ComponentName, SiteName},
    state::words,
};
use serde::{Deserialize, Serialize};

pub use crate::state::UnknownWord;
use std::{fmt, str::FromStr};

words! {
    /// Closed set, in order of precedence: the earliest that applies is the one named.
    ReasonKind {
        NotAllowed = "not_allowed",
        Jurisdiction = "jurisdiction",
        Label = "label",
        Model = "model",
        Precision = "precision",
        Memory = "memory",
        Interconnect = "interconnect",
        /// Fragmented: enough in sum, on no single node; the largest fit is named.
        Shape = "shape",
        Capacity = "capacity",
        Quota = "quota",
        Budget = "budget",
        PriceWindow = "price_window",
        NoPath = "no_path",
        Latency = "latency",
        Bandwidth = "bandwidth",
        Encryption = "encryption",
        Stale = "stale",
        Draining = "draining",
        Deadline = "deadline",
        SearchLimit = "search_limit",
    }
}

/// One reason. `needed` and `free` are texts with units, for people.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reason {
    pub reason: ReasonKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<ComponentName>,
    /// Index of the flow in the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteName>,
    pub needed: String,
    pub free: String,
}

/// The smallest single change of one kind that would have made the order fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// JSON pointer into the order (`/components/0/...`) or the federation (`/sites/NAME/...`, `/links/ID/...`); `/at` is the
    /// instant of the decision.
    pub pointer: String,
    pub from: String,
    pub to: String,
    /// Total of the plan after the change.
    pub cost_micros: i64,
    /// What brings the change about by itself, such as `order nightly ends`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub reasons: Vec<Reason>,
    pub would_fit_if: Vec<Change>,
    pub sites: Vec<Verdict>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    Chosen,
    Dearer,
    Refused,
}

/// What the decision says of one site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub site: SiteName,
    pub verdict: VerdictKind,
    /// Cheapest plan that uses this site, less the plan chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta_micros: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The difference by term, where the site is dearer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<crate::plan::Cost>,
    /// `delta_micros` is a bound: the site costs at least so much more. Of sites that a search of this size does not reach.
    #[serde(default, skip_serializing_if = "is_false")]
    pub at_least: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature serde asks for
fn is_false(b: &bool) -> bool {
    !b
}
