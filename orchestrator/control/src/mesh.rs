//! Who probes what, and what is to be thought of it.
//!
//! Few agents probe all their links. Many follow a planned mesh: links that orders hold, the nearest, and those to landmarks;
//! the other links are estimated from what those say. Where the way to another agent leads through transit that nothing is
//! known of, the whole of it is probed.

use crate::{
    base::Base,
    config::ServerConfig,
    desk::Desk,
    error::DeskError,
    hub::{State, Targets},
    sagas::Mail,
};
use jiff::Timestamp;
use rhumb_federation::{FigureBook, LinkWord, Sanity};
use rhumb_mesh::{Estimator, Measured, MeshConfig, plan};
use rhumb_model::{Latency, LinkId, PointName, Span};
use rhumb_store::Store;
use rhumb_wire::{PairTarget, ProbeTarget};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

/// Time between looks.
const LOOK: Duration = Duration::from_secs(2);
/// Estimates are made anew after this long, and at once where other links are known than before.
const ESTIMATE: Duration = Duration::from_secs(30);
/// A prober's word on a link that is older says nothing: even among many every link is told of once a minute.
const WORD_HOLDS: Duration = Duration::from_mins(2);
/// Whole ways probed from one point, at most: the nearest by configured delay.
const MOST_PAIRS: usize = 8;

/// What is known when targets are chosen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// Links that somebody holds.
    used: BTreeSet<LinkId>,
    /// Fresh round trips by link.
    rtts: BTreeMap<LinkId, Latency>,
    /// Where reflectors are, by point.
    reflectors: BTreeMap<PointName, String>,
    /// Round trips believed of the other links, and since when.
    estimates: BTreeMap<LinkId, Latency>,
    estimated: Option<Instant>,
}

/// What every agent should probe.
pub(crate) fn targets(base: &Base, config: &ServerConfig, known: &Known) -> BTreeMap<PointName, Targets> {
    let agents: Vec<&PointName> = base.agents().collect();
    let ordinals: BTreeMap<&PointName, usize> = agents.iter().enumerate().map(|(i, name)| (*name, i)).collect();
    let ends = |link: &rhumb_model::Link| Some((*ordinals.get(&link.from)?, *ordinals.get(&link.to)?));
    let mut links: BTreeMap<(usize, usize), Vec<&rhumb_model::Link>> = BTreeMap::new();
    for link in base.links.values().filter(|l| config.endpoints.contains_key(&l.id)) {
        if let Some(pair) = ends(link) {
            links.entry(pair).or_default().push(link);
        }
    }
    let mesh = mesh_config(config);
    let mut found: BTreeMap<PointName, Targets> = agents.iter().map(|a| ((*a).clone(), Targets::default())).collect();
    let mut add = |link: &rhumb_model::Link, interval: Span| {
        let (Some(targets), Some(end)) = (found.get_mut(&link.from), config.endpoints.get(&link.id)) else { return };
        targets.probes.push(ProbeTarget {
            link: link.id.clone(),
            address: end.probe.clone(),
            interval_ms: interval.micros() / 1_000,
            capacity: Some(link.capacity),
            trains_every_ms: trains_every_ms(config),
        });
    };
    if agents.len() <= mesh.full {
        base.links.values().for_each(|link| add(link, mesh.interval));
    } else {
        let rtt = |l: &&rhumb_model::Link| known.rtts.get(&l.id).copied().unwrap_or(double(l.latency));
        let prior = |a, b| links.get(&(a, b)).into_iter().flatten().map(rtt).min();
        let used = known.used.iter().filter_map(|id| ends(base.links.get(id)?)).collect();
        for session in plan(agents.len(), &used, &mesh, |a, b| links.contains_key(&(a, b)), prior).sessions {
            let pair = links.get(&(session.from, session.to)).into_iter().flatten();
            pair.for_each(|link| add(link, session.interval));
        }
    }
    for targets in found.values_mut() {
        targets.probes.sort_by(|a, b| a.link.cmp(&b.link));
    }
    for (from, to, _) in ways(base) {
        let (Some(targets), Some(address)) = (found.get_mut(&from), known.reflectors.get(&to)) else { continue };
        let interval_ms = mesh.interval.micros() / 1_000;
        targets.pairs.push(PairTarget { to, address: address.clone(), interval_ms });
    }
    found
}

fn mesh_config(config: &ServerConfig) -> MeshConfig {
    MeshConfig { interval: config.times.probe_interval, ..MeshConfig::default() }
}

fn trains_every_ms(config: &ServerConfig) -> Option<u64> {
    Some(config.times.bandwidth_interval.micros() / 1_000).filter(|every_ms| *every_ms > 0)
}

fn double(one_way: Latency) -> Latency {
    Latency::from_micros(one_way.micros().saturating_mul(2))
}

/// Pairs of agents that opaque transit joins, with the configured delay of the quickest way that touches no agent between
/// them; by `from`, then delay, then `to`, the nearest few of each.
pub fn ways(base: &Base) -> Vec<(PointName, PointName, Latency)> {
    let opaque = base.fixed().opaque();
    let mut out: BTreeMap<&PointName, Vec<&rhumb_model::Link>> = BTreeMap::new();
    for link in base.links.values() {
        out.entry(&link.from).or_default().push(link);
    }
    let mut found = Vec::new();
    for from in base.agents() {
        let mut least: BTreeMap<&PointName, Latency> = BTreeMap::new();
        let mut open: VecDeque<(&PointName, Latency)> = VecDeque::from([(from, Latency::ZERO)]);
        while let Some((at, so_far)) = open.pop_front() {
            for link in out.get(at).into_iter().flatten() {
                // from an agent only into the opaque: its other links are probed themselves
                if link.to == *from || (at == from && !opaque.contains(&link.to)) {
                    continue;
                }
                let sum = Latency::from_micros(so_far.micros().saturating_add(link.latency.micros()));
                if least.get(&link.to).is_some_and(|known| *known <= sum) {
                    continue;
                }
                least.insert(&link.to, sum);
                if opaque.contains(&link.to) {
                    open.push_back((&link.to, sum));
                }
            }
        }
        let mut ends: Vec<_> = least.into_iter().filter(|(to, _)| !opaque.contains(to)).collect();
        ends.sort_by(|(a, x), (b, y)| (x, a).cmp(&(y, b)));
        found.extend(ends.into_iter().take(MOST_PAIRS).map(|(to, sum)| (from.clone(), to.clone(), sum)));
    }
    found
}

pub(crate) fn spawn<S: Store>(desk: &Desk<S>) {
    desk.keep_running("mesh", run);
}

async fn run<S: Store>(desk: Desk<S>) {
    let mut timer = tokio::time::interval(LOOK);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut sanity = Sanity::default();
    let mut known = Known::default();
    loop {
        tokio::select! {
            () = desk.inner.stop.cancelled() => return,
            _ = timer.tick() => {}
        }
        match desk.tend_mesh(&mut sanity, &mut known).await {
            Err(DeskError::Stopping) => return,
            Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "who probes what stays as it was"),
            Ok(()) => {}
        }
        if let Err(error) = desk.keep_windows().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "a minute of link figures is lost");
        }
    }
}

impl<S: Store> Desk<S> {
    /// One look at all figures; new targets where they should be others.
    async fn tend_mesh(&self, sanity: &mut Sanity, known: &mut Known) -> Result<(), DeskError> {
        let (base, config, now) = (&self.inner.base, &self.inner.config, self.now());
        let sparse = base.agents().count() > mesh_config(config).full;
        let used = if sparse { self.inner.store.holdings().await?.links } else { Vec::new() };
        let (words, figures, next) = {
            let state = self.inner.hub.lock();
            let next = Known {
                used: used.into_iter().map(|hold| hold.link).collect(),
                rtts: if sparse { fresh(base, &state.figures, now) } else { BTreeMap::new() },
                reflectors: reflectors(config, &state),
                ..Known::default()
            };
            (words(base, &state), state.figures.clone(), next)
        };
        let sites = base.file.sites.iter().map(|s| (&s.name, s.place));
        let places: BTreeMap<_, _> = sites.chain(base.file.transit.iter().map(|t| (&t.name, t.place))).collect();
        let review = sanity.review(&words, &figures, |name| *places.get(name)?, now);
        for (point, fault) in review.faults.iter().filter(|(p, _)| !figures.review().faults.contains_key(*p)) {
            tracing::warn!(%point, ?fault, "prober is not trusted: its links are stale");
        }
        let others =
            !next.rtts.keys().eq(known.rtts.keys()) || known.estimated.is_none_or(|at| at.elapsed() > ESTIMATE);
        if sparse && others {
            known.estimates = self.estimates(&next.rtts).await?;
            (known.rtts, known.estimated) = (next.rtts.clone(), Some(Instant::now()));
        }
        self.inner.hub.lock().figures.judge(review, known.estimates.clone());
        // round trips jitter: only another use, or another place of a reflector, is worth other targets
        if (&next.used, &next.reflectors) != (&known.used, &known.reflectors) {
            let targets = targets(base, config, &next);
            self.inner.mail.send(Mail::Targets(targets)).await.map_err(|_| DeskError::Stopping)?;
            (known.used, known.reflectors) = (next.used, next.reflectors);
        }
        Ok(())
    }

    /// Round trips believed of all links between agents that nobody measured: the least that another path shows to be possible,
    /// or else the coordinates' guess.
    async fn estimates(&self, rtts: &BTreeMap<LinkId, Latency>) -> Result<BTreeMap<LinkId, Latency>, DeskError> {
        let (desk, rtts) = (self.clone(), rtts.clone());
        let fitted = tokio::task::spawn_blocking(move || {
            let base = &desk.inner.base;
            let ordinals: BTreeMap<&PointName, usize> = base.agents().enumerate().map(|(i, name)| (name, i)).collect();
            let ends = |id: &LinkId| {
                let link = base.links.get(id)?;
                Some((*ordinals.get(&link.from)?, *ordinals.get(&link.to)?))
            };
            let pairs = rtts.iter().filter_map(|(id, rtt)| ends(id).map(|(a, b)| (a, b, *rtt)));
            let estimator = Estimator::new(Measured::new(ordinals.len(), pairs));
            let guess = |id: &LinkId| {
                let (a, b) = ends(id)?;
                let estimate = estimator.estimate(a, b)?;
                Some((id.clone(), estimate.bounds.map_or(estimate.rtt, |bounds| bounds.high)))
            };
            base.links.keys().filter(|id| !rtts.contains_key(*id)).filter_map(guess).collect()
        });
        fitted.await.map_err(|_| DeskError::Internal("round trips could not be estimated".into()))
    }
}

fn fresh(base: &Base, figures: &FigureBook, now: Timestamp) -> BTreeMap<LinkId, Latency> {
    let rtt = |id: &LinkId| Some((id.clone(), figures.fresh(id, now)?.rtt_p50));
    base.links.keys().filter_map(rtt).collect()
}

/// Of points that are heard of and have an address.
fn reflectors(config: &ServerConfig, state: &State) -> BTreeMap<PointName, String> {
    let at = |(name, host): (&PointName, &String)| {
        let port = state.points.get(name)?.last.as_ref()?.report.probe_port?;
        // a bare IPv6 address needs its brackets
        let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.clone() };
        Some((name.clone(), format!("{host}:{port}")))
    };
    config.points.iter().filter_map(at).collect()
}

/// What the probers of points that are heard of say of the links that they are to probe.
fn words(base: &Base, state: &State) -> Vec<LinkWord> {
    let mut words = Vec::new();
    for (name, point) in &state.points {
        let Some(last) = &point.last else { continue };
        for target in &point.probes {
            let Some(link) = base.links.get(&target.link) else { continue };
            // a report tells of as many links as it has room for: the last word on each counts
            let told = state.raw_figures.get(&target.link);
            let told =
                told.filter(|told| told.boot == last.boot && told.heard.elapsed() <= WORD_HOLDS).map(|t| &t.figures);
            words.push(LinkWord {
                link: link.id.clone(),
                from: name.clone(),
                to: link.to.clone(),
                reverse: link.reverse.clone(),
                sent: told.map_or(0, |f| f.sent),
                received: told.map_or(0, |f| f.received),
            });
        }
    }
    words
}
