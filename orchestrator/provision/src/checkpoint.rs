//! Where work goes on: what it named as its last checkpoint, kept from one generation to the next.

use crate::saga::Saga;
use rhumb_model::ComponentName;
use serde::{Deserialize, Serialize};

/// What a replica's work named last. The name is its own; nobody else reads it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Checkpoint {
    pub component: ComponentName,
    pub replica: u32,
    pub name: String,
}

impl Saga {
    /// What a generation after this one goes on from, by component and replica.
    pub fn checkpoints(&self) -> Vec<Checkpoint> {
        let of = |r: &crate::ReplicaState| {
            let name = r.checkpoint.clone().or_else(|| r.restart_from.clone())?;
            Some(Checkpoint { component: r.component.clone(), replica: r.replica, name })
        };
        let mut list: Vec<Checkpoint> = self.replicas.iter().filter_map(of).collect();
        list.sort();
        list
    }

    /// The same, with each replica going on from its own checkpoint.
    #[must_use]
    pub fn from_checkpoints(mut self, checkpoints: &[Checkpoint]) -> Self {
        for replica in &mut self.replicas {
            let mine = checkpoints.iter().find(|c| c.component == replica.component && c.replica == replica.replica);
            replica.restart_from = mine.map(|c| c.name.clone());
        }
        self
    }
}
