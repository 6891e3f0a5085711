//! `step`: the next state after an event. Total: every phase answers every event.

mod carriage;
mod paths;
mod progress;
mod report;

use crate::{
    leg::LegState,
    path::PathRole,
    saga::{Goal, Saga, Stamp},
};
use jiff::{SignedDuration, Timestamp};
use rhumb_model::{Bandwidth, Latency, LinkId, Phase, PointName, SiteName};
use rhumb_wire::{AssignmentStatus, RouteStatus};

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A point's full report of what it has of this order, made on the desired state `seen`. What is of another
    /// generation does not count.
    Report { point: PointName, seen: Stamp, assignments: Vec<AssignmentStatus>, routes: Vec<RouteStatus> },
    /// The tenant asked to stop.
    Cancel,
    /// A point has not been heard of for longer than the order's lease (with a margin): whatever lease it had has ended.
    LeaseEnded { site: SiteName },
    /// A point has not been heard of for longer than the grace: where nothing was started yet it is given up; else this
    /// means nothing.
    SiteLost { site: SiteName },
    /// Time passes.
    Tick { limit: PhaseLimit },
    /// What the links' own figures say of paths, and that time passes for these.
    Watch { sights: Vec<Sight> },
    /// There is another path for a leg, and its links are held.
    Reroute(NewPath),
    /// There is none.
    NoPath { leg: u32, role: PathRole, reason: String },
    /// An agent is reached at another port by tunnels that end there.
    Moved { point: PointName, port: u16 },
    /// The tenant has other terms for flows, and they can be kept.
    Amend { legs: Vec<LegTerms> },
}

/// The one-way delay of a path by the figures of its links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    pub leg: u32,
    pub path: u32,
    pub latency: Latency,
}

/// A path to build: to carry (`Next`) or to stand by (`Backup`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPath {
    pub leg: u32,
    pub links: Vec<LinkId>,
    /// One more than links, source first.
    pub points: Vec<PointName>,
    pub role: PathRole,
}

/// What a leg has to keep from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LegTerms {
    pub leg: u32,
    pub rate: Bandwidth,
    /// Without a region's access.
    pub bound: Option<Latency>,
    pub paths: Present,
}

/// What becomes of a leg's present paths under other terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Present {
    /// They keep these terms, too.
    Follow,
    /// They stay what they are until another path has taken over.
    Stay,
}

/// How long a phase may take before the generation is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseLimit {
    /// Of holding, routing and starting.
    pub step: SignedDuration,
    /// Of staging, beyond what the plan says it takes.
    pub staging: SignedDuration,
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

/// The state after `event`. `next` stamps the desired state that follows if it changes; under an older epoch than that of
/// the state nothing is done, as whoever led then leads no more.
pub fn step(before: &Saga, event: Event, now: Timestamp, next: Stamp) -> Step {
    let mut s = Stepper { saga: before.clone(), notes: Vec::new(), now, next, desired_changed: false, settled: false };
    if before.phase != Phase::Settling && next.epoch >= before.barrier.epoch {
        s.take_over();
        match event {
            Event::Report { point, seen, assignments, routes } => s.report(&point, seen, &assignments, &routes),
            Event::Cancel => s.turn(Goal::Cancel, "cancelled by its tenant"),
            Event::LeaseEnded { site } => s.lease_ended(&site),
            Event::SiteLost { site } => s.site_lost(&site),
            Event::Tick { limit } => s.tick(limit),
            Event::Watch { sights } => s.watch(&sights),
            Event::Reroute(path) => s.reroute(path),
            Event::NoPath { leg, role, reason } => s.no_path(leg, role, reason),
            Event::Moved { point, port } => s.moved(&point, port),
            Event::Amend { legs } => s.amend(&legs),
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

    /// The first step of a new epoch. Nobody led in between: that time is not held against the phase, and only what is
    /// reported on this epoch's desired state confirms anything.
    fn take_over(&mut self) {
        if self.next.epoch > self.saga.barrier.epoch {
            self.saga.barrier = Stamp { epoch: self.next.epoch, generation: 0 };
            self.saga.phase_since = self.now;
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.saga.phase = phase;
        self.saga.phase_since = self.now;
        self.saga.barrier = self.next;
        self.saga.confirmed.clear();
        self.desired_changed = true;
        self.note("phase", format!("order is {phase}"));
    }

    /// Leaves the way to completion: what runs is stopped, what was built is torn down. Work that has ended well and is
    /// being wound up stays complete.
    fn turn(&mut self, goal: Goal, cause: impl Into<String>) {
        let possible = match self.saga.goal {
            Goal::Complete => self.saga.phase < Phase::Stopping && goal != Goal::Complete,
            Goal::Replace => goal == Goal::Cancel,
            Goal::Cancel | Goal::Fail => false,
        };
        if !possible {
            return;
        }
        let cause = cause.into();
        self.saga.goal = goal;
        self.note("turn", cause.clone());
        self.saga.cause = cause;
        if self.saga.phase < Phase::Stopping {
            self.end_run();
            self.enter(Phase::Stopping);
        }
    }

    /// Notes when the run ended, if there was one.
    fn end_run(&mut self) {
        if self.saga.ran_from.is_some() && self.saga.ran_to.is_none() {
            self.saga.ran_to = Some(self.now);
        }
    }

    /// From now on nothing waits for the point.
    fn give_up(&mut self, point: &PointName, kind: &'static str, cause: String) {
        if self.saga.dead.insert(point.clone()) {
            self.turn(Goal::Replace, cause);
            self.note(kind, format!("{point} is given up for generation {}", self.saga.generation));
        }
    }

    fn lease_ended(&mut self, point: &PointName) {
        let concerned = self.saga.points().contains(point);
        if concerned && !self.needs(point) && self.saga.phase < Phase::Stopping {
            self.silent(point);
        }
        // what it was needed for is over: it is waited for only once it is torn down, and given up then
        if concerned && (self.saga.phase >= Phase::Stopping || self.needs(point)) {
            let cause = format!("lease at {point} has ended: nothing of this order runs there any more");
            self.give_up(point, "lease_ended", cause);
        }
    }

    /// A point that nobody waits for any more, while the work goes on: what was to go there is gone.
    fn silent(&mut self, point: &PointName) {
        for index in 0..self.saga.legs.len() {
            for path in self.saga.legs[index].paths.iter_mut().filter(|p| p.role == PathRole::Closing) {
                if path.points.contains(point) {
                    path.silent.insert(point.clone());
                    path.gone.insert(point.clone());
                }
            }
            self.settle_paths(index, false);
        }
    }

    fn site_lost(&mut self, point: &PointName) {
        // before the command to start was given, nothing can run there: the generation can be given up safely
        if self.saga.ran_from.is_none() && self.saga.points().contains(point) {
            self.give_up(point, "site_lost", format!("{point} was lost before the work started"));
        }
    }

    /// Whether the point has a part in what is yet to be done on the way to completion.
    fn needs(&self, point: &PointName) -> bool {
        let runs = |r: &crate::saga::ReplicaState| &r.site == point && r.end.is_none() && self.saga.ran_to.is_none();
        self.saga.phase < Phase::Starting
            || self.saga.replicas.iter().any(runs)
            || self.saga.legs.iter().any(|l| self.needs_leg(l) && Self::needs_on_leg(l, point))
    }

    /// One of its ends, or what it passes while there is no other way.
    fn needs_on_leg(leg: &LegState, point: &PointName) -> bool {
        let stuck = leg.trouble.as_ref().is_some_and(|t| t.stuck.is_some());
        leg.carry().is_end(point) || (stuck && leg.carry().points.contains(point))
    }

    fn needs_leg(&self, leg: &LegState) -> bool {
        leg.is_needed(&self.saga)
    }

    fn tick(&mut self, limit: PhaseLimit) {
        let allowed = match self.saga.phase {
            Phase::Reserving | Phase::Holding | Phase::Routing | Phase::Starting => limit.step,
            Phase::Staging => limit.staging.saturating_add(self.staging_time()),
            Phase::Running | Phase::Stopping | Phase::Unrouting | Phase::Releasing | Phase::Settling => return,
        };
        if self.now.duration_since(self.saga.phase_since) > allowed {
            self.turn(Goal::Replace, format!("{} took longer than {} s", self.saga.phase, allowed.as_secs()));
        }
    }

    /// Three times what the longest inbound leg takes at its rate.
    fn staging_time(&self) -> SignedDuration {
        let longest = self.saga.legs.iter().filter_map(LegState::staging_time).max().unwrap_or_default();
        longest.saturating_mul(3)
    }
}
