//! Why an order, or an order at one site, has no plan.
//!
//! Each constraint is left aside alone: those without which there is a plan are the reasons, in precedence. Where no
//! single one is enough they are added one by one in precedence, and the first that leaves no plan is the reason.

use crate::{
    policy::Request,
    problem::{Problem, Relax, not_allowed},
    search::{self, Aim, Outcome},
    stand,
    telling::tell,
};
use rhumb_federation::View;
use rhumb_model::{Reason, ReasonKind, state::SiteState};
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

/// A problem and what becomes of it when constraints are left aside, each worked out once.
pub(crate) struct Relaxed<'q, 'a> {
    base: &'q Problem<'a>,
    others: RefCell<BTreeMap<Relax, Rc<Problem<'a>>>>,
}

impl<'q, 'a> Relaxed<'q, 'a> {
    pub fn new(base: &'q Problem<'a>) -> Self {
        Self { base, others: RefCell::default() }
    }

    fn problem(&self, relax: Relax) -> Rc<Problem<'a>> {
        let mut others = self.others.borrow_mut();
        Rc::clone(others.entry(relax).or_insert_with(|| Rc::new(self.base.relaxed(relax))))
    }
}

/// One question, asked again with constraints left aside.
#[derive(Clone, Copy)]
pub(crate) struct Question<'q, 'a> {
    pub base: &'q Problem<'a>,
    pub relaxed: &'q Relaxed<'q, 'a>,
    /// Only plans that use this site; then only the first reason is looked for.
    pub force: Option<usize>,
}

type Left = fn(&mut Relax);

/// Nodes of one question with constraints left aside.
const NODES: u64 = 2_000;

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

impl<'a> Question<'_, 'a> {
    pub fn order(&self) -> &'a rhumb_model::Order {
        self.base.request.order
    }

    pub fn view(&self) -> &'a View {
        self.base.view
    }

    fn ask(&self, relax: Relax) -> (Rc<Problem<'a>>, Outcome) {
        let problem = self.relaxed.problem(relax);
        let any = self.force.is_some();
        let outcome = search::search(&problem, Aim { force: self.force, any, nodes: Some(NODES), ..Aim::default() });
        (problem, outcome)
    }

    fn feasible(&self, relax: Relax) -> bool {
        self.ask(relax).1.solution.is_some()
    }
}

/// The reasons of a question without an answer, earliest in precedence first. `complete`: its search left nothing open.
pub(crate) fn reasons(question: &Question, complete: bool) -> Vec<Reason> {
    let all = Relax {
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
    let order = question.order();
    if question.force.is_none() {
        let mut missing = nowhere(question);
        if !missing.is_empty() {
            sort(&mut missing);
            return missing;
        }
    }
    let mut found = Vec::new();
    for (kind, relax) in CONSTRAINTS {
        let mut without = Relax::default();
        relax(&mut without);
        if !asked(question, kind) {
            continue;
        }
        let (problem, outcome) = question.ask(without);
        if let Some(solution) = &outcome.solution {
            found.push(tell(question, kind, &problem, solution));
            if question.force.is_some() {
                break;
            }
        }
    }
    if found.is_empty() {
        let mut relax = all;
        if question.feasible(relax) {
            let steps: [(ReasonKind, Left); 9] = [
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
            for (kind, add) in steps {
                let before = relax;
                add(&mut relax);
                if question.feasible(relax) {
                    continue;
                }
                if kind == ReasonKind::NoPath {
                    found.push(no_path(question));
                } else {
                    let (problem, outcome) = question.ask(before);
                    found.extend(outcome.solution.as_ref().map(|s| tell(question, kind, &problem, s)));
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
            free: format!("none within {} nodes", question.base.policy.node_budget),
        });
    }
    sort(&mut found);
    found
}

pub(crate) fn sort(reasons: &mut Vec<Reason>) {
    reasons.sort();
    reasons.dedup();
}

/// Whether the order, the view or the policy holds the constraint at all.
fn asked(question: &Question, kind: ReasonKind) -> bool {
    let order = question.order();
    let sites = |test: &dyn Fn(&SiteState) -> bool| question.view().sites.iter().any(|s| test(&s.site.state));
    let any_link = |test: &dyn Fn(&rhumb_federation::ViewLink) -> bool| question.view().graph.edge_weights().any(test);
    match kind {
        ReasonKind::Jurisdiction => !order.constraints.jurisdictions.is_empty(),
        ReasonKind::Budget => order.terms.budget.is_some(),
        ReasonKind::PriceWindow => order.terms.window.is_some(),
        ReasonKind::Latency => order.flows.iter().any(|f| f.max_latency.is_some()),
        ReasonKind::Bandwidth => !order.flows.is_empty(),
        ReasonKind::Encryption => order.constraints.encrypted || order.flows.iter().any(|f| f.encrypted),
        ReasonKind::Deadline => order.terms.deadline.is_some(),
        ReasonKind::Capacity => question.view().sites.iter().any(|s| s.nodes != s.whole),
        ReasonKind::Stale => sites(&|s| matches!(s, SiteState::Lost | SiteState::NeverSeen)) || any_link(&|l| l.stale),
        ReasonKind::Draining => sites(&|s| *s == SiteState::Draining),
        _ => true,
    }
}

/// Components that no site takes, or that cannot serve what is asked.
fn nowhere(question: &Question) -> Vec<Reason> {
    let mut found = Vec::new();
    let problem = question.base;
    for part in &problem.parts {
        let component = part.component;
        if part.fewest > part.most {
            found.push(Reason {
                reason: ReasonKind::Capacity,
                component: Some(component.name.clone()),
                flow: None,
                site: None,
                needed: format!("{} replicas for {}", part.fewest, rhumb_model::Demand::from_millirps(part.demand)),
                free: format!("{} replicas at most", part.most),
            });
            continue;
        }
        if part.stands_somewhere() {
            continue;
        }
        let mut refused: Vec<Reason> = (0..question.view().sites.len())
            .filter_map(|site| stand::why_not(question.view(), problem.request, component, site))
            .collect();
        // the sites that came furthest say what is really missing
        let furthest = refused.iter().map(|r| stage(r.reason)).max().unwrap_or(0);
        refused.retain(|r| stage(r.reason) == furthest);
        refused.sort();
        let mut kinds = Vec::new();
        refused.retain(|r| {
            !kinds.contains(&r.reason) && {
                kinds.push(r.reason);
                true
            }
        });
        found.extend(refused);
    }
    found
}

/// How near to a fit a site's refusal is: its rules, its hardware, its room.
pub(crate) fn stage(kind: ReasonKind) -> u8 {
    match kind {
        ReasonKind::NotAllowed | ReasonKind::Jurisdiction | ReasonKind::Label => 0,
        ReasonKind::Model => 1,
        ReasonKind::Precision | ReasonKind::Memory | ReasonKind::Interconnect => 2,
        ReasonKind::Shape | ReasonKind::Capacity | ReasonKind::Quota => 3,
        _ => 4,
    }
}

/// Each component fits somewhere, but not all replicas of all components do.
fn together(question: &Question) -> Reason {
    let short = {
        let room =
            |part: &crate::problem::Part| -> u64 { (0..part.stands.len()).map(|s| u64::from(part.room(s))).sum() };
        let mut parts = question.base.parts.iter();
        parts.find(|part| room(part) < u64::from(part.fewest)).map(|part| (part, room(part)))
    };
    let (component, needed, free) = match short {
        Some((part, room)) => {
            (Some(part.component.name.clone()), format!("{} replicas", part.fewest), format!("room for {room}"))
        }
        None => (None, "all components together".to_owned(), "room for each alone".to_owned()),
    };
    let site = question.force.map(|s| question.view().sites[s].site.name.clone());
    Reason { reason: ReasonKind::Capacity, component, flow: None, site, needed, free }
}

fn no_path(question: &Question) -> Reason {
    let mut reason = not_allowed("a path", "none");
    reason.reason = ReasonKind::NoPath;
    let relax = Relax {
        latency: true,
        bandwidth: true,
        encryption: true,
        stale: true,
        path_jurisdiction: true,
        budget: true,
        window: true,
        deadline: true,
        ..Relax::default()
    };
    let order = question.order();
    // the first flow without which there is a plan
    for index in 0..order.flows.len() {
        let mut without = order.clone();
        without.flows.remove(index);
        let base = question.base;
        let request = Request { order: &without, ..base.request };
        let problem = Problem::new(base.view, base.net, request, base.policy, relax);
        if problem.is_ok_and(|p| {
            search::search(&p, Aim { force: question.force, any: true, ..Aim::default() }).solution.is_some()
        }) {
            reason.flow = Some(index as u32);
            reason.needed = format!("a path from {} to {}", order.flows[index].from, order.flows[index].to);
            break;
        }
    }
    reason
}
