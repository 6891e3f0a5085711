//! What is known of device models beside what a node says: rates, memory, links. Data, and open to more of it.

use crate::accelerator::{Accelerator, PciId, Vendor, hex};
use rhumb_model::{Bytes, Decimal, ModelName, Ratio, document, federation_file::DeviceKind, order::Precision};
use serde::{Deserialize, Deserializer, de};
use std::{borrow::Cow, collections::BTreeMap, str::FromStr};

/// Device models by the name that orders use.
#[derive(Debug, Clone)]
pub struct Catalogue {
    entries: BTreeMap<ModelName, Entry>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub vendor: Vendor,
    /// Of the largest variant; a device's own memory is what its node says.
    pub memory: Bytes,
    /// Dense teraflops, or teraops.
    #[serde(default)]
    pub peak: BTreeMap<Precision, Decimal>,
    #[serde(default)]
    pub fabric: Option<Fabric>,
    /// Tokens a second of one device, MLPerf Inference v4.1 closed, llama2-70b-99 Offline.
    #[serde(default)]
    pub llama2_70b_tokens: Option<Decimal>,
    /// Words by which tools name it.
    #[serde(default)]
    pub names: Vec<String>,
    #[serde(default)]
    pub pci: Vec<PciId>,
}

/// The maker's own links of one device.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fabric {
    pub kind: FabricKind,
    pub generation: u8,
    pub links: u8,
    /// Of all links, both ways together.
    pub gbytes_per_s: Decimal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FabricKind {
    Nvlink,
    Xgmi,
    Hccs,
    Metaxlink,
}

#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    #[error("the device catalogue does not read")]
    Read(#[source] document::DocumentError),
}

impl Catalogue {
    /// What this version of Rhumb knows.
    pub fn built_in() -> Self {
        Self::read(include_str!("catalogue.yaml")).expect("a test reads the catalogue that is built in")
    }

    /// Entries by name, YAML or JSON.
    pub fn read(text: &str) -> Result<Self, CatalogueError> {
        Ok(Self { entries: document::read_large(text).map_err(CatalogueError::Read)? })
    }

    /// Adds entries; those of the same name take the place of what was there.
    pub fn extend(&mut self, more: Self) {
        self.entries.extend(more.entries);
    }

    pub fn get(&self, id: &ModelName) -> Option<&Entry> {
        self.entries.get(id)
    }

    pub fn entries(&self) -> impl Iterator<Item = (&ModelName, &Entry)> {
        self.entries.iter()
    }

    /// The entry of a name as a tool writes it, such as `NVIDIA H100 80GB HBM3`: of those whose words stand in it in a row
    /// the one with the most.
    pub fn by_name(&self, name: &str, vendor: Option<Vendor>) -> Option<(&ModelName, &Entry)> {
        let said = words(name);
        let of_vendor = self.entries.iter().filter(|(_, e)| vendor.is_none_or(|v| v == e.vendor));
        let matches = of_vendor.filter_map(|(id, entry)| {
            let holds = |name: &String| {
                let words = words(name);
                (!words.is_empty() && said.windows(words.len()).any(|w| w == words)).then_some(words.len())
            };
            Some((entry.names.iter().filter_map(holds).max()?, std::cmp::Reverse(id), entry))
        });
        matches.max_by_key(|(words, id, _)| (*words, *id)).map(|(_, id, entry)| (id.0, entry))
    }

    pub fn by_pci(&self, id: PciId) -> Option<(&ModelName, &Entry)> {
        self.entries.iter().find(|(_, e)| e.pci.contains(&id))
    }

    /// The entry of a device, by its name, else by its numbers on the bus.
    pub fn of(&self, device: &Accelerator) -> Option<(&ModelName, &Entry)> {
        let named = device.model.known().and_then(|name| self.by_name(name, device.vendor.known().copied()));
        named.or_else(|| device.pci_id.known().and_then(|id| self.by_pci(*id)))
    }

    /// The name under which orders ask for a device: the catalogue's, else the maker's in letters that a name may have.
    pub fn model(&self, device: &Accelerator) -> Option<ModelName> {
        if let Some((id, _)) = self.of(device) {
            return Some(id.clone());
        }
        let raw = device.model.known().cloned().or_else(|| device.pci_id.known().map(|id| format!("pci-{id}")))?;
        ModelName::new(&words(&raw).join("-")).ok()
    }

    /// Memory and relative rates of a model, as a federation file has them: 1 is the reference's rate at that precision.
    pub fn kind(&self, id: &ModelName, reference: &ModelName) -> Option<DeviceKind> {
        let (entry, one) = (self.get(id)?, self.get(reference)?);
        let rate =
            |(precision, peak): (&Precision, &Decimal)| Some((*precision, relative(*peak, *one.peak.get(precision)?)?));
        Some(DeviceKind { memory: entry.memory, rates: entry.peak.iter().filter_map(rate).collect() })
    }
}

/// `a / b`, in millionths.
fn relative(a: Decimal, b: Decimal) -> Option<Decimal> {
    if b.is_zero() {
        return None;
    }
    let rate = a.ratio() / b.ratio() * Ratio::from_integer(1_000_000);
    i64::try_from(rate.round().to_integer()).ok().map(Decimal::from_micros)
}

/// Letters and digits in a row, in capitals, without the makers' names.
fn words(name: &str) -> Vec<String> {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
    let makers = ["NVIDIA", "AMD", "HUAWEI", "METAX", "TESLA", "INSTINCT", "GEFORCE", "ASCEND"];
    words.map(str::to_ascii_uppercase).filter(|w| !makers.contains(&w.as_str())).collect()
}

impl FromStr for PciId {
    type Err = NoPciId;

    fn from_str(text: &str) -> Result<Self, NoPciId> {
        let half = |part: &str| hex(part).and_then(|n| u16::try_from(n).ok());
        let read = || {
            let (vendor, device) = text.split_once(':')?;
            Some(Self { vendor: half(vendor)?, device: half(device)? })
        };
        read().ok_or_else(|| NoPciId(crate::value::short(text)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no pair of PCI numbers: write one such as 10de:2330")]
pub struct NoPciId(String);

impl<'de> Deserialize<'de> for PciId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str) -> ModelName {
        ModelName::new(name).unwrap()
    }

    #[test]
    fn names_of_all_tools_lead_to_their_entry() {
        let catalogue = Catalogue::built_in();
        let cases = [
            ("NVIDIA H100 80GB HBM3", "H100"),
            ("NVIDIA H100 PCIe", "H100-PCIe"),
            ("NVIDIA H100 NVL", "H100-NVL"),
            ("NVIDIA H200", "H200"),
            ("NVIDIA A100-SXM4-80GB", "A100"),
            ("NVIDIA A100-PCIE-40GB", "A100"),
            ("Tesla V100-SXM2-32GB", "V100"),
            ("Tesla V100-PCIE-16GB", "V100-PCIe"),
            ("Tesla T4", "T4"),
            ("NVIDIA L40S", "L40S"),
            ("NVIDIA L4", "L4"),
            ("NVIDIA GeForce RTX 3080", "RTX-3080"),
            ("Arcturus GL-XL [Instinct MI100]", "MI100"),
            ("Radeon Instinct MI50 32GB", "MI50"),
            ("AMD Instinct MI300X-NPS1-SPX-192GB-750W", "MI300X"),
            ("910B1", "Ascend-910B1"),
            ("MetaX C500", "C500"),
        ];
        for (name, id) in cases {
            assert_eq!(catalogue.by_name(name, None).map(|(id, _)| id.as_str()), Some(id), "{name}");
        }
        assert!(catalogue.by_name("MetaX C500", Some(Vendor::Nvidia)).is_none());
        assert!(catalogue.by_name("Graphics Device", None).is_none());
    }

    #[test]
    fn an_unknown_card_keeps_its_own_name() {
        let catalogue = Catalogue::built_in();
        let device = |name: &str| Accelerator { model: crate::Value::Known(name.into()), ..Accelerator::default() };
        assert_eq!(catalogue.model(&device("Quadro P2000")), Some(model("QUADRO-P2000")));
        assert_eq!(catalogue.model(&device("\u{30ab}")), None);
        assert_eq!(catalogue.model(&Accelerator::default()), None);
        let by_bus =
            Accelerator { pci_id: crate::Value::Known("10de:20b0".parse().unwrap()), ..Accelerator::default() };
        assert_eq!(catalogue.model(&by_bus), Some(model("A100")));
    }

    #[test]
    fn rates_are_relative_and_configuration_adds_to_them() {
        let mut catalogue = Catalogue::built_in();
        let kind = catalogue.kind(&model("A100"), &model("H100")).unwrap();
        assert_eq!(kind.rates[&Precision::Fp16], "0.315311".parse().unwrap());
        catalogue.extend(
            Catalogue::read("C500: {vendor: metax, memory: 64GiB, peak: {fp16: 989.5}, names: [C500]}").unwrap(),
        );
        let kind = catalogue.kind(&model("C500"), &model("H100")).unwrap();
        assert_eq!(kind.rates[&Precision::Fp16], Decimal::ONE);
        assert!(Catalogue::read("C500: {vendor: metax, memory: 64GiB, paek: {}}").is_err());
    }

    #[test]
    fn no_two_entries_claim_one_device() {
        let catalogue = Catalogue::built_in();
        let mut seen = std::collections::BTreeSet::new();
        for (id, entry) in catalogue.entries() {
            assert!(entry.pci.iter().all(|pci| seen.insert(*pci)), "{id}");
            for name in &entry.names {
                assert_eq!(catalogue.by_name(name, Some(entry.vendor)).map(|(id, _)| id), Some(id), "{name}");
            }
        }
    }
}
