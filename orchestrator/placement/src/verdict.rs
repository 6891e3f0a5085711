//! Of every site: chosen, dearer by how much, or refused and why.

use crate::{
    decision::Decision,
    network::Network,
    policy::{Policy, Request},
    problem::{Problem, Relax},
    refusal::{self, Question, Relaxed},
    search::{self, Aim},
    stand,
};
use rhumb_federation::View;
use rhumb_model::{Cost, Plan, Reason, Verdict, refusal::VerdictKind};

/// Nodes of the search for one site's cheapest plan: beyond them the difference given is the least that was found.
const NODES: u64 = 5_000;

pub(crate) fn verdicts(
    view: &View,
    net: &Network,
    request: &Request,
    policy: &Policy,
    decision: &Decision,
) -> Vec<Verdict> {
    let problem = Problem::new(view, net, *request, policy, Relax::default());
    let relaxed = problem.as_ref().ok().map(Relaxed::new);
    let plan = decision.plan();
    // a site is no reason for more replicas
    let totals: Option<Vec<u32>> =
        plan.map(|p| p.components.iter().map(|c| c.assignments.iter().map(|a| a.replicas).sum()).collect());
    let verdict = |site: usize| -> Verdict {
        let name = view.sites[site].site.name.clone();
        let of = |verdict, reason| Verdict { site: name.clone(), verdict, delta_micros: None, reason, delta: None };
        if plan.is_some_and(|p| p.components.iter().flat_map(|c| &c.assignments).any(|a| a.site == name)) {
            return Verdict { delta_micros: Some(0), ..of(VerdictKind::Chosen, None) };
        }
        let (Ok(problem), Some(relaxed)) = (&problem, &relaxed) else {
            let reason = decision.outcome.as_ref().err().and_then(|r| r.first().cloned());
            return of(VerdictKind::Refused, reason);
        };
        if let Some(reason) = by_itself(view, request, site) {
            return of(VerdictKind::Refused, Some(reason));
        }
        let aim = Aim { force: Some(site), totals: totals.as_deref(), any: plan.is_none(), nodes: Some(NODES) };
        let forced = search::search(problem, aim);
        if let (Some(plan), Some(solution)) = (plan, &forced.solution) {
            let delta = delta(plan, &solution.terms);
            return Verdict {
                delta_micros: Some(delta.total_micros),
                delta: Some(delta),
                ..of(VerdictKind::Dearer, None)
            };
        }
        let question = Question { base: problem, relaxed, force: Some(site) };
        let mut reason = refusal::reasons(&question, forced.complete).into_iter().next();
        if let Some(reason) = &mut reason {
            reason.site = Some(name.clone());
        }
        of(VerdictKind::Refused, reason)
    };
    (0..view.sites.len()).map(verdict).collect()
}

/// Why no component can stand at the site, whatever the rest: of the component that comes nearest.
fn by_itself(view: &View, request: &Request, site: usize) -> Option<Reason> {
    let mut reasons = Vec::new();
    for component in &request.order.components {
        reasons.push(stand::why_not(view, *request, component, site)?);
    }
    reasons.into_iter().min_by_key(|r| (u8::MAX - refusal::stage(r.reason), r.reason))
}

/// What another plan costs more, by term.
fn delta(plan: &Plan, other: &crate::cost::Terms) -> Cost {
    let this = &plan.cost;
    Cost {
        total_micros: other.total - this.total_micros,
        compute_micros: other.compute - this.compute_micros,
        path_micros: other.path - this.path_micros,
        transfer_micros: other.transfer - this.transfer_micros,
        time_micros: other.time - this.time_micros,
        lateness_micros: other.lateness - this.lateness_micros,
        fragmentation_micros: other.fragmentation - this.fragmentation_micros,
        currency: this.currency,
    }
}
