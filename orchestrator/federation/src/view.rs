//! The immutable picture, and what can be looked up in it.

use crate::figures::PathNews;
use jiff::Timestamp;
use petgraph::graph::{DiGraph, EdgeIndex, NodeIndex};
use rhumb_model::{
    Amount, Calendar, Jurisdiction, Label, Link, LinkId, ModelName, OrderName, PointName, Site, SiteName, Slots,
    federation_file::DeviceKind,
    money::{Currency, UnknownCurrency},
    name::{DatasetName, RegionName, SrlgName},
    quantity::{Bandwidth, Bytes, Latency, Span},
    ratio::Ratio,
    site::Coordinates,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub use rhumb_model::fit::FreeNodes;

/// What one decision looks at.
#[derive(Debug, Clone)]
pub struct View {
    pub generation: u64,
    pub currency: Currency,
    /// Worth of one unit of another currency.
    pub rates: BTreeMap<String, Ratio>,
    pub devices: BTreeMap<ModelName, DeviceKind>,
    /// Sites in name order.
    pub sites: Vec<ViewSite>,
    /// Points (sites and transit) and directed links; parallel links are separate edges.
    pub graph: DiGraph<ViewPoint, ViewLink>,
    pub points: BTreeMap<PointName, NodeIndex>,
    pub links: BTreeMap<LinkId, EdgeIndex>,
    pub datasets: BTreeMap<DatasetName, ViewDataset>,
    pub regions: BTreeMap<RegionName, ViewRegion>,
    /// What ends later, in order of time.
    pub releases: Vec<Release>,
    /// Sites that this order is kept from, for what went wrong there.
    pub avoid: BTreeSet<SiteName>,
}

/// An order that ends, and what is free from then on where it held something, if nothing new is placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    pub at: Timestamp,
    pub order: OrderName,
    /// All that is free at the sites then.
    pub sites: BTreeMap<SiteName, Vec<FreeNodes>>,
    /// All that nobody holds for good on the directed links then; what is booked for a time counts beside it.
    pub links: BTreeMap<LinkId, Bandwidth>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ViewPoint {
    pub name: PointName,
    pub place: Option<Coordinates>,
    pub jurisdiction: Option<Jurisdiction>,
    /// Runs an agent: its links are measured. Sites do.
    pub relay: bool,
    /// Index into `View::sites`, for points with compute.
    pub site: Option<usize>,
}

#[derive(Debug, Clone)]
pub struct ViewSite {
    pub site: Site,
    pub point: NodeIndex,
    /// Time since the site's last report; `None`: a file that says nothing of it, or a site that never reported.
    pub age: Option<Span>,
    /// Free capacity: equal nodes once, with their count; in order of shape.
    pub nodes: Vec<FreeNodes>,
    /// The same nodes when nothing is taken (to tell "never" from "not now").
    pub whole: Vec<FreeNodes>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ViewLink {
    pub id: LinkId,
    /// What may be reserved in all.
    pub capacity: Bandwidth,
    /// What nobody has reserved, at any time from the view's instant on; at most `capacity`.
    pub free: Bandwidth,
    /// What is reserved for a time only, by slot.
    pub calendar: Arc<Calendar>,
    /// The one-way delay that decisions use (configured offline; live: p95 RTT / 2 plus 1 % per minute of age).
    pub latency: Latency,
    /// The figure is older than the policy allows: the link refuses.
    pub stale: bool,
    /// Micro-units of the view's currency per 10^9 bytes, and per Mbit/s and hour; exact.
    pub per_gb_micros: Ratio,
    pub per_mbps_hour_micros: Ratio,
    pub jurisdictions: BTreeSet<Jurisdiction>,
    pub encrypted: bool,
    pub srlg: BTreeSet<SrlgName>,
    /// As configured.
    pub link: Arc<Link>,
    /// Nobody measured the delay: it is the configured one where nothing can, or what other pairs let believe.
    pub estimated: bool,
    /// What was measured; `None`: nothing, or offline.
    pub path: Option<ViewPath>,
}

/// What probes say of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewPath {
    /// Round trips that decisions rest on: moved only when windows insist.
    pub held_min: Latency,
    pub held_p95: Latency,
    /// Of the last window.
    pub rtt_min: Latency,
    pub rtt_p95: Latency,
    /// The prober has measured nothing for three windows.
    pub silent: bool,
    /// The last time that the path was another, as far as is known.
    pub changed: Option<PathNews>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewDataset {
    pub size: Bytes,
    pub at: BTreeSet<SiteName>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewRegion {
    pub at: PointName,
    pub access: Latency,
}

impl ViewSite {
    pub fn labels(&self) -> &BTreeSet<Label> {
        &self.site.labels
    }
}

impl ViewLink {
    /// What nobody has reserved for good.
    pub fn open(&self) -> Bandwidth {
        Bandwidth::from_kbps(self.free.kbps().saturating_add(self.calendar.highest().kbps()))
    }

    /// What is free in all of these slots.
    pub fn free_in(&self, slots: Slots) -> Bandwidth {
        if self.calendar.is_within(slots) { self.free } else { self.open().saturating_sub(self.calendar.peak(slots)) }
    }

    /// Books `rate` in these slots, or for good. `None`: it is not free, and nothing is changed.
    pub fn book(&mut self, slots: Option<Slots>, rate: Bandwidth) -> Option<()> {
        let open = self.open();
        let Some(slots) = slots else {
            self.free = self.free.checked_sub(rate)?;
            return Some(());
        };
        self.free_in(slots).checked_sub(rate)?;
        let calendar = Arc::make_mut(&mut self.calendar);
        calendar.book(slots, rate);
        self.free = open.saturating_sub(calendar.highest());
        Some(())
    }
}

impl View {
    /// The view of somebody who needs links in these slots alone: what others have booked outside of them is free.
    /// `None`: that makes no difference.
    pub fn during(&self, slots: Slots) -> Option<Self> {
        let differs = |l: &ViewLink| l.free_in(slots) != l.free;
        self.graph.edge_weights().any(differs).then(|| {
            let mut view = self.clone();
            for link in view.graph.edge_weights_mut().filter(|l| !l.calendar.is_within(slots)) {
                link.free = link.free_in(slots);
                link.calendar = Arc::new(link.calendar.within(slots));
            }
            view
        })
    }

    /// The view when everything that ends up to `at` has ended.
    #[must_use]
    pub fn after(mut self, at: Timestamp) -> Self {
        let past = self.releases.partition_point(|r| r.at <= at);
        for release in self.releases.drain(..past).collect::<Vec<_>>() {
            for (name, nodes) in release.sites {
                if let Ok(index) = self.sites.binary_search_by(|s| s.site.name.cmp(&name)) {
                    self.sites[index].nodes = nodes;
                }
            }
            for (id, open) in release.links {
                if let Some(link) = self.links.get(&id).and_then(|edge| self.graph.edge_weight_mut(*edge)) {
                    link.free = open.min(link.capacity).saturating_sub(link.calendar.highest());
                }
            }
        }
        self
    }

    /// Index into `sites`.
    pub fn site_index(&self, name: &SiteName) -> Option<usize> {
        self.sites.binary_search_by(|s| s.site.name.cmp(name)).ok()
    }

    pub fn site(&self, name: &SiteName) -> Option<&ViewSite> {
        self.site_index(name).map(|i| &self.sites[i])
    }

    pub fn link(&self, id: &LinkId) -> Option<&ViewLink> {
        self.links.get(id).and_then(|edge| self.graph.edge_weight(*edge))
    }

    /// From and to of a link.
    pub fn ends(&self, id: &LinkId) -> Option<(&PointName, &PointName)> {
        let (from, to) = self.graph.edge_endpoints(*self.links.get(id)?)?;
        Some((&self.graph[from].name, &self.graph[to].name))
    }

    pub fn point(&self, name: &PointName) -> Option<&ViewPoint> {
        self.points.get(name).and_then(|node| self.graph.node_weight(*node))
    }

    /// An amount in micro-units of the view's currency, exactly.
    pub fn micros(&self, amount: Amount) -> Result<Ratio, UnknownCurrency> {
        amount.micros_in(self.currency, &self.rates)
    }
}
