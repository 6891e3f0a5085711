//! One accelerator as its source shows it.

use crate::value::{Value, Why, short};
use serde::{Deserialize, Serialize, Serializer};
use std::{fmt, str::FromStr};

/// Values are as the source shows them; units end the names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Accelerator {
    /// As the tool numbers it.
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub index: Value<u32>,
    /// Of one card: its chip (Ascend) or its partition (AMD).
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub part: Value<u32>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub vendor: Value<Vendor>,
    /// The maker's name of it, as shown.
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub model: Value<String>,
    /// Not an identity: some drivers give every device the same.
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub uuid: Value<String>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub serial: Value<String>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub minor: Value<u32>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub pci: Value<PciAddress>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub pci_id: Value<PciId>,
    #[serde(skip_serializing_if = "Pcie::is_not_shown")]
    pub pcie: Pcie,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub numa: Value<u16>,
    /// Cores close to it, as a list such as `0-23,48-71`.
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub cpus: Value<String>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub memory_bytes: Value<u64>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub memory_used_bytes: Value<u64>,
    /// Where the tool gives a share instead of bytes.
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub memory_used_pct: Value<u8>,
    /// Of the compute units over the tool's last interval.
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub utilisation_pct: Value<u8>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub power_mw: Value<u64>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub power_limit_mw: Value<u64>,
    /// Of the chip: its edge where the tool tells edge from junction.
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub temperature_mc: Value<i64>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub memory_temperature_mc: Value<i64>,
    /// What the source says of its health, in so many words.
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub condition: Value<Condition>,
    #[serde(skip_serializing_if = "Ecc::is_not_shown")]
    pub ecc: Ecc,
    /// The last error that the driver reported by number since somebody listens.
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub xid: Value<u32>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub mig: Value<MigMode>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Slice>,
    /// Active links of the maker's own fabric, and what one of them carries each way.
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub fabric_links: Value<u32>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub fabric_link_kbps: Value<u64>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub jobs: Value<Vec<Job>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    Nvidia,
    Amd,
    Huawei,
    Metax,
}

impl Vendor {
    pub fn of_pci(vendor: u16) -> Option<Self> {
        match vendor {
            0x10de => Some(Self::Nvidia),
            0x1002 => Some(Self::Amd),
            0x19e5 => Some(Self::Huawei),
            0x9999 => Some(Self::Metax),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia",
            Self::Amd => "amd",
            Self::Huawei => "huawei",
            Self::Metax => "metax",
        }
    }
}

/// What a source says of a device's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    Ok,
    Degraded,
    Failed,
}

/// Errors since the driver was loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Ecc {
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub corrected: Value<u64>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub uncorrected: Value<u64>,
}

impl Ecc {
    fn is_not_shown(&self) -> bool {
        self.corrected.is_not_shown() && self.uncorrected.is_not_shown()
    }
}

/// The slot's link.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Pcie {
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub generation: Value<u8>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub generation_max: Value<u8>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub lanes: Value<u8>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub lanes_max: Value<u8>,
}

impl Pcie {
    fn is_not_shown(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MigMode {
    Enabled,
    Disabled,
}

/// A MIG device: a compute instance in a GPU instance.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Slice {
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub index: Value<u32>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub gpu_instance: Value<u32>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub compute_instance: Value<u32>,
    /// Such as `3g.40gb`.
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub profile: Value<String>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub uuid: Value<String>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub memory_bytes: Value<u64>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub memory_used_bytes: Value<u64>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub multiprocessors: Value<u32>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub ecc_uncorrected: Value<u64>,
}

/// A process on a device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Job {
    pub pid: Value<u32>,
    /// `C` compute, `G` graphics, as shown.
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub kind: Value<String>,
    pub name: Value<String>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub memory_bytes: Value<u64>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub gpu_instance: Value<u32>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub compute_instance: Value<u32>,
}

/// `domain:bus:device.function`, written with four digits of domain where they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    pub domain: u32,
    pub bus: u8,
    pub device: u8,
    pub function: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no PCI address: write one such as 0000:1b:00.0")]
pub struct NotAnAddress(String);

impl FromStr for PciAddress {
    type Err = NotAnAddress;

    /// `00000000:1B:00.0`, `0000:1b:00.0`, `1b:00.0`; without a function it is 0.
    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let read = || {
            let (rest, function) = text.rsplit_once('.').map_or((text, "0"), |(rest, function)| (rest, function));
            let mut parts = rest.rsplit(':');
            let hex = |part: &str, most: usize| {
                let fits = !part.is_empty() && part.len() <= most && part.bytes().all(|b| b.is_ascii_hexdigit());
                fits.then(|| u32::from_str_radix(part, 16).ok()).flatten()
            };
            let device = hex(parts.next()?, 2)? as u8;
            let bus = hex(parts.next()?, 2)? as u8;
            let domain = hex(parts.next().unwrap_or("0"), 8)?;
            let function = hex(function, 1)? as u8;
            parts.next().is_none().then_some(Self { domain, bus, device, function })
        };
        read().ok_or_else(|| NotAnAddress(short(text)))
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl Serialize for PciAddress {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// Vendor and device as PCI numbers them: `10de:2330`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciId {
    pub vendor: u16,
    pub device: u16,
}

impl fmt::Display for PciId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:04x}", self.vendor, self.device)
    }
}

impl Serialize for PciId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// Hexadecimal with or without `0x`.
pub(crate) fn hex(text: &str) -> Option<u32> {
    let text = text.trim();
    u32::from_str_radix(text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text), 16).ok()
}

pub(crate) fn pci(raw: &str) -> Value<PciAddress> {
    crate::value::parsed(raw, |text| text.parse().ok())
}

impl Accelerator {
    /// Whether both can be the same device: by place on the bus where both say it, else by number, else by UUID where that is
    /// not one that many devices share.
    pub fn is_same(&self, other: &Self) -> bool {
        if let (Some(a), Some(b)) = (self.pci.known(), other.pci.known()) {
            let parts = (self.part.known(), other.part.known());
            return a == b && (parts.0.is_none() || parts.1.is_none() || parts.0 == parts.1);
        }
        if let (Some(a), Some(b)) = (self.index.known(), other.index.known()) {
            return a == b && (self.part.known().is_none() || other.part.known().is_none() || self.part == other.part);
        }
        matches!((self.uuid.known(), other.uuid.known()), (Some(a), Some(b)) if a == b && tells_apart(a))
    }

    /// Fills what is not known here from another source on the same device.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            index: self.index.or(other.index),
            part: self.part.or(other.part),
            vendor: self.vendor.or(other.vendor),
            model: self.model.or(other.model),
            uuid: self.uuid.or(other.uuid),
            serial: self.serial.or(other.serial),
            minor: self.minor.or(other.minor),
            pci: self.pci.or(other.pci),
            pci_id: self.pci_id.or(other.pci_id),
            pcie: Pcie {
                generation: self.pcie.generation.or(other.pcie.generation),
                generation_max: self.pcie.generation_max.or(other.pcie.generation_max),
                lanes: self.pcie.lanes.or(other.pcie.lanes),
                lanes_max: self.pcie.lanes_max.or(other.pcie.lanes_max),
            },
            numa: self.numa.or(other.numa),
            cpus: self.cpus.or(other.cpus),
            memory_bytes: self.memory_bytes.or(other.memory_bytes),
            memory_used_bytes: self.memory_used_bytes.or(other.memory_used_bytes),
            memory_used_pct: self.memory_used_pct.or(other.memory_used_pct),
            utilisation_pct: self.utilisation_pct.or(other.utilisation_pct),
            power_mw: self.power_mw.or(other.power_mw),
            power_limit_mw: self.power_limit_mw.or(other.power_limit_mw),
            temperature_mc: self.temperature_mc.or(other.temperature_mc),
            memory_temperature_mc: self.memory_temperature_mc.or(other.memory_temperature_mc),
            condition: self.condition.or(other.condition),
            ecc: Ecc {
                corrected: self.ecc.corrected.or(other.ecc.corrected),
                uncorrected: self.ecc.uncorrected.or(other.ecc.uncorrected),
            },
            xid: self.xid.or(other.xid),
            mig: self.mig.or(other.mig),
            slices: slices(self.slices, other.slices),
            fabric_links: self.fabric_links.or(other.fabric_links),
            fabric_link_kbps: self.fabric_link_kbps.or(other.fabric_link_kbps),
            jobs: self.jobs.or(other.jobs),
        }
    }

    /// The source numbers its devices from 0 without a gap.
    pub(crate) fn numbered(index: u32, vendor: Vendor) -> Self {
        Self { index: Value::Known(index), vendor: Value::Known(vendor), ..Self::default() }
    }
}

/// Whether a UUID is one device's own, as far as anyone can tell.
pub(crate) fn tells_apart(uuid: &str) -> bool {
    uuid.chars().any(|c| c.is_ascii_digit() && c != '0')
}

fn slices(mut mine: Vec<Slice>, theirs: Vec<Slice>) -> Vec<Slice> {
    for slice in theirs {
        let same = |s: &&mut Slice| s.index.known().is_some() && s.index == slice.index;
        let Some(found) = mine.iter_mut().find(same) else {
            mine.push(slice);
            continue;
        };
        let old = std::mem::take(found);
        *found = Slice {
            index: old.index,
            gpu_instance: old.gpu_instance.or(slice.gpu_instance),
            compute_instance: old.compute_instance.or(slice.compute_instance),
            profile: old.profile.or(slice.profile),
            uuid: old.uuid.or(slice.uuid),
            memory_bytes: old.memory_bytes.or(slice.memory_bytes),
            memory_used_bytes: old.memory_used_bytes.or(slice.memory_used_bytes),
            multiprocessors: old.multiprocessors.or(slice.multiprocessors),
            ecc_uncorrected: old.ecc_uncorrected.or(slice.ecc_uncorrected),
        };
    }
    mine
}

pub(crate) fn mig_mode(raw: &str) -> Value<MigMode> {
    crate::value::parsed(raw, |text| match text {
        "Enabled" => Some(MigMode::Enabled),
        "Disabled" => Some(MigMode::Disabled),
        _ => None,
    })
}

/// A name that the tool cut off says so with an ellipsis.
pub(crate) fn model(raw: &str) -> Value<String> {
    match crate::value::text(raw) {
        Value::Known(name) if name.ends_with("...") => Value::Unknown(Why::Shortened(name)),
        name => name,
    }
}
