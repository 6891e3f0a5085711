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
            if let Some(left) = left {
                self.left.sites[site].nodes = left;
            } else {
                held.truncate(held.len() - more.len());
                found.add("nodes", format!("the replicas at {name} do not fit beside what is held there already"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide;
    use rhumb_model::{FederationFile, Order};

    fn order(devices: u32) -> Order {
        let text = format!(
            "name: o-{devices}\nclass: training\ncomponents: [{{name: c, need: {{accelerators: {{count: {devices}}}}}, work: {{duration: 1h}}}}]\n\
             flows: [{{from: dataset/d, to: c, rate: 400Mbps}}]\n"
        );
        Order::read(&text).unwrap()
    }

    #[test]
    fn nodes_are_packed_anew_before_a_plan_is_called_wrong_and_links_are_not_taken_twice() {
        let file = "
currency: CNY
devices: {H100: {memory: 80GiB, fp16: 1}}
sites:
  - {name: a, prices: {H100: 1 CNY}, nodes: [{accelerators: {model: H100, count: 6}}, {accelerators: {model: H100, count: 4}}]}
  - {name: b}
links: [{id: ba, from: b, to: a, capacity: 1200Mbps, latency: 1ms}]
datasets: [{name: d, size: 1GB, at: [b]}]
";
        let view = View::from_file(&FederationFile::read(file).unwrap()).unwrap();
        let policy = Policy::default();
        let orders = [order(3), order(3), order(4), order(1)];
        let submit = "2026-12-01T00:00:00Z".parse().unwrap();
        let mut sequence = Sequence::new(&view);
        let mut found = Vec::new();
        for order in &orders {
            let request = Request::new(order, submit);
            let decision = decide(&view, &request, &policy);
            found.push(sequence.check(decision.plan().unwrap(), &request, &policy));
        }
        // one after the other the threes stand on both nodes; together they leave room for the four
        assert!(found[..3].iter().all(Vec::is_empty), "{found:?}");
        let mut names: Vec<_> = found[3].iter().map(|v| v.invariant).collect();
        // the link is named for each phase
        names.dedup();
        assert_eq!(names, ["nodes", "link_capacity"], "{:?}", found[3]);
    }
}
