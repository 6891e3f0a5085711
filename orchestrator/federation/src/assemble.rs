//! How a view comes about: from a file alone (offline), or from a file's static parts and what is known live.

use crate::{
    figures::{DecisionFigure, FigureBook},
    view::{Release, View, ViewDataset, ViewLink, ViewPath, ViewPoint, ViewRegion, ViewSite},
};
use jiff::Timestamp;
use petgraph::graph::DiGraph;
use rhumb_model::{
    Calendar, DocumentError, FederationFile, Jurisdiction, Link, LinkId, ModelName, Node, NodeName, OrderName,
    PointName, Site, SiteName,
    federation_file::{DeviceKind, LinkEntry, SiteEntry},
    fit::{FreeNodes, NodeShape, NodeUse, group_nodes},
    money::{Amount, Currency},
    name::{DatasetName, RegionName},
    quantity::{Bandwidth, Latency, Span},
    ratio::{Ratio, round_half_up},
    site::Coordinates,
    state::SiteState,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The static parts: what a file configures and no report changes.
#[derive(Debug, Clone)]
pub struct Base {
    pub currency: Currency,
    pub rates: BTreeMap<String, Ratio>,
    pub devices: BTreeMap<ModelName, DeviceKind>,
    /// In name order.
    pub sites: Vec<Site>,
    /// In name order.
    pub transit: Vec<Transit>,
    /// In id order.
    pub links: Vec<BaseLink>,
    pub datasets: BTreeMap<DatasetName, ViewDataset>,
    pub regions: BTreeMap<RegionName, ViewRegion>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Transit {
    pub name: PointName,
    pub place: Option<Coordinates>,
    pub jurisdiction: Option<Jurisdiction>,
    pub relay: bool,
}

/// A directed link with its tariff in the base's currency.
#[derive(Debug, Clone, PartialEq)]
pub struct BaseLink {
    pub link: Arc<Link>,
    pub per_gb_micros: Ratio,
    pub per_mbps_hour_micros: Ratio,
    /// Of an exported view: what can be reserved in all, and whether the figures were too old.
    installed: Bandwidth,
    stale: bool,
    booked: Arc<Calendar>,
}

/// What is known of the federation right now.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// A site that is missing has never been seen.
    pub sites: BTreeMap<SiteName, LiveSite>,
    /// What orders and quotes hold for good, by directed link; missing: nothing.
    pub reserved: BTreeMap<LinkId, Bandwidth>,
    /// What they hold for a time only, by directed link; missing: nothing.
    pub booked: BTreeMap<LinkId, Arc<Calendar>>,
    /// Where data is now; a dataset that is missing is where the base has it.
    pub datasets: BTreeMap<DatasetName, ViewDataset>,
    /// Orders that are known to end, in any order.
    pub ends: Vec<LiveEnd>,
    /// Sites that the order to be decided on is kept from.
    pub avoid: BTreeSet<SiteName>,
}

/// An order that ends, and what is taken then where it holds something.
#[derive(Debug, Clone)]
pub struct LiveEnd {
    pub at: Timestamp,
    pub order: OrderName,
    /// By site and node: what others still use then.
    pub nodes: BTreeMap<(SiteName, NodeName), NodeUse>,
    /// By link: what nobody holds for good then. What is booked in slots ends with them, whatever becomes of its order.
    pub free: BTreeMap<LinkId, Bandwidth>,
}

#[derive(Debug, Clone)]
pub struct LiveSite {
    pub state: SiteState,
    /// Time since its last report; `None`: not known.
    pub age: Option<Span>,
    pub nodes: Vec<LiveNode>,
}

/// A node as reported, and what is held on it.
#[derive(Debug, Clone)]
pub struct LiveNode {
    pub node: Arc<Node>,
    pub used: NodeUse,
}

impl Live {
    /// What is free at each site and link as orders end one after the other.
    fn releases(&self) -> Vec<Release> {
        let mut ends: Vec<&LiveEnd> = self.ends.iter().collect();
        ends.sort_by(|a, b| (a.at, &a.order).cmp(&(b.at, &b.order)));
        let mut used: BTreeMap<&(SiteName, NodeName), &NodeUse> = BTreeMap::new();
        let mut releases = Vec::with_capacity(ends.len());
        for end in ends {
            used.extend(&end.nodes);
            let touched: BTreeSet<&SiteName> = end.nodes.keys().map(|(site, _)| site).collect();
            let free = |name: &SiteName| {
                let site = self.sites.get(name)?;
                let now = |n: &LiveNode| {
                    let key = (name.clone(), n.node.name.clone());
                    NodeShape::of(&n.node, used.get(&key).copied().unwrap_or(&n.used))
                };
                Some((name.clone(), group_nodes(site.nodes.iter().map(|n| (now(n), 1)))))
            };
            let sites = touched.into_iter().filter_map(free).collect();
            releases.push(Release { at: end.at, order: end.order.clone(), sites, links: end.free.clone() });
        }
        releases
    }
}

fn releases(file: &FederationFile) -> Vec<Release> {
    let release = |r: &rhumb_model::federation_file::ReleaseEntry| Release {
        at: r.at,
        order: r.order.clone(),
        sites: r.sites.iter().map(|s| (s.name.clone(), s.free(&file.devices))).collect(),
        links: r.links.iter().map(|l| (l.id.clone(), l.capacity)).collect(),
    };
    let mut releases: Vec<Release> = file.releases.iter().map(release).collect();
    releases.sort_by(|a, b| (a.at, &a.order).cmp(&(b.at, &b.order)));
    releases
}

impl BaseLink {
    /// Per 10^9 bytes, and per Mbit/s and hour, of one more where so much is reserved already: the flat prices and the
    /// tariff's margin, that one in whole micro-units.
    fn prices(&self, reserved: Bandwidth, currency: Currency, rates: &BTreeMap<String, Ratio>) -> (Ratio, Ratio) {
        let flat = (self.per_gb_micros, self.per_mbps_hour_micros);
        let Some(tariff) = &self.link.tariff else { return flat };
        let margin = tariff.margin(reserved, self.installed);
        // the file's check refuses a currency without a rate
        let micros = |amount: Amount, share: Ratio| {
            let exact = amount.micros_in(currency, rates).unwrap_or_else(|_| Ratio::from_integer(0));
            Ratio::from_integer(round_half_up(exact * share))
        };
        let per_gb = margin.per_gb.map_or_else(|| Ratio::from_integer(0), |a| micros(a, Ratio::from_integer(1)));
        let per_hour = margin.per_mbps_hour.map_or_else(|| Ratio::from_integer(0), |(a, share)| micros(a, share));
        (flat.0 + per_gb, flat.1 + per_hour)
    }
}

impl Base {
    /// What one more costs on a link of which nothing is reserved; `None`: there is no such link.
    pub fn empty_prices(&self, id: &LinkId) -> Option<(Ratio, Ratio)> {
        self.link(id).map(|link| link.prices(Bandwidth::ZERO, self.currency, &self.rates))
    }

    /// The static parts of a file that is sound; everything wrong with it otherwise.
    pub fn from_file(file: &FederationFile) -> Result<Self, DocumentError> {
        file.check()?;
        let rates = file.exact_rates();
        let micros = |amount: Option<Amount>| -> Result<Ratio, DocumentError> {
            let Some(amount) = amount else { return Ok(Ratio::from_integer(0)) };
            amount.micros_in(file.currency, &rates).map_err(|e| DocumentError::one("/rates", e.to_string()))
        };
        let entries: BTreeMap<&LinkId, _> = file.links.iter().map(|l| (&l.id, l)).collect();
        let mut links = Vec::with_capacity(entries.len() * 2);
        for link in file.directed_links() {
            let own = entries.get(&link.id).copied();
            // the second half of a link declared both ways has the entry of the first
            let entry = own.or_else(|| link.reverse.as_ref().and_then(|r| entries.get(r).copied()));
            links.push(BaseLink {
                per_gb_micros: micros(link.per_gb)?,
                per_mbps_hour_micros: micros(link.per_mbps_hour)?,
                installed: entry.and_then(|e| e.installed).unwrap_or(link.capacity),
                stale: entry.is_some_and(|e| e.stale),
                booked: Arc::new(entry.map(LinkEntry::calendar).unwrap_or_default()),
                link: Arc::new(link),
            });
        }
        links.sort_by(|a, b| a.link.id.cmp(&b.link.id));
        let mut sites: Vec<Site> = file.sites.iter().map(SiteEntry::site).collect();
        sites.sort_by(|a, b| a.name.cmp(&b.name));
        let transit = file.transit.iter().map(|t| Transit {
            name: t.name.clone(),
            place: t.place,
            jurisdiction: t.jurisdiction.clone(),
            relay: t.relay,
        });
        let mut transit: Vec<Transit> = transit.collect();
        transit.sort_by(|a, b| a.name.cmp(&b.name));
        let datasets = file
            .datasets
            .iter()
            .map(|d| (d.name.clone(), ViewDataset { size: d.size, at: d.at.iter().cloned().collect() }));
        let datasets = datasets.collect();
        let regions = file.regions.iter().map(|r| (r.name.clone(), ViewRegion { at: r.at.clone(), access: r.access }));
        let regions = regions.collect();
        let devices = file.devices.clone();
        Ok(Self { currency: file.currency, rates, devices, sites, transit, links, datasets, regions })
    }

    /// Transit points at which nothing measures.
    pub fn opaque(&self) -> BTreeSet<&PointName> {
        self.transit.iter().filter(|t| !t.relay).map(|t| &t.name).collect()
    }

    pub fn link(&self, id: &LinkId) -> Option<&BaseLink> {
        self.links.binary_search_by(|l| l.link.id.cmp(id)).ok().map(|i| &self.links[i])
    }

    fn view(&self, generation: u64, sites: Vec<SiteNow>, link_now: impl Fn(&BaseLink) -> LinkNow) -> View {
        let mut graph = DiGraph::with_capacity(self.sites.len() + self.transit.len(), self.links.len());
        let mut points = BTreeMap::new();
        let mut view_sites = Vec::with_capacity(self.sites.len());
        for (i, (site, now)) in self.sites.iter().zip(sites).enumerate() {
            let point = graph.add_node(ViewPoint {
                name: site.name.clone(),
                place: site.place,
                jurisdiction: site.jurisdiction.clone(),
                relay: true,
                site: Some(i),
            });
            points.insert(site.name.clone(), point);
            let site = Site { state: now.state, ..site.clone() };
            view_sites.push(ViewSite { site, point, age: now.age, nodes: now.free, whole: now.whole });
        }
        for transit in &self.transit {
            let point = graph.add_node(ViewPoint {
                name: transit.name.clone(),
                place: transit.place,
                jurisdiction: transit.jurisdiction.clone(),
                relay: transit.relay,
                site: None,
            });
            points.insert(transit.name.clone(), point);
        }
        let mut links = BTreeMap::new();
        for base in &self.links {
            let link = &base.link;
            // the file's check refuses a link to an unknown point
            let (Some(from), Some(to)) = (points.get(&link.from), points.get(&link.to)) else { continue };
            let now = link_now(base);
            let free = now.open.saturating_sub(now.calendar.highest());
            let reserved = now.capacity.saturating_sub(free);
            let (per_gb_micros, per_mbps_hour_micros) = base.prices(reserved, self.currency, &self.rates);
            let edge = graph.add_edge(
                *from,
                *to,
                ViewLink {
                    id: link.id.clone(),
                    capacity: now.capacity,
                    free,
                    calendar: now.calendar,
                    latency: now.latency,
                    stale: now.stale,
                    per_gb_micros,
                    per_mbps_hour_micros,
                    jurisdictions: link.jurisdictions.clone(),
                    encrypted: link.encrypted,
                    srlg: link.srlg.clone(),
                    link: Arc::clone(link),
                    estimated: now.estimated,
                    path: now.path,
                },
            );
            links.insert(link.id.clone(), edge);
        }
        View {
            generation,
            currency: self.currency,
            rates: self.rates.clone(),
            devices: self.devices.clone(),
            sites: view_sites,
            graph,
            points,
            links,
            datasets: self.datasets.clone(),
            regions: self.regions.clone(),
            releases: Vec::new(),
            avoid: BTreeSet::new(),
        }
    }
}

struct SiteNow {
    state: SiteState,
    age: Option<Span>,
    free: Vec<FreeNodes>,
    whole: Vec<FreeNodes>,
}

/// A report older than this is not trusted where nothing else is said.
const STALE_AFTER: Span = Span::from_micros(60_000_000);

/// A site whose report is too old counts as lost, whatever it said then.
fn aged(state: SiteState, age: Option<Span>, stale_after: Span) -> SiteState {
    if state != SiteState::NeverSeen && age.is_some_and(|age| age > stale_after) { SiteState::Lost } else { state }
}

struct LinkNow {
    capacity: Bandwidth,
    /// Not reserved for good.
    open: Bandwidth,
    calendar: Arc<Calendar>,
    latency: Latency,
    stale: bool,
    estimated: bool,
    path: Option<ViewPath>,
}

impl View {
    /// Offline: everything in the file is free, and its delays hold.
    pub fn from_file(file: &FederationFile) -> Result<Self, DocumentError> {
        let base = Base::from_file(file)?;
        let mut entries: Vec<_> = file.sites.iter().collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let sites = entries.into_iter().map(|entry| SiteNow {
            // an exported view says itself what it did not trust
            state: if file.at.is_some() { entry.state } else { aged(entry.state, entry.age, STALE_AFTER) },
            age: entry.age,
            free: entry.free(&file.devices),
            whole: entry.whole(&file.devices),
        });
        let link_now = |base: &BaseLink| LinkNow {
            capacity: base.installed,
            open: base.link.capacity,
            calendar: Arc::clone(&base.booked),
            latency: base.link.latency,
            stale: base.stale,
            estimated: false,
            path: None,
        };
        let mut view = base.view(0, sites.collect(), link_now);
        view.releases = releases(file);
        Ok(match file.at {
            Some(at) => view.after(at),
            None => view,
        })
    }

    /// Live: delays are those measured. A link that has not been measured yet is stale; one that touches an opaque transit
    /// point cannot be and keeps its configured figure.
    pub fn assemble(generation: u64, base: &Base, live: &Live, figures: &FigureBook, now: Timestamp) -> Self {
        let sites = base.sites.iter().map(|site| match live.sites.get(&site.name) {
            None => SiteNow { state: SiteState::NeverSeen, age: None, free: Vec::new(), whole: Vec::new() },
            Some(now) => {
                let shapes = |shape: fn(&LiveNode) -> NodeShape| group_nodes(now.nodes.iter().map(|n| (shape(n), 1)));
                SiteNow {
                    state: aged(now.state, now.age, figures.stale_after()),
                    age: now.age,
                    free: shapes(|n| NodeShape::of(&n.node, &n.used)),
                    whole: shapes(|n| NodeShape::whole(&n.node)),
                }
            }
        });
        let opaque = base.opaque();
        let link_now = |base: &BaseLink| {
            let link = &base.link;
            let reserved = live.reserved.get(&link.id).copied().unwrap_or(Bandwidth::ZERO);
            let unseen = opaque.contains(&link.from) || opaque.contains(&link.to);
            let measured = if unseen { None } else { figures.decision(&link.id, now) };
            let configured = DecisionFigure { latency: link.latency, stale: !unseen, estimated: unseen };
            let figure = measured.unwrap_or(configured);
            LinkNow {
                capacity: link.capacity,
                open: link.capacity.saturating_sub(reserved),
                calendar: live.booked.get(&link.id).cloned().unwrap_or_default(),
                latency: figure.latency,
                stale: figure.stale,
                estimated: figure.estimated,
                path: figures.figure(&link.id).filter(|_| !unseen).map(|seen| ViewPath {
                    held_min: seen.held_min(),
                    held_p95: seen.held_p95(),
                    rtt_min: seen.rtt_min,
                    rtt_p95: seen.rtt_p95,
                    silent: figures.is_silent(&link.id),
                    changed: figures.path(&link.id).copied(),
                }),
            }
        };
        let mut view = base.view(generation, sites.collect(), link_now);
        view.releases = live.releases();
        view.avoid.clone_from(&live.avoid);
        for (name, dataset) in &live.datasets {
            view.datasets.insert(name.clone(), dataset.clone());
        }
        view
    }
}
