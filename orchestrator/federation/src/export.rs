//! A view as a federation file on which the same decision can be made again.

use crate::view::{FreeNodes, Release, View, ViewLink, ViewPoint, ViewSite};
use jiff::Timestamp;
use petgraph::visit::EdgeRef;
use rhumb_model::{
    FederationFile, LinkId, PointName,
    federation_file::{
        BookedEntry, DatasetEntry, LinkEntry, NodeEntry, RegionEntry, ReleaseEntry, ReleasedLink, ReleasedSite,
        SiteEntry, TransitEntry,
    },
    ratio::Decimal,
    state::SiteState,
};
use std::collections::BTreeMap;

/// What is free becomes the file's capacity, and the delays that decisions use its latencies.
pub fn export(view: &View, at: Timestamp) -> FederationFile {
    let transit = view.graph.node_weights().filter(|p| p.site.is_none()).map(transit_entry);
    FederationFile {
        currency: view.currency,
        rates: view.rates.iter().filter_map(|(name, rate)| Some((name.clone(), Decimal::from_ratio(*rate)?))).collect(),
        at: Some(at),
        devices: view.devices.clone(),
        sites: view.sites.iter().map(|s| site_entry(view, s)).collect(),
        transit: transit.collect(),
        links: link_entries(view),
        datasets: view
            .datasets
            .iter()
            .map(|(name, d)| DatasetEntry { name: name.clone(), size: d.size, at: d.at.iter().cloned().collect() })
            .collect(),
        regions: view
            .regions
            .iter()
            .map(|(name, r)| RegionEntry { name: name.clone(), at: r.at.clone(), access: r.access })
            .collect(),
        releases: view.releases.iter().map(|r| release_entry(view, r)).collect(),
    }
}

fn release_entry(view: &View, release: &Release) -> ReleaseEntry {
    let nodes = |nodes: &[FreeNodes]| nodes.iter().map(|n| NodeEntry::of_shape(n, &view.devices)).collect();
    let sites = release.sites.iter().map(|(name, free)| ReleasedSite { name: name.clone(), nodes: nodes(free) });
    let links = release.links.iter().map(|(id, open)| ReleasedLink { id: id.clone(), capacity: *open });
    ReleaseEntry { at: release.at, order: release.order.clone(), sites: sites.collect(), links: links.collect() }
}

fn site_entry(view: &View, s: &ViewSite) -> SiteEntry {
    let entries = |nodes: &[FreeNodes]| -> Vec<NodeEntry> {
        nodes.iter().map(|n| NodeEntry::of_shape(n, &view.devices)).collect()
    };
    SiteEntry {
        name: s.site.name.clone(),
        tier: s.site.tier,
        place: s.site.place,
        jurisdiction: s.site.jurisdiction.clone(),
        labels: s.site.labels.clone(),
        prices: s.site.prices.clone(),
        nodes: entries(&s.nodes),
        installed: if s.nodes == s.whole { Vec::new() } else { entries(&s.whole) },
        // a file is for every order: a site that this one is kept from takes no work
        state: match s.site.state {
            SiteState::Ready if view.avoid.contains(&s.site.name) => SiteState::Draining,
            state => state,
        },
        age: s.age,
    }
}

fn transit_entry(p: &ViewPoint) -> TransitEntry {
    TransitEntry { name: p.name.clone(), place: p.place, jurisdiction: p.jurisdiction.clone(), relay: p.relay }
}

fn link_entries(view: &View) -> Vec<LinkEntry> {
    let edges = view.graph.edge_references();
    let mut entries: BTreeMap<LinkId, LinkEntry> = edges
        .map(|e| {
            let ends = (&view.graph[e.source()].name, &view.graph[e.target()].name);
            (e.weight().id.clone(), link_entry(e.weight(), ends))
        })
        .collect();
    // two halves that differ in direction alone are written as one
    let backs: Vec<LinkId> = entries.keys().filter(|id| id.as_str().ends_with('~')).cloned().collect();
    for back in backs {
        let forth = back.as_str().strip_suffix('~').and_then(|id| LinkId::new(id).ok());
        let Some(forth) = forth.and_then(|id| entries.get(&id)) else { continue };
        let turned = LinkEntry { id: back.clone(), from: forth.to.clone(), to: forth.from.clone(), ..forth.clone() };
        if entries.get(&back) == Some(&turned) {
            let id = forth.id.clone();
            entries.remove(&back);
            entries.entry(id).and_modify(|e| e.both_ways = true);
        }
    }
    entries.into_values().collect()
}

fn link_entry(l: &ViewLink, (from, to): (&PointName, &PointName)) -> LinkEntry {
    // what is not taken for good; the bookings are listed beside it
    let open = l.open();
    let booked = l.calendar.stretches().into_iter().map(|(slots, rate)| {
        let (from, until) = slots.times();
        BookedEntry { from, until, rate }
    });
    LinkEntry {
        id: l.id.clone(),
        from: from.clone(),
        to: to.clone(),
        both_ways: false,
        capacity: open,
        installed: (open != l.capacity).then_some(l.capacity),
        latency: l.latency,
        jitter: l.link.jitter,
        loss: l.link.loss,
        per_gb: l.link.per_gb,
        per_mbps_hour: l.link.per_mbps_hour,
        tariff: l.link.tariff.clone(),
        provider: l.link.provider.clone(),
        jurisdictions: l.jurisdictions.clone(),
        encrypted: l.encrypted,
        srlg: l.srlg.clone(),
        stale: l.stale,
        booked: booked.collect(),
    }
}
