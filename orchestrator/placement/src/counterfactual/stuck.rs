//! What holds a component back by itself, so that no change of anything else is worth a trial.

use crate::{
    inquest::Inquest,
    problem::{Place, Problem},
    sieve, stand,
};
use rhumb_model::ratio::Ratio;

/// Of one component: why every site is out of the question, whatever the others do.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools)] // each is a reason of its own, and any set of them may hold
pub(crate) struct Stuck {
    /// No site is allowed.
    rules: bool,
    /// No allowed site has room for a replica now.
    room: bool,
    /// Wherever there is room, the work alone ends after the deadline.
    time: bool,
    /// Wherever there is room, the work is longer than the window is open.
    long: bool,
    /// Wherever there is room, all replicas alone cost more than the budget.
    money: bool,
    /// Flows with fixed points that fail wherever there is room.
    flows: Vec<usize>,
    /// Such flows fail everywhere, though not the same ones.
    apart: bool,
}

/// Of the order.
#[derive(Debug)]
pub(crate) struct Bonds(Vec<Stuck>);

impl Stuck {
    fn at_all(&self) -> bool {
        self.beside_flows() || !self.flows.is_empty() || self.apart
    }

    fn beside_flows(&self) -> bool {
        self.rules || self.room || self.time || self.long || self.money
    }
}

impl Bonds {
    pub fn new(inquest: &Inquest) -> Self {
        let base = inquest.base;
        let each = base.budget.map(|_| sieve::replicas(base));
        let of = |part| stuck(inquest, part, each.as_ref().map(|each| each[part].as_slice()));
        Self((0..base.parts.len()).map(of).collect())
    }

    /// Whether another component stays where it is stuck, or this one may stand nowhere.
    pub fn beside(&self, component: usize) -> bool {
        self.0.iter().enumerate().any(|(i, s)| if i == component { s.rules } else { s.at_all() })
    }

    /// Whether something holds that a flow has no part in.
    pub fn beside_flow(&self, flow: usize) -> bool {
        self.0.iter().any(|s| s.beside_flows() || s.flows.iter().any(|f| *f != flow))
    }

    /// The same for all flows together, and for links.
    pub fn beside_flows(&self) -> bool {
        self.0.iter().any(Stuck::beside_flows)
    }

    pub fn beside_deadline(&self) -> bool {
        self.0.iter().any(|s| Stuck { time: false, ..s.clone() }.at_all())
    }

    pub fn beside_window(&self) -> bool {
        self.0.iter().any(|s| Stuck { long: false, ..s.clone() }.at_all())
    }

    pub fn beside_budget(&self) -> bool {
        self.0.iter().any(|s| Stuck { money: false, ..s.clone() }.at_all())
    }

    pub fn beside_rules(&self) -> bool {
        self.0.iter().any(|s| s.rules)
    }

    /// Whether anything holds at all, before the order is looked at as a whole.
    pub fn any(&self) -> bool {
        self.0.iter().any(Stuck::at_all)
    }
}

/// `each`: by site, what a replica costs at the least.
fn stuck(inquest: &Inquest, part: usize, each: Option<&[Option<i128>]>) -> Stuck {
    let base = inquest.base;
    let of = &base.parts[part];
    let mut found = Stuck::default();
    let sites: Vec<usize> = {
        let standing = &inquest.standing()[part];
        (0..standing.len()).filter(|s| standing[*s]).collect()
    };
    if sites.is_empty() {
        let constraints = &base.request.order.constraints;
        found.room = true;
        found.rules = base.view.sites.iter().all(|site| stand::rule(base.view, site, constraints).is_some());
        return found;
    }
    if let (Some(deadline), None) = (base.deadline, base.late) {
        found.time = of.open().all(|(stand, _)| of.hours_of(stand) > deadline);
    }
    if let Some(open) = sieve::longest_opening(base) {
        found.long = of.open().all(|(stand, _)| of.hours_of(stand) > open);
    }
    if let (Some(budget), Some(each)) = (base.budget, each) {
        let all = |bill: i128| Ratio::from_integer(bill.saturating_mul(i128::from(of.fewest)));
        found.money = sites.iter().all(|s| each[*s].is_some_and(|bill| all(bill) > budget));
    }
    found.apart = inquest.nowhere(part);
    if found.apart {
        found.flows = failing(base, inquest, part, &sites);
        found.apart = found.flows.is_empty();
    }
    found
}

/// Flows of the order that fail at all of the sites.
fn failing(base: &Problem, inquest: &Inquest, part: usize, sites: &[usize]) -> Vec<usize> {
    let mut flows = Vec::new();
    for (index, stream) in base.streams.iter().enumerate() {
        let fixed = matches!((&stream.from, &stream.to), (Place::Points(_), _) | (_, Place::Points(_)));
        if fixed && stream.demand.is_none() && sites.iter().all(|s| inquest.misses(part, index, *s)) {
            flows.push(stream.flow);
        }
    }
    flows
}
