//! How long decisions take: each is applied before the next is made, as a day's orders are. The caller's clock is read, so
//! that this crate has none.

use crate::{
    planner::Planner,
    policy::{Policy, Request},
};
use jiff::Timestamp;
use rhumb_federation::{FreeNodes, View};
use rhumb_model::{
    Order, Plan,
    fit::{NodeShape, group_nodes},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

/// What takes longer than this in all is known to be slow: it is not repeated further.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is asked, and how often.
#[derive(Debug, Clone, Copy)]
pub struct Trial<'a> {
    pub view: &'a View,
    /// Decided on in turn; when all have been, a new round begins on the view as it was.
    pub orders: &'a [Order],
    pub submit: Timestamp,
    pub decisions: usize,
    /// Refusals that are explained, at most.
    pub explained: usize,
    /// Decisions on each kind of gang.
    pub gangs: usize,
    /// Reports that are folded in.
    pub reports: usize,
}

/// A plan with all that is needed to check it after those before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// Each round begins on the view as it was.
    pub round: usize,
    /// Which of the orders.
    pub order: usize,
    pub plan: Plan,
}

#[derive(Debug, Clone, Default)]
pub struct Timings {
    /// Of every decision.
    pub decisions: Vec<Duration>,
    /// Of taking each plan's share from the view.
    pub applied: Vec<Duration>,
    /// Of refusals that were explained: decision, reasons of all sites and what would help.
    pub refusals: Vec<Duration>,
    pub gangs: Vec<Duration>,
    /// Kinds of gang that were asked for, and those of them that fitted.
    pub gang_kinds: (usize, usize),
    pub reports: Vec<Duration>,
    pub refused: usize,
    pub proven: usize,
    /// Plans that the view could not take: a fault of whatever decided.
    pub not_applied: Vec<String>,
    pub plans: Vec<Made>,
}

/// Decides on everything that the trial asks for; `clock` says how much time has passed.
pub fn measure(trial: &Trial, policy: &Policy, clock: &mut dyn FnMut() -> Duration) -> Timings {
    let mut found = Timings::default();
    let mut now = Planner::new(trial.view.clone());
    for index in 0..trial.decisions {
        let (round, order) = (index / trial.orders.len(), index % trial.orders.len());
        if order == 0 && round > 0 {
            now = Planner::new(trial.view.clone());
        }
        let document = &trial.orders[order];
        let request = Request::new(document, trial.submit);
        let (decision, took) = timed(clock, || now.decide(&request, policy));
        found.decisions.push(took);
        if decision.outcome.is_err() {
            found.refused += 1;
            if found.refusals.len() < trial.explained && found.refusals.iter().sum::<Duration>() < PATIENCE {
                let (_, telling) = timed(clock, || now.explain(&request, policy, decision));
                found.refusals.push(took + telling);
            }
            continue;
        }
        let Ok(plan) = decision.outcome else { continue };
        found.proven += usize::from(plan.proven_optimal);
        let (applied, took) = timed(clock, || now.apply(&plan, document));
        found.applied.push(took);
        if let Err(error) = applied {
            found.not_applied.push(format!("order {order}: {error}"));
        }
        found.plans.push(Made { round, order, plan });
    }
    reports(trial, &mut now, clock, &mut found);
    for document in gangs(trial.view) {
        found.gang_kinds.0 += 1;
        let request = Request::new(&document, trial.submit);
        let mut spent = Duration::ZERO;
        for again in 0..trial.gangs {
            if spent > PATIENCE {
                break;
            }
            let (decision, took) = timed(clock, || now.decide(&request, policy));
            spent += took;
            found.gangs.push(took);
            found.gang_kinds.1 += usize::from(again == 0 && decision.plan().is_some());
        }
    }
    found
}

fn timed<T>(clock: &mut dyn FnMut() -> Duration, work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = clock();
    let done = work();
    (done, clock().saturating_sub(begun))
}

/// Sites in turn report that a device has failed, and then that it is back.
fn reports(trial: &Trial, planner: &mut Planner, clock: &mut dyn FnMut() -> Duration, found: &mut Timings) {
    for index in 0..trial.reports {
        let site = index / 2 % trial.view.sites.len();
        let known = &planner.view().sites[site];
        let mut now = known.clone();
        // a report names every node by itself
        let mut nodes: Vec<NodeShape> =
            known.nodes.iter().flat_map(|n| std::iter::repeat_n(n.shape.clone(), n.count as usize)).collect();
        let group = |shape: &NodeShape| shape.groups.iter().position(|g| g.free > 0);
        if let Some((node, at)) = nodes.iter().enumerate().find_map(|(i, n)| Some((i, group(n)?))) {
            let mut groups = nodes[node].groups.clone();
            if index % 2 == 0 {
                groups[at].free -= 1;
            } else {
                groups[at].free = (groups[at].free + 1).min(groups[at].total);
            }
            let mut shape = NodeShape::new(groups, nodes[node].cpu, nodes[node].memory);
            shape.rack.clone_from(&nodes[node].rack);
            shape.nvl_domain.clone_from(&nodes[node].nvl_domain);
            nodes[node] = shape;
        }
        let ((), took) = timed(clock, || {
            now.nodes = group_nodes(nodes.into_iter().map(|n| (n, 1)));
            planner.replace_site(now);
        });
        found.reports.push(took);
    }
}

/// Replicas of the gangs.
const GANG: u32 = 512;

/// Gangs of 512 replicas of one device: at one site; in one NVLink domain or rack where one is as large; over several sites
/// that are joined by a bandwidth within a delay.
pub fn gangs(view: &View) -> Vec<Order> {
    let size = |within: &dyn Fn(&NodeShape) -> bool| -> u64 {
        let devices =
            |n: &FreeNodes| n.shape.groups.iter().map(|g| u64::from(g.total)).sum::<u64>() * u64::from(n.count);
        view.sites.iter().map(|s| s.whole.iter().filter(|n| within(&n.shape)).map(devices).sum()).max().unwrap_or(0)
    };
    let shapes = || view.sites.iter().flat_map(|s| &s.whole).map(|n| &n.shape);
    let domains: BTreeSet<_> = shapes().filter_map(|s| s.nvl_domain.clone()).collect();
    let racks: BTreeSet<_> = shapes().filter_map(|s| s.rack.clone()).collect();
    let large = |devices: u64| devices >= u64::from(GANG);
    let mut kinds = vec![gang("site", None)];
    if domains.iter().any(|d| large(size(&|s| s.nvl_domain.as_ref() == Some(d)))) {
        kinds.push(gang("nvl_domain", None));
    }
    if racks.iter().any(|r| large(size(&|s| s.rack.as_ref() == Some(r)))) {
        kinds.push(gang("rack", None));
    }
    kinds.push(gang("node", Some(json!({"from": "trainer", "to": "trainer", "rate": "1Gbps", "max_latency": "30ms"}))));
    // a federation without accelerators has no use for them
    kinds.into_iter().filter_map(|document| Order::from_value(document).ok()).collect()
}

fn gang(interconnect: &str, flow: Option<Value>) -> Value {
    json!({
        "name": format!("gang-{GANG}-{}", interconnect.replace('_', "-")),
        "class": "training",
        "components": [{
            "name": "trainer", "replicas": GANG, "gang": true,
            "need": {"accelerators": {"count": 1, "interconnect": interconnect}, "cpu": 1, "memory": "4GiB"},
            "work": {"duration": "1h"},
        }],
        "flows": flow.into_iter().collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{audit::Sequence, generate::workload};

    #[test]
    fn plans_of_a_round_hold_together_and_every_round_is_the_same() {
        let file = workload::federation(workload::size(10), 5);
        let view = View::from_file(&file).unwrap();
        let orders = workload::orders(&file, 12, 5);
        let policy = Policy::default();
        let submit = workload::instant();
        let trial = Trial { view: &view, orders: &orders, submit, decisions: 24, explained: 0, gangs: 0, reports: 40 };
        let mut ticks = 0;
        let mut clock = || {
            ticks += 1;
            Duration::from_micros(ticks)
        };
        let found = measure(&trial, &policy, &mut clock);
        assert_eq!((found.decisions.len(), found.reports.len()), (24, 40));
        assert_eq!(found.plans.len() + found.refused, 24);
        assert_eq!(found.not_applied, Vec::<String>::new());
        let half = found.plans.len() / 2;
        assert!(half > 0);
        let same = |(a, b): (&Made, &Made)| (a.order, &a.plan) == (b.order, &b.plan) && a.round + 1 == b.round;
        assert!(found.plans[..half].iter().zip(&found.plans[half..]).all(same));
        let mut sequence = Sequence::new(&view);
        for made in &found.plans[..half] {
            let request = Request::new(&orders[made.order], submit);
            assert_eq!(sequence.check(&made.plan, &request, &policy), Vec::new());
        }
    }
}
