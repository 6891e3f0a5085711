//! Anything may happen, in any order; in the end every order settles, and never before its last trace is gone.

use crate::{
    agent::{Leases, Message},
    cases::{self, Case, Lease},
    world::{LIMIT, SPARE, World},
};
use jiff::SignedDuration;
use proptest::prelude::*;
use rhumb_model::{Bandwidth, Latency, PointName, order::Failover};
use rhumb_provision::{Event, Goal, LegTerms, PathRole, PointShare, Present, Sight, Stamp, bill, step::step};
use rhumb_wire::RouteEndState;

#[derive(Debug, Clone)]
enum Op {
    /// A second of the world passes.
    Pass,
    /// Everybody reports and hears, as on a good day.
    Round,
    /// An agent sends a report; it is on its way from then on.
    Send(usize),
    /// A report on its way arrives, not necessarily the oldest.
    Arrive(usize),
    /// The same again, from everything that was ever sent.
    Replay(usize),
    Drop(usize),
    /// An agent gets its present desired state, or one of former times.
    Tell(usize),
    TellOld(usize),
    Cancel,
    LeaseEnds(usize),
    SiteLost(usize),
    Heal(usize),
    Reboot(usize),
    Rebuild(usize),
    Refuse(usize),
    FailRoute(usize, usize),
    ExitCode(usize, i32),
    Grace(usize, u32),
    Wait(i64),
    /// A leg gets another path by way of a spare relay, to carry or to stand by.
    Reroute(usize, usize, bool),
    /// There is none for it.
    NoPath(usize, bool),
    /// The links say that a path takes so many milliseconds.
    Watch(usize, u32, u64),
    /// A leg gets another rate, Mbit/s.
    Amend(usize, u64),
    /// The orchestrator starts again from its record.
    Restart,
    /// A report's step was computed, but the orchestrator died before it was recorded.
    DieBefore(usize),
    /// ... or after that, before any point was told.
    DieAfter(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let any = 0_usize..64;
    prop_oneof![
        8 => Just(Op::Pass),
        3 => Just(Op::Round),
        12 => any.clone().prop_map(Op::Send),
        12 => any.clone().prop_map(Op::Arrive),
        6 => any.clone().prop_map(Op::Replay),
        3 => any.clone().prop_map(Op::Drop),
        12 => any.clone().prop_map(Op::Tell),
        5 => any.clone().prop_map(Op::TellOld),
        1 => Just(Op::Cancel),
        1 => any.clone().prop_map(Op::LeaseEnds),
        1 => any.clone().prop_map(Op::SiteLost),
        4 => any.clone().prop_map(Op::Heal),
        1 => any.clone().prop_map(Op::Reboot),
        1 => any.clone().prop_map(Op::Rebuild),
        1 => any.clone().prop_map(Op::Refuse),
        1 => (any.clone(), any.clone()).prop_map(|(i, hop)| Op::FailRoute(i, hop)),
        1 => (any.clone(), 0..3).prop_map(|(i, code)| Op::ExitCode(i, code)),
        1 => (any.clone(), 0_u32..5).prop_map(|(i, grace)| Op::Grace(i, grace)),
        1 => (0_i64..40).prop_map(Op::Wait),
        4 => (any.clone(), any.clone(), prop::bool::ANY).prop_map(|(leg, by, backup)| Op::Reroute(leg, by, backup)),
        1 => (any.clone(), prop::bool::ANY).prop_map(|(leg, backup)| Op::NoPath(leg, backup)),
        4 => (any.clone(), 0_u32..3, 0_u64..50).prop_map(|(leg, path, ms)| Op::Watch(leg, path, ms)),
        1 => (any.clone(), 1_u64..50).prop_map(|(leg, mbps)| Op::Amend(leg, mbps)),
        2 => Just(Op::Restart),
        1 => any.clone().prop_map(Op::DieBefore),
        1 => any.prop_map(Op::DieAfter),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let lease = prop_oneof![Just(Lease::None), Just(Lease::Minute)];
    (lease, 0_usize..4).prop_map(|(lease, i)| cases::all(lease)[i].clone())
}

/// The world with all that is under way in it.
struct Chaos {
    world: World,
    sent: Vec<Message>,
    under_way: Vec<Message>,
    told: Vec<(PointName, Stamp, PointShare)>,
}

const GENERATIONS: u64 = 3;

impl Chaos {
    fn point(&self, i: usize) -> PointName {
        let points: Vec<_> = self.world.agents.keys().collect();
        points[i % points.len()].clone()
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Pass => self.world.pass(),
            Op::Round => self.world.round(),
            Op::Send(i) => {
                let point = self.point(*i);
                let message = self.world.agent(point.as_str()).report();
                self.sent.push(message.clone());
                self.under_way.push(message);
            }
            Op::Arrive(i) => {
                if let Some(message) = self.take(*i) {
                    self.hear(&message);
                }
            }
            Op::Replay(i) => {
                if let Some(message) = pick(&self.sent, *i).cloned() {
                    self.hear(&message);
                }
            }
            Op::Drop(i) => drop(self.take(*i)),
            Op::Tell(i) => {
                let point = self.point(*i);
                self.world.deliver(&point);
            }
            Op::TellOld(i) => {
                if let Some((point, stamp, share)) = pick(&self.told, *i).cloned() {
                    self.world.agent(point.as_str()).accept(stamp, &share);
                }
            }
            Op::Cancel => drop(self.world.tell(Event::Cancel)),
            Op::LeaseEnds(i) if self.leased() => {
                let point = self.point(*i);
                self.world.lease_ended(point.as_str());
            }
            Op::LeaseEnds(_) => {}
            Op::SiteLost(i) => {
                let point = self.point(*i);
                self.world.site_lost(point.as_str());
            }
            Op::Heal(i) => {
                let point = self.point(*i);
                self.world.agent(point.as_str()).cut = false;
            }
            Op::Reboot(i) => {
                let point = self.point(*i);
                self.world.agent(point.as_str()).reboot();
            }
            Op::Rebuild(i) => {
                let point = self.point(*i);
                self.world.agent(point.as_str()).rebuild();
            }
            Op::Refuse(i) => {
                let point = self.point(*i);
                self.world.agent(point.as_str()).habits.leases = Leases::Refuse;
            }
            Op::FailRoute(i, hop) => {
                let point = self.point(*i);
                let hops = &mut self.world.agent(point.as_str()).hops;
                if let Some(at) = hop.checked_rem(hops.len()) {
                    hops.values_mut().nth(at).expect("it is within").state = RouteEndState::Failed;
                }
            }
            Op::ExitCode(i, code) => {
                let point = self.point(*i);
                self.world.agent(point.as_str()).habits.exit_code = *code;
            }
            Op::Grace(i, grace) => {
                let point = self.point(*i);
                self.world.agent(point.as_str()).habits.grace = *grace;
            }
            Op::Reroute(leg, by, backup) => {
                if let Some(leg) = leg.checked_rem(self.world.saga.legs.len()) {
                    let role = if *backup { PathRole::Backup } else { PathRole::Next };
                    self.world.reroute(leg, &[SPARE[by % SPARE.len()]], role);
                }
            }
            Op::NoPath(leg, backup) => {
                if let Some(leg) = leg.checked_rem(self.world.saga.legs.len()) {
                    let role = if *backup { PathRole::Backup } else { PathRole::Next };
                    self.world.tell(Event::NoPath { leg: leg as u32, role, reason: "none".into() });
                }
            }
            Op::Watch(leg, path, ms) => {
                let latency = Latency::from_micros(ms * 1_000);
                let leg = self.world.saga.legs.get(leg % 6).map_or(0, |l| l.leg);
                self.world.watch(&[Sight { leg, path: *path, latency }]);
            }
            Op::Amend(leg, mbps) => {
                let bound = Some(Latency::from_micros(25_000));
                let paths = if mbps % 2 == 0 { Present::Stay } else { Present::Follow };
                let leg = self.world.saga.legs.get(leg % 6).map_or(0, |l| l.leg);
                self.world.tell(Event::Amend {
                    legs: vec![LegTerms { leg, rate: Bandwidth::from_mbps(*mbps), bound, paths }],
                });
            }
            Op::Wait(seconds) => drop(self.world.wait(SignedDuration::from_secs(*seconds))),
            Op::Restart => self.world.restart(),
            Op::DieBefore(i) => {
                if let Some(message) = self.take(*i) {
                    let (now, next) = (self.world.now, self.world.next());
                    step(&self.world.saga, event(&message), now, next);
                    self.world.restart();
                }
            }
            Op::DieAfter(i) => {
                if let Some(message) = self.take(*i).filter(|_| !self.world.settled) {
                    // nobody is told of the new stamp before the restart replaces it
                    let shares = self.world.shares.clone();
                    self.hear(&message);
                    self.world.shares = shares;
                    self.world.restart();
                }
            }
        }
        self.go_on();
    }

    fn leased(&self) -> bool {
        self.world.case.order.terms.failover != Failover::None
    }

    fn hear(&mut self, message: &Message) {
        // a cut line is cut for what is late, too
        if !self.world.agents[&message.point].cut {
            self.world.hear(message);
        }
    }

    fn take(&mut self, i: usize) -> Option<Message> {
        let index = i.checked_rem(self.under_way.len())?;
        Some(self.under_way.remove(index))
    }

    /// What was given up is placed again; what is told is remembered, to be told once more one day.
    fn go_on(&mut self) {
        if self.world.settled && self.world.saga.goal == Goal::Replace && self.world.saga.generation < GENERATIONS {
            self.world.replace();
        }
        for (point, (stamp, share)) in &self.world.shares {
            if !self.told.iter().any(|(p, s, _)| p == point && s == stamp) {
                self.told.push((point.clone(), *stamp, share.clone()));
            }
        }
    }

    /// From here on nothing goes wrong any more, but for what is late.
    fn calm_down(&mut self) {
        for agent in self.world.agents.values_mut() {
            agent.cut = false;
            agent.habits.leases = Leases::Grant;
            agent.rebuild();
        }
        let endless = self.world.case.order.components.iter().all(|c| c.service.is_some());
        let late = std::mem::take(&mut self.under_way);
        for round in 0..300 {
            if self.world.settled {
                break;
            }
            self.world.round();
            if let Some(message) = late.get(round) {
                self.hear(message);
            }
            if endless && round == 100 {
                self.world.tell(Event::Cancel);
            }
            self.go_on();
        }
        assert!(self.world.settled, "it never settles: {:?}\n{:?}", self.world.saga, self.world.notes);
    }
}

fn pick<T>(from: &[T], i: usize) -> Option<&T> {
    from.get(i.checked_rem(from.len())?)
}

fn event(message: &Message) -> Event {
    let Message { point, seen, assignments, routes, .. } = message.clone();
    Event::Report { point, seen, assignments, routes }
}

proptest! {
    /// Each step is held against the laws in `World::tell`; the settling step against the agents themselves.
    #[test]
    fn every_order_settles_once_its_last_trace_is_gone(case in case(), ops in prop::collection::vec(op(), 0..200)) {
        let mut chaos =
            Chaos { world: World::new(&case), sent: Vec::new(), under_way: Vec::new(), told: Vec::new() };
        chaos.go_on();
        for op in &ops {
            chaos.apply(op);
        }
        chaos.calm_down();

        // whatever comes late now is without effect, and what was given up has been cleared away
        let settled = chaos.world.saga.clone();
        for message in std::mem::take(&mut chaos.sent) {
            prop_assert!(!chaos.world.hear(&message).changed);
        }
        for _ in 0..5 {
            chaos.world.round();
        }
        prop_assert!(chaos.world.agents.values().all(crate::agent::Agent::is_empty));
        let last = chaos.world.tell(Event::Tick { limit: LIMIT });
        prop_assert!(!last.changed);
        prop_assert_eq!(&chaos.world.saga, &settled);
        prop_assert_eq!(bill(&case.order, &settled, &cases::Free), bill(&case.order, &settled, &cases::Free));
    }

    /// The same seed of trouble, but the agents stay well and connected: the order completes, however reports travel.
    #[test]
    fn loss_repetition_and_disorder_alone_never_cost_a_generation(
        case in case(),
        ops in prop::collection::vec(op(), 0..200),
    ) {
        let mut chaos =
            Chaos { world: World::new(&case), sent: Vec::new(), under_way: Vec::new(), told: Vec::new() };
        chaos.go_on();
        for op in &ops {
            let harmless = matches!(
                op,
                Op::Pass | Op::Send(_) | Op::Arrive(_) | Op::Replay(_) | Op::Drop(_) | Op::Tell(_) | Op::TellOld(_)
                    | Op::Reroute(..) | Op::Watch(..) | Op::Amend(..) | Op::Rebuild(_) | Op::Grace(..) | Op::Restart | Op::DieBefore(_) | Op::DieAfter(_)
            );
            if harmless {
                chaos.apply(op);
            }
        }
        prop_assert_eq!(chaos.world.saga.goal, Goal::Complete);
        chaos.calm_down();
        let endless = case.order.components.iter().all(|c| c.service.is_some());
        prop_assert_eq!(chaos.world.saga.goal, if endless { Goal::Cancel } else { Goal::Complete });
        prop_assert_eq!(chaos.world.saga.generation, 1);
    }
}
