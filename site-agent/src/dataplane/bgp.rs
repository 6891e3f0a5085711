//! Routers around this point learn by BGP what an order's kernel routes lead to: the networks at the far end, with this point
//! as the next hop, for as long as the route carries.
//!
//! Invariants
//! - What is announced is a function of the routes; it is held against the daemon again and again, so that neither's restart
//!   matters.
//! - A daemon that is away keeps no route from carrying; the route's status says it.

use crate::carrier::shown;
use rhumb_bgp::{Announcements, Bgp, BgpError, Steer, mark};
use rhumb_wire::{Duty, Role, Route};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    net::Ipv4Addr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::watch, task::JoinHandle, time::timeout};

/// How long the daemon may take for one answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at what the daemon has; after one that failed.
const LOOK: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);

/// `routes.bgp` of the agent's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BgpSettings {
    /// The GoBGP daemon's interface, such as `http://127.0.0.1:50051`.
    pub gobgp: String,
    /// This point's address, as the routers reach it.
    pub next_hop: Ipv4Addr,
}

/// Announcements of this point.
#[derive(Debug)]
pub(crate) struct Steering {
    next_hop: Ipv4Addr,
    wanted: watch::Sender<Option<Announcements>>,
    trouble: Arc<Mutex<Option<String>>>,
    task: JoinHandle<()>,
}

impl Steering {
    /// Nothing is changed before the first [`Steering::apply`]. Needs a tokio runtime.
    pub(crate) fn start(settings: &BgpSettings) -> Result<Self, BgpError> {
        let bgp = Bgp::open(&settings.gobgp, PATIENCE)?;
        let (wanted, receiver) = watch::channel(None);
        let trouble: Arc<Mutex<Option<String>>> = Arc::default();
        let task = tokio::spawn(keep(bgp, receiver, Arc::clone(&trouble)));
        Ok(Self { next_hop: settings.next_hop, wanted, trouble, task })
    }

    /// States the whole set of routes there should be here.
    pub(crate) fn apply(&self, routes: &[Route]) {
        let announcements = announcements(routes, self.next_hop);
        self.wanted.send_if_modified(|now| {
            let news = now.as_ref() != Some(&announcements);
            *now = Some(announcements);
            news
        });
    }

    /// Why what the route leads to is not announced, if so.
    pub(crate) fn trouble(&self, route: &Route) -> Option<String> {
        if announcements(std::slice::from_ref(route), self.next_hop).is_empty() {
            return None;
        }
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the routes that carry lead to from here.
fn announcements(routes: &[Route], next_hop: Ipv4Addr) -> Announcements {
    let mut all = Announcements::new();
    for route in routes.iter().filter(|route| route.duty == Duty::Carry) {
        let Some(kernel) = &route.kernel else { continue };
        let far = match route.role {
            Role::Source => &kernel.sink_networks,
            Role::Sink => &kernel.source_networks,
            Role::Relay => continue,
        };
        for network in far {
            let steer = all.entry(network.trunc()).or_insert_with(|| Steer { next_hop, orders: BTreeSet::new() });
            steer.orders.insert(mark(route.key.order));
        }
    }
    all
}

async fn keep(mut bgp: Bgp, mut wanted: watch::Receiver<Option<Announcements>>, trouble: Arc<Mutex<Option<String>>>) {
    loop {
        let now = wanted.borrow_and_update().clone();
        let mut pause = LOOK;
        if let Some(now) = now {
            let said = match bgp.apply(&now).await {
                Ok(applied) if applied.refused.is_empty() => None,
                Ok(applied) => {
                    let refused: Vec<String> = applied.refused.iter().map(ToString::to_string).collect();
                    Some(format!("{} is announced by somebody else already", refused.join(", ")))
                }
                Err(error) => {
                    pause = RETRY;
                    Some(shown(&error))
                }
            };
            let mut before = trouble.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(why) = said.as_ref().filter(|_| *before != said) {
                tracing::warn!(why, "not all prefixes of routes are announced");
            }
            *before = said;
        }
        if let Ok(Err(_)) = timeout(pause, wanted.changed()).await {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_model::{Bandwidth, OrderId};
    use rhumb_wire::{KernelRoute, RoutePurpose, report::RouteKey};

    fn route(order: u128, role: Role, duty: Duty) -> Route {
        let kernel = KernelRoute {
            previous: None,
            next: None,
            source: "10.200.0.0".parse().unwrap(),
            sink: "10.200.0.1".parse().unwrap(),
            peer: None,
            overlay_port: 1,
            source_networks: vec!["10.11.0.0/24".parse().unwrap()],
            sink_networks: vec!["10.12.0.7/24".parse().unwrap()],
            allow: None,
            mtu: None,
            dscp: 0,
        };
        Route {
            key: RouteKey { order: OrderId(uuid::Uuid::from_u128(order)), generation: 1, leg: 0, path: 0 },
            role,
            next_link: None,
            previous: None,
            rate: Bandwidth::from_mbps(1),
            purpose: RoutePurpose::Stream { flow: 0 },
            key_base64: None,
            hop_secret_base64: None,
            duty,
            silence_ms: None,
            kernel: Some(kernel),
        }
    }

    #[test]
    fn an_end_announces_what_is_at_the_other_and_only_while_its_route_carries() {
        let hop = Ipv4Addr::new(10, 60, 0, 1);
        let all = |routes: &[Route]| -> Vec<(String, usize)> {
            let all = announcements(routes, hop);
            assert!(all.values().all(|steer| steer.next_hop == hop));
            all.into_iter().map(|(prefix, steer)| (prefix.to_string(), steer.orders.len())).collect()
        };
        let source = route(1, Role::Source, Duty::Carry);
        assert_eq!(all(std::slice::from_ref(&source)), [("10.12.0.0/24".to_owned(), 1)]);
        assert_eq!(all(&[route(1, Role::Sink, Duty::Carry)]), [("10.11.0.0/24".to_owned(), 1)]);
        for other in [
            route(1, Role::Relay, Duty::Carry),
            route(1, Role::Source, Duty::Standby),
            route(1, Role::Source, Duty::Measure),
            Route { kernel: None, ..source.clone() },
        ] {
            assert!(all(std::slice::from_ref(&other)).is_empty(), "{other:?}");
        }
        // of two orders one prefix
        assert_eq!(all(&[source.clone(), route(2, Role::Source, Duty::Carry)]), [("10.12.0.0/24".to_owned(), 2)]);
        assert_eq!(all(&[source.clone(), route(1, Role::Source, Duty::Carry)]), [("10.12.0.0/24".to_owned(), 1)]);
    }
}
