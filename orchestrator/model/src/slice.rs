//! The name of a slice of a device, as NVIDIA writes MIG profiles: `3g.40gb`, or `1g.10gb+me` with the media engines.

use crate::quantity::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt, str::FromStr};

/// Ordered by compute slices, then memory.
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
