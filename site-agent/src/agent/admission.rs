//! What becomes of an assignment when it is first listed, and of what may change of it later.

use super::{Agent, Entry};
use crate::{
    host::BootTime,
    lease::{Claim, LeaseError},
    record::{End, Phase, Record},
};
use rhumb_model::site::Piece;
use rhumb_runtimes::{Runtime, folder::Hold};
use rhumb_wire::{Assignment, AssignmentGoal, AssignmentState, report::AssignmentKey};
use std::collections::BTreeMap;

impl<R: Runtime> Agent<R> {
    /// Makes sure that a listed assignment is known here: leased, refused, or known from before.
    pub(super) fn meet(&mut self, wanted: &Assignment, now: BootTime) {
        let key = &wanted.key;
        if let Some(entry) = self.entries.get_mut(key) {
            if entry.assignment.as_ref() != Some(wanted) {
                entry.assignment = Some(wanted.clone());
                self.update(wanted);
            }
            return;
        }
        // what nobody has looked at yet is neither given nor refused
        if self.closing.is_some() || self.base.nodes.is_none() {
            return;
        }
        if self.orphans.contains(key) {
            return self.adopt(wanted);
        }
        let claim = Claim {
            node: wanted.node.clone(),
            devices: wanted.devices.iter().copied().collect(),
            part: wanted.part,
            cpu: wanted.cpu,
            memory: wanted.memory,
            slices: BTreeMap::new(),
        };
        let end = |state, message: String| Some(Phase::Ended(End::unrun(state, message)));
        let phase = if wanted.goal == AssignmentGoal::Stop {
            end(AssignmentState::Stopped, "nothing of it ran here".into())
        } else if claim.devices.len() != wanted.devices.len() {
            end(AssignmentState::Refused, "a device is named twice".into())
        } else if let Err(error) = self.admit(wanted) {
            end(AssignmentState::Refused, error)
        } else {
            self.lease(wanted, &claim, now)
        };
        let Some(phase) = phase else { return };
        let (lease_ms, grace_ms) = (wanted.lease_ms, wanted.grace_ms);
        // with the slices as they are now
        let claim = self.allocator.claims().get(key).cloned().unwrap_or(claim);
        self.enter(wanted, Record { key: key.clone(), claim, lease_ms, grace_ms, phase });
    }

    /// `None`: not now; it will be tried again.
    fn lease(&mut self, wanted: &Assignment, claim: &Claim, now: BootTime) -> Option<Phase> {
        if let Some(lease_ms) = wanted.lease_ms {
            let hold = Hold::new(self.answered?, lease_ms, wanted.grace_ms);
            if hold.is_over(now) {
                return None;
            }
        }
        match self.allocator.lease(&wanted.key, claim.clone()) {
            Ok(()) => Some(Phase::Leased),
            Err(error) if self.will_pass(&error, claim) => None,
            Err(error) => {
                let instead = match error {
                    LeaseError::Taken { .. }
                    | LeaseError::Unhealthy { .. }
                    | LeaseError::UnknownDevice { .. }
                    | LeaseError::InSlices { .. }
                    | LeaseError::Profile { .. }
                    | LeaseError::Share { .. } => self.allocator.choose(claim),
                    _ => None,
                };
                let named =
                    |numbers: Vec<u32>| numbers.into_iter().map(|n| Piece::of(n).to_string()).collect::<Vec<_>>();
                let hint = instead.map_or_else(String::new, |n| format!("; free here: {}", named(n).join(", ")));
                Some(Phase::Ended(End::unrun(AssignmentState::Refused, format!("{error}{hint}"))))
            }
        }
    }

    /// Whether what is in the way is already on its way out.
    fn will_pass(&self, error: &LeaseError, claim: &Claim) -> bool {
        let leaving = |key: &AssignmentKey| {
            let goal = self.listed.get(key);
            matches!(goal, None | Some(AssignmentGoal::Stop)) || self.allocator.superseded(key)
        };
        match error {
            LeaseError::Taken { by, .. } | LeaseError::CutAnew { by, .. } => leaving(by),
            LeaseError::Cpu { .. } | LeaseError::Memory { .. } | LeaseError::Share { .. } => {
                self.allocator.claims().iter().any(|(key, held)| held.node == claim.node && leaving(key))
            }
            _ => false,
        }
    }

    /// Writes the record down, then acts on it.
    fn enter(&mut self, wanted: &Assignment, mut record: Record) {
        let key = record.key.clone();
        tracing::info!(
            order = %key.order, generation = key.generation, component = %key.component, replica = key.replica,
            phase = ?record.phase, "assignment"
        );
        let hold = match (record.lease_ms, self.answered) {
            (Some(lease_ms), Some(sent)) => Some(Hold::new(sent, lease_ms, record.grace_ms)),
            _ => None,
        };
        let folder = self.base.runtime.folder(&key);
        let saved = self.records.save(&record).and_then(|()| folder.write_hold(hold.as_ref()));
        if let Err(error) = saved {
            tracing::warn!(order = %key.order, %error, "an assignment cannot be recorded");
            if record.phase == Phase::Leased {
                self.allocator.release(&key);
                let message = format!("its record cannot be written here: {error}");
                record.phase = Phase::Ended(End::unrun(AssignmentState::Refused, message));
            }
        }
        self.entries.insert(key, Entry::new(record, Some(wanted.clone()), hold));
        self.update(wanted);
    }

    /// Follows what may change of a known assignment: its lease, its grace, its flows' sockets.
    fn update(&mut self, wanted: &Assignment) {
        let Some(entry) = self.entries.get_mut(&wanted.key).filter(|entry| !entry.is_ended()) else { return };
        let key = &wanted.key;
        if (entry.record.lease_ms, entry.record.grace_ms) != (wanted.lease_ms, wanted.grace_ms) {
            (entry.record.lease_ms, entry.record.grace_ms) = (wanted.lease_ms, wanted.grace_ms);
            entry.hold = match (wanted.lease_ms, self.answered) {
                (Some(lease_ms), Some(sent)) => Some(Hold::new(sent, lease_ms, wanted.grace_ms)),
                _ => None,
            };
            let folder = self.base.runtime.folder(key);
            if let Err(error) = self.records.save(&entry.record).and_then(|()| folder.write_hold(entry.hold.as_ref())) {
                tracing::warn!(order = %key.order, %error, "a changed lease cannot be recorded");
            }
        }
        for endpoint in &wanted.endpoints {
            if let Err(error) = self.base.carrier.endpoint(key, endpoint) {
                tracing::warn!(order = %key.order, flow = endpoint.flow, error, "a flow has no socket");
            }
        }
    }
}
