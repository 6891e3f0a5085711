//! What a point says, folded into what is known.

use super::{
    Stepper,
    paths::{Heard, Told},
};
use crate::saga::{Goal, RunEnd, Stamp};
use rhumb_model::{Phase, PointName};
use rhumb_wire::{AssignmentState, AssignmentStatus, RouteStatus, report::is_checkpoint_name};

impl Stepper {
    pub(super) fn report(
        &mut self,
        point: &PointName,
        seen: Stamp,
        assignments: &[AssignmentStatus],
        routes: &[RouteStatus],
    ) {
        if !self.saga.points().contains(point) {
            return;
        }
        let generation = self.saga.generation;
        let assignments: Vec<_> = assignments.iter().filter(|a| a.key.generation == generation).collect();
        let routes: Vec<_> = routes.iter().filter(|r| r.key.generation == generation).collect();
        let lost = self.assignments(point, &assignments);
        let failed = self.routes(point, seen, &routes);
        if let Some((goal, cause)) = lost.or(failed) {
            self.turn(goal, cause);
        }
        if seen >= self.saga.barrier && self.is_through(&assignments, &routes) {
            self.saga.confirmed.insert(point.clone());
        }
    }

    /// What the point says of its replicas; gives why the generation cannot go on, if so.
    fn assignments(&mut self, point: &PointName, statuses: &[&AssignmentStatus]) -> Option<(Goal, String)> {
        let mut lost = None;
        let mut told = Vec::new();
        for r in self.saga.replicas.iter_mut().filter(|r| &r.site == point) {
            let Some(s) = statuses.iter().find(|s| s.key.component == r.component && s.key.replica == r.replica) else {
                continue;
            };
            // an end is an end: nothing that comes late, or comes of a second run, brings it back to life
            if r.end.is_some() {
                continue;
            }
            r.ran_us = r.ran_us.max(s.ran_us);
            if let Some(name) = s
                .checkpoint
                .as_ref()
                .filter(|name| is_checkpoint_name(name))
                .filter(|name| r.checkpoint.as_ref() != Some(name))
            {
                r.checkpoint = Some(name.clone());
                told.push(format!("{} replica {} has the checkpoint {name}", r.component, r.replica));
            }
            if r.seen.is_some_and(is_over) {
                continue;
            }
            r.seen = Some(s.state);
            let why = match s.state {
                AssignmentState::Exited => {
                    r.end = Some(RunEnd { exit_code: s.exit_code, signal: s.signal, message: s.message.clone() });
                    continue;
                }
                AssignmentState::Leased | AssignmentState::Staged | AssignmentState::Running => continue,
                AssignmentState::Refused => "refused",
                AssignmentState::Lost => "lost",
                AssignmentState::Stopped => "stopped",
            };
            let tail = if s.message.is_empty() { String::new() } else { format!(": {}", s.message) };
            let cause = format!("{point} {why} {} replica {}{tail}", r.component, r.replica);
            lost.get_or_insert((Goal::Replace, cause));
        }
        for message in told {
            self.note("checkpoint", message);
        }
        lost
    }

    /// What the point says of its hops; gives why the generation cannot go on, if so.
    fn routes(&mut self, point: &PointName, seen: Stamp, statuses: &[&RouteStatus]) -> Option<(Goal, String)> {
        let mut given_up = None;
        for index in 0..self.saga.legs.len() {
            let needed = self.needs_leg(&self.saga.legs[index]);
            let ended = self.saga.ran_to.is_some();
            let heard = Heard { point, current: seen >= self.saga.barrier, seen, at: self.now, phase: self.saga.phase };
            let leg = &mut self.saga.legs[index];
            let Told { failed, took, missing } = leg.hear(&heard, statuses);
            let flow = leg.flow;
            // what the kernels do not carry the agents do, over the same links
            let failed: Vec<(u32, String)> = failed
                .into_iter()
                .filter(|(path, why)| !self.relays_instead(index, *path, &format!("at {point} {why}")))
                .collect();
            let leg = &self.saga.legs[index];
            let carry = leg.carry();
            // at an end, or before the work runs; elsewhere the leg takes another path
            let fatal = carry.is_end(point) || self.saga.phase < Phase::Starting;
            if let Some((_, why)) = failed.iter().find(|(path, _)| *path == carry.path && needed && fatal) {
                // what the work was to leave behind is not there: another place would not make it appear
                let fault = leg.is_outbound() && ended && leg.source() == point;
                let goal = if fault { Goal::Fail } else { Goal::Replace };
                let cause = format!("route of flow {} failed at {point}: {why}", leg.flow);
                given_up.get_or_insert((goal, cause));
            }
            if (Phase::Routing..=Phase::Running).contains(&self.saga.phase) {
                for path in missing {
                    self.note("drift", format!("flow {flow}'s hop at {point} is gone from its path over {path}"));
                }
            }
            self.settle_paths(index, took);
        }
        given_up
    }

    /// Whether a point of which this is all there is has done what the present phase waits for.
    fn is_through(&self, assignments: &[&AssignmentStatus], routes: &[&RouteStatus]) -> bool {
        match self.saga.phase {
            Phase::Stopping => assignments.iter().all(|a| is_over(a.state)),
            Phase::Unrouting => routes.is_empty(),
            Phase::Releasing => routes.is_empty() && assignments.is_empty(),
            Phase::Reserving
            | Phase::Holding
            | Phase::Routing
            | Phase::Staging
            | Phase::Starting
            | Phase::Running
            | Phase::Settling => false,
        }
    }
}

/// Nothing of it runs or will run.
fn is_over(state: AssignmentState) -> bool {
    match state {
        AssignmentState::Exited | AssignmentState::Stopped | AssignmentState::Refused | AssignmentState::Lost => true,
        AssignmentState::Leased | AssignmentState::Staged | AssignmentState::Running => false,
    }
}
