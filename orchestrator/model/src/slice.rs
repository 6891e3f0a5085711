//! Slices of a device (NVIDIA MIG): how they are named, and what of a device they are.

use crate::quantity::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, collections::BTreeMap, fmt, str::FromStr};

/// How a device is cut into slices, or may be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mig {
    pub mode: MigMode,
    /// Those that there are, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<DeviceSlice>,
    /// What can still be cut beside them: how many of each profile, were no other cut.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub open: BTreeMap<SliceProfile, u32>,
}

/// A device in slices is not given away whole, be any there or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MigMode {
    On,
    Off,
}

/// One slice that there is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceSlice {
    /// On its device, as the driver numbers them; others may have it after the device was cut anew.
    pub number: u32,
    pub profile: SliceProfile,
    pub memory: Bytes,
    /// By which work is shown this slice alone; also tells it from one that had its number before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

/// What of a node is given to a replica. Holds, leases and desired states name each by one number: a device by its index,
/// a slice by a number that no device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Piece {
    Device(u32),
    Slice { device: u32, slice: u32 },
}

/// More devices than any node has.
const FIRST_SLICE: u32 = 1 << 20;

/// More slices than any device has.
const SLICES: u32 = 32;

impl Piece {
    /// `None`: no such piece can be named.
    pub fn number(self) -> Option<u32> {
        match self {
            Self::Device(index) => (index < FIRST_SLICE).then_some(index),
            Self::Slice { device, slice } if slice < SLICES => {
                device.checked_mul(SLICES)?.checked_add(slice)?.checked_add(FIRST_SLICE)
            }
            Self::Slice { .. } => None,
        }
    }

    pub fn of(number: u32) -> Self {
        match number.checked_sub(FIRST_SLICE) {
            None => Self::Device(number),
            Some(slices) => Self::Slice { device: slices / SLICES, slice: slices % SLICES },
        }
    }

    /// Numbers that slices of a device may have.
    pub fn slices_of(device: u32) -> std::ops::Range<u32> {
        let first = device.saturating_mul(SLICES).saturating_add(FIRST_SLICE);
        first..first.saturating_add(SLICES)
    }

    /// The device that it is, or is of.
    pub fn device(self) -> u32 {
        match self {
            Self::Device(device) | Self::Slice { device, .. } => device,
        }
    }
}

/// `3`, or `3/1` for slice 1 of device 3.
impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(device) => write!(f, "{device}"),
            Self::Slice { device, slice } => write!(f, "{device}/{slice}"),
        }
    }
}

/// What keeps work on a part of a device within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// The device itself: memory and processors of a slice are its own.
    Enforced,
    /// The work: it is told its share, and nothing but its own care keeps it to that.
    Advisory,
}

impl Isolation {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Advisory => "advisory",
        }
    }
}

/// As NVIDIA writes MIG profiles: `3g.40gb`, or `1g.10gb+me` with the media engines. Ordered by compute slices, then memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceProfile {
    /// Compute slices.
    pub compute: u8,
    /// As the name says it; GiB.
    pub gigabytes: u16,
    /// With the media engines, which one slice of a device can have.
    pub media: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no slice profile: write one such as 3g.40gb")]
pub struct NotAProfile(String);

impl SliceProfile {
    /// `3g.40gb` has 40 GiB.
    pub fn memory(self) -> Bytes {
        Bytes::from_bytes(u64::from(self.gigabytes) << 30)
    }
}

impl FromStr for SliceProfile {
    type Err = NotAProfile;

    fn from_str(text: &str) -> Result<Self, NotAProfile> {
        let wrong = || NotAProfile(text.chars().take(40).flat_map(char::escape_default).collect());
        let (name, media) = text.strip_suffix("+me").map_or((text, false), |name| (name, true));
        let (compute, memory) = name.split_once("g.").ok_or_else(wrong)?;
        let memory = memory.strip_suffix("gb").ok_or_else(wrong)?;
        let digits = |part: &str| part.bytes().all(|c| c.is_ascii_digit()) && !part.starts_with('0');
        if !digits(compute) || !digits(memory) {
            return Err(wrong());
        }
        let compute = compute.parse().ok().filter(|c| (1..=7).contains(c)).ok_or_else(wrong)?;
        let gigabytes = memory.parse().ok().filter(|m| (1..=1_024).contains(m)).ok_or_else(wrong)?;
        Ok(Self { compute, gigabytes, media })
    }
}

impl fmt::Display for SliceProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let media = if self.media { "+me" } else { "" };
        write!(f, "{}g.{}gb{media}", self.compute, self.gigabytes)
    }
}

impl Serialize for SliceProfile {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SliceProfile {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(d)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_has_a_number_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for device in (0..20).chain([4_095, 65_535, FIRST_SLICE - 1]) {
            let slices = (0..SLICES).map(|slice| Piece::Slice { device, slice });
            for piece in slices.chain([Piece::Device(device)]) {
                let number = piece.number().unwrap();
                assert_eq!((Piece::of(number), Piece::of(number).device()), (piece, device));
                assert!(seen.insert(number), "{piece}");
            }
        }
        assert_eq!(Piece::Device(FIRST_SLICE).number(), None);
        assert_eq!(Piece::Slice { device: 0, slice: SLICES }.number(), None);
        assert_eq!(Piece::Slice { device: u32::MAX, slice: 0 }.number(), None);
    }

    #[test]
    fn a_profile_reads_back_as_it_was_written() {
        for text in ["1g.5gb", "1g.10gb+me", "3g.40gb", "7g.141gb"] {
            assert_eq!(text.parse::<SliceProfile>().unwrap().to_string(), text);
        }
        for text in
            ["", "3g", "3g.40", "0g.5gb", "8g.80gb", "3g.040gb", "3g.40gb+", "+3g.40gb", "3g.-4gb", "3g.gb", "g.5gb"]
        {
            assert!(text.parse::<SliceProfile>().is_err(), "{text}");
        }
    }
}
