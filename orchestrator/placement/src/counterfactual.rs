//! What would make a refused order fit: the smallest single change of each kind, each proved by placing again.

mod order;
mod view;

use crate::{
    network::Network,
    policy::{Policy, Request},
    problem::{Problem, Relax},
    search,
    settle::Solution,
};
use rhumb_federation::View;
use rhumb_model::{Change, Order, ratio::Ratio};
use std::cell::Cell;

/// Changes of the order or of the federation, smallest relative change first.
pub(crate) fn changes(view: &View, request: &Request, policy: &Policy) -> Vec<Change> {
    let policy = Policy { node_budget: policy.node_budget.min(NODES), ..policy.clone() };
    let net = Network::new(view);
    let trial = Trial { view, net: &net, request: *request, policy: &policy, left: Cell::new(policy.counterfactuals) };
    let mut found = Vec::new();
    order::changes(&trial, &mut found);
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

/// Places changed orders and views, as often as the policy allows.
struct Trial<'a> {
    view: &'a View,
    net: &'a Network,
    request: Request<'a>,
    policy: &'a Policy,
    left: Cell<u32>,
}

impl Trial<'_> {
    fn order(&self) -> &Order {
        self.request.order
    }

    /// The total of the cheapest plan for a changed order, if there is one.
    fn of_order(&self, order: &Order) -> Option<i64> {
        self.solve(self.view, self.net, order, Relax::default(), |_, s| s.terms.total)
    }

    fn of_view(&self, view: &View) -> Option<i64> {
        self.solve(view, &Network::new(view), self.request.order, Relax::default(), |_, s| s.terms.total)
    }

    fn solve<T>(
        &self,
        view: &View,
        net: &Network,
        order: &Order,
        relax: Relax,
        read: impl FnOnce(&Problem, &Solution) -> T,
    ) -> Option<T> {
        self.left.set(self.left.get().checked_sub(1)?);
        let request = Request { order, ..self.request };
        let problem = Problem::new(view, net, request, self.policy, relax).ok()?;
        let outcome = search::search(&problem, search::Aim::default());
        outcome.solution.as_ref().map(|s| read(&problem, s))
    }

    /// The order with one edit, if it fits then.
    fn edit(&self, edit: impl FnOnce(&mut Order)) -> Option<i64> {
        let mut order = self.order().clone();
        edit(&mut order);
        self.of_order(&order)
    }

    /// The value nearest to `now` for which the edited order fits, between `now` (which does not) and `far`, with its
    /// total. `near_enough` ends the halving.
    fn nearest(&self, now: u64, far: u64, near_enough: u64, edit: impl Fn(&mut Order, u64)) -> Option<(u64, i64)> {
        let fits = |value: u64| self.edit(|order| edit(order, value));
        let (mut bad, mut good) = (now, far);
        let mut total = fits(far)?;
        while bad.abs_diff(good) > near_enough.max(1) {
            let middle = bad.min(good) + bad.abs_diff(good) / 2;
            match fits(middle) {
                Some(t) => (good, total) = (middle, t),
                None => bad = middle,
            }
        }
        Some((good, total))
    }
}

#[allow(clippy::needless_pass_by_value)] // callers give names, numbers and texts alike
fn found(relative: Ratio, pointer: String, from: impl ToString, to: impl ToString, cost_micros: i64) -> Found {
    Found { relative, change: Change { pointer, from: from.to_string(), to: to.to_string(), cost_micros } }
}

/// |to - from| / from; 1 where there was nothing.
fn relative(from: u64, to: u64) -> Ratio {
    if from == 0 { Ratio::from_integer(1) } else { Ratio::new(i128::from(from.abs_diff(to)), i128::from(from)) }
}

fn whole() -> Ratio {
    Ratio::from_integer(1)
}
