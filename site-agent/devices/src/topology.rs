//! How the devices of a node are joined.

use serde::{Serialize, Serializer};
use std::{collections::BTreeMap, fmt};

/// The closest way between two devices.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkKind {
    Itself,
    /// The maker's own links, straight or through its switches, and how many.
    NvLink(u32),
    Xgmi,
    Hccs,
    /// Two chips of one card (Ascend).
    Sio,
    MetaXLink,
    /// One PCIe switch.
    Pix,
    /// Several PCIe switches, no host bridge.
    Pxb,
    /// A PCIe host bridge.
    Phb,
    /// Host bridges of one NUMA node.
    Node,
    /// The links between NUMA nodes, sockets among them.
    System,
    /// PCIe, and the source does not say how far; hops where it counts them.
    Pcie(Option<u32>),
    Ethernet,
    /// The source gives no answer for this pair.
    Unknown,
    /// A word that is not known here.
    Other(String),
}

impl LinkKind {
    /// The words of `topo -m` of NVIDIA, Ascend and MetaX, and of `--showtopo` of AMD.
    pub fn of(word: &str) -> Self {
        let upper = word.trim().to_ascii_uppercase();
        match upper.as_str() {
            "X" => Self::Itself,
            "XGMI" => Self::Xgmi,
            "HCCS" | "HCCS_SW" => Self::Hccs,
            "SIO" => Self::Sio,
            "MX" => Self::MetaXLink,
            "PIX" => Self::Pix,
            "PXB" => Self::Pxb,
            "PHB" => Self::Phb,
            "NODE" => Self::Node,
            "SYS" | "SOC" => Self::System,
            "PCIE" => Self::Pcie(None),
            "ETH" => Self::Ethernet,
            "NA" | "N/A" | "-" => Self::Unknown,
            _ => match upper.strip_prefix("NV").map(str::parse) {
                Some(Ok(links)) => Self::NvLink(links),
                _ if upper
                    .strip_prefix("MX")
                    .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) =>
                {
                    Self::MetaXLink
                }
                _ => Self::Other(crate::value::short(word)),
            },
        }
    }

    /// Links of the maker's own fabric, which make an island.
    pub fn is_fabric(&self) -> bool {
        matches!(self, Self::NvLink(_) | Self::Xgmi | Self::Hccs | Self::Sio | Self::MetaXLink)
    }
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Itself => f.write_str("self"),
            Self::NvLink(links) => write!(f, "nvlink x{links}"),
            Self::Xgmi => f.write_str("xgmi"),
            Self::Hccs => f.write_str("hccs"),
            Self::Sio => f.write_str("sio"),
            Self::MetaXLink => f.write_str("metaxlink"),
            Self::Pix => f.write_str("pcie switch"),
            Self::Pxb => f.write_str("pcie switches"),
            Self::Phb => f.write_str("host bridge"),
            Self::Node => f.write_str("numa node"),
            Self::System => f.write_str("between numa nodes"),
            Self::Pcie(Some(hops)) => write!(f, "pcie, {hops} hops"),
            Self::Pcie(None) => f.write_str("pcie"),
            Self::Ethernet => f.write_str("ethernet"),
            Self::Unknown => f.write_str("unknown"),
            Self::Other(word) => write!(f, "\"{word}\""),
        }
    }
}

/// One row and column of the matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// As the source calls it.
    pub label: String,
    /// Position in the snapshot's accelerators, where it is one of them.
    pub accelerator: Option<usize>,
}

/// Every pair of ends; written as one line per end, with the islands and PCIe groups that follow from it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    pub ends: Vec<End>,
    /// Row by row, as the source shows them.
    pub links: Vec<Vec<LinkKind>>,
}

/// Most ends that are taken.
pub(crate) const ENDS: usize = 256;

impl Topology {
    /// Ends without a link between them.
    pub(crate) fn between(ends: Vec<End>) -> Self {
        let n = ends.len();
        let mut links = vec![vec![LinkKind::Unknown; n]; n];
        for (i, row) in links.iter_mut().enumerate() {
            row[i] = LinkKind::Itself;
        }
        Self { ends, links }
    }

    pub(crate) fn join(&mut self, a: usize, b: usize, kind: &LinkKind) {
        if a != b && a < self.ends.len() && b < self.ends.len() {
            self.links[a][b] = kind.clone();
            self.links[b][a] = kind.clone();
        }
    }

    /// The same, with accelerators at other places.
    #[must_use]
    pub(crate) fn moved(mut self, place: &[Option<usize>]) -> Self {
        for end in &mut self.ends {
            end.accelerator = end.accelerator.and_then(|at| place.get(at).copied().flatten());
        }
        self
    }

    /// Both, with nothing known of the ways from one to the other.
    pub(crate) fn beside(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        let (mut a, b) = match (a, b) {
            (Some(a), Some(b)) => (a, b),
            (a, b) => return a.or(b),
        };
        let (here, there) = (a.ends.len(), b.ends.len());
        for row in &mut a.links {
            row.extend(std::iter::repeat_n(LinkKind::Unknown, there));
        }
        for row in b.links {
            a.links.push(std::iter::repeat_n(LinkKind::Unknown, here).chain(row).collect());
        }
        a.ends.extend(b.ends);
        Some(a)
    }

    pub fn link(&self, a: usize, b: usize) -> &LinkKind {
        self.links.get(a).and_then(|row| row.get(b)).unwrap_or(&LinkKind::Unknown)
    }

    /// Accelerators that the maker's own links join, directly or through others; by position among the accelerators.
    pub fn islands(&self) -> Vec<Vec<usize>> {
        let mut groups = self.groups(LinkKind::is_fabric);
        groups.retain(|g| g.len() > 1);
        groups
    }

    /// Accelerators below one PCIe switch, or several without a host bridge between them.
    pub fn switches(&self) -> Vec<Vec<usize>> {
        let mut groups = self.groups(|kind| matches!(kind, LinkKind::Pix | LinkKind::Pxb));
        groups.retain(|g| g.len() > 1);
        groups
    }

    fn groups(&self, joins: impl Fn(&LinkKind) -> bool) -> Vec<Vec<usize>> {
        let mut group: Vec<usize> = (0..self.ends.len()).collect();
        let is_accelerator = |i: usize| self.ends[i].accelerator.is_some();
        for a in 0..self.ends.len() {
            for b in 0..self.ends.len() {
                if is_accelerator(a) && is_accelerator(b) && joins(self.link(a, b)) {
                    let (from, to) = (group[a].max(group[b]), group[a].min(group[b]));
                    group.iter_mut().filter(|g| **g == from).for_each(|g| *g = to);
                }
            }
        }
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (end, group) in self.ends.iter().zip(group) {
            if let Some(position) = end.accelerator {
                groups.entry(group).or_default().push(position);
            }
        }
        groups.into_values().collect()
    }
}

impl Serialize for Topology {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            ends: Vec<&'a str>,
            links: BTreeMap<String, String>,
            islands: Vec<Vec<usize>>,
            switches: Vec<Vec<usize>>,
        }
        let width = self.ends.len().to_string().len();
        let line = |row: &Vec<LinkKind>| row.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ");
        // numbered, so that rows stay in the order of the source
        let label = |i: usize, end: &End| format!("{i:0width$} {}", end.label);
        let links = self.ends.iter().zip(&self.links).enumerate().map(|(i, (end, row))| (label(i, end), line(row)));
        let ends = self.ends.iter().map(|e| e.label.as_str()).collect();
        Written { ends, links: links.collect(), islands: self.islands(), switches: self.switches() }.serialize(s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(n: usize) -> Vec<End> {
        (0..n).map(|i| End { label: format!("GPU{i}"), accelerator: Some(i) }).collect()
    }

    #[test]
    fn islands_follow_links_and_a_lone_device_is_none() {
        let mut topology = Topology::between(ends(5));
        topology.join(0, 1, &LinkKind::NvLink(4));
        topology.join(1, 3, &LinkKind::NvLink(4));
        topology.join(2, 4, &LinkKind::Pix);
        assert_eq!(topology.islands(), [vec![0, 1, 3]]);
        assert_eq!(topology.switches(), [vec![2, 4]]);
    }

    #[test]
    fn words_of_all_makers_are_known() {
        assert_eq!(LinkKind::of("NV18"), LinkKind::NvLink(18));
        assert_eq!(LinkKind::of("MX4"), LinkKind::MetaXLink);
        assert_eq!(LinkKind::of("SOC"), LinkKind::System);
        assert_eq!(LinkKind::of("NVX"), LinkKind::Other("NVX".into()));
    }
}
