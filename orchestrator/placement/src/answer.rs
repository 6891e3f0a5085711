//! From a search's solution to a plan that leaves nothing to decide.

use crate::{option::Choice, problem::Problem, search::Outcome, settle::Solution, stand};
use jiff::Timestamp;
use rhumb_model::{
    Cost, Leg, Plan, PointName,
    plan::{PlacedComponent, SiteAssignment},
    ratio::{Ratio, round_half_up},
};

/// The plan of a search that found one.
pub(crate) fn plan(problem: &Problem, outcome: &Outcome) -> Option<Plan> {
    let solution = outcome.solution.as_ref()?;
    let terms = &solution.terms;
    let bound = outcome.lower_bound.and_then(|b| i64::try_from(b).ok()).unwrap_or(0).min(terms.total);
    let gap = gap_ppm(terms.total, bound);
    Some(Plan {
        components: components(problem, solution),
        flows: legs(problem, solution),
        start: instant(problem, &solution.times.start)?,
        finish: instant(problem, &solution.times.finish)?,
        cost: Cost {
            total_micros: terms.total,
            compute_micros: terms.compute,
            path_micros: terms.path,
            transfer_micros: terms.transfer,
            time_micros: terms.time,
            lateness_micros: terms.lateness,
            fragmentation_micros: terms.fragmentation,
            currency: problem.view.currency,
        },
        lower_bound_micros: bound,
        gap_ppm: gap,
        proven_optimal: gap == 0,
    })
}

/// (total - bound) / total x 10^6, rounded up.
pub(crate) fn gap_ppm(total: i64, bound: i64) -> u32 {
    if total <= 0 || bound >= total {
        return 0;
    }
    let gap = (i128::from(total) - i128::from(bound)) * 1_000_000;
    u32::try_from((gap + i128::from(total) - 1) / i128::from(total)).unwrap_or(u32::MAX)
}

/// Nanoseconds since submission as an instant, rounded half up to the microsecond.
pub(crate) fn instant(problem: &Problem, since: &Ratio) -> Option<Timestamp> {
    let nanos = since + Ratio::from_integer(problem.request.submit.as_nanosecond());
    let micros = round_half_up(nanos / Ratio::from_integer(1000));
    Timestamp::from_microsecond(i64::try_from(micros).ok()?).ok()
}

fn components(problem: &Problem, solution: &Solution) -> Vec<PlacedComponent> {
    let assigned = |part: &crate::part::Part, list: &[(usize, u32)]| {
        let mut assignments: Vec<SiteAssignment> = list
            .iter()
            .map(|(s, replicas)| SiteAssignment {
                site: problem.view.sites[part.stands[*s].site].site.name.clone(),
                replicas: *replicas,
                model: part.stands[*s].model.cloned(),
                devices_per_replica: stand::devices_per_replica(&part.component.need),
            })
            .collect();
        assignments.sort_by(|a, b| (&a.site, &a.model).cmp(&(&b.site, &b.model)));
        assignments
    };
    let parts = problem.parts.iter().zip(&solution.placed);
    parts
        .map(|(part, list)| PlacedComponent { name: part.component.name.clone(), assignments: assigned(part, list) })
        .collect()
}

fn legs(problem: &Problem, solution: &Solution) -> Vec<Leg> {
    let mut legs: Vec<Leg> = solution.legs.iter().flat_map(|(leg, choice)| paths(problem, leg, choice)).collect();
    legs.sort_by(|a, b| (a.flow, &a.from_site, &a.to_site).cmp(&(b.flow, &b.from_site, &b.to_site)));
    legs
}

/// A leg once for each of its paths.
fn paths(problem: &Problem, leg: &crate::legs::Leg, choice: &Choice) -> Vec<Leg> {
    let point = |p: u32| -> PointName { problem.view.graph[petgraph::graph::NodeIndex::new(p as usize)].name.clone() };
    let links = |edges: &[u32]| edges.iter().map(|e| problem.link(*e).id.clone()).collect();
    let stream = &problem.streams[leg.stream];
    let flow = &problem.request.order.flows[stream.flow];
    let rounded = |value: &Ratio| u64::try_from(round_half_up(*value)).unwrap_or(u64::MAX);
    let of = |edges: &[u32], backup: &[u32], kbps: u64, latency: u64, volume: &Ratio, demand: u64| Leg {
        flow: stream.flow as u32,
        from: flow.from.to_string(),
        to: flow.to.to_string(),
        from_site: point(choice.from),
        to_site: point(choice.to),
        path: links(edges),
        backup: links(backup),
        rate_kbps: kbps,
        volume_bytes: rounded(volume),
        demand_mrps: demand,
        latency_us: latency,
    };
    let more = choice.more.as_deref();
    let Some(parts) = more.map(|m| &m.parts).filter(|p| !p.is_empty()) else {
        let backup = more.map_or(&[][..], |m| &m.backup);
        return vec![of(&choice.edges, backup, choice.kbps, choice.latency, &leg.volume, leg.demand)];
    };
    let mut before = 0_u64;
    let of_part = |part: &crate::several::Part| {
        // whole requests, so that the parts sum to the leg's
        let demand = |kbps: u64| (u128::from(leg.demand) * u128::from(kbps) / u128::from(choice.kbps.max(1))) as u64;
        let own = demand(before + part.kbps) - demand(before);
        before += part.kbps;
        let volume = leg.volume * Ratio::new(i128::from(part.kbps), i128::from(choice.kbps.max(1)));
        of(&part.edges, &[], part.kbps, part.latency + stream.access, &volume, own)
    };
    parts.iter().map(of_part).collect()
}
