//! One node as one source shows it, and several sources put together.

use crate::{
    accelerator::{Accelerator, PciAddress, PciId, Vendor},
    topology::Topology,
    value::{Value, short},
};
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Snapshot {
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub driver: Value<String>,
    /// CUDA, MACA and the like.
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub runtime: Value<String>,
    /// How many accelerators the source says there are, be they listed or not.
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub attached: Value<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accelerators: Vec<Accelerator>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<Nic>,
    /// PCI functions of which the source does not say what they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unclassified: Vec<PciFunction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// The ways over PCIe, where another source says them: between devices that the maker's links join the first says nothing
    /// of PCIe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_pcie: Option<Topology>,
    /// What was not understood, left out by the source, or contradicts itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Nic {
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub name: Value<String>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub pci: Value<PciAddress>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub pci_id: Value<PciId>,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub numa: Value<u16>,
    /// A ceiling for what any link through it can carry.
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub speed_mbps: Value<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PciFunction {
    pub pci: PciAddress,
    #[serde(skip_serializing_if = "Value::is_not_shown")]
    pub numa: Value<u16>,
}

/// Most notes that are kept.
const NOTES: usize = 50;

impl Snapshot {
    pub(crate) fn note(&mut self, text: impl AsRef<str>) {
        let text = short(text.as_ref());
        if self.notes.len() < NOTES && !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// The device that is the same as this one, or a new row for it.
    pub(crate) fn row(&mut self, device: Accelerator) -> &mut Accelerator {
        let at = self.accelerators.iter().position(|a| a.is_same(&device));
        let at = at.unwrap_or_else(|| {
            self.accelerators.push(Accelerator::default());
            self.accelerators.len() - 1
        });
        let row = &mut self.accelerators[at];
        *row = std::mem::take(row).or(device);
        row
    }

    /// Fills what is not known here from another source on the same node. Rows of the other that are none of these are
    /// added only where this has none at all: two sources that number differently must not double a card.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.driver = self.driver.or(other.driver);
        self.runtime = self.runtime.or(other.runtime);
        self.attached = self.attached.or(other.attached);
        let first = self.accelerators.is_empty();
        // where the other's rows are here
        let mut place = Vec::new();
        for device in other.accelerators {
            let at = self.accelerators.iter().position(|a| a.is_same(&device));
            match at {
                Some(at) => self.accelerators[at] = std::mem::take(&mut self.accelerators[at]).or(device),
                None if first => self.accelerators.push(device),
                None => self.note("another source shows an accelerator that this one does not"),
            }
            place.push(at.or_else(|| first.then(|| self.accelerators.len() - 1)));
        }
        if self.nics.is_empty() {
            self.nics = other.nics;
        }
        if self.unclassified.is_empty() {
            self.unclassified = other.unclassified;
        }
        let moved = |topology: Topology| topology.moved(&place);
        let (theirs, beneath) = (other.topology.map(moved), other.over_pcie.map(moved));
        match (&self.topology, theirs) {
            (None, theirs) => self.topology = theirs,
            (Some(_), theirs) => self.over_pcie = self.over_pcie.or(theirs),
        }
        self.over_pcie = self.over_pcie.or(beneath);
        for note in other.notes {
            self.note(note);
        }
        self
    }

    /// Both on one node, where they show different devices: cards of two makers, each seen by its own tool. Each maker
    /// numbers its own, so numbers say nothing any more where they clash.
    #[must_use]
    pub fn beside(mut self, other: Self) -> Self {
        let first = self.accelerators.len();
        self.driver = join(self.driver, other.driver);
        self.runtime = join(self.runtime, other.runtime);
        self.attached = match (self.attached, other.attached) {
            (Value::Known(a), Value::Known(b)) => Value::Known(a.saturating_add(b)),
            (Value::Unknown(why), _) | (_, Value::Unknown(why)) => Value::Unknown(why),
        };
        self.accelerators.extend(other.accelerators);
        for device in &mut self.accelerators {
            device.index = Value::default();
        }
        if self.nics.is_empty() {
            self.nics = other.nics;
        }
        let place: Vec<Option<usize>> = (first..self.accelerators.len()).map(Some).collect();
        let moved = |topology: Topology| topology.moved(&place);
        self.topology = Topology::beside(self.topology, other.topology.map(moved));
        self.over_pcie = Topology::beside(self.over_pcie, other.over_pcie.map(moved));
        self.unclassified.extend(other.unclassified);
        for note in other.notes {
            self.note(note);
        }
        self
    }

    /// What this shows of the devices of one maker alone.
    #[must_use]
    pub fn of(&self, vendor: Vendor) -> Self {
        let is_of = |a: &Accelerator| a.vendor.known() == Some(&vendor);
        let mut next = 0;
        let place: Vec<Option<usize>> = self
            .accelerators
            .iter()
            .map(|a| {
                is_of(a).then(|| {
                    next += 1;
                    next - 1
                })
            })
            .collect();
        Self {
            accelerators: self.accelerators.iter().filter(|a| is_of(a)).cloned().collect(),
            topology: self.topology.clone().map(|t| t.moved(&place)),
            ..Self::default()
        }
    }

    /// Checks what the source says of itself.
    pub(crate) fn settle(&mut self) {
        let (Some(&attached), shown) = (self.attached.known(), self.accelerators.len()) else { return };
        if attached as usize != shown && shown > 0 {
            self.note(format!("the source counts {attached} accelerators and shows {shown}"));
        }
    }
}

/// Two words, where both are known and differ.
fn join(a: Value<String>, b: Value<String>) -> Value<String> {
    match (a, b) {
        (Value::Known(a), Value::Known(b)) if a != b => Value::Known(format!("{a}, {b}")),
        (a, b) => a.or(b),
    }
}
