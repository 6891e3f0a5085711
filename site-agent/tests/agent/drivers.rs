//! One suite for whatever carries routes.

use crate::world::until;
use rhumb_agent::dataplane::{
    RouteDriver,
    kernel::{KernelRoutes, KernelSettings},
    overlay::{DatasetRequest, DatasetSource, Limits, Overlay, OverlayConfig},
};
use rhumb_kernel::VniRange;
use rhumb_lab::{Lab, Router, Site, within};
use rhumb_model::{Bandwidth, DatasetName, OrderId, PointName};
use rhumb_wire::{
    Duty, KernelRoute, PeerLink, Role, Route, RouteEndState, RoutePurpose, RouteStatus, Tunnel, TunnelNumbers,
    report::RouteKey,
};
use std::{
    collections::BTreeMap,
    fs::File,
    io,
    net::IpAddr,
    path::Path,
    sync::{Arc, Mutex},
};
use tokio::sync::watch;
use uuid::Uuid;

/// Addresses inside tunnels.
const INSIDE: &str = "10.200.0.0/16";

fn route(order: u128) -> Route {
    Route {
        key: RouteKey { order: OrderId(Uuid::from_u128(order)), generation: 1, leg: 0, path: 0 },
        role: Role::Source,
        next_link: Some("a-b".parse().unwrap()),
        previous: None,
        rate: Bandwidth::from_mbps(10),
        purpose: RoutePurpose::Stream { flow: 0 },
        key_base64: None,
        hop_secret_base64: None,
        duty: Duty::Carry,
        silence_ms: None,
        kernel: None,
    }
}

/// That a driver does what is asked of every driver. `adapt` makes a route one that it can serve.
fn suite(driver: &dyn RouteDriver, adapt: impl Fn(Route) -> Route) {
    let routes: Vec<Route> = (1..=3).map(|order| adapt(route(order))).collect();
    let (links, peers) = (Vec::<PeerLink>::new(), Vec::<PointName>::new());
    let listed = || -> BTreeMap<RouteKey, RouteStatus> {
        driver.status().into_iter().map(|status| (status.key.clone(), status)).collect()
    };
    let keys = || listed().into_keys().collect::<Vec<_>>();
    assert!(listed().is_empty(), "nothing before the first word");

    // what is stated is listed
    let all: Vec<RouteKey> = routes.iter().map(|route| route.key.clone()).collect();
    driver.apply(&routes, &links, &peers);
    until("all routes", || (keys() == all).then_some(()));
    until("a state", || listed().values().all(|status| status.state != RouteEndState::Failed).then_some(()));

    // the same again changes nothing
    let before = listed();
    let changes = *driver.changed().borrow();
    driver.apply(&routes, &links, &peers);
    assert_eq!(listed().keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert_eq!(*driver.changed().borrow(), changes);

    // one that cannot be served says why and keeps no other from being served
    let none = Route { rate: Bandwidth::ZERO, ..adapt(route(4)) };
    driver.apply(&[routes.clone(), vec![none.clone()]].concat(), &links, &peers);
    let failed = until("the failure", || {
        listed().get(&none.key).filter(|status| status.state == RouteEndState::Failed).cloned()
    });
    assert_eq!(failed.message, "a rate of 0 moves nothing; reserve some bandwidth");
    assert!(all.iter().all(|key| listed()[key].state == before[key].state));

    // a rate changes in place: the route is there all the time
    let other: Vec<Route> =
        routes.iter().map(|route| Route { rate: Bandwidth::from_mbps(20), ..route.clone() }).collect();
    driver.apply(&other, &links, &peers);
    for _ in 0..20 {
        assert!(all.iter().all(|key| listed().contains_key(key)));
    }
    until("the failure to be forgotten", || (keys() == all).then_some(()));

    // what is not named goes, and what is gone may go again
    let mut changed = driver.changed();
    changed.mark_unchanged();
    driver.apply(&other[..1], &links, &peers);
    until("two to be gone", || (keys() == all[..1]).then_some(()));
    assert!(changed.has_changed().unwrap());
    for _ in 0..2 {
        driver.apply(&[], &links, &peers);
        until("all to be gone", || listed().is_empty().then_some(()));
    }
}

/// The least that passes.
#[derive(Debug)]
struct Fake {
    routes: Mutex<Vec<Route>>,
    changed: watch::Sender<u64>,
}

impl RouteDriver for Fake {
    fn apply(&self, routes: &[Route], _: &[PeerLink], _: &[PointName]) {
        let mut now = self.routes.lock().unwrap();
        if *now != routes {
            *now = routes.to_vec();
            self.changed.send_modify(|count| *count += 1);
        }
    }

    fn status(&self) -> Vec<RouteStatus> {
        let status = |route: &Route| {
            let why = if route.rate.is_zero() { "a rate of 0 moves nothing; reserve some bandwidth" } else { "" };
            RouteStatus {
                key: route.key.clone(),
                state: if why.is_empty() { RouteEndState::Building } else { RouteEndState::Failed },
                bytes: 0,
                bytes_back: 0,
                message: why.to_owned(),
                figures: None,
                carrying: false,
            }
        };
        self.routes.lock().unwrap().iter().map(status).collect()
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

#[test]
fn a_fake_is_a_driver() {
    suite(&Fake { routes: Mutex::default(), changed: watch::Sender::new(0) }, |route| route);
}

#[derive(Debug)]
struct NoDatasets;

impl DatasetSource for NoDatasets {
    fn open(&self, _: &DatasetRequest) -> io::Result<File> {
        Err(io::Error::from(io::ErrorKind::NotFound))
    }

    fn store(&self, _: &DatasetName, _: &Path, _: u64, _: &str) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

#[test]
fn the_overlay_is_a_driver() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let overlay = tokio.block_on(Overlay::start(OverlayConfig {
        point: "a".parse().unwrap(),
        listen: "127.0.0.1:0".parse().unwrap(),
        data_dir: folder.path().to_owned(),
        datasets: Arc::new(NoDatasets),
        limits: Limits::default(),
    }));
    let _inside = tokio.enter();
    suite(&overlay.unwrap(), |route| route);
}

pub fn settings(site: Site) -> KernelSettings {
    KernelSettings {
        underlay: Router::ALL.map(|router| IpAddr::V4(site.underlay(router))).to_vec(),
        locator: None,
        segment: None,
        numbers: VniRange::new(1, 100).unwrap(),
        inside: INSIDE.parse().unwrap(),
        networks: vec![format!("{}/24", site.gateway(0)).parse().unwrap()],
    }
}

#[test]
fn the_kernel_is_a_driver() {
    let Some(lab) = lab() else { return };
    let space = lab.site(Site::A);
    let ran = within(&space, || {
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let _inside = tokio.enter();
        let driver = KernelRoutes::start(settings(Site::A)).unwrap();
        suite(&driver, |route| {
            let number = route.key.order.0.as_u128() as u32;
            Route { kernel: Some(tunnelled(number, Router::R2)), ..route }
        });
        // the last word on what is here is the agent's
        let reason = |change: fn(&mut KernelRoute)| {
            let mut route = Route { kernel: Some(tunnelled(9, Router::R2)), ..route(9) };
            change(route.kernel.as_mut().unwrap());
            driver.apply(&[], &[], &[]);
            until("all to be gone", || driver.status().is_empty().then_some(()));
            driver.apply(&[route], &[], &[]);
            until("the refusal", || {
                let status = driver.status().into_iter().find(|status| status.state == RouteEndState::Failed)?;
                Some(status.message)
            })
        };
        let elsewhere = reason(|kernel| kernel.next.as_mut().unwrap().local = "192.0.2.1".parse().unwrap());
        assert_eq!(elsewhere, "tunnels cannot end at 192.0.2.1 here; use an address of this point's offer");
        let beyond = reason(|kernel| kernel.next.as_mut().unwrap().number = 101);
        assert_eq!(beyond, "tunnel number 101 lies outside of this point's pool 1 to 100");
        let foreign = reason(|kernel| kernel.source_networks = vec!["192.0.2.0/24".parse().unwrap()]);
        assert_eq!(foreign, "192.0.2.0/24 is not behind this point; use a network of its offer");
        let whole = reason(|kernel| kernel.sink_networks = vec!["10.0.0.0/8".parse().unwrap()]);
        assert_eq!(whole, "10.0.0.0/8 at the far end holds 10.11.0.0/24 of this point; name networks that do not meet");
        let looped = reason(|kernel| kernel.sink_networks = vec!["10.100.0.0/16".parse().unwrap()]);
        assert_eq!(
            looped,
            "10.100.0.0/16 at the far end holds 10.100.21.1 of this point; name networks that do not meet"
        );
        driver.apply(&[], &[], &[]);
        until("all to be gone", || driver.status().is_empty().then_some(()));
    });
    ran.unwrap();
}

/// The tunnel of a leg from site A to site B.
pub fn tunnelled(number: u32, router: Router) -> KernelRoute {
    let numbers = TunnelNumbers { from: 1, to: 1_000, inside: INSIDE.parse().unwrap() };
    let (own, peer) = numbers.inside(number).unwrap();
    let (local, remote) = (Site::A.underlay(router).into(), Site::B.underlay(router).into());
    KernelRoute {
        previous: None,
        next: Some(Tunnel { number, local, remote, own, peer, segments: Vec::new() }),
        source: own,
        sink: peer,
        peer: Some("site-b".parse().unwrap()),
        overlay_port: 1,
        source_networks: Vec::new(),
        sink_networks: Vec::new(),
        allow: None,
        mtu: None,
        dscp: 0,
    }
}

/// A laboratory of this test alone; `None`, with a notice, where it cannot be built.
pub fn lab() -> Option<Lab> {
    Lab::for_test('a', &["ip", "nft"])
}
