//! What would make a refused order fit: the smallest single change of each kind, each proved by placing again.
//!
//! A threshold is guessed from the sieve's tables (the quickest path of the nearest site, the widest link of the best)
//! and proved by one placement; only where flows or components get into each other's way is it halved for.

mod flow;
mod order;
mod terms;
mod threshold;
mod view;

use crate::{
    inquest::{self, Inquest},
    problem::{Problem, Relax},
    reach::Reach,
    room,
    search::{self, Aim},
    settle::Solution,
    stand::{self, Stand},
};
use rhumb_model::{Change, ModelName, Order, order::Component, ratio::Ratio};
use std::{cell::Cell, collections::HashMap};

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
const NODES: u64 = 2_000;

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
        Self { inquest, left: Cell::new(inquest.base.policy.counterfactuals) }
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
        self.base().variant(order, Relax::default(), |index, component| match scope {
            Scope::Flows => Some(self.base().parts[index].stands.clone()),
            Scope::Component(edited) if edited != index => Some(self.base().parts[index].stands.clone()),
            _ => Some(self.stands(order, component)),
        })
    }

    /// Where an edited component can stand; sites that hold the same are looked at once.
    fn stands<'b>(&'b self, order: &'b Order, component: &'b Component) -> Vec<Stand<'b>> {
        let view = self.view();
        let alike = self.inquest.alike();
        let request = crate::Request { order, ..self.base().request };
        let limit = component.replicas.max.max(1);
        let mut known: HashMap<usize, Vec<(Option<ModelName>, u32)>> = HashMap::new();
        let mut stands = Vec::new();
        for (index, site) in view.sites.iter().enumerate() {
            if !stand::open(view, site, &order.constraints, Relax::default()) {
                continue;
            }
            let known = std::cell::RefCell::new(known.entry(alike.group[index]).or_default());
            let room = |model: Option<&ModelName>| {
                let mut known = known.borrow_mut();
                if let Some((_, room)) = known.iter().find(|(m, _)| m.as_ref() == model) {
                    return *room;
                }
                let room = room::most(component, model, &site.nodes, limit);
                known.push((model.cloned(), room));
                room
            };
            stand::at(view, request, component, index, room, &mut stands);
        }
        stands
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
        let outcome = search::search(&problem, Aim { any, nodes: Some(NODES), ..Aim::default() });
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
