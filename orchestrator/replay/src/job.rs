//! What is replayed: jobs that come in one after the other, by class.

use crate::time::Micros;
use rhumb_federation::View;
use rhumb_model::{
    DocumentError, Order, SiteName,
    name::DatasetName,
    order::{Component, Need},
    quantity::Bytes,
};
use std::collections::{BTreeMap, BTreeSet};

/// One job of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub submit: Micros,
    /// Index into `Workload::classes`.
    pub class: usize,
    /// How long it really runs; `None`: as its plan says.
    pub runs: Option<Micros>,
    /// Whose jobs its duration is guessed from (a user's, a virtual cluster's); 0: nobody's in particular.
    pub owner: u32,
}

/// Jobs that ask for the same: where one of them does not fit, none does.
#[derive(Debug, Clone)]
pub struct Class {
    /// What is decided on. For a trace job the duration is filled in at the decision.
    pub order: Order,
    /// Whole accelerators that one job holds while it runs.
    pub devices: u64,
    /// Where its duration may be guessed (trace jobs) or stands in the order.
    pub guessed: bool,
    /// What the site filter looks at.
    pub parts: Vec<Part>,
    /// Sites that the order allows; empty: all.
    pub sites: BTreeSet<SiteName>,
    /// Sites that one component may stand on.
    pub max_sites: u32,
}

/// One component as the filter sees it: whole devices on one node, so many times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// Of one replica; 0: it takes none, or less than a whole one.
    pub devices: u32,
    pub replicas: u32,
}

/// Jobs in order of submission, with their classes.
#[derive(Debug, Clone, Default)]
pub struct Workload {
    pub jobs: Vec<Job>,
    pub classes: Vec<Class>,
    /// Where each site's own data lies: trace jobs bring their data from home.
    pub homes: BTreeMap<DatasetName, SiteName>,
}

#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    #[error("row {row} of the trace: {reason}")]
    Row { row: u64, reason: String },
    #[error("job {index} of the list is not valid")]
    Order { index: usize, source: DocumentError },
    #[error("the list of jobs is not valid")]
    List(#[source] DocumentError),
    #[error("the federation has no sites: name at least one")]
    NoSites,
    #[error("there are no jobs: give at least one")]
    Empty,
}

impl Class {
    pub fn new(order: Order) -> Self {
        let parts: Vec<Part> = order.components.iter().map(Part::of).collect();
        Self {
            devices: parts.iter().map(|p| u64::from(p.devices) * u64::from(p.replicas)).sum(),
            guessed: false,
            sites: order.constraints.sites.clone(),
            max_sites: order.constraints.max_sites.unwrap_or(u32::MAX),
            parts,
            order,
        }
    }

    /// The devices of its largest replica.
    pub fn widest(&self) -> u32 {
        self.parts.iter().map(|p| p.devices).max().unwrap_or(0)
    }
}

impl Part {
    fn of(component: &Component) -> Self {
        Self { devices: whole_devices(&component.need), replicas: component.replicas.min }
    }
}

/// Whole devices that one replica takes.
pub(crate) fn whole_devices(need: &Need) -> u32 {
    need.accelerators.as_ref().filter(|a| a.mig.is_none() && a.share.is_none()).map_or(0, |a| a.count.unwrap_or(0))
}

impl Workload {
    /// The view with the data that the jobs bring along.
    pub(crate) fn view(&self, view: &View) -> View {
        let mut view = view.clone();
        for (name, site) in &self.homes {
            // the orders say how much moves
            let here = rhumb_federation::ViewDataset { size: Bytes::ZERO, at: BTreeSet::from([site.clone()]) };
            view.datasets.insert(name.clone(), here);
        }
        view
    }

    /// The same jobs, first come first, if there are any.
    pub(crate) fn sorted(mut self) -> Result<Self, WorkloadError> {
        if self.jobs.is_empty() {
            return Err(WorkloadError::Empty);
        }
        self.jobs.sort_by_key(|job| job.submit);
        Ok(self)
    }
}
