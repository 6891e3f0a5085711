//! An agent's call: fold its report in, answer with what it should have.

use crate::{
    desk::Desk,
    error::DeskError,
    hub::{LastReport, PairFigure, Pulse, State, ToldFigures},
    metrics as names,
    sagas::Mail,
};
use jiff::Timestamp;
use rhumb_federation::{BandwidthClaim, LinkSample};
use rhumb_model::{Bandwidth, BandwidthMethod, Latency, PointName, Ppm, Span};
use rhumb_provision::Stamp;
use rhumb_store::{Intent, NodeRecord, Outcome, Store};
use rhumb_wire::{LinkFigures, NodeReport, PROTOCOL, Report, SyncReply};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use uuid::Uuid;

/// Longest time that an answer is held back.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// What a report brought.
struct Heard {
    new_boot: bool,
    /// Nodes that are not stored as they are now.
    nodes: Option<Arc<Vec<NodeReport>>>,
    /// The inventory that is known, if it is the report's.
    inventory: Option<u64>,
}

impl<S: Store> Desk<S> {
    /// `point` is who the credential says the agent is.
    ///
    /// An answer prolongs the leases of the agent's work. So a report that does not count as heard is not answered, and one
    /// that was heard is answered even while the store is away.
    pub async fn sync(&self, point: &PointName, mut report: Report) -> Result<SyncReply, DeskError> {
        if &report.point != point {
            return Err(DeskError::Forbidden(format!(
                "the credential is for {point}, the report for {}",
                report.point
            )));
        }
        if report.protocol != PROTOCOL {
            return Err(DeskError::Conflict(format!(
                "protocol {} is not spoken here, {PROTOCOL} is: update the agent",
                report.protocol
            )));
        }
        let mut desired = self.subscribe(point)?;
        let epoch = desired.borrow().epoch;
        if report.epoch > epoch {
            return Err(DeskError::Conflict(format!(
                "the agent follows epoch {}, this orchestrator leads epoch {epoch}: another one leads, or the database \
                 was restored from an older copy",
                report.epoch
            )));
        }
        let (seq, wait) = (report.seq, Duration::from_millis(report.wait_ms).min(MAX_WAIT));
        let seen = Stamp { epoch: report.epoch, generation: report.generation };
        let logs = std::mem::take(&mut report.logs);
        let report = Arc::new(report);
        let Some(heard) = self.hear(&report).await? else {
            metrics::counter!(names::REPORTS_IGNORED).increment(1);
            return Err(DeskError::Conflict(format!("report {seq} is not newer than the last one of {point}")));
        };
        metrics::counter!(names::REPORTS).increment(1);
        if heard.new_boot {
            tracing::info!(%point, boot = %report.boot_id, "agent has reported");
            self.inner.hub.wake_placer_for_all();
            self.inner.hub.pulse(Pulse::Site(point.clone()));
        }
        if let Some(nodes) = heard.nodes {
            self.keep_inventory(point, &nodes).await;
        }
        let log_acks = self.keep_logs(point, &logs).await;
        self.inner.mail.send(Mail::Report(report)).await.map_err(|_| DeskError::Stopping)?;
        // who has to tell all of it is asked at once
        if log_acks.is_empty() && heard.inventory.is_some() {
            let newer = desired.wait_for(|stamp| *stamp != seen);
            tokio::select! {
                // time-out and shutdown both answer with what there is
                _ = tokio::time::timeout(wait, newer) => {}
                () = self.inner.stop.cancelled() => {}
            }
        }
        let state = self.inner.hub.lock();
        let desired = state.desired(point).filter(|d| Stamp { epoch: d.epoch, generation: d.generation } != seen);
        Ok(SyncReply { seq, desired, log_acks, pause_ms: 0, inventory: heard.inventory })
    }

    fn subscribe(&self, point: &PointName) -> Result<tokio::sync::watch::Receiver<Stamp>, DeskError> {
        let state = self.inner.hub.lock();
        let found = state.points.get(point).map(|p| p.desired.subscribe());
        found.ok_or_else(|| DeskError::NotFound { kind: "point", id: point.to_string() })
    }

    /// Folds the report into what is known; `None` if it is not newer than what is known.
    async fn hear(&self, report: &Arc<Report>) -> Result<Option<Heard>, DeskError> {
        let now = self.now();
        let new_boot = {
            let state = self.inner.hub.lock();
            let last = state.points.get(&report.point).and_then(|p| p.last.as_ref());
            last.is_none_or(|l| l.boot != report.boot_id)
        };
        if new_boot {
            // before anything believes it: a replay of a former boot must not make a silent point look alive
            let heard = Intent::Heard { point: report.point.clone(), boot: report.boot_id, seq: report.seq, at: now };
            if let Some(Outcome::Refused(_)) = self.inner.store.commit(vec![heard]).await?.pop() {
                return Ok(None);
            }
        }
        let mut state = self.inner.hub.lock();
        let is_site = self.inner.base.is_site(&report.point);
        let Some(point) = state.points.get_mut(&report.point) else { return Ok(None) };
        let last = point.last.take();
        if last.as_ref().is_some_and(|l| l.boot == report.boot_id && l.seq >= report.seq) {
            point.last = last;
            return Ok(None);
        }
        let mut devices = last.map(|l| l.devices).unwrap_or_default();
        let is_new = devices.hear(report);
        let (nodes, inventory) = (devices.nodes().cloned(), devices.acknowledged(report));
        // one commit at a time; it is set again if this one fails
        let unsaved = (std::mem::take(&mut point.unsaved) || is_new) && is_site;
        point.last = Some(LastReport {
            boot: report.boot_id,
            seq: report.seq,
            at: now,
            heard: Instant::now(),
            report: Arc::clone(report),
            devices,
        });
        for figures in &report.links {
            // a prober speaks of its own links only
            if self.inner.base.links.get(&figures.link).is_some_and(|l| l.from == report.point) {
                fold(&mut state, figures, report.boot_id, now);
            }
        }
        self.fold_windows(&mut state, report, now);
        self.fold_bandwidths(&mut state, report, now);
        fold_pairs(&mut state, report, now);
        Ok(Some(Heard { new_boot, nodes: nodes.filter(|_| unsaved), inventory }))
    }

    async fn keep_inventory(&self, site: &PointName, nodes: &[NodeReport]) {
        let label = |text: &Option<String>| text.as_deref().and_then(|t| rhumb_model::Label::new(t).ok());
        let nodes = nodes
            .iter()
            .map(|n| NodeRecord {
                site: site.clone(),
                node: rhumb_model::Node {
                    name: n.name.clone(),
                    devices: n.devices.clone(),
                    cpu: n.cpu,
                    memory: n.memory,
                    rack: label(&n.rack),
                    nvl_domain: label(&n.nvl_domain),
                },
            })
            .collect();
        let inventory = Intent::Inventory { site: site.clone(), nodes };
        if let Err(error) = self.inner.store.commit(vec![inventory]).await {
            tracing::warn!(%site, error = &error as &dyn std::error::Error, "nodes could not be stored: tried again");
            if let Some(point) = self.inner.hub.lock().points.get_mut(site) {
                point.unsaved = true;
            }
            return;
        }
        self.inner.hub.wake_placer_for_all();
        self.inner.hub.pulse(Pulse::Site(site.clone()));
    }
}

/// A window's figures, unless they cannot be true.
fn fold(state: &mut State, figures: &LinkFigures, boot: Uuid, now: Timestamp) {
    if let (Some(min), Some(p50), Some(p95)) = (figures.rtt_min_us, figures.rtt_p50_us, figures.rtt_p95_us) {
        let age = figures.last_reply_age_us.unwrap_or(0).min(3_600_000_000) as i64;
        let sample = LinkSample {
            link: figures.link.clone(),
            rtt_min: Latency::from_micros(min),
            rtt_p50: Latency::from_micros(p50),
            rtt_p95: Latency::from_micros(p95),
            loss: Ppm::from_ppm(figures.loss_forward_ppm.unwrap_or(0).min(1_000_000)),
            jitter: Latency::from_micros(figures.jitter_us.unwrap_or(0)),
            received_at: now - jiff::SignedDuration::from_micros(age),
            length: Span::from_micros(figures.window_us),
        };
        if let Err(error) = state.figures.fold(sample) {
            metrics::counter!(names::FIGURES_REFUSED).increment(1);
            tracing::debug!(%error, "a link figure was refused");
            return;
        }
    }
    state.figures.set_silent(&figures.link, figures.stale);
    let told = ToldFigures { figures: figures.clone(), boot, heard: Instant::now() };
    state.raw_figures.insert(figures.link.clone(), told);
}

impl<S: Store> Desk<S> {
    /// What the point says its links carry, held down by their capacity, by the ports of its hosts and by what the far ends
    /// counted.
    fn fold_bandwidths(&self, state: &mut State, report: &Report, now: Timestamp) {
        let port = fastest_port(state, &report.point);
        let links = report.links.iter().filter_map(|f| Some((self.inner.base.links.get(&f.link)?, &f.bandwidths)));
        let own = links.filter(|(link, _)| link.from == report.point);
        for (link, told) in own.flat_map(|(link, told)| told.iter().map(move |told| (link, told))) {
            let far = state.points.get(&link.to).and_then(|p| p.last.as_ref());
            // the far end has counted what was sent to measure, not what passes anyhow
            let sent = told.method != BandwidthMethod::Counters;
            let heard = far.into_iter().flat_map(|last| &last.report.trains);
            let heard = heard.filter(|heard| sent && heard.label == told.label);
            let peer = heard.map(|heard| Bandwidth::from_kbps(heard.rate_kbps)).max();
            let claim = BandwidthClaim {
                rate: Bandwidth::from_kbps(told.rate_kbps),
                available: told.available_kbps.map(Bandwidth::from_kbps),
                method: told.method,
                confidence: told.confidence,
                measured_at: before(now, told.age_us),
            };
            let ceiling = port.map_or(link.capacity, |port| port.min(link.capacity));
            state.bandwidths.fold(&link.id, claim, ceiling, peer);
        }
    }
}

/// The most that anything can leave the point by; `None`: nothing is known of its ports.
fn fastest_port(state: &State, point: &PointName) -> Option<Bandwidth> {
    let nodes = state.points.get(point)?.last.as_ref()?.devices.nodes()?;
    nodes.iter().flat_map(|n| &n.ports).filter_map(|p| p.rate_kbps).map(Bandwidth::from_kbps).max()
}

fn before(now: Timestamp, age_us: u64) -> Timestamp {
    now - jiff::SignedDuration::from_micros(age_us.min(3_600_000_000) as i64)
}

/// Whole ways through transit that nothing is known of.
fn fold_pairs(state: &mut State, report: &Report, now: Timestamp) {
    for told in &report.pairs {
        // only what it was asked for: a point cannot fill the table by naming others
        let asked = state.points.get(&report.point).is_some_and(|p| p.pairs.iter().any(|pair| pair.to == told.to));
        let (Some(min), Some(p50), Some(p95)) = (told.rtt_min_us, told.rtt_p50_us, told.rtt_p95_us) else { continue };
        if !asked || min > p50 || p50 > p95 || p95 > MOST_RTT_US {
            metrics::counter!(names::FIGURES_REFUSED).increment(1);
            continue;
        }
        let us = |us: u64| Latency::from_micros(us.max(1));
        let received_at = before(now, told.last_reply_age_us.unwrap_or(0));
        let figure = PairFigure { rtt_min: us(min), rtt_p50: us(p50), rtt_p95: us(p95), received_at };
        state.pairs.insert((report.point.clone(), told.to.clone()), figure);
    }
}

/// A round trip beyond this is none.
const MOST_RTT_US: u64 = 60_000_000;
