//! From phase to phase.

use super::Stepper;
use crate::{
    leg::LegState,
    saga::{Goal, RunEnd},
};
use rhumb_model::{Phase, PointName};
use rhumb_wire::AssignmentState as A;
use std::collections::BTreeSet;

/// Routes told of one by one, at most.
const TOLD: usize = 16;

impl Stepper {
    /// Moves on while the present phase has what it waits for.
    pub(super) fn advance(&mut self) {
        loop {
            self.judge_ends();
            let Some(next) = self.next_phase() else { return };
            match next {
                Phase::Staging => self.tell_routes(),
                Phase::Starting => self.saga.ran_from = Some(self.now),
                Phase::Stopping => self.end_run(),
                _ => {}
            }
            self.enter(next);
            if next == Phase::Settling {
                self.settled = true;
                return;
            }
        }
    }

    /// What was measured over the paths that stand now.
    fn tell_routes(&mut self) {
        let told = |leg: &LegState| {
            let carry = leg.carry();
            let measured = carry.measured().map(|m| format!(", {m} measured")).unwrap_or_default();
            format!("flow {} is active over {}{measured}", leg.flow, carry.named())
        };
        let told: Vec<String> = self.saga.legs.iter().take(TOLD).map(told).collect();
        for message in told {
            self.note("route", message);
        }
    }

    /// Work that ended badly fails the order; work that has all ended lets its results move.
    fn judge_ends(&mut self) {
        if !matches!(self.saga.phase, Phase::Starting | Phase::Running) {
            return;
        }
        if let Some((r, end)) = self.saga.replicas.iter().find_map(|r| Some((r, r.failure()?))) {
            let cause = format!("{} replica {} at {} {}", r.component, r.replica, r.site, how(end));
            self.turn(Goal::Fail, cause);
        } else if self.saga.phase == Phase::Running && self.has_ended() && self.saga.ran_to.is_none() {
            self.end_run();
            self.desired_changed = true;
        }
    }

    /// Services end with the work they serve, or by cancel when there is none.
    fn has_ended(&self) -> bool {
        let mut workers = self.saga.replicas.iter().filter(|r| !r.service).peekable();
        workers.peek().is_some() && workers.all(|r| r.end.is_some())
    }

    fn next_phase(&self) -> Option<Phase> {
        let saga = &self.saga;
        let all = |ok: fn(A) -> bool| saga.replicas.iter().all(|r| r.seen.is_some_and(ok));
        let done = |of: fn(&LegState) -> bool| saga.legs.iter().filter(|l| of(l)).all(LegState::is_done);
        let (ready, next) = match saga.phase {
            Phase::Reserving => (true, Phase::Holding),
            Phase::Holding => (all(|s| matches!(s, A::Leased | A::Staged | A::Running | A::Exited)), Phase::Routing),
            Phase::Routing => (saga.legs.iter().all(|l| l.is_verified(&saga.rules)), Phase::Staging),
            Phase::Staging => {
                let staged = all(|s| matches!(s, A::Staged | A::Running | A::Exited));
                (staged && done(LegState::is_inbound), Phase::Starting)
            }
            Phase::Starting => (all(|s| matches!(s, A::Running | A::Exited)), Phase::Running),
            Phase::Running => (self.has_ended() && done(LegState::is_outbound), Phase::Stopping),
            Phase::Stopping => (self.confirmed_by(&saga.sites()), Phase::Unrouting),
            Phase::Unrouting => (self.confirmed_by(&saga.points()), Phase::Releasing),
            Phase::Releasing => (self.confirmed_by(&saga.points()), Phase::Settling),
            Phase::Settling => return None,
        };
        ready.then_some(next)
    }

    fn confirmed_by(&self, points: &BTreeSet<PointName>) -> bool {
        points.iter().all(|p| self.saga.confirmed.contains(p) || self.saga.dead.contains(p))
    }
}

fn how(end: &RunEnd) -> String {
    let tail = if end.message.is_empty() { String::new() } else { format!(": {}", end.message) };
    match (end.exit_code, end.signal) {
        (Some(code), _) => format!("ended with exit code {code}{tail}"),
        (None, Some(signal)) => format!("was ended by signal {signal}{tail}"),
        (None, None) => format!("ended without an exit code{tail}"),
    }
}
