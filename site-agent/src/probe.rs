//! Probes this point's links as the desired state names them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::future::join_all;
use rhumb_model::{LinkId, PointName};
use rhumb_probe::{Key, Mode, Prober, Reflector, Target};
use rhumb_wire::{
    BandwidthFigures, Desired, LinkFigures, PairFigures, PairTarget, PathChange, ProbeTarget, WindowFigures,
};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

/// How often names that could not be resolved are tried again, and others looked up anew.
const LOOK_UP: Duration = Duration::from_secs(30);
/// For one name.
const LOOK_UP_MOST: Duration = Duration::from_secs(2);
/// Begins the name of a target that is no link; a link's has no colon.
const PAIR: &str = "pair:";
/// Closer probes than this are not asked of anyone.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);

/// What is probed now, and when its names were looked up.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    targets: Vec<ProbeTarget>,
    pairs: Vec<PairTarget>,
    /// Where the far ends of links were found.
    addresses: BTreeMap<LinkId, SocketAddr>,
    looked: Option<Instant>,
    /// The key that was told last, and what packets are authenticated by since.
    key_base64: Option<String>,
    mode: Mode,
}

impl Roster {
    /// Follows the desired state.
    pub(crate) async fn follow(&mut self, prober: &Prober, reflector: &Reflector, desired: &Desired) {
        if let Some(told) = desired.probe_key_base64.as_ref().filter(|told| self.key_base64.as_ref() != Some(told)) {
            if let Some(key) = key(told) {
                reflector.authenticate(&key);
                prober.authenticate(&key);
                self.mode = Mode::Authenticated(key);
            } else {
                tracing::error!("the key of probes is not base64 of 16 octets or more: it is not used");
            }
            self.key_base64 = Some(told.clone());
        }
        let (targets, pairs) = (&desired.probes, &desired.pairs);
        let names = || targets.iter().map(|t| &t.address).chain(pairs.iter().map(|p| &p.address));
        let due = self.looked.is_none_or(|at| at.elapsed() >= LOOK_UP && has_names(names()));
        if &self.targets == targets && &self.pairs == pairs && !due {
            return;
        }
        let mut found = Vec::new();
        let addresses = join_all(targets.iter().map(|target| resolve(&target.address))).await;
        for (target, address) in targets.iter().zip(addresses) {
            let Some(addr) = address else {
                tracing::warn!(link = %target.link, address = target.address, "a reflector has no address");
                continue;
            };
            let interval = Duration::from_millis(target.interval_ms).max(LEAST_INTERVAL);
            self.addresses.insert(target.link.clone(), addr);
            found.push(Target { interval, ..Target::new(target.link.to_string(), addr) });
        }
        self.addresses.retain(|link, _| targets.iter().any(|target| &target.link == link));
        let addresses = join_all(pairs.iter().map(|pair| resolve(&pair.address))).await;
        for (pair, addr) in pairs.iter().zip(addresses).filter_map(|(pair, addr)| Some((pair, addr?))) {
            let interval = Duration::from_millis(pair.interval_ms).max(LEAST_INTERVAL);
            found.push(Target { interval, ..Target::new(format!("{PAIR}{}", pair.to), addr) });
        }
        prober.set_targets(found);
        (self.targets, self.pairs) = (targets.clone(), pairs.clone());
        self.looked = Some(Instant::now());
    }
}

impl Roster {
    /// What packets are authenticated by.
    pub(crate) fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Where the far end of a link was found.
    pub(crate) fn address(&self, link: &LinkId) -> Option<SocketAddr> {
        self.addresses.get(link).copied()
    }
}

/// What is said of whole ways.
pub(crate) fn pairs(prober: &Prober) -> Vec<PairFigures> {
    let seen = prober.snapshot().into_iter();
    let pair = |seen: rhumb_probe::LinkFigures| {
        let to = PointName::new(seen.link.strip_prefix(PAIR)?).ok()?;
        Some(PairFigures {
            to,
            sent: seen.sent,
            received: seen.received,
            rtt_min_us: seen.rtt_min_us,
            rtt_p50_us: seen.rtt_p50_us,
            rtt_p95_us: seen.rtt_p95_us,
            last_reply_age_us: seen.last_reply_age_us,
        })
    };
    seen.filter_map(pair).collect()
}

/// What packets are authenticated by. `None`: not base64, or too short.
fn key(told: &str) -> Option<Key> {
    Key::new(&STANDARD.decode(told).ok()?).ok()
}

fn has_names<'a>(mut addresses: impl Iterator<Item = &'a String>) -> bool {
    addresses.any(|address| address.parse::<SocketAddr>().is_err())
}

async fn resolve(address: &str) -> Option<SocketAddr> {
    if let Ok(address) = address.parse() {
        return Some(address);
    }
    let found = tokio::time::timeout(LOOK_UP_MOST, tokio::net::lookup_host(address)).await;
    found.ok()?.ok()?.next()
}

/// The prober's figures as they are reported.
pub(crate) fn figures(prober: &Prober, bandwidths: impl Fn(&LinkId) -> Vec<BandwidthFigures>) -> Vec<LinkFigures> {
    // of several targets under one id the last one counts, as in the prober
    let mut found: BTreeMap<LinkId, LinkFigures> = BTreeMap::new();
    for seen in prober.snapshot() {
        let Ok(link) = LinkId::new(&seen.link) else { continue };
        let figures = LinkFigures {
            link: link.clone(),
            window_us: seen.window_us,
            sent: seen.sent,
            received: seen.received,
            rtt_min_us: seen.rtt_min_us,
            rtt_p50_us: seen.rtt_p50_us,
            rtt_p95_us: seen.rtt_p95_us,
            loss_forward_ppm: seen.lost_forward_ppm.map(u64::from),
            loss_backward_ppm: seen.lost_backward_ppm.map(u64::from),
            jitter_us: seen.jitter_us,
            last_reply_age_us: seen.last_reply_age_us,
            rtt_p99_us: seen.rtt_p99_us,
            bandwidths: bandwidths(&link),
            stale: seen.stale,
        };
        found.insert(link, figures);
    }
    found.into_values().collect()
}

/// The windows that the prober has recorded since the last call. Those of whole ways are not kept.
pub(crate) fn windows(prober: &Prober) -> Vec<WindowFigures> {
    let window = |seen: rhumb_probe::LinkWindow| {
        let record = &seen.record;
        let moved = seen.change.min_moved.map(|(from_ns, to_ns)| (from_ns / 1_000, to_ns / 1_000));
        Some(WindowFigures {
            link: LinkId::new(&seen.link).ok()?,
            start_ms: record.start_ns / 1_000_000,
            age_ms: seen.ended_ms_ago,
            change: seen.change.path_changed.then_some(PathChange { min_moved_us: moved }),
            // numbers and texts under names: there is nothing that cannot be written
            record: serde_json::to_value(record).ok()?,
        })
    };
    prober.take_windows().into_iter().filter_map(window).collect()
}
