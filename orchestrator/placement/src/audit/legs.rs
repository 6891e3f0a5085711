//! Every leg that the flows ask for is there once, its path is a path, and no link holds more than it has.

use super::{Found, by_site, several};
use crate::{
    booking,
    policy::{Policy, Request},
};
use jiff::SignedDuration;
use rhumb_federation::{View, ViewLink};
use rhumb_model::{
    Bandwidth, Leg, LinkId, Order, Plan, PointName, Slots,
    order::{End, Flow},
    ratio::{Ratio, round_half_up},
};
use std::collections::{BTreeMap, BTreeSet};

/// A leg with what the plan rounds.
pub(super) struct Carried<'p> {
    pub leg: &'p Leg,
    pub phase: Phase,
    /// Bytes, exact.
    pub volume: Ratio,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Inbound,
    Run,
    Outbound,
}

const RUNGS_MBPS: [u64; 13] = [10_000, 5_000, 2_000, 1_000, 500, 200, 100, 50, 20, 10, 5, 2, 1];

pub(super) fn check<'p>(
    found: &mut Found,
    plan: &'p Plan,
    request: &Request,
    view: &View,
    policy: &Policy,
) -> Vec<Carried<'p>> {
    let order = request.order;
    let mut carried = Vec::new();
    for (index, flow) in order.flows.iter().enumerate() {
        let legs: Vec<&Leg> = plan.flows.iter().filter(|l| l.flow as usize == index).collect();
        let size = [&flow.from, &flow.to].into_iter().find_map(|end| match end {
            End::Dataset(name) => view.datasets.get(name).map(|d| d.size.bytes()),
            _ => None,
        });
        let whole = if flow.volume.is_none() && flow.rate.is_none() { size } else { None };
        let volume = flow.volume.map(rhumb_model::Bytes::bytes).or(whole);
        let phase = match (volume, &flow.to) {
            (None, _) => Phase::Run,
            (_, End::Component(_)) => Phase::Inbound,
            _ => Phase::Outbound,
        };
        let mut expected = wanted(plan, request, view, index, flow, &legs);
        for group in several::groups(flow, &legs) {
            let leg = group[0];
            let ends = format!("flow {index}, {} to {}", leg.from_site, leg.to_site);
            let key = (site_end(flow, leg, true), site_end(flow, leg, false));
            let Some(share) = expected.remove(&key) else {
                found.add("legs", format!("{ends}: not asked for"));
                continue;
            };
            let whole = Ratio::from_integer(i128::from(volume.unwrap_or(0))) * share;
            let kbps: u64 = group.iter().map(|l| l.rate_kbps).sum();
            rate(found, flow, (kbps, leg.path.is_empty()), phase, share, policy, &ends);
            several::check(found, view, &group, &ends);
            for leg in &group {
                let part = if group.len() == 1 {
                    Ratio::from_integer(1)
                } else {
                    Ratio::new(i128::from(leg.rate_kbps), i128::from(kbps.max(1)))
                };
                let volume = whole * part;
                found.check(leg.from == flow.from.to_string() && leg.to == flow.to.to_string(), "legs", || {
                    format!("{ends}: wrong ends")
                });
                found.check(i128::from(leg.volume_bytes) == round_half_up(volume), "volume", || {
                    format!("{ends}: {} bytes", leg.volume_bytes)
                });
                let latency = path(found, view, request, policy, flow, leg, &leg.path, &ends);
                found.check(latency == leg.latency_us, "latency", || {
                    format!("{ends}: {} us, not {latency}", leg.latency_us)
                });
                if flow.protected && !leg.path.is_empty() {
                    path(found, view, request, policy, flow, leg, &leg.backup, &ends);
                    several::apart(found, view, leg, &ends);
                } else {
                    found.check(leg.backup.is_empty(), "backup", || format!("{ends}: not asked for"));
                }
                carried.push(Carried { leg, phase, volume });
            }
        }
        for (from, to) in expected.keys() {
            found.add("legs", format!("flow {index}: no leg from {from:?} to {to:?}"));
        }
    }
    found.check(carried.len() == plan.flows.len() || !found.0.is_empty(), "legs", || "legs of no flow".to_owned());
    capacity(found, view, held_in(order, plan), &carried);
    carried
}

/// A leg's end where it is a site that the placement chose; `None` where the leg chooses among copies.
fn site_end(flow: &Flow, leg: &Leg, from: bool) -> Option<PointName> {
    let (end, at) = if from { (&flow.from, &leg.from_site) } else { (&flow.to, &leg.to_site) };
    matches!(end, End::Component(_)).then(|| at.clone())
}

type Key = (Option<PointName>, Option<PointName>);

/// The legs of a flow, by their ends, with the share of it that each carries.
fn wanted(
    plan: &Plan,
    request: &Request,
    view: &View,
    index: usize,
    flow: &Flow,
    legs: &[&Leg],
) -> BTreeMap<Key, Ratio> {
    let order = request.order;
    let part = |end: &End| match end {
        End::Component(name) => order.components.iter().position(|c| &c.name == name),
        _ => None,
    };
    let shares = |part: usize| -> Vec<(PointName, Ratio)> {
        let sites = by_site(plan, part);
        let all: u32 = sites.values().sum();
        sites.into_iter().map(|(s, n)| (s.clone(), Ratio::new(i128::from(n), i128::from(all)))).collect()
    };
    let one = Ratio::from_integer(1);
    let mut expected = BTreeMap::new();
    match (part(&flow.from), part(&flow.to)) {
        (Some(a), Some(b)) if a == b => {
            for (from, _) in shares(a) {
                for (to, _) in shares(a).into_iter().filter(|(to, _)| *to != from) {
                    expected.insert((Some(from.clone()), Some(to)), one);
                }
            }
        }
        (Some(a), Some(b)) => {
            for (from, f) in shares(a) {
                for (to, t) in shares(b) {
                    expected.insert((Some(from.clone()), Some(to)), f * t);
                }
            }
        }
        (None, Some(b)) => match flow.demand {
            None => expected
                .extend(shares(b).into_iter().map(|(to, t)| ((None, Some(to)), if flow.copy { one } else { t }))),
            Some(demand) => {
                // what each site serves is the plan's to say, if it adds up
                let _ = (view, index);
                let all = demand.millirps();
                let sum: u64 = legs.iter().map(|l| l.demand_mrps).sum();
                let room = serves(plan, request, b);
                let fits = legs.iter().all(|l| room.contains_key(&l.to_site));
                if sum == all && fits {
                    for leg in legs.iter().filter(|l| l.demand_mrps > 0) {
                        let share = Ratio::new(i128::from(leg.demand_mrps), i128::from(all));
                        *expected.entry((None, Some(leg.to_site.clone()))).or_default() += share;
                    }
                } else {
                    expected.insert((None, None), one);
                }
            }
        },
        (Some(a), None) => expected.extend(shares(a).into_iter().map(|(from, f)| ((Some(from), None), f))),
        (None, None) => {}
    }
    expected
}

/// What each site of a service can serve, less what all its regions' legs ask of it; a site asked for too much is left out.
fn serves(plan: &Plan, request: &Request, part: usize) -> BTreeMap<PointName, u64> {
    let component = &request.order.components[part];
    let each = component.service.as_ref().map_or(0, |s| s.serves.millirps());
    let mut room: BTreeMap<PointName, u64> =
        by_site(plan, part).into_iter().map(|(s, n)| (s.clone(), each.saturating_mul(u64::from(n)))).collect();
    for leg in &plan.flows {
        let flow = request.order.flows.get(leg.flow as usize);
        if flow.is_some_and(|f| f.to == End::Component(component.name.clone())) {
            match room.get(&leg.to_site).and_then(|r| r.checked_sub(leg.demand_mrps)) {
                Some(left) => room.insert(leg.to_site.clone(), left),
                None => room.remove(&leg.to_site),
            };
        }
    }
    room
}

fn rate(
    found: &mut Found,
    flow: &Flow,
    (rate, local): (u64, bool),
    phase: Phase,
    share: Ratio,
    policy: &Policy,
    ends: &str,
) {
    if local {
        found.check(rate == 0, "rate", || format!("{ends}: {rate} kbps without a path"));
        return;
    }
    match flow.rate {
        Some(whole) => {
            let expected = (Ratio::from_integer(i128::from(whole.kbps())) * share).ceil().to_integer();
            found.check(i128::from(rate) == expected, "rate", || format!("{ends}: {rate} kbps, not {expected}"));
        }
        None if phase == Phase::Run => found.check(rate == 0, "rate", || format!("{ends}: {rate} kbps not asked for")),
        None => {
            let rung = RUNGS_MBPS.iter().any(|m| m * 1000 == rate) && rate <= policy.staging_max.kbps();
            found.check(rung, "rate", || format!("{ends}: {rate} kbps is no rung"));
        }
    }
}

fn links<'v>(view: &'v View, path: &[LinkId]) -> Option<Vec<(PointName, PointName, &'v ViewLink)>> {
    path.iter()
        .map(|id| {
            let edge = *view.links.get(id)?;
            let (from, to) = view.graph.edge_endpoints(edge)?;
            Some((view.graph[from].name.clone(), view.graph[to].name.clone(), &view.graph[edge]))
        })
        .collect()
}

/// One path of a leg; its latency, with a region's access.
#[allow(clippy::too_many_arguments)] // all that a path is checked against
fn path(
    found: &mut Found,
    view: &View,
    request: &Request,
    policy: &Policy,
    flow: &Flow,
    leg: &Leg,
    ids: &[LinkId],
    ends: &str,
) -> u64 {
    for (end, at) in [(&flow.from, &leg.from_site), (&flow.to, &leg.to_site)] {
        let right = match end {
            End::Component(_) => true,
            End::Dataset(name) => view.datasets.get(name).is_some_and(|d| d.at.contains(at)),
            End::Region(name) => view.regions.get(name).is_some_and(|r| &r.at == at),
        };
        found.check(right, "ends", || format!("{ends}: {end} is not at {at}"));
    }
    let Some(links) = links(view, ids) else {
        found.add("path", format!("{ends}: unknown link"));
        return 0;
    };
    let mut at = leg.from_site.clone();
    let mut seen: BTreeSet<PointName> = [at.clone()].into();
    let constraints = &request.order.constraints;
    let within = &constraints.jurisdictions;
    let mut latency = 0_u64;
    for (from, to, link) in &links {
        found.check(*from == at, "path", || format!("{ends}: {} does not begin at {at}", link.id));
        found.check(seen.insert(to.clone()), "path", || format!("{ends}: passes {to} twice"));
        at = to.clone();
        latency += link.latency.micros();
        found.check(!link.stale || policy.allow_stale, "stale", || format!("{ends}: {}", link.id));
        let secret = (constraints.encrypted || flow.encrypted) && !policy.overlay_encrypts;
        found.check(!secret || link.encrypted, "encryption", || format!("{ends}: {}", link.id));
        let crossed = within.is_empty()
            || (!link.jurisdictions.is_empty() && link.jurisdictions.iter().all(|j| within.contains(j)));
        found.check(crossed, "jurisdiction", || format!("{ends}: {}", link.id));
    }
    found.check(at == leg.to_site, "path", || format!("{ends}: ends at {at}"));
    if !within.is_empty() && !links.is_empty() {
        for point in &seen {
            let of = view.points.get(point).and_then(|p| view.graph[*p].jurisdiction.as_ref());
            found.check(of.is_some_and(|j| within.contains(j)), "jurisdiction", || format!("{ends}: {point}"));
        }
    }
    let access: u64 = [&flow.from, &flow.to]
        .into_iter()
        .filter_map(|end| if let End::Region(name) = end { view.regions.get(name) } else { None })
        .map(|r| r.access.micros())
        .sum();
    latency += access;
    found.check(flow.max_latency.is_none_or(|m| latency <= m.micros()), "latency", || format!("{ends}: {latency} us"));
    latency
}

/// From the first byte staged until all is over; a service is never over.
fn held_in(order: &Order, plan: &Plan) -> Slots {
    let staged = plan.flows.iter().filter(|l| l.volume_bytes > 0).map(booking::micros).max().unwrap_or(0);
    let from = plan.start.checked_sub(SignedDuration::from_micros(staged)).unwrap_or(plan.start);
    if order.components.iter().any(|c| c.service.is_some()) {
        Slots::from(from)
    } else {
        Slots::touched(from, plan.finish)
    }
}

/// Inbound staging, run and outbound staging: what runs is held until the results are out.
fn capacity(found: &mut Found, view: &View, slots: Slots, carried: &[Carried]) {
    for phase in [Phase::Inbound, Phase::Run, Phase::Outbound] {
        let mut held: BTreeMap<&LinkId, u64> = BTreeMap::new();
        let counts = |p: Phase| p == phase || (phase == Phase::Outbound && p == Phase::Run);
        for c in carried.iter().filter(|c| counts(c.phase)) {
            for id in c.leg.path.iter().chain(&c.leg.backup) {
                *held.entry(id).or_insert(0) += c.leg.rate_kbps;
            }
        }
        for (id, sum) in held {
            let free = view.links.get(id).map_or(Bandwidth::ZERO, |e| view.graph[*e].free_in(slots));
            found.check(sum <= free.kbps(), "link_capacity", || format!("{id}: {sum} kbps of {free} in {phase:?}"));
        }
    }
}
