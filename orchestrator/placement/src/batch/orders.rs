//! Orders on a view as a market: a column is a plan, a room is the view less the plans taken.

use super::insertion::Market;
use crate::{
    booking::bookings,
    decision::{Decision, apply, decide},
    policy::{Policy, Request},
};
use rhumb_federation::View;
use rhumb_model::{LinkId, Plan, SiteName, ratio::whole_micros};
use std::{collections::BTreeSet, rc::Rc};

/// More than any batch costs: leaving out an order that names no value is worse than any price.
pub(crate) const UNDONE: i128 = 1 << 80;

/// What leaving the order undone costs, in micro-units; `None`: it names no value.
pub(crate) fn value(view: &View, request: &Request) -> Option<i128> {
    let amount = request.order.terms.value?;
    view.micros(amount).ok().map(|micros| i128::from(whole_micros(micros)))
}

/// Sites and links that a plan takes something of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    sites: BTreeSet<SiteName>,
    links: BTreeSet<LinkId>,
}

impl Footprint {
    fn new(plan: &Plan, request: &Request) -> Self {
        Self {
            sites: plan.components.iter().flat_map(|c| &c.assignments).map(|a| a.site.clone()).collect(),
            links: bookings(plan, request.order).into_iter().map(|b| b.link).collect(),
        }
    }

    fn meets(&self, other: &Self) -> bool {
        !self.sites.is_disjoint(&other.sites) || !self.links.is_disjoint(&other.links)
    }
}

/// A plan that fits, and what it stands on.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub plan: Rc<Plan>,
    footprint: Rc<Footprint>,
}

impl Placed {
    pub fn new(plan: Plan, request: &Request) -> Self {
        let footprint = Footprint::new(&plan, request).into();
        Self { plan: plan.into(), footprint }
    }
}

#[derive(Debug)]
pub(crate) struct Orders<'a> {
    view: &'a View,
    policy: &'a Policy,
    requests: Vec<Request<'a>>,
    without: Vec<i128>,
    /// What each would take on the view by itself.
    alone: Vec<Option<Footprint>>,
}

impl<'a> Orders<'a> {
    /// `alone`: what each order is answered on `view` or one that has more.
    pub fn new(view: &'a View, policy: &'a Policy, requests: Vec<Request<'a>>, alone: &[&Decision]) -> Self {
        let without = requests.iter().map(|r| value(view, r).unwrap_or(UNDONE)).collect();
        let alone = requests.iter().zip(alone).map(|(r, d)| d.plan().map(|p| Footprint::new(p, r))).collect();
        Self { view, policy, requests, without, alone }
    }

    fn decide(&self, room: &View, job: usize) -> Decision {
        decide(room, &self.requests[job], self.policy)
    }
}

impl Market for Orders<'_> {
    type Room = View;
    type Column = Placed;

    fn jobs(&self) -> usize {
        self.requests.len()
    }

    fn whole(&self) -> View {
        self.view.clone()
    }

    fn without(&self, job: usize) -> i128 {
        self.without[job]
    }

    fn cost(&self, column: &Placed) -> i128 {
        column.plan.cost.total_micros.into()
    }

    fn offers(&mut self, room: &View, job: usize) -> [Option<Placed>; 2] {
        let request = self.requests[job];
        let Ok(plan) = self.decide(room, job).outcome else { return [None, None] };
        let best = Placed::new(plan, &request);
        // the cheapest that stands on none of its sites
        let mut elsewhere = room.clone();
        for site in &mut elsewhere.sites {
            if best.footprint.sites.contains(&site.site.name) {
                site.nodes.clear();
            }
        }
        let other = self.decide(&elsewhere, job).outcome.ok().map(|p| Placed::new(p, &request));
        [Some(best), other]
    }

    fn fits(&self, room: &View, job: usize, column: &Placed) -> bool {
        apply(room, &column.plan, self.requests[job].order).is_ok()
    }

    fn take(&self, room: &mut View, job: usize, column: &Placed) -> bool {
        apply(room, &column.plan, self.requests[job].order).is_ok_and(|next| {
            *room = next;
            true
        })
    }

    fn meets(&self, one: &Placed, other: &Placed) -> bool {
        one.footprint.meets(&other.footprint)
    }

    fn contends(&self, job: usize, other: &Placed) -> bool {
        self.alone[job].as_ref().is_none_or(|alone| alone.meets(&other.footprint))
    }
}
