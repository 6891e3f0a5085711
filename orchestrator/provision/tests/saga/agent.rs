//! What an agent does, without processes and sockets: it follows the newest desired state it was given and says what it has.

use rhumb_model::PointName;
use rhumb_provision::{PointShare, Stamp};
use rhumb_wire::{
    Assignment, AssignmentGoal, AssignmentState, AssignmentStatus, Role, Route, RouteEndState, RouteFigures,
    RoutePurpose, RouteStatus,
    report::{AssignmentKey, RouteKey},
};
use std::collections::BTreeMap;

/// One report, as it travels.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub point: PointName,
    /// Rises with every report of the agent.
    pub seq: u64,
    pub seen: Stamp,
    pub assignments: Vec<AssignmentStatus>,
    pub routes: Vec<RouteStatus>,
}

#[derive(Debug, Clone)]
pub struct Agent {
    pub name: PointName,
    /// Of the newest desired state it was given.
    pub version: Stamp,
    pub runs: BTreeMap<AssignmentKey, Run>,
    pub hops: BTreeMap<RouteKey, Hop>,
    pub habits: Habits,
    /// Neither its reports nor desired states for it get through.
    pub cut: bool,
    /// What it says it measured over every path, and over single ones.
    pub figures: Option<RouteFigures>,
    pub better: Vec<(u32, RouteFigures)>,
    listed: PointShare,
    /// What it was told before its leases ended starts nothing any more.
    floor: Stamp,
    seq: u64,
}

/// How work behaves here.
#[derive(Debug, Clone, Copy)]
pub struct Habits {
    pub leases: Leases,
    pub exit_code: i32,
    /// Steps that a run takes, of a second each.
    pub steps: u32,
    /// Steps between being told to stop and having stopped.
    pub grace: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leases {
    Grant,
    Refuse,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub state: AssignmentState,
    pub ran_us: u64,
    left: u32,
    stopping: u32,
    exit_code: Option<i32>,
}

#[derive(Debug, Clone)]
pub struct Hop {
    pub route: Route,
    pub state: RouteEndState,
    pub bytes: u64,
    /// At the source: the leg's bytes take this path.
    pub carrying: bool,
    /// Torn down, not yet gone.
    closing: bool,
}

impl Hop {
    pub fn is_open(&self) -> bool {
        !self.closing && self.state != RouteEndState::Failed
    }

    /// The bytes it is to move, once it may.
    pub fn volume(&self) -> Option<u64> {
        match &self.route.purpose {
            RoutePurpose::Transfer { bytes, start: true, .. } => Some(*bytes),
            RoutePurpose::Transfer { .. } | RoutePurpose::Stream { .. } => None,
        }
    }
}

impl Agent {
    pub fn new(name: PointName) -> Self {
        Self {
            name,
            version: Stamp::default(),
            runs: BTreeMap::new(),
            hops: BTreeMap::new(),
            habits: Habits { leases: Leases::Grant, exit_code: 0, steps: 3, grace: 1 },
            cut: false,
            figures: None,
            better: Vec::new(),
            listed: PointShare::default(),
            floor: Stamp::default(),
            seq: 0,
        }
    }

    /// Takes a desired state over, unless it knows a newer one.
    pub fn accept(&mut self, stamp: Stamp, share: &PointShare) {
        if self.cut || stamp <= self.version {
            return;
        }
        self.version = stamp;
        self.listed = share.clone();
        for (key, hop) in &mut self.hops {
            match share.routes.iter().find(|r| &r.key == key) {
                Some(route) if !hop.closing => hop.route = route.clone(),
                _ => hop.closing = true,
            }
        }
        for route in &share.routes {
            let fresh = || Hop {
                route: route.clone(),
                state: RouteEndState::Building,
                bytes: 0,
                carrying: false,
                closing: false,
            };
            self.hops.entry(route.key.clone()).or_insert_with(fresh);
        }
    }

    /// One second of doing what is due.
    pub fn step(&mut self) {
        for wanted in self.listed.assignments.clone() {
            self.meet(&wanted);
        }
        for (key, run) in &mut self.runs {
            let wanted = self.listed.assignments.iter().find(|a| &a.key == key);
            advance(run, wanted, &self.hops, self.habits);
        }
        let listed = |key: &AssignmentKey| self.listed.assignments.iter().any(|a| &a.key == key);
        self.runs.retain(|key, run| listed(key) || !is_over(run.state));
        self.hops.retain(|_, hop| !hop.closing);
    }

    fn meet(&mut self, wanted: &Assignment) {
        if self.runs.contains_key(&wanted.key) {
            return;
        }
        let state = match (wanted.goal, self.habits.leases) {
            (AssignmentGoal::Stop, _) => AssignmentState::Stopped,
            _ if self.version <= self.floor => return,
            (_, Leases::Refuse) => AssignmentState::Refused,
            (_, Leases::Grant) => AssignmentState::Leased,
        };
        let run = Run { state, ran_us: 0, left: self.habits.steps, stopping: 0, exit_code: None };
        self.runs.insert(wanted.key.clone(), run);
    }

    pub fn report(&mut self) -> Message {
        self.seq += 1;
        let assignment = |(key, run): (&AssignmentKey, &Run)| AssignmentStatus {
            key: key.clone(),
            state: run.state,
            exit_code: run.exit_code,
            signal: None,
            ran_us: run.ran_us,
            started_us: None,
            staged_bytes: 0,
            staged_sha256: Vec::new(),
            checkpoint: None,
            message: String::new(),
        };
        let route = |(key, hop): (&RouteKey, &Hop)| RouteStatus {
            key: key.clone(),
            state: hop.state,
            bytes: hop.bytes,
            bytes_back: 0,
            message: String::new(),
            figures: self.better.iter().find(|(path, _)| *path == key.path).map(|(_, f)| *f).or(self.figures),
            carrying: hop.carrying,
        };
        Message {
            point: self.name.clone(),
            seq: self.seq,
            seen: self.version,
            assignments: self.runs.iter().map(assignment).collect(),
            routes: self.hops.iter().map(route).collect(),
        }
    }

    /// It was not answered for too long: its leases end, and with them whatever had one. `told`: the newest stamp that
    /// anything was published under until now.
    pub fn expire(&mut self, told: Stamp) {
        self.floor = told;
        for run in self.runs.values_mut().filter(|run| !is_over(run.state)) {
            run.state = AssignmentState::Stopped;
        }
    }

    /// Its host was restarted: what ran left no record of its end, and every circuit is built anew.
    pub fn reboot(&mut self) {
        for run in self.runs.values_mut().filter(|run| run.state == AssignmentState::Running) {
            run.state = AssignmentState::Lost;
        }
        self.rebuild();
    }

    /// Only the agent was restarted: the work goes on, circuits are built anew.
    pub fn rebuild(&mut self) {
        for hop in self.hops.values_mut() {
            hop.state = RouteEndState::Building;
        }
    }

    /// What runs here does not end within a test.
    pub fn run_on(&mut self) {
        self.runs.values_mut().for_each(|run| run.left = u32::MAX);
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.hops.is_empty()
    }

    pub fn running(&self) -> impl Iterator<Item = &AssignmentKey> {
        self.runs.iter().filter(|(_, run)| run.state == AssignmentState::Running).map(|(key, _)| key)
    }
}

fn advance(run: &mut Run, wanted: Option<&Assignment>, hops: &BTreeMap<RouteKey, Hop>, habits: Habits) {
    let goal = wanted.map(|w| w.goal);
    if is_over(run.state) {
        return;
    }
    let Some(wanted) = wanted.filter(|_| goal != Some(AssignmentGoal::Stop)) else {
        if run.state != AssignmentState::Running || run.stopping >= habits.grace {
            run.state = AssignmentState::Stopped;
        }
        run.stopping += 1;
        return;
    };
    match run.state {
        AssignmentState::Leased => {
            let here = |leg: u32| {
                hops.values().any(|h| {
                    h.route.key.leg == leg
                        && h.route.key.generation == wanted.key.generation
                        && h.route.role == Role::Sink
                        && h.state == RouteEndState::Done
                })
            };
            if wanted.inputs.iter().all(|i| i.leg.is_none_or(here)) {
                run.state = AssignmentState::Staged;
            }
        }
        AssignmentState::Staged if goal == Some(AssignmentGoal::Run) => run.state = AssignmentState::Running,
        AssignmentState::Running => {
            run.ran_us += 1_000_000;
            let service = wanted.key.component.as_str() == "server" || wanted.key.component.as_str() == "index";
            run.left = run.left.saturating_sub(1);
            if run.left == 0 && !service {
                run.state = AssignmentState::Exited;
                run.exit_code = Some(habits.exit_code);
            }
        }
        _ => {}
    }
}

fn is_over(state: AssignmentState) -> bool {
    matches!(
        state,
        AssignmentState::Exited | AssignmentState::Stopped | AssignmentState::Refused | AssignmentState::Lost
    )
}
