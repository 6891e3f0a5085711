//! The demo's WAN: the emulator, made from the federation's links, and what may be done to it while it runs.

use super::layout::Saved;
use rhumb_agent::config::Listen;
use rhumb_emulator::{
    ControlConfig, Emulator, EmulatorConfig, EmulatorError, LinkConfig, LinkShape, ShapePatch, Snapshot, Traffic,
};
use rhumb_model::{Link, PointName};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
};

/// Discards, and refuses connections: where an agent that is not there is aimed at.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9);
/// A link's line carries a tenth more than may be reserved: headers, tags and probes ride on top of what is sold.
const LINE_PERMILLE: u64 = 1_100;

#[derive(Debug)]
pub struct Wan {
    emulator: Emulator,
    links: BTreeMap<String, Ends>,
}

#[derive(Debug)]
struct Ends {
    from: String,
    to: String,
    reverse: Option<String>,
    /// As the federation file has it.
    configured: LinkShape,
}

/// Which halves of a link a change is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    Both,
    One,
}

/// One directed link as `wan list` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WanLink {
    pub id: String,
    pub from: String,
    pub to: String,
    pub latency_us: u64,
    pub jitter_us: u64,
    pub loss_ppm: u32,
    pub rate_kbps: u64,
    pub configured_latency_us: u64,
    pub cut: bool,
    pub udp: Traffic,
    pub tcp: Traffic,
}

impl Wan {
    /// Binds every front, on the ports of the last start where they are free. Must be called within a tokio runtime.
    pub fn start(
        links: &[Link],
        points: &[PointName],
        home: &PointName,
        server: SocketAddr,
        seed: u64,
        saved: &Saved,
    ) -> Result<(Self, Saved), EmulatorError> {
        let mut saved = saved.clone();
        let emulator = loop {
            match Emulator::start(config(links, points, home, server, seed, &saved)) {
                // a port of the last start that somebody else has now: another will do
                Err(EmulatorError::Bind { id, .. }) if forget(&mut saved, &id) => {}
                started => break started?,
            }
        };
        for link in links {
            let id = link.id.as_str();
            let ports = (emulator.udp_address(id)?.port(), emulator.tcp_address(id)?.port());
            saved.fronts.insert(id.to_owned(), ports);
        }
        for point in points {
            if let Some(address) = emulator.control_address(point.as_str()) {
                saved.controls.insert(point.to_string(), address.port());
            }
        }
        let ends = links.iter().map(|link| {
            let ends = Ends {
                from: link.from.to_string(),
                to: link.to.to_string(),
                reverse: link.reverse.as_ref().map(ToString::to_string),
                configured: shape(link),
            };
            (link.id.to_string(), ends)
        });
        Ok((Self { links: ends.collect(), emulator }, saved))
    }

    pub fn probe_address(&self, link: &str) -> Result<SocketAddr, EmulatorError> {
        self.emulator.udp_address(link)
    }

    pub fn overlay_address(&self, link: &str) -> Result<SocketAddr, EmulatorError> {
        self.emulator.tcp_address(link)
    }

    pub fn control_address(&self, point: &str) -> Option<SocketAddr> {
        self.emulator.control_address(point)
    }

    /// The orchestrator is here.
    pub fn aim_controls(&self, server: SocketAddr) {
        self.emulator.retarget_controls(server);
    }

    /// The agent of `point` listens there, or nowhere.
    pub fn aim(&self, point: &str, listen: Option<Listen>) {
        let (probes, overlay) = listen.map_or((NOWHERE, NOWHERE), |l| (l.reflector, l.overlay));
        for (id, _) in self.links.iter().filter(|(_, ends)| ends.to == point) {
            // the ids are the emulator's own
            let _ = self.emulator.retarget(id, probes, overlay);
        }
    }

    pub fn set(&self, link: &str, way: Way, patch: ShapePatch) -> Result<Vec<WanLink>, EmulatorError> {
        self.each(link, way, |id| self.emulator.set(id, patch).map(drop))
    }

    pub fn cut(&self, link: &str, way: Way) -> Result<Vec<WanLink>, EmulatorError> {
        self.each(link, way, |id| self.emulator.cut(id))
    }

    /// Whole again, and as configured.
    pub fn heal(&self, link: &str, way: Way) -> Result<Vec<WanLink>, EmulatorError> {
        self.each(link, way, |id| {
            if let Some(ends) = self.links.get(id) {
                let LinkShape { latency_us, jitter_us, loss_ppm, rate_kbps } = ends.configured;
                let whole = ShapePatch {
                    latency_us: Some(latency_us),
                    jitter_us: Some(jitter_us),
                    loss_ppm: Some(loss_ppm),
                    rate_kbps: Some(rate_kbps),
                };
                self.emulator.set(id, whole)?;
            }
            self.emulator.heal(id)
        })
    }

    pub fn list(&self) -> Vec<WanLink> {
        let Snapshot { links, .. } = self.emulator.snapshot();
        let shown = |link: rhumb_emulator::LinkStatus| {
            let ends = self.links.get(&link.id)?;
            Some(WanLink {
                from: ends.from.clone(),
                to: ends.to.clone(),
                latency_us: link.shape.latency_us,
                jitter_us: link.shape.jitter_us,
                loss_ppm: link.shape.loss_ppm,
                rate_kbps: link.shape.rate_kbps,
                configured_latency_us: ends.configured.latency_us,
                cut: link.cut,
                udp: link.udp,
                tcp: link.tcp,
                id: link.id,
            })
        };
        links.into_iter().filter_map(shown).collect()
    }

    pub async fn stop(self) {
        self.emulator.stop().await;
    }

    /// Applies to the link and, unless one way is asked, to its other half; answers what they are now.
    fn each(
        &self,
        link: &str,
        way: Way,
        change: impl Fn(&str) -> Result<(), EmulatorError>,
    ) -> Result<Vec<WanLink>, EmulatorError> {
        change(link)?;
        let other = self.links.get(link).and_then(|ends| ends.reverse.as_deref()).filter(|_| way == Way::Both);
        if let Some(other) = other {
            change(other)?;
        }
        Ok(self.list().into_iter().filter(|l| l.id == link || Some(l.id.as_str()) == other).collect())
    }
}

/// Forgets the ports of a link, or of a point's control channel; false: there were none.
fn forget(saved: &mut Saved, id: &str) -> bool {
    // a channel's halves are named `POINT control up` and `POINT control down`
    let point = id.split(' ').next().unwrap_or(id);
    saved.fronts.remove(id).is_some() || saved.controls.remove(point).is_some()
}

fn shape(link: &Link) -> LinkShape {
    LinkShape {
        latency_us: link.latency.micros(),
        jitter_us: link.jitter.micros(),
        loss_ppm: link.loss.ppm() as u32,
        rate_kbps: link.capacity.kbps().saturating_mul(LINE_PERMILLE) / 1_000,
    }
}

fn config(
    links: &[Link],
    points: &[PointName],
    home: &PointName,
    server: SocketAddr,
    seed: u64,
    saved: &Saved,
) -> EmulatorConfig {
    let mut config = EmulatorConfig::new(seed);
    config.links = links
        .iter()
        .map(|link| {
            let (udp_port, tcp_port) = saved.fronts.get(link.id.as_str()).copied().unwrap_or_default();
            LinkConfig {
                id: link.id.to_string(),
                reverse_id: link.reverse.as_ref().map(ToString::to_string),
                from: link.from.to_string(),
                to: link.to.to_string(),
                shape: shape(link),
                udp_target: NOWHERE,
                tcp_target: NOWHERE,
                udp_port,
                tcp_port,
            }
        })
        .collect();
    config.controls = points
        .iter()
        .map(|point| ControlConfig {
            point: point.to_string(),
            home: home.to_string(),
            target: server,
            port: saved.controls.get(point.as_str()).copied().unwrap_or(0),
        })
        .collect();
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_model::FederationFile;

    fn world() -> (Vec<Link>, Vec<PointName>, PointName) {
        let text = "currency: CNY\nsites: [{name: a}, {name: b}]\nlinks:\n  \
                    - {id: ab, from: a, to: b, both_ways: true, capacity: 20Mbps, latency: 5ms}\n";
        let file = FederationFile::read(text).unwrap();
        let points: Vec<PointName> = file.sites.iter().map(|s| s.name.clone()).collect();
        let home = points[0].clone();
        (file.directed_links(), points, home)
    }

    fn start(saved: &Saved) -> (Wan, Saved) {
        let (links, points, home) = world();
        Wan::start(&links, &points, &home, NOWHERE, 1, saved).unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_change_is_for_both_halves_unless_one_way_is_asked() {
        let (wan, _) = start(&Saved::default());
        let slow = ShapePatch { latency_us: Some(200_000), ..ShapePatch::default() };
        assert_eq!(wan.set("ab", Way::Both, slow).unwrap().len(), 2);
        let delays = |wan: &Wan| wan.list().iter().map(|l| l.latency_us).collect::<Vec<_>>();
        assert_eq!(delays(&wan), [200_000, 200_000]);
        wan.heal("ab~", Way::One).unwrap();
        assert_eq!(delays(&wan), [200_000, 5_000]);
        wan.cut("ab", Way::One).unwrap();
        assert_eq!(wan.list().iter().map(|l| l.cut).collect::<Vec<_>>(), [true, false]);
        wan.heal("ab", Way::Both).unwrap();
        assert_eq!(delays(&wan), [5_000, 5_000]);
        assert!(wan.list().iter().all(|l| !l.cut));
        assert!(wan.cut("ba", Way::Both).unwrap_err().to_string().contains("ab"));
        wan.stop().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn ports_stay_from_start_to_start_unless_they_are_taken() {
        let (wan, saved) = start(&Saved::default());
        assert_eq!((saved.fronts.len(), saved.controls.len()), (2, 2));
        wan.stop().await;
        let (wan, again) = start(&saved);
        assert_eq!(again, saved);
        wan.stop().await;
        let taken = std::net::TcpListener::bind(("127.0.0.1", saved.controls["b"])).unwrap();
        let (wan, other) = start(&saved);
        assert_ne!(other.controls["b"], saved.controls["b"]);
        assert_eq!(other.fronts, saved.fronts);
        wan.stop().await;
        drop(taken);
    }
}
