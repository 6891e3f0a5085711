//! A placement's legs: the choices that cost the least together.
//!
//! Where no link is asked for more than it has, legs are independent but for one thing: the slowest transfer sets the
//! start (or the finish). So every time that some choice takes is tried as the limit, and each other leg takes its
//! cheapest choice within it. Where legs overfill a link, they are chosen jointly.

use crate::{
    cost::{Carried, Compute, Terms, Times},
    joint,
    legs::{self, Leg, Served, Sites},
    option::{self, Choice, Look, Matter},
    problem::{Place, Problem, Span, Stream},
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
        if self.nodes_left == 0 || (self.any && self.solution.is_some()) {
            self.leave(bound);
            return false;
        }
        self.nodes_left -= 1;
        self.opened += 1;
        true
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
const SERVINGS: usize = 200;

/// Finds the cheapest legs for a placement and offers the plan.
pub(crate) fn settle(problem: &Problem, placed: &Placed, best: &mut Best) {
    let sites = sites_of(problem, placed);
    let Some(compute) = Compute::new(problem, placed) else { return };
    let Some(least) = compute.least() else { return };
    let ways = legs::servings(problem, &sites, SERVINGS);
    let demands = |part: usize| {
        let to = |s: &&Stream| s.demand.is_some() && s.to == Place::Part(part);
        problem.streams.iter().filter(to).count()
    };
    // of a few flows all divisions that could matter are tried where no link is ever full
    let many = ways.len() >= SERVINGS || (0..sites.len()).any(|part| demands(part) > legs::FEW);
    let several = ways.len() > 1;
    // what the cheapest division costs were no link full, and whether it costs no more as links are
    let mut cheapest: Option<(Ratio, bool)> = None;
    for served in ways {
        let legs = legs::legs(problem, &sites, &served);
        let settling = Settling { problem, placed, compute: &compute, least, legs: &legs, served: &served };
        let reached = settling.run(best);
        if several && let Some(free) = settling.unhindered() {
            let now = (free, reached == Some(free));
            cheapest = Some(match cheapest {
                Some(known) if known.0 < now.0 => known,
                Some(known) if known.0 == now.0 => (known.0, known.1 || now.1),
                _ => now,
            });
        }
    }
    let hindered = cheapest.is_some_and(|(_, reached)| !reached) && !legs::all_divisions(problem, &sites);
    if several && (many || hindered) {
        let held = cheapest.filter(|_| !many).map_or(Ratio::from_integer(0), |(free, _)| free);
        best.leave(compute.bound(least, &Carried { held, ..Carried::nothing() }).unwrap_or(least));
    }
}

pub(crate) struct Settling<'s, 'a> {
    pub problem: &'s Problem<'a>,
    pub placed: &'s Placed,
    pub compute: &'s Compute<'s, 'a>,
    pub least: i128,
    pub legs: &'s [Leg],
    pub served: &'s Served,
}

/// One choice for each leg of one span, by index.
#[derive(Debug, Clone)]
struct Selection {
    picks: Vec<usize>,
    time: Ratio,
}

impl Settling<'_, '_> {
    /// What the legs with a demand cost, per nanosecond, where every leg may have its cheapest choice; `None`: where links
    /// are too full for that, or that is not known.
    fn run(&self, best: &mut Best) -> Option<Ratio> {
        let streams = &self.problem.streams;
        let span = |leg: &Leg| streams[leg.stream].span;
        let held = self.legs.iter().any(|l| span(l) == Span::Run && l.kbps.is_some());
        let matter = |wanted: Span| self.compute.matter(wanted, held);
        let mut options: Vec<Vec<Choice>> = Vec::with_capacity(self.legs.len());
        let mut floors: Vec<Choice> = Vec::with_capacity(self.legs.len());
        let mut left_out: Vec<Vec<Choice>> = Vec::with_capacity(self.legs.len());
        for leg in self.legs {
            let (choices, rest) = option::choices(self.problem, leg, Look::Best(matter(span(leg))));
            // none: there is no way to carry it, and that is known
            let least = choices.iter().chain(&rest).min_by(|a, b| a.cost.cmp(&b.cost))?;
            floors.push(option::timeless(least.clone()));
            left_out.push(rest);
            options.push(choices);
        }
        let open = left_out.iter().any(|l| !l.is_empty());
        if open {
            best.leave(self.left_out(&floors, &left_out).map_or(self.least, |b| b - joint::SLACK));
        }
        if options.iter().any(Vec::is_empty) {
            return None;
        }
        let of =
            |wanted: Span| -> Vec<usize> { (0..self.legs.len()).filter(|i| span(&self.legs[*i]) == wanted).collect() };
        let (inbound, outbound) = (of(Span::Inbound), of(Span::Outbound));
        let (into, out) = (
            selections(&options, &inbound, matter(Span::Inbound)),
            selections(&options, &outbound, matter(Span::Outbound)),
        );
        let mut picks = vec![0; self.legs.len()];
        let mut shared = false;
        let mut local: Option<Solution> = None;
        for i in &into {
            for o in &out {
                inbound
                    .iter()
                    .zip(&i.picks)
                    .chain(outbound.iter().zip(&o.picks))
                    .for_each(|(leg, pick)| picks[*leg] = *pick);
                let chosen: Vec<&Choice> = picks.iter().zip(&options).map(|(p, o)| &o[*p]).collect();
                let Some(carried) = self.carried(&chosen) else { continue };
                let known = [best.total(), local.as_ref().map(|l| l.terms.total)].into_iter().flatten().min();
                if self.compute.bound(self.least, &carried).is_none_or(|b| known.is_some_and(|k| b > i128::from(k))) {
                    continue;
                }
                if !self.carries(&chosen) {
                    shared = true;
                    continue;
                }
                if let Some((terms, times)) = self.compute.best(&carried)
                    && known.is_none_or(|k| terms.total <= k)
                {
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
        // a limit at which the legs overfill a link may hold a cheaper plan than those at which they do not
        if shared {
            joint::settle(self, &options, &floors, best);
        }
        let demands = self.legs.iter().zip(&options).filter(|(leg, _)| leg.demand > 0);
        let cost =
            demands.filter_map(|(_, o)| o.first()).try_fold(Ratio::from_integer(0), |s, c| s.checked_add(&c.cost));
        cost.filter(|_| !shared && !open)
    }

    /// No plan with a choice that was left out costs less: of each such leg by itself, its rates one by one, with all other
    /// legs at their least.
    fn left_out(&self, floors: &[Choice], left_out: &[Vec<Choice>]) -> Option<i128> {
        let with = |leg: usize, other: &Choice| {
            let mut chosen: Vec<&Choice> = floors.iter().collect();
            chosen[leg] = other;
            self.compute.bound(self.least, &self.carried(&chosen)?)
        };
        let of_leg = |leg: usize| left_out[leg].iter().filter_map(|other| with(leg, other)).min();
        (0..floors.len()).filter_map(of_leg).min()
    }

    /// What the legs with a demand would cost, per nanosecond, were no link full. `None`: some leg has no path even then.
    fn unhindered(&self) -> Option<Ratio> {
        let demands = self.legs.iter().filter(|leg| leg.demand > 0);
        demands
            .map(|leg| option::unhindered(self.problem, leg))
            .try_fold(Ratio::from_integer(0), |s, c| s.checked_add(&c?.cost))
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

/// Rates held on each link, in kbit/s: while staging in, and from start to finish.
#[derive(Debug, Clone, Default)]
pub(crate) struct Load {
    inbound: BTreeMap<u32, u64>,
    /// While running, and while staging out.
    run: BTreeMap<u32, u64>,
    outbound: BTreeMap<u32, u64>,
}

impl Load {
    /// `false`: some link would be overfull; nothing is added then.
    pub fn add(&mut self, problem: &Problem, span: Span, choice: &Choice) -> bool {
        let free = |edge: u32| problem.net.edges[edge as usize].free;
        // what runs is still held while the results are moved out
        let phases: Vec<&mut BTreeMap<u32, u64>> = match span {
            Span::Inbound => vec![&mut self.inbound],
            Span::Run => vec![&mut self.run, &mut self.outbound],
            Span::Outbound => vec![&mut self.outbound],
        };
        let fits = |phase: &BTreeMap<u32, u64>| {
            choice
                .loads()
                .all(|(e, kbps)| phase.get(&e).copied().unwrap_or(0).checked_add(kbps).is_some_and(|k| k <= free(e)))
        };
        if !phases.iter().all(|p| fits(p)) {
            return false;
        }
        for phase in phases {
            choice.loads().for_each(|(e, kbps)| *phase.entry(e).or_insert(0) += kbps);
        }
        true
    }

    /// What a link still has for a leg of this span.
    pub fn left(&self, problem: &Problem, span: Span, edge: u32) -> u64 {
        let phases: &[&BTreeMap<u32, u64>] = match span {
            Span::Inbound => &[&self.inbound],
            Span::Run => &[&self.run, &self.outbound],
            Span::Outbound => &[&self.outbound],
        };
        let most = phases.iter().filter_map(|p| p.get(&edge)).max().copied().unwrap_or(0);
        problem.net.edges[edge as usize].free.saturating_sub(most)
    }

    pub fn remove(&mut self, span: Span, choice: &Choice) {
        let phases: Vec<&mut BTreeMap<u32, u64>> = match span {
            Span::Inbound => vec![&mut self.inbound],
            Span::Run => vec![&mut self.run, &mut self.outbound],
            Span::Outbound => vec![&mut self.outbound],
        };
        for phase in phases {
            choice.loads().for_each(|(e, kbps)| *phase.entry(e).or_insert(0) -= kbps);
        }
    }
}

/// Selections worth trying: for each time that some choice takes, the cheapest choices within it; where later may be
/// better, with each choice of each leg in turn as the slowest.
fn selections(options: &[Vec<Choice>], legs: &[usize], matter: Matter) -> Vec<Selection> {
    let zero = Ratio::from_integer(0);
    if matter == Matter::None || legs.is_empty() {
        let time = legs.iter().map(|l| options[*l][0].time).max().unwrap_or(zero);
        return vec![Selection { picks: vec![0; legs.len()], time }];
    }
    let within = |leg: usize, limit: &Ratio| options[leg].iter().position(|c| c.time <= *limit);
    let mut found: Vec<Selection> = Vec::new();
    for (index, leg) in legs.iter().enumerate() {
        for (pick, choice) in options[*leg].iter().enumerate() {
            let picks: Option<Vec<usize>> = legs
                .iter()
                .enumerate()
                .map(|(i, other)| if i == index { Some(pick) } else { within(*other, &choice.time) })
                .collect();
            if let Some(picks) = picks
                && !found.iter().any(|s| s.picks == picks)
            {
                found.push(Selection { picks, time: choice.time });
            }
        }
    }
    found.sort_by(|a, b| a.time.cmp(&b.time).then_with(|| a.picks.cmp(&b.picks)));
    found
}
