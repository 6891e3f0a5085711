//! Which links a flow may take, for each set of rules that orders ask by.

use crate::network::Edge;
use petgraph::graph::EdgeIndex;
use rhumb_federation::View;
use rhumb_model::Jurisdiction;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What an order and a policy ask of links, besides room and delay.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Signature {
    /// Jurisdictions that the link and both its ends must keep to; `None`: any.
    pub within: Option<BTreeSet<Jurisdiction>>,
    pub encrypted: bool,
    /// Links whose figures are too old will do.
    pub stale: bool,
}

/// A set of allowed links, by edge ordinal. Of one number and one epoch it never changes.
#[derive(Debug, Clone)]
pub(crate) struct Mask {
    pub number: u32,
    pub epoch: u32,
    pub allowed: Arc<[bool]>,
}

#[derive(Debug, Default)]
pub(crate) struct Masks {
    numbers: BTreeMap<Signature, u32>,
    masks: Vec<Mask>,
}

impl Masks {
    pub fn of(&mut self, view: &View, edges: &[Edge], signature: Signature) -> Mask {
        if let Some(number) = self.numbers.get(&signature) {
            return self.masks[*number as usize].clone();
        }
        let allowed = edges.iter().map(|edge| allows(view, edge, &signature)).collect();
        let mask = Mask { number: self.masks.len() as u32, epoch: 0, allowed };
        self.numbers.insert(signature, mask.number);
        self.masks.push(mask.clone());
        mask
    }

    /// The link of an edge has changed.
    pub fn changed(&mut self, view: &View, edge: &Edge, ordinal: u32) {
        for (signature, number) in &self.numbers {
            let mask = &mut self.masks[*number as usize];
            let now = allows(view, edge, signature);
            if mask.allowed[ordinal as usize] != now {
                Arc::make_mut(&mut mask.allowed)[ordinal as usize] = now;
                mask.epoch += 1;
            }
        }
    }
}

fn allows(view: &View, edge: &Edge, signature: &Signature) -> bool {
    let inside = signature.within.as_ref().is_none_or(|within| {
        let link = &view.graph[EdgeIndex::new(edge.index as usize)];
        let of = |point: u32| &view.graph[petgraph::graph::NodeIndex::new(point as usize)].jurisdiction;
        let point = |p: u32| of(p).as_ref().is_some_and(|j| within.contains(j));
        !link.jurisdictions.is_empty() && link.jurisdictions.is_subset(within) && point(edge.from) && point(edge.to)
    });
    inside && (signature.stale || !edge.stale) && (!signature.encrypted || edge.encrypted)
}
