//! A view that decisions are made on one after the other: what one decision worked out serves the next.

use crate::{
    decision::{ApplyError, Decision, decide_on, explain_on, held},
    network::Network,
    policy::{Policy, Request},
    room,
};
use rhumb_federation::{FreeNodes, View, ViewSite};
use rhumb_model::{
    LinkId, Order, Plan,
    quantity::{Bandwidth, Latency},
};
use std::collections::BTreeMap;

/// A view with its indexes, bounds and path trees. It answers as `decide` does on the same view, whatever was asked of it
/// or folded into it before; only sooner.
#[derive(Debug)]
pub struct Planner {
    view: View,
    net: Network,
}

/// What changes about a link from one moment to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkNow {
    /// What may still be reserved; never more than the link's capacity.
    pub free: Bandwidth,
    /// The one-way delay that decisions use.
    pub latency: Latency,
    /// The figure is too old: the link refuses.
    pub stale: bool,
}

impl Planner {
    pub fn new(view: View) -> Self {
        let net = Network::new(&view);
        Self { view, net }
    }

    pub fn view(&self) -> &View {
        &self.view
    }

    pub fn into_view(self) -> View {
        self.view
    }

    /// The decision alone, without what it says of every site and of what would help.
    pub fn decide(&self, request: &Request, policy: &Policy) -> Decision {
        decide_on(&self.view, &self.net, request, policy)
    }

    /// Adds what a decision made on this view says of every site, and for a refusal what would make the order fit.
    pub fn explain(&self, request: &Request, policy: &Policy, decision: Decision) -> Decision {
        explain_on(&self.view, &self.net, request, policy, decision)
    }

    /// Decides and explains.
    pub fn place(&self, request: &Request, policy: &Policy) -> Decision {
        self.explain(request, policy, self.decide(request, policy))
    }

    /// Takes from the view what the plan takes: devices while it runs, and on each link the most it holds in any phase.
    /// On an error nothing has changed.
    pub fn apply(&mut self, plan: &Plan, order: &Order) -> Result<(), ApplyError> {
        let mut wants: BTreeMap<usize, Vec<room::Want>> = BTreeMap::new();
        for placed in &plan.components {
            let unknown = |kind, name: &dyn ToString| ApplyError::Unknown { kind, name: name.to_string() };
            let component = order.component(&placed.name).ok_or_else(|| unknown("component", &placed.name))?;
            let mut here: BTreeMap<usize, Vec<_>> = BTreeMap::new();
            for a in &placed.assignments {
                let site = self.view.site_index(&a.site).ok_or_else(|| unknown("site", &a.site))?;
                here.entry(site).or_default().push((a.model.as_ref(), a.replicas));
            }
            for (site, replicas) in here {
                wants.entry(site).or_default().push(room::Want { component, replicas });
            }
        }
        let mut left: Vec<(usize, Vec<FreeNodes>)> = Vec::with_capacity(wants.len());
        for (site, wants) in &wants {
            let at = &self.view.sites[*site];
            let nodes = room::pack(&at.nodes, wants).ok_or_else(|| ApplyError::Nodes(at.site.name.to_string()))?;
            left.push((*site, nodes));
        }
        let mut links = Vec::new();
        for (id, needed) in held(plan, order) {
            let edge = self.view.links.get(&id).copied();
            let found = edge.and_then(|e| Some((e, self.view.graph.edge_weight(e)?.free)));
            let Some((edge, free)) = found else {
                return Err(ApplyError::Unknown { kind: "link", name: id.to_string() });
            };
            let Some(rest) = free.checked_sub(needed) else {
                return Err(ApplyError::Link { link: id.to_string(), needed, free });
            };
            links.push((edge, rest));
        }
        for (site, nodes) in left {
            self.view.sites[site].nodes = nodes;
            self.net.index.taken(&self.view, site);
        }
        for (edge, free) in links {
            self.view.graph[edge].free = free;
            self.net.set_free(edge.index(), free.kbps());
        }
        Ok(())
    }

    /// Folds one site's report in. A site that the view does not have is left out: views gain sites when they are built.
    pub fn replace_site(&mut self, site: ViewSite) {
        let Some(index) = self.view.site_index(&site.site.name) else { return };
        let point = self.view.sites[index].point;
        let moved = self.view.sites[index].site.jurisdiction != site.site.jurisdiction;
        if moved {
            self.view.graph[point].jurisdiction.clone_from(&site.site.jurisdiction);
        }
        self.view.graph[point].place = site.site.place;
        self.view.sites[index] = ViewSite { point, ..site };
        self.net.index.changed(&self.view, index);
        if moved {
            let around =
                self.view.graph.edge_indices().filter(|e| {
                    self.view.graph.edge_endpoints(*e).is_some_and(|(from, to)| from == point || to == point)
                });
            for edge in around {
                self.net.set_figures(&self.view, edge.index());
            }
        }
    }

    /// Folds a link's figures in. A link that the view does not have is left out.
    pub fn set_link(&mut self, id: &LinkId, now: LinkNow) {
        let Some(edge) = self.view.links.get(id).copied() else { return };
        let link = &mut self.view.graph[edge];
        link.free = now.free.min(link.capacity);
        (link.latency, link.stale) = (now.latency, now.stale);
        let free = link.free.kbps();
        self.net.set_free(edge.index(), free);
        self.net.set_figures(&self.view, edge.index());
    }
}
