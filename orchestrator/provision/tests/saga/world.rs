//! A saga with the agents it is carried out by. Every step is held against the laws that all steps keep.

use crate::{
    agent::{Agent, Message},
    cases::{Case, at, point},
};
use jiff::{SignedDuration, Timestamp};
use rhumb_model::{OrderId, Phase, PointName};
use rhumb_provision::{
    Ask, Event, Goal, LegPurpose, LegSecrets, NewPath, Note, PathRole, PointShare, RouteProvider, Saga, Sight, Stamp,
    Step, desired,
    step::{PhaseLimit, step},
};
use rhumb_wire::{Duty, Role, Route, RouteEndState, RoutePurpose, report::RouteKey};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

pub const LIMIT: PhaseLimit =
    PhaseLimit { step: SignedDuration::from_secs(60), staging: SignedDuration::from_secs(60) };

/// Phases in which an order of two sites can be met between two rounds.
pub const MET: [Phase; 8] = [
    Phase::Holding,
    Phase::Routing,
    Phase::Staging,
    Phase::Starting,
    Phase::Running,
    Phase::Stopping,
    Phase::Unrouting,
    Phase::Releasing,
];

/// Relays that lie beside every path.
pub const SPARE: [&str; 2] = ["s", "t"];

pub fn at_phase(case: &Case, phase: Phase) -> World {
    let mut world = World::new(case);
    if phase > Phase::Holding {
        world.until_phase(phase);
    }
    world
}

pub fn settles(world: &mut World, goal: Goal) {
    world.until("settling", |w| w.settled);
    assert_eq!(world.saga.goal, goal, "{:?}", world.notes);
}

pub struct World {
    pub case: Case,
    pub saga: Saga,
    pub agents: BTreeMap<PointName, Agent>,
    pub now: Timestamp,
    /// The last stamp given out.
    pub stamp: Stamp,
    pub notes: Vec<Note>,
    /// What each point is to have now.
    pub shares: BTreeMap<PointName, (Stamp, PointShare)>,
    pub settled: bool,
}

impl World {
    pub fn new(case: &Case) -> Self {
        let now = at("2026-11-30T12:00:00Z");
        let saga = case.saga(1, now);
        // two relays that no plan names are there for other paths
        let points = saga.points().into_iter().chain(SPARE.map(point));
        let agents = points.map(|p| (p.clone(), Agent::new(p))).collect();
        let mut world = Self {
            case: case.clone(),
            saga,
            agents,
            now,
            stamp: Stamp { epoch: 1, generation: 1 },
            notes: Vec::new(),
            shares: BTreeMap::new(),
            settled: false,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.stamp.generation += 1;
        self.saga.barrier = self.stamp;
        self.settled = false;
        self.publish();
    }

    /// The next generation, at the same places.
    pub fn replace(&mut self) {
        assert!(self.settled && self.saga.goal == Goal::Replace, "only what was given up is replaced");
        self.saga = self.case.saga(self.saga.generation + 1, self.now);
        self.begin();
    }

    pub fn share(&self, saga: &Saga) -> BTreeMap<PointName, PointShare> {
        let none = |_| LegSecrets { hop_base64: String::new(), seal_base64: String::new() };
        desired(&Line, OrderId(Uuid::nil()), &self.case.order, &self.case.plan, saga, None, none)
    }

    fn publish(&mut self) {
        let mut shares = if self.settled { BTreeMap::new() } else { self.share(&self.saga) };
        let points: BTreeSet<PointName> = self.saga.points().into_iter().chain(self.shares.keys().cloned()).collect();
        for point in points {
            self.shares.insert(point.clone(), (self.stamp, shares.remove(&point).unwrap_or_default()));
        }
        assert!(shares.is_empty(), "what a point is to have must be among the saga's points");
    }

    pub fn next(&self) -> Stamp {
        Stamp { epoch: self.stamp.epoch, generation: self.stamp.generation + 1 }
    }

    /// One step, checked, recorded and published.
    pub fn tell(&mut self, event: Event) -> Step {
        let (before, next) = (self.saga.clone(), self.next());
        let done = step(&before, event.clone(), self.now, next);
        self.check(&before, &event, &done);
        let again_next = if done.desired_changed { Stamp { generation: next.generation + 1, ..next } } else { next };
        let again = step(&done.saga, event, self.now, again_next);
        assert!(!again.changed, "the same again made a difference: {done:?} then {:?}", again.saga);
        self.saga = done.saga.clone();
        self.notes.extend(done.notes.iter().cloned());
        self.settled |= done.settled;
        self.check_teardown(before.phase);
        self.check_paths(&before);
        if done.desired_changed {
            self.stamp = next;
            self.publish();
        }
        done
    }

    pub fn hear(&mut self, message: &Message) -> Step {
        self.tell(Event::Report {
            point: message.point.clone(),
            seen: message.seen,
            assignments: message.assignments.clone(),
            routes: message.routes.clone(),
        })
    }

    pub fn lease_ended(&mut self, name: &str) -> Step {
        let (site, told) = (name.parse().unwrap(), self.stamp);
        let agent = self.agent(name);
        agent.cut = true;
        agent.expire(told);
        self.tell(Event::LeaseEnded { site })
    }

    pub fn site_lost(&mut self, name: &str) -> Step {
        self.agent(name).cut = true;
        self.tell(Event::SiteLost { site: name.parse().unwrap() })
    }

    /// Lets time pass, and the saga notice.
    pub fn wait(&mut self, length: SignedDuration) -> Step {
        self.now += length;
        self.tell(Event::Tick { limit: LIMIT })
    }

    /// What the links say of the paths.
    pub fn watch(&mut self, sights: &[Sight]) -> Step {
        self.tell(Event::Watch { sights: sights.to_vec() })
    }

    /// The desk has found a path by way of these relays and holds it.
    pub fn reroute(&mut self, leg: usize, by: &[&str], role: PathRole) -> Step {
        let of = &self.saga.legs[leg];
        let points: Vec<PointName> =
            [of.source().clone()].into_iter().chain(by.iter().map(|p| point(p))).chain([of.sink().clone()]).collect();
        let links = points.windows(2).map(|p| format!("{}-{}", p[0], p[1]).parse().unwrap()).collect();
        let leg = of.leg;
        self.tell(Event::Reroute(NewPath { leg, links, points, role }))
    }

    /// The orchestrator dies and starts again from what it had recorded.
    pub fn restart(&mut self) {
        let kept = serde_json::to_string(&self.saga).unwrap();
        self.saga = serde_json::from_str(&kept).unwrap();
        self.stamp = Stamp { epoch: self.stamp.epoch + 1, generation: 1 };
        self.publish();
    }

    pub fn agent(&mut self, name: &str) -> &mut Agent {
        self.agents.get_mut(&name.parse::<PointName>().unwrap()).unwrap()
    }

    /// A second of the world without the orchestrator.
    pub fn pass(&mut self) {
        self.now += SignedDuration::from_secs(1);
        for agent in self.agents.values_mut() {
            agent.step();
        }
        self.carry();
        self.check_one_of_each();
    }

    /// A second in which every agent that is not cut off reports and hears.
    pub fn round(&mut self) {
        self.pass();
        let points: Vec<PointName> = self.agents.keys().cloned().collect();
        for point in points {
            self.sync(&point);
        }
    }

    pub fn sync(&mut self, point: &PointName) {
        let Some(agent) = self.agents.get_mut(point).filter(|a| !a.cut) else { return };
        let message = agent.report();
        if !self.settled {
            self.hear(&message);
        }
        self.deliver(point);
    }

    pub fn deliver(&mut self, point: &PointName) {
        if let (Some(agent), Some((stamp, share))) = (self.agents.get_mut(point), self.shares.get(point)) {
            agent.accept(*stamp, share);
        }
    }

    pub fn until(&mut self, what: &str, reached: impl Fn(&Self) -> bool) {
        for _ in 0..100 {
            if reached(self) {
                return;
            }
            self.round();
        }
        panic!("{what} was not reached: {:?} {:?}", self.saga, self.notes);
    }

    pub fn until_phase(&mut self, phase: Phase) {
        self.until(phase.as_str(), |w| w.saga.phase >= phase);
        assert_eq!(self.saga.phase, phase, "{:?}", self.notes);
    }

    /// The phases that the order's history tells, in order.
    pub fn phases(&self) -> Vec<Phase> {
        self.notes.iter().filter(|n| n.kind == "phase").map(|n| n.phase).collect()
    }

    /// Circuits come up where every hop is there; what may move, moves, over the path whose turn it is.
    fn carry(&mut self) {
        let keys: BTreeSet<RouteKey> = self.agents.values().flat_map(|a| a.hops.keys().cloned()).collect();
        let mut standing: BTreeMap<(u64, u32), Vec<RouteKey>> = BTreeMap::new();
        for key in keys {
            let Some(leg) = self.saga.legs.iter().find(|l| l.leg == key.leg) else { continue };
            let Some(path) = leg.paths.iter().find(|p| p.path == key.path) else { continue };
            let hop = |p: &PointName| self.agents[p].hops.get(&key).filter(|h| h.is_open());
            if path.points.iter().all(|p| hop(p).is_some()) {
                standing.entry((key.generation, key.leg)).or_default().push(key);
            } else if let Some(first) = self.agents.get_mut(&path.points[0]).and_then(|a| a.hops.get_mut(&key))
                && first.state == RouteEndState::Active
                && first.is_open()
            {
                first.state = RouteEndState::Degraded;
            }
        }
        for keys in standing.into_values() {
            self.carry_leg(&keys);
        }
    }

    /// One of the leg's paths that stand carries: the one asked to, or that did, or any that stands by.
    fn carry_leg(&mut self, keys: &[RouteKey]) {
        let points = |key: &RouteKey| {
            let leg = self.saga.legs.iter().find(|l| l.leg == key.leg).unwrap();
            leg.paths.iter().find(|p| p.path == key.path).unwrap().points.clone()
        };
        let source = |key: &RouteKey| &self.agents[&points(key)[0]].hops[key];
        let duty = |key: &RouteKey| source(key).route.duty;
        let asked = keys.iter().find(|k| duty(k) == Duty::Carry);
        let helped = keys.iter().find(|k| duty(k) == Duty::Standby && source(k).state != RouteEndState::Building);
        let carrier = asked.or(helped).cloned();
        let reached = carrier.as_ref().map(|key| (key, source(key).volume()));
        let volume = reached.and_then(|(key, volume)| volume.filter(|_| source(key).state != RouteEndState::Building));
        for key in keys {
            let mine = carrier.as_ref() == Some(key);
            for (i, point) in points(key).into_iter().enumerate() {
                let hop = self.agents.get_mut(&point).and_then(|a| a.hops.get_mut(key)).unwrap();
                hop.carrying = mine && i == 0;
                hop.state = match (mine, volume, hop.state) {
                    (_, _, RouteEndState::Done) => RouteEndState::Done,
                    (true, Some(bytes), _) => {
                        hop.bytes = bytes;
                        RouteEndState::Done
                    }
                    _ => RouteEndState::Active,
                };
            }
        }
        if let Some(carrier) = carrier {
            let source = points(&carrier)[0].clone();
            let of_leg = |k: &RouteKey| (k.generation, k.leg) == (carrier.generation, carrier.leg) && *k != carrier;
            let hops = &mut self.agents.get_mut(&source).unwrap().hops;
            hops.iter_mut().filter(|(k, _)| of_leg(k)).for_each(|(_, hop)| hop.carrying = false);
        }
    }

    /// A path that is no more is nowhere, and what is held never lacks a path that is still somewhere.
    fn check_paths(&self, before: &Saga) {
        for (was, is) in before.legs.iter().zip(&self.saga.legs) {
            assert_eq!(is.paths.iter().filter(|p| p.role == PathRole::Carry).count(), 1, "{is:?}");
            for (number, path) in is.paths.iter().enumerate().filter(|(_, p)| p.role == PathRole::Gone) {
                if was.paths.get(number).is_some_and(|p| p.role == PathRole::Gone) {
                    continue;
                }
                // what was given up, or is silent, has not said so
                let sure = |p: &&PointName| !self.saga.dead.contains(*p) && !path.silent.contains(*p);
                for point in path.points.iter().filter(sure) {
                    let key = |k: &RouteKey| (k.generation, k.leg, k.path) == (self.saga.generation, is.leg, path.path);
                    assert!(!self.agents[point].hops.keys().any(key), "{point} still has {path:?}");
                }
            }
        }
    }

    fn check(&self, before: &Saga, event: &Event, done: &Step) {
        let after = &done.saga;
        let context = || format!("{event:?}\nbefore {before:?}\nafter {after:?}");
        assert_eq!(done.changed, before != after, "{}", context());
        if !done.changed {
            assert!(!done.desired_changed && !done.settled && done.notes.is_empty(), "{}", context());
        }
        if !done.desired_changed {
            assert_eq!(self.share(before), self.share(after), "a change was not announced: {}", context());
        }
        assert!(before.phase <= after.phase && before.barrier <= after.barrier, "{}", context());
        assert!(before.dead.is_subset(&after.dead), "{}", context());
        assert_eq!(done.settled, before.phase < Phase::Settling && after.phase == Phase::Settling, "{}", context());
        assert_eq!(before.generation, after.generation);
        if before.goal != after.goal {
            let possible = match before.goal {
                Goal::Complete => before.phase < Phase::Stopping && after.phase >= Phase::Stopping,
                Goal::Replace => after.goal == Goal::Cancel,
                Goal::Cancel | Goal::Fail => false,
            };
            assert!(possible, "{}", context());
        }
        for (was, is) in before.replicas.iter().zip(&after.replicas) {
            assert!(was.end.is_none() || was == is, "an end was not final: {}", context());
            assert!(was.ran_us <= is.ran_us, "{}", context());
        }
        for (was, is) in before.legs.iter().zip(&after.legs) {
            assert!(was.paths.len() <= is.paths.len(), "{}", context());
            for (was, is) in was.paths.iter().zip(&is.paths) {
                assert_eq!((was.path, &was.links), (is.path, &is.links), "{}", context());
                assert!(was.bytes.iter().all(|(p, n)| is.bytes[p] >= *n), "{}", context());
                let done = |(_, s): &(&PointName, &RouteEndState)| **s == RouteEndState::Done;
                assert!(was.seen.iter().filter(done).all(|(p, s)| is.seen.get(p) == Some(s)), "{}", context());
            }
        }
        let kept: Saga = serde_json::from_str(&serde_json::to_string(after).unwrap()).unwrap();
        assert_eq!(&kept, after, "a record reads back as it was");
    }

    /// Work stops before its routes go, routes go before devices are given back, and what is settled is gone: everywhere
    /// but at points given up, and there nothing runs.
    fn check_teardown(&self, before: Phase) {
        let (generation, entered) = (self.saga.generation, |phase| before < phase && self.saga.phase >= phase);
        for agent in self.agents.values() {
            let (name, runs, hops) = (&agent.name, &agent.runs, &agent.hops);
            if entered(Phase::Unrouting) {
                assert!(agent.running().all(|k| k.generation != generation), "{name} runs on: {runs:?}");
            }
            if self.saga.dead.contains(name) {
                continue;
            }
            if entered(Phase::Releasing) {
                assert!(hops.keys().all(|k| k.generation != generation), "{name} has {hops:?}");
            }
            if entered(Phase::Settling) {
                assert!(runs.keys().all(|k| k.generation != generation), "{name} has {runs:?}");
            }
        }
    }

    /// Of each replica at most one generation runs at one place.
    fn check_one_of_each(&self) {
        let mut seen = BTreeSet::new();
        for key in self.agents.values().flat_map(Agent::running) {
            assert!(seen.insert((&key.component, key.replica)), "{key:?} runs twice");
        }
    }
}

/// Hop after hop along the leg's points.
pub struct Line;

impl RouteProvider for Line {
    fn name(&self) -> &'static str {
        "line"
    }

    fn hops(&self, ask: &Ask<'_>) -> Vec<(PointName, Route)> {
        let (leg, path) = (ask.leg, ask.path);
        let hop = |(i, point): (usize, &PointName)| {
            let role = match i {
                0 => Role::Source,
                _ if i + 1 == path.points.len() => Role::Sink,
                _ => Role::Relay,
            };
            let (dataset, offset, bytes, write) = match &leg.purpose {
                LegPurpose::Inbound { dataset, offset, bytes } => (dataset.clone(), *offset, *bytes, false),
                LegPurpose::Outbound { dataset, offset, bytes } => (dataset.clone(), *offset, *bytes, true),
                LegPurpose::Stream => (String::new(), 0, 0, false),
            };
            let purpose = match leg.purpose {
                LegPurpose::Stream => RoutePurpose::Stream { flow: leg.flow },
                _ => RoutePurpose::Transfer { dataset, offset, bytes, write, start: ask.start },
            };
            let route = Route {
                key: RouteKey { order: ask.order, generation: ask.generation, leg: leg.leg, path: path.path },
                role,
                next_link: path.links.get(i).cloned(),
                previous: i.checked_sub(1).map(|before| path.points[before].clone()),
                rate: leg.rate_of(path),
                purpose,
                key_base64: None,
                hop_secret_base64: None,
                duty: ask.duty,
                silence_ms: None,
                kernel: None,
            };
            (point.clone(), route)
        };
        path.points.iter().enumerate().map(hop).collect()
    }
}
