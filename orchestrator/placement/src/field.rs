//! What every stand costs at the least, for all stands at once: flat arrays of whole numbers, rounded down, so that a
//! bound is never too high.
//!
//! Each line is a stand with its compute and its share of the legs to fixed points, at the cheapest path that its rate
//! class allows. Components joined by flows hang on each other as a tree: one sweep from its leaves and one back give
//! for every stand the least that any plan with a replica there costs.

use crate::{
    network::Direction,
    part::Part,
    path,
    pricing::Pricing,
    problem::{HOUR, Place, Problem, Stream},
    sketch::Sketch,
};
use num_traits::CheckedMul;
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
    /// Bounds above it are not told apart, in grains.
    pub limit: i64,
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
    pub fn truncate(&mut self, keep: usize) {
        self.stand.truncate(keep);
        self.each.truncate(keep);
        self.inbound.truncate(keep);
    }
}

impl Field {
    /// `totals`: replicas of each component. Bounds are told apart up to a guess. `None`: some component has no stand left.
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
            limit: NEVER,
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
        field.sweep(problem, totals, None)?;
        Some(field)
    }

    /// The same with bounds told apart up to another limit.
    pub fn widened(&self, problem: &Problem, totals: &[u32], limit: i64) -> Option<Self> {
        let copy = |lines: &Lines| Lines {
            stand: lines.stand.clone(),
            each: lines.each.clone(),
            inbound: lines.inbound.clone(),
            ..Lines::default()
        };
        let mut field = Self {
            parts: self.parts.iter().map(copy).collect(),
            parent: self.parent.clone(),
            constant: self.constant.clone(),
            longest: self.longest,
            staged: self.staged,
            limit: NEVER,
        };
        field.sweep(problem, totals, Some(limit))?;
        Some(field)
    }

    /// Whether no plan through a line can be as cheap as `total` micro-units.
    pub fn beaten(through: i64, total: i64) -> bool {
        through > total.saturating_mul(GRAINS).saturating_add(ROUNDING)
    }

    /// Grains of all `n` replicas of a component at a line, with what hangs on them.
    pub fn whole(&self, part: usize, line: usize, n: u32) -> i64 {
        let lines = &self.parts[part];
        let each = lines.each[line].saturating_mul(i64::from(n)).min(NEVER);
        lines.hangs.iter().fold(each, |sum, (_, values)| sum.saturating_add(values[line]).min(NEVER))
    }

    /// What a unit of price costs between two components that hang together.
    pub fn weight(&self, problem: &Problem, first: usize, second: usize) -> Option<u64> {
        Tie::new(problem, &vec![1; self.parts.len()], &self.longest, first, second).map(|tie| tie.weight)
    }

    /// Micro-units: no plan costs less.
    pub fn least(&self) -> i128 {
        let parts = self.parts.iter().filter_map(|l| l.through.iter().copied().min());
        i128::from((parts.max().unwrap_or(0) - ROUNDING) / GRAINS)
    }

    /// Whole-component bounds up the tree and down again. `limit`: bounds above it need not be told apart; `None`: a guess.
    fn sweep(&mut self, problem: &Problem, totals: &[u32], limit: Option<i64>) -> Option<()> {
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
        // what lies so far above the parts' own least that a plan of one site alone would be cheaper is of no interest
        let floor: i64 = whole.iter().filter_map(|w| w.iter().min()).fold(0, |s, l| s.saturating_add(*l));
        let above = match limit {
            Some(limit) => limit.saturating_sub(floor),
            None => together(&points, &whole)
                .map_or(NEVER, |together| together.saturating_add(together / 32).saturating_sub(floor)),
        };
        self.limit = if above >= NEVER { NEVER } else { floor.saturating_add(above) };
        // one replica of many bears only its share of what is above
        let most = totals.iter().copied().max().unwrap_or(1).max(1);
        let mut above = times(above.max(0), most);
        let within =
            |costs: &[i64], above: i64| costs.iter().min().map_or(NEVER, |l| l.saturating_add(above).min(NEVER));
        for second in (0..parts).rev() {
            let Some(first) = self.parent[second] else { continue };
            let tie = Tie::new(problem, totals, &self.longest, first, second)?;
            let from = (&points[second][..], &whole[second][..]);
            let reached = if limit.is_none() && parts == 2 {
                let mut guide = Guide::new(problem, (&points[first], &whole[first]), floor, above / i64::from(most));
                let least = whole[second].iter().copied().min().unwrap_or(NEVER);
                let limit = |point: Option<u32>, cost: i64| {
                    if let Some(point) = point {
                        guide.tell(point, cost);
                    }
                    least.saturating_add(times(guide.above, most)).min(NEVER)
                };
                let reached = tie.reach(problem, from, &points[first], true, limit);
                above = times(guide.above, most);
                self.limit = self.limit.min(floor.saturating_add(guide.above));
                reached
            } else {
                let most = within(&whole[second], above);
                tie.reach(problem, from, &points[first], true, |_, _| most)
            };
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
            let most = within(&rest, above);
            let reached = tie.reach(problem, (&points[first], &rest), &points[second], false, |_, _| most);
            for (sum, h) in whole[second].iter_mut().zip(&reached) {
                *sum = sum.saturating_add(*h).min(NEVER);
            }
        }
        // what every plan pays besides: the other trees, demand, and the time of the longest component
        let constant = self.constant.iter().fold(0_i64, |s, c| s.saturating_add(*c));
        let first = self.parts.iter().filter_map(|l| l.inbound.iter().copied().min()).max().unwrap_or(0);
        let value = Value::new(problem);
        let longest = self.longest.to_integer();
        let hours = |part: usize| -> Vec<i128> {
            problem.parts[part].kinds().iter().map(|k| k.hours.to_integer().max(longest)).collect()
        };
        let staged = self.staged;
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
            let hours = hours(part);
            let stands = &problem.parts[part].stands;
            let through = |(line, whole): (usize, &i64)| {
                if *whole >= NEVER {
                    return NEVER;
                }
                let staged = if staged { 0 } else { lines.inbound[line].max(first) };
                let kind = stands[lines.stand[line] as usize].kind;
                let time = value.of(hours[usize::from(kind)] + i128::from(staged));
                own + (whole - own) / n + besides + time
            };
            lines.through = whole[part].iter().enumerate().map(through).collect();
        }
        Some(())
    }
}

/// Learns while points are told what the cheapest pair costs, and what is dearer by too much.
struct Guide {
    /// By point, what the other component costs there at the least.
    there: Vec<i64>,
    floor: i64,
    /// What a pair of interest costs above the floor, at the most.
    above: i64,
}

impl Guide {
    fn new(problem: &Problem, (points, costs): (&[u32], &[i64]), floor: i64, above: i64) -> Self {
        let mut there = vec![NEVER; problem.net.points()];
        points.iter().zip(costs).for_each(|(p, c)| there[*p as usize] = there[*p as usize].min(*c));
        Self { there, floor, above }
    }

    fn tell(&mut self, point: u32, cost: i64) {
        let pair = self.there[point as usize].saturating_add(cost);
        if pair < NEVER {
            let margin = pair / MARGIN;
            self.above = self.above.min((pair - self.floor).max(0).saturating_add(margin));
        }
    }
}

/// Plans that cost more than the cheapest bound by one part in so many are not told apart at first.
const MARGIN: i64 = 64;

/// Grains of a cheap way to have all components at one point; `None`: there is none.
fn together(points: &[Vec<u32>], whole: &[Vec<i64>]) -> Option<i64> {
    let most = points.iter().flatten().max()? + 1;
    let mut sums = vec![0_i64; most as usize];
    for (points, costs) in points.iter().zip(whole) {
        let mut own = vec![NEVER; most as usize];
        points.iter().zip(costs).for_each(|(p, c)| own[*p as usize] = own[*p as usize].min(*c));
        sums.iter_mut().zip(own).for_each(|(sum, own)| *sum = sum.saturating_add(own).min(NEVER));
    }
    sums.into_iter().min().filter(|s| *s < NEVER)
}

/// The least hours of the component that takes longest; `None`: one has no stand.
pub(crate) fn longest(problem: &Problem) -> Option<Ratio> {
    let mut longest = Ratio::from_integer(0);
    for part in &problem.parts {
        longest = longest.max(part.stands.iter().map(|s| s.kind).min().map(|_| shortest(part))?);
    }
    Some(longest)
}

fn shortest(part: &Part) -> Ratio {
    part.kinds().iter().map(|k| k.hours).min().unwrap_or(Ratio::from_integer(0))
}

/// The order's value of time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value(i128);

impl Value {
    pub fn new(problem: &Problem) -> Self {
        Self::of_rate(&problem.value)
    }

    /// `rate` in micro-units per nanosecond.
    pub fn of_rate(rate: &Ratio) -> Self {
        let fine = rate.checked_mul(&Ratio::from_integer(i128::from(GRAINS) << 32));
        // out of range leaves the bound lower, never wrong
        Self(fine.map_or(0, |f| f.floor().to_integer().clamp(0, 1 << 60)))
    }

    /// Grains that so many nanoseconds cost, rounded down.
    pub fn of(self, nanoseconds: i128) -> i64 {
        let product = self.0.checked_mul(nanoseconds).unwrap_or(0);
        i64::try_from(product >> 32).unwrap_or(NEVER).min(NEVER)
    }
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
    /// `limit`: what more is of no interest, as it is known when a point and its cost are told.
    fn reach(
        &self,
        problem: &Problem,
        (from, costs): (&[u32], &[i64]),
        to: &[u32],
        up: bool,
        limit: impl FnMut(Option<u32>, i64) -> i64,
    ) -> Vec<i64> {
        let stream = &problem.streams[self.stream];
        // the walk of an ask begins where the search ends: at `to`
        let walk = if self.onward == up { Direction::Along } else { Direction::Against };
        let ask = problem.ask(stream, self.kbps, walk);
        let mut roots: Vec<(u32, i64)> =
            from.iter().zip(costs).filter(|(_, c)| **c < NEVER).map(|(p, c)| (*p, *c)).collect();
        let reached = if let Some(ask) = ask {
            path::potential(problem.net, &ask, &roots, self.weight, limit)
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
pub(crate) fn held(problem: &Problem, kbps: u64, hours: &Ratio, divide: u32) -> u64 {
    let weight = || {
        let above = i128::from(kbps).checked_mul(i128::from(GRAINS) << SHIFT)?.checked_mul(hours.to_integer())?;
        let below = problem.net.scale.checked_mul(1000 * HOUR)?.checked_mul(i128::from(divide))?;
        u64::try_from(above / below).ok()
    };
    // out of range leaves the bound lower, never wrong
    weight().unwrap_or(0)
}

pub(crate) fn moved(problem: &Problem, volume: u64, divide: u32) -> u64 {
    let weight = || {
        let above = i128::from(volume).checked_mul(i128::from(GRAINS) << SHIFT)?;
        let below = problem.net.scale.checked_mul(9_000_000_000)?.checked_mul(i128::from(divide))?;
        u64::try_from(above / below).ok()
    };
    weight().unwrap_or(0)
}

pub(crate) fn weighed(units: i64, weight: u64) -> i64 {
    let product = u128::from(units as u64) * u128::from(weight);
    i64::try_from(product >> SHIFT).unwrap_or(NEVER).min(NEVER)
}
