//! A path and its backup, together the cheapest: they share no link in either direction and no risk group.
//!
//! With risk groups the question is NP-hard, and with a bound on the delay as well. Paths are tried cheapest first, each
//! with its cheapest backup; the search ends, proved, when a path and the cheapest backup that any path has cost more
//! than the best pair known.

use super::{Found, More, flow, held, tree};
use crate::{
    legs::Leg,
    network::{Direction, Price},
    option::{self, Choice, Cut, Ends, Look, Matter},
    path::{self, Ask, Route, Wanted},
    problem::Problem,
};
use num_traits::{CheckedDiv, CheckedMul};
use rhumb_model::ratio::Ratio;
use std::{cmp::Reverse, collections::BTreeSet, rc::Rc};

/// How many paths are tried, in rounds: each round lists the paths anew.
const ROUNDS: [usize; 3] = [8, 64, 256];

/// Paths, and backups of each, that are looked at where links are shared with other legs.
const WIDE: usize = 24;
const BACKUPS: usize = 6;

/// A pair in units of price: nine for a path's price of a volume, as `Price::Volume` counts.
#[derive(Debug)]
struct Pair {
    cost: i128,
    primary: Rc<[u32]>,
    latency: u64,
    backup: Vec<u32>,
}

/// Pairs of one rate.
#[derive(Debug)]
pub(crate) struct Pairs {
    list: Vec<Pair>,
    /// The cheapest is among them.
    cheapest: bool,
    /// Whatever else there is costs more, and more than the time that it saves is worth.
    all: bool,
    /// No path is quicker, in microseconds.
    quickest: u64,
}

/// What it depends on whether there are two paths: price, rate, walk, ends, and the set of allowed links by its address.
pub(crate) type Two = (Price, u64, Direction, u32, Rc<[u32]>, usize);

/// What pairs of a leg depend on: stream, ends, class of the rate, what of time is worth trying, and how far to look.
pub(crate) type Key = (usize, u32, Rc<[u32]>, Option<u64>, Option<i128>, bool);

pub(crate) fn protected(problem: &Problem, leg: &Leg, ends: &Ends, look: Look) -> Found {
    let rungs = option::rungs(problem, leg);
    let matter = match look {
        Look::Best(..) if !option::timed(problem, leg) => Matter::None,
        Look::Best(matter, _) => matter,
        Look::Wide(..) => Matter::Any,
    };
    let mut found = Found::default();
    let mut floor = |pairs: &Pairs, kbps: u64, all: bool| {
        if !all {
            let first = pairs.list.first().filter(|_| pairs.cheapest);
            let least = match first {
                Some(pair) => choice(problem, leg, ends, pair, kbps),
                None => option::floor(problem, leg, ends, kbps),
            };
            found.floors.extend(least.map(|c| option::quickly(problem, leg, c, kbps, pairs.quickest)));
        }
    };
    if matter == Matter::None {
        let Some(lowest) = rungs.last() else { return found };
        let pairs = known(problem, leg.stream, ends, *lowest, Some(0), Look::Best(Matter::None, Cut::default()));
        floor(&pairs, *lowest, pairs.cheapest);
        if let Some(best) = pairs.list.first() {
            let free = best.primary.iter().chain(&best.backup).map(|e| problem.net.edges[*e as usize].free).min();
            let carried = |r: &&u64| problem.relax.bandwidth || free.is_some_and(|f| **r <= f);
            let kbps = rungs.iter().find(carried).unwrap_or(lowest);
            found.choices.extend(choice(problem, leg, ends, best, *kbps));
        }
        return found;
    }
    let mut last = None;
    let mut choices = Vec::new();
    for kbps in &rungs {
        let class = problem.net.class(*kbps);
        let skip = matter == Matter::Sooner && last == Some(class);
        if skip || (class.is_none() && !problem.relax.bandwidth) {
            continue;
        }
        last = Some(class);
        let pairs = match look {
            Look::Best(Matter::Sooner, _) => known(problem, leg.stream, ends, *kbps, worth(problem, leg), look),
            _ => known(problem, leg.stream, ends, *kbps, None, look),
        };
        floor(&pairs, *kbps, pairs.all);
        choices.extend(pairs.list.iter().filter_map(|p| choice(problem, leg, ends, p, *kbps)));
    }
    found.choices = choices;
    option::sort(&mut found.choices);
    if matches!(look, Look::Best(Matter::Sooner, _)) {
        option::keep_sooner(&mut found.choices);
    }
    found
}

/// The pairs of a rate, searched once; `worth` as `worth` has it.
fn known(problem: &Problem, stream: usize, ends: &Ends, kbps: u64, worth: Option<i128>, look: Look) -> Rc<Pairs> {
    let wide = matches!(look, Look::Wide(..));
    let key: Key = (stream, ends.start, Rc::clone(&ends.roots), problem.net.class(kbps), worth, wide);
    if let Some(pairs) = problem.pairs.borrow().get(&key) {
        return Rc::clone(pairs);
    }
    let pairs = Rc::new(search(problem, stream, ends, kbps, worth, look));
    problem.pairs.borrow_mut().insert(key, Rc::clone(&pairs));
    pairs
}

/// What a microsecond is worth, in units of price, rounded up to a power of two. `None`: more than money hangs on it.
fn worth(problem: &Problem, leg: &Leg) -> Option<i128> {
    if problem.deadline.is_some() || leg.volume <= Ratio::from_integer(0) {
        return None;
    }
    // micro-units a microsecond, over micro-units for a unit of price of this volume
    let unit = leg.volume.checked_div(&Ratio::from_integer(problem.net.scale.checked_mul(9_000_000_000)?))?;
    let units = problem.value.checked_mul(&Ratio::from_integer(1_000))?.checked_div(&unit)?.ceil().to_integer();
    i128::try_from(u128::try_from(units).ok()?.checked_next_power_of_two()?).ok()
}

fn choice(problem: &Problem, leg: &Leg, ends: &Ends, pair: &Pair, kbps: u64) -> Option<Choice> {
    let (root, _) = option::shape(problem, ends, &pair.primary);
    let alone = option::choice(problem, leg, ends, &pair.primary, root, pair.latency, kbps)?;
    let held = option::holding(problem, leg, &pair.backup, kbps)?;
    let mut both = alone.holding(&held)?;
    both.more = Some(Rc::new(More::backup(&pair.primary, pair.backup.clone(), kbps)));
    Some(both)
}

/// Whether two paths that share no link could join the ends within the bound, by the sum of their delays; risk groups left
/// aside.
fn are_two(problem: &Problem, ask: &Ask, roots: &[u32], start: u32, bound: Option<u64>) -> bool {
    let net = problem.net;
    let within = |sum: Option<i128>| sum.is_some_and(|s| bound.is_none_or(|b| s <= 2 * i128::from(b)));
    let key = (ask.price, ask.kbps, ask.walk, start, Rc::<[u32]>::from(roots), ask.allowed.as_ptr() as usize);
    if let Some(known) = problem.twos.borrow().get(&key) {
        return within(*known);
    }
    let room: Vec<u64> = (0..net.edges.len() as u32).map(|e| u64::from(ask.takes(net, e))).collect();
    let latency = |e: u32| i64::try_from(net.edges[e as usize].latency).unwrap_or(i64::MAX >> 20);
    let pipes = flow::Pipes { net, room: &room, price: &latency };
    let sum = |from: &[u32], to: u32| flow::cheapest(&pipes, from, to, 2).map(|(sum, _)| sum);
    let least = match ask.walk {
        Direction::Against => sum(roots, start),
        Direction::Along => roots.iter().filter_map(|root| sum(&[start], *root)).min(),
    };
    problem.twos.borrow_mut().insert(key, least);
    within(least)
}

fn search(problem: &Problem, stream: usize, ends: &Ends, kbps: u64, worth: Option<i128>, look: Look) -> Pairs {
    let (net, stream) = (problem.net, &problem.streams[stream]);
    let mut pairs = Pairs { list: Vec::new(), cheapest: true, all: true, quickest: 0 };
    let Some(ask) = problem.ask(stream, kbps, ends.walk) else { return pairs };
    let paths = problem.tree(stream, &ask, &ends.roots);
    let second = Ask { price: held(ask.price), ..ask };
    if !are_two(problem, &ask, &ends.roots, ends.start, stream.bound) {
        return pairs;
    }
    let factor = if ask.price == Price::Volume { 20 } else { 1 };
    // no backup costs less, whatever the path
    let any = tree(&second, &ends.roots);
    let least = path::routes(net, &second, &any, ends.start, stream.bound, Wanted::Cheapest).0.first().map(|r| r.cost);
    let Some(least) = least.map(|c| i128::from(c) * factor) else { return pairs };
    let (wide, most) = match look {
        Look::Best(..) => (false, ROUNDS[ROUNDS.len() - 1]),
        Look::Wide(n, _) => (true, n.clamp(1, WIDE)),
    };
    pairs.quickest = paths.quickest(net, &ask, ends.start).unwrap_or(0);
    // the cheapest pair, and how much dearer one may be that is quicker and still of use
    let mut best: Option<(i128, i128)> = None;
    let limit = |best: Option<(i128, i128)>| best.map(|(cost, more)| cost.saturating_add(more));
    let mut seen = 0;
    for round in ROUNDS.into_iter().map(|n| n.min(most)) {
        let (routes, every) =
            path::alternatives(net, &ask, &paths, ends.start, stream.bound, (round, round.saturating_mul(64), None));
        let mut done = every;
        for route in routes.iter().skip(seen) {
            if !wide && limit(best).is_some_and(|l| i128::from(route.cost) + least > l) {
                done = true;
                break;
            }
            let (backups, all) = backups(problem, &second, route, ends, stream.bound, look);
            pairs.all &= all;
            for backup in backups {
                let cost = i128::from(route.cost) + i128::from(backup.cost) * factor;
                let more =
                    i128::from(route.latency - pairs.quickest.min(route.latency)).saturating_mul(worth.unwrap_or(0));
                best = best.into_iter().chain([(cost, more)]).min();
                let primary = route.edges.clone().into();
                pairs.list.push(Pair { cost, primary, latency: route.latency, backup: backup.edges });
            }
        }
        seen = routes.len();
        // paths that were not listed cost at least as much as the last of those that were
        let next = routes.last().map_or(0, |r| i128::from(r.cost)) + least;
        pairs.cheapest = done || best.is_some_and(|(cost, _)| cost <= next);
        let beyond = done || limit(best).is_some_and(|l| l <= next);
        let quick = best.is_some_and(|(_, more)| more == 0) && worth.is_some();
        // beyond the first round equals are no longer looked for
        if done || round >= most || (!wide && beyond) {
            pairs.all &= if wide { every } else { (beyond && worth.is_some()) || every || (quick && pairs.cheapest) };
            break;
        }
    }
    let key = |p: &Pair| (p.cost, p.primary.len() + p.backup.len(), p.primary.clone(), Reverse(p.latency));
    pairs.list.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.backup.cmp(&b.backup)));
    pairs
}

/// Backups of a path, cheapest first, and whether they are all that could matter.
fn backups(
    problem: &Problem,
    ask: &Ask,
    primary: &Route,
    ends: &Ends,
    bound: Option<u64>,
    look: Look,
) -> (Vec<Route>, bool) {
    let net = problem.net;
    let apart = apart(problem, ask.allowed, &primary.edges);
    let ask = Ask { allowed: &apart, ..*ask };
    let root = match ends.walk {
        Direction::Against => primary.edges.first().map(|e| net.edges[*e as usize].from),
        Direction::Along => primary.edges.last().map(|e| net.edges[*e as usize].to),
    };
    let Some(root) = root else { return (Vec::new(), true) };
    let tree = tree(&ask, &[root]);
    if matches!(look, Look::Wide(..)) {
        return path::alternatives(net, &ask, &tree, ends.start, bound, (BACKUPS, BACKUPS * 64, None));
    }
    path::routes(net, &ask, &tree, ends.start, bound, Wanted::Cheapest)
}

/// The links that share nothing with a path: not itself, not its other half, no risk group.
fn apart(problem: &Problem, allowed: &[bool], primary: &[u32]) -> Vec<bool> {
    let links = || primary.iter().map(|e| problem.link(*e));
    let ids: BTreeSet<_> = links().map(|l| &l.id).collect();
    let halves: BTreeSet<_> = links().filter_map(|l| l.link.reverse.as_ref()).collect();
    let risks: BTreeSet<_> = links().flat_map(|l| &l.srlg).collect();
    let takes = |edge: usize| {
        let link = problem.link(edge as u32);
        !ids.contains(&link.id) && !halves.contains(&link.id) && !link.srlg.iter().any(|s| risks.contains(s))
    };
    allowed.iter().enumerate().map(|(edge, allowed)| *allowed && takes(edge)).collect()
}
