//! `place`: one order, one view, one answer.

use crate::{
    answer, counterfactual,
    inquest::Inquest,
    network::Network,
    policy::{Policy, Request},
    problem::{Problem, Relax},
    refusal::{self, Question},
    room, search, verdict,
};
use rhumb_federation::View;
use rhumb_model::{Change, Order, Plan, Reason, ReasonKind, Refusal, Verdict, quantity::Bandwidth, state::SiteState};

/// What a decision says: the plan or the reasons, and of every site why it was or was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Reasons come earliest in precedence first.
    pub outcome: Result<Plan, Vec<Reason>>,
    /// Of each site, in order of name; empty where only the decision was asked for.
    pub sites: Vec<Verdict>,
    /// Smallest relative change first; empty where there is a plan, or only the decision was asked for.
    pub would_fit_if: Vec<Change>,
    pub stats: Stats,
}

/// How much work the search did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    pub nodes: u64,
    /// The budget of nodes was enough to leave nothing unexplored.
    pub complete: bool,
}

impl Decision {
    pub fn plan(&self) -> Option<&Plan> {
        self.outcome.as_ref().ok()
    }

    pub fn refusal(&self) -> Option<Refusal> {
        let reasons = self.outcome.as_ref().err()?.clone();
        Some(Refusal { reasons, would_fit_if: self.would_fit_if.clone(), sites: self.sites.clone() })
    }
}

/// Decides and explains.
pub fn place(view: &View, request: &Request, policy: &Policy) -> Decision {
    explain(view, request, policy, decide(view, request, policy))
}

/// The decision alone, without what it says of every site and of what would help.
pub fn decide(view: &View, request: &Request, policy: &Policy) -> Decision {
    decide_on(view, &Network::new(view), request, policy)
}

pub(crate) fn decide_on(view: &View, net: &Network, request: &Request, policy: &Policy) -> Decision {
    let answer = |outcome, stats| Decision { outcome, sites: Vec::new(), would_fit_if: Vec::new(), stats };
    let problem = match Problem::new(view, net, *request, policy, Relax::default()) {
        Ok(problem) => problem,
        Err(mut wrong) => {
            refusal::sort(&mut wrong);
            return answer(Err(wrong), Stats { nodes: 0, complete: true });
        }
    };
    let outcome = search::search(&problem, search::Aim::default());
    let stats = Stats { nodes: outcome.opened, complete: outcome.complete };
    if let Some(plan) = answer::plan(&problem, &outcome) {
        return answer(Ok(plan), stats);
    }
    let inquest = Inquest::new(&problem);
    let question = Question { inquest: &inquest, force: None };
    answer(Err(refusal::reasons(&question, outcome.complete)), stats)
}

/// Adds what the decision says of every site, and for a refusal what would make the order fit.
pub fn explain(view: &View, request: &Request, policy: &Policy, decision: Decision) -> Decision {
    let net = Network::new(view);
    let Ok(problem) = Problem::new(view, &net, *request, policy, Relax::default()) else {
        return Decision { sites: verdict::all_refused(view, &decision), ..decision };
    };
    explain_on(&Inquest::new(&problem), decision)
}

pub(crate) fn explain_on(inquest: &Inquest, decision: Decision) -> Decision {
    let sites = verdict::verdicts(inquest, &decision);
    let would_fit_if = match &decision.outcome {
        Ok(_) => Vec::new(),
        Err(_) => counterfactual::changes(inquest),
    };
    Decision { sites, would_fit_if, ..decision }
}

/// Whether the order could not be placed even if nothing else were: such an order is rejected, any other waits.
pub fn never_fits(view: &View, request: &Request, policy: &Policy) -> bool {
    match decide(&emptied(view), request, policy).outcome {
        Ok(_) => false,
        // what a site that never reported could hold is not known
        Err(_) if view.sites.iter().any(|s| s.site.state == SiteState::NeverSeen) => false,
        // a search that ended early has proved nothing
        Err(reasons) => reasons.iter().all(|r| r.reason != ReasonKind::SearchLimit),
    }
}

/// The view as it would be with nothing taken, every site ready, every figure fresh, and no link slower than it is meant
/// to be: what is slow now may be quick later.
fn emptied(view: &View) -> View {
    let mut empty = view.clone();
    for site in &mut empty.sites {
        site.nodes.clone_from(&site.whole);
        site.site.state = SiteState::Ready;
    }
    for link in empty.graph.edge_weights_mut() {
        link.free = link.capacity;
        link.stale = false;
        link.latency = link.latency.min(link.link.latency);
    }
    empty
}

/// A plan asks for more than the view has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("the plan names {kind} {name}, which the view does not have: decide again on this view")]
    Unknown { kind: &'static str, name: String },
    #[error("the plan does not fit the nodes free at {0}: decide again on this view")]
    Nodes(String),
    #[error("the plan asks {needed} of link {link}, which has {free} free: decide again on this view")]
    Link { link: String, needed: Bandwidth, free: Bandwidth },
}

/// The view less what the plan takes: devices while it runs, and on each link the most it holds in any phase.
pub fn apply(view: &View, plan: &Plan, order: &Order) -> Result<View, ApplyError> {
    let mut next = view.clone();
    for index in 0..next.sites.len() {
        let name = next.sites[index].site.name.clone();
        let mut wants = Vec::new();
        for placed in &plan.components {
            let here: Vec<_> =
                placed.assignments.iter().filter(|a| a.site == name).map(|a| (a.model.as_ref(), a.replicas)).collect();
            if here.is_empty() {
                continue;
            }
            let component = order
                .component(&placed.name)
                .ok_or_else(|| ApplyError::Unknown { kind: "component", name: placed.name.to_string() })?;
            wants.push(room::Want { component, replicas: here });
        }
        if !wants.is_empty() {
            let left =
                room::pack(&next.sites[index].nodes, &wants).ok_or_else(|| ApplyError::Nodes(name.to_string()))?;
            next.sites[index].nodes = left;
        }
    }
    for assignment in plan.components.iter().flat_map(|c| &c.assignments) {
        if !view.sites.iter().any(|s| s.site.name == assignment.site) {
            return Err(ApplyError::Unknown { kind: "site", name: assignment.site.to_string() });
        }
    }
    for (id, needed) in held(plan, order) {
        let unknown = || ApplyError::Unknown { kind: "link", name: id.to_string() };
        let link = view.links.get(&id).and_then(|e| next.graph.edge_weight_mut(*e)).ok_or_else(unknown)?;
        link.free = link.free.checked_sub(needed).ok_or_else(|| ApplyError::Link {
            link: id.to_string(),
            needed,
            free: link.free,
        })?;
    }
    Ok(next)
}

/// The most that a plan holds on each link in any of its three phases.
pub fn held(plan: &Plan, order: &Order) -> std::collections::BTreeMap<rhumb_model::LinkId, Bandwidth> {
    use rhumb_model::order::End;
    // (inbound, run, outbound)
    let mut loads: std::collections::BTreeMap<&rhumb_model::LinkId, (u64, u64, u64)> =
        std::collections::BTreeMap::new();
    for leg in &plan.flows {
        let flow = order.flows.get(leg.flow as usize);
        for id in &leg.path {
            let load = loads.entry(id).or_default();
            let sum = match flow {
                Some(f) if leg.volume_bytes > 0 && matches!(f.to, End::Component(_)) => &mut load.0,
                Some(_) if leg.volume_bytes > 0 => &mut load.2,
                _ => &mut load.1,
            };
            *sum = sum.saturating_add(leg.rate_kbps);
        }
    }
    loads.into_iter().map(|(id, (i, r, o))| (id.clone(), Bandwidth::from_kbps(i.max(r.saturating_add(o))))).collect()
}
