//! An agent's call: fold its report in, answer with what it should have.

use crate::{
    desk::Desk,
    error::DeskError,
    hub::{LastReport, Pulse},
    sagas::Mail,
};
use rhumb_federation::LinkSample;
use rhumb_model::{Latency, PointName, Ppm};
use rhumb_provision::Stamp;
use rhumb_store::{Intent, NodeRecord, Outcome, Store, record::LogRecord};
use rhumb_wire::{PROTOCOL, Report, SyncReply, report::LogAck};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Longest time that an answer is held back.
const MAX_WAIT: Duration = Duration::from_secs(5);

impl<S: Store> Desk<S> {
    /// `point` is who the credential says the agent is.
    pub async fn sync(&self, point: &PointName, report: Report) -> Result<SyncReply, DeskError> {
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
        let (seq, wait) = (report.seq, Duration::from_millis(report.wait_ms).min(MAX_WAIT));
        let seen = Stamp { epoch: report.epoch, generation: report.generation };
        if !self.hear(&report).await? {
            tracing::debug!(%point, seq, "an older report was ignored");
            return Ok(SyncReply { seq, desired: None, log_acks: Vec::new(), pause_ms: 0 });
        }
        self.inventory(&report).await?;
        let log_acks = self.keep_logs(&report).await?;
        let acked = !log_acks.is_empty();
        self.inner.mail.send(Mail::Report(Arc::new(report))).await.map_err(|_| DeskError::Stopping)?;
        if !acked {
            let newer = desired.wait_for(|stamp| *stamp != seen);
            tokio::select! {
                // time-out and shutdown both answer with what there is
                _ = tokio::time::timeout(wait, newer) => {}
                () = self.inner.stop.cancelled() => {}
            }
        }
        let state = self.inner.hub.lock();
        let desired = state.desired(point).filter(|d| Stamp { epoch: d.epoch, generation: d.generation } != seen);
        Ok(SyncReply { seq, desired, log_acks, pause_ms: 0 })
    }

    fn subscribe(&self, point: &PointName) -> Result<tokio::sync::watch::Receiver<Stamp>, DeskError> {
        let state = self.inner.hub.lock();
        let found = state.points.get(point).map(|p| p.desired.subscribe());
        found.ok_or_else(|| DeskError::NotFound { kind: "point", id: point.to_string() })
    }

    /// Folds the report into what is known; false if it is not newer than the last one of the same boot.
    async fn hear(&self, report: &Report) -> Result<bool, DeskError> {
        let now = self.now();
        let new_boot = {
            let mut state = self.inner.hub.lock();
            let Some(point) = state.points.get_mut(&report.point) else { return Ok(false) };
            let last = point.last.as_ref();
            if last.is_some_and(|l| l.boot == report.boot_id && l.seq >= report.seq) {
                return Ok(false);
            }
            let new_boot = last.is_none_or(|l| l.boot != report.boot_id);
            let mut kept = report.clone();
            kept.logs.clear();
            if kept.nodes.is_none() {
                kept.nodes = point.last.take().and_then(|l| l.report.nodes);
            }
            let heard = Instant::now();
            point.last = Some(LastReport { boot: report.boot_id, seq: report.seq, at: now, heard, report: kept });
            for figures in &report.links {
                // a prober speaks of its own links only
                if self.inner.base.links.get(&figures.link).is_none_or(|l| l.from != report.point) {
                    continue;
                }
                state.raw_figures.insert(figures.link.clone(), (figures.clone(), heard));
                if let (Some(min), Some(p50), Some(p95)) = (figures.rtt_min_us, figures.rtt_p50_us, figures.rtt_p95_us)
                {
                    let age = figures.last_reply_age_us.unwrap_or(0).min(3_600_000_000) as i64;
                    let sample = LinkSample {
                        link: figures.link.clone(),
                        rtt_min: Latency::from_micros(min),
                        rtt_p50: Latency::from_micros(p50),
                        rtt_p95: Latency::from_micros(p95),
                        loss: Ppm::from_ppm(figures.loss_forward_ppm.unwrap_or(0).min(1_000_000)),
                        jitter: Latency::from_micros(figures.jitter_us.unwrap_or(0)),
                        received_at: now - jiff::SignedDuration::from_micros(age),
                    };
                    if let Err(error) = state.figures.fold(sample) {
                        tracing::warn!(%error, point = %report.point, "a link figure was refused");
                    }
                }
            }
            new_boot
        };
        if new_boot {
            let heard = Intent::Heard { point: report.point.clone(), boot: report.boot_id, seq: report.seq, at: now };
            if let Some(Outcome::Refused(_)) = self.inner.store.commit(vec![heard]).await?.pop() {
                return Ok(false);
            }
            tracing::info!(point = %report.point, boot = %report.boot_id, "agent has reported");
            self.inner.hub.place.notify_one();
            self.inner.hub.pulse(Pulse::Site(report.point.clone()));
        }
        Ok(true)
    }

    async fn inventory(&self, report: &Report) -> Result<(), DeskError> {
        let Some(nodes) = &report.nodes else { return Ok(()) };
        if !self.inner.base.is_site(&report.point) {
            return Ok(());
        }
        let site = report.point.clone();
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
        self.inner.store.commit(vec![Intent::Inventory { site: site.clone(), nodes }]).await?;
        self.inner.hub.place.notify_one();
        self.inner.hub.pulse(Pulse::Site(site));
        Ok(())
    }

    async fn keep_logs(&self, report: &Report) -> Result<Vec<LogAck>, DeskError> {
        if report.logs.is_empty() {
            return Ok(Vec::new());
        }
        let record = |chunk: &rhumb_wire::LogChunk| LogRecord {
            order: chunk.key.order,
            generation: chunk.key.generation,
            component: chunk.key.component.clone(),
            replica: chunk.key.replica,
            offset: chunk.offset,
            text: chunk.text.clone(),
        };
        self.inner.store.commit(vec![Intent::AppendLogs(report.logs.iter().map(record).collect())]).await?;
        let ack = |c: &rhumb_wire::LogChunk| LogAck { key: c.key.clone(), up_to: c.offset + c.bytes };
        Ok(report.logs.iter().map(ack).collect())
    }
}
