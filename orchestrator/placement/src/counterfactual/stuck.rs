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

    /// Whether something holds that a flow has no part in; its demand says how many replicas there are to pay for.
    pub fn beside_flow(&self, flow: usize, demand: bool) -> bool {
        let beside = |s: &Stuck| Stuck { money: s.money && !demand, ..s.clone() }.beside_flows();
        self.0.iter().any(|s| beside(s) || s.flows.iter().any(|f| *f != flow))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Policy, Request, decide,
        generate::{self, Size},
        network::Network,
        problem::Relax,
    };
    use rhumb_federation::View;
    use rhumb_model::{
        Latency, Order,
        order::{Need, Replicas},
    };

    /// Takes away, one or two at a time, what orders need to fit.
    fn spoil(order: &mut Order, how: u64) {
        for kind in [how % 6, how / 6 % 6] {
            match kind {
                0 => order.terms.budget = "1 CNY".parse().ok(),
                1 => order.terms.deadline = "2026-12-01T03:47:00Z".parse().ok(),
                2 => order.flows.iter_mut().for_each(|f| f.max_latency = Some(Latency::from_micros(3))),
                3 => order.constraints.labels = ["nobody-has-it".parse().unwrap()].into(),
                4 => order.components[0].need.memory = "900TiB".parse().unwrap(),
                _ => {}
            }
        }
        if order.terms.deadline.is_some() {
            order.terms.late_per_hour = None;
        }
    }

    #[test]
    fn what_is_not_tried_would_not_have_helped() {
        let view = View::from_file(&generate::federation(Size::of(10), 3)).unwrap();
        let net = Network::new(&view);
        let policy = Policy::default();
        let submit = "2026-12-01T03:17:00Z".parse().unwrap();
        let fits = |order: &Order| decide(&view, &Request::new(order, submit), &policy).outcome.is_ok();
        let mut skipped = [0_u32; 5];
        for (how, mut order) in (0..).zip(generate::orders(10, 72, 4)) {
            spoil(&mut order, how);
            let problem = Problem::new(&view, &net, Request::new(&order, submit), &policy, Relax::default()).unwrap();
            let inquest = Inquest::new(&problem);
            let bonds = inquest.bonds();
            assert!(!bonds.any() || !fits(&order));
            for index in (0..order.components.len()).filter(|i| bonds.beside(*i)) {
                let mut eased = order.clone();
                let component = &mut eased.components[index];
                component.replicas = Replicas { min: 1, max: 1 };
                component.need = Need::default();
                component.place = rhumb_model::order::Place::default();
                skipped[0] += 1;
                assert!(!fits(&eased), "{order:?}");
            }
            let held = |f: &usize| bonds.beside_flow(*f, order.flows[*f].demand.is_some());
            for index in (0..order.flows.len()).filter(held) {
                let mut eased = order.clone();
                eased.flows.remove(index);
                skipped[1] += 1;
                assert!(!fits(&eased), "{order:?}");
            }
            let mut eased = |held: bool, at: usize, ease: fn(&mut Order)| {
                let mut eased = order.clone();
                ease(&mut eased);
                skipped[at] += u32::from(held);
                assert!(!held || !fits(&eased), "{order:?}");
            };
            eased(bonds.beside_flows(), 2, |o| o.flows.retain(|f| f.demand.is_some()));
            eased(bonds.beside_deadline(), 3, |o| o.terms.deadline = None);
            eased(bonds.beside_budget(), 4, |o| o.terms.budget = None);
        }
        assert!(skipped.iter().all(|n| *n > 5), "{skipped:?}");
    }
}
