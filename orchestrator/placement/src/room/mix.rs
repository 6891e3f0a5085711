//! What nodes are worth to the orders that usually come: the demand mix of a policy.
//!
//! A node's loss is what of its idle devices the mix is expected not to use: for each need, what is left once as many as
//! fit have been placed, weighed by how often the need comes. Choosing nodes by how much it grows is the fragmentation
//! gradient of "Beware of Fragmentation" (USENIX ATC '23), with exact counts in place of sampled tasks.

use crate::policy::{DemandEntry, Policy};
use rhumb_model::{
    ModelName,
    fit::{self, NodeShape, slice},
    order::Need,
    ratio::Ratio,
};
use std::{cell::RefCell, collections::BTreeMap};

/// Empty: nothing is ever lost.
#[derive(Debug, Default)]
pub(crate) struct Mix<'p> {
    entries: &'p [DemandEntry],
    known: RefCell<BTreeMap<NodeShape, i128>>,
}

impl<'p> Mix<'p> {
    pub fn new(policy: &'p Policy) -> Self {
        Self { entries: &policy.demand_mix, known: RefCell::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Thousandths of devices that are lost, times the sum of the weights.
    pub fn lost(&self, shape: &NodeShape) -> i128 {
        if self.entries.is_empty() {
            return 0;
        }
        if let Some(known) = self.known.borrow().get(shape) {
            return *known;
        }
        let idle = milli_devices(shape);
        let of = |e: &DemandEntry| i128::from(e.weight) * i128::from(idle.saturating_sub(usable(&e.need, shape)));
        let lost = self.entries.iter().map(of).sum();
        self.known.borrow_mut().insert(shape.clone(), lost);
        lost
    }

    /// A sum of `lost` in devices.
    pub fn devices(&self, lost: i128) -> Ratio {
        let weights: i128 = self.entries.iter().map(|e| i128::from(e.weight)).sum();
        Ratio::new(lost, 1_000 * weights.max(1))
    }
}

/// Thousandths of devices that are idle.
pub(crate) fn milli_devices(shape: &NodeShape) -> u64 {
    let of = |g: &fit::DeviceGroup| {
        let shares = g.partial.iter().map(|p| u64::from(p.0)).sum::<u64>();
        let slices = g.slices.iter().map(|s| u64::from(s.free(g.memory))).sum::<u64>();
        u64::from(g.free) * 1_000 + shares + slices * 1_000 / u64::from(slice::memory_slices(g.memory))
    };
    shape.groups.iter().map(of).sum()
}

/// More replicas fit no node, unless they need nothing.
const MOST: u32 = 10_000;

/// Thousandths of devices that as many replicas of `need` as fit the node would take, of any model that it accepts.
fn usable(need: &Need, shape: &NodeShape) -> u64 {
    // work without devices loses none
    let Some(asked) = &need.accelerators else { return milli_devices(shape) };
    let mut models: Vec<&ModelName> = shape.groups.iter().map(|g| &g.model).collect();
    models.sort_unstable();
    models.dedup();
    let mut left = shape.clone();
    for model in models.into_iter().filter(|m| asked.models.is_empty() || asked.models.contains(*m)) {
        (0..MOST).take_while(|_| fit::take(need, Some(model), &mut left).is_some()).for_each(drop);
    }
    milli_devices(shape).saturating_sub(milli_devices(&left))
}
