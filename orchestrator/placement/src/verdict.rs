//! Of every site: chosen, dearer by how much, or refused and why.

use crate::{
    decision::Decision,
    inquest::Inquest,
    refusal::{self, Question},
    search::{self, Aim},
    sieve::Kept,
};
use rhumb_model::{Cost, Plan, Reason, ReasonKind, Verdict, refusal::VerdictKind};
use std::collections::BTreeSet;

/// Nodes of the search for one site's cheapest plan: beyond them the difference given is the least that was found.
const NODES: u64 = 5_000;

/// Sites that no fact shuts out of a refused order, for each of which a search is worth its time. Of any further ones the
/// order's own first reason is given: it is true of them all.
const SEARCHED: usize = 8;

pub(crate) fn verdicts(inquest: &Inquest, decision: &Decision) -> Vec<Verdict> {
    match &decision.outcome {
        Ok(plan) => planned(inquest, plan),
        Err(reasons) => refused(inquest, reasons),
    }
}

/// What is said of every site where the question itself is at fault.
pub(crate) fn all_refused(view: &rhumb_federation::View, decision: &Decision) -> Vec<Verdict> {
    let reason = decision.outcome.as_ref().err().and_then(|r| r.first());
    let of = |s: &rhumb_federation::ViewSite| verdict(&s.site.name, VerdictKind::Refused, reason.cloned());
    view.sites.iter().map(of).collect()
}

fn verdict(site: &rhumb_model::SiteName, verdict: VerdictKind, reason: Option<Reason>) -> Verdict {
    Verdict { site: site.clone(), verdict, delta_micros: None, reason, delta: None, at_least: false }
}

fn refused(inquest: &Inquest, reasons: &[Reason]) -> Vec<Verdict> {
    let view = inquest.base.view;
    let mut searches = SEARCHED;
    let mut list = Vec::with_capacity(view.sites.len());
    for (index, site) in view.sites.iter().enumerate() {
        let reason = inquest.fact(index).or_else(|| elsewhere(inquest, index)).or_else(|| {
            searches = searches.checked_sub(1)?;
            joint(inquest, index, true)
        });
        let reason = reason.or_else(|| reasons.first().cloned());
        let at = |mut r: Reason| {
            r.site = Some(site.site.name.clone());
            r
        };
        list.push(verdict(&site.site.name, VerdictKind::Refused, reason.map(at)));
    }
    list
}

/// Some component can stand here, but another nowhere, or not often enough: why that one not here either.
fn elsewhere(inquest: &Inquest, site: usize) -> Option<Reason> {
    let problem = inquest.base;
    if let Some((part, room)) = refusal::short(problem).filter(|(part, _)| !problem.parts[*part].stands.is_empty()) {
        let of = &problem.parts[part];
        return Some(Reason {
            reason: ReasonKind::Capacity,
            component: Some(of.component.name.clone()),
            flow: None,
            site: None,
            needed: format!("{} replicas", of.fewest),
            free: format!("room for {room} at all sites"),
        });
    }
    let lacking = (0..problem.parts.len()).find(|part| inquest.nowhere(*part))?;
    inquest.fact_of(lacking, site)
}

/// Why no plan uses the site although no fact of its own shuts it out.
fn joint(inquest: &Inquest, site: usize, complete: bool) -> Option<Reason> {
    let question = Question { inquest, force: Some(site) };
    refusal::reasons(&question, complete).into_iter().next()
}

fn planned(inquest: &Inquest, plan: &Plan) -> Vec<Verdict> {
    let view = inquest.base.view;
    let chosen: BTreeSet<_> = plan.components.iter().flat_map(|c| &c.assignments).map(|a| &a.site).collect();
    // a site is no reason for more replicas
    let totals: Vec<u32> = plan.components.iter().map(|c| c.assignments.iter().map(|a| a.replicas).sum()).collect();
    let kept: Option<&Kept> = inquest.kept();
    let left = |site: usize| kept.is_some_and(|kept| kept.iter().any(|sites| sites[site]));
    let of = |(index, site): (usize, &rhumb_federation::ViewSite)| -> Verdict {
        let name = &site.site.name;
        if chosen.contains(name) {
            return Verdict { delta_micros: Some(0), ..verdict(name, VerdictKind::Chosen, None) };
        }
        let at = |reason: Option<Reason>| {
            let reason = reason.map(|r| Reason { site: Some(name.clone()), ..r });
            verdict(name, VerdictKind::Refused, reason)
        };
        if let Some(fact) = inquest.fact(index) {
            return at(Some(fact));
        }
        let mut complete = true;
        if left(index) {
            let aim = Aim { force: Some(index), totals: Some(&totals), any: false, nodes: Some(NODES) };
            let forced = search::search(inquest.base, aim);
            if let Some(solution) = &forced.solution {
                let delta = delta(plan, &solution.terms);
                let total = Some(delta.total_micros);
                return Verdict { delta_micros: total, delta: Some(delta), ..verdict(name, VerdictKind::Dearer, None) };
            }
            complete = forced.complete;
        }
        at(joint(inquest, index, complete))
    };
    view.sites.iter().enumerate().map(of).collect()
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
        fragmentation_micros: 0,
        currency: this.currency,
    }
}
