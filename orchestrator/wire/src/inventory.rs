//! What the nodes of a point have, told in differences from what the orchestrator is known to have.
//!
//! The agent numbers its inventory anew whenever it changes. A report names the number and holds either the whole of it, or
//! what differs from the number that was acknowledged last, or nothing where that is this one. The answer names the number
//! that is known after it; anything else than the one that was told makes the next report a whole one. So lost, doubled and
//! reordered calls and restarts on either side end in the same inventory on both, one exchange later at most.

use crate::report::{NodeReport, Report};
use rhumb_model::NodeName;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use uuid::Uuid;

/// The part of a report that speaks of devices, beside whole nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InventoryUpdate {
    /// Number of the inventory that the agent has; 0: it does not number them.
    #[serde(default)]
    pub revision: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<NodeChanges>,
    /// Devices whose figures changed noticeably since an answered report told them; all in a report with whole nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<DeviceFigures>,
}

/// From one inventory to the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeChanges {
    /// Number of the inventory that these are changes of.
    pub base: u64,
    /// Nodes that are new or not as they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeReport>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<NodeName>,
}

/// How a device fares. What is absent is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFigures {
    pub node: NodeName,
    pub device: u32,
    #[serde(flatten)]
    pub fares: Fares,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fares {
    /// Of the compute units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation_pct: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_used_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_mc: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_mw: Option<u64>,
    /// Errors that memory could not correct, since the driver was loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecc_uncorrected: Option<u64>,
    /// Processes that compute on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// The last error that the driver reported by number; 0: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xid: Option<u32>,
}

impl Fares {
    /// Whether somebody who knows these would see a difference: a cool card that flickers between two degrees is no news.
    pub fn differs_from(&self, told: &Self) -> bool {
        fn beyond<T: Copy + Into<i128>>(now: Option<T>, told: Option<T>, band: i128) -> bool {
            match (now, told) {
                (Some(now), Some(told)) => (now.into() - told.into()).abs() > band,
                (now, told) => now.is_some() != told.is_some(),
            }
        }
        let power = i128::from(told.power_mw.unwrap_or(0)) / 20;
        beyond(self.utilisation_pct, told.utilisation_pct, 1)
            || beyond(self.memory_used_bytes, told.memory_used_bytes, 16 << 20)
            || beyond(self.temperature_mc, told.temperature_mc, 1_000)
            || beyond(self.power_mw, told.power_mw, power.max(2_000))
            || self.ecc_uncorrected != told.ecc_uncorrected
            || self.processes != told.processes
            || self.xid != told.xid
    }
}

/// What the agent has and has told.
#[derive(Debug, Clone)]
pub struct Teller {
    revision: u64,
    nodes: Arc<Vec<NodeReport>>,
    /// What the orchestrator is known to have.
    known: Option<(u64, Arc<Vec<NodeReport>>)>,
    figures: BTreeMap<(NodeName, u32), Fares>,
    known_figures: BTreeMap<(NodeName, u32), Fares>,
}

/// What one report told, to be kept until it is answered.
#[derive(Debug, Clone)]
pub struct Telling {
    pub nodes: Option<Vec<NodeReport>>,
    pub update: InventoryUpdate,
    of: Arc<Vec<NodeReport>>,
}

impl Teller {
    pub fn new(nodes: Vec<NodeReport>) -> Self {
        Self { revision: 1, nodes: Arc::new(nodes), ..Self::waiting() }
    }

    /// Of an agent that does not know yet what there is, and tells nothing until it does.
    pub fn waiting() -> Self {
        let (figures, known_figures) = (BTreeMap::new(), BTreeMap::new());
        Self { revision: 0, nodes: Arc::default(), known: None, figures, known_figures }
    }

    pub fn nodes(&self) -> &Arc<Vec<NodeReport>> {
        &self.nodes
    }

    /// The nodes are these now; whether that is new.
    pub fn renew(&mut self, nodes: Vec<NodeReport>) -> bool {
        if *self.nodes == nodes && self.revision > 0 {
            return false;
        }
        self.revision += 1;
        self.nodes = Arc::new(nodes);
        let there: BTreeSet<(&NodeName, u32)> =
            self.nodes.iter().flat_map(|n| n.devices.iter().map(move |d| (&n.name, d.index))).collect();
        self.figures.retain(|(node, device), _| there.contains(&(node, *device)));
        true
    }

    pub fn measure(&mut self, figures: impl IntoIterator<Item = DeviceFigures>) {
        self.figures.extend(figures.into_iter().map(|f| ((f.node, f.device), f.fares)));
    }

    /// What the next report says.
    pub fn tell(&self) -> Telling {
        let (nodes, changes) = match &self.known {
            _ if self.revision == 0 => (None, None),
            None => (Some(self.nodes.to_vec()), None),
            Some((known, _)) if *known == self.revision => (None, None),
            Some((base, had)) => (None, Some(changes(*base, had, &self.nodes))),
        };
        let is_news = |(at, now): &(&(NodeName, u32), &Fares)| {
            nodes.is_some() || self.known_figures.get(*at).is_none_or(|told| now.differs_from(told))
        };
        let figure = |((node, device), fares): (&(NodeName, u32), &Fares)| DeviceFigures {
            node: node.clone(),
            device: *device,
            fares: *fares,
        };
        let figures = self.figures.iter().filter(is_news).map(figure).collect();
        let update = InventoryUpdate { revision: self.revision, changes, figures };
        Telling { nodes, update, of: Arc::clone(&self.nodes) }
    }

    /// The report with this in it was answered, and `known` is what the orchestrator has since.
    pub fn answered(&mut self, told: Telling, known: Option<u64>) {
        if told.update.revision == 0 {
            return;
        }
        if known != Some(told.update.revision) {
            self.known = None;
            self.known_figures.clear();
            return;
        }
        self.known = Some((told.update.revision, told.of));
        self.known_figures.extend(told.update.figures.into_iter().map(|f| ((f.node, f.device), f.fares)));
    }
}

fn changes(base: u64, had: &[NodeReport], has: &[NodeReport]) -> NodeChanges {
    let before: BTreeMap<&NodeName, &NodeReport> = had.iter().map(|n| (&n.name, n)).collect();
    let now: BTreeSet<&NodeName> = has.iter().map(|n| &n.name).collect();
    NodeChanges {
        base,
        nodes: has.iter().filter(|n| before.get(&n.name) != Some(n)).cloned().collect(),
        gone: before.keys().filter(|name| !now.contains(**name)).map(|name| (*name).clone()).collect(),
    }
}

/// What the orchestrator has been told of one point.
#[derive(Debug, Clone, Default)]
pub struct Hearer {
    boot: Uuid,
    revision: u64,
    nodes: Option<Arc<Vec<NodeReport>>>,
    figures: Arc<BTreeMap<(NodeName, u32), Fares>>,
}

impl Hearer {
    /// In order of name, unless the agent told them all at once; `None`: it never told.
    pub fn nodes(&self) -> Option<&Arc<Vec<NodeReport>>> {
        self.nodes.as_ref()
    }

    pub fn figures(&self) -> &Arc<BTreeMap<(NodeName, u32), Fares>> {
        &self.figures
    }

    /// Accelerators that the point would have after this report.
    pub fn devices_after(&self, report: &Report) -> usize {
        let mut after = self.clone();
        after.hear(report);
        after.nodes().map_or(0, |nodes| nodes.iter().map(|node| node.devices.len()).sum())
    }

    /// Takes a report in, which is newer than those before it; whether the nodes are others than before.
    pub fn hear(&mut self, report: &Report) -> bool {
        let before = self.nodes.clone();
        let update = &report.inventory;
        if self.boot != report.boot_id {
            (self.boot, self.revision) = (report.boot_id, 0);
            self.figures = Arc::default();
        }
        if let Some(nodes) = &report.nodes {
            self.revision = update.revision;
            if before.as_deref() != Some(nodes) {
                self.nodes = Some(Arc::new(nodes.clone()));
            }
        } else if let (Some(changes), Some(had)) = (&update.changes, &before)
            && self.revision != 0
            && changes.base == self.revision
        {
            self.revision = update.revision;
            self.nodes = Some(Arc::new(changed(had, changes)));
        }
        if !update.figures.is_empty() || report.nodes.is_some() {
            let figures = Arc::make_mut(&mut self.figures);
            if report.nodes.is_some() {
                figures.clear();
            }
            figures.extend(update.figures.iter().map(|f| ((f.node.clone(), f.device), f.fares)));
        }
        before != self.nodes
    }

    /// The number that is known, if it is that of the report; else the next one has to tell it all.
    pub fn acknowledged(&self, report: &Report) -> Option<u64> {
        let is_known = self.boot == report.boot_id && self.revision == report.inventory.revision;
        is_known.then_some(self.revision)
    }
}

fn changed(had: &[NodeReport], changes: &NodeChanges) -> Vec<NodeReport> {
    let mut nodes: BTreeMap<&NodeName, &NodeReport> = had.iter().map(|n| (&n.name, n)).collect();
    for name in &changes.gone {
        nodes.remove(name);
    }
    nodes.extend(changes.nodes.iter().map(|n| (&n.name, n)));
    nodes.into_values().cloned().collect()
}
