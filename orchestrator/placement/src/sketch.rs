//! The lines of one component: compute and legs to fixed points, for every stand that they allow.

use crate::{
    field::{Lines, NEVER, held, moved, weighed},
    network::{Direction, Price},
    path::{self, Ask},
    pricing::Pricing,
    problem::{Place, Problem, Span, Stream},
};
use rhumb_model::ratio::Ratio;

/// One component on its way to lines.
pub(crate) struct Sketch<'p, 'a> {
    pub problem: &'p Problem<'a>,
    pub pricing: &'p Pricing<'p, 'a>,
    pub index: usize,
    /// Replicas.
    pub n: u32,
    pub longest: Ratio,
}

impl Sketch<'_, '_> {
    pub fn lines(&self, constant: &mut i64) -> Option<Lines> {
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
            let parts = if self.n == 1 { 1 } else { demand.div_ceil(must.saturating_sub(all - demand).max(1)) };
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
