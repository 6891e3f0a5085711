//! The topology file of NCCL: CPUs, PCI functions below them, and what is known of each.

use super::rocm::generation;
use crate::{
    accelerator::{self, Accelerator, PciAddress, PciId, Pcie, Vendor, hex},
    snapshot::{Nic, PciFunction, Snapshot},
    topology::{ENDS, End, LinkKind, Topology},
    value::{Value, count, parsed, text},
};
use roxmltree::Node;

/// Where an end stands: the CPU, then the PCI functions above it.
struct Place {
    numa: Option<u16>,
    above: Vec<usize>,
    end: End,
}

/// NVLinks of one GPU: to whom, and how many.
struct Linked {
    from: usize,
    to: Value<PciAddress>,
    count: u32,
    to_switch: bool,
}

#[derive(Default)]
struct Walk {
    shown: Snapshot,
    places: Vec<Place>,
    linked: Vec<Linked>,
    bridges: usize,
}

pub(super) fn read(document: &roxmltree::Document<'_>) -> Snapshot {
    let mut walk = Walk::default();
    for cpu in document.root_element().children().filter(|n| n.has_tag_name("cpu")) {
        let numa = cpu.attribute("numaid").and_then(|n| n.parse().ok());
        walk.below(cpu, numa, &[]);
    }
    walk.finish()
}

/// Deepest nesting of PCI switches that is followed.
const DEPTH: usize = 16;

impl Walk {
    fn below(&mut self, node: Node<'_, '_>, numa: Option<u16>, above: &[usize]) {
        if above.len() > DEPTH {
            self.shown.note("PCI switches nested deeper than any machine has them");
            return;
        }
        for child in node.children().filter(Node::is_element) {
            match child.tag_name().name() {
                "pci" => self.pci(child, numa, above),
                "nic" => {
                    for net in child.children().filter(|n| n.has_tag_name("net")) {
                        self.nic(net, numa, above, Value::default(), Value::default());
                    }
                }
                _ => {}
            }
        }
    }

    fn pci(&mut self, node: Node<'_, '_>, numa: Option<u16>, above: &[usize]) {
        let address = accelerator::pci(node.attribute("busid").unwrap_or_default());
        let class = node.attribute("class").and_then(hex).map(|class| class >> 8);
        let attribute = |name: &str| node.attribute(name).unwrap_or_default();
        let id = || Some((hex(attribute("vendor"))? as u16, hex(attribute("device"))? as u16));
        let id = id().map(|(vendor, device)| PciId { vendor, device });
        let has = |name: &str| node.children().any(|n| n.has_tag_name(name));
        let numa_value = numa.map_or_else(Value::default, Value::Known);
        let id_value = id.map_or_else(Value::default, Value::Known);
        // classes of the PCI code and ID assignment specification
        match class {
            Some(0x0604) => {
                self.bridges += 1;
                let above: Vec<usize> = above.iter().copied().chain([self.bridges]).collect();
                self.below(node, numa, &above);
            }
            Some(0x0300 | 0x0302 | 0x0380 | 0x1200) => self.gpu(node, address, id_value, numa_value, numa, above),
            _ if has("gpu") => self.gpu(node, address, id_value, numa_value, numa, above),
            Some(0x0200 | 0x0207) => {
                let net = node.descendants().find(|n| n.has_tag_name("net"));
                self.nic(net.unwrap_or(node), numa, above, address, id_value);
            }
            _ if has("nic") => {
                for net in node.descendants().filter(|n| n.has_tag_name("net")) {
                    self.nic(net, numa, above, address.clone(), id_value.clone());
                }
            }
            _ => match address {
                Value::Known(pci) => self.shown.unclassified.push(PciFunction { pci, numa: numa_value }),
                Value::Unknown(why) => self.shown.note(format!("a PCI function without an address: {why}")),
            },
        }
    }

    fn gpu(
        &mut self,
        node: Node<'_, '_>,
        pci: Value<PciAddress>,
        pci_id: Value<PciId>,
        numa_value: Value<u16>,
        numa: Option<u16>,
        above: &[usize],
    ) {
        let vendor = pci_id.known().and_then(|id| Vendor::of_pci(id.vendor));
        let speed = node.attribute("link_speed").unwrap_or_default();
        let lanes = node.attribute("link_width").filter(|w| *w != "0").unwrap_or_default();
        let position = self.shown.accelerators.len();
        let gpu = node.children().find(|n| n.has_tag_name("gpu"));
        let label = pci.known().map_or_else(|| "GPU".to_owned(), ToString::to_string);
        for link in gpu.iter().flat_map(Node::children).filter(|n| n.has_tag_name("nvlink")) {
            let target = link.attribute("target").unwrap_or_default();
            let class = link.attribute("tclass").and_then(hex).map(|c| c >> 8);
            self.linked.push(Linked {
                from: self.places.len(),
                to: accelerator::pci(target),
                count: link.attribute("count").and_then(|n| n.parse().ok()).unwrap_or(1),
                to_switch: class == Some(0x0680),
            });
        }
        self.shown.accelerators.push(Accelerator {
            index: gpu.and_then(|g| g.attribute("dev")).map_or_else(Value::default, count),
            vendor: vendor.map_or_else(Value::default, Value::Known),
            pci,
            pci_id,
            pcie: Pcie {
                generation: generation(speed.trim_end_matches("PCIe").trim().trim_end_matches("GT/s").trim()),
                lanes: count(lanes),
                ..Pcie::default()
            },
            numa: numa_value,
            ..Accelerator::default()
        });
        self.places.push(Place { numa, above: above.to_vec(), end: End { label, accelerator: Some(position) } });
    }

    fn nic(
        &mut self,
        net: Node<'_, '_>,
        numa: Option<u16>,
        above: &[usize],
        pci: Value<PciAddress>,
        pci_id: Value<PciId>,
    ) {
        let name = text(net.attribute("name").unwrap_or_default());
        let label =
            name.known().cloned().or_else(|| pci.known().map(ToString::to_string)).unwrap_or_else(|| "NIC".into());
        let speed_mbps = parsed(net.attribute("speed").unwrap_or_default(), |s| s.parse().ok());
        let numa_value = numa.map_or_else(Value::default, Value::Known);
        self.shown.nics.push(Nic { name, pci, pci_id, numa: numa_value, speed_mbps });
        self.places.push(Place { numa, above: above.to_vec(), end: End { label, accelerator: None } });
    }

    fn finish(mut self) -> Snapshot {
        if !self.shown.unclassified.is_empty() {
            let n = self.shown.unclassified.len();
            self.shown
                .note(format!("{n} PCI functions have no class: they are counted neither as accelerators nor as NICs"));
        }
        if self.places.is_empty() || self.places.len() > ENDS {
            return self.shown;
        }
        let ends = self.places.iter().map(|p| p.end.clone()).collect();
        let mut topology = Topology::between(ends);
        for a in 0..self.places.len() {
            for b in 0..a {
                let kind = path(&self.places[a], &self.places[b]);
                topology.join(a, b, &kind);
            }
        }
        let place_of = |address: &PciAddress| {
            let at = self.shown.accelerators.iter().position(|d| d.pci.known() == Some(address))?;
            self.places.iter().position(|p| p.end.accelerator == Some(at))
        };
        let mut notes = Vec::new();
        for link in &self.linked {
            let target = link.to.known().and_then(place_of);
            let from = self.places[link.from].end.label.clone();
            match target {
                Some(to) if to == link.from => {
                    notes.push(format!("{from} names itself as the other end of its NVLinks"));
                }
                Some(to) => topology.join(link.from, to, &LinkKind::NvLink(link.count)),
                None if link.to_switch => {
                    let through = |l: &&Linked| l.to_switch && l.from != link.from && l.to == link.to;
                    for other in self.linked.iter().filter(through) {
                        let sum = |at: usize| -> u32 {
                            self.linked
                                .iter()
                                .filter(|l| l.from == at && l.to_switch)
                                .map(|l| l.count)
                                .fold(0, u32::saturating_add)
                        };
                        topology.join(link.from, other.from, &LinkKind::NvLink(sum(link.from).min(sum(other.from))));
                    }
                }
                None => notes.push(format!("{from} has NVLinks to something that is not shown")),
            }
        }
        for note in notes {
            self.shown.note(note);
        }
        self.shown.topology = Some(topology);
        self.shown
    }
}

/// By the PCI functions that both stand below; of two on one CPU the file does not say whether a host bridge is shared.
fn path(a: &Place, b: &Place) -> LinkKind {
    let shared = a.above.iter().zip(&b.above).take_while(|(x, y)| x == y).count();
    match (a.numa, b.numa) {
        _ if shared > 0 && (shared == a.above.len() && shared == b.above.len()) => LinkKind::Pix,
        _ if shared > 0 => LinkKind::Pxb,
        (Some(x), Some(y)) if x == y => LinkKind::Node,
        (Some(_), Some(_)) => LinkKind::System,
        _ => LinkKind::Pcie(None),
    }
}
