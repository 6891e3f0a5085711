//! What one leg can choose: copy, path and rung, with exact cost and time.

use crate::{
    legs::{End, Leg},
    network::{Direction, Price},
    path::{self, Route, Wanted},
    problem::{HOUR, Problem, Span},
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
}

/// What the rest of the decision makes of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Matter {
    /// Time changes nothing that counts: the cheapest path, at the highest rung it carries.
    None,
    /// Sooner is never worse.
    Sooner,
    /// Prices change with the hour: later can be cheaper.
    Any,
}

/// A leg's ends as the path search sees them.
struct Ends {
    roots: Rc<[u32]>,
    start: u32,
    walk: Direction,
}

fn ends(problem: &Problem, leg: &Leg) -> Ends {
    match (&leg.from, &leg.to) {
        (End::Points(roots), End::Site(site)) => {
            Ends { roots: Rc::clone(roots), start: problem.site_point(*site), walk: Direction::Against }
        }
        (End::Site(site), End::Points(roots)) => {
            Ends { roots: Rc::clone(roots), start: problem.site_point(*site), walk: Direction::Along }
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
    /// Paths that no other beats; where time matters, those that cost more than the cheapest by no more than a nanosecond
    /// less of time can save, of which this is the most in micro-units (`None`: there is no telling).
    Best(Matter, Option<Ratio>),
    /// Also worse ones, for links that several legs share: up to this many for each rate; with a limit, of those that cost
    /// at most so much more than the cheapest (micro-units, of a leg that holds a rate for so many nanoseconds).
    Wide(usize, Option<(i128, Ratio)>),
}

/// Choices of a leg, cheapest first; and the least cost of any that may have been left out. `None`: they are all that
/// could matter.
pub(crate) fn choices(problem: &Problem, leg: &Leg, look: Look) -> (Vec<Choice>, Option<Ratio>) {
    let stream = &problem.streams[leg.stream];
    if stream.hopeless {
        return (Vec::new(), None);
    }
    let ends = ends(problem, leg);
    if ends.roots.contains(&ends.start) {
        let local = Route { edges: Vec::new(), root: ends.start, cost: 0, latency: 0 };
        return (choice(problem, leg, &ends, &local.edges.into(), ends.start, 0, 0).into_iter().collect(), None);
    }
    let mut found = Vec::new();
    let mut left_out: Option<Ratio> = None;
    let rungs = match (stream.span, leg.kbps) {
        (Span::Run, kbps) => vec![kbps.unwrap_or(0)],
        (_, Some(kbps)) => vec![kbps],
        (_, None) => problem.rungs.clone(),
    };
    let one = match look {
        Look::Best(matter, _) => stream.span == Span::Run || matter == Matter::None,
        Look::Wide(..) => false,
    };
    if rungs.is_empty() {
        return (found, None);
    }
    if one {
        // a rung less opens more paths: the cheapest of all is among those of the lowest
        let lowest = rungs.last().copied().unwrap_or(0);
        if let Some((route, _)) =
            routes(problem, leg, &ends, lowest, Look::Best(Matter::None, None)).0.into_iter().next()
        {
            let free = route.iter().map(|e| problem.net.edges[*e as usize].free).min().unwrap_or(0);
            let carried = rungs.iter().copied().find(|r| *r <= free || problem.relax.bandwidth).unwrap_or(lowest);
            let (root, latency) = shape(problem, &ends, &route);
            found.extend(choice(problem, leg, &ends, &route, root, latency, carried));
        }
        return (found, None);
    }
    // the paths of the last rung that was looked at, and what the narrowest of them carries: from the lowest rung up,
    // the paths stay as long as all of them carry the rung
    let mut paths: Paths = Vec::new();
    let mut carried: Option<u64> = None;
    for kbps in rungs.into_iter().rev() {
        if problem.net.class(kbps).is_none() && !problem.relax.bandwidth {
            continue;
        }
        if carried.is_none_or(|c| c < kbps) && !(problem.relax.bandwidth && carried.is_some()) {
            let complete;
            (paths, complete) = routes(problem, leg, &ends, kbps, look);
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
        for (edges, latency) in &paths {
            let (root, _) = shape(problem, &ends, edges);
            found.extend(choice(problem, leg, &ends, edges, root, *latency, kbps));
        }
    }
    found.sort_by(|a, b| {
        (a.cost.cmp(&b.cost))
            .then(a.edges.len().cmp(&b.edges.len()))
            .then_with(|| a.edges.cmp(&b.edges))
            .then(b.kbps.cmp(&a.kbps))
    });
    found.dedup_by(|a, b| a.edges == b.edges && a.kbps == b.kbps);
    if matches!(look, Look::Best(Matter::Sooner, _)) {
        let mut soonest: Option<Ratio> = None;
        found.retain(|c| {
            let better = soonest.is_none_or(|s| c.time < s);
            if better {
                soonest = Some(c.time);
            }
            better
        });
    }
    (found, left_out)
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
    let (edges, latency) = routes(problem, leg, &ends, 0, Look::Best(Matter::None, None)).0.into_iter().next()?;
    let (root, _) = shape(problem, &ends, &edges);
    choice(problem, leg, &ends, &edges, root, latency, kbps)
}

type Paths = Vec<(Rc<[u32]>, u64)>;

fn routes(problem: &Problem, leg: &Leg, ends: &Ends, kbps: u64, look: Look) -> (Paths, bool) {
    let stream = &problem.streams[leg.stream];
    let Some(ask) = problem.ask(stream, kbps, ends.walk) else { return (Vec::new(), true) };
    let tree = problem.tree(stream, &ask, &ends.roots);
    let (routes, all) = match look {
        Look::Best(matter, slope) => {
            let wanted = match matter {
                Matter::None => Wanted::Cheapest,
                _ => Wanted::Front(slope.and_then(|slope| worth(problem, leg, &slope).zip(hidden(problem, leg)))),
            };
            (path::routes(problem.net, &ask, &tree, ends.start, stream.bound, wanted), true)
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

/// Price units that a microsecond less is worth to a leg at the most, rounded up. `None`: out of range.
fn worth(problem: &Problem, leg: &Leg, slope: &Ratio) -> Option<i64> {
    // a unit of price costs the leg volume / (scale x 9 x 10^9) micro-units
    let unit = leg.volume.checked_div(&Ratio::from_integer(problem.net.scale.checked_mul(9_000_000_000)?))?;
    if unit <= Ratio::from_integer(0) {
        return None;
    }
    i64::try_from(slope.checked_mul(&Ratio::from_integer(1000))?.checked_div(&unit)?.ceil().to_integer()).ok()
}

/// Micro-units that rounding may hide, in price units of a leg, rounded up.
fn hidden(problem: &Problem, leg: &Leg) -> Option<i64> {
    let unit = leg.volume.checked_div(&Ratio::from_integer(problem.net.scale.checked_mul(9_000_000_000)?))?;
    i64::try_from(Ratio::from_integer(ROUNDING).checked_div(&unit)?.ceil().to_integer()).ok()
}

/// Terms that round up by half a micro-unit each, and a micro-unit of doubt.
const ROUNDING: i128 = 4;

/// The root that a path ends at, and its latency.
fn shape(problem: &Problem, ends: &Ends, edges: &[u32]) -> (u32, u64) {
    let at = |e: &u32| &problem.net.edges[*e as usize];
    let latency = edges.iter().map(|e| at(e).latency).sum();
    let root = match ends.walk {
        Direction::Against => edges.first().map_or(ends.start, |e| at(e).from),
        Direction::Along => edges.last().map_or(ends.start, |e| at(e).to),
    };
    (root, latency)
}

fn choice(
    problem: &Problem,
    leg: &Leg,
    ends: &Ends,
    edges: &Rc<[u32]>,
    root: u32,
    latency: u64,
    kbps: u64,
) -> Option<Choice> {
    let stream = &problem.streams[leg.stream];
    let net = problem.net;
    let sum = |of: fn(&crate::network::Edge) -> i64| -> Option<i128> {
        edges.iter().try_fold(0_i128, |s, e| s.checked_add(i128::from(of(&net.edges[*e as usize]))))
    };
    let zero = Ratio::from_integer(0);
    let (mut path, mut transfer, mut time) = (zero, zero, zero);
    if !edges.is_empty() {
        match stream.price() {
            Price::Free => {}
            Price::Rate => {
                let held = sum(|e| e.per_mbps_hour)?.checked_mul(i128::from(kbps))?;
                path = Ratio::new(held, net.scale.checked_mul(1000 * HOUR)?);
            }
            Price::Volume => {
                let per = |price: i128, unit: i128| {
                    Ratio::from_integer(price)
                        .checked_mul(&leg.volume)?
                        .checked_div(&Ratio::from_integer(net.scale.checked_mul(unit)?))
                };
                transfer = per(sum(|e| e.per_gb)?, 1_000_000_000)?;
                // bytes x 8 / 10^6 Mbit / 3600 s = Mbps-hours, at whatever rate
                path = per(sum(|e| e.per_mbps_hour)?, 450_000_000)?;
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
    })
}
