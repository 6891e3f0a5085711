//! Changes of the federation: what a site holds, what it is, and one link.

mod later;
mod link;
mod node;

use super::{Found, Trial, found, whole};
use crate::{
    booking,
    inquest::Inquest,
    network::Network,
    problem::{Problem, Relax},
    stand,
};
use jiff::Timestamp;
use rhumb_federation::{FreeNodes, View};
use rhumb_model::state::SiteState;
use std::collections::BTreeMap;

pub(super) fn changes(trial: &Trial, all: &mut Vec<Found>) {
    let bonds = trial.bonds();
    if !bonds.beside_rules() {
        node::changes(trial, all);
    }
    if !bonds.beside_flows() {
        link::changes(trial, all);
    }
    all.extend(state(trial));
    all.extend(later::change(trial));
}

/// Sites that are tried for one kind of change.
const SITES: usize = 12;

impl Trial<'_> {
    /// The base question, where sites have these nodes free and take work.
    fn with_nodes(&self, sites: BTreeMap<usize, Vec<FreeNodes>>) -> Problem<'_> {
        let base = self.base();
        let constraints = &self.order().constraints;
        let open = |site: usize| stand::rule(base.view, &base.view.sites[site], constraints).is_none();
        let mut problem = base.variant(self.order(), Relax::default(), |request, index| {
            base.parts[index].again(request, index).with_nodes(base.net, request, &sites, open)
        });
        problem.supposed = sites.into_iter().map(|(site, nodes)| (site, nodes.into())).collect();
        problem
    }

    /// The total of the cheapest plan on another view; where links are booked, in the order's own time.
    fn on(&self, view: &View, submit: Timestamp) -> Option<i64> {
        self.at_any_time(view, submit).or_else(|| {
            let own = view.during(booking::slots(view, self.order(), submit))?;
            self.at_any_time(&own, submit)
        })
    }

    fn at_any_time(&self, view: &View, submit: Timestamp) -> Option<i64> {
        let net = Network::new(view);
        let base = self.base();
        let request = crate::Request { submit, ..base.request };
        let problem = Problem::new(view, &net, request, base.policy, Relax::default()).ok()?;
        let inquest = Inquest::new(&problem);
        let trial = Trial::new(&inquest);
        self.left.set(self.left.get().checked_sub(1)?);
        trial.read(self.order(), super::Scope::Flows, false, |_, s| s.terms.total)
    }
}

/// A site that takes no work, or was not heard of, does again.
fn state(trial: &Trial) -> Option<Found> {
    let view = trial.view();
    let constraints = &trial.order().constraints;
    let away = view.sites.iter().enumerate().filter(|(_, s)| s.site.state != SiteState::Ready);
    let allowed = away.filter(|(_, s)| stand::rule(view, s, constraints).is_none() && !s.nodes.is_empty());
    let ways = allowed.take(SITES).filter_map(|(index, s)| {
        let total = if s.site.state == SiteState::Draining {
            let problem = trial.with_nodes([(index, s.nodes.clone())].into());
            trial.solve(problem, &trial.inquest.reach, false, |_, s| s.terms.total)
        } else {
            // what is stored there can be read again too
            let mut view = view.clone();
            view.sites[index].site.state = SiteState::Ready;
            trial.on(&view, trial.base().request.submit)
        };
        Some(found(whole(), format!("/sites/{}/state", s.site.name), s.site.state, SiteState::Ready, total?))
    });
    ways.min_by_key(|f| f.change.cost_micros)
}
