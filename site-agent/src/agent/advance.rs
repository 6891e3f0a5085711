//! One assignment, one step.

use super::{Agent, Entry, environment, family::family, wait};
use crate::{
    durable,
    host::BootTime,
    record::{End, Phase},
};
use rhumb_model::{DatasetName, site::Piece};
use rhumb_runtimes::{Observed, Runtime, Work};
use rhumb_wire::{Assignment, AssignmentGoal, AssignmentState, report::AssignmentKey};
use std::{collections::BTreeSet, path::PathBuf};

/// What is wanted of an assignment now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Nothing was heard yet: go on as before.
    Keep,
    Lease,
    Run,
    Stop(&'static str),
    /// Stop, and forget it once it has ended.
    Gone,
}

impl<R: Runtime> Agent<R> {
    fn wanted(&self, key: &AssignmentKey) -> Wanted {
        let listed = match self.listed.get(key) {
            _ if self.desired.is_none() => Wanted::Keep,
            None => Wanted::Gone,
            Some(AssignmentGoal::Lease) => Wanted::Lease,
            Some(AssignmentGoal::Run) => Wanted::Run,
            Some(AssignmentGoal::Stop) => Wanted::Stop("the orchestrator asked for it"),
        };
        match listed {
            Wanted::Gone | Wanted::Stop(_) => listed,
            _ if self.allocator.superseded(key) => Wanted::Stop("a later generation of it is known"),
            _ => listed,
        }
    }

    pub(super) fn advance(&mut self, key: &AssignmentKey, now: BootTime) {
        let wanted = self.wanted(key);
        let Some(entry) = self.entries.get(key) else { return };
        match entry.record.phase {
            Phase::Leased => self.advance_leased(key, wanted, now),
            Phase::Started => self.advance_started(key, wanted, now),
            Phase::Ended(_) if wanted == Wanted::Gone => self.forget(key, now),
            Phase::Ended(_) => {}
        }
    }

    fn advance_leased(&mut self, key: &AssignmentKey, wanted: Wanted, now: BootTime) {
        let Some(entry) = self.entries.get(key) else { return };
        let unrun = |message: &str| Some(End::unrun(AssignmentState::Stopped, message));
        let end = match wanted {
            Wanted::Stop(why) => unrun(why),
            Wanted::Gone => unrun("it is no longer wanted"),
            _ if entry.is_over(now) => unrun("the lease ended without word from the orchestrator before it ran"),
            _ => None,
        };
        if let Some(end) = end {
            return self.finish(key, end);
        }
        let Some(assignment) = entry.assignment.clone() else { return };
        if !self.stage(&assignment) || wanted != Wanted::Run || self.closing.is_some() {
            return;
        }
        match self.work(&assignment) {
            Ok(work) => self.begin(key, &work),
            Err(error) => self.trouble(key, error),
        }
    }

    /// Looks at the inputs; true: all are complete.
    fn stage(&mut self, assignment: &Assignment) -> bool {
        let carrier = &*self.base.carrier;
        let staged: Vec<_> =
            assignment.inputs.iter().map(|input| self.inputs.look(&assignment.key, input, carrier)).collect();
        let complete = staged.iter().all(|input| input.sha256.is_some());
        let trouble: Vec<&str> = staged.iter().filter_map(|input| input.trouble.as_deref()).collect();
        let trouble = trouble.join("; ");
        if let Some(entry) = self.entries.get_mut(&assignment.key) {
            if entry.trouble != trouble && !trouble.is_empty() {
                tracing::warn!(order = %assignment.key.order, trouble, "an input will not be complete");
            }
            entry.trouble = trouble;
            entry.staged = staged;
        }
        complete
    }

    /// Records that it may have been started, then starts it.
    fn begin(&mut self, key: &AssignmentKey, work: &Work) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let mut record = entry.record.clone();
        record.phase = Phase::Started;
        if let Err(error) = self.records.save(&record) {
            return self.trouble(key, format!("its start cannot be recorded: {error}"));
        }
        entry.record = record;
        self.start(key, work);
    }

    fn start(&mut self, key: &AssignmentKey, work: &Work) {
        let span = tracing::info_span!(
            "run", order = %key.order, generation = key.generation, component = %key.component, replica = key.replica,
            traceparent = work.env.get("TRACEPARENT")
        );
        let _entered = span.enter();
        match wait(self.base.runtime.start(key, work)) {
            Ok(()) => {
                tracing::info!("started");
                if let Some(entry) = self.entries.get_mut(key) {
                    entry.trouble.clear();
                }
            }
            Err(error) => self.trouble(key, crate::carrier::shown(&error)),
        }
    }

    fn advance_started(&mut self, key: &AssignmentKey, wanted: Wanted, now: BootTime) {
        let observed = match wait(self.base.runtime.observe(key)) {
            Ok(observed) => observed,
            Err(error) => return self.trouble(key, crate::carrier::shown(&error)),
        };
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.observed = Some(observed.clone());
        if let Observed::Ended(ended) = observed {
            return self.finish(key, ended.into());
        }
        let over = entry.is_over(now);
        let stop = match wanted {
            Wanted::Stop(why) => Some(why),
            Wanted::Gone => Some("it is no longer wanted"),
            // a runtime whose supervisor lives elsewhere may not know of the lease
            _ if over => Some("the lease ended without word from the orchestrator"),
            _ if self.closing.is_some() => Some("the agent was told to end"),
            Wanted::Keep | Wanted::Lease | Wanted::Run => None,
        };
        if let Some(why) = stop {
            if let Err(error) = wait(self.base.runtime.stop(key, why)) {
                self.trouble(key, crate::carrier::shown(&error));
            }
            return;
        }
        if observed == Observed::NotStarted && entry.adopted {
            // it was seen here without its records: whatever it did, it is not to be done again
            return self.finish(key, End::unrun(AssignmentState::Lost, "it ended without a record"));
        }
        if observed == Observed::NotStarted
            && let Some(assignment) = entry.assignment.clone()
            && self.stage(&assignment)
        {
            match self.work(&assignment) {
                Ok(work) => self.start(key, &work),
                Err(error) => self.trouble(key, error),
            }
        }
    }

    fn finish(&mut self, key: &AssignmentKey, end: End) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        tracing::info!(
            order = %key.order, generation = key.generation, component = %key.component, replica = key.replica,
            state = ?end.state, exit_code = end.exit_code, signal = end.signal, ran_us = end.ran_us, message = end.message,
            "ended"
        );
        let succeeded = end.state == AssignmentState::Exited && end.exit_code == Some(0);
        entry.record.phase = Phase::Ended(end);
        entry.trouble.clear();
        if succeeded {
            self.keep_outputs(key);
        }
        let Some(entry) = self.entries.get(key) else { return };
        if let Err(error) = self.records.save(&entry.record) {
            tracing::warn!(order = %key.order, %error, "an end cannot be recorded");
        }
        self.allocator.release(key);
        // a card that was cut anew under it may be sold from now on
        self.judge();
    }

    /// What a component's replicas here wrote for datasets of this very site, once all of them are done.
    fn keep_outputs(&self, key: &AssignmentKey) {
        let same = |other: &AssignmentKey| {
            (other.order, other.generation, &other.component) == (key.order, key.generation, &key.component)
        };
        let Some(assignment) = self.entries.get(key).and_then(|entry| entry.assignment.as_ref()) else { return };
        if self.entries.iter().any(|(other, entry)| same(other) && !entry.is_ended()) {
            return;
        }
        for output in assignment.outputs.iter().filter(|output| output.leg.is_none()) {
            let kept = match DatasetName::new(&output.dataset) {
                Ok(name) => self.base.store.keep_output(key.order, key.generation, &name),
                Err(error) => Err(std::io::Error::other(error)),
            };
            match kept {
                Ok(true) => {}
                Ok(false) => {
                    tracing::warn!(order = %key.order, dataset = output.dataset, "the work did not write its dataset");
                }
                Err(error) => {
                    tracing::warn!(order = %key.order, dataset = output.dataset, %error, "a dataset cannot be kept");
                }
            }
        }
    }

    /// Removes what is ended and no longer listed, once its output has been fetched or has waited long enough.
    fn forget(&mut self, key: &AssignmentKey, now: BootTime) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let since = *entry.gone.get_or_insert(now);
        if !entry.output.is_empty() && now.since(since) < self.base.limits.log_linger.micros() {
            return;
        }
        let folder = self.base.runtime.folder(key);
        let removed = self.fences.keep(key).and_then(|()| durable::remove_folder(folder.path()));
        match removed.and_then(|()| self.records.remove(key)) {
            Ok(()) => {
                self.entries.remove(key);
            }
            Err(error) => tracing::warn!(order = %key.order, %error, "the folder of an ended run cannot be removed"),
        }
    }

    fn trouble(&mut self, key: &AssignmentKey, trouble: String) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if entry.trouble != trouble {
            tracing::warn!(order = %key.order, component = %key.component, replica = key.replica, trouble, "cannot go on");
            entry.trouble = trouble;
        }
    }

    /// Whether the runtime could run it at all; what is not known yet stands in empty.
    pub(super) fn admit(&self, assignment: &Assignment) -> Result<(), String> {
        let work = self.work_with(assignment, &[], &[]);
        self.base.runtime.admit(&work).map_err(|error| error.to_string())
    }

    /// What is to be run, with every path it needs.
    fn work(&self, assignment: &Assignment) -> Result<Work, String> {
        let key = &assignment.key;
        let outputs = self.base.store.outputs(key.order, key.generation);
        std::fs::create_dir_all(&outputs).map_err(|error| format!("cannot make {}: {error}", outputs.display()))?;
        let mut flows = Vec::new();
        for endpoint in &assignment.endpoints {
            flows.push((endpoint.flow, self.base.carrier.endpoint(key, endpoint)?));
        }
        let staged = self.entries.get(key).map(|entry: &Entry| entry.staged.as_slice()).unwrap_or_default();
        let inputs: Vec<(String, PathBuf)> =
            assignment.inputs.iter().zip(staged).map(|(input, at)| (input.dataset.clone(), at.path.clone())).collect();
        Ok(self.work_with(assignment, &inputs, &flows))
    }

    pub(super) fn work_with(
        &self,
        assignment: &Assignment,
        inputs: &[(String, PathBuf)],
        flows: &[(u32, PathBuf)],
    ) -> Work {
        let outputs = self.base.store.outputs(assignment.key.order, assignment.key.generation);
        let place = environment::Place {
            claim: self.allocator.claims().get(&assignment.key),
            site: &self.base.point,
            search_path: &self.base.search_path,
            outputs: &outputs,
            inputs,
            flows,
        };
        let devices: BTreeSet<u32> = assignment.devices.iter().copied().collect();
        let cards: BTreeSet<u32> = devices.iter().map(|number| Piece::of(*number).device()).collect();
        let here = self.base.nodes.iter().flatten().find(|node| node.name == assignment.node);
        let held = || here.into_iter().flat_map(|node| &node.devices).filter(|device| cards.contains(&device.index));
        let family = held().next().and_then(|device| family(&device.model));
        let variant = environment::variant(assignment, family.as_ref());
        let command = variant.filter(|variant| !variant.command.is_empty()).map(|variant| &variant.command);
        Work {
            command: command.unwrap_or(&assignment.command).clone(),
            env: environment::environment(assignment, family.as_ref(), &place),
            grace_ms: assignment.grace_ms,
            checkpoint_signal: assignment.checkpoint_signal.clone(),
            node: assignment.node.clone(),
            numa: held().filter_map(|device| device.numa).collect(),
            family: family.and_then(|family| family.shown_by),
            cpu: assignment.cpu,
            memory: assignment.memory,
            gang: self.gang(assignment),
            devices,
        }
    }

    /// The replicas that are to start here together with this one.
    fn gang(&self, assignment: &Assignment) -> BTreeSet<u32> {
        let key = &assignment.key;
        let same = |other: &&AssignmentKey| {
            (other.order, other.generation, &other.component) == (key.order, key.generation, &key.component)
        };
        let listed = self.listed.keys().filter(same).map(|other| other.replica);
        if assignment.terms.gang { listed.collect() } else { BTreeSet::new() }
    }
}
