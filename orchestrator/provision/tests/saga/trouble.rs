//! Orders that something happens to, one thing at a time.

use crate::{
    agent::Leases,
    cases::{Lease, point, served, service, solo, spread},
    world::{MET, World, at_phase, settles},
};
use jiff::SignedDuration;
use rhumb_model::Phase::{Holding, Routing, Running, Staging, Starting, Stopping};
use rhumb_provision::{Event, Goal, bill};
use rhumb_wire::{AssignmentState, RouteEndState};

#[test]
fn cancel_ends_in_every_phase_what_is_not_already_ending() {
    for phase in MET {
        let mut world = at_phase(&spread(Lease::None), phase);
        let done = world.tell(Event::Cancel);
        if phase < Stopping {
            assert_eq!((world.saga.phase, world.saga.goal), (Stopping, Goal::Cancel), "in {phase}");
            let texts: Vec<_> = done.notes.iter().map(|n| (n.kind, n.message.as_str())).collect();
            assert_eq!(texts, [("turn", "cancelled by its tenant"), ("phase", "order is stopping")]);
            settles(&mut world, Goal::Cancel);
        } else {
            assert!(!done.changed, "what has ended well and is wound up completes");
            settles(&mut world, Goal::Complete);
        }
    }
}

#[test]
fn a_second_cancel_changes_nothing_and_replacing_becomes_cancelling() {
    let mut world = at_phase(&solo(Lease::None), Running);
    world.tell(Event::Cancel);
    assert!(!world.tell(Event::Cancel).changed);

    let mut world = at_phase(&spread(Lease::Minute), Running);
    world.lease_ended("a");
    assert_eq!(world.saga.goal, Goal::Replace);
    assert!(world.tell(Event::Cancel).changed);
    assert_eq!(world.saga.cause, "cancelled by its tenant");
    settles(&mut world, Goal::Cancel);
}

#[test]
fn work_that_ends_badly_fails_the_order() {
    let mut world = World::new(&spread(Lease::None));
    world.agent("b").habits.exit_code = 3;
    settles(&mut world, Goal::Fail);
    assert_eq!(world.saga.cause, "trainer replica 1 at b ended with exit code 3");
    assert!(world.saga.legs.iter().filter(|l| l.flow == 2).all(|l| l.carry().bytes.values().all(|n| *n == 0)));
}

/// The other replica may never come up when its peer has failed: nobody waits for it.
#[test]
fn work_that_ends_badly_while_others_still_start_fails_the_order() {
    let mut world = at_phase(&spread(Lease::None), Starting);
    world.agent("b").cut = true;
    world.agent("a").habits.exit_code = 1;
    world.until("stopping", |w| w.saga.phase == Stopping);
    assert_eq!((world.saga.goal, world.phases().contains(&Running)), (Goal::Fail, false));
    world.agent("b").cut = false;
    settles(&mut world, Goal::Fail);
}

#[test]
fn work_killed_by_a_signal_fails_the_order() {
    let mut world = at_phase(&solo(Lease::None), Running);
    let mut report = world.agent("a").report();
    report.assignments[0].state = AssignmentState::Exited;
    report.assignments[0].signal = Some(9);
    report.assignments[0].message = "out of memory".into();
    world.hear(&report);
    assert_eq!(world.saga.goal, Goal::Fail);
    assert_eq!(world.saga.cause, "tuner replica 0 at a was ended by signal 9: out of memory");
}

#[test]
fn a_service_that_ends_by_itself_fails_the_order_even_with_zero() {
    let mut world = at_phase(&service(Lease::None), Running);
    let mut report = world.agent("a").report();
    report.assignments[0].state = AssignmentState::Exited;
    report.assignments[0].exit_code = Some(0);
    world.hear(&report);
    assert_eq!(world.saga.goal, Goal::Fail);
    settles(&mut world, Goal::Fail);
}

#[test]
fn a_refused_lease_gives_the_generation_up_and_the_next_one_runs() {
    let mut world = World::new(&spread(Lease::None));
    world.agent("b").habits.leases = Leases::Refuse;
    settles(&mut world, Goal::Replace);
    assert_eq!(world.saga.cause, "b refused trainer replica 1");
    let refused = world.saga.replicas.iter().find(|r| r.site == point("b")).unwrap();
    assert_eq!(refused.seen, Some(AssignmentState::Refused), "who refused is avoided next");
    assert_eq!(world.saga.ran_from, None);
    world.agent("b").habits.leases = Leases::Grant;
    world.replace();
    settles(&mut world, Goal::Complete);
    assert_eq!(world.saga.generation, 2);
}

#[test]
fn a_lost_replica_gives_the_generation_up() {
    let mut world = at_phase(&spread(Lease::None), Running);
    world.agent("a").reboot();
    settles(&mut world, Goal::Replace);
    assert_eq!(world.saga.cause, "a lost trainer replica 0");
    assert!(world.saga.ran_to.is_some());
    world.replace();
    settles(&mut world, Goal::Complete);
}

#[test]
fn a_site_that_stopped_by_itself_gives_the_generation_up() {
    let mut world = at_phase(&spread(Lease::Minute), Running);
    let told = world.stamp;
    world.agent("a").expire(told);
    settles(&mut world, Goal::Replace);
    assert_eq!(world.saga.cause, "a stopped trainer replica 0");
}

#[test]
fn a_route_that_fails_while_it_is_needed_gives_the_generation_up() {
    // flow, phase, where it fails, whether that matters
    let table = [
        (0, Routing, "r", true),
        (0, Staging, "c", true),
        (0, Running, "r", false),
        (1, Running, "a", true),
        // while the work runs its flows take other paths
        (2, Running, "r", false),
        (2, Stopping, "r", false),
    ];
    for (flow, phase, name, matters) in table {
        let mut world = at_phase(&spread(Lease::None), phase);
        let mut report = world.agent(name).report();
        let leg = world.saga.legs.iter().find(|l| l.flow == flow).unwrap().leg;
        let route = report.routes.iter_mut().find(|r| r.key.leg == leg).unwrap();
        route.state = RouteEndState::Failed;
        route.message = "its next hop is gone".into();
        world.hear(&report);
        let goal = if matters { Goal::Replace } else { Goal::Complete };
        assert_eq!(world.saga.goal, goal, "flow {flow} in {phase}");
        if matters {
            assert_eq!(world.saga.cause, format!("route of flow {flow} failed at {name}: its next hop is gone"));
        }
        settles(&mut world, goal);
    }
}

/// Another run would not leave the file behind either, and would be billed again.
#[test]
fn work_that_leaves_no_result_behind_fails_the_order() {
    let mut world = at_phase(&spread(Lease::None), Running);
    world.until("the last end", |w| w.saga.ran_to.is_some());
    let mut report = world.agent("a").report();
    let leg = world.saga.legs.iter().find(|l| l.flow == 2 && l.source() == &point("a")).unwrap().leg;
    let route = report.routes.iter_mut().find(|r| r.key.leg == leg).unwrap();
    (route.state, route.message) = (RouteEndState::Failed, "cannot open dataset model".into());
    world.hear(&report);
    assert_eq!(world.saga.goal, Goal::Fail);
    settles(&mut world, Goal::Fail);
}

#[test]
fn points_that_have_no_part_in_it_are_not_heard() {
    let mut world = at_phase(&spread(Lease::Minute), Stopping);
    let mut report = world.agent("a").report();
    (report.point, report.seen) = (point("z"), world.next());
    assert!(!world.hear(&report).changed);
    assert!(!world.tell(Event::LeaseEnded { site: point("z") }).changed);
    assert!(!world.tell(Event::SiteLost { site: point("z") }).changed);
}

/// A settled generation is billed and given back: nothing may touch it any more.
#[test]
fn what_is_settled_is_final() {
    let mut world = World::new(&spread(Lease::Minute));
    settles(&mut world, Goal::Complete);
    let report = world.agent("a").report();
    assert!(!world.hear(&report).changed);
    let site = point("a");
    for event in [Event::Cancel, Event::LeaseEnded { site: site.clone() }, Event::SiteLost { site }] {
        assert!(!world.tell(event).changed);
    }
    assert!(!world.wait(SignedDuration::from_hours(9)).changed);
}

/// A run that had ended and comes up once more, because the agent lost its records, is no second run of the order.
#[test]
fn a_second_run_after_the_end_is_neither_followed_nor_billed() {
    let mut world = at_phase(&served(Lease::None), Running);
    world.agent("a").habits.steps = 2;
    let mut report = world.agent("a").report();
    for s in &mut report.assignments {
        (s.state, s.exit_code, s.ran_us) = (AssignmentState::Exited, Some(0), 2_000_000);
    }
    report.assignments.truncate(1);
    world.hear(&report);
    for (state, ran_us) in [(AssignmentState::Running, 9_000_000), (AssignmentState::Lost, 9_000_000)] {
        (report.assignments[0].state, report.assignments[0].ran_us) = (state, ran_us);
        assert!(!world.hear(&report).changed, "{state:?}");
    }
    assert_eq!(world.saga.replicas[0].ran_us, 2_000_000);
}

#[test]
fn counts_that_overflow_do_no_harm() {
    let mut world = at_phase(&spread(Lease::None), Running);
    let mut report = world.agent("a").report();
    for r in &mut report.routes {
        (r.bytes, r.bytes_back) = (u64::MAX, u64::MAX);
    }
    for a in &mut report.assignments {
        a.ran_us = u64::MAX;
    }
    world.hear(&report);
    settles(&mut world, Goal::Complete);
    let items = bill(&world.case.order, &world.saga, &crate::cases::Free);
    assert!(items.iter().all(|i| i.quantity_micro >= 0 && i.cost_micros == 0));
}

#[test]
fn a_stream_counts_what_passes_both_ways_and_never_counts_down() {
    let mut world = at_phase(&service(Lease::None), Running);
    let mut report = world.agent("a").report();
    for (bytes, bytes_back, counted) in [(7, 5, 12), (1, 1, 12), (20, 1, 21)] {
        (report.routes[0].bytes, report.routes[0].bytes_back) = (bytes, bytes_back);
        world.hear(&report);
        assert_eq!(world.saga.legs[0].paths[0].bytes[&point("a")], counted);
    }
}

/// A site that refused is avoided for a while: a report from before the refusal must not hide it.
#[test]
fn a_refusal_outlives_the_reports_that_came_before_it() {
    let mut world = World::new(&spread(Lease::None));
    let mut report = world.agent("a").report();
    let share = world.share(&world.saga);
    let status = |state| rhumb_wire::AssignmentStatus {
        key: share[&point("a")].assignments[0].key.clone(),
        state,
        exit_code: None,
        signal: None,
        ran_us: 0,
        started_us: None,
        staged_bytes: 0,
        staged_sha256: Vec::new(),
        checkpoint: None,
        message: String::new(),
    };
    report.assignments = vec![status(AssignmentState::Refused)];
    world.hear(&report);
    for late in [AssignmentState::Leased, AssignmentState::Staged, AssignmentState::Stopped] {
        report.assignments = vec![status(late)];
        assert!(!world.hear(&report).changed, "{late:?}");
    }
    assert_eq!(world.saga.replicas[0].seen, Some(AssignmentState::Refused));
}

/// Both must be: the site says that its input is whole, and the ends of the leg that all of it has passed.
#[test]
fn work_starts_only_once_every_inbound_leg_is_done_at_both_ends() {
    let mut world = at_phase(&spread(Lease::None), Staging);
    for name in ["a", "b"] {
        let mut report = world.agent(name).report();
        report.assignments[0].state = AssignmentState::Staged;
        report.routes.iter_mut().for_each(|r| r.state = RouteEndState::Done);
        world.hear(&report);
    }
    assert_eq!(world.saga.phase, Staging, "c has not said that it sent all");
    settles(&mut world, Goal::Complete);
}

#[test]
fn results_have_arrived_once_both_ends_say_so() {
    let mut world = at_phase(&spread(Lease::None), Running);
    world.agent("c").cut = true;
    world.until("the last end", |w| w.saga.ran_to.is_some());
    for _ in 0..5 {
        world.round();
    }
    assert_eq!(world.saga.phase, Running, "c has not said that it has all");
    world.agent("c").cut = false;
    settles(&mut world, Goal::Complete);
}

/// An empty part is done as soon as its way stands, before anything was told to move.
#[test]
fn a_leg_that_is_done_at_once_is_no_less_routed() {
    let mut world = at_phase(&spread(Lease::None), Routing);
    for name in ["a", "b", "c"] {
        let share = world.shares[&point(name)].1.clone();
        let status = |r: &rhumb_wire::Route| rhumb_wire::RouteStatus {
            key: r.key.clone(),
            state: RouteEndState::Done,
            bytes: 0,
            bytes_back: 0,
            message: String::new(),
            figures: None,
            carrying: false,
        };
        let mut report = world.agent(name).report();
        report.routes = share.routes.iter().filter(|r| r.role == rhumb_wire::Role::Source).map(status).collect();
        world.hear(&report);
    }
    assert_eq!(world.saga.phase, Staging);
}

#[test]
fn what_is_given_up_before_it_was_routed_is_not_routed_to_be_torn_down() {
    for (phase, routed) in [(Holding, false), (Staging, false), (Starting, true), (Running, true)] {
        let mut world = at_phase(&spread(Lease::None), phase);
        world.tell(Event::Cancel);
        let routes = world.share(&world.saga).values().map(|s| s.routes.len()).sum::<usize>();
        assert_eq!(routes > 0, routed, "cancelled in {phase}");
    }
}

/// A relay that never said that all had passed, though both ends did, and then breaks.
#[test]
fn a_hop_of_a_leg_that_is_over_may_fail() {
    for (leg, done) in [(0, true), (4, true), (4, false)] {
        let mut world = at_phase(&spread(Lease::None), Running);
        let over = &mut world.saga.legs[leg].paths[0];
        over.seen.remove(&point("r"));
        if done {
            over.seen.extend([over.source().clone(), over.sink().clone()].map(|p| (p, RouteEndState::Done)));
        }
        let mut report = world.agent("r").report();
        report.routes.retain(|r| r.key.leg == leg as u32);
        report.routes[0].state = RouteEndState::Failed;
        world.hear(&report);
        world.watch(&[]);
        assert_eq!(world.saga.goal, Goal::Complete, "leg {leg}");
        assert_eq!(world.saga.legs[leg].trouble.is_some(), !done, "leg {leg}");
    }
}
