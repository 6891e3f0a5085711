//! Of the stands of a field, the few that a search works on, each with its bounds in whole micro-units, rounded down, so
//! that a bound is never too high.

use crate::{
    field::{Field, GRAINS, NEVER},
    near,
    network::{Direction, Price},
    path::{Ask, Tree},
    problem::{HOUR, Place, Problem, Stream},
};
use rhumb_model::ratio::Ratio;

/// A stand with its bounds.
#[derive(Debug, Clone)]
pub(crate) struct Bounded {
    /// Index into the part's stands.
    pub stand: usize,
    /// Index into the field's lines.
    pub line: u32,
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
    /// Of the site, once the component stands on others too: its flows to itself leave by some link.
    pub away: i128,
    /// No staging into it takes less, in nanoseconds.
    pub inbound: i128,
    pub hours: Ratio,
}

/// Of each component the stands through which a plan may total `limit` at most, those at a forced site and then the
/// cheapest first, and not more than `few` (where that leaves room for all replicas); and whether there are others.
pub(crate) fn shortlist(
    problem: &Problem,
    field: &Field,
    totals: &[u32],
    force: Option<(usize, usize)>,
    few: usize,
    limit: Option<i64>,
) -> (Vec<Vec<Bounded>>, bool) {
    let mut rest = false;
    let mut lists = Vec::with_capacity(totals.len());
    let pair = near::bounded_pair(problem, field).filter(|_| force.is_none());
    let near = pair.and_then(|pair| near::Near::new(problem, field, totals, pair, few, limit).map(|near| (pair, near)));
    for (index, lines) in field.parts.iter().enumerate() {
        let part = &problem.parts[index];
        let forced = force.filter(|(p, _)| *p == index).map(|(_, site)| site);
        let away = |line: u32| forced.is_some_and(|s| part.stands[lines.stand[line as usize] as usize].site != s);
        let mut few = few;
        let may = |line: &u32| through_at_most(lines.through[*line as usize], limit);
        let mut list: Vec<Bounded> = Vec::new();
        if let Some(((first, second, _), near)) = &near {
            // of the two, those that reach each other within the bound
            let full = !near.rest && limit.is_some();
            let chosen: Vec<u32> = match index {
                i if i == *first => near.pairs.iter().map(|(_, line, _)| *line).take(few).collect(),
                i if i == *second && full => near.partners.clone(),
                i if i == *second => near.pairs.iter().map(|(.., line)| *line).take(few).collect(),
                _ => Vec::new(),
            };
            for line in chosen {
                if !list.iter().any(|b| b.line == line)
                    && part.room(lines.stand[line as usize] as usize) > 0
                    && may(&line)
                {
                    list.push(bounded(problem, field, totals, index, line));
                }
            }
            let room: u64 = list.iter().map(|b| u64::from(b.room)).sum();
            if index == *first || (index == *second && full) {
                rest |= index == *first && (near.rest || near.pairs.len() > few);
                if room >= u64::from(totals[index])
                    || (index == *first && !near.rest && near.pairs.len() <= few)
                    || full
                {
                    list.sort_by_key(|b| (b.order, b.stand));
                    lists.push(list);
                    continue;
                }
            }
            few = few.max(list.len());
        }
        let mut order: Vec<u32> = (0..lines.stand.len() as u32).filter(may).collect();
        let key = |line: &u32| (away(*line), lines.through[*line as usize], lines.stand[*line as usize]);
        let mut sorted = order.len();
        if few.saturating_mul(4) < order.len() {
            sorted = few * 4;
            order.select_nth_unstable_by_key(sorted, key);
            order[..sorted].sort_unstable_by_key(key);
        } else {
            order.sort_unstable_by_key(key);
        }
        let mut room: u64 = list.iter().map(|b| u64::from(b.room)).sum();
        let mut next = 0;
        while next < order.len() && (list.len() < few || room < u64::from(totals[index])) {
            if next == sorted {
                order[sorted..].sort_unstable_by_key(key);
                sorted = order.len();
            }
            let line = order[next];
            next += 1;
            let stand = lines.stand[line as usize] as usize;
            if part.room(stand) > 0 && !list.iter().any(|b| b.line == line) {
                room += u64::from(part.room(stand));
                list.push(bounded(problem, field, totals, index, line));
            }
        }
        rest |= order[next..].iter().any(|line| part.room(lines.stand[*line as usize] as usize) > 0);
        list.sort_by_key(|b| (forced.is_some_and(|site| b.site != site), b.order, b.stand));
        lists.push(list);
    }
    (lists, rest)
}

/// Whether a plan with this bound in grains may total `limit` micro-units at most.
pub(crate) fn through_at_most(through: i64, limit: Option<i64>) -> bool {
    through < NEVER && limit.is_none_or(|limit| !Field::beaten(through, limit))
}

fn bounded(problem: &Problem, field: &Field, totals: &[u32], index: usize, line: u32) -> Bounded {
    let part = &problem.parts[index];
    let lines = &field.parts[index];
    let at = line as usize;
    let stand = lines.stand[at] as usize;
    let n = i64::from(totals[index].max(1));
    let each = i128::from(lines.each[at] / GRAINS);
    let mut hangs = vec![0; totals.len()];
    for (other, values) in &lines.hangs {
        hangs[*other] = i128::from(values[at] / n / GRAINS);
    }
    let site = part.stands[stand].site;
    let mut b = Bounded {
        stand,
        line,
        site,
        room: part.room(stand),
        bill: if field.staged { 0 } else { each },
        each,
        order: hangs.iter().fold(each, |sum, h| sum.saturating_add(*h)),
        hangs,
        away: 0,
        inbound: i128::from(lines.inbound[at]),
        hours: part.hours(stand),
    };
    if totals[index] > 1 {
        let this = Place::Part(index);
        let own = problem.streams.iter().filter(|s| s.from == this && s.to == this);
        own.for_each(|stream| b.away = b.away.saturating_add(away(problem, stream, &b)));
    }
    b
}

/// The cheapest link that leaves the site and carries the stream, for the hours of the component.
fn away(problem: &Problem, stream: &Stream, b: &Bounded) -> i128 {
    let Some(ask) = problem.ask(stream, stream.kbps.unwrap_or(0), Direction::Along) else { return i128::MAX / 4 };
    let leaving = problem.net.on_from(problem.site_point(b.site), Direction::Along).iter();
    let cheapest =
        leaving.filter(|e| ask.takes(problem.net, **e)).map(|e| problem.net.edges[*e as usize].per_mbps_hour).min();
    match cheapest {
        Some(units) => amount(problem, stream, i128::from(units), b.hours, 1).unwrap_or(0),
        None => i128::MAX / 4,
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
    // the tree is rooted where the component stands that is placed first: it serves all sites of the other
    let (mut root, mut end, mut walk) = (problem.site_point(from), problem.site_point(to), Direction::Against);
    if stream.onto_earlier() {
        (root, end, walk) = (end, root, Direction::Along);
    }
    let kbps = stream.kbps.map_or(0, |k| k / divide.max(1));
    let ask = problem.ask(stream, kbps, walk)?;
    let tree = problem.tree(stream, &ask, &[root]);
    let (units, _) = tree.cheapest(problem.net, &ask, end)?;
    if !quick_enough(problem, stream, &tree, &ask, end) {
        return None;
    }
    amount(problem, stream, i128::from(units), hours, i128::from(divide))
}
