//! Which stands a search works on: first the few that promise most, then all through which a plan can still be as cheap as
//! the best one found.

use crate::{
    bound,
    field::{Field, GRAINS, NEVER},
    gang::{self, Gang},
    network::Direction,
    part::Part,
    pricing::Pricing,
    problem::{Place, Problem, Stream},
    search::Search,
    settle::Best,
    sieve,
};
use rhumb_model::ratio::Ratio;

/// Whether no number of replicas makes a plan: a component has nowhere to stand, or the fewest replicas alone cost or take
/// too much.
pub(crate) fn hopeless(problem: &Problem) -> bool {
    if problem.parts.iter().any(|p| p.stands.is_empty()) || problem.streams.iter().any(|s| too_far(problem, s)) {
        return true;
    }
    let too_long = |part: &Part, open: &Ratio| !(0..part.stands.len()).any(|stand| part.hours(stand) <= *open);
    if sieve::longest_opening(problem).is_some_and(|open| problem.parts.iter().any(|part| too_long(part, &open))) {
        return true;
    }
    let Some(budget) = &problem.budget else { return false };
    let pricing = Pricing::new(problem);
    if pricing.staged() {
        return false;
    }
    let least = |index: usize| {
        let part = &problem.parts[index];
        let all = part.stands.iter().filter_map(|stand| pricing.of(index, stand, 1, 0)).min();
        all.map_or(NEVER, |each| each.saturating_mul(i64::from(part.fewest)))
    };
    let least = (0..problem.parts.len()).map(least).fold(0, i64::saturating_add);
    Ratio::from_integer(i128::from(least / GRAINS)) > *budget
}

/// Whether a flow to a fixed point cannot keep its bound from anywhere, even if nothing else used the links.
fn too_far(problem: &Problem, stream: &Stream) -> bool {
    let (Place::Part(part), Place::Points(roots), walk) = (match (&stream.from, &stream.to) {
        (Place::Part(_), to) => (&stream.from, to, Direction::Along),
        (from, to) => (to, from, Direction::Against),
    }) else {
        return false;
    };
    let Some(bound) = stream.bound.filter(|_| stream.demand.is_none_or(|d| d > 0)) else { return false };
    if stream.hopeless {
        return true;
    }
    let Some(ask) = problem.ask(stream, 0, walk) else { return false };
    let tree = problem.tree(stream, &ask, roots);
    let near = |site: usize| tree.quickest(problem.net, &ask, problem.site_point(site)).is_some_and(|l| l <= bound);
    !problem.parts[*part].stands.iter().any(|stand| near(stand.site))
}

/// Stands of each component in the first round.
const FEW: usize = 6;

/// Searches among the few most promising stands, then among all that can still be as cheap as the best plan found.
pub(crate) fn search(problem: &Problem, field: &Field, totals: &[u32], force: Option<(usize, usize)>, best: &mut Best) {
    // stands that are few do not hold many replicas at one site
    let mut alone = gang::suits(problem, totals);
    let mut few = if alone { usize::MAX } else { FEW };
    let mut wider = None;
    let mut tried: Vec<Vec<u32>> = Vec::new();
    loop {
        let all = |part: usize| field.parts[part].stand.len();
        let limit = best.total();
        // bounds that were cut off below what the plan costs tell too little
        if let Some(total) = limit
            && wider.is_none()
            && !Field::beaten(field.limit, total)
        {
            let limit = total.saturating_mul(GRAINS).saturating_add(GRAINS * 8);
            wider = field.widened(problem, totals, limit);
        }
        let field = wider.as_ref().unwrap_or(field);
        let (lists, rest) = bound::shortlist(problem, field, totals, force, few, limit);
        let stands: Vec<Vec<u32>> = lists.iter().map(|l| l.iter().map(|b| b.line).collect()).collect();
        if tried != stands {
            let gang = if alone { Gang::new(problem, field, totals, force, &lists) } else { None };
            if let Some(gang) = gang {
                gang.search(best);
            } else if alone {
                (alone, few) = (false, FEW);
                continue;
            } else if let Some(mut search) = Search::new(problem, field, totals, force, lists) {
                search.part(0, best);
            }
            if best.nodes_left == 0 && rest {
                best.leave(field.least());
            }
            if best.nodes_left == 0 || (best.any && best.solution.is_some()) {
                return;
            }
            tried = stands;
        }
        if !rest {
            return;
        }
        // with a plan in hand all that may beat it are tried at once
        few = if best.solution.is_some() || few >= (0..totals.len()).map(all).max().unwrap_or(0) {
            usize::MAX
        } else {
            few.saturating_mul(8)
        };
    }
}
