//! A reflector behind a pair of links.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_emulator::{Emulator, EmulatorConfig, LinkConfig, LinkShape};
use rhumb_probe::{LinkFigures, Mode, Prober, ProberConfig, Reflector, ReflectorConfig, Target};

/// No test waits longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(30);

pub const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

pub fn reflector(mode: Mode) -> Reflector {
    Reflector::bind(LOOPBACK, ReflectorConfig { mode, ..ReflectorConfig::default() }).unwrap()
}

/// Links `ab` and `ab~`, `ab` leading to `reflector`.
pub fn links(there: LinkShape, back: LinkShape, reflector: SocketAddr) -> Emulator {
    let link = |id: &str, reverse: &str, from: &str, to: &str, shape| LinkConfig {
        id: id.into(),
        reverse_id: Some(reverse.into()),
        from: from.into(),
        to: to.into(),
        shape,
        udp_target: reflector,
        tcp_target: reflector,
        udp_port: 0,
        tcp_port: 0,
    };
    let links = vec![link("ab", "ab~", "a", "b", there), link("ab~", "ab", "b", "a", back)];
    Emulator::start(EmulatorConfig { links, ..EmulatorConfig::new(5) }).unwrap()
}

pub fn prober(window: Duration) -> Prober {
    Prober::start(ProberConfig { seed: 9, window, ..ProberConfig::default() }).unwrap()
}

/// A hurried target, so that tests end soon.
pub fn target(id: &str, addr: SocketAddr) -> Target {
    Target { ssid: 7, interval: Duration::from_millis(20), ..Target::new(id, addr) }
}

/// Waits until the figures of `link` are as wanted.
pub async fn until(prober: &Prober, link: &str, wanted: impl Fn(&LinkFigures) -> bool) -> LinkFigures {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let snapshot = prober.snapshot();
        let figures = snapshot.iter().find(|figures| figures.link == link).cloned();
        match figures {
            Some(figures) if wanted(&figures) => return figures,
            last => assert!(Instant::now() < deadline, "still {last:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
