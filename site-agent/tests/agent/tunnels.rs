//! Two agents whose kernels carry a route between them.

use crate::{
    drivers::{lab, settings, tunnelled},
    orchestrator::{AgentProcess, Orchestrator},
    world::{desired, until},
};
use rhumb_agent::{
    AgentConfig,
    config::{MadeDataset, Routes},
    dataplane::bgp::BgpSettings,
};
use rhumb_lab::{Lab, Namespace, Router, Site, within};
use rhumb_model::{Bandwidth, Bytes, OrderId};
use rhumb_wire::{Duty, KernelRoute, Role, Route, RouteEndState, RoutePurpose, RouteStatus, report::RouteKey};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;
use uuid::Uuid;

const BYTES: u64 = 3_000_000;

/// An agent in a site's namespace, and its orchestrator there.
struct Place {
    space: Namespace,
    orchestrator: Orchestrator,
    config: AgentConfig,
    folder: TempDir,
    agent: Option<AgentProcess>,
}

impl Place {
    fn start(lab: &Lab, site: Site) -> Self {
        Self::start_with(lab, site, None)
    }

    fn start_with(lab: &Lab, site: Site, bgp: Option<BgpSettings>) -> Self {
        let (space, folder) = (lab.site(site), tempfile::tempdir().unwrap());
        let orchestrator = within(&space, Orchestrator::start).unwrap();
        let mut config = orchestrator.config(&folder.path().join("data"));
        config.point = format!("site-{}", site.name()).parse().unwrap();
        config.listen.overlay = "0.0.0.0:0".parse().unwrap();
        config.routes = Routes { kernel: Some(settings(site)), bgp };
        config.datasets = if site == Site::A {
            vec![MadeDataset { name: "big".parse().unwrap(), size: Bytes::from_bytes(BYTES) }]
        } else {
            Vec::new()
        };
        let mut place = Self { space, orchestrator, config, folder, agent: None };
        place.run();
        place
    }

    fn run(&mut self) {
        let (config, folder) = (&self.config, &self.folder);
        self.agent = Some(within(&self.space, || AgentProcess::start(config, folder)).unwrap());
    }

    /// The port at which its overlay listens.
    fn port(&self) -> u16 {
        until("a port", || self.orchestrator.last()?.overlay_port)
    }

    #[track_caller]
    fn until(&self, key: &RouteKey, state: RouteEndState) -> RouteStatus {
        let last = || self.orchestrator.last().map(|report| report.routes);
        until(&format!("{state:?} at {}, last seen {:?}", self.config.point, last()), || {
            let report = self.orchestrator.last()?;
            report.routes.into_iter().find(|route| route.key == *key && route.state == state)
        })
    }

    fn links(&self) -> String {
        self.space.ip("-o link").unwrap()
    }
}

/// Both ends of a transfer from A to B, through a tunnel.
fn transfer(port: u16, start: bool) -> [Route; 2] {
    let source = Route {
        key: RouteKey { order: OrderId(Uuid::from_u128(5)), generation: 1, leg: 0, path: 0 },
        role: Role::Source,
        next_link: Some("a-b".parse().unwrap()),
        previous: None,
        rate: Bandwidth::from_mbps(20),
        purpose: RoutePurpose::Transfer { dataset: "big".into(), offset: 0, bytes: BYTES, write: false, start },
        key_base64: None,
        hop_secret_base64: None,
        duty: Duty::Carry,
        silence_ms: None,
        kernel: Some(KernelRoute { overlay_port: port, ..tunnelled(7, Router::R2) }),
    };
    let mut sink = Route { role: Role::Sink, next_link: None, previous: Some("a".parse().unwrap()), ..source.clone() };
    let kernel = sink.kernel.as_mut().unwrap();
    kernel.peer = Some("site-a".parse().unwrap());
    kernel.previous = kernel.next.take().map(|mut tunnel| {
        std::mem::swap(&mut tunnel.local, &mut tunnel.remote);
        std::mem::swap(&mut tunnel.own, &mut tunnel.peer);
        tunnel
    });
    [source, sink]
}

/// The file of that size below a folder.
fn find(folder: &Path, bytes: u64) -> Option<PathBuf> {
    fs::read_dir(folder).unwrap().flatten().find_map(|entry| {
        let (path, data) = (entry.path(), entry.metadata().unwrap());
        if data.is_dir() { find(&path, bytes) } else { (data.len() == bytes).then_some(path) }
    })
}

#[test]
fn a_transfer_passes_through_the_kernels_tunnel_and_nothing_is_left() {
    let Some(lab) = lab() else { return };
    let (a, b) = (Place::start(&lab, Site::A), Place::start(&lab, Site::B));
    let port = b.port();
    a.port();
    let before = [a.links(), b.links()];
    let offered = a.orchestrator.last().unwrap().kernel.unwrap();
    assert_eq!((offered.numbers.from, offered.numbers.to, offered.underlay.len()), (1, 100, 2));
    let want = |generation, start| {
        for (place, route) in [&a, &b].into_iter().zip(transfer(port, start)) {
            let mut wanted = desired(1, generation, Vec::new());
            wanted.routes = vec![route];
            place.orchestrator.want(wanted);
        }
    };
    want(1, false);
    let key = transfer(port, false)[0].key.clone();
    a.until(&key, RouteEndState::Active);
    want(2, true);
    let (sent, received) = (a.until(&key, RouteEndState::Done), b.until(&key, RouteEndState::Done));
    assert_eq!((sent.bytes, received.bytes), (BYTES, BYTES), "payload, not frames");
    let file = |place: &Place| find(&place.folder.path().join("data"), BYTES).unwrap();
    assert!(fs::read(file(&a)).unwrap() == fs::read(file(&b)).unwrap(), "other bytes came out");
    // it did take the tunnel
    let passed: u64 = a
        .space
        .command("cat")
        .arg("/sys/class/net/rh7/statistics/tx_bytes")
        .output()
        .map_or(0, |output| String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(0));
    assert!(passed > BYTES, "{passed}");
    for place in [&a, &b] {
        place.orchestrator.want(desired(1, 3, Vec::new()));
        until("nothing to be left", || place.orchestrator.last()?.routes.is_empty().then_some(()));
    }
    assert_eq!([a.links(), b.links()], before);
}

#[test]
fn a_killed_agents_tunnels_carry_on_and_go_when_the_next_one_does_not_want_them() {
    let Some(lab) = lab() else { return };
    let (mut a, b) = (Place::start(&lab, Site::A), Place::start(&lab, Site::B));
    let port = b.port();
    a.port();
    let before = a.links();
    let [source, sink] = transfer(port, false);
    for (place, route) in [(&a, &source), (&b, &sink)] {
        let mut wanted = desired(1, 1, Vec::new());
        wanted.routes = vec![route.clone()];
        place.orchestrator.want(wanted);
    }
    a.until(&source.key, RouteEndState::Active);
    drop(a.agent.take()); // SIGKILL
    assert!(a.links().contains("rh7"), "packets do not need the agent");
    // it comes back, with what it was told last
    a.run();
    a.orchestrator.until_reports(2);
    a.until(&source.key, RouteEndState::Active);
    drop(a.agent.take());
    a.orchestrator.want(desired(1, 2, Vec::new()));
    a.run();
    until("nothing to be left", || (a.links() == before).then_some(()));
    // what was asked before that comes again, late: it stays away
    let mut late = desired(1, 1, Vec::new());
    late.routes = vec![source.clone()];
    a.orchestrator.want(late);
    a.orchestrator.until_reports(3);
    assert_eq!(a.links(), before);
    // the other host is taken out of service
    let (mut b, before) = (b, a.links());
    drop(b.agent.take());
    assert!(b.links().contains("rh7"));
    let mut remover = b.space.command(env!("CARGO_BIN_EXE_rhumb-agent"));
    let removed =
        remover.arg("--config").arg(b.folder.path().join("agent.json")).arg("--remove-routes").output().unwrap();
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    assert!(!b.links().contains("rh7"));
    assert_eq!(a.links(), before);
}

/// Ends with the test.
struct Daemon(std::process::Child);

impl Daemon {
    fn start(space: &Namespace, folder: &Path) -> Self {
        let config = folder.join("gobgpd.toml");
        fs::write(&config, "[global.config]\n  as = 64512\n  router-id = \"10.11.0.1\"\n  port = -1\n").unwrap();
        let mut command = space.command("gobgpd");
        command.args(["--api-hosts", "127.0.0.1:50051", "--pprof-disable", "-f"]).arg(&config);
        Self(command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // it may have ended by itself
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the orders' networks are reached by is told to the routers around a point while the route carries, daemon away or not.
#[test]
fn networks_at_the_far_end_are_announced_while_the_route_carries() {
    let Some(lab) = Lab::for_test('a', &["ip", "nft", "gobgpd", "gobgp"]) else { return };
    let hop = Site::A.gateway(0);
    let bgp = BgpSettings { gobgp: "http://127.0.0.1:50051".to_owned(), next_hop: hop };
    let (a, b) = (Place::start_with(&lab, Site::A, Some(bgp)), Place::start(&lab, Site::B));
    let port = b.port();
    let network = |site: Site| vec![format!("{}/24", site.host(0)).parse().unwrap()];
    let want = |generation, duty| {
        for (place, mut route) in [&a, &b].into_iter().zip(transfer(port, false)) {
            route.duty = duty;
            let kernel = route.kernel.as_mut().unwrap();
            (kernel.source_networks, kernel.sink_networks) = (network(Site::A), network(Site::B));
            let mut wanted = desired(1, generation, Vec::new());
            wanted.routes = vec![route];
            place.orchestrator.want(wanted);
        }
    };
    let announced = || {
        let output = a.space.command("gobgp").args(["global", "rib"]).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        shown.contains(&network(Site::B)[0].trunc().to_string()) && shown.contains(&hop.to_string())
    };
    want(1, Duty::Carry);
    let key = transfer(port, false)[0].key.clone();
    // the daemon is not there: the route carries, and says so
    until("the reason", || {
        let routes = a.orchestrator.last()?.routes;
        let route = routes.into_iter().find(|route| route.key == key)?;
        (route.state == RouteEndState::Active && route.message.contains("see that it runs")).then_some(())
    });
    let folder = tempfile::tempdir().unwrap();
    let _daemon = Daemon::start(&a.space, folder.path());
    until("the announcement", || announced().then_some(()));
    until("no more trouble", || {
        let routes = a.orchestrator.last()?.routes;
        routes.iter().any(|route| route.key == key && route.message.is_empty()).then_some(())
    });
    want(2, Duty::Standby);
    until("no announcement by what stands by", || (!announced()).then_some(()));
    want(3, Duty::Carry);
    until("the announcement", || announced().then_some(()));
    for place in [&a, &b] {
        place.orchestrator.want(desired(1, 4, Vec::new()));
        until("nothing to be left", || place.orchestrator.last()?.routes.is_empty().then_some(()));
    }
    until("no announcement", || (!announced()).then_some(()));
}
