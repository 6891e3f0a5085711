//! A view that decisions are made on one after the other: what one decision worked out serves the next.

use crate::{
    decision::{ApplyError, Decision, Taken, decide_in_time, explain_in_time},
    network::Network,
    policy::{Policy, Request},
    room::Mix,
};
use rhumb_federation::{View, ViewSite};
use rhumb_model::{
    LinkId, Order, Plan,
    quantity::{Bandwidth, Latency},
};

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
        decide_in_time(&self.view, &self.net, request, policy)
    }

    /// Adds what a decision made on this view says of every site, and for a refusal what would make the order fit.
    pub fn explain(&self, request: &Request, policy: &Policy, decision: Decision) -> Decision {
        explain_in_time(&self.view, &self.net, request, policy, decision)
    }

    /// Decides and explains.
    pub fn place(&self, request: &Request, policy: &Policy) -> Decision {
        self.explain(request, policy, self.decide(request, policy))
    }

    /// Takes from the view what the plan takes: devices, and what it books of each link.
    /// On an error nothing has changed.
    pub fn apply(&mut self, plan: &Plan, order: &Order) -> Result<(), ApplyError> {
        let taken = Taken::new(&self.view, plan, order, &Mix::default())?;
        for (site, nodes) in taken.sites {
            self.view.sites[site].nodes = nodes;
            self.net.index.taken(&self.view, site);
        }
        for (edge, link) in taken.links {
            self.net.set_free(edge.index(), link.free.kbps());
            self.view.graph[edge] = link;
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
