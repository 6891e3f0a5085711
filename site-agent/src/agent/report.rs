//! What the agent says of itself.

use super::{Agent, Entry, wait};
use crate::record::Phase;
use rhumb_runtimes::{Observed, Runtime};
use rhumb_wire::{
    AssignmentState, AssignmentStatus, LinkFigures, LogChunk, PROTOCOL, PairFigures, Report, RouteEndState,
    RouteStatus, Telling, TrainHeard, WindowFigures,
    report::{AssignmentKey, HeldDataset, RouteKey},
};
use std::collections::BTreeMap;
use uuid::Uuid;

/// What a report holds beside what the agent sees.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Envelope {
    pub(crate) boot_id: Uuid,
    pub(crate) seq: u64,
    pub(crate) wait_ms: u64,
    pub(crate) probe_port: u16,
    pub(crate) overlay_port: u16,
    pub(crate) links: Vec<LinkFigures>,
    pub(crate) windows: Vec<WindowFigures>,
    pub(crate) pairs: Vec<PairFigures>,
    pub(crate) trains: Vec<TrainHeard>,
}

/// What the orchestrator is told of at once when it changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Visible {
    version: (u64, u64),
    assignments: Vec<(AssignmentKey, AssignmentState, usize, String)>,
    routes: Vec<(RouteKey, RouteEndState)>,
    datasets: Vec<HeldDataset>,
}

impl<R: Runtime> Agent<R> {
    pub(crate) fn visible(&self) -> Visible {
        let shown = |status: AssignmentStatus| (status.key, status.state, status.staged_sha256.len(), status.message);
        Visible {
            version: self.version(),
            assignments: self.statuses().into_iter().map(shown).collect(),
            routes: self.routes().into_iter().map(|route| (route.key, route.state)).collect(),
            datasets: self.base.store.list(),
        }
    }

    /// Whether there are routes whose last word is still to be told: only the report after it can leave them out.
    pub(crate) fn has_parting(&self) -> bool {
        !self.parting.is_empty()
    }

    /// Whether there is output that no report held yet.
    pub(crate) fn has_output(&self) -> bool {
        self.entries.values().any(|entry| entry.acked + entry.output.len() as u64 > entry.sent)
    }

    /// The report as of now. Output is sent from where it was acknowledged, so that what was lost comes again.
    pub(crate) fn report(&mut self, envelope: Envelope) -> (Report, Telling) {
        let (epoch, generation) = self.version();
        let routes = self.routes();
        self.parting_told = self.parting.len();
        let Envelope { boot_id, seq, wait_ms, probe_port, overlay_port, links, windows, pairs, trains } = envelope;
        let told = self.teller.tell();
        let report = Report {
            protocol: PROTOCOL,
            point: self.base.point.clone(),
            boot_id,
            seq,
            epoch,
            generation,
            wait_ms,
            probe_port: Some(probe_port),
            overlay_port: Some(overlay_port),
            kernel: self.base.carrier.kernel(),
            nodes: told.nodes.clone(),
            inventory: told.update.clone(),
            assignments: self.statuses(),
            routes,
            links,
            windows,
            pairs,
            trains,
            logs: self.output(),
            datasets: self.base.store.list(),
            unmanaged: (self.orphans.len() + self.site.unmanaged.len()) as u32,
        };
        (report, told)
    }

    /// What was printed since, as much as reports can hold soon.
    pub(super) fn read_output(&mut self) {
        let most = self.base.limits.report_logs.bytes() as usize;
        let held: usize = self.entries.values().map(|entry| entry.output.len()).sum();
        // a few reports ahead
        let mut left = (4 * most).saturating_sub(held);
        for (key, entry) in &mut self.entries {
            let room = left.min(most.saturating_sub(entry.output.len()));
            if entry.record.phase == Phase::Leased || room < 4 {
                continue;
            }
            let from = entry.acked + entry.output.len() as u64;
            match wait(self.base.runtime.logs(key, from, room)) {
                Ok(text) => {
                    left -= text.len();
                    entry.output.push_str(&text);
                }
                Err(error) => tracing::debug!(order = %key.order, %error, "output cannot be read"),
            }
        }
    }

    fn output(&mut self) -> Vec<LogChunk> {
        let mut left = self.base.limits.report_logs.bytes() as usize;
        let mut chunks = Vec::new();
        for (key, entry) in &mut self.entries {
            let text = &entry.output[..entry.output.floor_char_boundary(left)];
            if text.is_empty() {
                continue;
            }
            let bytes = text.len() as u64;
            left -= text.len();
            entry.sent = entry.sent.max(entry.acked + bytes);
            chunks.push(LogChunk { key: key.clone(), offset: entry.acked, bytes, text: text.to_owned() });
        }
        chunks
    }

    /// Every route here, and those that are gone and were not told of since. What closes has its figures still.
    fn routes(&self) -> Vec<RouteStatus> {
        let mut routes: BTreeMap<RouteKey, RouteStatus> =
            self.parting.iter().map(|route| (route.key.clone(), route.clone())).collect();
        routes.extend(self.base.carrier.routes().into_iter().map(|route| (route.key.clone(), route)));
        routes.into_values().collect()
    }

    pub(super) fn statuses(&self) -> Vec<AssignmentStatus> {
        self.entries.values().map(status).collect()
    }
}

fn status(entry: &Entry) -> AssignmentStatus {
    let complete = entry.staged.iter().all(|input| input.sha256.is_some());
    let inputs = entry.assignment.as_ref().map_or(0, |assignment| assignment.inputs.len());
    let staged = complete && entry.staged.len() == inputs && entry.assignment.is_some();
    let mut status = AssignmentStatus {
        key: entry.record.key.clone(),
        state: if staged { AssignmentState::Staged } else { AssignmentState::Leased },
        exit_code: None,
        signal: None,
        ran_us: 0,
        started_us: None,
        staged_bytes: entry.staged.iter().map(|input| input.bytes).sum(),
        staged_sha256: entry.staged.iter().filter_map(|input| input.sha256.clone()).collect(),
        checkpoint: None,
        message: entry.trouble.clone(),
    };
    match (&entry.record.phase, &entry.observed) {
        (Phase::Ended(end), _) => {
            status.state = end.state;
            status.exit_code = end.exit_code;
            status.signal = end.signal;
            status.ran_us = end.ran_us;
            status.started_us = end.started_us;
            status.checkpoint.clone_from(&end.checkpoint);
            status.message.clone_from(&end.message);
        }
        (Phase::Started, Some(Observed::Running { ran_us, started_us })) => {
            status.state = AssignmentState::Running;
            status.ran_us = *ran_us;
            status.started_us = Some(*started_us);
        }
        // on its way: every input was there
        (Phase::Started, Some(Observed::Starting { why })) => {
            status.state = AssignmentState::Staged;
            if status.message.is_empty() {
                status.message.clone_from(why);
            }
        }
        (Phase::Started, _) => status.state = AssignmentState::Staged,
        (Phase::Leased, _) => {}
    }
    status
}
