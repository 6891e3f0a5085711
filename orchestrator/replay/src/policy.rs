//! Policies as files: in which order jobs are tried, and where they go.

use rhumb_model::{
    DocumentError, document,
    quantity::{Share, Span},
    ratio::Decimal,
};
use serde::{Deserialize, Serialize};

/// What `--policy FILE` reads; every key has the default given here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    pub name: String,
    #[serde(default)]
    pub queue: Queue,
    #[serde(default)]
    pub estimate: Estimate,
    #[serde(default)]
    pub place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Queue {
    pub order: Order,
    /// How the number of devices weighs in `area` and `response`.
    pub devices: Weight,
    /// Whether a job that cannot start lets those behind it pass.
    pub skip: bool,
    /// Jobs that have waited for longer come before all others, the largest first: whole nodes that become free together
    /// go to a gang that needs so many, before smaller ones take them apart.
    pub overdue: Option<Span>,
    /// Free nodes are kept for gangs that wait too long.
    pub reserve: Option<Reserve>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// First come, first served.
    Arrival,
    /// Fewest devices first.
    Size,
    /// Shortest first, as known or guessed.
    Duration,
    /// Least duration times devices (weighed) first.
    Area,
    /// Largest (wait + duration) / (duration x devices (weighed)) first: short and small ones soon, and none for ever last.
    Response,
    Random,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    None,
    /// Their square root.
    Root,
    Full,
}

/// Nodes that become free are kept for a gang until it has all it needs, where that is worth it: where what it takes from
/// others, its devices x (its duration, known or guessed, + `drain` / jobs of its size that wait), is at most `worth` of
/// what the mean waiting job takes. Many short gangs that no chance would seat are then seated one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserve {
    pub worth: Share,
    /// Only for gangs that need so much of the nodes of the largest site: smaller ones find their nodes without.
    #[serde(default = "nothing")]
    pub at_least: Share,
    /// How long nodes are expected to be idle until there are enough of them.
    pub drain: Span,
    /// However much it takes, a gang that has waited for longer than this gets its nodes too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Span>,
    /// Who should be done within this share of the time until the gang has all its nodes may use them until then; 0: nobody.
    #[serde(default = "nothing")]
    pub backfill: Share,
    /// Jobs that nodes are kept for at a time.
    #[serde(default = "one")]
    pub most: u32,
}

fn nothing() -> Share {
    Share::ZERO
}

fn one() -> u32 {
    1
}

/// Durations that are not known are guessed from finished jobs of the same owner and size: their mean, drawn towards that
/// of all jobs of the size, and this towards `prior`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Estimate {
    pub prior: Span,
    /// Of each kind, about so many of the jobs that ended last count: what a kind of job does changes with time.
    pub recent: u32,
    /// Jobs of one owner and size that come within this of one another are one burst: most of them run equally long.
    pub burst: Span,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Place {
    pub score: Score,
    /// For `cost`: what sites are narrowed down to before the cost decides, one after the other.
    pub keep: Vec<Keep>,
    /// For `cost`: units of the federation's currency that an hour from submission to finish is worth for each device.
    pub value_per_device_hour: Decimal,
    /// Nodes that one search may open.
    pub node_budget: u64,
}

/// How a node is chosen. All but `cost` look at nodes alone, as their originals do: the path is found when the node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Score {
    /// Total cost of compute and path, as the orchestrator decides.
    Cost,
    /// The first in order of name.
    First,
    /// The least left over.
    BestFit,
    /// The need's and the node's vectors most alike.
    DotProd,
    /// Used nodes before free ones.
    Packing,
    /// Nodes with jobs of the same size.
    Clustering,
    /// The least growth of what the recent demand could not use.
    Fgd,
    Random,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The site that has the tightest node for the job, or of a gang the fewest free nodes left.
    Node,
    /// The smallest site, so that large ones stay free for large gangs.
    Site,
}

impl Default for Queue {
    fn default() -> Self {
        Self { order: Order::Arrival, devices: Weight::None, skip: true, overdue: None, reserve: None }
    }
}

impl Default for Estimate {
    fn default() -> Self {
        Self { prior: Span::from_micros(3_600_000_000), recent: 20, burst: Span::ZERO }
    }
}

impl Default for Place {
    fn default() -> Self {
        Self { score: Score::Cost, keep: Vec::new(), value_per_device_hour: Decimal::ZERO, node_budget: 2_000 }
    }
}

/// The built-in files by name.
const BUILT_IN: [(&str, &str); 9] = [
    ("fifo", include_str!("policies/fifo.yaml")),
    ("sjf", include_str!("policies/sjf.yaml")),
    ("bestfit", include_str!("policies/bestfit.yaml")),
    ("dotprod", include_str!("policies/dotprod.yaml")),
    ("packing", include_str!("policies/packing.yaml")),
    ("clustering", include_str!("policies/clustering.yaml")),
    ("fgd", include_str!("policies/fgd.yaml")),
    ("random", include_str!("policies/random.yaml")),
    ("rhumb", include_str!("policies/rhumb.yaml")),
];

impl Policy {
    /// Reads a policy file; an unknown key is refused with the nearest known one.
    pub fn read(text: &str) -> Result<Self, DocumentError> {
        let value = document::value(text, document::Form::Yaml, document::MAX_BYTES)?;
        document::convert_map(value)
    }

    /// A built-in policy.
    pub fn named(name: &str) -> Option<Self> {
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        Some(Self::read(text).expect("a built-in policy is sound"))
    }

    /// The names of the built-in policies.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The file of a built-in policy.
    pub fn file(name: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_policy_reads_and_has_its_name() {
        for name in Policy::names() {
            assert_eq!(Policy::named(name).unwrap().name, name);
        }
        assert_eq!(Policy::named("worstfit"), None);
    }

    #[test]
    fn an_unknown_key_or_word_is_refused_with_the_nearest_known() {
        let error = Policy::read("name: x\nqueue: {ordr: arrival}\n").unwrap_err().to_string();
        assert!(error.contains("/queue/ordr") && error.contains("\"order\""), "{error}");
        let error = Policy::read("name: x\nplace: {score: bestfitt}\n").unwrap_err().to_string();
        assert!(error.contains("bestfit"), "{error}");
    }
}
