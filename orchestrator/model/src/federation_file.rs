//! The federation file: sites, transit points, links, datasets, regions. Read offline, by the demo and by replay;
//! `order explain --export` writes one.

mod check;
mod convert;
mod mig;

pub use mig::{MigEntry, SlicesEntry};

use crate::{
    calendar::{Calendar, Slots},
    document::{self, DocumentError, Form},
    money::{Amount, Currency},
    name::{
        DatasetName, Jurisdiction, Label, LinkId, ModelName, OrderName, PointName, ProviderName, RegionName, SiteName,
        SrlgName,
    },
    order::Precision,
    price::PriceBook,
    quantity::{Bandwidth, Bytes, Cores, Latency, Ppm, Share, Span},
    ratio::Decimal,
    site::{Coordinates, Tier},
    state::SiteState,
    tariff::Tariff,
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FederationFile {
    pub currency: Currency,
    /// What one unit of another currency is worth in `currency`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rates: BTreeMap<String, Decimal>,
    /// The instant an exported view was decided at; `rhumb place` takes it where `--at` is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    #[serde(default)]
    pub devices: BTreeMap<ModelName, DeviceKind>,
    pub sites: Vec<SiteEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transit: Vec<TransitEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub datasets: Vec<DatasetEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<RegionEntry>,
    /// Written by an export: what will be free when orders end. Those up to `at` count as ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<ReleaseEntry>,
}

/// An order that ends, and what is free from then on where it held something, if nothing new is placed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseEntry {
    pub at: Timestamp,
    pub order: OrderName,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<ReleasedSite>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<ReleasedLink>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleasedSite {
    pub name: SiteName,
    /// All that is free at the site then.
    pub nodes: Vec<NodeEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleasedLink {
    /// Of the directed link.
    pub id: LinkId,
    /// All that nobody holds for good then; what is booked for a time counts beside it.
    pub capacity: Bandwidth,
}

/// A device's memory and its relative rate by precision.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceKind {
    pub memory: Bytes,
    #[serde(flatten)]
    pub rates: BTreeMap<Precision, Decimal>,
}

// By hand: serde's `flatten` loses the path to an entry that does not parse.
impl<'de> Deserialize<'de> for DeviceKind {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = DeviceKind;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("memory, and a rate by precision")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<DeviceKind, A::Error> {
                const KEYS: &[&str] = &["memory", "fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4"];
                let mut memory = None;
                let mut rates = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    match key.parse() {
                        _ if key == "memory" => memory = Some(map.next_value()?),
                        Ok(precision) => {
                            rates.insert(precision, map.next_value()?);
                        }
                        Err(_) => return Err(de::Error::unknown_field(&key, KEYS)),
                    }
                }
                Ok(DeviceKind { memory: memory.ok_or_else(|| de::Error::missing_field("memory"))?, rates })
            }
        }
        d.deserialize_map(Visitor)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteEntry {
    pub name: SiteName,
    #[serde(default = "core")]
    pub tier: Tier,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Coordinates>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jurisdiction: Option<Jurisdiction>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<Label>,
    #[serde(default)]
    pub prices: PriceBook,
    /// What can be ordered; of an export, what is free.
    #[serde(default)]
    pub nodes: Vec<NodeEntry>,
    /// Written by an export where it differs from `nodes`: the nodes with nothing taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub installed: Vec<NodeEntry>,
    /// Written by an export: `draining` or `lost` sites take no work.
    #[serde(default = "ready", skip_serializing_if = "is_ready")]
    pub state: SiteState,
    /// Written by an export: how old the site's last report was. In a file without `at`, a site whose report is older than a
    /// minute is given no work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<Span>,
}

fn core() -> Tier {
    Tier::Core
}

fn ready() -> SiteState {
    SiteState::Ready
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature serde asks for
fn is_ready(state: &SiteState) -> bool {
    *state == SiteState::Ready
}

/// `count` equal nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeEntry {
    #[serde(default = "one")]
    pub count: u32,
    #[serde(default, skip_serializing_if = "OneOrMany::is_none")]
    pub accelerators: OneOrMany,
    #[serde(default)]
    pub cpu: Cores,
    #[serde(default)]
    pub memory: Bytes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvl_domain: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<Label>,
}

fn one() -> u32 {
    1
}

/// One group of equal devices, as people write it, or a list of groups.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OneOrMany(pub Vec<DeviceGroupEntry>);

impl OneOrMany {
    fn is_none(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for OneOrMany {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match &*self.0 {
            [one] => one.serialize(s),
            many => many.serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = OneOrMany;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one group of accelerators, or a list of groups")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<OneOrMany, A::Error> {
                let one = DeviceGroupEntry::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(OneOrMany(vec![one]))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<OneOrMany, A::Error> {
                Vec::deserialize(de::value::SeqAccessDeserializer::new(seq)).map(OneOrMany)
            }
        }
        d.deserialize_any(Visitor)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceGroupEntry {
    pub model: ModelName,
    pub count: u32,
    /// Of one device, where it is not what `devices` says of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Sizes of the NVLink islands; devices beyond their sum have no NVLink.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub islands: Vec<u32>,
    /// Sizes of the NUMA nodes' and PCIe switches' groups, in the same device order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numa: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pcie: Vec<u32>,
    /// Slices (MIG) that are cut, or may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<MigEntry>,
    /// Written by an export: more devices of this group, all of them taken.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub busy: u32,
    /// Written by an export: more devices of this group, and what is free of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partial: Vec<PartialEntry>,
    /// Written by an export: more devices of this group, in slices, and what is free of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<SlicesEntry>,
    /// Written by an export where sizes cannot say it: the places of all devices of this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<PlaceEntry>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature serde asks for
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// The free part of a partly taken device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartialEntry {
    pub share: Share,
    pub memory: Bytes,
}

/// Numbers of a group's NVLink island, NUMA node and PCIe switch within its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceEntry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub island: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransitEntry {
    pub name: PointName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Coordinates>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jurisdiction: Option<Jurisdiction>,
    /// True: runs an agent without devices. False: opaque.
    #[serde(default)]
    pub relay: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkEntry {
    pub id: LinkId,
    pub from: PointName,
    pub to: PointName,
    #[serde(default, skip_serializing_if = "is_false")]
    pub both_ways: bool,
    /// What can be reserved; of an export, what is free.
    pub capacity: Bandwidth,
    /// Written by an export where it differs from `capacity`: what can be reserved in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<Bandwidth>,
    /// One way; of an export, the figure that the decision used.
    pub latency: Latency,
    #[serde(default)]
    pub jitter: Latency,
    #[serde(default)]
    pub loss: Ppm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_gb: Option<Amount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_mbps_hour: Option<Amount>,
    /// Beside these: a price that depends on how the link is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tariff: Option<Tariff>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderName>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub jurisdictions: BTreeSet<Jurisdiction>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub encrypted: bool,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub srlg: BTreeSet<SrlgName>,
    /// Written by an export: the figures were too old to be trusted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stale: bool,
    /// What of `capacity` is taken for a time, in slots of 15 minutes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub booked: Vec<BookedEntry>,
}

/// A rate booked on a link from one instant until another; every slot of 15 minutes that this touches counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BookedEntry {
    pub from: Timestamp,
    pub until: Timestamp,
    pub rate: Bandwidth,
}

impl LinkEntry {
    pub fn calendar(&self) -> Calendar {
        let mut calendar = Calendar::default();
        self.booked.iter().for_each(|b| calendar.book(Slots::touched(b.from, b.until), b.rate));
        calendar
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature serde asks for
fn is_false(b: &bool) -> bool {
    !b
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetEntry {
    pub name: DatasetName,
    pub size: Bytes,
    /// Sites that hold a copy.
    pub at: Vec<SiteName>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionEntry {
    pub name: RegionName,
    /// A site or transit point.
    pub at: PointName,
    /// One way from the users to that point.
    #[serde(default)]
    pub access: Latency,
}

impl FederationFile {
    /// Reads YAML or JSON and checks every reference.
    pub fn read(text: &str) -> Result<Self, DocumentError> {
        let value = document::value(text, Form::Yaml, document::MAX_LARGE_BYTES)?;
        let file: Self = document::convert_map(value)?;
        file.check()?;
        Ok(file)
    }

    /// Everything wrong that the types cannot express: names, references, sizes, currencies.
    pub fn check(&self) -> Result<(), DocumentError> {
        check::check(self)
    }
}
