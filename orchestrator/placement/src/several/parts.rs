//! A leg divided over several paths: their rates sum to the leg's, and each keeps the bound on the delay.
//!
//! Cost is linear in the rate, so a leg whose cheapest path carries it all takes that path. Otherwise a min-cost flow
//! decides, and where one of its paths is too slow, a linear programme over the paths that are quick enough.

use super::{Found, More, Part, flow, simplex};
use crate::{
    legs::Leg,
    network::{Direction, Price},
    option::{self, Choice, Ends, Look, Matter},
    path::{self, Ask, Route},
    problem::Problem,
};
use std::{collections::BTreeMap, rc::Rc};

/// Paths that a linear programme is put to.
const PATHS: usize = 48;

/// `room`: kbit/s that each link still has, by edge ordinal.
pub(crate) fn split(problem: &Problem, leg: &Leg, ends: &Ends, look: Look, room: &dyn Fn(u32) -> u64) -> Found {
    let stream = &problem.streams[leg.stream];
    let timed = option::timed(problem, leg);
    let mut found = Found::default();
    for kbps in option::rungs(problem, leg) {
        let Some(ask) = problem.ask(stream, kbps, ends.walk) else { continue };
        let untimed = !timed || matches!(look, Look::Best(Matter::None, _));
        let divided = divide(problem, leg, ends, &ask, kbps, untimed, room);
        let ways: Vec<Choice> =
            divided.ways.iter().filter_map(|parts| choice(problem, leg, ends, parts, kbps)).collect();
        if !divided.all {
            let cheapest = ways.iter().min_by(|a, b| a.cost.cmp(&b.cost)).filter(|_| divided.cheapest).cloned();
            let least = cheapest.or_else(|| option::floor(problem, leg, ends, kbps));
            let tree = problem.tree(stream, &ask, &ends.roots);
            let quickest = tree.quickest(problem.net, &ask, ends.start).unwrap_or(0);
            found.floors.extend(least.map(|c| option::quickly(problem, leg, c, kbps, quickest)));
        }
        found.choices.extend(ways);
    }
    option::sort(&mut found.choices);
    match look {
        Look::Best(Matter::None, _) => found.choices.truncate(1),
        Look::Best(Matter::Sooner, _) => option::keep_sooner(&mut found.choices),
        _ => {}
    }
    found
}

/// Ways to divide one rate.
#[derive(Default)]
struct Divided {
    ways: Vec<Vec<Part>>,
    /// The cheapest is among them.
    cheapest: bool,
    /// Nothing that matters was left out.
    all: bool,
}

fn divide(
    problem: &Problem,
    leg: &Leg,
    ends: &Ends,
    ask: &Ask,
    kbps: u64,
    untimed: bool,
    room: &dyn Fn(u32) -> u64,
) -> Divided {
    let (net, stream) = (problem.net, &problem.streams[leg.stream]);
    let tree = problem.tree(stream, ask, &ends.roots);
    let wanted = if untimed { path::Wanted::Cheapest } else { path::Wanted::Front(path::Limits::default()) };
    let (single, front) = path::routes(net, ask, &tree, ends.start, stream.bound, wanted);
    let carries = |r: &Route| problem.relax.bandwidth || r.edges.iter().all(|e| room(*e) >= kbps);
    let part = |edges: &[u32], kbps: u64| -> Part {
        Part { edges: edges.to_vec(), kbps, latency: edges.iter().map(|e| net.edges[*e as usize].latency).sum() }
    };
    let alone: Vec<Vec<Part>> = single.iter().filter(|r| carries(r)).map(|r| vec![part(&r.edges, kbps)]).collect();
    if alone.len() == single.len() {
        return Divided { ways: alone, cheapest: true, all: front };
    }
    let mut divided = Divided { ways: alone, ..Divided::default() };
    let of_edge = |e: u32| ask.price.of(&net.edges[e as usize]);
    let open: Vec<u64> =
        (0..net.edges.len() as u32).map(|e| if ask.allowed[e as usize] { room(e) } else { 0 }).collect();
    let pipes = flow::Pipes { net, room: &open, price: &of_edge };
    let least = match ends.walk {
        Direction::Against => flow::cheapest(&pipes, &ends.roots, ends.start, kbps),
        Direction::Along => {
            let each = ends.roots.iter().filter_map(|r| flow::cheapest(&pipes, &[ends.start], *r, kbps));
            each.min_by_key(|(cost, _)| *cost)
        }
    };
    // what the links do not carry at all they do not carry quickly
    let Some((_, streams)) = least else { return Divided { cheapest: true, all: true, ..divided } };
    let parts: Vec<Part> = streams.iter().map(|s| part(&s.edges, s.kbps)).collect();
    let within = |limit: Option<u64>| parts.iter().all(|p| limit.is_none_or(|l| p.latency <= l));
    if within(stream.bound) {
        divided.cheapest = true;
        divided.all = untimed || within(tree.quickest(net, ask, ends.start));
        divided.ways.push(parts);
    }
    if divided.all {
        return divided;
    }
    let (listed, every) = path::alternatives(net, ask, &tree, ends.start, stream.bound, (PATHS, PATHS * 64, None));
    let mut limits: Vec<u64> = listed.iter().map(|r| r.latency).collect();
    limits.sort_unstable();
    limits.dedup();
    if untimed {
        limits = limits.last().copied().into_iter().collect();
    }
    let mut exact = every && front;
    for limit in limits {
        // all paths of a leg begin, or end, at one copy
        let mut by_root: BTreeMap<u32, Vec<&Route>> = BTreeMap::new();
        for route in listed.iter().filter(|r| r.latency <= limit) {
            by_root.entry(route.root).or_default().push(route);
        }
        for routes in by_root.values() {
            if let Some((rates, whole)) = programme(routes, kbps, &open) {
                exact &= whole;
                if rates.is_empty() {
                    continue;
                }
                let used = routes.iter().zip(rates).filter(|(_, n)| *n > 0);
                divided.ways.push(used.map(|(r, n)| part(&r.edges, n)).collect());
            }
        }
    }
    divided.cheapest |= exact;
    divided.all = exact;
    divided
}

/// Rates on the paths at the least cost, and whether the best needs no fraction of a kbit/s; no rates where only fractions
/// would do. `None`: the paths do not carry it.
fn programme(routes: &[&Route], kbps: u64, open: &[u64]) -> Option<(Vec<u64>, bool)> {
    let mut on: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (i, route) in routes.iter().enumerate() {
        route.edges.iter().for_each(|e| on.entry(*e).or_default().push(i));
    }
    let limits: Vec<(Vec<usize>, u64)> =
        on.into_iter().filter(|(e, _)| open[*e as usize] < kbps).map(|(e, p)| (p, open[e as usize])).collect();
    let cost: Vec<i64> = routes.iter().map(|r| r.cost).collect();
    let exact = simplex::rates(&cost, &limits, kbps)?;
    let mut rates: Vec<u64> = exact.iter().map(|r| u64::try_from(r.floor().to_integer()).unwrap_or(0)).collect();
    let mut left = kbps - rates.iter().sum::<u64>().min(kbps);
    let whole = left == 0;
    // what fractions leave over goes to the cheapest paths that have room
    let mut order: Vec<usize> = (0..routes.len()).collect();
    order.sort_by_key(|i| (cost[*i], *i));
    for i in order {
        let taken = |p: &Vec<usize>| p.iter().map(|q| rates[*q]).sum::<u64>();
        let room = limits.iter().filter(|(p, _)| p.contains(&i)).map(|(p, room)| room - taken(p)).min();
        let more = room.unwrap_or(left).min(left);
        rates[i] += more;
        left -= more;
    }
    Some(if left == 0 { (rates, whole) } else { (Vec::new(), false) })
}

fn choice(problem: &Problem, leg: &Leg, ends: &Ends, parts: &[Part], kbps: u64) -> Option<Choice> {
    let mut parts = parts.to_vec();
    let cost = |p: &Part| -> i64 {
        let price = problem.streams[leg.stream].price();
        p.edges.iter().map(|e| price.of(&problem.net.edges[*e as usize])).sum()
    };
    parts.sort_by_cached_key(|p| (cost(p), p.edges.len(), p.edges.clone()));
    if let [one] = &*parts {
        let (root, latency) = option::shape(problem, ends, &one.edges);
        return option::choice(problem, leg, ends, &one.edges.clone().into(), root, latency, kbps);
    }
    let first = parts.first()?;
    let (root, _) = option::shape(problem, ends, &first.edges);
    let slowest = parts.iter().map(|p| p.latency).max()?;
    let all: Rc<[u32]> = parts.iter().flat_map(|p| p.edges.iter().copied()).collect();
    let weighed: Vec<(u32, u64)> = parts.iter().flat_map(|p| p.edges.iter().map(|e| (*e, p.kbps))).collect();
    let mut choice = option::divided(problem, leg, ends, &all, (&weighed, kbps), (root, slowest, kbps))?;
    choice.more = Some(Rc::new(More::parts(parts)));
    Some(choice)
}

/// A leg that holds no rate has nothing to divide.
pub(crate) fn divides(problem: &Problem, leg: &Leg) -> bool {
    let stream = &problem.streams[leg.stream];
    stream.split && stream.price() != Price::Free
}
