//! What the agent asks of a data plane.

use crate::dataplane::overlay::{Overlay, StagedInput};
use rhumb_model::{DatasetName, LinkId, OrderId};
use rhumb_wire::{Desired, FlowEndpoint, PeerLink, RouteStatus, report::AssignmentKey};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
};

/// Carries an order's bytes. Calls return at once; all are idempotent.
pub(crate) trait Carrier: Send + Sync + 'static {
    /// States every route there should be.
    fn apply(&self, desired: &Desired);

    fn routes(&self) -> Vec<RouteStatus>;

    /// Payload octets that this point has sent over each of these links, in all.
    fn passed(&self, links: &[PeerLink]) -> BTreeMap<LinkId, u64>;

    /// Opens the socket at which a replica meets a flow, and says where it is.
    fn endpoint(&self, key: &AssignmentKey, endpoint: &FlowEndpoint) -> Result<PathBuf, String>;

    /// What has arrived of a dataset; `None`: no route brings it yet.
    fn input(&self, order: OrderId, generation: u64, dataset: &DatasetName) -> Option<StagedInput>;

    /// Removes the files and sockets of all orders' generations but these.
    fn retain(&self, keep: &BTreeSet<(OrderId, u64)>) -> io::Result<()>;
}

impl Carrier for Overlay {
    fn apply(&self, desired: &Desired) {
        Overlay::apply(self, &desired.routes, &desired.links, &desired.peers);
    }

    fn routes(&self) -> Vec<RouteStatus> {
        self.status()
    }

    fn passed(&self, links: &[PeerLink]) -> BTreeMap<LinkId, u64> {
        Overlay::passed(self, links)
    }

    fn endpoint(&self, key: &AssignmentKey, endpoint: &FlowEndpoint) -> Result<PathBuf, String> {
        self.ensure_endpoint(key, endpoint).map_err(|error| shown(&error))?;
        Ok(self.flow_socket(key.order, key.generation, &key.component, key.replica, endpoint.flow))
    }

    fn input(&self, order: OrderId, generation: u64, dataset: &DatasetName) -> Option<StagedInput> {
        Overlay::input(self, order, generation, dataset)
    }

    fn retain(&self, keep: &BTreeSet<(OrderId, u64)>) -> io::Result<()> {
        Overlay::retain(self, keep)
    }
}

/// An error and its causes in one line.
pub(crate) fn shown(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
