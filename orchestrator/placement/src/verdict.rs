//! Of every site: chosen, dearer by how much, or refused and why.

use crate::{
    decision::Decision,
    inquest::Inquest,
    problem::{Problem, Relax},
    refusal::{self, Question},
    search::{self, Aim},
    sieve,
};
use rhumb_model::{Cost, Plan, Reason, ReasonKind, Verdict, refusal::VerdictKind};
use std::collections::BTreeSet;

/// Nodes of the search for one site's cheapest plan; where they do not suffice, the difference is given as a bound.
const NODES: u64 = 5_000;

/// Sites that no fact shuts out of a refused order, for each of which a search is worth its time. Of any further ones the
/// order's own first reason is given: it is true of them all.
const SEARCHED: usize = 8;

/// Sites whose fact is one of several rules on paths, for each of which searches tell the right one. Of any further ones
/// the first is named that each flow by itself finds in its way.
const DOUBTED: usize = 8;

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
    let (mut searches, mut doubts) = (SEARCHED, DOUBTED);
    let mut list = Vec::with_capacity(view.sites.len());
    for (index, site) in view.sites.iter().enumerate() {
        let fact = inquest.fact(index).map(|fact| sure(inquest, index, &fact, &mut doubts).unwrap_or(fact));
        let reason = fact.or_else(|| elsewhere(inquest, index)).or_else(|| {
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

/// Where two flows are in each other's way: the first rule that is enough to leave aside, if it is another than the fact's.
fn sure(inquest: &Inquest, site: usize, fact: &Reason, doubts: &mut usize) -> Option<Reason> {
    if *doubts == 0 {
        return None;
    }
    let mut others = inquest.others(fact, site).peekable();
    // where only one may be enough it is the one, or none is
    others.peek()?;
    *doubts -= 1;
    if refusal::is_enough(inquest, site, fact.reason) {
        return None;
    }
    others.find(|other| refusal::is_enough(inquest, site, other.reason))
}

/// Some component can stand here, but another nowhere, or not often enough: why that one not here either.
fn elsewhere(inquest: &Inquest, site: usize) -> Option<Reason> {
    let problem = inquest.base;
    if let Some((part, room)) = refusal::short(problem).filter(|(part, _)| problem.parts[*part].stands_somewhere()) {
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
    let mut open: Vec<usize> = Vec::new();
    let mut doubts = DOUBTED;
    let mut list = Vec::with_capacity(view.sites.len());
    for (index, site) in view.sites.iter().enumerate() {
        let name = &site.site.name;
        list.push(if chosen.contains(name) {
            Verdict { delta_micros: Some(0), ..verdict(name, VerdictKind::Chosen, None) }
        } else {
            let fact = inquest.fact(index).map(|fact| sure(inquest, index, &fact, &mut doubts).unwrap_or(fact));
            open.extend(fact.is_none().then_some(index));
            verdict(name, VerdictKind::Refused, fact)
        });
    }
    // the nearest first, while the nodes last
    let compute = least_compute(inquest);
    open.sort_by_key(|site| (compute[*site], *site));
    let mut dearer = Dearer::new(inquest, plan);
    for site in open {
        let name = &view.sites[site].site.name;
        list[site] = match dearer.at(site) {
            Answer::Costs(delta) => {
                let total = Some(delta.total_micros);
                Verdict { delta_micros: total, delta: Some(delta), ..verdict(name, VerdictKind::Dearer, None) }
            }
            Answer::NoPlan { complete } => {
                let reason = joint(inquest, site, complete).map(|r| Reason { site: Some(name.clone()), ..r });
                verdict(name, VerdictKind::Refused, reason)
            }
            Answer::AtLeast => {
                let bound = compute[site].and_then(|c| i64::try_from(c).ok()).unwrap_or(0);
                let more = (bound - plan.cost.total_micros).max(0);
                Verdict { delta_micros: Some(more), at_least: true, ..verdict(name, VerdictKind::Dearer, None) }
            }
        };
    }
    list
}

/// By site: what the compute of any plan that uses it costs at the least, in micro-units.
fn least_compute(inquest: &Inquest) -> Vec<Option<i128>> {
    let by_part = sieve::bills(inquest.base);
    let of = |site: usize| by_part.iter().filter_map(|bills| bills[site]).min();
    (0..inquest.base.view.sites.len()).map(of).collect()
}

enum Answer {
    /// The cheapest plan that uses the site, less the plan chosen.
    Costs(Cost),
    NoPlan {
        complete: bool,
    },
    /// Not searched for.
    AtLeast,
}

/// Searches for the cheapest plan that uses a site, as long as their nodes last.
struct Dearer<'d> {
    plan: &'d Plan,
    /// The question on the sites that can be in a plan at all.
    sieved: Option<Problem<'d>>,
    /// A site is no reason for more replicas.
    totals: Vec<u32>,
    left: u64,
    searches: u32,
}

/// Searches of more than one stand, at most.
const FORCED: u32 = 64;

impl<'d> Dearer<'d> {
    fn new(inquest: &'d Inquest<'d, 'd>, plan: &'d Plan) -> Self {
        let totals = plan.components.iter().map(|c| c.assignments.iter().map(|a| a.replicas).sum()).collect();
        let sieved = inquest.relaxed(Relax::default());
        Self { plan, sieved, totals, left: inquest.base.policy.node_budget, searches: FORCED }
    }

    fn at(&mut self, site: usize) -> Answer {
        let Some(problem) = &self.sieved else { return Answer::NoPlan { complete: true } };
        if !problem.parts.iter().any(|p| p.open().any(|(s, _)| s.site == site)) {
            return Answer::NoPlan { complete: true };
        }
        let nodes = Some(NODES.min(self.left));
        let alone = self.totals == [1];
        if self.left == 0 || (!alone && self.searches == 0) {
            return Answer::AtLeast;
        }
        let totals = Some(self.totals.as_slice());
        let forced = if alone {
            let order = problem.request.order;
            let here = problem.variant(order, Relax::default(), |request, part| {
                problem.parts[part].again(request, part).only(|s| s == site)
            });
            search::search(&here, Aim { totals, nodes, ..Aim::default() })
        } else {
            self.searches -= 1;
            search::search(problem, Aim { force: Some(site), totals, nodes, ..Aim::default() })
        };
        self.left = self.left.saturating_sub(forced.opened);
        match &forced.solution {
            Some(solution) if forced.complete => Answer::Costs(delta(self.plan, &solution.terms)),
            // what was found may not be the cheapest
            Some(_) => Answer::AtLeast,
            None => Answer::NoPlan { complete: forced.complete },
        }
    }
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
