//! Routes in the kernel: a tunnel for each path, and the agents at its two ends meeting through it.
//!
//! Invariants
//! - What the tunnel carries for the order's networks and what the agents send through it share one shaper.
//! - Without the setting `routes.kernel` nothing of the kernel is touched, and such routes fail with the reason.

mod intent;
mod settings;

pub use settings::KernelSettings;

use super::RouteDriver;
use intent::intent;
use rhumb_kernel::{Driver, DriverConfig, Intent, Kernel, KernelError, LegState, LegStatus, Owner};
use rhumb_model::{LinkId, PointName};
use rhumb_wire::{Duty, KernelOffer, PeerLink, Role, Route, RouteEndState, RouteStatus, report::RouteKey};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};
use tokio::sync::watch;

/// The kernel's routes of this point.
#[derive(Debug)]
pub struct KernelRoutes {
    settings: KernelSettings,
    driver: Driver,
    /// What cannot even be stated, and why.
    broken: Mutex<BTreeMap<RouteKey, String>>,
}

impl KernelRoutes {
    /// Needs a tokio runtime with I/O and time, CAP_NET_ADMIN and CAP_NET_RAW. What an earlier one built stays until the
    /// first [`RouteDriver::apply`] says what should be.
    pub fn start(settings: KernelSettings) -> Result<Self, KernelError> {
        Kernel::check(settings.locator.is_some() || settings.segment.is_some())?;
        let config = DriverConfig { pool: Some(settings.numbers), ..DriverConfig::default() };
        Ok(Self { driver: Driver::start(config)?, settings, broken: Mutex::default() })
    }

    /// What the orchestrator is told.
    pub fn offer(&self) -> KernelOffer {
        self.settings.offer()
    }

    fn broken(&self) -> BTreeMap<RouteKey, String> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl RouteDriver for KernelRoutes {
    fn apply(&self, routes: &[Route], _links: &[PeerLink], _peers: &[PointName]) {
        let mut broken = BTreeMap::new();
        let mut intents: Vec<Intent> = Vec::new();
        for route in routes {
            match intent(route, &self.settings) {
                Ok(intent) => intents.push(intent),
                Err(error) => drop(broken.insert(route.key.clone(), error.to_string())),
            }
        }
        protect(routes, &mut intents);
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner) = broken;
        self.driver.apply(intents);
    }

    fn status(&self) -> Vec<RouteStatus> {
        let mut all: BTreeMap<RouteKey, RouteStatus> =
            self.driver.status().into_iter().map(|(owner, leg)| (key(&owner), status(&owner, leg))).collect();
        for (key, message) in self.broken() {
            all.insert(key.clone(), failed(key, message));
        }
        all.into_values().collect()
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.driver.changed()
    }
}

/// A path that stands by protects the one of its leg that carries.
fn protect(routes: &[Route], intents: &mut [Intent]) {
    let carrying: BTreeSet<Owner> =
        routes.iter().filter(|route| route.duty == Duty::Carry).map(|route| owner(&route.key)).collect();
    let standby: BTreeSet<Owner> =
        routes.iter().filter(|route| route.duty == Duty::Standby).map(|route| owner(&route.key)).collect();
    for intent in intents.iter_mut().filter(|intent| standby.contains(&intent.owner)) {
        let Owner { order, generation, leg, .. } = intent.owner;
        let of_leg = |owner: &&Owner| (owner.order, owner.generation, owner.leg) == (order, generation, leg);
        intent.protects = carrying.iter().rfind(of_leg).copied();
    }
}

/// The agents' part of a kernel's route: one connection from end to end through the tunnel. `None` between the ends.
pub(crate) fn through(route: &Route) -> Option<(Route, Option<PeerLink>)> {
    let kernel = route.kernel.as_ref()?;
    let peer = kernel.peer.clone()?;
    let link = LinkId::new(&format!("kernel-{}", kernel.next.as_ref().or(kernel.previous.as_ref())?.number)).ok()?;
    let mut inner = Route { kernel: None, ..route.clone() };
    match route.role {
        Role::Source => {
            let overlay = format!("{}:{}", kernel.sink, kernel.overlay_port);
            inner.next_link = Some(link.clone());
            inner.previous = None;
            Some((inner, Some(PeerLink { link, to: peer, overlay })))
        }
        Role::Sink => {
            inner.previous = Some(peer);
            Some((inner, None))
        }
        Role::Relay => None,
    }
}

pub(crate) fn failed(key: RouteKey, message: String) -> RouteStatus {
    let (state, figures) = (RouteEndState::Failed, None);
    RouteStatus { key, state, bytes: 0, bytes_back: 0, message, figures, carrying: false }
}

pub(super) fn owner(key: &RouteKey) -> Owner {
    Owner { order: key.order, generation: key.generation, leg: key.leg, path: key.path }
}

fn key(owner: &Owner) -> RouteKey {
    RouteKey { order: owner.order, generation: owner.generation, leg: owner.leg, path: owner.path }
}

fn status(owner: &Owner, leg: LegStatus) -> RouteStatus {
    let (state, message) = match leg.state {
        LegState::Building => (RouteEndState::Building, "the tunnel's far end does not answer yet".to_owned()),
        LegState::Active if leg.repaired > 0 => {
            let message = format!("{} objects that somebody had changed were put right", leg.repaired);
            (RouteEndState::Active, message)
        }
        LegState::Active => (RouteEndState::Active, String::new()),
        LegState::Degraded => (RouteEndState::Degraded, "the tunnel's far end answers no more".to_owned()),
        LegState::Failed => (RouteEndState::Failed, leg.message),
        LegState::Closing => (RouteEndState::Building, "closing".to_owned()),
    };
    RouteStatus {
        key: key(owner),
        state,
        bytes: leg.sent_bytes,
        bytes_back: leg.received_bytes,
        message,
        figures: None,
        carrying: leg.carries,
    }
}
