//! What the replicas make unusable for the policy's demand mix, counted node by node.

use crate::{
    policy::{Policy, Request},
    room,
};
use rhumb_federation::{FreeNodes, View};
use rhumb_model::{
    Plan,
    fit::{self, NodeShape, slice},
    order::Need,
    ratio::Ratio,
};

/// Micro-units, exact.
pub(super) fn cost(plan: &Plan, request: &Request, view: &View, policy: &Policy, hours: Ratio) -> Ratio {
    let Some(price) = policy.fragmentation_per_device_hour else { return Ratio::default() };
    let price = price.micros_in(view.currency, &view.rates).unwrap_or_default();
    let mut lost = Ratio::default();
    for site in &view.sites {
        let mut wants = Vec::new();
        for (placed, component) in plan.components.iter().zip(&request.order.components) {
            let here = placed.assignments.iter().filter(|a| a.site == site.site.name);
            let replicas: Vec<_> = here.map(|a| (a.model.as_ref(), a.replicas)).collect();
            if !replicas.is_empty() {
                wants.push(room::Want { component, replicas });
            }
        }
        if let Some(left) = room::pack_by(&site.nodes, &wants, &room::Mix::new(policy)) {
            let more = unusable(policy, &left) - unusable(policy, &site.nodes);
            lost += more.max(Ratio::default());
        }
    }
    lost * price * hours
}

/// Devices that the demand mix is expected to leave idle.
fn unusable(policy: &Policy, nodes: &[FreeNodes]) -> Ratio {
    let weights: i128 = policy.demand_mix.iter().map(|e| i128::from(e.weight)).sum();
    let mut sum = Ratio::default();
    for free in nodes {
        for entry in &policy.demand_mix {
            let left = filled(&entry.need, &free.shape);
            sum += left * Ratio::new(i128::from(entry.weight) * i128::from(free.count), weights.max(1));
        }
    }
    sum
}

/// Devices that stay idle on a node on which as many replicas of the need stand as fit.
fn filled(need: &Need, shape: &NodeShape) -> Ratio {
    let Some(asked) = &need.accelerators else { return Ratio::default() };
    let mut left = shape.clone();
    let models: Vec<_> = shape.groups.iter().map(|g| g.model.clone()).collect();
    for model in models {
        let accepts = asked.models.is_empty() || asked.models.contains(&model);
        for _ in 0..10_000 {
            if !accepts || fit::take(need, Some(&model), &mut left).is_none() {
                break;
            }
        }
    }
    let mut idle = Ratio::default();
    for g in &left.groups {
        idle += Ratio::from_integer(i128::from(g.free));
        idle += g.partial.iter().map(|p| Ratio::new(i128::from(p.0), 1_000)).sum::<Ratio>();
        let all = i128::from(slice::memory_slices(g.memory));
        idle += g.slices.iter().map(|s| Ratio::new(i128::from(s.free(g.memory)), all)).sum::<Ratio>();
    }
    idle
}
