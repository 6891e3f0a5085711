//! Messages that overtake each other: every order of arrival, every repetition, one outcome.

use crate::{
    agent::{Agent, Message},
    cases::{Lease, point, solo, spread},
    world::{World, at_phase, settles},
};
use rhumb_model::Phase::{Running, Starting, Stopping, Unrouting};
use rhumb_provision::{Event, Goal, PointShare, Stamp};
use rhumb_wire::{AssignmentState, RouteEndState};

/// Every sequence over `0..n` of at most `longest` entries in which each occurs.
fn arrivals(n: usize, longest: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    let mut found = Vec::new();
    for _ in 0..longest {
        all = all.iter().flat_map(|s: &Vec<usize>| (0..n).map(|i| [s.as_slice(), &[i]].concat())).collect();
        found.extend(all.iter().filter(|s| (0..n).all(|i| s.contains(&i))).cloned());
    }
    found
}

/// What receives reports: older ones than the last of a boot are dropped and counted.
#[derive(Default)]
struct Inbox {
    last: u64,
    dropped: usize,
}

impl Inbox {
    fn take(&mut self, message: &Message) -> bool {
        let newer = message.seq > self.last;
        self.last = self.last.max(message.seq);
        self.dropped += usize::from(!newer);
        newer
    }
}

/// The reports of one run: it holds its devices, it runs, it has succeeded.
fn run() -> (World, [Message; 3]) {
    let mut world = World::new(&solo(Lease::Minute));
    world.until_phase(Starting);
    let mut leased = world.agent("a").report();
    leased.assignments[0].state = AssignmentState::Leased;
    let mut running = world.agent("a").report();
    running.assignments[0].state = AssignmentState::Running;
    running.assignments[0].ran_us = 1;
    let mut succeeded = world.agent("a").report();
    succeeded.assignments[0].state = AssignmentState::Exited;
    succeeded.assignments[0].exit_code = Some(0);
    succeeded.assignments[0].ran_us = 2;
    (world, [leased, running, succeeded])
}

#[test]
fn a_run_that_succeeded_has_succeeded_in_whatever_order_its_reports_arrive() {
    for arrival in arrivals(3, 5) {
        let (mut world, messages) = run();
        for i in &arrival {
            world.hear(&messages[*i]);
        }
        let replica = &world.saga.replicas[0];
        assert!(replica.end.as_ref().unwrap().is_success(), "{arrival:?}");
        assert_eq!((replica.seen, replica.ran_us), (Some(AssignmentState::Exited), 2), "{arrival:?}");
        assert_eq!((world.saga.phase, world.saga.goal), (Stopping, Goal::Complete), "{arrival:?}");
    }
}

/// The lease of a finished run comes back, late or repeated: the run is not queued again.
#[test]
fn a_lease_handed_back_late_does_not_bring_a_finished_run_back() {
    for returned in [AssignmentState::Leased, AssignmentState::Stopped, AssignmentState::Refused, AssignmentState::Lost]
    {
        for arrival in arrivals(3, 5) {
            let (mut world, mut messages) = run();
            messages[0].assignments[0].state = returned;
            // handed back before anything ran, and heard at once, it is no late message
            if arrival[0] == 0 && returned != AssignmentState::Leased {
                continue;
            }
            let mut inbox = Inbox::default();
            for i in &arrival {
                if inbox.take(&messages[*i]) {
                    world.hear(&messages[*i]);
                }
            }
            let rising = arrival.iter().scan(0, |last, i| Some((*i + 1 > *last, *last = (*last).max(*i + 1)).0));
            assert_eq!(inbox.dropped, rising.filter(|r| !r).count());
            assert_eq!(world.saga.goal, Goal::Complete, "{returned:?} {arrival:?}");
            assert!(world.saga.replicas[0].end.as_ref().unwrap().is_success());
            // once the end is known, the message does no harm even where nobody drops it
            assert!(!world.hear(&messages[0]).changed, "{returned:?} {arrival:?}");
        }
    }
}

/// The relay's routes and their withdrawal, published back to back.
struct Withdrawal {
    world: World,
    /// The relay as it was before it was told of either.
    relay: Agent,
    /// What it was to have, by version: with the order's routes, and without.
    published: [(Stamp, PointShare); 2],
    /// Its reports on the one and on the other.
    reports: [Message; 2],
}

fn withdrawal() -> Withdrawal {
    let name = point("r");
    let mut world = at_phase(&spread(Lease::None), Running);
    world.tell(Event::Cancel);
    let relay = world.agents[&name].clone();
    let with = world.shares[&name].clone();
    world.deliver(&name);
    let has = world.agent("r").report();
    for site in ["a", "b"] {
        world.deliver(&point(site));
    }
    world.pass();
    world.pass();
    for site in ["a", "b"] {
        let report = world.agent(site).report();
        world.hear(&report);
    }
    assert_eq!(world.saga.phase, Unrouting);
    let without = world.shares[&name].clone();
    world.deliver(&name);
    world.pass();
    let has_not = world.agent("r").report();
    assert!(relay.version < with.0 && with.0 < without.0);
    assert!(!with.1.routes.is_empty() && without.1.routes.is_empty() && !has.routes.is_empty());
    Withdrawal { world, relay, published: [with, without], reports: [has, has_not] }
}

#[test]
fn a_route_and_its_withdrawal_end_without_the_route_however_they_are_delivered() {
    let Withdrawal { relay, published, .. } = withdrawal();
    // by second: in one go, in two, reversed, the withdrawal lost and sent again after 30 s, both twice
    let mut resent = vec![vec![0]];
    resent.extend(vec![vec![]; 29]);
    resent.push(vec![1]);
    let deliveries =
        [vec![vec![0, 1]], vec![vec![0], vec![1]], vec![vec![1], vec![0]], resent, vec![vec![0, 1], vec![0, 1]]];
    for delivery in deliveries {
        let mut agent = relay.clone();
        assert!(!agent.hops.is_empty());
        for second in &delivery {
            for i in second {
                let (stamp, share) = &published[*i];
                agent.accept(*stamp, share);
            }
            agent.step();
        }
        for _ in 0..60 {
            agent.step();
        }
        assert_eq!((agent.hops.len(), agent.version), (0, published[1].0), "{delivery:?}");
        agent.accept(published[0].0, &published[0].1);
        agent.step();
        assert_eq!((agent.hops.len(), agent.version), (0, published[1].0), "a minute late, {delivery:?}");
    }
}

/// The saga's side of it: a report of before the withdrawal is no word about what is there after it.
#[test]
fn a_withdrawal_is_confirmed_by_reports_made_after_it_alone() {
    for arrival in arrivals(2, 4) {
        let Withdrawal { mut world, reports, .. } = withdrawal();
        let mut confirmed = false;
        for i in &arrival {
            world.hear(&reports[*i]);
            confirmed |= *i == 1;
            assert_eq!(world.saga.confirmed.contains(&point("r")), confirmed, "{arrival:?}");
        }
        settles(&mut world, Goal::Cancel);
    }
}

/// Reports of the generation before are about other devices and other routes, though their numbers are the same.
#[test]
fn reports_of_an_earlier_generation_count_for_nothing() {
    let mut world = at_phase(&spread(Lease::None), Running);
    let mut old: Vec<Message> = ["a", "b", "c", "r"].map(|name| world.agent(name).report()).into();
    for message in &mut old {
        message.assignments.iter_mut().for_each(|s| s.state = AssignmentState::Lost);
        message.routes.iter_mut().for_each(|r| r.state = RouteEndState::Failed);
    }
    world.hear(&old[0]);
    settles(&mut world, Goal::Replace);
    world.replace();
    let fresh = world.saga.clone();
    for message in &old {
        assert!(!world.hear(message).changed);
    }
    assert_eq!(world.saga, fresh);
    settles(&mut world, Goal::Complete);
}
