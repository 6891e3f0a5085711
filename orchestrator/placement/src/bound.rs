//! What a replica at a stand costs at the least: compute at its lowest factor and its share of the legs to fixed points,
//! each at its cheapest path alone. Whole micro-units, rounded down, so that a bound is never too high.

use crate::{
    network::{Direction, Price},
    problem::{HOUR, Part, Place, Problem, Span, Stream},
};
use num_traits::{CheckedDiv, CheckedMul, ToPrimitive};
use rhumb_model::ratio::Ratio;
use std::rc::Rc;

/// A stand with its bounds.
#[derive(Debug, Clone)]
pub(crate) struct Bounded {
    /// Index into the part's stands.
    pub stand: usize,
    pub site: usize,
    pub room: u32,
    /// Of one replica: compute and legs.
    pub bill: i128,
    /// Of one replica: bill, and what its staging costs in time where that is known.
    pub each: i128,
    /// Of the site, however many replicas: legs that copy.
    pub once: i128,
    /// No staging into it takes less, in nanoseconds.
    pub inbound: i128,
    pub hours: Ratio,
}

/// Bounds for all stands of a part that has `n` replicas, cheapest first; stands that no leg can reach are left out.
pub(crate) fn bounded(problem: &Problem, index: usize, n: u32) -> Vec<Bounded> {
    let part = &problem.parts[index];
    let streams: Vec<&Stream> = problem.streams.iter().filter(|s| touches(s, index)).collect();
    let staged = problem.streams.iter().filter(|s| s.span == Span::Inbound).count();
    let mut list: Vec<Bounded> = part
        .stands
        .iter()
        .enumerate()
        .filter(|(_, s)| s.room > 0)
        .filter_map(|(stand, _)| bound(problem, part, stand, n, &streams, staged == 1))
        .collect();
    list.sort_by(|a, b| (a.each, a.once, a.stand).cmp(&(b.each, b.once, b.stand)));
    list
}

/// Whether the stream joins the part with fixed points.
fn touches(stream: &Stream, part: usize) -> bool {
    let this = Place::Part(part);
    (stream.from == this || stream.to == this) && !stream.joins_parts()
}

fn bound(problem: &Problem, part: &Part, stand: usize, n: u32, streams: &[&Stream], lone: bool) -> Option<Bounded> {
    let at = &part.stands[stand];
    let mut b = Bounded {
        stand,
        site: at.site,
        room: at.room,
        bill: at.least,
        each: at.least,
        once: 0,
        inbound: 0,
        hours: at.hours,
    };
    for stream in streams {
        // a site may serve none of a region's demand, unless it is the only one
        let all = n == 1 || stream.copy;
        if stream.demand.is_some() && n > 1 {
            continue;
        }
        let divide = if all { 1 } else { i128::from(n) };
        let reached = reach(problem, stream, at.site, at.hours, divide);
        let (cost, with_time, time) = reached?;
        if stream.copy && n > 1 {
            b.once = b.once.checked_add(cost)?;
        } else {
            b.bill = b.bill.checked_add(cost)?;
            b.each = b.each.checked_add(if lone && n == 1 { with_time } else { cost })?;
        }
        if stream.span == Span::Inbound && !(lone && n == 1) {
            b.inbound = b.inbound.max(time);
        }
    }
    Some(b)
}

/// Least cost of the part of a stream that ends at a site: (micro-units, with the value of its time, nanoseconds).
/// `None`: no path.
fn reach(problem: &Problem, stream: &Stream, site: usize, hours: Ratio, divide: i128) -> Option<(i128, i128, i128)> {
    if stream.hopeless {
        return None;
    }
    let (roots, walk) = match (&stream.from, &stream.to) {
        (Place::Points(points), _) => (points, Direction::Against),
        (_, Place::Points(points)) => (points, Direction::Along),
        _ => return Some((0, 0, 0)),
    };
    let point = problem.site_point(site);
    if roots.contains(&point) {
        return Some((0, 0, 0));
    }
    let zero = Ratio::from_integer(0);
    let staged = stream.span != Span::Run;
    let rungs: &[u64] = match (stream.span, stream.kbps) {
        (Span::Run, kbps) => &[kbps.map_or(0, |k| k / divide.to_u64().unwrap_or(u64::MAX))],
        (_, Some(kbps)) => &[kbps / divide.to_u64().unwrap_or(u64::MAX)],
        // without a value of time only the widest choice of paths counts
        (_, None) if problem.value == zero && problem.deadline.is_none() => {
            &problem.rungs[problem.rungs.len().saturating_sub(1)..]
        }
        (_, None) => &problem.rungs,
    };
    let mut best: Option<(i128, i128, i128)> = None;
    let mut last = None;
    for kbps in rungs {
        let Some(ask) = problem.ask(stream, *kbps, walk) else { continue };
        if last == Some(ask.kbps) {
            continue;
        }
        last = Some(ask.kbps);
        let tree = problem.tree(stream, &ask, roots);
        let (Some((units, _)), Some(latency)) = (tree.cheapest[point as usize], tree.quickest[point as usize]) else {
            continue;
        };
        if stream.bound.is_some_and(|b| latency > b) {
            continue;
        }
        let cost = amount(problem, stream, units, hours, divide)?;
        let time = if staged {
            // rates round up to a kbit/s, so one more may move it
            let rate = if stream.kbps.is_some() { kbps + 1 } else { *kbps };
            i128::from(stream.volume) * 8_000_000 / divide / i128::from(rate.max(1))
        } else {
            0
        };
        let valued = problem.value.checked_mul(&Ratio::from_integer(time))?.floor().to_integer();
        best = Some(match best {
            None => (cost, cost + valued, time),
            Some((c, v, t)) => (c.min(cost), v.min(cost + valued), t.min(time)),
        });
    }
    best
}

/// Price units of a path in micro-units, rounded down: of a stream's volume, or of its rate for `hours` at the least.
pub(crate) fn amount(problem: &Problem, stream: &Stream, units: i128, hours: Ratio, divide: i128) -> Option<i128> {
    let scale = problem.net.scale;
    match stream.price() {
        Price::Free => Some(0),
        Price::Volume => Some(
            units.checked_mul(i128::from(stream.volume))? / scale.checked_mul(9_000_000_000)?.checked_mul(divide)?,
        ),
        Price::Rate => {
            let held = Ratio::new(units, scale.checked_mul(1000 * HOUR)?.checked_mul(divide)?);
            let all =
                held.checked_mul(&Ratio::from_integer(i128::from(stream.kbps.unwrap_or(0))))?.checked_mul(&hours)?;
            Some(all.checked_div(&Ratio::from_integer(1))?.floor().to_integer())
        }
    }
}

/// Least cost of a stream between two sites that the placement has chosen; `None`: no path.
pub(crate) fn between(
    problem: &Problem,
    stream: &Stream,
    from: usize,
    to: usize,
    hours: Ratio,
    divide: i128,
) -> Option<i128> {
    if from == to {
        return Some(0);
    }
    let (start, end) = (problem.site_point(from), problem.site_point(to));
    let kbps = stream.kbps.map_or(0, |k| k / divide.to_u64().unwrap_or(u64::MAX));
    let ask = problem.ask(stream, kbps, Direction::Against)?;
    let roots: Rc<[u32]> = [start].into();
    let tree = problem.tree(stream, &ask, &roots);
    let (units, _) = tree.cheapest[end as usize]?;
    let latency = tree.quickest[end as usize]?;
    if stream.bound.is_some_and(|b| latency > b) {
        return None;
    }
    amount(problem, stream, units, hours, divide)
}
