//! What would make a refused order fit: the smallest single change of each kind, each proved by placing again.
//!
//! A threshold is guessed from the sieve's tables (the quickest path of the nearest site, the widest link of the best)
//! and proved by one placement; only where flows or components get into each other's way is it halved for.
//!
//! No change is tried while something that it has no part in holds a component back by itself. The trials of one
//! explanation share a budget of nodes: what is not proved when it is spent, or takes long by itself, is left out.

mod flow;
mod order;
mod stuck;
mod terms;
mod threshold;
mod view;

use crate::{
    inquest::{self, Inquest},
    part::Part,
    problem::{Problem, Relax},
    reach::Reach,
    search::{self, Aim},
    settle::Solution,
};
use rhumb_model::{Change, Order, ratio::Ratio};
use std::cell::Cell;

pub(crate) use stuck::Bonds;

/// Changes of the order or of the federation, smallest relative change first.
pub(crate) fn changes(inquest: &Inquest) -> Vec<Change> {
    let trial = Trial::new(inquest);
    let mut found = Vec::new();
    order::changes(&trial, &mut found);
    terms::changes(&trial, &mut found);
    view::changes(&trial, &mut found);
    found.sort_by(|a, b| (a.relative.cmp(&b.relative)).then_with(|| a.change.pointer.cmp(&b.change.pointer)));
    found.into_iter().map(|f| f.change).collect()
}

/// Nodes of one trial: a change that takes longer to prove is not offered.
const NODES: u64 = 600;

/// The same within a window: many placements have to be settled before it is known that none keeps it.
const IN_WINDOW: u64 = 2_000;

/// Nodes of all trials of one explanation: when they are spent, what has not been proved is not offered.
const ALL: u64 = 10_000;

/// A change that was proved.
struct Found {
    /// How much is changed, by how much there was.
    relative: Ratio,
    change: Change,
}

/// Places changed orders, as often as the policy allows.
pub(crate) struct Trial<'t> {
    inquest: &'t Inquest<'t, 't>,
    left: Cell<u32>,
    nodes: Cell<u64>,
}

/// What an edit of the order touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Flows and terms: every component stands where it did.
    Flows,
    /// One component's need or replicas.
    Component(usize),
    /// Which sites may be used.
    Sites,
    /// Also which links.
    Jurisdictions,
}

impl<'t> Trial<'t> {
    pub fn new(inquest: &'t Inquest<'t, 't>) -> Self {
        Self { inquest, left: Cell::new(inquest.base.policy.counterfactuals), nodes: Cell::new(ALL) }
    }

    fn bonds(&self) -> &'t Bonds {
        self.inquest.bonds()
    }

    fn base(&self) -> &'t Problem<'t> {
        self.inquest.base
    }

    fn order(&self) -> &'t Order {
        self.base().request.order
    }

    fn view(&self) -> &'t rhumb_federation::View {
        self.base().view
    }

    /// The question as an edited order asks it.
    fn variant<'b>(&'b self, order: &'b Order, scope: Scope) -> Problem<'b> {
        let base = self.base();
        base.variant(order, Relax::default(), |request, index| match scope {
            Scope::Flows => base.parts[index].again(request, index),
            Scope::Component(edited) if edited != index => base.parts[index].again(request, index),
            _ => {
                let part = Part::new(base.view, base.net, request, Relax::default(), index);
                part.fill(&self.inquest.alike().group);
                part
            }
        })
    }

    /// Reads the cheapest plan of a problem, or with `any` some plan, if there is one.
    fn solve<T>(
        &self,
        problem: Problem,
        reach: &Reach,
        any: bool,
        read: impl FnOnce(&Problem, &Solution) -> T,
    ) -> Option<T> {
        self.left.set(self.left.get().checked_sub(1)?);
        let problem = inquest::sieved(problem, reach)?;
        let nodes = self.nodes.get();
        if nodes == 0 {
            return None;
        }
        let most = if problem.window.is_some() { IN_WINDOW } else { NODES };
        let outcome = search::search(&problem, Aim { any, nodes: Some(most.min(nodes)), ..Aim::default() });
        self.nodes.set(nodes.saturating_sub(outcome.opened));
        outcome.solution.as_ref().map(|s| read(&problem, s))
    }

    fn read<T>(
        &self,
        order: &Order,
        scope: Scope,
        any: bool,
        read: impl FnOnce(&Problem, &Solution) -> T,
    ) -> Option<T> {
        let problem = self.variant(order, scope);
        if scope == Scope::Jurisdictions {
            let reach = Reach::new(&problem);
            return self.solve(problem, &reach, any, read);
        }
        self.solve(problem, &self.inquest.reach, any, read)
    }

    fn edited(&self, edit: impl FnOnce(&mut Order)) -> Order {
        let mut order = self.order().clone();
        edit(&mut order);
        order
    }

    /// Whether the order fits with one edit.
    fn fits(&self, scope: Scope, edit: impl FnOnce(&mut Order)) -> bool {
        self.read(&self.edited(edit), scope, true, |_, _| ()).is_some()
    }

    /// The total of the cheapest plan with one edit, if the order fits then.
    fn total(&self, scope: Scope, edit: impl FnOnce(&mut Order)) -> Option<i64> {
        self.read(&self.edited(edit), scope, false, |_, s| s.terms.total)
    }
}

#[allow(clippy::needless_pass_by_value)] // callers give names, numbers and texts alike
fn found(relative: Ratio, pointer: String, from: impl ToString, to: impl ToString, cost_micros: i64) -> Found {
    Found { relative, change: Change { pointer, from: from.to_string(), to: to.to_string(), cost_micros, when: None } }
}

/// |to - from| / from; 1 where there was nothing.
fn relative(from: u64, to: u64) -> Ratio {
    if from == 0 { Ratio::from_integer(1) } else { Ratio::new(i128::from(from.abs_diff(to)), i128::from(from)) }
}

fn whole() -> Ratio {
    Ratio::from_integer(1)
}
