//! Several orders on one view, decided on together.
//!
//! Orders are placed class by class of priority, each class on what the more urgent ones leave: within a class by regret
//! insertion and large-neighbourhood search over plans that the single decision makes on what the others leave. In the
//! end every plan is the cheapest beside all others. The same search core solves dense instances (`instance`, `solve`).

mod ascent;
mod booking;
mod desk;
mod dual;
mod insertion;
pub mod instance;
mod knapsack;
mod orders;
mod route;
mod scope;
pub mod solve;
mod toll;
mod tree;

use crate::{
    answer,
    decision::{Decision, apply, decide, explain},
    dice::Dice,
    policy::{Policy, Request},
};
use insertion::{Effort, Filled, Market as _, Turn, improve, insert};
use jiff::Timestamp;
use orders::{Orders, Placed, UNDONE, value};
use rhumb_federation::View;
use rhumb_model::{Decimal, Reason, ReasonKind, refusal::VerdictKind};
use std::cmp::Reverse;
use toll::Bidder;

/// The decisions of a batch, in the order of its input, and its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub decisions: Vec<Decision>,
    /// Of the plans, and the value of orders left undone that name one.
    pub total_micros: i64,
    /// No batch that places the same orders, those with a value or not, has a lower total.
    pub lower_bound_micros: i64,
    pub gap_ppm: u32,
}

/// Places several orders; the input's order has no part in it. More urgent orders are placed whatever it means for less
/// urgent ones. An order with a value is left undone where that makes the total less; any other is placed if it can be.
pub fn place_batch(view: &View, requests: &[Request], policy: &Policy) -> Batch {
    let mut turn: Vec<usize> = (0..requests.len()).collect();
    turn.sort_by_cached_key(|i| key(&requests[*i]));
    let sorted: Vec<Request> = turn.iter().map(|i| requests[*i]).collect();
    let alone: Vec<Decision> = sorted.iter().map(|r| decide(view, r, policy)).collect();
    let question = Question { view, policy, requests: &sorted, alone: &alone };
    let said = question.answer();
    let (mut total, mut certain, mut bidders) = (0_i128, 0_i128, Vec::new());
    for ((request, decision), alone) in sorted.iter().zip(&said).zip(&alone) {
        let value = value(view, request);
        let spent = decision.plan().map(|p| i128::from(p.cost.total_micros));
        // an order that names no value and is left undone is not part of what is bounded
        let Some(cost) = spent.or(value) else { continue };
        total += cost;
        match alone.plan() {
            Some(plan) => {
                let least = i128::from(plan.lower_bound_micros);
                bidders.push(Bidder { request: *request, value, alone: (plan.clone().into(), least) });
            }
            // without a plan by itself it has none beside others either
            None if alone.stats.complete && decision.plan().is_none() => certain += cost,
            // a search that ended early has proved nothing
            None => {}
        }
    }
    let steps = question.rounds(bidders.len()) * 4 / bidders.len().max(1) as u32;
    let bound = certain + toll::bound(view, policy, &bidders, total - certain, steps.min(TOLLS));
    let mut decisions: Vec<Option<Decision>> = vec![None; requests.len()];
    for (at, decision) in turn.iter().zip(said) {
        decisions[*at] = Some(decision);
    }
    let micros = |sum: i128| i64::try_from(sum).unwrap_or(i64::MAX);
    Batch {
        decisions: decisions.into_iter().flatten().collect(),
        total_micros: micros(total),
        lower_bound_micros: micros(bound.min(total)),
        gap_ppm: answer::gap_ppm(micros(total), micros(bound)),
    }
}

type Key = (Reverse<u8>, Timestamp, rhumb_model::OrderName, String);

fn key(request: &Request) -> Key {
    let order = request.order;
    let document = serde_json::to_string(order).unwrap_or_default();
    (Reverse(urgency(request)), request.submit, order.name.clone(), document)
}

fn urgency(request: &Request) -> u8 {
    request.order.terms.priority.unwrap_or(50)
}

/// What a batch is asked, most urgent first.
struct Question<'a> {
    view: &'a View,
    policy: &'a Policy,
    requests: &'a [Request<'a>],
    /// What each order is answered by itself.
    alone: &'a [Decision],
}

/// What each order takes.
type Taken = Vec<Option<Placed>>;

impl<'a> Question<'a> {
    /// A decision on each order, with all that is said of it.
    fn answer(&self) -> Vec<Decision> {
        let mut taken = self.together().unwrap_or_else(|| self.best());
        let said: Option<Vec<Decision>> = (0..taken.len()).map(|at| self.last_word(&mut taken, at)).collect();
        said.filter(|_| self.left(&taken, None).is_some()).unwrap_or_else(|| self.in_turn())
    }

    /// One after the other, each on what those before it left: what fits in no other way fits in this one.
    fn in_turn(&self) -> Vec<Decision> {
        let mut left = self.view.clone();
        let say = |request: &Request| {
            let decision = self.say(&left, request);
            if let Some(next) = decision.plan().and_then(|p| apply(&left, p, request.order).ok()) {
                left = next;
            }
            decision
        };
        self.requests.iter().map(say).collect()
    }

    /// Each order's own best, if all of them fit beside each other: nothing is cheaper.
    fn together(&self) -> Option<Taken> {
        let mut left = self.view.clone();
        let mut taken = Vec::with_capacity(self.requests.len());
        for (request, decision) in self.requests.iter().zip(self.alone) {
            let plan = decision.plan().filter(|p| worth(self.view, request, p.cost.total_micros));
            if let Some(plan) = plan {
                left = apply(&left, plan, request.order).ok()?;
            }
            taken.push(plan.map(|p| Placed::new(p.clone(), request)));
        }
        Some(taken)
    }

    /// The better of all that is tried, with each plan made anew beside the others until none gets cheaper.
    fn best(&self) -> Taken {
        let greedy = self.greedy();
        let searched = self.by_class();
        let fits = self.left(&searched, None).is_some();
        let mut taken = if fits && self.score(&searched) <= self.score(&greedy) { searched } else { greedy };
        for _ in 0..PASSES {
            let before = self.score(&taken);
            let mut next = taken.clone();
            for at in 0..next.len() {
                let Some(left) = self.left(&next, Some(at)) else { continue };
                let request = &self.requests[at];
                let plan = decide(&left, request, self.policy).outcome.ok();
                let plan = plan.filter(|p| worth(self.view, request, p.cost.total_micros));
                next[at] = plan.map(|p| Placed::new(p, request));
            }
            if self.left(&next, None).is_none() || self.score(&next) >= before {
                break;
            }
            taken = next;
        }
        taken
    }

    /// The view less what is taken, but by `but`; `None`: it does not fit when taken order by order.
    fn left(&self, taken: &Taken, but: Option<usize>) -> Option<View> {
        let mut left = self.view.clone();
        for (at, placed) in taken.iter().enumerate().filter(|(at, _)| Some(*at) != but) {
            if let Some(placed) = placed {
                left = apply(&left, &placed.plan, self.requests[at].order).ok()?;
            }
        }
        Some(left)
    }

    /// One after the other, each at its cheapest.
    fn greedy(&self) -> Taken {
        let mut left = self.view.clone();
        let place = |request: &Request<'a>| {
            let plan = decide(&left, request, self.policy).outcome.ok()?;
            left = apply(&left, &plan, request.order).ok()?;
            Some(Placed::new(plan, request))
        };
        self.requests.iter().map(place).collect()
    }

    fn by_class(&self) -> Taken {
        let mut left = self.view.clone();
        let mut taken = Vec::with_capacity(self.requests.len());
        for class in self.requests.chunk_by(|a, b| urgency(a) == urgency(b)) {
            let from = taken.len();
            let alone: Vec<&Decision> = self.alone[from..from + class.len()].iter().collect();
            let mut market = Orders::new(&left, self.policy, class.to_vec(), &alone);
            let floor = self.floor(from, class);
            let placed = fill(&mut market, floor, self.rounds(class.len()));
            let Some(room) = placed.room(&market) else { break };
            taken.extend(placed.taken);
            left = room;
        }
        taken.resize(self.requests.len(), None);
        taken
    }

    /// Fewer rounds on large federations, where one takes longer.
    fn rounds(&self, orders: usize) -> u32 {
        let size = self.view.sites.len() + self.view.graph.edge_count() + 8 * orders;
        (60_000 / size.max(1)).clamp(20, 400) as u32
    }

    /// Orders without a value left undone, by class from the most urgent, then the total.
    fn score(&self, taken: &Taken) -> (Vec<usize>, i128) {
        let mut undone = Vec::new();
        let mut total = 0;
        let mut at = 0;
        for class in self.requests.chunk_by(|a, b| urgency(a) == urgency(b)) {
            undone.push(0);
            for request in class {
                match (&taken[at], value(self.view, request)) {
                    (Some(placed), _) => total += i128::from(placed.plan.cost.total_micros),
                    (None, Some(value)) => total += value,
                    (None, None) => *undone.last_mut().expect("a class was just begun") += 1,
                }
                at += 1;
            }
        }
        (undone, total)
    }

    /// No plans for the class that starts at `from` cost less.
    fn floor(&self, from: usize, class: &[Request]) -> i128 {
        let least = |(request, decision): (&Request, &Decision)| {
            let alone = decision.plan().map(|p| i128::from(p.lower_bound_micros));
            alone.into_iter().chain(value(self.view, request)).min().unwrap_or(UNDONE)
        };
        class.iter().zip(&self.alone[from..]).map(least).sum()
    }

    /// The decision on one order beside what all others take, which takes its place.
    fn last_word(&self, taken: &mut Taken, at: usize) -> Option<Decision> {
        let left = self.left(taken, Some(at))?;
        let request = &self.requests[at];
        let decision = self.say(&left, request);
        taken[at] = decision.plan().map(|p| Placed::new(p.clone(), request));
        Some(decision)
    }

    fn say(&self, left: &View, request: &Request) -> Decision {
        let mut decision = explain(left, request, self.policy, decide(left, request, self.policy));
        if decision.plan().is_some_and(|p| !worth(self.view, request, p.cost.total_micros)) {
            leave(&mut decision, self.view, request);
        }
        decision
    }
}

/// Steps of the bound at the most.
const TOLLS: u32 = 30;
/// Times that all plans are made anew at the most.
const PASSES: u32 = 4;
const SEED: u64 = 1;

/// Regret insertion or one by one, whichever is better, then search.
fn fill(market: &mut Orders, floor: i128, rounds: u32) -> Filled<Placed> {
    let mut dice = Dice::new(SEED);
    let all: Vec<usize> = (0..market.jobs()).collect();
    let mut by_regret = Filled::empty(market);
    insert(market, &mut by_regret, market.whole(), &all, Turn::Regret, &mut dice);
    let mut in_turn = Filled::empty(market);
    for job in &all {
        if let Some(room) = in_turn.room(market) {
            insert(market, &mut in_turn, room, &[*job], Turn::Regret, &mut dice);
        }
    }
    let fits = by_regret.room(market).is_some();
    let first = if fits && by_regret.cost < in_turn.cost { by_regret } else { in_turn };
    improve(market, first, floor, Effort { rounds, out: 5, patience: rounds.div_ceil(3) }, &mut dice)
}

/// Whether doing the order costs less than leaving it.
fn worth(view: &View, request: &Request, cost: i64) -> bool {
    value(view, request).is_none_or(|value| i128::from(cost) < value)
}

/// Turns a plan that costs more than leaving the order into a refusal that says so.
fn leave(decision: &mut Decision, view: &View, request: &Request) {
    let Some(plan) = decision.plan() else { return };
    let micros =
        |m: i128| format!("{} {}", Decimal::from_micros(i64::try_from(m).unwrap_or(i64::MAX)), view.currency.as_str());
    let reason = Reason {
        reason: ReasonKind::Budget,
        component: None,
        flow: None,
        site: None,
        needed: format!("{} for the cheapest plan", micros(plan.cost.total_micros.into())),
        free: format!("{} for leaving it undone", micros(value(view, request).unwrap_or(0))),
    };
    for site in &mut decision.sites {
        if site.verdict != VerdictKind::Refused {
            site.verdict = VerdictKind::Refused;
            site.delta_micros = None;
            site.delta = None;
            site.reason = Some(Reason { site: Some(site.site.clone()), ..reason.clone() });
        }
    }
    decision.outcome = Err(vec![reason]);
}
