//! From the desired state to the world and back, one step at a time. No clock but the host's, no network: those who call
//! `step` say when, and carry what it reports.

mod admission;
mod advance;
mod environment;
mod family;
mod report;
mod site;
#[cfg(test)]
mod tests;

pub(crate) use report::{Envelope, Visible};

use site::Site;

use crate::{
    carrier::Carrier,
    config::Limits,
    durable::{self, Keep},
    error::AgentError,
    fence::Fences,
    host::{self, BootTime},
    input::{Inputs, Staged},
    lease::Allocator,
    record::{Phase, Record, Records},
    store::DatasetStore,
};
use rhumb_model::{ModelName, OrderId, PointName, federation_file::DeviceKind};
use rhumb_runtimes::{Observed, Runtime, folder::Hold};
use rhumb_wire::{
    Assignment, AssignmentGoal, Desired, DeviceFigures, NodeReport, RouteStatus, Teller, Telling,
    report::{AssignmentKey, RouteKey},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

/// What the devices of a scheduler's nodes are called in orders.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SiteNodes {
    /// By the scheduler's word for them.
    pub(crate) models: BTreeMap<String, ModelName>,
    pub(crate) kinds: BTreeMap<ModelName, DeviceKind>,
}

/// What the agent stands on.
pub(crate) struct Foundation<R> {
    pub(crate) point: PointName,
    pub(crate) data_dir: PathBuf,
    /// `None`: nobody knows yet.
    pub(crate) nodes: Option<Vec<NodeReport>>,
    /// How nodes are told that the runtime knows; `None`: they have another source.
    pub(crate) site_nodes: Option<SiteNodes>,
    pub(crate) limits: Limits,
    pub(crate) runtime: R,
    pub(crate) carrier: Arc<dyn Carrier>,
    pub(crate) store: Arc<DatasetStore>,
    /// `PATH` of commands that bring none.
    pub(crate) search_path: String,
}

pub(crate) struct Agent<R> {
    base: Foundation<R>,
    /// What the orchestrator is told of the nodes.
    teller: Teller,
    records: Records,
    inputs: Inputs,
    allocator: Allocator,
    entries: BTreeMap<AssignmentKey, Entry>,
    /// Runs without a record: the records were lost, or what is left of a removal that was cut off.
    orphans: BTreeSet<AssignmentKey>,
    /// What the runtime says of the site.
    site: Site,
    fences: Fences,
    /// `None`: never heard. Then nothing is stopped for not being listed.
    desired: Option<Arc<Desired>>,
    listed: BTreeMap<AssignmentKey, AssignmentGoal>,
    /// When the report was sent that was answered last.
    answered: Option<BootTime>,
    kept: Option<BTreeSet<(OrderId, u64)>>,
    /// Last figures of routes that are gone, until a report that holds them is answered: nobody else has them.
    parting: Vec<RouteStatus>,
    /// How many of them the last report held.
    parting_told: usize,
    closing: Option<Closing>,
}

/// The agent is told to end and to take its work with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Closing;

/// One assignment.
#[derive(Debug)]
struct Entry {
    record: Record,
    /// As last listed; `None`: not since the agent started.
    assignment: Option<Assignment>,
    hold: Option<Hold>,
    observed: Option<Observed>,
    /// Per input, in order.
    staged: Vec<Staged>,
    /// What keeps it from going on, for people.
    trouble: String,
    acked: u64,
    sent: u64,
    /// Output from `acked` on, as far as it was read.
    output: String,
    /// It was found without a record.
    adopted: bool,
    /// Since when it is ended and no longer listed.
    gone: Option<BootTime>,
}

impl Entry {
    fn new(record: Record, assignment: Option<Assignment>, hold: Option<Hold>) -> Self {
        Self {
            record,
            assignment,
            hold,
            observed: None,
            staged: Vec::new(),
            trouble: String::new(),
            acked: 0,
            sent: 0,
            output: String::new(),
            adopted: false,
            gone: None,
        }
    }

    fn is_ended(&self) -> bool {
        matches!(self.record.phase, Phase::Ended(_))
    }

    /// Whether its lease, if it has one, is over.
    fn is_over(&self, now: BootTime) -> bool {
        self.record.lease_ms.is_some() && self.hold.as_ref().is_none_or(|hold| hold.is_over(now))
    }
}

/// `desired.json`
#[derive(Debug, Serialize, Deserialize)]
struct Remembered {
    desired: Desired,
    /// When the report was sent that it answered.
    sent: BootTime,
    host_boot: String,
}

/// A desired state that is not newer than the one the agent works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the desired state ({}, {}) is older than ({}, {}), which is at work here; it is ignored", .asked.0, .asked.1, .known.0, .known.1)]
pub(crate) struct Outdated {
    asked: (u64, u64),
    known: (u64, u64),
}

impl<R: Runtime> Agent<R> {
    /// Takes up where the records say that an earlier start ended.
    pub(crate) fn open(base: Foundation<R>) -> Result<Self, AgentError> {
        let failed = |source| AgentError::Folder { path: base.data_dir.clone(), source };
        let records = Records::open(runs(&base.data_dir)).map_err(failed)?;
        let mut allocator = Allocator::new(base.nodes.as_deref().unwrap_or_default());
        let fences = Fences::open(&base.data_dir).map_err(failed)?;
        fences.keys().for_each(|key| {
            allocator.see(key);
        });
        let site = Site::new(base.nodes.clone());
        let mut entries = BTreeMap::new();
        for record in records.load().map_err(failed)? {
            allocator.see(&record.key);
            if !matches!(record.phase, Phase::Ended(_)) {
                allocator.restore(&record.key, &record.claim);
            }
            let hold = base.runtime.folder(&record.key).hold().unwrap_or_default();
            entries.insert(record.key.clone(), Entry::new(record, None, hold));
        }
        let inputs = Inputs::new(&base.data_dir, Arc::clone(&base.store));
        let (desired, listed, answered) = (None, BTreeMap::new(), None);
        let teller = base.nodes.as_ref().map_or_else(Teller::waiting, |nodes| Teller::new(allocator.judge(nodes)));
        let mut agent = Self {
            base,
            teller,
            records,
            inputs,
            allocator,
            entries,
            orphans: BTreeSet::new(),
            site,
            fences,
            desired,
            listed,
            answered,
            kept: None,
            parting: Vec::new(),
            parting_told: 0,
            closing: None,
        };
        agent.look_at_site(BootTime::now());
        agent.remember();
        Ok(agent)
    }

    fn remember(&mut self) {
        let path = self.desired_path();
        match durable::read_json::<Remembered>(&path) {
            Ok(Some(Remembered { desired, sent, host_boot })) => {
                self.answered = (host_boot == host::boot_id()).then_some(sent);
                self.work_on(desired);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the desired state cannot be read; waiting for another");
            }
        }
    }

    fn desired_path(&self) -> PathBuf {
        self.base.data_dir.join("desired.json")
    }

    /// `(epoch, generation)` of the desired state at work; zeros before the first.
    pub(crate) fn version(&self) -> (u64, u64) {
        self.desired.as_ref().map_or((0, 0), |desired| (desired.epoch, desired.generation))
    }

    pub(crate) fn desired(&self) -> Option<&Arc<Desired>> {
        self.desired.as_ref()
    }

    /// Takes over a desired state that answered a report sent at `sent`; `Ok(false)`: it is the one at work.
    pub(crate) fn accept(&mut self, desired: Desired, sent: BootTime) -> Result<bool, Outdated> {
        if self.desired.is_some() {
            let (asked, known) = ((desired.epoch, desired.generation), self.version());
            if asked < known {
                return Err(Outdated { asked, known });
            }
            if asked == known {
                return Ok(false);
            }
        }
        let remembered = Remembered { desired, sent, host_boot: host::boot_id().to_owned() };
        let path = self.desired_path();
        if let Err(error) = durable::write_json(&path, &remembered, Keep::Safe) {
            // what is to be stopped must be stopped on a full disk too
            tracing::warn!(path = %path.display(), %error, "the desired state cannot be kept for the next start");
        }
        self.work_on(remembered.desired);
        Ok(true)
    }

    fn work_on(&mut self, desired: Desired) {
        tracing::debug!(epoch = desired.epoch, generation = desired.generation, "desired state");
        let stays: BTreeSet<&RouteKey> = desired.routes.iter().map(|route| &route.key).collect();
        let parting = self.base.carrier.routes().into_iter().filter(|route| !stays.contains(&route.key));
        self.parting.retain(|route| !stays.contains(&route.key));
        self.parting_told = self.parting_told.min(self.parting.len());
        self.parting.extend(parting);
        self.base.carrier.apply(&desired);
        self.listed = desired.assignments.iter().map(|wanted| (wanted.key.clone(), wanted.goal)).collect();
        self.desired = Some(Arc::new(desired));
    }

    /// A report sent at `sent` was answered: leases are good for their time from then on.
    pub(crate) fn answered(&mut self, sent: BootTime, now: BootTime) {
        self.answered = Some(sent);
        self.parting.drain(..std::mem::take(&mut self.parting_told));
        for (key, entry) in &mut self.entries {
            let Some(lease_ms) = entry.record.lease_ms.filter(|_| !entry.is_ended()) else { continue };
            // what is over stays over: its end is on the way, and it may live elsewhere by now
            if !self.listed.contains_key(key) || entry.is_over(now) {
                continue;
            }
            let hold = Hold::new(sent, lease_ms, entry.record.grace_ms);
            match self.base.runtime.folder(key).write_hold(Some(&hold)) {
                Ok(()) => entry.hold = Some(hold),
                Err(error) => tracing::warn!(order = %key.order, %error, "a lease cannot be prolonged"),
            }
        }
    }

    /// Output up to `up_to` need not be sent again.
    pub(crate) fn acknowledge(&mut self, key: &AssignmentKey, up_to: u64) {
        if let Some(entry) = self.entries.get_mut(key) {
            let more = up_to.saturating_sub(entry.acked);
            let told = usize::try_from(more).unwrap_or(usize::MAX).min(entry.output.len());
            entry.output.drain(..entry.output.floor_char_boundary(told));
            entry.acked = entry.acked.max(up_to);
            entry.sent = entry.sent.max(entry.acked);
        }
    }

    /// The nodes have something else now. What runs goes on. Whether there is anything to tell.
    pub(crate) fn renew(&mut self, nodes: Vec<NodeReport>) -> bool {
        self.site.found = Some(nodes);
        self.judge();
        self.has_new_nodes()
    }

    /// Looks again at what of the nodes may be given away, and what is told of them.
    fn judge(&mut self) {
        let Some(nodes) = self.site.judged(self.allocator.claims()) else { return };
        if self.base.nodes.as_ref() != Some(&nodes) {
            for (key, piece) in self.allocator.renew(&nodes) {
                // a person must act: the work may fail, and its device is given to nobody
                tracing::error!(order = %key.order, component = %key.component, %piece, "a device under an order is not well");
            }
        }
        self.site.is_news |= self.teller.renew(self.allocator.judge(&nodes));
        self.base.nodes = Some(nodes);
    }

    /// How the devices fare.
    pub(crate) fn measure(&mut self, figures: Vec<DeviceFigures>) {
        self.teller.measure(figures);
    }

    /// The orchestrator has heard what a report told of the nodes, and has this now.
    pub(crate) fn told(&mut self, told: Telling, known: Option<u64>) {
        self.teller.answered(told, known);
    }

    /// From now on nothing is started, and what runs is stopped.
    pub(crate) fn close(&mut self) {
        self.closing = Some(Closing);
    }

    /// Whether anything that was started has not ended.
    pub(crate) fn is_busy(&self) -> bool {
        self.entries.values().any(|entry| entry.record.phase == Phase::Started)
    }

    /// The shortest lease there is; reports must come well within it.
    pub(crate) fn shortest_lease_ms(&self) -> Option<u64> {
        let live = self.entries.values().filter(|entry| !entry.is_ended());
        live.filter_map(|entry| entry.record.lease_ms).min()
    }

    /// The longest that any started work may take to end.
    pub(crate) fn longest_grace_ms(&self) -> u64 {
        let started = self.entries.values().filter(|entry| entry.record.phase == Phase::Started);
        started.map(|entry| entry.record.grace_ms).max().unwrap_or(0)
    }

    /// Looks at the world and does what is due.
    pub(crate) fn step(&mut self, now: BootTime) {
        self.look_at_site(now);
        if let Some(desired) = self.desired.clone() {
            for wanted in &desired.assignments {
                self.allocator.see(&wanted.key);
            }
            for wanted in &desired.assignments {
                self.meet(wanted, now);
            }
        }
        let keys: Vec<AssignmentKey> = self.entries.keys().cloned().collect();
        for key in &keys {
            self.advance(key, now);
        }
        self.end_orphans();
        self.read_output();
        self.tidy();
    }

    /// Removes files and sockets of orders that have nothing here any more.
    fn tidy(&mut self) {
        let Some(desired) = &self.desired else { return };
        let keep: BTreeSet<(OrderId, u64)> = self
            .entries
            .keys()
            .chain(self.listed.keys())
            .map(|key| (key.order, key.generation))
            .chain(desired.routes.iter().map(|route| (route.key.order, route.key.generation)))
            .collect();
        if self.kept.as_ref() == Some(&keep) {
            return;
        }
        let done = self.base.carrier.retain(&keep).and_then(|()| {
            let mut gone = self.inputs.present().into_iter().filter(|present| !keep.contains(present));
            gone.try_for_each(|(order, generation)| self.inputs.forget(order, generation))
        });
        match done {
            Ok(()) => self.kept = Some(keep),
            Err(error) => tracing::warn!(%error, "what ended orders left cannot be removed"),
        }
    }
}

/// For what a runtime answers at once. To be called where a thread may wait, below a runtime of tokio.
fn wait<T>(answer: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(answer)
}

/// Where runs and their records live.
pub(crate) fn runs(data_dir: &Path) -> PathBuf {
    data_dir.join("runs")
}
