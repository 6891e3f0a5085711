//! Pairs of stands whose flow keeps its delay bound: a field alone does not see delay between components.

use crate::{
    bound::through_at_most,
    field::{Field, NEVER, weighed},
    network::Direction,
    path::Ask,
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
        let points: Vec<u32> =
            theirs.stand.iter().map(|s| problem.site_point(problem.parts[second].stands[*s as usize].site)).collect();
        let whole: Vec<i64> = (0..theirs.stand.len()).map(|line| field.whole(second, line, totals[second])).collect();
        let mut order: Vec<u32> =
            (0..ours.stand.len() as u32).filter(|l| through_at_most(ours.through[*l as usize], limit)).collect();
        order.sort_unstable_by_key(|l| (ours.through[*l as usize], *l));
        let mut near = Self { pairs: Vec::new(), partners: Vec::new(), rest: false };
        let mut wanted = vec![false; theirs.stand.len()];
        for line in order {
            let through = ours.through[line as usize];
            let done = near.pairs.iter().filter(|(t, ..)| *t <= through).count();
            if done >= few {
                near.rest = true;
                break;
            }
            let stand = ours.stand[line as usize] as usize;
            if problem.parts[first].room(stand) == 0 {
                continue;
            }
            let root = [problem.site_point(problem.parts[first].stands[stand].site)];
            let tree = problem.tree(stream, &ask, &root);
            let ask = Ask { kbps: 0, ..ask };
            let mut best: Option<(i64, u32)> = None;
            let least = hung[line as usize];
            for (other, point) in points.iter().enumerate() {
                if tree.quickest(problem.net, &ask, *point).is_none_or(|l| l > bound) {
                    continue;
                }
                let Some((units, _)) = tree.cheapest(problem.net, &ask, *point) else { continue };
                let cost = whole[other].saturating_add(weighed(units, weight)).min(NEVER);
                if limit.is_some() && (!single || through_at_most(through - least + cost.max(least), limit)) {
                    wanted[other] = true;
                }
                if best.is_none_or(|(c, _)| cost < c) && problem.parts[second].room(theirs.stand[other] as usize) > 0 {
                    best = Some((cost, other as u32));
                }
            }
            if let Some((cost, other)) = best {
                let raised = through + (cost - least).max(0) / n;
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
