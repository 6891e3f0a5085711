//! One assignment, one step.

use super::{Agent, Entry, environment};
use crate::{
    host::BootTime,
    record::{End, Phase},
    runtime::{Observed, Runtime, Work},
};
use rhumb_model::DatasetName;
use rhumb_wire::{Assignment, AssignmentGoal, AssignmentState, report::AssignmentKey};
use std::path::PathBuf;

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
        match self.base.runtime.start(key, work) {
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
        let observed = match self.base.runtime.observe(key) {
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
            if let Err(error) = self.base.runtime.stop(key, why) {
                self.trouble(key, crate::carrier::shown(&error));
            }
            return;
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
        let acked = entry.acked;
        let rest = self.base.runtime.logs(key, acked, 4).is_ok_and(|rest| !rest.is_empty());
        if rest && now.since(since) < self.base.limits.log_linger.micros() {
            return;
        }
        match self.records.remove(key) {
            Ok(()) => {
                self.entries.remove(key);
                self.allocator.forget(key);
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

    fn work_with(&self, assignment: &Assignment, inputs: &[(String, PathBuf)], flows: &[(u32, PathBuf)]) -> Work {
        let outputs = self.base.store.outputs(assignment.key.order, assignment.key.generation);
        let place = environment::Place {
            claim: self.allocator.claims().get(&assignment.key),
            site: &self.base.point,
            search_path: &self.base.search_path,
            outputs: &outputs,
            inputs,
            flows,
        };
        Work {
            command: assignment.command.clone(),
            env: environment::environment(assignment, &place),
            grace_ms: assignment.grace_ms,
            checkpoint_signal: assignment.checkpoint_signal.clone(),
        }
    }
}
