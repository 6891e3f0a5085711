//! The order document. `Order::read` gives a checked order or every problem found, each with its JSON pointer.

use crate::{
    document::{self, DocumentError, Form},
    money::Amount,
    name::{ComponentName, DatasetName, Jurisdiction, Label, ModelName, OrderName, RegionName, SiteName},
    quantity::{Bandwidth, Bytes, Cores, Demand, Latency, Share, Span},
    ratio::Decimal,
    slice::SliceProfile,
    state::words,
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{collections::BTreeMap, collections::BTreeSet, fmt, str::FromStr};

pub use crate::state::UnknownWord;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    pub name: OrderName,
    pub class: Class,
    pub components: Vec<Component>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<Flow>,
    #[serde(default)]
    pub constraints: Constraints,
    #[serde(default)]
    pub terms: Terms,
}

impl Order {
    /// Reads YAML or JSON (of at most `document::MAX_BYTES`) and checks it.
    pub fn read(text: &str) -> Result<Self, DocumentError> {
        Self::from_value(document::value(text, Form::Yaml, document::MAX_BYTES)?)
    }

    /// Reads a body that says it is JSON.
    pub fn read_json(text: &str) -> Result<Self, DocumentError> {
        Self::from_value(document::value(text, Form::Json, document::MAX_BYTES)?)
    }

    /// Takes a plain value that `document::value` has read, such as a part of a larger body.
    pub fn from_value(value: serde_json::Value) -> Result<Self, DocumentError> {
        let order: Self = document::convert_map(value)?;
        crate::order_check::check(&order)?;
        Ok(order)
    }

    pub fn component(&self, name: &ComponentName) -> Option<&Component> {
        self.components.iter().find(|c| &c.name == name)
    }
}

words! {
    Class {
        Training = "training",
        Inference = "inference",
        Tuning = "tuning",
        Processing = "processing",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    pub name: ComponentName,
    #[serde(default)]
    pub replicas: Replicas,
    #[serde(default = "yes")]
    pub gang: bool,
    pub need: Need,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    #[serde(default, skip_serializing_if = "Place::is_empty")]
    pub place: Place,
}

fn yes() -> bool {
    true
}

/// A fixed number, or a range of which the fewest that do are used. `max` may be absent in the document: then it equals `min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replicas {
    pub min: u32,
    pub max: u32,
}

impl Default for Replicas {
    fn default() -> Self {
        Self { min: 1, max: 1 }
    }
}

impl Serialize for Replicas {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if self.min == self.max {
            return s.serialize_u32(self.min);
        }
        Range { min: self.min, max: Some(self.max) }.serialize(s)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    min: u32,
    max: Option<u32>,
}

impl<'de> Deserialize<'de> for Replicas {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Replicas;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of replicas, or {min, max}")
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Replicas, E> {
                let n = u32::try_from(v)
                    .map_err(|_| E::custom(format!("{v} replicas are out of range: use 1 to 10000")))?;
                Ok(Replicas { min: n, max: n })
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Replicas, E> {
                let n = u32::try_from(v)
                    .map_err(|_| E::custom(format!("{v} replicas are out of range: use 1 to 10000")))?;
                Ok(Replicas { min: n, max: n })
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Replicas, A::Error> {
                let r = Range::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Replicas { min: r.min, max: r.max.unwrap_or(r.min) })
            }
        }
        d.deserialize_any(Visitor)
    }
}

/// What one replica needs, on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Need {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerators: Option<Accelerators>,
    #[serde(default)]
    pub cpu: Cores,
    #[serde(default)]
    pub memory: Bytes,
}

/// Whole devices (`count`), MIG slices of one node's devices (`mig`, `count`) or a share of one device (`share`, `memory`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accelerators {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Empty: any model that has a price and a rate at the precision.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub models: BTreeSet<ModelName>,
    /// At least this much on each device; of a share, what it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    #[serde(default = "fp16")]
    pub precision: Precision,
    #[serde(default = "on_node")]
    pub interconnect: Interconnect,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<SliceProfile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
}

impl Accelerators {
    /// Whole devices of one node, whatever joins them.
    pub fn whole(count: u32) -> Self {
        Self {
            count: Some(count),
            models: BTreeSet::new(),
            memory: None,
            precision: fp16(),
            interconnect: on_node(),
            mig: None,
            share: None,
        }
    }
}

fn fp16() -> Precision {
    Precision::Fp16
}

fn on_node() -> Interconnect {
    Interconnect::Node
}

words! {
    Precision {
        Fp64 = "fp64",
        Fp32 = "fp32",
        Tf32 = "tf32",
        Bf16 = "bf16",
        Fp16 = "fp16",
        Fp8 = "fp8",
        Int8 = "int8",
        Int4 = "int4",
    }
}

words! {
    /// The first four bind the devices of one replica, the last three the replicas of one component.
    Interconnect {
        Nvlink = "nvlink",
        Pcie = "pcie",
        Numa = "numa",
        Node = "node",
        NvlDomain = "nvl_domain",
        Rack = "rack",
        Site = "site",
    }
}

/// `{hours, reference}`: scaled by the device's rate; or `{duration}`: as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<Decimal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<ModelName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// What one replica serves.
    pub serves: Demand,
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Run {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// By accelerator family: another image or command.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variants: BTreeMap<String, Variant>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Place {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// Components that must stand on the same sites.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub colocate: BTreeSet<ComponentName>,
}

impl Place {
    fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

words! {
    /// No two replicas on the same ...
    Spread {
        Node = "node",
        Rack = "rack",
        Site = "site",
    }
}

/// An end of a flow.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Component(ComponentName),
    Dataset(DatasetName),
    Region(RegionName),
}

impl FromStr for End {
    type Err = crate::name::NameError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some(("dataset", name)) => DatasetName::new(name).map(Self::Dataset),
            Some(("region", name)) => RegionName::new(name).map(Self::Region),
            _ => ComponentName::new(text).map(Self::Component),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Component(n) => write!(f, "{n}"),
            Self::Dataset(n) => write!(f, "dataset/{n}"),
            Self::Region(n) => write!(f, "region/{n}"),
        }
    }
}

impl Serialize for End {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for End {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(|e| de::Error::custom(format!("{e}; other ends are dataset/NAME and region/NAME")))
    }
}

#[allow(clippy::struct_excessive_bools)] // they are the document's keys
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    pub from: End,
    pub to: End,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Bandwidth>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<Demand>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_latency: Option<Latency>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub copy: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub encrypted: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub protected: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub split: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature serde asks for
fn is_false(b: &bool) -> bool {
    !b
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Constraints {
    /// Binds sites and every point and link of every path. Empty: any.
    pub jurisdictions: BTreeSet<Jurisdiction>,
    /// All of them, at every site used.
    pub labels: BTreeSet<Label>,
    pub encrypted: bool,
    pub max_sites: Option<u32>,
    /// Empty: any.
    pub sites: BTreeSet<SiteName>,
    pub not_sites: BTreeSet<SiteName>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Terms {
    #[serde(deserialize_with = "instant")]
    pub deadline: Option<Timestamp>,
    pub budget: Option<Amount>,
    pub value_per_hour: Option<Amount>,
    pub late_per_hour: Option<Amount>,
    /// 0 to 100; more is sooner. Default 50.
    pub priority: Option<u8>,
    pub window: Option<Window>,
    /// What leaving the order undone costs, in batches.
    pub value: Option<Amount>,
    /// How long a service is paid for in the plan. Default 24h.
    pub horizon: Option<Span>,
    pub failover: Failover,
    pub preemptible: bool,
    pub checkpoint: Option<Checkpoint>,
}

fn instant<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Timestamp>, D::Error> {
    let Some(text) = Option::<String>::deserialize(d)? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        let shown: String = text.chars().take(40).flat_map(char::escape_default).collect();
        de::Error::custom(format!("\"{shown}\" is not an instant: write RFC 3339, such as 2026-12-01T08:00:00Z"))
    })
}

/// Daily and local, [from, to); may pass midnight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    pub from: crate::price::ClockTime,
    pub to: crate::price::ClockTime,
    pub tz: crate::price::Zone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Failover {
    /// Runs on at a cut-off site and is never placed again until that site says that it stopped.
    #[default]
    None,
    Lease(Span),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaseForm {
    lease: Span,
}

impl Serialize for Failover {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => s.serialize_str("none"),
            Self::Lease(lease) => LeaseForm { lease: *lease }.serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for Failover {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Failover;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("none, or {lease: a time such as 60s}")
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Failover, E> {
                if v == "none" { Ok(Failover::None) } else { Err(E::invalid_value(de::Unexpected::Str(v), &self)) }
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Failover, A::Error> {
                Ok(Failover::Lease(LeaseForm::deserialize(de::value::MapAccessDeserializer::new(map))?.lease))
            }
        }
        d.deserialize_any(Visitor)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Such as `SIGUSR1`.
    pub signal: String,
    pub grace: Span,
}
