//! `place`: one order, one view, one answer.

use crate::{
    answer,
    booking::{self, Booking, bookings},
    counterfactual,
    inquest::Inquest,
    network::Network,
    policy::{Policy, Request},
    problem::{Problem, Relax},
    refusal::{self, Question},
    room::{self, Mix},
    search::{self, Aim},
    verdict,
};
use petgraph::graph::EdgeIndex;
use rhumb_federation::{FreeNodes, View, ViewLink};
use rhumb_model::{Change, Order, Plan, Reason, ReasonKind, Refusal, Verdict, quantity::Bandwidth, state::SiteState};
use std::{collections::BTreeMap, sync::Arc};

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
    decide_in_time(view, &Network::new(view), request, policy)
}

/// First on what is free of links for good; where that is not enough, on what is free while the order could need it.
pub(crate) fn decide_in_time(view: &View, net: &Network, request: &Request, policy: &Policy) -> Decision {
    let decision = decide_on(view, net, request, policy);
    match own_time(view, net, request, policy, &decision) {
        Some(own) => decide_on(&own, &Network::new(&own), request, policy),
        None => decision,
    }
}

/// For an order that a full link may have refused: the view in which what others have booked at other times than the
/// order's is free. `None`: that changes nothing.
fn own_time(view: &View, net: &Network, request: &Request, policy: &Policy, decision: &Decision) -> Option<View> {
    use ReasonKind as R;
    let by_links = |r: &Reason| {
        matches!(
            r.reason,
            R::Budget
                | R::PriceWindow
                | R::NoPath
                | R::Latency
                | R::Bandwidth
                | R::Encryption
                | R::Stale
                | R::Deadline
                | R::SearchLimit
        )
    };
    let refused = decision.outcome.as_ref().err()?;
    let booked = || view.graph.edge_weights().any(|l| !l.calendar.is_empty());
    if !refused.iter().any(by_links) || !booked() {
        return None;
    }
    let slots = booking::slots(view, request.order, request.submit);
    if view.graph.edge_weights().all(|l| l.calendar.is_within(slots)) {
        return None;
    }
    // what no link of any width would mend, no hour does
    let problem = Problem::new(view, net, *request, policy, Relax::default()).ok()?;
    if !refusal::may_fit_wider_links(&Inquest::new(&problem)) {
        return None;
    }
    view.during(slots)
}

/// Whether the plan takes more than what is free of links for good.
fn needs_own_time(view: &View, plan: &Plan, order: &Order) -> bool {
    let short = |b: &Booking| view.link(&b.link).is_some_and(|l| l.free < b.rate);
    bookings(plan, order).iter().any(short)
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
    let outcome = search::search(&problem, Aim { patience: Some(PATIENCE), ..Aim::default() });
    let mut stats = Stats { nodes: outcome.opened, complete: outcome.complete };
    if let Some(plan) = answer::plan(&problem, &outcome) {
        return answer(Ok(plan), stats);
    }
    let inquest = Inquest::new(&problem);
    if outcome.impatient {
        stats.complete = true;
        // most orders without a plan have a flow that no two sites, or too few, can carry
        if let Some(sieved) = inquest.relaxed(problem.relax) {
            let nodes = Some(policy.node_budget.saturating_sub(outcome.opened));
            let outcome = search::search(&sieved, Aim { nodes, ..Aim::default() });
            stats = Stats { nodes: stats.nodes + outcome.opened, complete: outcome.complete };
            if let Some(plan) = answer::plan(&sieved, &outcome) {
                return answer(Ok(plan), stats);
            }
        }
    }
    let question = Question { inquest: &inquest, force: None };
    answer(Err(refusal::reasons(&question, stats.complete)), stats)
}

/// Nodes without a plan after which the sites that no plan can use are told apart.
const PATIENCE: u64 = 100;

/// Adds what the decision says of every site, and for a refusal what would make the order fit.
pub fn explain(view: &View, request: &Request, policy: &Policy, decision: Decision) -> Decision {
    explain_in_time(view, &Network::new(view), request, policy, decision)
}

/// On what the decision was made on.
pub(crate) fn explain_in_time(
    view: &View,
    net: &Network,
    request: &Request,
    policy: &Policy,
    decision: Decision,
) -> Decision {
    let own = match &decision.outcome {
        Ok(plan) if needs_own_time(view, plan, request.order) => {
            view.during(booking::slots(view, request.order, request.submit))
        }
        Ok(_) => None,
        Err(_) => own_time(view, net, request, policy, &decision),
    };
    match own {
        Some(own) => explain_on(&own, view, &Network::new(&own), request, policy, decision),
        None => explain_on(view, view, net, request, policy, decision),
    }
}

/// `whole` has what is free at any time, where `view` has what is free in the order's own.
fn explain_on(
    view: &View,
    whole: &View,
    net: &Network,
    request: &Request,
    policy: &Policy,
    decision: Decision,
) -> Decision {
    let Ok(problem) = Problem::new(view, net, *request, policy, Relax::default()) else {
        return Decision { sites: verdict::all_refused(view, &decision), ..decision };
    };
    let inquest = Inquest::of(&problem, whole);
    let sites = verdict::verdicts(&inquest, &decision);
    let (outcome, would_fit_if) = match decision.outcome {
        Ok(plan) => (Ok(plan), Vec::new()),
        Err(reasons) => (Err(refusal::with_figures(&inquest, &reasons)), counterfactual::changes(&inquest)),
    };
    Decision { outcome, sites, would_fit_if, ..decision }
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
        link.calendar = Arc::default();
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

/// The view less what the plan takes: devices, and what it books of each link.
pub fn apply(view: &View, plan: &Plan, order: &Order) -> Result<View, ApplyError> {
    apply_with(view, plan, order, &Mix::default())
}

/// The same where the policy says which nodes of a site are taken.
pub fn apply_by(view: &View, plan: &Plan, order: &Order, policy: &Policy) -> Result<View, ApplyError> {
    apply_with(view, plan, order, &Mix::new(policy))
}

fn apply_with(view: &View, plan: &Plan, order: &Order, mix: &Mix) -> Result<View, ApplyError> {
    let taken = Taken::new(view, plan, order, mix)?;
    let mut next = view.clone();
    for (site, nodes) in taken.sites {
        next.sites[site].nodes = nodes;
    }
    for (edge, link) in taken.links {
        next.graph[edge] = link;
    }
    Ok(next)
}

/// What a plan leaves of the sites and links that it takes something of.
#[derive(Debug)]
pub(crate) struct Taken {
    pub sites: Vec<(usize, Vec<FreeNodes>)>,
    pub links: Vec<(EdgeIndex, ViewLink)>,
}

impl Taken {
    pub fn new(view: &View, plan: &Plan, order: &Order, mix: &Mix) -> Result<Self, ApplyError> {
        let unknown = |kind, name: &dyn ToString| ApplyError::Unknown { kind, name: name.to_string() };
        let mut wants: BTreeMap<usize, Vec<room::Want>> = BTreeMap::new();
        for placed in &plan.components {
            let component = order.component(&placed.name).ok_or_else(|| unknown("component", &placed.name))?;
            let mut here: BTreeMap<usize, Vec<_>> = BTreeMap::new();
            for a in &placed.assignments {
                let site = view.site_index(&a.site).ok_or_else(|| unknown("site", &a.site))?;
                here.entry(site).or_default().push((a.model.as_ref(), a.replicas));
            }
            for (site, replicas) in here {
                wants.entry(site).or_default().push(room::Want { component, replicas });
            }
        }
        let mut sites = Vec::with_capacity(wants.len());
        for (site, wants) in &wants {
            let at = &view.sites[*site];
            let nodes =
                room::pack_by(&at.nodes, wants, mix).ok_or_else(|| ApplyError::Nodes(at.site.name.to_string()))?;
            sites.push((*site, nodes));
        }
        let mut links: BTreeMap<EdgeIndex, ViewLink> = BTreeMap::new();
        for Booking { link: id, slots, rate } in bookings(plan, order) {
            let edge = *view.links.get(&id).ok_or_else(|| unknown("link", &id))?;
            let link = links.entry(edge).or_insert_with(|| view.graph[edge].clone());
            let free = slots.map_or(link.free, |s| link.free_in(s));
            link.book(slots, rate).ok_or_else(|| ApplyError::Link { link: id.to_string(), needed: rate, free })?;
        }
        Ok(Self { sites, links: links.into_iter().collect() })
    }
}
