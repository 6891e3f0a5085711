//! One link: wider, quicker, encrypted, or with fresh figures.
//!
//! Where the ends of a flow do not reach each other, every link that a rule bars is asked whether it would join what is
//! reached from one end to what reaches the other: two passes over the network for each flow and rule.

use super::super::{Found, Trial, found, inquest, relative, threshold, whole};
use crate::{
    network::Direction,
    problem::{Place, Problem, Relax},
    reach::{FAR, Reach, Rules},
    sieve::{self, Kept, Sieve},
};
use rhumb_model::{Bandwidth, Latency, ratio::Ratio};
use std::rc::Rc;

/// Links that are tried for one kind of change.
const LINKS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Capacity,
    Latency,
    Encrypted,
    Fresh,
}

pub(super) fn changes(trial: &Trial, all: &mut Vec<Found>) {
    for kind in [Kind::Capacity, Kind::Latency, Kind::Encrypted, Kind::Fresh] {
        all.extend(change(trial, kind));
    }
}

/// A link that would join the ends of a flow.
struct Bridge {
    edge: u32,
    share: Ratio,
    /// What it must be able to carry in kbit/s, or how long it may take in microseconds.
    value: u64,
}

fn change(trial: &Trial, kind: Kind) -> Option<Found> {
    let base = trial.base();
    let asked = match kind {
        Kind::Capacity => base.streams.iter().any(|s| s.kbps.is_some_and(|k| k > 0)),
        Kind::Latency => base.streams.iter().any(|s| s.bound.is_some()),
        Kind::Encrypted => base.streams.iter().any(|s| s.encrypted),
        Kind::Fresh => trial.inquest.reach.any_old(),
    };
    if !asked {
        return None;
    }
    let relax = match kind {
        Kind::Capacity => Relax { bandwidth: true, ..Relax::default() },
        Kind::Latency => Relax { latency: true, ..Relax::default() },
        Kind::Encrypted => Relax { encryption: true, ..Relax::default() },
        Kind::Fresh => Relax { stale: true, ..Relax::default() },
    };
    // sites that everything else allows
    let problem = base.variant(trial.order(), relax, |request, i| base.parts[i].again(request, i));
    let kept = Sieve::new(&problem, &trial.inquest.reach).kept()?;
    let mut bridges = bridges(trial, kind, &kept);
    if bridges.is_empty() && kind == Kind::Capacity {
        bridges.extend(overfull(trial, relax).and_then(|bridge| least(trial, &bridge)));
    }
    bridges.sort_by(|a, b| a.share.cmp(&b.share).then(a.edge.cmp(&b.edge)));
    bridges.dedup_by_key(|b| b.edge);
    let mut best: Option<Found> = None;
    for bridge in bridges.into_iter().take(LINKS) {
        if best.as_ref().is_some_and(|b| b.relative < bridge.share) {
            break;
        }
        if let Some(found) = proved(trial, kind, &bridge)
            && best.as_ref().is_none_or(|b| found.change.cost_micros < b.change.cost_micros)
        {
            best = Some(found);
        }
    }
    best
}

/// Links that would each join the ends of the first flow whose ends do not reach each other.
fn bridges(trial: &Trial, kind: Kind, kept: &Kept) -> Vec<Bridge> {
    let base = trial.base();
    let reach = &trial.inquest.reach;
    for stream in &base.streams {
        let points = |place: &Place| -> Rc<[u32]> {
            match place {
                Place::Points(points) => Rc::clone(points),
                Place::Part(part) => {
                    let sites = &kept[*part];
                    (0..sites.len()).filter(|s| sites[*s]).map(|s| base.site_point(s)).collect()
                }
            }
        };
        if stream.from == stream.to {
            continue;
        }
        let part = |place: &Place| if let Place::Part(p) = place { Some(*p) } else { None };
        let (Some(first), second) = (match (part(&stream.from), part(&stream.to)) {
            (Some(a), b) => (Some(a), b),
            (None, b) => (b, None),
        }) else {
            continue;
        };
        let kbps = sieve::least_kbps(base, stream, &base.parts[first], second.map(|p| &base.parts[p]));
        let (from, to) = (points(&stream.from), points(&stream.to));
        let on = reach.quickest(stream, Rules::ALL, kbps, &from, Direction::Against);
        let limit = if stream.hopeless { 0 } else { stream.bound.unwrap_or(FAR - 1) };
        if to.iter().any(|p| on[*p as usize] <= limit) {
            continue;
        }
        let back = reach.quickest(stream, Rules::ALL, kbps, &to, Direction::Along);
        let mut found = Vec::new();
        for (edge, e) in (0_u32..).zip(&base.net.edges) {
            let (before, after) = (on[e.from as usize], back[e.to as usize]);
            let Some(rest) = before.checked_add(after).filter(|r| *r <= limit) else { continue };
            let plain = Rules { encryption: false, ..Rules::ALL };
            let old = Rules { fresh: false, ..Rules::ALL };
            let clear = |rules| reach.bars(stream, rules, edge) == 0;
            let wide = e.free >= kbps;
            let quick = rest.saturating_add(e.latency) <= limit;
            let bridge = match kind {
                Kind::Capacity if clear(Rules::ALL) && !wide && quick => {
                    let whole = base.link(edge).capacity.kbps();
                    Bridge { edge, share: relative(whole, whole + kbps - e.free), value: kbps }
                }
                Kind::Latency if clear(Rules::ALL) && wide && !quick => {
                    Bridge { edge, share: relative(e.latency, limit - rest), value: limit - rest }
                }
                Kind::Encrypted if !clear(Rules::ALL) && clear(plain) && wide && quick => {
                    Bridge { edge, share: whole(), value: e.latency }
                }
                Kind::Fresh if !clear(Rules::ALL) && clear(old) && wide && quick => {
                    Bridge { edge, share: whole(), value: e.latency }
                }
                _ => continue,
            };
            found.push(bridge);
        }
        if matches!(kind, Kind::Encrypted | Kind::Fresh) {
            // of equals the quickest way round
            found.sort_by_key(|b| (b.value, b.edge));
            found.truncate(LINKS);
        }
        return found;
    }
    Vec::new()
}

/// The link that the plan there would be overfills if links had no limit.
fn overfull(trial: &Trial, relax: Relax) -> Option<Bridge> {
    let problem = inquest::sieved(trial.base().relaxed(relax), &trial.inquest.reach)?;
    let outcome =
        crate::search::search(&problem, crate::search::Aim { nodes: Some(super::super::NODES), ..Default::default() });
    let (_, id, needed, _) = crate::telling::overfull(&problem, outcome.solution.as_ref()?)?;
    let edges = 0..trial.base().net.edges.len() as u32;
    let edge = edges.into_iter().find(|e| trial.base().link(*e).id == id)?;
    let e = &trial.base().net.edges[edge as usize];
    let whole = trial.base().link(edge).capacity.kbps();
    Some(Bridge { edge, share: relative(whole, whole + needed - e.free), value: needed })
}

/// The least that the link must carry.
fn least(trial: &Trial, bridge: &Bridge) -> Option<Bridge> {
    let base = trial.base();
    let free = base.net.edges[bridge.edge as usize].free;
    let enough = |kbps: u64| {
        let net = base.net.with(|edges| edges[bridge.edge as usize].free = kbps);
        let mut problem = base.variant(trial.order(), Relax::default(), |request, i| base.parts[i].again(request, i));
        problem.net = &net;
        let reach = Reach::new(&problem);
        trial.solve(problem, &reach, true, |_, _| ()).is_some()
    };
    let value = threshold::nearest((free, bridge.value), Some(bridge.value), false, 1, enough)?;
    let whole = base.link(bridge.edge).capacity.kbps();
    Some(Bridge { edge: bridge.edge, share: relative(whole, whole + value - free), value })
}

/// The change, if placing again with it succeeds.
fn proved(trial: &Trial, kind: Kind, bridge: &Bridge) -> Option<Found> {
    let base = trial.base();
    let edge = bridge.edge;
    let link = base.link(edge);
    let at = |key: &str| format!("/links/{}/{key}", link.id);
    let problem = base.variant(trial.order(), Relax::default(), |request, i| base.parts[i].again(request, i));
    match kind {
        Kind::Encrypted | Kind::Fresh => {
            let fresh = kind == Kind::Fresh;
            let net = base.net.with(|edges| {
                let link = &mut edges[edge as usize];
                (link.stale, link.encrypted) = (link.stale && !fresh, link.encrypted || !fresh);
            });
            let total = on(trial, &net, problem)?;
            Some(if fresh {
                found(bridge.share, at("stale"), true, false, total)
            } else {
                found(bridge.share, at("encrypted"), false, true, total)
            })
        }
        Kind::Capacity => {
            let more = bridge.value.checked_sub(base.net.edges[edge as usize].free)?;
            let net = base.net.with(|edges| edges[edge as usize].free = bridge.value);
            let total = on(trial, &net, problem)?;
            let to = Bandwidth::from_kbps(link.capacity.kbps().checked_add(more)?);
            Some(found(bridge.share, at("capacity"), link.capacity, to, total))
        }
        Kind::Latency => {
            let net = base.net.with(|edges| edges[edge as usize].latency = bridge.value);
            let total = on(trial, &net, problem)?;
            Some(found(bridge.share, at("latency"), link.latency, Latency::from_micros(bridge.value), total))
        }
    }
}

fn on<'b>(trial: &Trial, net: &'b crate::network::Network, mut problem: Problem<'b>) -> Option<i64> {
    problem.net = net;
    let reach = Reach::new(&problem);
    trial.solve(problem, &reach, false, |_, s| s.terms.total)
}
