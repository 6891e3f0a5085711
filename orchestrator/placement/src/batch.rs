//! Several orders on one view: each is decided on what those before it left.

use crate::{
    decision::{Decision, apply_by, decide, explain},
    policy::{Policy, Request},
};
use rhumb_federation::View;

/// The decisions of a batch, in the order of its input, and its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub decisions: Vec<Decision>,
    /// Of the plans.
    pub total_micros: i64,
    /// Sum over the same orders of what each would cost at the least if it were alone.
    pub lower_bound_micros: i64,
    pub gap_ppm: u32,
}

/// Places several orders, by priority, then submission, then name: the input's order has no part in it.
pub fn place_batch(view: &View, requests: &[Request], policy: &Policy) -> Batch {
    let mut turn: Vec<usize> = (0..requests.len()).collect();
    let key = |i: usize| {
        let r = &requests[i];
        let document = serde_json::to_string(r.order).unwrap_or_default();
        (std::cmp::Reverse(r.order.terms.priority.unwrap_or(50)), r.submit, r.order.name.clone(), document)
    };
    turn.sort_by_cached_key(|i| key(*i));
    let mut left = view.clone();
    let mut decisions: Vec<Option<Decision>> = vec![None; requests.len()];
    let (mut total, mut bound) = (0_i64, 0_i64);
    for index in turn {
        let request = &requests[index];
        let decision = explain(&left, request, policy, decide(&left, request, policy));
        if let Ok(plan) = &decision.outcome {
            total = total.saturating_add(plan.cost.total_micros);
            let alone = decide(view, request, policy);
            let least = alone.plan().map_or(plan.lower_bound_micros, |p| p.lower_bound_micros);
            bound = bound.saturating_add(least.min(plan.cost.total_micros));
            if let Ok(next) = apply_by(&left, plan, request.order, policy) {
                left = next;
            }
        }
        decisions[index] = Some(decision);
    }
    Batch {
        decisions: decisions.into_iter().flatten().collect(),
        total_micros: total,
        lower_bound_micros: bound,
        gap_ppm: crate::answer::gap_ppm(total, bound),
    }
}
