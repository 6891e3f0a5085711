//! How this point carries routes: through relays in the agents, or through the kernel.

pub mod bgp;
pub mod kernel;
pub mod overlay;

use rhumb_model::PointName;
use rhumb_wire::{PeerLink, Route, RouteStatus};
use tokio::sync::watch;

/// One way of carrying routes. Calls return at once, and all are idempotent; whatever implements it passes one suite.
pub trait RouteDriver: Send + Sync {
    /// States the whole set of routes there should be, over which links neighbours are reached, and which points may connect.
    /// The same again changes nothing. One that cannot be served is listed as failed with the reason, and keeps no other
    /// from being served.
    fn apply(&self, routes: &[Route], links: &[PeerLink], peers: &[PointName]);

    /// Every route here. One that is no longer wanted is listed until nothing of it is left.
    fn status(&self) -> Vec<RouteStatus>;

    /// Changes with the state of any route, and when one is gone.
    fn changed(&self) -> watch::Receiver<u64>;
}

impl RouteDriver for overlay::Overlay {
    fn apply(&self, routes: &[Route], links: &[PeerLink], peers: &[PointName]) {
        overlay::Overlay::apply(self, routes, links, peers);
    }

    fn status(&self) -> Vec<RouteStatus> {
        overlay::Overlay::status(self)
    }

    fn changed(&self) -> watch::Receiver<u64> {
        overlay::Overlay::changed(self)
    }
}
