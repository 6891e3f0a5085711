//! Why an order, or an order at one site, has no plan.
//!
//! Each constraint is left aside alone: those without which there is a plan are the reasons, in precedence. Where no
//! single one is enough they are added one by one in precedence, and the first that leaves no plan is the reason.

use crate::{
    counterfactual::Trial,
    inquest::{self, Inquest},
    policy::Request,
    problem::{Problem, Relax, not_allowed},
    search::{self, Aim},
    settle::Solution,
    stand,
    telling::tell,
};
use rhumb_model::{Reason, ReasonKind, state::SiteState};

/// One question, asked again with constraints left aside.
#[derive(Clone, Copy)]
pub(crate) struct Question<'q, 'a> {
    pub inquest: &'q Inquest<'q, 'a>,
    /// Only plans that use this site; then only the first reason is looked for.
    pub force: Option<usize>,
}

type Left = fn(&mut Relax);

/// Nodes of one question with constraints left aside.
const NODES: u64 = 2_000;
/// The same where it is asked of one site of many.
const FORCED: u64 = 200;

/// A constraint and the reason it stands for, in precedence.
const CONSTRAINTS: [(ReasonKind, Left); 10] = [
    (ReasonKind::Jurisdiction, |r| r.path_jurisdiction = true),
    (ReasonKind::Capacity, |r| r.capacity = true),
    (ReasonKind::Budget, |r| r.budget = true),
    (ReasonKind::PriceWindow, |r| r.window = true),
    (ReasonKind::Latency, |r| r.latency = true),
    (ReasonKind::Bandwidth, |r| r.bandwidth = true),
    (ReasonKind::Encryption, |r| r.encryption = true),
    (ReasonKind::Stale, |r| r.stale = true),
    (ReasonKind::Draining, |r| r.draining = true),
    (ReasonKind::Deadline, |r| r.deadline = true),
];

/// What comes into force one after the other.
const STEPS: [(ReasonKind, Left); 9] = [
    (ReasonKind::Budget, |r| r.budget = false),
    (ReasonKind::PriceWindow, |r| r.window = false),
    (ReasonKind::NoPath, |r| r.flows = false),
    (ReasonKind::Jurisdiction, |r| r.path_jurisdiction = false),
    (ReasonKind::Latency, |r| r.latency = false),
    (ReasonKind::Bandwidth, |r| r.bandwidth = false),
    (ReasonKind::Encryption, |r| r.encryption = false),
    (ReasonKind::Stale, |r| r.stale = false),
    (ReasonKind::Deadline, |r| r.deadline = false),
];

const EVERYTHING: Relax = Relax {
    capacity: false,
    flows: true,
    budget: true,
    window: true,
    path_jurisdiction: true,
    latency: true,
    bandwidth: true,
    encryption: true,
    stale: false,
    draining: false,
    deadline: true,
};

impl<'a> Question<'_, 'a> {
    pub fn base(&self) -> &Problem<'a> {
        self.inquest.base
    }

    /// What `read` makes of a plan without the constraints, if there is one.
    fn ask<T>(&self, relax: Relax, read: impl FnOnce(&Problem, &Solution) -> T) -> Option<T> {
        let problem = self.inquest.relaxed(relax)?;
        let any = self.force.is_some();
        let outcome =
            search::search(&problem, Aim { force: self.force, any, nodes: Some(self.nodes()), ..Aim::default() });
        outcome.solution.as_ref().map(|solution| read(&problem, solution))
    }

    fn nodes(&self) -> u64 {
        if self.force.is_some() { FORCED } else { NODES }
    }

    fn feasible(&self, relax: Relax) -> bool {
        let Some(problem) = self.inquest.relaxed(relax) else { return false };
        let aim = Aim { force: self.force, any: true, nodes: Some(self.nodes()), ..Aim::default() };
        search::search(&problem, aim).solution.is_some()
    }
}

/// Whether a plan that uses the site is found once a constraint is left aside.
pub(crate) fn is_enough(inquest: &Inquest, site: usize, kind: ReasonKind) -> bool {
    let mut without = Relax::default();
    let Some((_, relax)) = CONSTRAINTS.iter().find(|(of, _)| *of == kind) else { return false };
    relax(&mut without);
    Question { inquest, force: Some(site) }.feasible(without)
}

/// Whether there may be a plan once links carry anything.
pub(crate) fn may_fit_wider_links(inquest: &Inquest) -> bool {
    let relax = Relax { bandwidth: true, ..Relax::default() };
    let Some(problem) = inquest.relaxed(relax) else { return false };
    let outcome = search::search(&problem, Aim { any: true, nodes: Some(NODES), ..Aim::default() });
    outcome.solution.is_some() || !outcome.complete
}

/// The reasons of a question without an answer, earliest in precedence first. `complete`: its search left nothing open.
pub(crate) fn reasons(question: &Question, complete: bool) -> Vec<Reason> {
    let order = question.base().request.order;
    if question.force.is_none() {
        let mut missing = nowhere(question.inquest);
        if !missing.is_empty() {
            sort(&mut missing);
            return missing;
        }
    }
    let mut found = Vec::new();
    for (kind, relax) in CONSTRAINTS {
        let mut without = Relax::default();
        relax(&mut without);
        if !asked(question, kind) || kept(question, kind) {
            continue;
        }
        found.extend(question.ask(without, |problem, solution| tell(question, kind, problem, solution)));
        if question.force.is_some() && !found.is_empty() {
            break;
        }
    }
    if found.is_empty() {
        let mut relax = EVERYTHING;
        if question.feasible(relax) {
            for (kind, add) in STEPS {
                let before = relax;
                add(&mut relax);
                if question.feasible(relax) {
                    continue;
                }
                if kind == ReasonKind::NoPath {
                    found.push(no_path(question));
                } else {
                    found.extend(question.ask(before, |problem, solution| tell(question, kind, problem, solution)));
                }
                break;
            }
        } else {
            found.push(together(question));
        }
    }
    if found.is_empty() || !complete {
        found.push(Reason {
            reason: ReasonKind::SearchLimit,
            component: order.components.first().map(|c| c.name.clone()),
            flow: None,
            site: None,
            needed: "a plan".to_owned(),
            free: format!("none within {} nodes", question.base().policy.node_budget),
        });
    }
    sort(&mut found);
    found
}

pub(crate) fn sort(reasons: &mut Vec<Reason>) {
    reasons.sort();
    reasons.dedup();
}

/// The same reasons of an order with how near a plan comes to each. It takes trials, so that a decision alone goes without.
pub(crate) fn with_figures(inquest: &Inquest, reasons: &[Reason]) -> Vec<Reason> {
    let figure = |r: &Reason| if r.site.is_none() { nearest(inquest, r.reason) } else { None };
    let mut found: Vec<Reason> = reasons.iter().map(|r| figure(r).unwrap_or_else(|| r.clone())).collect();
    sort(&mut found);
    found
}

/// Where the constraint has a number: how near to it a plan comes, as `would_fit_if` says it too.
fn nearest(inquest: &Inquest, kind: ReasonKind) -> Option<Reason> {
    let trial = Trial::new(inquest);
    let order = inquest.base.request.order;
    let (flow, needed, free) = match kind {
        ReasonKind::Latency => {
            let (flow, least) = (0..order.flows.len()).find_map(|f| Some((f, trial.latency(f)?)))?;
            let bound = order.flows[flow].max_latency.unwrap_or_default();
            (Some(flow as u32), bound.to_string(), format!("{least} at the least"))
        }
        ReasonKind::Budget => (
            None,
            format!("{} at the least", trial.budget()?),
            order.terms.budget.map_or(String::new(), |b| b.to_string()),
        ),
        ReasonKind::Deadline => {
            let deadline = order.terms.deadline.map_or(String::new(), |d| format!("deadline {d}"));
            (None, format!("finish by {} at the earliest", trial.deadline()?), deadline)
        }
        _ => return None,
    };
    Some(Reason { reason: kind, component: None, flow, site: None, needed, free })
}

/// Whether the order, the view or the policy holds the constraint at all.
fn asked(question: &Question, kind: ReasonKind) -> bool {
    let order = question.base().request.order;
    let view = question.base().view;
    let sites = |test: &dyn Fn(&SiteState) -> bool| view.sites.iter().any(|s| test(&s.site.state));
    match kind {
        ReasonKind::Jurisdiction => !order.constraints.jurisdictions.is_empty() && !order.flows.is_empty(),
        ReasonKind::Budget => order.terms.budget.is_some(),
        ReasonKind::PriceWindow => order.terms.window.is_some(),
        ReasonKind::Latency => order.flows.iter().any(|f| f.max_latency.is_some()),
        ReasonKind::Bandwidth => !order.flows.is_empty(),
        ReasonKind::Encryption => order.constraints.encrypted || order.flows.iter().any(|f| f.encrypted),
        ReasonKind::Deadline => order.terms.deadline.is_some(),
        ReasonKind::Capacity => view.sites.iter().any(|s| s.nodes != s.whole),
        ReasonKind::Stale => {
            sites(&|s| matches!(s, SiteState::Lost | SiteState::NeverSeen)) || question.inquest.reach.any_old()
        }
        ReasonKind::Draining => sites(&|s| *s == SiteState::Draining),
        _ => true,
    }
}

/// Whether a component is held back by itself, and by something that the constraint has no part in.
fn kept(question: &Question, kind: ReasonKind) -> bool {
    let bonds = question.inquest.bonds();
    match kind {
        ReasonKind::Jurisdiction | ReasonKind::Latency | ReasonKind::Bandwidth | ReasonKind::Encryption => {
            bonds.beside_flows()
        }
        ReasonKind::Budget => bonds.beside_budget(),
        ReasonKind::Deadline => bonds.beside_deadline(),
        ReasonKind::PriceWindow => bonds.beside_window(),
        // these bring other sites, or more room
        _ => false,
    }
}

/// Components that no site takes, or that cannot serve what is asked.
fn nowhere(inquest: &Inquest) -> Vec<Reason> {
    let mut found = Vec::new();
    let problem = inquest.base;
    for (index, part) in problem.parts.iter().enumerate() {
        let component = Some(part.component.name.clone());
        let of = |(reason, needed, free): stand::Told, site| Reason {
            reason,
            component: component.clone(),
            flow: None,
            site,
            needed,
            free,
        };
        if part.fewest > part.most {
            let needed = format!("{} replicas for {}", part.fewest, rhumb_model::Demand::from_millirps(part.demand));
            found.push(of((ReasonKind::Capacity, needed, format!("{} replicas at most", part.most)), None));
            continue;
        }
        if part.stands_somewhere() {
            continue;
        }
        // the sites that came furthest say what is really missing: of each kind the first
        let mut furthest: Vec<(u8, Reason)> = Vec::new();
        for (site, at) in problem.view.sites.iter().enumerate() {
            let told = stand::rule(problem.view, at, &problem.request.order.constraints)
                .or_else(|| inquest.hardware(index, site))
                .or_else(|| stand::away(at));
            let Some(told) = told else { continue };
            let stage = inquest::stage(told.0);
            if furthest.iter().all(|(s, r)| stage > *s || (stage == *s && r.reason != told.0)) {
                furthest.retain(|(s, _)| *s == stage);
                furthest.push((stage, of(told, Some(at.site.name.clone()))));
            }
        }
        found.extend(furthest.into_iter().map(|(_, reason)| reason));
    }
    found
}

/// Each component fits somewhere, but not all replicas of all components do.
fn together(question: &Question) -> Reason {
    let short = short(question.base());
    let (component, needed, free) = match short {
        Some((part, room)) => {
            let part = &question.base().parts[part];
            (Some(part.component.name.clone()), format!("{} replicas", part.fewest), format!("room for {room}"))
        }
        None => (None, "all components together".to_owned(), "room for each alone".to_owned()),
    };
    let site = question.force.map(|s| question.base().view.sites[s].site.name.clone());
    Reason { reason: ReasonKind::Capacity, component, flow: None, site, needed, free }
}

/// The first component of which all sites together hold too few, and how many they hold.
pub(crate) fn short(problem: &Problem) -> Option<(usize, u64)> {
    let mut rooms = problem.parts.iter().map(|part| (part.all_room(), part.fewest)).enumerate();
    rooms.find(|(_, (room, fewest))| *room < u64::from(*fewest)).map(|(index, (room, _))| (index, room))
}

fn no_path(question: &Question) -> Reason {
    let mut reason = not_allowed("a path", "none");
    reason.reason = ReasonKind::NoPath;
    let relax = Relax { flows: false, stale: true, ..EVERYTHING };
    let base = question.base();
    let order = base.request.order;
    // the first flow without which there is a plan
    for index in 0..order.flows.len() {
        let mut without = order.clone();
        without.flows.remove(index);
        let request = Request { order: &without, ..base.request };
        let problem = Problem::new(base.view, base.net, request, base.policy, relax);
        if problem.is_ok_and(|p| {
            search::search(&p, Aim { force: question.force, any: true, ..Aim::default() }).solution.is_some()
        }) {
            reason.flow = Some(index as u32);
            let flow = &order.flows[index];
            reason.needed = if flow.protected {
                format!("two paths from {} to {} that share no link and no risk group", flow.from, flow.to)
            } else {
                format!("a path from {} to {}", flow.from, flow.to)
            };
            break;
        }
    }
    reason
}
