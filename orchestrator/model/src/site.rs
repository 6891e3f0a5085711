//! Sites, nodes and devices as they are known: declared by a file or reported by an agent.

use crate::{
    name::{Jurisdiction, Label, ModelName, NodeName, SiteName},
    price::PriceBook,
    quantity::{Bytes, Cores},
    ratio::Decimal,
    state::{SiteState, words},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

pub use crate::{
    slice::{DeviceSlice, Isolation, Mig, MigMode, Piece},
    state::UnknownWord,
};
use std::{fmt, str::FromStr};

words! {
    Tier {
        Core = "core",
        Cloud = "cloud",
        Edge = "edge",
        Device = "device",
    }
}

/// Degrees, north and east positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coordinates {
    pub lat: Decimal,
    pub lon: Decimal,
}

/// What is known of a site besides its nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Site {
    pub name: SiteName,
    pub tier: Tier,
    pub place: Option<Coordinates>,
    pub jurisdiction: Option<Jurisdiction>,
    pub labels: BTreeSet<Label>,
    pub prices: PriceBook,
    pub state: SiteState,
}

words! {
    /// Unknown is not healthy: only `ok` devices are given away.
    Health {
        Ok = "ok",
        Degraded = "degraded",
        Failed = "failed",
        Unknown = "unknown",
        /// Well, and in use by work that nobody ordered here.
        Unmanaged = "unmanaged",
    }
}

/// One accelerator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Device {
    /// Position in its node, from 0; with site and node the device's identity (UUIDs of some drivers are all zero).
    pub index: u32,
    pub model: ModelName,
    pub memory: Bytes,
    /// NVLink island within the node; `None`: no NVLink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub island: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie: Option<u16>,
    pub health: Health,
    /// `None`: it cannot be cut into slices, or nobody can say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<Mig>,
}

impl Device {
    /// Whether it is given away in slices only.
    pub fn is_in_slices(&self) -> bool {
        self.mig.as_ref().is_some_and(|mig| mig.mode == MigMode::On)
    }

    pub fn slices(&self) -> &[DeviceSlice] {
        self.mig.as_ref().filter(|mig| mig.mode == MigMode::On).map_or(&[], |mig| &mig.slices)
    }
}

/// One host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub name: NodeName,
    pub devices: Vec<Device>,
    pub cpu: Cores,
    pub memory: Bytes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvl_domain: Option<Label>,
}
