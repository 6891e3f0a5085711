//! Plans one after the other: each on what those before it left.

use super::{Found, Violation};
use crate::{
    booking::bookings,
    policy::{Policy, Request},
    room,
};
use rhumb_federation::View;
use rhumb_model::{ModelName, Plan, SiteName, order::Component};
use std::collections::BTreeMap;

/// What is held so far, and what is left.
///
/// Plans say how many replicas a site takes, not on which nodes. Where a plan does not fit beside the nodes that those
/// before it were put on, all that the site holds is packed anew before the plan is called wrong.
#[derive(Debug)]
pub struct Sequence<'a> {
    whole: &'a View,
    left: View,
    /// By site: component, model and replicas of every plan.
    held: BTreeMap<usize, Vec<Held<'a>>>,
}

#[derive(Debug, Clone)]
struct Held<'a> {
    component: &'a Component,
    replicas: Vec<(Option<ModelName>, u32)>,
}

impl<'a> Sequence<'a> {
    pub fn new(view: &'a View) -> Self {
        Self { whole: view, left: view.clone(), held: BTreeMap::new() }
    }

    /// Everything that is wrong with the plan on what is left; then takes what it holds.
    pub fn check(&mut self, plan: &Plan, request: &Request<'a>, policy: &Policy) -> Vec<Violation> {
        let mut found = Found::default();
        super::components(&mut found, plan, request, &self.left);
        if found.0.is_empty() {
            self.nodes(&mut found, plan, request);
            super::beyond_nodes(&mut found, plan, request, &self.left, policy);
            self.links(&mut found, plan, request);
        }
        super::certificate(&mut found, plan);
        found.0
    }

    fn links(&mut self, found: &mut Found, plan: &Plan, request: &Request) {
        for b in bookings(plan, request.order) {
            // an unknown link was named already
            let Some(link) = self.left.links.get(&b.link).and_then(|e| self.left.graph.edge_weight_mut(*e)) else {
                continue;
            };
            let booked = link.book(b.slots, b.rate).is_some();
            found.check(booked, "link_capacity", || {
                format!("{} has no {} free beside what is held there", b.link, b.rate)
            });
        }
    }

    fn nodes(&mut self, found: &mut Found, plan: &Plan, request: &Request<'a>) {
        let mut here: BTreeMap<&SiteName, Vec<Held<'a>>> = BTreeMap::new();
        for (placed, component) in plan.components.iter().zip(&request.order.components) {
            let mut by_site: BTreeMap<&SiteName, Vec<_>> = BTreeMap::new();
            for a in &placed.assignments {
                by_site.entry(&a.site).or_default().push((a.model.clone(), a.replicas));
            }
            for (site, replicas) in by_site {
                here.entry(site).or_default().push(Held { component, replicas });
            }
        }
        for (name, more) in here {
            // an unknown site was named already
            let Some(site) = self.whole.site_index(name) else { continue };
            let held = self.held.entry(site).or_default();
            held.extend(more.iter().cloned());
            let left = room::pack(&self.left.sites[site].nodes, &wants(&more))
                .or_else(|| room::pack(&self.whole.sites[site].nodes, &wants(&largest_first(held))));
            match left {
                Some(left) => self.left.sites[site].nodes = left,
                None => {
                    held.truncate(held.len() - more.len());
                    found.add("nodes", format!("the replicas at {name} do not fit beside what is held there already"));
                }
            }
        }
    }
}

fn wants<'h>(held: &'h [Held<'h>]) -> Vec<room::Want<'h>> {
    let replicas = |h: &'h Held<'h>| h.replicas.iter().map(|(m, n)| (m.as_ref(), *n)).collect();
    held.iter().map(|h| room::Want { component: h.component, replicas: replicas(h) }).collect()
}

/// Those with most devices, then most cores, first: the small ones fill the gaps.
fn largest_first<'a>(held: &[Held<'a>]) -> Vec<Held<'a>> {
    let mut sorted = held.to_vec();
    let devices = |c: &Component| c.need.accelerators.as_ref().map_or(0, |a| a.count.unwrap_or(1));
    sorted.sort_by_key(|h| {
        let need = &h.component.need;
        std::cmp::Reverse((devices(h.component), need.cpu, need.memory))
    });
    sorted
}
