//! A second, dumber checker: every rule of a plan again, from the order, the view and the plan alone.
//!
//! It shares no code with the search but the fit of replicas to nodes, which all of the project shares.

mod legs;
mod lost;
mod sequence;
mod several;
mod terms;

pub use sequence::Sequence;

use crate::{
    policy::{Policy, Request},
    room,
};
use rhumb_federation::{View, ViewSite};
use rhumb_model::{
    Order, Plan,
    order::{Component, Interconnect, Spread},
    ratio::Ratio,
    state::SiteState,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What a plan breaks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Violation {
    pub invariant: &'static str,
    pub detail: String,
}

/// Everything that is wrong with `plan` as an answer to `request` on `view`; empty: nothing.
pub fn audit(plan: &Plan, request: &Request, view: &View, policy: &Policy) -> Vec<Violation> {
    let mut found = Found::default();
    components(&mut found, plan, request, view);
    nodes(&mut found, plan, request.order, view);
    if found.0.is_empty() {
        beyond_nodes(&mut found, plan, request, view, policy);
    }
    certificate(&mut found, plan);
    found.0
}

/// Legs, and the terms of a plan whose legs are right.
fn beyond_nodes<'p>(
    found: &mut Found,
    plan: &'p Plan,
    request: &Request,
    view: &View,
    policy: &Policy,
) -> Vec<legs::Carried<'p>> {
    let before = found.0.len();
    let carried = legs::check(found, plan, request, view, policy);
    // a full link makes no cost wrong
    if found.0[before..].iter().all(|v| v.invariant == "link_capacity") {
        terms::check(found, plan, request, view, policy, &carried);
    }
    carried
}

#[derive(Debug, Default)]
struct Found(Vec<Violation>);

impl Found {
    fn add(&mut self, invariant: &'static str, detail: impl Into<String>) {
        self.0.push(Violation { invariant, detail: detail.into() });
    }

    fn check(&mut self, holds: bool, invariant: &'static str, detail: impl FnOnce() -> String) {
        if !holds {
            self.add(invariant, detail());
        }
    }
}

fn site<'v>(view: &'v View, name: &rhumb_model::SiteName) -> Option<&'v ViewSite> {
    view.site(name)
}

/// Replicas of a component by site.
fn by_site(plan: &Plan, index: usize) -> BTreeMap<&rhumb_model::SiteName, u32> {
    let mut sites = BTreeMap::new();
    for a in &plan.components[index].assignments {
        *sites.entry(&a.site).or_insert(0) += a.replicas;
    }
    sites
}

fn components(found: &mut Found, plan: &Plan, request: &Request, view: &View) {
    let order = request.order;
    let names = |p: &Plan| p.components.iter().map(|c| c.name.clone()).collect::<Vec<_>>();
    let wanted: Vec<_> = order.components.iter().map(|c| c.name.clone()).collect();
    if names(plan) != wanted {
        found.add("components", format!("planned {:?}, ordered {wanted:?}", names(plan)));
        return;
    }
    let mut used = BTreeSet::new();
    for (index, (placed, component)) in plan.components.iter().zip(&order.components).enumerate() {
        let name = &component.name;
        let mut seen = BTreeSet::new();
        let mut replicas = 0_u32;
        for a in &placed.assignments {
            found.check(seen.insert((&a.site, &a.model)), "assignments", || format!("{name}: {} twice", a.site));
            found.check(a.replicas > 0, "assignments", || format!("{name}: no replicas at {}", a.site));
            replicas += a.replicas;
            used.insert(&a.site);
            match site(view, &a.site) {
                None => found.add("sites", format!("{name}: {} is unknown", a.site)),
                Some(s) => {
                    allowed(found, order, s);
                    found.check(!view.avoid.contains(&a.site), "sites", || format!("{} is to be avoided", a.site));
                    device(found, view, component, s, a);
                }
            }
        }
        let demand: u64 = order
            .flows
            .iter()
            .filter(|f| f.to == rhumb_model::order::End::Component(name.clone()))
            .filter_map(|f| f.demand.map(rhumb_model::Demand::millirps))
            .sum();
        let served = component.service.as_ref().map_or(0, |s| demand.div_ceil(s.serves.millirps().max(1)));
        let fewest = u64::from(component.replicas.min).max(served);
        found.check((fewest..=u64::from(component.replicas.max)).contains(&u64::from(replicas)), "replicas", || {
            format!("{name}: {replicas} of {fewest} to {}", component.replicas.max)
        });
        let sites = by_site(plan, index);
        let interconnect = component.need.accelerators.as_ref().map(|a| a.interconnect);
        let one = matches!(interconnect, Some(Interconnect::Site | Interconnect::Rack | Interconnect::NvlDomain));
        found.check(!one || sites.len() == 1, "interconnect", || format!("{name} stands on {} sites", sites.len()));
        let spread = component.place.spread == Some(Spread::Site);
        found.check(!spread || sites.values().all(|n| *n == 1), "spread", || {
            format!("{name}: two replicas on one site")
        });
        for other in &component.place.colocate {
            let at = order.components.iter().position(|c| &c.name == other);
            let same = at.is_some_and(|at| by_site(plan, at).keys().eq(sites.keys()));
            found.check(same, "colocate", || format!("{name} and {other} stand on different sites"));
        }
    }
    let most = order.constraints.max_sites;
    found.check(most.is_none_or(|m| used.len() <= m as usize), "max_sites", || format!("{} sites used", used.len()));
}

fn allowed(found: &mut Found, order: &Order, s: &ViewSite) {
    let c = &order.constraints;
    let name = &s.site.name;
    found.check(s.site.state == SiteState::Ready, "site_state", || format!("{name} is {}", s.site.state));
    let named = (c.sites.is_empty() || c.sites.contains(name)) && !c.not_sites.contains(name);
    found.check(named, "sites", || format!("{name} is not allowed"));
    let inside =
        c.jurisdictions.is_empty() || s.site.jurisdiction.as_ref().is_some_and(|j| c.jurisdictions.contains(j));
    found.check(inside, "jurisdiction", || format!("{name} is outside"));
    found.check(c.labels.iter().all(|l| s.site.labels.contains(l)), "labels", || format!("{name} lacks a label"));
}

fn device(found: &mut Found, view: &View, component: &Component, s: &ViewSite, a: &rhumb_model::plan::SiteAssignment) {
    let (name, at) = (&component.name, &s.site.name);
    let Some(asked) = &component.need.accelerators else {
        found.check(a.model.is_none() && a.devices_per_replica == 0, "devices", || format!("{name}: devices at {at}"));
        return;
    };
    let Some(model) = &a.model else {
        found.add("devices", format!("{name}: no model at {at}"));
        return;
    };
    let devices = if asked.share.is_some() { 1 } else { asked.count.unwrap_or(1) };
    found.check(a.devices_per_replica == devices, "devices", || {
        format!("{name}: {} devices at {at}", a.devices_per_replica)
    });
    found
        .check(asked.models.is_empty() || asked.models.contains(model), "model", || format!("{name}: {model} at {at}"));
    found.check(s.site.prices.devices.contains_key(model), "price", || format!("{model} is not for sale at {at}"));
    let rated = view.devices.get(model).is_some_and(|d| d.rates.contains_key(&asked.precision));
    found.check(rated, "precision", || format!("{model} has no rate at {}", asked.precision));
}

/// All components of a site together fit its nodes.
fn nodes(found: &mut Found, plan: &Plan, order: &Order, view: &View) {
    for s in &view.sites {
        let mut wants = Vec::new();
        for (placed, component) in plan.components.iter().zip(&order.components) {
            let here: Vec<_> = placed
                .assignments
                .iter()
                .filter(|a| a.site == s.site.name)
                .map(|a| (a.model.as_ref(), a.replicas))
                .collect();
            if !here.is_empty() {
                wants.push(room::Want { component, replicas: here });
            }
        }
        let fits = wants.is_empty() || room::pack(&s.nodes, &wants).is_some();
        found.check(fits, "nodes", || format!("the replicas at {} do not fit its nodes", s.site.name));
    }
}

fn certificate(found: &mut Found, plan: &Plan) {
    let total = plan.cost.total_micros;
    let bound = plan.lower_bound_micros;
    found.check(bound <= total, "lower_bound", || format!("{bound} is above the total {total}"));
    let gap = Ratio::from_integer(i128::from(total - bound)) * Ratio::from_integer(1_000_000);
    let expected = if total > 0 { (gap / Ratio::from_integer(i128::from(total))).ceil().to_integer() } else { 0 };
    found.check(i128::from(plan.gap_ppm) == expected, "gap", || format!("{} ppm, not {expected}", plan.gap_ppm));
    found.check(plan.proven_optimal == (plan.gap_ppm == 0), "gap", || {
        "proven_optimal does not match the gap".to_owned()
    });
}
