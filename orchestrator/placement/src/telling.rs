//! A reason in words: what was needed and what was free, read off the plan that there is without the constraint.

use crate::{
    problem::{Problem, Span, not_allowed},
    refusal::Question,
    settle::Solution,
    stand,
};
use rhumb_federation::View;
use rhumb_model::{
    Bandwidth, Latency, Reason, ReasonKind,
    money::Amount,
    quantity::Span as Length,
    ratio::{Decimal, Ratio, round_half_up},
    state::SiteState,
};
use std::collections::BTreeMap;

pub(crate) fn money(micros: i128, view: &View) -> String {
    let value = i64::try_from(micros).map_or(Decimal::ZERO, Decimal::from_micros);
    Amount { value, currency: view.currency }.to_string()
}

/// The reason in words, from the plan that there is without the constraint.
pub(crate) fn tell(question: &Question, kind: ReasonKind, problem: &Problem, solution: &Solution) -> Reason {
    let order = question.base().request.order;
    let mut reason = not_allowed("", "");
    reason.reason = kind;
    let mut set = |needed: String, free: String| (reason.needed, reason.free) = (needed, free);
    let leg_where = |test: &dyn Fn(&crate::legs::Leg, &crate::option::Choice) -> bool| {
        solution.legs.iter().find(|(leg, choice)| test(leg, choice))
    };
    let mut flow = None;
    match kind {
        ReasonKind::Budget => {
            let terms = &solution.terms;
            let bill = i128::from(terms.compute) + i128::from(terms.path) + i128::from(terms.transfer);
            set(money(bill, question.base().view), order.terms.budget.map_or(String::new(), |b| b.to_string()));
        }
        ReasonKind::PriceWindow => {
            let length = round_half_up((solution.times.finish) / Ratio::from_integer(1000));
            let window = order.terms.window.as_ref();
            set(
                Length::from_micros(u64::try_from(length).unwrap_or(0)).to_string(),
                window.map_or(String::new(), |w| format!("{} to {} {}", w.from, w.to, w.tz)),
            );
        }
        ReasonKind::Latency => {
            let bound = |leg: &crate::legs::Leg| order.flows[problem.streams[leg.stream].flow].max_latency;
            if let Some((leg, choice)) =
                leg_where(&|leg, choice| bound(leg).is_some_and(|b| choice.latency > b.micros()))
            {
                flow = Some(problem.streams[leg.stream].flow as u32);
                set(
                    bound(leg).unwrap_or_default().to_string(),
                    format!("{} without the bound", Latency::from_micros(choice.latency)),
                );
            }
        }
        ReasonKind::Bandwidth => {
            if let Some((stream, link, needed, free)) = overfull(problem, solution) {
                flow = Some(problem.streams[stream].flow as u32);
                set(format!("{} on {link}", Bandwidth::from_kbps(needed)), Bandwidth::from_kbps(free).to_string());
            }
        }
        ReasonKind::Jurisdiction | ReasonKind::Encryption | ReasonKind::Stale => {
            let breaks = |edge: u32| {
                let link = problem.link(edge);
                let within = &order.constraints.jurisdictions;
                match kind {
                    ReasonKind::Stale => link.stale,
                    ReasonKind::Encryption => !link.encrypted,
                    _ => link.jurisdictions.is_empty() || !link.jurisdictions.is_subset(within),
                }
            };
            let needed = match kind {
                ReasonKind::Stale => "fresh figures".to_owned(),
                ReasonKind::Encryption => "encrypted links".to_owned(),
                _ => stand::list(&order.constraints.jurisdictions),
            };
            let encrypted =
                |leg: &crate::legs::Leg| kind != ReasonKind::Encryption || problem.streams[leg.stream].encrypted;
            if let Some((leg, choice)) = leg_where(&|leg, c| encrypted(leg) && c.edges.iter().any(|e| breaks(*e))) {
                flow = Some(problem.streams[leg.stream].flow as u32);
                let links = choice.edges.iter().filter(|e| breaks(**e)).map(|e| &problem.link(*e).id);
                set(needed, format!("links that are not: {}", stand::list(links)));
            } else if let Some(site) = used(problem, solution)
                .find(|s| kind == ReasonKind::Stale && question.base().view.sites[*s].site.state != SiteState::Ready)
            {
                set(
                    needed,
                    format!(
                        "{} at {}",
                        question.base().view.sites[site].site.state,
                        question.base().view.sites[site].site.name
                    ),
                );
            } else {
                let flows = solution.legs.iter().find(|(_, c)| !c.edges.is_empty());
                flow = flows.map(|(leg, _)| problem.streams[leg.stream].flow as u32);
                set(needed, "a path through other points only".to_owned());
            }
        }
        ReasonKind::Capacity => {
            let lacking = solution
                .placed
                .iter()
                .zip(&problem.parts)
                .flat_map(|(list, part)| list.iter().map(move |(s, n)| (part, &part.stands[*s], *n)));
            let mut shown = None;
            for (part, stand, n) in lacking {
                let room =
                    crate::room::most(part.component, stand.model, &question.base().view.sites[stand.site].nodes, n);
                if room < n {
                    shown = Some((part.component.name.clone(), stand.site, n, room));
                    break;
                }
            }
            match shown {
                Some((name, site, n, room)) => {
                    let at = &question.base().view.sites[site].site.name;
                    reason.component = Some(name);
                    reason.site = Some(at.clone());
                    reason.needed = format!("{n} replicas at {at}");
                    reason.free = format!("room for {room}");
                }
                None => set("all components together".to_owned(), "room for each alone".to_owned()),
            }
        }
        ReasonKind::Draining => {
            let site =
                used(problem, solution).find(|s| question.base().view.sites[*s].site.state == SiteState::Draining);
            let name = site.map_or(String::new(), |s| question.base().view.sites[s].site.name.to_string());
            set("a site that takes work".to_owned(), format!("{name} is draining"));
        }
        ReasonKind::Deadline => {
            let finish = crate::answer::instant(problem, &solution.times.finish);
            set(
                finish.map_or(String::new(), |t| format!("finish at {t}")),
                order.terms.deadline.map_or(String::new(), |d| format!("deadline {d}")),
            );
        }
        _ => {}
    }
    reason.flow = flow;
    reason
}

fn used<'s>(problem: &'s Problem, solution: &'s Solution) -> impl Iterator<Item = usize> + 's {
    solution.placed.iter().zip(&problem.parts).flat_map(|(list, part)| list.iter().map(|(s, _)| part.stands[*s].site))
}

/// The first link that the legs overfill: (stream, link, needed, free) in kbit/s.
pub(crate) fn overfull(problem: &Problem, solution: &Solution) -> Option<(usize, rhumb_model::LinkId, u64, u64)> {
    let mut load = BTreeMap::new();
    for (leg, choice) in &solution.legs {
        let inbound = problem.streams[leg.stream].span == Span::Inbound;
        for (edge, kbps) in choice.loads() {
            let sum = load.entry((inbound, edge)).or_insert(0_u64);
            *sum = sum.saturating_add(kbps);
            let free = problem.net.edges[edge as usize].free;
            if *sum > free {
                return Some((leg.stream, problem.link(edge).id.clone(), *sum, free));
            }
        }
    }
    None
}
