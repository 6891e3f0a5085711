//! What a replica at a stand costs at the least: compute, its share of the legs to fixed points, each at its cheapest
//! path alone, and what its legs to later components add to theirs. Whole micro-units, rounded down, so that a bound is
//! never too high.

use crate::{
    network::{Direction, Price},
    option::Ends,
    path::{self, Ask, Tree},
    problem::{HOUR, Part, Place, Problem, Span, Stream},
    several,
};
use num_traits::{CheckedDiv, CheckedMul};
use rhumb_model::ratio::Ratio;
use std::rc::Rc;

/// A stand with its bounds.
#[derive(Debug, Clone)]
pub(crate) struct Bounded {
    /// Index into the part's stands.
    pub stand: usize,
    pub site: usize,
    pub room: u32,
    /// Of one replica: compute and legs to fixed points.
    pub bill: i128,
    /// Of one replica: bill, and what its staging costs in time where that is known.
    pub each: i128,
    /// Of one replica: what the components that hang on this one cost, by component (0 for those that do not).
    pub hangs: Vec<i128>,
    /// `each` and all that hangs: what stands are ordered by.
    pub order: i128,
    /// Of the site, however many replicas: legs that copy.
    pub once: i128,
    /// Of the site, once the component stands on others too: its flows to itself leave by some link.
    pub away: i128,
    /// No staging into it takes less, in nanoseconds.
    pub inbound: i128,
    pub hours: Ratio,
}

/// Bounds of all components.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// By component, cheapest first; stands that no leg can reach are left out.
    pub stands: Vec<Vec<Bounded>>,
    /// The earlier component that each hangs on, by the first flow between them.
    pub parent: Vec<Option<usize>>,
    /// Of each component, whatever its stands: demand that goes beyond what each replica must serve.
    pub constant: Vec<i128>,
}

/// A number of price units is multiplied by this before it is rounded.
const FINE: i128 = 1 << 16;

impl Bounds {
    /// `totals`: replicas of each component. `None`: some component has no stand left.
    pub fn new(problem: &Problem, totals: &[u32]) -> Option<Self> {
        let parts = totals.len();
        let mut bounds =
            Self { stands: Vec::with_capacity(parts), parent: vec![None; parts], constant: vec![0; parts] };
        let lone = problem.streams.iter().filter(|s| s.span == Span::Inbound).count() == 1;
        for (index, n) in totals.iter().enumerate() {
            let mut list = Bounding { problem, index, n: *n, lone, parts }.stands(&mut bounds.constant[index])?;
            list.sort_by_key(|b| (b.each, b.once, b.stand));
            bounds.stands.push(list);
        }
        for stream in problem.streams.iter().filter(|s| s.joins_parts()) {
            if let (Place::Part(a), Place::Part(b)) = (&stream.from, &stream.to)
                && a != b
            {
                let (first, second) = (*a.min(b), *a.max(b));
                bounds.parent[second].get_or_insert(first);
            }
        }
        // from the last: what hangs on a component counts into what it adds to the one it hangs on
        for second in (0..parts).rev() {
            if let Some(first) = bounds.parent[second] {
                bounds.hang(problem, totals, first, second)?;
            }
        }
        for list in &mut bounds.stands {
            for b in list.iter_mut() {
                b.order = b.hangs.iter().fold(b.each, |sum, h| sum.saturating_add(*h));
            }
            list.sort_by_key(|b| (b.order, b.once, b.stand));
        }
        Some(bounds)
    }

    /// Adds to each stand of `first` what `second` costs at the least when it is reached from there.
    fn hang(&mut self, problem: &Problem, totals: &[u32], first: usize, second: usize) -> Option<()> {
        let (here, there) = (Place::Part(first), Place::Part(second));
        let joins = |s: &&Stream| (s.from == here && s.to == there) || (s.from == there && s.to == here);
        let stream = problem.streams.iter().filter(joins).max_by_key(|s| (s.kbps, std::cmp::Reverse(s.flow)))?;
        let walk = if stream.from == here { Direction::Along } else { Direction::Against };
        let (n, m) = (i128::from(totals[first]), i128::from(totals[second]));
        let least_rate = stream.kbps.map_or(0, |k| k / u64::from(totals[first]) / u64::from(totals[second]));
        let Some(ask) = problem.ask(stream, least_rate, walk) else {
            // no link carries it: only stands at the same site are left
            self.stands[first].iter_mut().for_each(|b| b.hangs[second] = 0);
            return Some(());
        };
        // micro-units that one replica of `second` pays for a unit of price
        let hours = self.stands.iter().filter_map(|l| l.iter().map(|b| b.hours).min()).max()?;
        let per_unit = Ratio::new(
            i128::from(stream.kbps.unwrap_or(0)),
            problem.net.scale.checked_mul(1000 * HOUR)?.checked_mul(m)?,
        )
        .checked_mul(&hours)?;
        let free = per_unit == Ratio::from_integer(0);
        let fine = |micros: i128| -> Option<i128> {
            if free {
                Some(micros)
            } else {
                micros.checked_mul(FINE)?.checked_mul(*per_unit.denom())?.checked_div(*per_unit.numer())
            }
        };
        let mut roots = Vec::with_capacity(self.stands[second].len());
        for b in &self.stands[second] {
            let cost = b.hangs.iter().try_fold(b.each, |sum, h| sum.checked_add(*h))?;
            roots.push((problem.site_point(b.site), fine(cost)?));
        }
        let reached = path::potential(problem.net, &ask, &roots, if free { 0 } else { FINE });
        let mut list = std::mem::take(&mut self.stands[first]);
        list.retain_mut(|b| {
            let Some(units) = reached[problem.site_point(b.site) as usize] else { return false };
            let micros = if free {
                Some(units)
            } else {
                units.checked_mul(*per_unit.numer()).map(|u| u / per_unit.denom() / FINE)
            };
            // overflow leaves the bound lower, never wrong
            b.hangs[second] = micros.and_then(|c| c.checked_mul(m)).map_or(0, |c| c / n);
            true
        });
        self.stands[first] = list;
        Some(())
    }
}

struct Bounding<'p, 'a> {
    problem: &'p Problem<'a>,
    index: usize,
    n: u32,
    /// There is only one leg to be staged in the whole order.
    lone: bool,
    parts: usize,
}

impl Bounding<'_, '_> {
    fn stands(&self, constant: &mut i128) -> Option<Vec<Bounded>> {
        let part = &self.problem.parts[self.index];
        let this = Place::Part(self.index);
        let touches = |s: &&Stream| (s.from == this || s.to == this) && !s.joins_parts();
        let (demands, fixed): (Vec<&Stream>, Vec<&Stream>) =
            self.problem.streams.iter().filter(touches).partition(|s| s.demand.is_some());
        let mut list: Vec<Bounded> =
            (0..part.stands.len()).filter_map(|stand| self.bound(part, stand, &fixed)).collect();
        if self.n > 1 {
            let own = self.problem.streams.iter().filter(|s| s.from == this && s.to == this);
            own.for_each(|stream| list.iter_mut().for_each(|b| b.away = b.away.saturating_add(self.away(stream, b))));
        }
        if !demands.is_empty() {
            *constant = self.serve(part, &demands, &mut list)?;
        }
        (!list.is_empty()).then_some(list)
    }

    fn bound(&self, part: &Part, stand: usize, streams: &[&Stream]) -> Option<Bounded> {
        let at = &part.stands[stand];
        let hours = self.problem.least(at.site, &at.hours)?;
        let compute = at.price.checked_mul(&hours)?.checked_div(&Ratio::from_integer(HOUR))?.floor().to_integer();
        let mut b = Bounded {
            stand,
            site: at.site,
            room: at.room,
            bill: compute,
            each: compute,
            hangs: vec![0; self.parts],
            order: 0,
            once: 0,
            away: 0,
            inbound: 0,
            hours: at.hours,
        };
        for stream in streams {
            let divide = if self.n == 1 || stream.copy { 1 } else { u64::from(self.n) };
            let reached = self.reach(stream, at.site, at.hours, divide)?;
            let alone = self.lone && self.n == 1;
            if stream.copy && self.n > 1 {
                b.once = b.once.checked_add(reached.cost)?;
            } else {
                b.bill = b.bill.checked_add(reached.cost)?;
                b.each = b.each.checked_add(if alone { reached.valued } else { reached.cost })?;
            }
            if stream.span == Span::Inbound && !alone {
                b.inbound = b.inbound.max(reached.time);
            }
        }
        Some(b)
    }

    /// The cheapest link that leaves the site and carries the stream, for the hours of the component.
    fn away(&self, stream: &Stream, b: &Bounded) -> i128 {
        let problem = self.problem;
        let Some(ask) = problem.ask(stream, stream.kbps.unwrap_or(0), Direction::Along) else { return i128::MAX / 4 };
        let leaving = problem.net.on_from(problem.site_point(b.site), Direction::Along).iter();
        let cheapest =
            leaving.filter(|e| ask.takes(problem.net, **e)).map(|e| problem.net.edges[*e as usize].per_mbps_hour).min();
        match cheapest {
            Some(units) => amount(problem, stream, i128::from(units), b.hours, 1).unwrap_or(0),
            None => i128::MAX / 4,
        }
    }

    /// Legs with a demand: if all other replicas serve all they can, so much is left for each, at the cheapest region's
    /// price. The rest, whoever serves it, is paid at the cheapest of all; that is what comes back.
    fn serve(&self, part: &Part, demands: &[&Stream], list: &mut Vec<Bounded>) -> Option<i128> {
        let all: u64 = demands.iter().filter_map(|s| s.demand).sum();
        let others = part.serves.saturating_mul(u64::from(self.n - 1));
        let must = all.saturating_sub(others);
        let mut cheapest: Option<Ratio> = None;
        list.retain_mut(|b| {
            let prices: Vec<Ratio> = demands
                .iter()
                .filter_map(|s| {
                    let demand = s.demand.filter(|d| *d > 0)?;
                    // other flows may make up what the site must serve, so that of this one it serves the rest at the least
                    let least = must.saturating_sub(all - demand).max(1);
                    let parts = demand.div_ceil(least);
                    let reached = self.reach(s, b.site, b.hours, parts)?;
                    // the least of the whole flow, by what is asked of it
                    Some(Ratio::new(reached.whole, i128::from(demand)))
                })
                .collect();
            let Some(price) = prices.into_iter().min() else { return must == 0 };
            cheapest = Some(cheapest.map_or(price, |c| c.min(price)));
            // out of range leaves the bound lower, never wrong
            let cost = price.checked_mul(&Ratio::from_integer(i128::from(must))).map_or(0, |c| c.floor().to_integer());
            b.bill = b.bill.saturating_add(cost);
            b.each = b.each.saturating_add(cost);
            true
        });
        let rest = i128::from(all) - i128::from(must) * i128::from(self.n);
        Some(cheapest?.checked_mul(&Ratio::from_integer(rest.max(0))).map_or(0, |c| c.floor().to_integer()))
    }

    /// The part of a stream that ends at a site, at its least. `None`: no path.
    fn reach(&self, stream: &Stream, site: usize, hours: Ratio, divide: u64) -> Option<Reached> {
        let problem = self.problem;
        if stream.hopeless {
            return None;
        }
        let (roots, walk) = match (&stream.from, &stream.to) {
            (Place::Points(points), _) => (points, Direction::Against),
            (_, Place::Points(points)) => (points, Direction::Along),
            _ => return Some(Reached::default()),
        };
        let point = problem.site_point(site);
        if roots.contains(&point) {
            return Some(Reached::default());
        }
        let untimed = problem.value == Ratio::from_integer(0) && problem.deadline.is_none();
        let own: [u64; 1] = [stream.kbps.map_or(0, |k| k / divide)];
        let rungs: &[u64] = match (stream.span, stream.kbps) {
            (Span::Run, _) | (_, Some(_)) => &own,
            // without a value of time only the widest choice of paths counts
            (_, None) if untimed => problem.rungs.last().map_or(&[], std::slice::from_ref),
            (_, None) => &problem.rungs,
        };
        let mut best: Option<Reached> = None;
        let mut last = None;
        for kbps in rungs {
            let Some(ask) = problem.ask(stream, *kbps, walk) else { continue };
            if last == Some(ask.kbps) {
                continue;
            }
            last = Some(ask.kbps);
            let tree = problem.tree(stream, &ask, roots);
            let Some((units, _)) = tree.cheapest[point as usize] else { continue };
            if !quick_enough(problem, stream, &tree, &ask, point) {
                continue;
            }
            let Some(held) = held(problem, stream, &ask, roots, point) else { continue };
            let units = i128::from(units) + held;
            let whole = amount(problem, stream, units, hours, 1)?;
            let cost = amount(problem, stream, units, hours, i128::from(divide))?;
            let time = if stream.span == Span::Run {
                0
            } else {
                // rates round up to a kbit/s, so one more may move it
                let rate = if stream.kbps.is_some() { kbps + 1 } else { *kbps };
                i128::from(stream.volume) * 8_000_000 / i128::from(divide) / i128::from(rate.max(1))
            };
            let valued = cost + problem.value.checked_mul(&Ratio::from_integer(time))?.floor().to_integer();
            let now = Reached { cost, whole, valued, time };
            best = Some(best.map_or(now, |b| b.least(now)));
        }
        best
    }
}

/// Least figures of a leg, each on its own.
#[derive(Debug, Clone, Copy, Default)]
struct Reached {
    /// Micro-units of the part that the replica has.
    cost: i128,
    /// Of the whole stream.
    whole: i128,
    /// `cost` with the value of the time it takes.
    valued: i128,
    /// Nanoseconds.
    time: i128,
}

impl Reached {
    fn least(self, other: Self) -> Self {
        Self {
            cost: self.cost.min(other.cost),
            whole: self.whole.min(other.whole),
            valued: self.valued.min(other.valued),
            time: self.time.min(other.time),
        }
    }
}

/// Price units of a path in micro-units, rounded down: of a stream's volume, or of its rate for `hours` at the least.
fn amount(problem: &Problem, stream: &Stream, units: i128, hours: Ratio, divide: i128) -> Option<i128> {
    let scale = problem.net.scale;
    match stream.price() {
        Price::Free => Some(0),
        Price::Volume => Some(
            units.checked_mul(i128::from(stream.volume))? / scale.checked_mul(9_000_000_000)?.checked_mul(divide)?,
        ),
        Price::Rate => {
            let held = units.checked_mul(i128::from(stream.kbps.unwrap_or(0)))?.checked_mul(*hours.numer())?;
            Some(held / scale.checked_mul(1000 * HOUR)?.checked_mul(divide)?.checked_mul(*hours.denom())?)
        }
    }
}

/// Whether the quickest path alone keeps the stream's bound.
fn quick_enough(problem: &Problem, stream: &Stream, tree: &Tree, ask: &Ask, point: u32) -> bool {
    stream.bound.is_none_or(|b| tree.quickest(problem.net, ask, point).is_some_and(|l| l <= b))
}

/// Least cost of a stream between two sites that the placement has chosen; `None`: no path.
pub(crate) fn between(
    problem: &Problem,
    stream: &Stream,
    from: usize,
    to: usize,
    hours: Ratio,
    divide: u64,
) -> Option<i128> {
    if from == to {
        return Some(0);
    }
    let (start, end) = (problem.site_point(from), problem.site_point(to));
    let kbps = stream.kbps.map_or(0, |k| k / divide.max(1));
    let ask = problem.ask(stream, kbps, Direction::Against)?;
    let roots: Rc<[u32]> = [start].into();
    let tree = problem.tree(stream, &ask, &roots);
    let (units, _) = tree.cheapest[end as usize]?;
    if !quick_enough(problem, stream, &tree, &ask, end) {
        return None;
    }
    let units = i128::from(units) + held(problem, stream, &ask, &roots, end)?;
    amount(problem, stream, units, hours, i128::from(divide))
}

/// What the backup of a protected stream costs at the least, in units of the stream's price. `None`: there is no path.
fn held(problem: &Problem, stream: &Stream, ask: &Ask, roots: &Rc<[u32]>, point: u32) -> Option<i128> {
    if !stream.protected {
        return Some(0);
    }
    if !several::are_two(problem, ask, roots, point, stream.bound) {
        return None;
    }
    if ask.price != Price::Volume {
        // one rate, so that the very pair can be looked for
        let ends = Ends { roots: Rc::clone(roots), start: point, walk: ask.walk };
        let index = problem.streams.iter().position(|s| s.flow == stream.flow)?;
        if !several::may_be(problem, index, &ends, ask.kbps) {
            return None;
        }
    }
    if ask.price == Price::Free {
        return Some(0);
    }
    let (price, factor) = (Price::Rate, if ask.price == Price::Volume { 20 } else { 1 });
    let ask = Ask { price, ..*ask };
    Some(i128::from(problem.tree(stream, &ask, roots).cheapest[point as usize]?.0) * factor)
}
