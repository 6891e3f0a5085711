//! What each leg of a placement can choose, kept for the next placement that has the same leg: components at one site each
//! share most of their legs with many other placements.

use crate::{
    legs::{End, Leg},
    option::{self, Choice, Cut, Look, Matter},
    problem::Problem,
};
use rhumb_model::ratio::Ratio;
use std::{cell::RefCell, collections::HashMap, rc::Rc};

/// Legs with equal keys have the same choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    stream: usize,
    /// Sites; `usize::MAX` for the stream's own points.
    from: usize,
    to: usize,
    volume: (i128, i128),
    kbps: Option<u64>,
}

impl Key {
    fn of(leg: &Leg) -> Self {
        let end = |end: &End| match end {
            End::Site(site) => *site,
            End::Points(_) => usize::MAX,
        };
        let volume = (*leg.volume.numer(), *leg.volume.denom());
        Self { stream: leg.stream, from: end(&leg.from), to: end(&leg.to), volume, kbps: leg.kbps }
    }
}

type Kept = RefCell<HashMap<Key, Option<Rc<Choice>>>>;

#[derive(Debug, Default)]
pub(crate) struct Fans {
    floors: Kept,
    at_best: Kept,
    fans: RefCell<HashMap<(Key, Matter), Fan>>,
}

/// Choices of a leg, cheapest first, and where they were cut off.
#[derive(Debug, Clone)]
pub(crate) struct Fan {
    choices: Rc<[Choice]>,
    cut: Cut,
    all: bool,
}

/// The cheapest choice, in the least time that any takes. `None`: there is no way.
pub(crate) fn floor(problem: &Problem, leg: &Leg) -> Option<Rc<Choice>> {
    known(&problem.fans.floors, leg, || option::cheapest(problem, leg))
}

/// The cheapest path within the leg's bound, whatever it carries.
pub(crate) fn at_best(problem: &Problem, leg: &Leg) -> Option<Rc<Choice>> {
    known(&problem.fans.at_best, leg, || option::at_best(problem, leg))
}

fn known(kept: &Kept, leg: &Leg, find: impl FnOnce() -> Option<Choice>) -> Option<Rc<Choice>> {
    let key = Key::of(leg);
    if let Some(known) = kept.borrow().get(&key) {
        return known.clone();
    }
    let found = find().map(Rc::new);
    kept.borrow_mut().insert(key, found.clone());
    found
}

/// Choices up to the cut; some beyond it may be among them. And whether these are all.
pub(crate) fn choices(problem: &Problem, leg: &Leg, matter: Matter, cut: Cut) -> (Rc<[Choice]>, bool) {
    let key = (Key::of(leg), matter);
    if let Some(known) = problem.fans.fans.borrow().get(&key).filter(|fan| fan.cut.covers(&cut)) {
        return (within(&known.choices, &cut), known.all);
    }
    let (choices, left_out) = option::choices(problem, leg, Look::Best(matter, cut));
    let (choices, all): (Rc<[Choice]>, bool) = (choices.into(), left_out.is_empty());
    problem.fans.fans.borrow_mut().insert(key, Fan { choices: Rc::clone(&choices), cut, all });
    (choices, all)
}

/// Without those that cost more than the cut's extra.
fn within(choices: &Rc<[Choice]>, cut: &Cut) -> Rc<[Choice]> {
    let Some((extra, first)) = cut.extra.zip(choices.first()) else { return Rc::clone(choices) };
    let most = first.cost + Ratio::from_integer(extra);
    let keep = choices.partition_point(|c| c.cost <= most);
    if keep == choices.len() { Rc::clone(choices) } else { choices[..keep].into() }
}
