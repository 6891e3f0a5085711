//! Changes of the federation: what a site holds, what it is, and one link.

mod link;
mod node;

use super::{Found, Trial, found, whole};
use crate::{
    inquest::Inquest,
    network::Network,
    problem::{Problem, Relax},
    room,
    stand::{self, Stand},
};
use rhumb_federation::{FreeNodes, View};
use rhumb_model::{ModelName, state::SiteState};

pub(super) fn changes(trial: &Trial, all: &mut Vec<Found>) {
    node::changes(trial, all);
    link::changes(trial, all);
    all.extend(state(trial));
}

/// Sites that are tried for one kind of change.
const SITES: usize = 12;

impl Trial<'_> {
    /// The base question, where one site has these nodes and takes work.
    fn with_nodes(&self, site: usize, nodes: &[FreeNodes]) -> Problem<'_> {
        let base = self.base();
        let at = &base.view.sites[site];
        let mut problem = base.variant(self.order(), Relax::default(), |index, component| {
            let mut stands = base.parts[index].stands.clone();
            let place = stands.partition_point(|s| s.site < site);
            stands.retain(|s| s.site != site);
            if stand::rule(at, &self.order().constraints).is_none() {
                let limit = component.replicas.max.max(1);
                let room = |model: Option<&ModelName>| room::most(component, model, nodes, limit);
                let mut here: Vec<Stand> = Vec::new();
                stand::at(base.view, base.request, component, site, room, &mut here);
                stands.splice(place..place, here);
            }
            Some(stands)
        });
        problem.what_if.nodes = Some((site, nodes.into()));
        problem
    }

    /// The total of the cheapest plan on another view.
    fn on(&self, view: &View) -> Option<i64> {
        let net = Network::new(view);
        let base = self.base();
        let problem = Problem::new(view, &net, base.request, base.policy, Relax::default()).ok()?;
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
    let allowed = away.filter(|(_, s)| stand::rule(s, constraints).is_none() && !s.nodes.is_empty());
    let ways = allowed.take(SITES).filter_map(|(index, s)| {
        let total = if s.site.state == SiteState::Draining {
            let problem = trial.with_nodes(index, &s.nodes);
            trial.solve(problem, &trial.inquest.reach, false, |_, s| s.terms.total)
        } else {
            // what is stored there can be read again too
            let mut view = view.clone();
            view.sites[index].site.state = SiteState::Ready;
            trial.on(&view)
        };
        Some(found(whole(), format!("/sites/{}/state", s.site.name), s.site.state, SiteState::Ready, total?))
    });
    ways.min_by_key(|f| f.change.cost_micros)
}
