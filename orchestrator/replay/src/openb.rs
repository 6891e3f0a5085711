//! The published fragmentation benchmark: Alibaba's GPU cluster of 2023 filled beyond its capacity, one decision at a time
//! (Weng et al., "Beware of Fragmentation", USENIX ATC 2023).
//!
//! The nodes are empty at first. Pods come one by one, none leaves, and a pod that no node fits is dropped. Each policy
//! gives every node that fits a whole-number score; the highest wins, and equal scores go to the node whose name is first
//! in that run ([`Bench::ranks`]). What is reported are the shares allocated and fragmented against the share arrived.
//!
//! Invariants
//! - Online: a decision sees the nodes, the pod and the mix of the pod list, never an arrival to come.
//! - The same files, policy and seed give the same decisions.

mod board;
mod column;
mod node;
mod policy;
mod published;
mod ranks;
mod run;
mod table;

pub use column::{COLUMNS, Outcome};
pub use policy::{Policy, UnknownPolicy};
pub use run::{Decision, RunError};
pub use table::{Arrivals, Nodes, Pods, Ranks, TableError};

use crate::scoring::Demand;
use std::collections::BTreeMap;

/// A cluster, what is asked of it, and in which order.
#[derive(Debug, Clone)]
pub struct Bench {
    nodes: Nodes,
    pods: Pods,
    arrivals: Arrivals,
    ranks: BTreeMap<u64, Vec<u32>>,
    demand: Demand,
}

impl Bench {
    pub fn new(nodes: Nodes, pods: Pods, arrivals: Arrivals, ranks: Ranks) -> Self {
        let demand = pods.demand();
        Self { nodes, pods, arrivals, ranks: ranks.0, demand }
    }

    /// The seeds that there is an arrival order for, ascending.
    pub fn seeds(&self) -> impl Iterator<Item = u64> {
        self.arrivals.0.keys().copied()
    }

    /// The place of each node's name in that run's order of names: the file's where it has the seed, else drawn by it.
    pub fn ranks(&self, seed: u64) -> Vec<u32> {
        self.ranks.get(&seed).cloned().unwrap_or_else(|| ranks::drawn(self.nodes.rows.len(), seed))
    }

    /// The name of a node by its row.
    pub fn node_name(&self, node: usize) -> Option<&str> {
        self.nodes.names.get(node).map(String::as_str)
    }

    /// Fills the empty cluster; `observe` is told every decision in turn.
    pub fn run(&self, policy: Policy, seed: u64, observe: &mut dyn FnMut(&Decision<'_>)) -> Result<Outcome, RunError> {
        run::run(self, policy, seed, observe)
    }
}
