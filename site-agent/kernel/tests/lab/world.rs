//! The laboratory and the legs that tests build in it.

use rhumb_kernel::{Allow, Applied, Ends, Intent, Kernel, KernelError, Owner, Place, Stance, Tunnel, Vni};
use rhumb_lab::{Lab, Namespace, Router, Site, within};
use rhumb_model::{Bandwidth, OrderId};
use std::{
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};
use uuid::Uuid;

/// Longest that anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Addresses inside tunnels.
const INNER: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 0);

/// A laboratory of this test alone; `None`, with a notice, where it cannot be built.
pub fn lab() -> Option<Lab> {
    Lab::for_test('k', &["ip", "tc", "nft", "iperf3", "ping"])
}

/// How a leg's outer packets travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Between the ends' addresses on that router's cables.
    Plane(Router),
    /// Through that router's segment.
    Segments(Router),
}

/// A leg between the first networks of two sites.
#[derive(Debug, Clone)]
pub struct Leg {
    pub from: Site,
    pub to: Site,
    pub vni: u32,
    pub way: Way,
    pub mbps: u64,
    pub stance: Stance,
    pub net: u8,
    pub owner: Owner,
    pub protects: Option<Owner>,
    pub allow: Allow,
}

pub fn owner(order: u128, generation: u64, path: u32) -> Owner {
    Owner { order: OrderId(Uuid::from_u128(order)), generation, leg: 0, path }
}

impl Leg {
    pub fn new(vni: u32, way: Way, mbps: u64) -> Self {
        Self {
            from: Site::A,
            to: Site::B,
            vni,
            way,
            mbps,
            stance: Stance::Carrying,
            net: 0,
            owner: owner(u128::from(vni), 1, 0),
            protects: None,
            allow: Allow::Networks,
        }
    }

    /// The two addresses inside.
    pub fn inner(&self) -> (Ipv4Addr, Ipv4Addr) {
        let low = u32::from(INNER) + 2 * (self.vni - 1);
        (low.into(), (low + 1).into())
    }

    /// What one of its ends is to do.
    pub fn at(&self, site: Site) -> Intent {
        let source = site == self.from;
        let (low, high) = self.inner();
        let (here, there) = if source { (self.from, self.to) } else { (self.to, self.from) };
        let (own, peer) = if source { (low, high) } else { (high, low) };
        let (local, remote, segments) = match self.way {
            Way::Plane(router) => (here.underlay(router).into(), there.underlay(router).into(), Vec::new()),
            Way::Segments(router) => {
                (IpAddr::V6(here.locator(self.vni)), IpAddr::V6(there.locator(self.vni)), vec![router.segment()])
            }
        };
        let tunnel = Tunnel { vni: Vni::new(self.vni).unwrap(), local, remote, own, peer, segments };
        let network = |site: Site| vec![format!("{}/24", site.host(self.net)).parse().unwrap()];
        Intent {
            owner: self.owner,
            place: if source { Place::Source { next: tunnel } } else { Place::Sink { previous: tunnel } },
            rate: Bandwidth::from_mbps(self.mbps),
            mtu: None,
            dscp: 0,
            stance: self.stance,
            source: network(self.from),
            sink: network(self.to),
            ends: Ends { source: low, sink: high },
            allow: self.allow.clone(),
            protects: self.protects,
        }
    }
}

/// What the legs ask of a site.
pub fn at(site: Site, legs: &[Leg]) -> Vec<Intent> {
    legs.iter().filter(|leg| leg.from == site || leg.to == site).map(|leg| leg.at(site)).collect()
}

/// Work with the kernel of a namespace.
pub fn kernel<T: Send>(space: &Namespace, work: impl AsyncFnOnce(&mut Kernel) -> Result<T, KernelError> + Send) -> T {
    let inside = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut kernel = Kernel::open(None).unwrap();
            work(&mut kernel).await.unwrap_or_else(|error| panic!("{}", error.shown()))
        })
    };
    within(space, inside).unwrap()
}

/// Makes a site what the legs say; all of it must succeed.
pub fn apply(lab: &Lab, site: Site, legs: &[Leg]) -> usize {
    clean(&kernel(&lab.site(site), async |kernel: &mut Kernel| kernel.apply(&at(site, legs)).await))
}

/// The same at both ends of every leg.
pub fn apply_all(lab: &Lab, legs: &[Leg]) {
    for site in Site::ALL {
        apply(lab, site, legs);
    }
}

/// A router's own segment.
pub fn segment(lab: &Lab, router: Router) {
    let place = Place::Transit { sid: router.segment(), device: "to-a".to_owned() };
    let transit = Intent { place, ..Leg::new(1, Way::Plane(router), 1).at(Site::A) };
    clean(&kernel(&lab.router(router), async |kernel: &mut Kernel| kernel.apply(std::slice::from_ref(&transit)).await));
}

pub fn clean(applied: &Applied) -> usize {
    assert!(applied.refused.is_empty() && applied.failed.is_empty() && applied.stuck.is_empty(), "{applied:?}");
    applied.changes
}

/// Everything of the network that a namespace has, as `ip`, `tc` and `nft` show it, without counters and ages.
pub fn everything(space: &Namespace) -> String {
    let shown = |program: &str, words: &str| {
        let output = space.command(program).args(words.split(' ')).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let addresses = shown("ip", "-o addr");
    let links = shown("ip", "-d -o link");
    let rest = ["rule", "-6 rule", "route show table all", "-6 route show table all"].map(|words| shown("ip", words));
    let names = links.lines().filter_map(|line| line.split([':', '@']).nth(1)).map(str::trim);
    let classes: Vec<String> = names.map(|name| shown("tc", &format!("class show dev {name}"))).collect();
    let queues = [shown("tc", "qdisc"), classes.join(""), shown("nft", "list ruleset")];
    let all = format!("{links}{addresses}{}{}", rest.join(""), queues.join(""));
    // what the kernel does by itself with IPv6 comes and goes
    let own = |line: &&str| !["expires", "fe80:", "ff00:"].iter().any(|mark| line.contains(mark));
    all.lines().filter(own).map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// That two such are equal, and if not in which lines.
#[track_caller]
pub fn same(now: &str, before: &str) {
    let only = |one: &str, other: &str| -> Vec<String> {
        one.lines().filter(|line| !other.lines().any(|known| known == *line)).map(str::to_owned).collect()
    };
    assert!(now == before, "new {:#?}, gone {:#?}", only(now, before), only(before, now));
}

/// Looks until `look` gives something.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
