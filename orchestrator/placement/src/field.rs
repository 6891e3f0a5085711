//! What every stand costs at the least, for all stands at once: flat arrays of whole numbers, rounded down, so that a
//! bound is never too high.
//!
//! Each line is a stand with its compute and its share of the legs to fixed points, at the cheapest path that its rate
//! class allows. Components joined by flows hang on each other as a tree: one sweep from its leaves and one back give
//! for every stand the least that any plan with a replica there costs.

use crate::{
    network::{Direction, Price},
    part::Part,
    path::{self, Ask},
    pricing::Pricing,
    problem::{HOUR, Place, Problem, Span, Stream},
};
use rhumb_model::ratio::Ratio;

/// Grains in a micro-unit.
pub(crate) const GRAINS: i64 = 256;

/// Each of the five terms may round up by half a micro-unit.
const ROUNDING: i64 = 3 * GRAINS;

/// A bound that no plan reaches.
pub(crate) const NEVER: i64 = i64::MAX / 4;

#[derive(Debug)]
pub(crate) struct Field {
    pub parts: Vec<Lines>,
    /// The earlier component that each hangs on, by the widest flow between them.
    pub parent: Vec<Option<usize>>,
    /// Of each component, whatever its stands: demand at its cheapest, in grains.
    pub constant: Vec<i64>,
    /// No component that takes longest is shorter.
    pub longest: Ratio,
    /// The value of staging time is counted with the compute of the stands.
    pub staged: bool,
}

/// The stands of a component; columns of one length.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// Index into the part's stands.
    pub stand: Vec<u32>,
    /// Grains of one replica: compute, legs to fixed points.
    pub each: Vec<i64>,
    /// No staging into it takes less, in nanoseconds.
    pub inbound: Vec<i64>,
    /// Grains of all replicas with what hangs on them, were all of them here, by component that hangs here.
    pub hangs: Vec<(usize, Vec<i64>)>,
    /// Grains of the cheapest plan with a replica here, at the least.
    pub through: Vec<i64>,
}

impl Lines {
    fn truncate(&mut self, keep: usize) {
        self.stand.truncate(keep);
        self.each.truncate(keep);
        self.inbound.truncate(keep);
    }
}

impl Field {
    /// `totals`: replicas of each component. `None`: some component has no stand left.
    pub fn new(problem: &Problem, totals: &[u32]) -> Option<Self> {
        let longest = longest(problem)?;
        let pricing = Pricing::new(problem);
        let parts = totals.len();
        let mut field = Self {
            parts: Vec::with_capacity(parts),
            parent: vec![None; parts],
            constant: vec![0; parts],
            longest,
            staged: pricing.staged(),
        };
        for (index, n) in totals.iter().enumerate() {
            let sketch = Sketch { problem, pricing: &pricing, index, n: *n, longest };
            let lines = sketch.lines(&mut field.constant[index])?;
            field.parts.push(lines);
        }
        for stream in problem.streams.iter().filter(|s| s.joins_parts()) {
            if let (Place::Part(a), Place::Part(b)) = (&stream.from, &stream.to)
                && a != b
            {
                field.parent[*a.max(b)].get_or_insert(*a.min(b));
            }
        }
        field.sweep(problem, totals)?;
        Some(field)
    }

    /// Whether no plan through a line can be as cheap as `total` micro-units.
    pub fn beaten(through: i64, total: i64) -> bool {
        through > total.saturating_mul(GRAINS).saturating_add(ROUNDING)
    }

    /// Micro-units: no plan costs less.
    pub fn least(&self) -> i128 {
        let parts = self.parts.iter().filter_map(|l| l.through.iter().copied().min());
        i128::from((parts.max().unwrap_or(0) - ROUNDING) / GRAINS)
    }

    /// Whole-component bounds up the tree and down again.
    fn sweep(&mut self, problem: &Problem, totals: &[u32]) -> Option<()> {
        let parts = totals.len();
        let times = |each: i64, n: u32| each.saturating_mul(i64::from(n)).min(NEVER);
        let mut whole: Vec<Vec<i64>> =
            self.parts.iter().zip(totals).map(|(l, n)| l.each.iter().map(|e| times(*e, *n)).collect()).collect();
        let points = |part: usize, lines: &Lines| -> Vec<u32> {
            let stands = &problem.parts[part].stands;
            lines.stand.iter().map(|s| problem.net.index.sites[stands[*s as usize].site].point).collect()
        };
        let points: Vec<Vec<u32>> = self.parts.iter().enumerate().map(|(i, l)| points(i, l)).collect();
        let mut ties = vec![None; parts];
        for second in (0..parts).rev() {
            let Some(first) = self.parent[second] else { continue };
            let tie = Tie::new(problem, totals, &self.longest, first, second)?;
            let reached = tie.reach(problem, &points[second], &whole[second], &points[first], true);
            for (sum, h) in whole[first].iter_mut().zip(&reached) {
                *sum = sum.saturating_add(*h).min(NEVER);
            }
            self.parts[first].hangs.push((second, reached));
            ties[second] = Some(tie);
        }
        let roots = |whole: &[Vec<i64>], parent: &[Option<usize>]| -> Vec<i64> {
            let least = |i: usize| whole[i].iter().copied().min().unwrap_or(NEVER);
            (0..whole.len()).map(|i| if parent[i].is_none() { least(i) } else { 0 }).collect()
        };
        let least = roots(&whole, &self.parent);
        let others: i64 = least.iter().fold(0, |s, l| s.saturating_add(*l));
        if others >= NEVER {
            return None;
        }
        for second in 0..parts {
            let Some(first) = self.parent[second] else { continue };
            let hung = self.parts[first].hangs.iter().find(|(part, _)| *part == second).map(|(_, h)| h)?;
            let rest: Vec<i64> =
                whole[first].iter().zip(hung).map(|(w, h)| if *w >= NEVER { NEVER } else { w - h }).collect();
            let tie = ties[second].as_ref()?;
            let reached = tie.reach(problem, &points[first], &rest, &points[second], false);
            for (sum, h) in whole[second].iter_mut().zip(&reached) {
                *sum = sum.saturating_add(*h).min(NEVER);
            }
        }
        // what every plan pays besides: the other trees, demand, and the time of the longest component
        let constant = self.constant.iter().fold(0_i64, |s, c| s.saturating_add(*c));
        let first = self.parts.iter().filter_map(|l| l.inbound.iter().copied().min()).max().unwrap_or(0);
        let time = |hours: Ratio, inbound: i64| {
            let staged = if self.staged { 0 } else { inbound.max(first) };
            let held = hours.max(self.longest) + Ratio::from_integer(i128::from(staged));
            grains(problem.value * held).unwrap_or(NEVER)
        };
        let timeless = problem.value == Ratio::from_integer(0);
        for (part, lines) in self.parts.iter_mut().enumerate() {
            let own = whole[part].iter().copied().min()?;
            let root = {
                let mut root = part;
                while let Some(up) = self.parent[root] {
                    root = up;
                }
                root
            };
            let besides = constant.saturating_add(others - least[root]);
            let n = i64::from(totals[part].max(1));
            let through = |(line, whole): (usize, &i64)| {
                if *whole >= NEVER {
                    return NEVER;
                }
                let time = if timeless {
                    0
                } else {
                    time(problem.parts[part].hours(lines.stand[line] as usize), lines.inbound[line])
                };
                own + (whole - own) / n + besides + time
            };
            lines.through = whole[part].iter().enumerate().map(through).collect();
        }
        Some(())
    }
}

/// The least hours of the component that takes longest; `None`: one has no stand.
fn longest(problem: &Problem) -> Option<Ratio> {
    let mut longest = Ratio::from_integer(0);
    for part in &problem.parts {
        longest = longest.max(part.stands.iter().map(|s| s.kind).min().map(|_| shortest(part))?);
    }
    Some(longest)
}

fn shortest(part: &Part) -> Ratio {
    part.kinds().iter().map(|k| k.hours).min().unwrap_or(Ratio::from_integer(0))
}

pub(crate) fn grains(micros: Ratio) -> Option<i64> {
    i64::try_from((micros * Ratio::from_integer(i128::from(GRAINS))).floor().to_integer()).ok()
}

/// How two components hang together: the widest flow between them.
#[derive(Debug, Clone)]
struct Tie {
    stream: usize,
    kbps: u64,
    /// Grains for a unit of price, shifted up.
    weight: u64,
    /// From the first component to the second.
    onward: bool,
}

/// Bits after the point of a weight.
const SHIFT: u32 = 32;

impl Tie {
    fn new(problem: &Problem, totals: &[u32], longest: &Ratio, first: usize, second: usize) -> Option<Self> {
        let (here, there) = (Place::Part(first), Place::Part(second));
        let joins = |s: &Stream| (s.from == here && s.to == there) || (s.from == there && s.to == here);
        let streams = problem.streams.iter().enumerate().filter(|(_, s)| joins(s));
        let (stream, found) = streams.max_by_key(|(_, s)| (s.kbps, std::cmp::Reverse(s.flow)))?;
        let kbps = found.kbps.map_or(0, |k| k / u64::from(totals[first]) / u64::from(totals[second]));
        let weight = held(problem, found.kbps.unwrap_or(0), longest, 1);
        Some(Self { stream, kbps, weight, onward: found.from == here })
    }

    /// For each of `to` the least of a cost at `from` and the way between them. `up`: `from` are the second's.
    fn reach(&self, problem: &Problem, from: &[u32], costs: &[i64], to: &[u32], up: bool) -> Vec<i64> {
        let stream = &problem.streams[self.stream];
        // the walk of an ask begins where the search ends: at `to`
        let walk = if self.onward == up { Direction::Along } else { Direction::Against };
        let ask = problem.ask(stream, self.kbps, walk);
        let mut roots: Vec<(u32, i64)> =
            from.iter().zip(costs).filter(|(_, c)| **c < NEVER).map(|(p, c)| (*p, *c)).collect();
        let reached = if let Some(ask) = ask {
            path::potential(problem.net, &ask, &roots, self.weight)
        } else {
            // no link carries it: only stands at the same site are left
            roots.sort_unstable();
            let mut at = vec![NEVER; problem.net.points()];
            roots.iter().rev().for_each(|(point, cost)| at[*point as usize] = *cost);
            at
        };
        to.iter().map(|p| reached[*p as usize].min(NEVER)).collect()
    }
}

/// Grains, shifted up, that a unit of price costs for a rate held so long.
fn held(problem: &Problem, kbps: u64, hours: &Ratio, divide: u32) -> u64 {
    let weight = || {
        let above = i128::from(kbps).checked_mul(i128::from(GRAINS) << SHIFT)?.checked_mul(hours.to_integer())?;
        let below = problem.net.scale.checked_mul(1000 * HOUR)?.checked_mul(i128::from(divide))?;
        u64::try_from(above / below).ok()
    };
    // out of range leaves the bound lower, never wrong
    weight().unwrap_or(0)
}

fn moved(problem: &Problem, volume: u64, divide: u32) -> u64 {
    let weight = || {
        let above = i128::from(volume).checked_mul(i128::from(GRAINS) << SHIFT)?;
        let below = problem.net.scale.checked_mul(9_000_000_000)?.checked_mul(i128::from(divide))?;
        u64::try_from(above / below).ok()
    };
    weight().unwrap_or(0)
}

fn weighed(units: i64, weight: u64) -> i64 {
    let product = u128::from(units as u64) * u128::from(weight);
    i64::try_from(product >> SHIFT).unwrap_or(NEVER).min(NEVER)
}

/// One component on its way to lines.
struct Sketch<'p, 'a> {
    problem: &'p Problem<'a>,
    pricing: &'p Pricing<'p, 'a>,
    index: usize,
    n: u32,
    longest: Ratio,
}

impl Sketch<'_, '_> {
    fn lines(&self, constant: &mut i64) -> Option<Lines> {
        let part = &self.problem.parts[self.index];
        let this = Place::Part(self.index);
        let mut lines = Lines::default();
        let all = part.stands.len();
        lines.stand = (0..all as u32).collect();
        lines.each = vec![0; all];
        lines.inbound = vec![0; all];
        for stream in self.problem.streams.iter().filter(|s| (s.from == this || s.to == this) && !s.joins_parts()) {
            if stream.demand.is_none() {
                self.fixed(&mut lines, stream)?;
            }
        }
        self.serve(&mut lines, constant)?;
        let mut keep = 0;
        for line in 0..lines.stand.len() {
            let stand = &part.stands[lines.stand[line] as usize];
            if let Some(cost) = self.pricing.of(self.index, stand, self.n, lines.inbound[line]) {
                lines.stand[keep] = lines.stand[line];
                lines.each[keep] = lines.each[line].saturating_add(cost).min(NEVER);
                lines.inbound[keep] = lines.inbound[line];
                keep += 1;
            }
        }
        lines.truncate(keep);
        (!lines.stand.is_empty()).then_some(lines)
    }

    /// Adds a leg to fixed points; lines without a path go.
    fn fixed(&self, lines: &mut Lines, stream: &Stream) -> Option<()> {
        let problem = self.problem;
        let part = &problem.parts[self.index];
        let weights = self.weights(stream);
        let reach = Reach::new(problem, stream, u64::from(self.n))?;
        let time = (stream.span == Span::Inbound).then(|| self.staging(stream));
        let mut keep = 0;
        for line in 0..lines.stand.len() {
            let stand = &part.stands[lines.stand[line] as usize];
            let point = problem.net.index.sites[stand.site].point;
            let Some(units) = reach.units(problem, point) else { continue };
            lines.stand[keep] = lines.stand[line];
            lines.each[keep] =
                lines.each[line].saturating_add(weighed(units, weights[usize::from(stand.kind)])).min(NEVER);
            let away = !reach.roots.contains(&point);
            lines.inbound[keep] = lines.inbound[line].max(if away { time.unwrap_or(0) } else { 0 });
            keep += 1;
        }
        lines.truncate(keep);
        Some(())
    }

    /// By kind, what a unit of price costs one replica.
    fn weights(&self, stream: &Stream) -> Vec<u64> {
        let part = &self.problem.parts[self.index];
        let of = |hours: &Ratio| match stream.price() {
            Price::Free => 0,
            Price::Volume => moved(self.problem, stream.volume, self.n),
            Price::Rate => held(self.problem, stream.kbps.unwrap_or(0), &(*hours).max(self.longest), self.n),
        };
        part.kinds().iter().map(|k| of(&k.hours)).collect()
    }

    /// The least time of a replica's part of a staged volume, in nanoseconds.
    fn staging(&self, stream: &Stream) -> i64 {
        // rates round up to a kbit/s
        let rate = match stream.kbps {
            Some(k) => k / u64::from(self.n) + 1,
            None => self.problem.rungs.first().copied().unwrap_or(1),
        };
        let n = if stream.copy { 1 } else { i128::from(self.n) };
        i64::try_from(i128::from(stream.volume) * 8_000_000 / n / i128::from(rate)).unwrap_or(0)
    }

    /// Legs with a demand. Each flow pays its cheapest stand for the whole; a replica pays besides what it costs more for
    /// the demand that it cannot leave to the others.
    fn serve(&self, lines: &mut Lines, constant: &mut i64) -> Option<()> {
        let problem = self.problem;
        let part = &problem.parts[self.index];
        let this = Place::Part(self.index);
        let demands: Vec<(&Stream, u64)> = problem
            .streams
            .iter()
            .filter(|s| s.to == this)
            .filter_map(|s| s.demand.filter(|d| *d > 0).map(|d| (s, d)))
            .collect();
        if demands.is_empty() {
            return Some(());
        }
        let all: u64 = demands.iter().map(|(_, d)| d).sum();
        let must = all.saturating_sub(part.serves.saturating_mul(u64::from(self.n - 1)));
        // by line: what a demand of one costs more than at the cheapest, of the flow where that is least; all of them
        let mut least = vec![NEVER; lines.stand.len()];
        let mut sum = vec![0_i64; lines.stand.len()];
        for (stream, demand) in demands {
            // as little of the flow as it makes sense to serve here
            let parts = if self.n == 1 { 1 } else { (demand / must.clamp(1, demand)).max(1) };
            let reach = Reach::new(problem, stream, parts)?;
            let whole = |kind: u16| {
                let hours = part.kinds()[usize::from(kind)].hours.max(self.longest);
                held(problem, stream.kbps.unwrap_or(0), &hours, 1)
            };
            let weights: Vec<u64> = (0..part.kinds().len()).map(|k| whole(k as u16)).collect();
            let costs: Vec<i64> = lines
                .stand
                .iter()
                .map(|s| {
                    let stand = &part.stands[*s as usize];
                    let point = problem.net.index.sites[stand.site].point;
                    reach.units(problem, point).map_or(NEVER, |u| weighed(u, weights[usize::from(stand.kind)]))
                })
                .collect();
            let cheapest = costs.iter().copied().min()?;
            if cheapest >= NEVER {
                return None;
            }
            *constant = constant.saturating_add(cheapest);
            for (line, cost) in costs.into_iter().enumerate() {
                if cost >= NEVER {
                    sum[line] = NEVER;
                    continue;
                }
                let more = cost - cheapest;
                sum[line] = sum[line].saturating_add(more).min(NEVER);
                let part = i128::from(more) * i128::from(must) / i128::from(demand);
                least[line] = least[line].min(part as i64);
            }
        }
        let mut keep = 0;
        for line in 0..lines.stand.len() {
            let more = if self.n == 1 { sum[line] } else { least[line] };
            if more >= NEVER && must > 0 {
                continue;
            }
            lines.stand[keep] = lines.stand[line];
            lines.each[keep] = lines.each[line].saturating_add(if more >= NEVER { 0 } else { more });
            lines.inbound[keep] = lines.inbound[line];
            keep += 1;
        }
        lines.truncate(keep);
        Some(())
    }
}

/// The way from every point to the fixed end of a stream.
struct Reach<'p> {
    roots: &'p [u32],
    tree: Option<(std::sync::Arc<path::Tree>, Ask<'p>)>,
    bound: Option<u64>,
}

impl<'p> Reach<'p> {
    /// `divide`: into how many parts the stream's rate may fall. `None`: no path keeps its bound.
    fn new(problem: &'p Problem, stream: &'p Stream, divide: u64) -> Option<Self> {
        if stream.hopeless {
            return None;
        }
        let (roots, walk) = match (&stream.from, &stream.to) {
            (Place::Points(points), _) => (points, Direction::Against),
            (_, Place::Points(points)) => (points, Direction::Along),
            _ => return None,
        };
        let divide = if stream.copy { 1 } else { divide.max(1) };
        let kbps = match (stream.span, stream.kbps) {
            (_, Some(k)) => k / divide,
            (Span::Run, None) => 0,
            (_, None) => problem.rungs.last().copied()?,
        };
        let tree = problem.ask(stream, kbps, walk).map(|ask| (problem.tree(stream, &ask, roots), ask));
        Some(Self { roots, tree, bound: stream.bound })
    }

    /// Price of the cheapest way; `None`: there is none within the bound.
    fn units(&self, problem: &Problem, point: u32) -> Option<i64> {
        let Some((tree, ask)) = &self.tree else { return self.roots.contains(&point).then_some(0) };
        let (units, _) = tree.cheapest(problem.net, ask, point)?;
        let quick = |bound: u64| tree.quickest(problem.net, ask, point).is_some_and(|l| l <= bound);
        self.bound.is_none_or(quick).then_some(units)
    }
}
