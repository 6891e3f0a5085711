//! How a file says that devices are cut, or may be cut, into slices.

use crate::{
    fit::{Slices, slice},
    quantity::Bytes,
    slice::{DeviceSlice, Mig, MigMode, SliceProfile},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{collections::BTreeMap, fmt};

/// `any`: each free device of the group may be cut as orders ask. `{3g.40gb: 2}`: slices by profile, of all devices of the
/// group together, that are cut already; they stand on the fewest of the last devices, and the rest stay whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigEntry {
    Any,
    Cut(BTreeMap<SliceProfile, u32>),
}

impl MigEntry {
    /// Devices in slices that the entry stands for. `None`: the slices do not stand on `count` devices.
    pub fn devices(&self, device: Bytes, count: u32) -> Option<Vec<Slices>> {
        match self {
            Self::Any => Some(Vec::new()),
            Self::Cut(slices) => slice::cut(&expand(slices), device, count),
        }
    }

    /// What each of the `count` devices is: the last ones are those in slices, numbered as they come.
    pub fn of_each(&self, device: Bytes, count: u32) -> Vec<Mig> {
        let cut = self.devices(device, count).unwrap_or_default();
        let whole = Mig { mode: MigMode::Off, slices: Vec::new(), open: slice::open(device, &[]) };
        let first = (count as usize).saturating_sub(cut.len());
        std::iter::repeat_n(whole, first).chain(cut.iter().map(|slices| in_slices(slices, device))).collect()
    }

    /// How many slices it names.
    pub(super) fn slices(&self) -> u64 {
        match self {
            Self::Any => 0,
            Self::Cut(slices) => slices.values().map(|n| u64::from(*n)).sum(),
        }
    }
}

fn in_slices(slices: &Slices, device: Bytes) -> Mig {
    let profiles = match slices {
        Slices::Cut(profiles) => profiles.as_slice(),
        Slices::Open { .. } => &[],
    };
    let slice = |(number, profile): (usize, &SliceProfile)| DeviceSlice {
        number: number as u32,
        profile: *profile,
        memory: slice::memory(*profile, device),
        uuid: None,
    };
    let standing: Vec<_> = profiles.iter().map(|p| (*p, None)).collect();
    let slices = profiles.iter().enumerate().map(slice).collect();
    Mig { mode: MigMode::On, slices, open: slice::open(device, &standing) }
}

fn expand(slices: &BTreeMap<SliceProfile, u32>) -> Vec<SliceProfile> {
    slices.iter().flat_map(|(profile, n)| std::iter::repeat_n(*profile, *n as usize)).collect()
}

impl Serialize for MigEntry {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Any => s.serialize_str("any"),
            Self::Cut(slices) => slices.serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for MigEntry {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = MigEntry;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any, or slices by profile such as {3g.40gb: 2}")
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<MigEntry, E> {
                if v == "any" { Ok(MigEntry::Any) } else { Err(E::invalid_value(de::Unexpected::Str(v), &self)) }
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<MigEntry, A::Error> {
                BTreeMap::deserialize(de::value::MapAccessDeserializer::new(map)).map(MigEntry::Cut)
            }
        }
        d.deserialize_any(Visitor)
    }
}

/// What is free of a device in slices: the idle slices of one that is cut for good, or else the memory slices that are
/// taken, numbered from 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlicesEntry {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub idle: BTreeMap<SliceProfile, u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<u8>,
    /// The media engines are taken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub media: bool,
}

impl SlicesEntry {
    pub fn of(slices: &Slices, device: Bytes) -> Self {
        match slices.settled(device) {
            Slices::Cut(list) => {
                let mut idle = BTreeMap::new();
                for profile in list {
                    *idle.entry(profile).or_insert(0) += 1;
                }
                Self { idle, taken: Vec::new(), media: false }
            }
            Slices::Open { taken, media, .. } => {
                let taken = (0..8).filter(|bit| taken & (1 << bit) != 0).collect();
                Self { idle: BTreeMap::new(), taken, media }
            }
        }
    }

    pub fn slices(&self) -> Slices {
        if self.idle.is_empty() {
            let taken = self.taken.iter().filter(|bit| **bit < 8).fold(0, |mask, bit| mask | (1 << bit));
            return Slices::Open { taken, media: self.media, new: Vec::new() };
        }
        let mut idle = expand(&self.idle);
        idle.sort_unstable();
        Slices::Cut(idle)
    }
}
