//! What the agent asks of a data plane.

use crate::dataplane::{
    RouteDriver,
    bgp::Steering,
    kernel::{KernelRoutes, failed, through},
    overlay::{Overlay, StagedInput},
};
use rhumb_model::{DatasetName, LinkId, OrderId};
use rhumb_wire::{
    Desired, FlowEndpoint, KernelOffer, PeerLink, Route, RouteEndState, RouteStatus,
    report::{AssignmentKey, RouteKey},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Carries an order's bytes. Calls return at once; all are idempotent.
pub(crate) trait Carrier: Send + Sync + 'static {
    /// States every route there should be.
    fn apply(&self, desired: &Desired);

    fn routes(&self) -> Vec<RouteStatus>;

    /// Payload octets that this point has sent over each of these links, in all.
    fn passed(&self, links: &[PeerLink]) -> BTreeMap<LinkId, u64>;
    /// How the kernel can carry routes, where it may.
    fn kernel(&self) -> Option<KernelOffer>;

    /// Opens the socket at which a replica meets a flow, and says where it is.
    fn endpoint(&self, key: &AssignmentKey, endpoint: &FlowEndpoint) -> Result<PathBuf, String>;

    /// What has arrived of a dataset; `None`: no route brings it yet.
    fn input(&self, order: OrderId, generation: u64, dataset: &DatasetName) -> Option<StagedInput>;

    /// Removes the files and sockets of all orders' generations but these.
    fn retain(&self, keep: &BTreeSet<(OrderId, u64)>) -> io::Result<()>;
}

/// The data planes of this agent. What the kernel carries ends in the overlay too: there the order's sockets and files are.
#[derive(Debug)]
pub(crate) struct Planes {
    pub(crate) overlay: Arc<Overlay>,
    pub(crate) kernel: Option<KernelRoutes>,
    /// Routes that the kernel carries, as last stated.
    tunnelled: Mutex<BTreeMap<RouteKey, Route>>,
    steering: Option<Steering>,
}

impl Planes {
    pub(crate) fn new(overlay: Arc<Overlay>, kernel: Option<KernelRoutes>, steering: Option<Steering>) -> Self {
        Self { overlay, kernel, tunnelled: Mutex::default(), steering }
    }

    fn tunnelled(&self) -> MutexGuard<'_, BTreeMap<RouteKey, Route>> {
        self.tunnelled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Carrier for Planes {
    fn apply(&self, desired: &Desired) {
        let (kernel, mut routes): (Vec<Route>, Vec<Route>) =
            desired.routes.iter().cloned().partition(|route| route.kernel.is_some());
        let (mut links, mut peers) = (desired.links.clone(), desired.peers.clone());
        *self.tunnelled() = kernel.iter().map(|route| (route.key.clone(), route.clone())).collect();
        if let Some(steering) = &self.steering {
            steering.apply(&kernel);
        }
        if let Some(driver) = &self.kernel {
            for (route, link) in kernel.iter().filter_map(through) {
                peers.extend(route.previous.iter().cloned());
                routes.push(route);
                links.extend(link);
            }
            driver.apply(&kernel, &desired.links, &desired.peers);
        }
        self.overlay.apply(&routes, &links, &peers);
    }

    fn routes(&self) -> Vec<RouteStatus> {
        let mut all: BTreeMap<RouteKey, RouteStatus> =
            self.overlay.status().into_iter().map(|status| (status.key.clone(), status)).collect();
        let Some(driver) = &self.kernel else {
            let why = "this agent carries no routes in the kernel; set routes.kernel";
            all.extend(self.tunnelled().keys().map(|key| (key.clone(), failed(key.clone(), why.to_owned()))));
            return all.into_values().collect();
        };
        let mut tunnels: BTreeMap<RouteKey, RouteStatus> =
            driver.status().into_iter().map(|status| (status.key.clone(), status)).collect();
        for key in self.tunnelled().keys() {
            // stated and not taken up yet
            tunnels.entry(key.clone()).or_insert_with(|| RouteStatus {
                state: RouteEndState::Building,
                ..failed(key.clone(), String::new())
            });
        }
        for (key, tunnel) in tunnels {
            let status = match all.remove(&key) {
                Some(inside) => joined(tunnel, inside),
                None => tunnel,
            };
            let trouble = self.steering.as_ref().and_then(|s| s.trouble(self.tunnelled().get(&key)?));
            let status = match trouble {
                Some(why) if status.message.is_empty() => RouteStatus { message: why, ..status },
                _ => status,
            };
            all.insert(key, status);
        }
        all.into_values().collect()
    }

    fn kernel(&self) -> Option<KernelOffer> {
        self.kernel.as_ref().map(KernelRoutes::offer)
    }

    fn passed(&self, links: &[PeerLink]) -> BTreeMap<LinkId, u64> {
        self.overlay.passed(links)
    }

    fn endpoint(&self, key: &AssignmentKey, endpoint: &FlowEndpoint) -> Result<PathBuf, String> {
        self.overlay.ensure_endpoint(key, endpoint).map_err(|error| shown(&error))?;
        Ok(self.overlay.flow_socket(key.order, key.generation, &key.component, key.replica, endpoint.flow))
    }

    fn input(&self, order: OrderId, generation: u64, dataset: &DatasetName) -> Option<StagedInput> {
        self.overlay.input(order, generation, dataset)
    }

    fn retain(&self, keep: &BTreeSet<(OrderId, u64)>) -> io::Result<()> {
        self.overlay.retain(keep)
    }
}

/// An end of a route is no better than its tunnel, and tells what passed inside.
fn joined(tunnel: RouteStatus, inside: RouteStatus) -> RouteStatus {
    match (tunnel.state, inside.state) {
        // every byte has arrived, whatever has become of the way
        (_, RouteEndState::Done | RouteEndState::Failed) => inside,
        (RouteEndState::Active, _) if inside.message.is_empty() => RouteStatus { message: tunnel.message, ..inside },
        (RouteEndState::Active, _) => inside,
        (state, _) => RouteStatus { state, message: tunnel.message, ..inside },
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
