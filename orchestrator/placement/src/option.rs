//! What one leg can choose: copy, path and rung, with exact cost and time.

use crate::{
    legs::{End, Leg},
    network::{Direction, Price},
    path::{self, Limits, Route, Wanted},
    problem::{HOUR, Problem, Span},
    several::{self, More},
};
use num_traits::{CheckedAdd, CheckedDiv, CheckedMul};
use rhumb_model::ratio::Ratio;
use std::rc::Rc;

#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub edges: Rc<[u32]>,
    /// First and last point of the path.
    pub from: u32,
    pub to: u32,
    /// 0: nothing is reserved.
    pub kbps: u64,
    /// Microseconds, with the region's access.
    pub latency: u64,
    /// Micro-units that the path costs: of a volume leg in all, of any other per nanosecond.
    pub path: Ratio,
    /// Micro-units.
    pub transfer: Ratio,
    /// `path + transfer`.
    pub cost: Ratio,
    /// Nanoseconds; 0 unless a volume moves.
    pub time: Ratio,
    /// Of a leg on several paths: what is beside the first. Then `edges` are those of all its parts, a backup's not.
    pub more: Option<Rc<More>>,
}

/// What the rest of the decision makes of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Matter {
    /// Time changes nothing that counts: the cheapest path, at the highest rung it carries.
    None,
    /// Sooner is never worse.
    Sooner,
    /// Prices change with the hour: later can be cheaper.
    Any,
}

/// A leg's ends as the path search sees them.
pub(crate) struct Ends {
    pub roots: Rc<[u32]>,
    pub start: u32,
    pub walk: Direction,
}

fn ends(problem: &Problem, leg: &Leg) -> Ends {
    match (&leg.from, &leg.to) {
        (End::Points(roots), End::Site(site)) => {
            Ends { roots: Rc::clone(roots), start: problem.site_point(*site), walk: Direction::Against }
        }
        (End::Site(site), End::Points(roots)) => {
            Ends { roots: Rc::clone(roots), start: problem.site_point(*site), walk: Direction::Along }
        }
        // rooted at the site of the component that is placed first, which has legs to many sites of the other
        (End::Site(from), End::Site(to)) if problem.streams[leg.stream].onto_earlier() => {
            Ends { roots: [problem.site_point(*to)].into(), start: problem.site_point(*from), walk: Direction::Along }
        }
        (End::Site(from), End::Site(to)) => {
            Ends { roots: [problem.site_point(*from)].into(), start: problem.site_point(*to), walk: Direction::Against }
        }
        (End::Points(_), End::Points(_)) => unreachable!("a flow touches a component"),
    }
}

/// How far a leg looks for paths.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Look {
    /// Paths that no other beats.
    Best(Matter, Cut),
    /// Also worse ones, for links that several legs share: up to this many for each rate; with a limit, of those that cost
    /// at most so much more than the cheapest (micro-units, of a leg that holds a rate for so many nanoseconds).
    Wide(usize, Option<(i128, Ratio)>),
}

/// Which paths that no other beats are of interest where time matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cut {
    /// Micro-units that a nanosecond less can save, at the most: a path that costs more than the cheapest must save as
    /// much. `None`: there is no telling.
    pub slope: Option<Ratio>,
    /// Micro-units that a path may cost more than the cheapest. `None`: any.
    pub extra: Option<i128>,
}

impl Cut {
    /// Whether what this one leaves has all that the other leaves.
    pub fn covers(&self, other: &Self) -> bool {
        let slope = self.slope.is_none_or(|mine| other.slope.is_some_and(|theirs| theirs <= mine));
        let extra = self.extra.is_none_or(|mine| other.extra.is_some_and(|theirs| theirs <= mine));
        slope && extra
    }
}

/// Choices of a leg, cheapest first; and, where some that could matter are left out, what they cost and take at the least.
pub(crate) fn choices(problem: &Problem, leg: &Leg, look: Look) -> (Vec<Choice>, Vec<Choice>) {
    let stream = &problem.streams[leg.stream];
    if stream.hopeless {
        return (Vec::new(), Vec::new());
    }
    let ends = ends(problem, leg);
    if ends.roots.contains(&ends.start) {
        let local = Route { edges: Vec::new(), root: ends.start, cost: 0, latency: 0 };
        return (choice(problem, leg, &ends, &local.edges.into(), ends.start, 0, 0).into_iter().collect(), Vec::new());
    }
    if stream.protected {
        let found = several::protected(problem, leg, &ends, look);
        return (found.choices, found.floors);
    }
    if several::divides(problem, leg) {
        let room = |e: u32| problem.net.edges[e as usize].free;
        let found = several::split(problem, leg, &ends, look, &room);
        return (found.choices, found.floors);
    }
    let mut found = Vec::new();
    let mut left_out: Option<Ratio> = None;
    let rungs = rungs(problem, leg);
    let one = match look {
        Look::Best(matter, _) => stream.span == Span::Run || matter == Matter::None,
        Look::Wide(..) => false,
    };
    if rungs.is_empty() {
        return (found, Vec::new());
    }
    if one {
        // a rung less opens more paths: the cheapest of all is among those of the lowest
        let lowest = rungs.last().copied().unwrap_or(0);
        if let Some((route, _)) = routes(problem, leg, &ends, lowest, CHEAPEST).0.into_iter().next() {
            let free = route.iter().map(|e| problem.net.edges[*e as usize].free).min().unwrap_or(0);
            let carried = rungs.iter().copied().find(|r| *r <= free || problem.relax.bandwidth).unwrap_or(lowest);
            let (root, latency) = shape(problem, &ends, &route);
            found.extend(choice(problem, leg, &ends, &route, root, latency, carried));
        }
        return (found, Vec::new());
    }
    // the paths of the last rung that was looked at, and what the narrowest of them carries: from the lowest rung up,
    // the paths stay as long as all of them carry the rung
    let mut paths: Paths = Vec::new();
    let mut carried: Option<u64> = None;
    let mut cheapest_cost: Option<Ratio> = None;
    let sooner = matches!(look, Look::Best(Matter::Sooner, _));
    for (index, kbps) in rungs.iter().copied().enumerate().rev() {
        if problem.net.class(kbps).is_none() && !problem.relax.bandwidth {
            continue;
        }
        if carried.is_none_or(|c| c < kbps) && !(problem.relax.bandwidth && carried.is_some()) {
            let complete;
            (paths, complete) = routes(problem, leg, &ends, kbps, look);
            if let (Look::Best(_, Cut { extra: Some(extra), .. }), Some(least)) = (look, &cheapest_cost) {
                // higher rungs have no cheaper paths
                let first = paths.first().and_then(|(edges, latency)| {
                    choice(problem, leg, &ends, edges, shape(problem, &ends, edges).0, *latency, kbps)
                });
                if first.is_some_and(|first| first.cost > *least + Ratio::from_integer(extra)) {
                    break;
                }
            }
            if !complete {
                let last = paths.last().and_then(|(edges, latency)| {
                    choice(problem, leg, &ends, edges, shape(problem, &ends, edges).0, *latency, kbps)
                });
                let cost = last.map_or(Ratio::from_integer(0), |c| c.cost);
                left_out = Some(left_out.map_or(cost, |l| l.min(cost)));
            } else if paths.is_empty() {
                // nor is there one for a higher rung
                break;
            }
            let free = |edges: &Rc<[u32]>| edges.iter().map(|e| problem.net.edges[*e as usize].free).min();
            // a list that was cut short says nothing of the next rung
            carried = paths.iter().filter_map(|(edges, _)| free(edges)).min().filter(|_| complete);
        }
        let higher = index.checked_sub(1).map(|next| rungs[next]).filter(|_| sooner);
        let carries = |edges: &Rc<[u32]>, rung: u64| edges.iter().all(|e| problem.net.edges[*e as usize].free >= rung);
        for (edges, latency) in &paths {
            // where sooner is never worse, a path takes the highest rung that it carries
            if higher.is_some_and(|rung| problem.relax.bandwidth || carries(edges, rung)) {
                continue;
            }
            // what a volume costs on a path is the same at all rungs
            let known = found.iter().rfind(|c| Rc::ptr_eq(&c.edges, edges)).cloned();
            let (root, _) = shape(problem, &ends, edges);
            found.extend(match known {
                Some(known) => at_rung(leg, known, *latency, kbps),
                None => choice(problem, leg, &ends, edges, root, *latency, kbps),
            });
        }
        if cheapest_cost.is_none() {
            cheapest_cost = found.first().map(|first| first.cost);
        }
    }
    sort(&mut found);
    if matches!(look, Look::Best(Matter::Sooner, _)) {
        keep_sooner(&mut found);
    }
    let least = left_out.and_then(|cost| found.first().map(|first| timeless(Choice { cost, ..first.clone() })));
    (found, least.into_iter().collect())
}

/// The same path of a volume leg at another rung.
fn at_rung(leg: &Leg, choice: Choice, latency: u64, kbps: u64) -> Option<Choice> {
    let moving = leg.volume.checked_mul(&Ratio::new(8_000_000, i128::from(kbps.max(1))))?;
    let time = moving.checked_add(&Ratio::from_integer(i128::from(latency) * 1000))?;
    Some(Choice { kbps, time, ..choice })
}

/// What a leg that divides may choose on the links that others leave it; the second as `choices` gives it.
pub(crate) fn remaining(problem: &Problem, leg: &Leg, room: &dyn Fn(u32) -> u64) -> (Vec<Choice>, Vec<Choice>) {
    let found = several::split(problem, leg, &ends(problem, leg), Look::Best(Matter::Any, Cut::default()), room);
    (found.choices, found.floors)
}

/// Rates that a leg may take, in kbit/s, highest first.
pub(crate) fn rungs(problem: &Problem, leg: &Leg) -> Vec<u64> {
    match (problem.streams[leg.stream].span, leg.kbps) {
        (Span::Run, kbps) => vec![kbps.unwrap_or(0)],
        (_, Some(kbps)) => vec![kbps],
        (_, None) => problem.rungs.clone(),
    }
}

/// Whether a choice takes time.
pub(crate) fn timed(problem: &Problem, leg: &Leg) -> bool {
    problem.streams[leg.stream].span != Span::Run
}

/// Cheapest first, of equals fewer links, smaller ids, the higher rung.
pub(crate) fn sort(found: &mut Vec<Choice>) {
    found.sort_by(|a, b| {
        (a.cost.cmp(&b.cost))
            .then(a.links().cmp(&b.links()))
            .then_with(|| a.ids().cmp(&b.ids()))
            .then(b.kbps.cmp(&a.kbps))
    });
    found.dedup_by(|a, b| a.kbps == b.kbps && a.ids() == b.ids() && a.loads().eq(b.loads()));
}

/// Drops choices that take no less time than a cheaper one.
pub(crate) fn keep_sooner(found: &mut Vec<Choice>) {
    let mut soonest: Option<Ratio> = None;
    found.retain(|c| {
        let better = soonest.is_none_or(|s| c.time < s);
        if better {
            soonest = Some(c.time);
        }
        better
    });
}

/// The cheapest choice at any rung, in the least time that any takes; of a leg on one path.
pub(crate) fn cheapest(problem: &Problem, leg: &Leg) -> Option<Choice> {
    let (found, _) = choices(problem, leg, CHEAPEST);
    let first = found.into_iter().next()?;
    if first.edges.is_empty() || !timed(problem, leg) {
        return Some(first);
    }
    let most = rungs(problem, leg).into_iter().find(|r| problem.relax.bandwidth || problem.net.class(*r).is_some())?;
    Some(quickly(problem, leg, first, most, 0))
}

/// The cheapest single path at a rung, which no way on several paths is cheaper than.
pub(crate) fn floor(problem: &Problem, leg: &Leg, ends: &Ends, kbps: u64) -> Option<Choice> {
    let (route, latency) = routes(problem, leg, ends, kbps, CHEAPEST).0.into_iter().next()?;
    let (root, _) = shape(problem, ends, &route);
    choice(problem, leg, ends, &route, root, latency, kbps)
}

/// The same cost in the time that the rate takes on the quickest path, of `quickest` microseconds.
pub(crate) fn quickly(problem: &Problem, leg: &Leg, choice: Choice, kbps: u64, quickest: u64) -> Choice {
    if !timed(problem, leg) {
        return timeless(choice);
    }
    let moving = leg.volume.checked_mul(&Ratio::new(8_000_000, i128::from(kbps.max(1))));
    let time = moving.and_then(|m| m.checked_add(&Ratio::from_integer(i128::from(quickest) * 1_000)));
    Choice { time: time.unwrap_or(Ratio::from_integer(0)), ..choice }
}

/// A choice that takes no time: a bound on any that costs as much.
pub(crate) fn timeless(choice: Choice) -> Choice {
    Choice { time: Ratio::from_integer(0), ..choice }
}

/// The cheapest path within the leg's bound, whatever it carries; priced at the leg's own rate.
pub(crate) fn at_best(problem: &Problem, leg: &Leg) -> Option<Choice> {
    let stream = &problem.streams[leg.stream];
    let ends = ends(problem, leg);
    if stream.hopeless {
        return None;
    }
    if ends.roots.contains(&ends.start) {
        return choice(problem, leg, &ends, &Rc::from([]), ends.start, 0, 0);
    }
    let kbps = leg.kbps.or((stream.span != Span::Run).then(|| problem.rungs.first().copied()).flatten()).unwrap_or(0);
    let (edges, latency) = routes(problem, leg, &ends, 0, CHEAPEST).0.into_iter().next()?;
    let (root, _) = shape(problem, &ends, &edges);
    choice(problem, leg, &ends, &edges, root, latency, kbps)
}

type Paths = Vec<(Rc<[u32]>, u64)>;

fn routes(problem: &Problem, leg: &Leg, ends: &Ends, kbps: u64, look: Look) -> (Paths, bool) {
    let stream = &problem.streams[leg.stream];
    let Some(ask) = problem.ask(stream, kbps, ends.walk) else { return (Vec::new(), true) };
    let tree = problem.tree(stream, &ask, &ends.roots);
    let (routes, all) = match look {
        Look::Best(matter, cut) => {
            let wanted = match matter {
                Matter::None => Wanted::Cheapest,
                _ => Wanted::Front(limits(problem, leg, &cut)),
            };
            path::routes(problem.net, &ask, &tree, ends.start, stream.bound, wanted)
        }
        Look::Wide(most, extra) => {
            let extra = extra.and_then(|(micros, held)| {
                let unit = match stream.price() {
                    Price::Rate => Ratio::new(i128::from(kbps), problem.net.scale.checked_mul(1000 * HOUR)?) * held,
                    _ => leg.volume / Ratio::from_integer(problem.net.scale.checked_mul(9_000_000_000)?),
                };
                let units = Ratio::from_integer(micros).checked_div(&unit).filter(|_| *unit.numer() > 0)?;
                i64::try_from(units.ceil().to_integer()).ok()
            });
            let most = (most, most.saturating_mul(64), extra);
            path::alternatives(problem.net, &ask, &tree, ends.start, stream.bound, most)
        }
    };
    (routes.into_iter().map(|r| (r.edges.into(), r.latency)).collect(), all)
}

const CHEAPEST: Look = Look::Best(Matter::None, Cut { slope: None, extra: None });

/// What a cut leaves, in price units: for each microsecond that the cheapest path takes, and besides.
fn limits(problem: &Problem, leg: &Leg, cut: &Cut) -> Limits {
    let slope = cut.slope.and_then(|slope| worth(problem, leg, &slope).zip(hidden(problem, leg, ROUNDING)));
    let extra = cut.extra.and_then(|extra| hidden(problem, leg, extra.max(0)));
    Limits { slope, extra }
}

/// Price units that a microsecond less is worth to a leg at the most, rounded up. `None`: out of range.
fn worth(problem: &Problem, leg: &Leg, slope: &Ratio) -> Option<i64> {
    // a unit of price costs the leg volume / (scale x 9 x 10^9) micro-units
    let unit = leg.volume.checked_div(&Ratio::from_integer(problem.net.scale.checked_mul(9_000_000_000)?))?;
    if unit <= Ratio::from_integer(0) {
        return None;
    }
    i64::try_from(slope.checked_mul(&Ratio::from_integer(1000))?.checked_div(&unit)?.ceil().to_integer()).ok()
}

/// Micro-units in price units of a leg, rounded up.
fn hidden(problem: &Problem, leg: &Leg, micros: i128) -> Option<i64> {
    let unit = leg.volume.checked_div(&Ratio::from_integer(problem.net.scale.checked_mul(9_000_000_000)?))?;
    i64::try_from(Ratio::from_integer(micros).checked_div(&unit)?.ceil().to_integer()).ok()
}

/// Micro-units that rounding may hide: terms that round up by half a micro-unit each, and a micro-unit of doubt.
const ROUNDING: i128 = 4;

/// The root that a path ends at, and its latency.
pub(crate) fn shape(problem: &Problem, ends: &Ends, edges: &[u32]) -> (u32, u64) {
    let at = |e: &u32| &problem.net.edges[*e as usize];
    let latency = edges.iter().map(|e| at(e).latency).sum();
    let root = match ends.walk {
        Direction::Against => edges.first().map_or(ends.start, |e| at(e).from),
        Direction::Along => edges.last().map_or(ends.start, |e| at(e).to),
    };
    (root, latency)
}

pub(crate) fn choice(
    problem: &Problem,
    leg: &Leg,
    ends: &Ends,
    edges: &Rc<[u32]>,
    root: u32,
    latency: u64,
    kbps: u64,
) -> Option<Choice> {
    // all of a volume takes every link, at whatever rate
    let each = if problem.streams[leg.stream].price() == Price::Volume { 1 } else { kbps };
    let weighed: Vec<(u32, u64)> = edges.iter().map(|e| (*e, each)).collect();
    divided(problem, leg, ends, edges, (&weighed, each), (root, latency, kbps))
}

/// A choice of which each link carries a part of its own, and what the parts of all paths sum to; `latency` is that of
/// the slowest path, `kbps` the whole rate.
pub(crate) fn divided(
    problem: &Problem,
    leg: &Leg,
    ends: &Ends,
    edges: &Rc<[u32]>,
    (weighed, whole): (&[(u32, u64)], u64),
    (root, latency, kbps): (u32, u64, u64),
) -> Option<Choice> {
    let stream = &problem.streams[leg.stream];
    let net = problem.net;
    let zero = Ratio::from_integer(0);
    let (mut path, mut transfer, mut time) = (zero, zero, zero);
    if !edges.is_empty() {
        let held = weighed_sum(problem, weighed, |e| e.per_mbps_hour)?;
        match stream.price() {
            Price::Free => {}
            Price::Rate => path = Ratio::new(held, net.scale.checked_mul(1000 * HOUR)?),
            Price::Volume => {
                let whole = i128::from(whole.max(1));
                transfer = moved(problem, leg, weighed_sum(problem, weighed, |e| e.per_gb)?, 1_000_000_000, whole)?;
                path = moved(problem, leg, held, MOVING, whole)?;
                let moving = leg.volume.checked_mul(&Ratio::new(8_000_000, i128::from(kbps.max(1))))?;
                time = moving.checked_add(&Ratio::from_integer(i128::from(latency) * 1000))?;
            }
        }
    }
    let (from, to) = match ends.walk {
        Direction::Against => (root, ends.start),
        Direction::Along => (ends.start, root),
    };
    let cost = path.checked_add(&transfer)?;
    let kbps = if edges.is_empty() { 0 } else { kbps };
    Some(Choice {
        edges: Rc::clone(edges),
        from,
        to,
        kbps,
        latency: latency + stream.access,
        path,
        transfer,
        cost,
        time,
        more: None,
    })
}

/// Bytes that one Mbit/s moves in an hour: 10^6 / 8 x 3600. A volume at whatever rate takes so many Mbps-hours.
const MOVING: i128 = 450_000_000;

fn weighed_sum(problem: &Problem, weighed: &[(u32, u64)], of: fn(&crate::network::Edge) -> i64) -> Option<i128> {
    weighed.iter().try_fold(0_i128, |sum, (edge, kbps)| {
        sum.checked_add(i128::from(of(&problem.net.edges[*edge as usize])).checked_mul(i128::from(*kbps))?)
    })
}

/// What the leg's volume costs: `weighed` is a price times the rate that pays it, of `whole` in all, for each `unit` bytes.
fn moved(problem: &Problem, leg: &Leg, weighed: i128, unit: i128, whole: i128) -> Option<Ratio> {
    let price = Ratio::new(weighed, problem.net.scale.checked_mul(unit)?.checked_mul(whole)?);
    price.checked_mul(&leg.volume)
}

/// What it costs to hold the leg's rate on links that no byte takes: in all for a volume, else per nanosecond.
pub(crate) fn holding(problem: &Problem, leg: &Leg, edges: &[u32], kbps: u64) -> Option<Ratio> {
    let weighed: Vec<(u32, u64)> = edges.iter().map(|e| (*e, kbps)).collect();
    let held = weighed_sum(problem, &weighed, |e| e.per_mbps_hour)?;
    match problem.streams[leg.stream].price() {
        Price::Free => Some(Ratio::from_integer(0)),
        Price::Rate => Some(Ratio::new(held, problem.net.scale.checked_mul(1000 * HOUR)?)),
        Price::Volume => moved(problem, leg, held, MOVING, i128::from(kbps.max(1))),
    }
}

impl Choice {
    /// The same with more held.
    pub fn holding(mut self, held: &Ratio) -> Option<Self> {
        self.path = self.path.checked_add(held)?;
        self.cost = self.cost.checked_add(held)?;
        Some(self)
    }
}
