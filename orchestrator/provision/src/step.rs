//! `step`: the next state after an event. Total: every phase answers every event.

use crate::saga::{Goal, LegPurpose, RunEnd, Saga, Stamp};
use jiff::Timestamp;
use rhumb_model::{Phase, PointName, SiteName};
use rhumb_wire::{AssignmentState, AssignmentStatus, RouteEndState, RouteStatus};
use std::collections::BTreeSet;

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A point's full report of what it has of this order and generation, made on the desired state `seen`.
    Report { point: PointName, seen: Stamp, assignments: Vec<AssignmentStatus>, routes: Vec<RouteStatus> },
    /// The tenant asked to stop.
    Cancel,
    /// A site has not been heard of for longer than the order's lease (with a margin): its own lease has ended.
    LeaseEnded { site: SiteName },
    /// A site has not been heard of for longer than the grace; nothing was started there yet, or this means nothing.
    SiteLost { site: SiteName },
    /// Time passes.
    Tick { limit: PhaseLimit },
}

/// How long a phase may take before the generation is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseLimit {
    /// Of holding, routing and starting.
    pub step: jiff::SignedDuration,
    /// Of staging, beyond what the plan says it takes.
    pub staging: jiff::SignedDuration,
}

/// Something a person would want to read in the order's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub kind: &'static str,
    /// The phase that it was written in.
    pub phase: Phase,
    pub message: String,
}

/// The outcome of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub saga: Saga,
    /// Anything to store?
    pub changed: bool,
    /// Does any point's desired state change?
    pub desired_changed: bool,
    pub notes: Vec<Note>,
    /// Everything is torn down: bill this generation, give back its holdings, then do what the goal says.
    pub settled: bool,
}

struct Stepper {
    saga: Saga,
    notes: Vec<Note>,
    now: Timestamp,
    next: Stamp,
    desired_changed: bool,
    settled: bool,
}

/// The state after `event`. `next` stamps the desired state that follows if it changes.
pub fn step(before: &Saga, event: Event, now: Timestamp, next: Stamp) -> Step {
    let mut s = Stepper {
        saga: before.clone(),
        notes: Vec::new(),
        now,
        next,
        desired_changed: false,
        settled: false,
    };
    if before.phase != Phase::Settling {
        match event {
            Event::Report { point, seen, assignments, routes } => s.report(&point, seen, &assignments, &routes),
            Event::Cancel => s.cancel(),
            Event::LeaseEnded { site } => s.lease_ended(site),
            Event::SiteLost { site } => s.site_lost(&site),
            Event::Tick { limit } => s.tick(limit),
        }
        s.advance();
    }
    let changed = s.saga != *before;
    Step { saga: s.saga, changed, desired_changed: s.desired_changed, notes: s.notes, settled: s.settled }
}

impl Stepper {
    fn note(&mut self, kind: &'static str, message: impl Into<String>) {
        self.notes.push(Note { kind, phase: self.saga.phase, message: message.into() });
    }

    fn enter(&mut self, phase: Phase) {
        self.saga.phase = phase;
        self.saga.phase_since = self.now;
        self.saga.barrier = self.next;
        self.saga.confirmed.clear();
        self.desired_changed = true;
        self.note("phase", format!("order is {phase}"));
    }

    /// Leaves the way to completion: what runs is stopped, what was built is torn down.
    fn turn(&mut self, goal: Goal, cause: impl Into<String>) {
        let cause = cause.into();
        let stronger = matches!((self.saga.goal, goal), (Goal::Complete, _) | (Goal::Replace, Goal::Cancel | Goal::Fail));
        if !stronger {
            return;
        }
        self.saga.goal = goal;
        self.note("turn", cause.clone());
        self.saga.cause = cause;
        if self.saga.phase < Phase::Stopping {
            self.saga.ran_to = self.saga.ran_from.and(Some(self.now));
            self.enter(Phase::Stopping);
        }
    }

    fn report(&mut self, point: &PointName, seen: Stamp, statuses: &[AssignmentStatus], routes: &[RouteStatus]) {
        let mut lost = None;
        for r in self.saga.replicas.iter_mut().filter(|r| &r.site == point) {
            let Some(s) = statuses.iter().find(|s| s.key.component == r.component && s.key.replica == r.replica) else {
                continue;
            };
            // an ended run never comes back to life by a late report
            if r.end.is_some() && matches!(s.state, AssignmentState::Leased | AssignmentState::Staged | AssignmentState::Running) {
                continue;
            }
            r.seen = Some(s.state);
            r.ran_us = r.ran_us.max(s.ran_us);
            match s.state {
                AssignmentState::Exited if r.end.is_none() => {
                    r.end = Some(RunEnd { exit_code: s.exit_code, signal: s.signal, message: s.message.clone() });
                }
                AssignmentState::Refused => lost = Some(format!("site {point} refused {}: {}", r.component, s.message)),
                AssignmentState::Lost => lost = Some(format!("site {point} lost {} {}", r.component, r.replica)),
                AssignmentState::Stopped if self.saga.phase < Phase::Stopping => {
                    lost = Some(format!("site {point} stopped {} {}: {}", r.component, r.replica, s.message));
                }
                _ => {}
            }
        }
        let mut failed = None;
        for leg in self.saga.legs.iter_mut().filter(|l| l.points.contains(point)) {
            if let Some(r) = routes.iter().find(|r| r.key.leg == leg.leg) {
                leg.seen.insert(point.clone(), r.state);
                let bytes = leg.bytes.entry(point.clone()).or_default();
                *bytes = (*bytes).max(r.bytes + r.bytes_back);
                if r.state == RouteEndState::Failed {
                    failed = Some(format!("route of flow {} failed at {point}: {}", leg.flow, r.message));
                }
            } else if seen >= self.saga.barrier {
                leg.seen.remove(point);
            }
        }
        // once the work is being wound up, what ends is what was asked to end
        if let Some(cause) = lost.or(failed).filter(|_| self.saga.phase < Phase::Stopping) {
            self.turn(Goal::Replace, cause);
        }
        self.confirm(point, seen, statuses, routes);
    }

    /// Notes whether a report shows that the point is done with what this phase waits for.
    fn confirm(&mut self, point: &PointName, seen: Stamp, statuses: &[AssignmentStatus], routes: &[RouteStatus]) {
        if seen < self.saga.barrier {
            return;
        }
        let quiet = |s: &AssignmentStatus| {
            matches!(
                s.state,
                AssignmentState::Exited | AssignmentState::Stopped | AssignmentState::Refused | AssignmentState::Lost
            )
        };
        let done = match self.saga.phase {
            Phase::Stopping => statuses.iter().all(quiet),
            Phase::Unrouting => routes.is_empty(),
            Phase::Releasing => routes.is_empty() && statuses.is_empty(),
            _ => false,
        };
        if done {
            self.saga.confirmed.insert(point.clone());
        }
    }

    fn cancel(&mut self) {
        self.turn(Goal::Cancel, "cancelled by its tenant");
    }

    fn lease_ended(&mut self, site: SiteName) {
        if self.saga.points().contains(&site) && self.saga.dead.insert(site.clone()) {
            self.turn(Goal::Replace, format!("lease at {site} has ended: nothing of this order runs there any more"));
            // teardown that waited for this site goes on without it
            self.note("lease_ended", format!("site {site} is given up for generation {}", self.saga.generation));
        }
    }

    fn site_lost(&mut self, site: &SiteName) {
        // before the command to start was given, nothing can run there: the generation can be given up safely
        let started = self.saga.ran_from.is_some();
        if !started && self.saga.phase < Phase::Starting && self.saga.points().contains(site) {
            self.saga.dead.insert(site.clone());
            self.turn(Goal::Replace, format!("site {site} was lost before the work started"));
        }
    }

    fn tick(&mut self, limit: PhaseLimit) {
        let waited = self.now.duration_since(self.saga.phase_since);
        let allowed = match self.saga.phase {
            Phase::Holding | Phase::Routing | Phase::Starting => limit.step,
            Phase::Staging => limit.staging + self.staging_time(),
            _ => return,
        };
        if waited > allowed {
            self.turn(Goal::Replace, format!("{} took longer than {} s", self.saga.phase, allowed.as_secs()));
        }
    }

    fn staging_time(&self) -> jiff::SignedDuration {
        let longest = self.saga.legs.iter().filter_map(|l| match &l.purpose {
            LegPurpose::Inbound { bytes, .. } => Some(bytes.saturating_mul(8) / l.rate.kbps().max(1)),
            _ => None,
        });
        jiff::SignedDuration::from_millis(longest.max().unwrap_or(0) as i64 * 3)
    }

    /// Moves on while the present phase has what it waits for.
    fn advance(&mut self) {
        while let Some(next) = self.next_phase() {
            if next == Phase::Starting && self.saga.ran_from.is_none() {
                self.saga.ran_from = Some(self.now);
            }
            if next == Phase::Stopping && self.saga.ran_to.is_none() {
                self.saga.ran_to = self.saga.ran_from.and(Some(self.now));
            }
            self.enter(next);
            if next == Phase::Settling {
                self.settled = true;
                return;
            }
        }
    }

    fn next_phase(&mut self) -> Option<Phase> {
        use AssignmentState as A;
        let all = |ok: fn(A) -> bool| self.saga.replicas.iter().all(|r| r.seen.is_some_and(ok));
        let inbound = |l: &&crate::saga::LegState| matches!(l.purpose, LegPurpose::Inbound { .. });
        let outbound = |l: &&crate::saga::LegState| matches!(l.purpose, LegPurpose::Outbound { .. });
        match self.saga.phase {
            Phase::Reserving => Some(Phase::Holding),
            Phase::Holding => {
                all(|s| matches!(s, A::Leased | A::Staged | A::Running | A::Exited)).then_some(Phase::Routing)
            }
            Phase::Routing => {
                self.saga.legs.iter().all(crate::saga::LegState::is_active).then_some(Phase::Staging)
            }
            Phase::Staging => {
                let arrived = self.saga.legs.iter().filter(inbound).all(crate::saga::LegState::is_done);
                (arrived && all(|s| matches!(s, A::Staged | A::Running | A::Exited))).then_some(Phase::Starting)
            }
            Phase::Starting => all(|s| matches!(s, A::Running | A::Exited)).then_some(Phase::Running),
            Phase::Running => {
                let failed = self
                    .saga
                    .replicas
                    .iter()
                    .find_map(|r| r.end.as_ref().filter(|e| r.service || !e.is_success()).map(|e| (r, e)));
                if let Some((r, end)) = failed {
                    let cause = format!("{} replica {} at {} {}", r.component, r.replica, r.site, how(end));
                    self.turn(Goal::Fail, cause);
                    return None;
                }
                // services end with the work they serve, or by cancel when there is none
                let mut workers = self.saga.replicas.iter().filter(|r| !r.service).peekable();
                let ended = workers.peek().is_some() && workers.all(|r| r.end.is_some());
                let delivered = ended && self.saga.legs.iter().filter(outbound).all(crate::saga::LegState::is_done);
                if ended && self.saga.ran_to.is_none() {
                    self.saga.ran_to = Some(self.now);
                    self.desired_changed = true; // results start to move
                }
                delivered.then_some(Phase::Stopping)
            }
            Phase::Stopping => self.confirmed_by(&self.saga.sites()).then_some(Phase::Unrouting),
            Phase::Unrouting => self.confirmed_by(&self.saga.points()).then_some(Phase::Releasing),
            Phase::Releasing => self.confirmed_by(&self.saga.points()).then_some(Phase::Settling),
            Phase::Settling => None,
        }
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
