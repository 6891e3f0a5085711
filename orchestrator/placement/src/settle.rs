//! A placement's legs: the choices that cost the least together.
//!
//! Where no link is asked for more than it has, legs are independent but for one thing: the slowest transfer sets the
//! start (or the finish). So every time that some choice takes is tried as the limit, and each other leg takes its
//! cheapest choice within it. Where legs overfill a link, they are chosen jointly.

use crate::{
    cost::{Carried, Compute, Terms, Times},
    fan,
    field::Value,
    joint,
    legs::{self, Leg, Served, Sites},
    load::Load,
    option::{Choice, Cut},
    problem::{Place, Problem, Span, Stream},
    selection::{Selection, selections},
    several,
};
use num_traits::CheckedAdd;
use rhumb_model::{ModelName, ratio::Ratio};
use std::{cmp::Reverse, collections::BTreeMap, rc::Rc};

/// By component: (stand, replicas), in order of stand.
pub(crate) type Placed = Vec<Vec<(usize, u32)>>;

#[derive(Debug, Clone)]
pub(crate) struct Solution {
    pub placed: Placed,
    pub legs: Vec<(Leg, Choice)>,
    pub terms: Terms,
    pub times: Times,
    pub score: Score,
}

/// The order of plans, best first: ties are broken by fewer sites, fewer links, then sites by component in document
/// order, models, link ids, the earlier start and the higher rungs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score {
    pub total: i64,
    pub sites: usize,
    pub links: usize,
    pub names: Vec<Vec<usize>>,
    models: Vec<Vec<Option<ModelName>>>,
    paths: Vec<Rc<[u32]>>,
    start: Ratio,
    rungs: Vec<Reverse<u64>>,
    replicas: Vec<Vec<Reverse<u32>>>,
    served: Served,
}

/// What is known of the best plan so far, and how much work is left.
pub(crate) struct Best {
    pub solution: Option<Solution>,
    pub nodes_left: u64,
    /// With fewer left and no plan found, the search gives up.
    pub patience: u64,
    pub opened: u64,
    /// The lowest bound of anything that was left unexplored.
    pub open: Option<i128>,
    /// The first plan ends the search.
    pub any: bool,
}

impl Best {
    pub fn total(&self) -> Option<i64> {
        self.solution.as_ref().map(|s| s.terms.total)
    }

    /// Whether nothing with this bound can be better, not even on a tie.
    pub fn beats(&self, bound: i128) -> bool {
        self.total().is_some_and(|total| bound > i128::from(total))
    }

    /// Takes one node of the budget; what cannot be opened counts into the gap.
    pub fn open(&mut self, bound: i128) -> bool {
        if self.nodes_left < self.patience && self.solution.is_none() {
            self.nodes_left = 0;
        }
        if self.nodes_left == 0 || (self.any && self.solution.is_some()) {
            self.leave(bound);
            return false;
        }
        self.nodes_left -= 1;
        self.opened += 1;
        true
    }

    /// Takes more of the budget for work that is as much as that of several nodes.
    pub fn spend(&mut self, nodes: u64) {
        self.nodes_left = self.nodes_left.saturating_sub(nodes);
    }

    /// Notes that something with this bound stays unexplored.
    pub fn leave(&mut self, bound: i128) {
        self.open = Some(self.open.map_or(bound, |b| b.min(bound)));
    }

    pub fn offer(&mut self, solution: Solution) {
        if self.solution.as_ref().is_none_or(|known| solution.score < known.score) {
            self.solution = Some(solution);
        }
    }
}

/// Sites of a placement: replicas of all models together.
pub(crate) fn sites_of(problem: &Problem, placed: &Placed) -> Sites {
    problem
        .parts
        .iter()
        .zip(placed)
        .map(|(part, list)| {
            let mut sites = BTreeMap::new();
            for (stand, n) in list {
                *sites.entry(part.stands[*stand].site).or_insert(0) += n;
            }
            sites.into_iter().collect()
        })
        .collect()
}

/// Most ways of serving one placement's demand that are tried.
pub(crate) const SERVINGS: usize = 200;

/// Nodes that the legs of one placement count for.
const WEIGHT: u64 = 8;
/// Labels of path searches that count for a node more: in a small network a placement's legs make some tens, among thousands
/// of points tens of thousands.
const LABELS: u64 = 64;

/// Finds the cheapest legs for a placement and offers the plan.
pub(crate) fn settle(problem: &Problem, placed: &Placed, best: &mut Best) {
    let sites = sites_of(problem, placed);
    let Some(compute) = Compute::new(problem, placed) else { return };
    best.spend(WEIGHT);
    problem.labels.set(0);
    legs_of(problem, placed, &sites, &compute, best);
    best.spend(problem.labels.take() / LABELS);
}

fn legs_of(problem: &Problem, placed: &Placed, sites: &Sites, compute: &Compute, best: &mut Best) {
    if several::concerns(problem) {
        return several::settle(problem, placed, sites, compute, best);
    }
    let Some(least) = compute.least() else { return };
    if serves_for_more(problem, sites, compute, least, best) {
        return;
    }
    let (corners, mut more) = legs::servings(problem, sites, SERVINGS, false);
    let several = corners.len() > 1 || more;
    let mut bounds: Vec<(i128, bool)> = Vec::new();
    for served in &corners {
        let legs = legs::legs(problem, sites, served);
        let settling = Settling { problem, placed, compute, least, legs: &legs, served };
        if several {
            let Some((bound, fits)) = settling.at_best() else { continue };
            bounds.push((bound, fits));
            if best.beats(bound) || !best.open(bound) {
                continue;
            }
        }
        settling.run(best);
    }
    // where the cheapest corner has room for all of it, no other share of the demand is cheaper
    let Some((bound, fits)) = bounds.into_iter().min_by_key(|(bound, fits)| (*bound, !fits)) else { return };
    if (fits && !more) || best.beats(bound) {
        return;
    }
    let finer;
    (finer, more) = legs::servings(problem, sites, SERVINGS, true);
    for served in finer.iter().filter(|served| !corners.contains(served)) {
        if !best.open(bound) {
            return;
        }
        let legs = legs::legs(problem, sites, served);
        Settling { problem, placed, compute, least, legs: &legs, served }.run(best);
    }
    if more && !best.beats(bound) {
        best.leave(bound);
    }
}

/// Whether the placement costs more than the best plan however its sites share the demand: with each flow of demand served
/// whole where that is cheapest.
fn serves_for_more(problem: &Problem, sites: &Sites, compute: &Compute, least: i128, best: &Best) -> bool {
    let whole = |stream: usize, site: usize| {
        let stream_of = &problem.streams[stream];
        let demand = stream_of.demand.filter(|d| *d > 0)?;
        let mut served: Served = vec![Vec::new(); problem.streams.len()];
        served[stream] = vec![(site, demand)];
        legs::legs(problem, sites, &served).into_iter().find(|leg| leg.stream == stream)
    };
    let floors = || {
        let none: Served = vec![Vec::new(); problem.streams.len()];
        let fixed = legs::legs(problem, sites, &none);
        let mut sum = Carried::nothing();
        for leg in &fixed {
            sum = sum.with(&*fan::floor(problem, leg)?, problem.streams[leg.stream].span)?;
        }
        for (index, stream) in problem.streams.iter().enumerate().filter(|(_, s)| s.demand.is_some_and(|d| d > 0)) {
            let Place::Part(part) = stream.to else { continue };
            let at = sites[part].iter().filter_map(|(site, _)| fan::at_best(problem, &whole(index, *site)?));
            sum = sum.with(&*at.min_by(|a, b| a.cost.cmp(&b.cost))?, stream.span)?;
        }
        Some(sum)
    };
    let divides = |s: &Stream| match s.to {
        Place::Part(part) => s.demand.is_some_and(|d| d > 0) && sites[part].len() > 1,
        Place::Points(_) => false,
    };
    if best.solution.is_none() || !problem.streams.iter().any(divides) {
        return false;
    }
    // without a way for some leg there is no plan
    let Some(floors) = floors() else { return true };
    compute.bound_of_all(least, &floors, None).is_none_or(|bound| best.beats(bound - joint::SLACK))
}

#[derive(Clone, Copy)]
pub(crate) struct Settling<'s, 'a> {
    pub problem: &'s Problem<'a>,
    pub placed: &'s Placed,
    pub compute: &'s Compute<'s, 'a>,
    pub least: i128,
    pub legs: &'s [Leg],
    pub served: &'s Served,
}

/// What came of the selections that could not be offered.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tried {
    /// Some overfill a link together.
    pub shared: bool,
    /// Some come too late for a hard end.
    pub late: bool,
}

impl Settling<'_, '_> {
    fn run(&self, best: &mut Best) {
        // a hard end may need a path that saves time at any price
        if self.choose(best, true) {
            self.choose(best, false);
        }
    }

    /// What the legs of demand cost at the least, with all others at their cheapest; and whether these have room for it
    /// all. No plan of the placement that shares the demand otherwise costs less than the least of all corners.
    pub fn at_best(&self) -> Option<(i128, bool)> {
        let mut sum = Carried::nothing();
        let mut load = Load::default();
        let mut fits = true;
        for leg in self.legs {
            let span = self.problem.streams[leg.stream].span;
            let choice = fan::at_best(self.problem, leg)?;
            sum = sum.with(&choice, span)?;
            fits &= span != Span::Run || load.add(self.problem, span, &choice);
        }
        Some((self.compute.bound(self.least, &sum)? - 2, fits))
    }

    /// Whether some selection of `limited` choices came too late that could otherwise have been the best.
    fn choose(&self, best: &mut Best, limited: bool) -> bool {
        let streams = &self.problem.streams;
        let span = |leg: &Leg| streams[leg.stream].span;
        let Some(floors) = self.floors() else { return false };
        let Some(bound) = self.compute.bound_of_all(self.least, &floors, self.staged_by()).map(|b| b - joint::SLACK)
        else {
            return false;
        };
        if best.beats(bound) || self.compute.too_late(&floors) {
            return false;
        }
        // with a plan in hand no leg may cost more than its least by more than that plan is above the bound
        let extra = best.total().map(|total| i128::from(total) - bound + 1);
        let only = |phase: Span| self.legs.iter().filter(|leg| span(leg) == phase).count() == 1;
        let timeless = self.compute.bound(self.least, &floors).map(|b| b - joint::SLACK);
        let held = self.legs.iter().any(|l| span(l) == Span::Run && l.kbps.is_some());
        let matter = |wanted: Span| self.compute.matter(wanted, held);
        let mut options: Vec<Rc<[Choice]>> = vec![Rc::from([]); self.legs.len()];
        let mut rate = Ratio::from_integer(0);
        // what runs has one choice each, and tells what it costs to let it wait for results
        for phase in [Span::Run, Span::Inbound, Span::Outbound] {
            let slope = if limited { self.compute.slope(phase, &rate) } else { None };
            let latest = match phase {
                // a later start may be a cheaper one
                Span::Inbound => {
                    self.compute.latest(phase, &floors, best.total().zip(timeless).map(|(t, b)| i128::from(t) - b + 1))
                }
                _ => self.compute.latest(phase, &floors, extra),
            };
            for (i, leg) in self.legs.iter().enumerate().filter(|(_, leg)| span(leg) == phase) {
                let (choices, all) = fan::choices(self.problem, leg, matter(phase), Cut { slope, extra });
                if !all {
                    best.leave(bound);
                }
                let Some(first) = choices.first() else { return false };
                if phase == Span::Run {
                    rate = rate.checked_add(&first.path).unwrap_or(rate);
                }
                options[i] = match latest.filter(|latest| choices.iter().any(|c| c.time > *latest)) {
                    Some(latest) => choices.iter().filter(|c| c.time <= latest).cloned().collect(),
                    None => choices,
                };
                if phase == Span::Inbound && only(Span::Inbound) && options[i].len() > 1 {
                    let keep = self.compute.worth_waiting(&options[i]);
                    if keep.contains(&false) {
                        let kept =
                            options[i].iter().zip(keep).filter(|(_, keep)| *keep).map(|(choice, _)| choice.clone());
                        options[i] = kept.collect();
                    }
                }
                if options[i].is_empty() {
                    return false;
                }
            }
        }
        let Tried { shared, late } = self.select(&options, &rate, best);
        let late = late && limited;
        // a limit at which the legs overfill a link may hold a cheaper plan than those at which they do not
        if shared && !late {
            joint::settle(self, &options, best);
        }
        late
    }

    /// Of a single leg that stages in at a rate of its own: when it is done at the latest, in nanoseconds. Alone in its phase
    /// it takes none but its cheapest path and quicker ones.
    fn staged_by(&self) -> Option<i128> {
        let span = |leg: &Leg| self.problem.streams[leg.stream].span;
        let mut inbound = self.legs.iter().filter(|leg| span(leg) == Span::Inbound);
        let leg = inbound.next().filter(|leg| leg.kbps.is_some())?;
        let floor = fan::floor(self.problem, leg).filter(|_| inbound.next().is_none())?;
        Some(floor.time.ceil().to_integer() + i128::from(floor.latency) * 1_000)
    }

    /// The least that each leg costs and takes. `None`: one has no way.
    fn floors(&self) -> Option<Carried> {
        self.legs.iter().try_fold(Carried::nothing(), |sum, leg| {
            sum.with(&*fan::floor(self.problem, leg)?, self.problem.streams[leg.stream].span)
        })
    }

    /// Offers the best selection of one option for each leg. What runs has one; `rate` is what these cost per nanosecond,
    /// at the least.
    pub fn select(&self, options: &[Rc<[Choice]>], rate: &Ratio, best: &mut Best) -> Tried {
        let streams = &self.problem.streams;
        let span = |leg: &Leg| streams[leg.stream].span;
        let held = self.legs.iter().any(|l| span(l) == Span::Run && l.kbps.is_some());
        let matter = |wanted: Span| self.compute.matter(wanted, held);
        let of =
            |wanted: Span| -> Vec<usize> { (0..self.legs.len()).filter(|i| span(&self.legs[*i]) == wanted).collect() };
        let (inbound, outbound) = (of(Span::Inbound), of(Span::Outbound));
        let (into, out) = (
            selections(options, &inbound, matter(Span::Inbound)),
            selections(options, &outbound, matter(Span::Outbound)),
        );
        let mut picks = vec![0; self.legs.len()];
        let mut tried = Tried::default();
        let hard = (self.problem.deadline.is_some() && self.problem.late.is_none()) || self.problem.window.is_some();
        let mut local: Option<Solution> = None;
        let base = self.compute.at_base(self.least, rate);
        let legs_of = |legs: &[usize], selection: &Selection, span: Span| {
            let mut chosen = legs.iter().zip(&selection.picks).map(|(leg, pick)| &options[*leg][*pick]);
            chosen.try_fold(Carried::nothing(), |sum, choice| sum.with(choice, span)).unwrap_or(Carried::nothing())
        };
        let rate = Value::of_rate(rate);
        let cheapest_first = |mut list: Vec<(i128, Selection)>| {
            list.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.picks.cmp(&other.picks)));
            list
        };
        let adds_out = |o: &Selection| self.compute.moving_out(&legs_of(&outbound, o, Span::Outbound), rate);
        let adds_in = |i: &Selection| self.compute.staging_in(self.least, &legs_of(&inbound, i, Span::Inbound));
        let out = cheapest_first(out.into_iter().map(|o| (adds_out(&o), o)).collect());
        let into = cheapest_first(into.into_iter().map(|i| (adds_in(&i), i)).collect());
        for (adds_in, i) in &into {
            for (add, o) in &out {
                let known = [best.total(), local.as_ref().map(|l| l.terms.total)].into_iter().flatten().min();
                // whole numbers tell of most that they cost too much
                if known.is_some_and(|k| base.saturating_add(*adds_in).saturating_add(*add) > i128::from(k)) {
                    break;
                }
                inbound
                    .iter()
                    .zip(&i.picks)
                    .chain(outbound.iter().zip(&o.picks))
                    .for_each(|(leg, pick)| picks[*leg] = *pick);
                let chosen: Vec<&Choice> = picks.iter().zip(options).map(|(p, o)| &o[*p]).collect();
                let Some(carried) = self.carried(&chosen) else { continue };
                if self.compute.bound_at(self.least, &carried).is_none_or(|b| known.is_some_and(|k| b > i128::from(k)))
                {
                    continue;
                }
                if !self.carries(&chosen) {
                    tried.shared = true;
                    continue;
                }
                let Some((terms, times)) = self.compute.best(&carried) else {
                    tried.late |= hard;
                    continue;
                };
                if known.is_none_or(|k| terms.total <= k) {
                    let solution = self.solution(&chosen, terms, times);
                    if local.as_ref().is_none_or(|l| solution.score < l.score) {
                        local = Some(solution);
                    }
                }
            }
        }
        if let Some(solution) = local {
            best.offer(solution);
        }
        tried
    }

    pub fn carried(&self, chosen: &[&Choice]) -> Option<Carried> {
        let mut sum = Carried::nothing();
        for (leg, choice) in self.legs.iter().zip(chosen) {
            sum = sum.with(choice, self.problem.streams[leg.stream].span)?;
        }
        Some(sum)
    }

    /// Whether no link is asked for more than it has, in any of the three phases.
    fn carries(&self, chosen: &[&Choice]) -> bool {
        if self.problem.relax.bandwidth {
            return true;
        }
        let mut load = Load::default();
        self.legs
            .iter()
            .zip(chosen)
            .all(|(leg, choice)| load.add(self.problem, self.problem.streams[leg.stream].span, choice))
    }

    pub fn solution(&self, chosen: &[&Choice], terms: Terms, times: Times) -> Solution {
        let parts = &self.problem.parts;
        let score = Score {
            total: terms.total,
            sites: self.compute.sites(),
            links: chosen.iter().map(|c| c.links()).sum(),
            names: self
                .placed
                .iter()
                .zip(parts)
                .map(|(list, part)| list.iter().map(|(s, _)| part.stands[*s].site).collect())
                .collect(),
            models: self
                .placed
                .iter()
                .zip(parts)
                .map(|(list, part)| list.iter().map(|(s, _)| part.stands[*s].model.cloned()).collect())
                .collect(),
            paths: chosen.iter().map(|c| c.ids()).collect(),
            start: times.start,
            rungs: chosen.iter().map(|c| Reverse(c.kbps)).collect(),
            replicas: self.placed.iter().map(|list| list.iter().map(|(_, n)| Reverse(*n)).collect()).collect(),
            served: self.served.clone(),
        };
        let legs = self.legs.iter().cloned().zip(chosen.iter().map(|c| (*c).clone())).collect();
        Solution { placed: self.placed.clone(), legs, terms, times, score }
    }
}
