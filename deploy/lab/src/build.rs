//! Putting the laboratory up, and taking it down.

use crate::{
    Router, Site, cable,
    net::{Namespace, ip},
};
use std::{
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use rhumb_emulator::{Cable, CableEnd, Cables, EmulatorError, LinkShape, ShapePatch};

/// What every cable carries.
const RATE_KBPS: u64 = 100_000;
const MTU: u16 = 1_500;
const SEED: u64 = 1;

/// A laboratory that is up. Gone with all that is in it when dropped.
#[derive(Debug)]
pub struct Lab {
    prefix: String,
    cables: Option<Cables>,
}

#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error("the laboratory cannot be built: {0}; root, iproute2 and network namespaces are needed")]
    Build(String),
    #[error("the laboratory has no cables")]
    Cables(#[from] EmulatorError),
    #[error("{0} cannot be removed: {1}")]
    Remove(String, String),
}

impl Lab {
    /// Builds it anew; what is left of one with this prefix goes first. Every name begins with the prefix and a dash.
    pub fn up(prefix: &str) -> Result<Self, LabError> {
        Self::sweep(prefix)?;
        let mut lab = Self { prefix: prefix.to_owned(), cables: None };
        lab.spaces().map_err(LabError::Build)?;
        lab.cables = Some(lab.lay()?);
        lab.address().map_err(LabError::Build)?;
        Ok(lab)
    }

    /// One for a test of this process, with a name of its own that begins with a letter of the test's. What tests of that
    /// letter left that were killed goes first. `None`, with a notice, where it cannot be built or a program is absent.
    pub fn for_test(letter: char, programs: &[&str]) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        for program in programs {
            let found = std::env::var_os("PATH")
                .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).exists()));
            if !found {
                eprintln!("skipped: {program} is not here");
                return None;
            }
        }
        for space in Namespace::all(&letter.to_string()) {
            let process: String = space.name()[1..].chars().take_while(char::is_ascii_digit).collect();
            let tests = space.name()[1 + process.len()..].starts_with('x') && !process.is_empty();
            if tests && !Path::new("/proc").join(&process).exists() {
                // somebody else may be at it too
                let _ = ip(&format!("netns del {}", space.name()));
            }
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self::up(&format!("{letter}{}x{count}", std::process::id())).map_err(|error| eprintln!("skipped: {error}")).ok()
    }

    /// Removes every namespace of that prefix, whoever made it.
    pub fn sweep(prefix: &str) -> Result<(), LabError> {
        for space in Namespace::all(&format!("{prefix}-")) {
            // another sweep may have been faster
            if let Err(why) = ip(&format!("netns del {}", space.name()))
                && space.path().exists()
            {
                return Err(LabError::Remove(space.name().to_owned(), why));
            }
        }
        Ok(())
    }

    pub fn site(&self, site: Site) -> Namespace {
        self.space(site.name())
    }

    pub fn router(&self, router: Router) -> Namespace {
        self.space(router.name())
    }

    /// The one host behind a site.
    pub fn host(&self, site: Site) -> Namespace {
        self.space(&format!("h{}", site.name()))
    }

    /// Nothing passes the cable from now on; nobody is told.
    pub fn cut(&self, site: Site, router: Router) -> Result<(), LabError> {
        Ok(self.cables()?.cut(&cable(site, router))?)
    }

    pub fn heal(&self, site: Site, router: Router) -> Result<(), LabError> {
        Ok(self.cables()?.heal(&cable(site, router))?)
    }

    pub fn shape(&self, site: Site, router: Router, patch: ShapePatch) -> Result<(), LabError> {
        self.cables()?.set(&cable(site, router), patch)?;
        Ok(())
    }

    fn cables(&self) -> Result<&Cables, LabError> {
        self.cables.as_ref().ok_or_else(|| LabError::Build("it is on its way down".to_owned()))
    }

    fn space(&self, name: &str) -> Namespace {
        Namespace::named(format!("{}-{name}", self.prefix))
    }

    fn spaces(&self) -> Result<(), String> {
        let sites = Site::ALL.map(|site| self.site(site));
        let hosts = Site::ALL.map(|site| self.host(site));
        let routers = Router::ALL.map(|router| self.router(router));
        for space in sites.iter().chain(&hosts).chain(&routers) {
            ip(&format!("netns add {}", space.name()))?;
            space.ip("link set lo up")?;
            for (setting, value) in [
                ("net.ipv4.ip_forward", "1"),
                ("net.ipv4.conf.all.rp_filter", "0"),
                ("net.ipv4.conf.default.rp_filter", "0"),
                ("net.ipv6.conf.all.forwarding", "1"),
                ("net.ipv6.conf.all.seg6_enabled", "1"),
                ("net.ipv6.conf.default.seg6_enabled", "1"),
            ] {
                space.set(setting, value)?;
            }
        }
        for site in Site::ALL {
            let (space, host) = (self.site(site), self.host(site));
            space.ip(&format!("link add lan0 type veth peer name eth0 netns {}", host.name()))?;
            for net in [0, 1] {
                space.ip(&format!("addr add {}/24 dev lan0", site.gateway(net)))?;
                host.ip(&format!("addr add {}/24 dev eth0", site.host(net)))?;
            }
            space.ip("link set lan0 up")?;
            host.ip("link set eth0 up")?;
            host.ip(&format!("route add default via {}", site.gateway(0)))?;
        }
        Ok(())
    }

    fn lay(&self) -> Result<Cables, LabError> {
        let cables = pairs().map(|(site, router)| Cable {
            id: cable(site, router),
            ends: [
                CableEnd { namespace: self.site(site).path(), device: up(router) },
                CableEnd { namespace: self.router(router).path(), device: down(site) },
            ],
            shape: LinkShape { rate_kbps: RATE_KBPS, ..LinkShape::delay(router.delay_us()) },
            mtu: MTU,
        });
        Ok(Cables::start(SEED, &cables.collect::<Vec<_>>())?)
    }

    fn address(&self) -> Result<(), String> {
        for (site, router) in pairs() {
            let (space, transit) = (self.site(site), self.router(router));
            let (near, far) = (up(router), down(site));
            space.ip(&format!("addr add {}/24 dev {near}", site.underlay(router)))?;
            space.ip(&format!("addr add {}/64 dev {near} nodad", site.underlay_v6(router)))?;
            transit.ip(&format!("addr add {}/24 dev {far}", router.underlay(site)))?;
            transit.ip(&format!("addr add {}/64 dev {far} nodad", router.underlay_v6(site)))?;
            for (at, device) in [(&space, &near), (&transit, &far)] {
                at.ip(&format!("link set {device} up"))?;
                at.set(&format!("net.ipv6.conf.{device}.seg6_enabled"), "1")?;
            }
        }
        for (site, router) in pairs() {
            let (space, transit) = (self.site(site), self.router(router));
            let (via, via_v6) = (router.underlay(site), router.underlay_v6(site));
            for other in Site::ALL.into_iter().filter(|other| *other != site) {
                space.ip(&format!("route add {}/32 via {via}", other.underlay(router)))?;
                space.ip(&format!("-6 route add {}/128 via {via_v6}", other.underlay_v6(router)))?;
                // without a list of segments the first router is as good as any
                let metric = 100 * u32::from(router.number());
                space.ip(&format!("-6 route add {}/64 via {via_v6} metric {metric}", other.locator(0)))?;
            }
            space.ip(&format!("-6 route add {}/64 via {via_v6}", segments(router)))?;
            transit.ip(&format!("-6 route add {}/64 via {}", site.locator(0), site.underlay_v6(router)))?;
        }
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // devices first: they hold their namespaces
        self.cables = None;
        if let Err(error) = Self::sweep(&self.prefix) {
            eprintln!("{error}");
        }
    }
}

fn pairs() -> impl Iterator<Item = (Site, Router)> {
    Site::ALL.into_iter().flat_map(|site| Router::ALL.map(|router| (site, router)))
}

/// A site's device toward a router.
fn up(router: Router) -> String {
    format!("up{}", router.number())
}

/// A router's device toward a site.
fn down(site: Site) -> String {
    format!("to-{}", site.name())
}

/// The block that a router's segments are of.
fn segments(router: Router) -> std::net::Ipv6Addr {
    let [a, b, c, ..] = router.segment().segments();
    std::net::Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)
}
