//! Pairs of stands whose flow keeps its delay bound: a field alone does not see delay between components.

use crate::{
    bound::through_at_most,
    field::{Field, NEVER, weighed},
    network::Direction,
    path::{Ask, By, Scan},
    problem::{Place, Problem, Stream},
};

/// For each line of `first`, cheapest first, the way to its best partner among those of `second` within the delay bound.
pub(crate) struct Near {
    /// (bound of a plan through it, line of the first, line of the second).
    pub pairs: Vec<(i64, u32, u32)>,
    /// Lines of the second that some pair's first reaches within the bound and the limit.
    pub partners: Vec<u32>,
    /// Some lines of the first were not looked at.
    pub rest: bool,
}

/// The pair of components with the tightest delay bound between them, the second hanging on the first.
pub(crate) fn bounded_pair<'p>(problem: &'p Problem, field: &Field) -> Option<(usize, usize, &'p Stream)> {
    let tied = |s: &&Stream| match (&s.from, &s.to) {
        (Place::Part(a), Place::Part(b)) if a != b => field.parent[*a.max(b)] == Some(*a.min(b)),
        _ => false,
    };
    let stream = problem.streams.iter().filter(tied).filter(|s| s.bound.is_some()).min_by_key(|s| (s.bound, s.flow))?;
    let (Place::Part(a), Place::Part(b)) = (&stream.from, &stream.to) else { return None };
    Some((*a.min(b), *a.max(b), stream))
}

impl Near {
    pub fn new(
        problem: &Problem,
        field: &Field,
        totals: &[u32],
        (first, second, stream): (usize, usize, &Stream),
        few: usize,
        limit: Option<i64>,
    ) -> Option<Self> {
        let bound = stream.bound?;
        let (ours, theirs) = (&field.parts[first], &field.parts[second]);
        let hung = ours.hangs.iter().find(|(part, _)| *part == second).map(|(_, h)| h)?;
        let walk = if stream.from == Place::Part(first) { Direction::Against } else { Direction::Along };
        let ask = problem.ask(stream, 0, walk)?;
        let n = i64::from(totals[first].max(1));
        let single = totals[first] == 1 && totals[second] == 1;
        let weight = field.weight(problem, first, second)?;
        let whole: Vec<i64> = (0..theirs.stand.len()).map(|line| field.whole(second, line, totals[second])).collect();
        let partners = Partners::new(problem, (second, &theirs.stand), &whole);
        let site = |line: u32| problem.parts[first].stands[ours.stand[line as usize] as usize].site;
        let point = |line: u32| problem.site_point(site(line));
        let lines = || (0..ours.stand.len() as u32).filter(|l| through_at_most(ours.through[*l as usize], limit));
        let ask = Ask { kbps: 0, ..ask };
        let cover = partners.cover(problem, &ask, bound, &whole, lines().map(point));
        let raised = |line: u32, cost: i64| {
            let (through, least) = (ours.through[line as usize], hung[line as usize]);
            through + (cost - least).max(0) / n
        };
        let mut order: Vec<(i64, u32)> = lines()
            .filter(|line| cover[point(*line) as usize] < NEVER)
            .map(|line| (raised(line, cover[point(line) as usize]), line))
            .filter(|(bound, _)| through_at_most(*bound, limit))
            .collect();
        order.sort_unstable();
        let mut near = Self { pairs: Vec::new(), partners: Vec::new(), rest: false };
        let mut wanted = vec![false; theirs.stand.len()];
        // lines of the second that may be part of a plan and that nobody has reached yet
        let mut open = theirs.through.iter().filter(|through| through_at_most(**through, limit)).count();
        for (lowest, line) in order {
            let through = ours.through[line as usize];
            let done = near.pairs.iter().filter(|(t, ..)| *t <= lowest).count();
            if done >= few {
                near.rest = true;
                break;
            }
            let stand = ours.stand[line as usize] as usize;
            if problem.parts[first].room(stand) == 0 {
                continue;
            }
            let root = point(line);
            let mut ball = Ball::new(Scan::new(problem.net, ask, root, By::Latency), bound, problem.net.points());
            if limit.is_some() && !single && open > 0 {
                // a few of many replicas may stand there, whatever all of them would cost
                while let Some(point) = ball.next() {
                    for other in partners.at(point) {
                        let is_new = !std::mem::replace(&mut wanted[*other as usize], true);
                        open -= usize::from(is_new && through_at_most(theirs.through[*other as usize], limit));
                    }
                }
            }
            let mut best: Option<(i64, u32)> = None;
            let least = hung[line as usize];
            let mut seen: Vec<bool> = vec![false; problem.net.points()];
            for (index, (point, units)) in Scan::new(problem.net, ask, root, By::Price).enumerate() {
                seen[point as usize] = true;
                if index % FAR == FAR - 1 && ball.all_among(&seen, &partners) {
                    break;
                }
                let way = weighed(i64::try_from(units).unwrap_or(i64::MAX), weight);
                let nearest = partners.least.saturating_add(way);
                // whoever is farther costs more than the best, and more than the limit allows
                let pays = |cost: i64| through_at_most(through + (cost - least).max(0) / n, limit);
                let wants = limit.is_some() && single;
                if nearest >= NEVER || !pays(nearest) || (!wants && best.is_some_and(|(c, _)| nearest >= c)) {
                    break;
                }
                for other in partners.at(point) {
                    let cost = whole[*other as usize].saturating_add(way).min(NEVER);
                    let better = best.is_none_or(|(c, known)| (cost, *other) < (c, known));
                    let wanting = wants && !wanted[*other as usize] && pays(cost);
                    if !(better || wanting) || !ball.has(point) {
                        continue;
                    }
                    wanted[*other as usize] |= wanting;
                    if better && problem.parts[second].room(theirs.stand[*other as usize] as usize) > 0 {
                        best = Some((cost, *other));
                    }
                }
            }
            if let Some((cost, other)) = best {
                let raised = raised(line, cost);
                if through_at_most(raised, limit) {
                    near.pairs.push((raised, line, other));
                }
            }
        }
        near.pairs.sort_unstable();
        near.partners = (0..wanted.len() as u32).filter(|l| wanted[*l as usize]).collect();
        Some(near)
    }
}

/// Points after which it is worth knowing who all is near enough.
const FAR: usize = 64;

/// Points within a delay of a root, looked for as far as anyone asks.
struct Ball<'n> {
    scan: Scan<'n>,
    bound: u64,
    within: Vec<bool>,
    all: bool,
}

impl<'n> Ball<'n> {
    fn new(scan: Scan<'n>, bound: u64, points: usize) -> Self {
        Self { scan, bound, within: vec![false; points], all: false }
    }

    /// The next point, farther than those before it.
    fn next(&mut self) -> Option<u32> {
        let next = self.scan.next().filter(|(_, latency)| !self.all && *latency <= self.bound);
        self.all |= next.is_none();
        let (point, _) = next?;
        self.within[point as usize] = true;
        Some(point)
    }

    /// Whether all of its points that have partners are among these.
    fn all_among(&mut self, seen: &[bool], partners: &Partners) -> bool {
        while self.next().is_some() {}
        let open = |point: usize| self.within[point] && !seen[point] && !partners.at(point as u32).is_empty();
        !(0..seen.len()).any(open)
    }

    fn has(&mut self, point: u32) -> bool {
        while !self.within[point as usize] && self.next().is_some() {}
        self.within[point as usize]
    }
}

/// Lines of a component by the point where they stand.
struct Partners {
    lines: Vec<u32>,
    /// By point, its first line; one more at the end.
    first: Vec<u32>,
    /// What the cheapest costs.
    least: i64,
}

impl Partners {
    fn new(problem: &Problem, (part, stands): (usize, &[u32]), whole: &[i64]) -> Self {
        let point = |line: u32| problem.site_point(problem.parts[part].stands[stands[line as usize] as usize].site);
        let mut lines: Vec<u32> = (0..stands.len() as u32).collect();
        lines.sort_by_key(|line| point(*line));
        let mut first = vec![0_u32; problem.net.points() + 1];
        for line in &lines {
            first[point(*line) as usize + 1] += 1;
        }
        (0..problem.net.points()).for_each(|at| first[at + 1] += first[at]);
        Self { lines, first, least: whole.iter().copied().min().unwrap_or(NEVER) }
    }

    fn at(&self, point: u32) -> &[u32] {
        &self.lines[self.first[point as usize] as usize..self.first[point as usize + 1] as usize]
    }

    /// By point, what its cheapest partner within the bound costs at the least, whatever the way there; `NEVER`: there is
    /// none. `of`: the points that matter.
    fn cover(
        &self,
        problem: &Problem,
        ask: &Ask,
        bound: u64,
        whole: &[i64],
        of: impl Iterator<Item = u32>,
    ) -> Vec<i64> {
        let net = problem.net;
        let mut open = vec![false; net.points()];
        of.for_each(|point| open[point as usize] = true);
        let mut left = open.iter().filter(|open| **open).count();
        let mut cover = vec![NEVER; net.points()];
        let mut cheapest: Vec<(i64, u32)> = (0..net.points() as u32)
            .filter_map(|point| Some((self.at(point).iter().map(|line| whole[*line as usize]).min()?, point)))
            .filter(|(cost, _)| *cost < NEVER)
            .collect();
        cheapest.sort_unstable();
        let back = Ask { walk: ask.walk.reverse(), ..*ask };
        for (index, (cost, root)) in cheapest.into_iter().enumerate() {
            if left == 0 {
                break;
            }
            if index >= BALLS {
                // whoever is not covered yet has no cheaper partner than this
                for (point, cover) in cover.iter_mut().enumerate() {
                    if open[point] {
                        *cover = cost;
                    }
                }
                break;
            }
            for (point, _) in Scan::new(net, back, root, By::Latency).take_while(|(_, latency)| *latency <= bound) {
                if std::mem::take(&mut open[point as usize]) {
                    cover[point as usize] = cost;
                    left -= 1;
                }
            }
        }
        cover
    }
}

/// Partners around which all points within the bound are looked for.
const BALLS: usize = 48;
