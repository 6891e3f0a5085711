//! Orders that something happens to, one thing at a time.

use crate::{
    agent::Leases,
    cases::{Case, Lease, all, point, served, service, solo, spread},
    world::{LIMIT, World},
};
use jiff::SignedDuration;
use rhumb_model::Phase::{self, Holding, Releasing, Routing, Running, Staging, Starting, Stopping, Unrouting};
use rhumb_provision::{Event, Goal, bill};
use rhumb_wire::{AssignmentState, RouteEndState};

/// Phases in which an order of two sites can be met between two rounds.
const MET: [Phase; 8] = [Holding, Routing, Staging, Starting, Running, Stopping, Unrouting, Releasing];

fn at_phase(case: &Case, phase: Phase) -> World {
    let mut world = World::new(case);
    if phase > Holding {
        world.until_phase(phase);
    }
    world
}

fn settles(world: &mut World, goal: Goal) {
    world.until("settling", |w| w.settled);
    assert_eq!(world.saga.goal, goal, "{:?}", world.notes);
}

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
    assert!(world.saga.legs.iter().filter(|l| l.flow == 2).all(|l| l.bytes.values().all(|n| *n == 0)));
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
        (2, Running, "r", true),
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
fn a_lease_that_ends_before_the_work_has_gives_the_site_up() {
    for phase in [Holding, Routing, Staging, Starting, Running] {
        let mut world = at_phase(&spread(Lease::Minute), phase);
        world.lease_ended("a");
        assert_eq!((world.saga.phase, world.saga.goal), (Stopping, Goal::Replace), "in {phase}");
        assert!(world.notes.iter().any(|n| n.kind == "lease_ended"));
        // it stays cut off: nothing waits for it
        settles(&mut world, Goal::Replace);
        assert!(world.saga.dead.contains(&point("a")));
        // what it still has is torn down when it is back, and the next generation runs there
        world.replace();
        world.agent("a").cut = false;
        settles(&mut world, Goal::Complete);
        assert!(world.agents.values().all(|a| a.runs.keys().all(|k| k.generation == 2 || a.name != point("a"))));
    }
}

#[test]
fn a_lease_that_ends_while_the_order_is_wound_up_only_ends_the_waiting() {
    for phase in [Stopping, Unrouting, Releasing] {
        let mut world = at_phase(&spread(Lease::Minute), phase);
        world.agent("b").cut = true;
        for _ in 0..5 {
            world.round();
        }
        assert!(!world.settled, "b has not said that it is done");
        world.lease_ended("b");
        settles(&mut world, Goal::Complete);
        assert_eq!(world.saga.cause, "");
    }
}

#[test]
fn a_lease_that_ends_while_cancelling_ends_the_waiting() {
    for phase in [Holding, Staging, Running] {
        let mut world = at_phase(&spread(Lease::Minute), phase);
        world.agent("a").cut = true;
        world.tell(Event::Cancel);
        for _ in 0..5 {
            world.round();
        }
        assert_eq!((world.settled, world.saga.phase), (false, Stopping));
        world.lease_ended("a");
        settles(&mut world, Goal::Cancel);
    }
}

/// The corpus has arrived: its home may go down without costing the run.
#[test]
fn a_point_whose_part_is_over_does_not_stop_the_work() {
    let mut world = at_phase(&spread(Lease::Minute), Running);
    // c still takes the results, b's replica still runs, r carries: each is needed
    for name in ["a", "b", "c", "r"] {
        let mut world = at_phase(&spread(Lease::Minute), Running);
        world.lease_ended(name);
        assert_eq!(world.saga.goal, Goal::Replace, "{name} is needed");
    }
    let mut done = crate::cases::spread(Lease::Minute);
    done.order.flows.truncate(2);
    done.plan.flows.truncate(4);
    world.tell(Event::Cancel);
    let mut world = at_phase(&done, Running);
    for name in ["c", "r"] {
        assert!(!world.lease_ended(name).changed, "{name} is not needed");
    }
    world.until("unrouting", |w| w.saga.phase == Unrouting);
    for name in ["c", "r"] {
        world.lease_ended(name);
    }
    settles(&mut world, Goal::Complete);
}

#[test]
fn a_site_lost_before_the_start_is_given_up_and_after_it_nothing_happens() {
    for phase in MET {
        let mut world = at_phase(&spread(Lease::None), phase);
        let done = world.site_lost("a");
        if phase < Starting {
            assert_eq!((world.saga.phase, world.saga.goal), (Stopping, Goal::Replace), "in {phase}");
            settles(&mut world, Goal::Replace);
            continue;
        }
        assert!(!done.changed, "it runs on where it is cut off");
        for _ in 0..10 {
            world.round();
        }
        assert!(!world.settled, "in {phase}: a has not said that it stopped");
        world.agent("a").cut = false;
        settles(&mut world, Goal::Complete);
    }
}

#[test]
fn cancelling_does_not_wait_for_a_site_where_nothing_was_started() {
    let mut world = at_phase(&spread(Lease::None), Staging);
    world.tell(Event::Cancel);
    world.agent("r").cut = true;
    for _ in 0..5 {
        world.round();
    }
    assert!(!world.settled);
    world.site_lost("r");
    settles(&mut world, Goal::Cancel);
}

#[test]
fn a_phase_that_takes_too_long_is_given_up() {
    // phase, how much longer than LIMIT it may take: 4.5 MB at 20 Mbit/s three times are 5.4 s
    let table = [
        (Holding, Some(SignedDuration::ZERO)),
        (Routing, Some(SignedDuration::ZERO)),
        (Staging, Some(SignedDuration::from_millis(5_400))),
        (Starting, Some(SignedDuration::ZERO)),
        (Running, None),
        (Stopping, None),
        (Unrouting, None),
        (Releasing, None),
    ];
    for (phase, more) in table {
        let mut world = at_phase(&spread(Lease::None), phase);
        world.now = world.saga.phase_since;
        let Some(more) = more else {
            assert!(!world.wait(SignedDuration::from_hours(1_000)).changed, "{phase} takes as long as it takes");
            continue;
        };
        let allowed = LIMIT.step + more;
        assert!(!world.wait(allowed).changed, "in {phase}");
        world.wait(SignedDuration::from_micros(1));
        assert_eq!(world.saga.goal, Goal::Replace);
        assert_eq!(world.saga.cause, format!("{phase} took longer than {} s", allowed.as_secs()));
        settles(&mut world, Goal::Replace);
    }
}

#[test]
fn a_clock_that_is_set_back_ends_no_phase() {
    let mut world = at_phase(&solo(Lease::None), Holding);
    assert!(!world.wait(SignedDuration::from_hours(-1)).changed);
}

/// Nobody led for an hour: that is not the site's fault, and its work may well run.
#[test]
fn a_restart_holds_no_lost_time_against_a_phase() {
    for phase in [Holding, Routing, Staging, Starting] {
        let mut world = at_phase(&spread(Lease::None), phase);
        world.now += SignedDuration::from_hours(1);
        world.restart();
        world.tell(Event::Tick { limit: LIMIT });
        assert_eq!((world.saga.phase, world.saga.goal), (phase, Goal::Complete));
        world.wait(SignedDuration::from_hours(1));
        assert_eq!(world.saga.goal, Goal::Replace, "from then on the limit holds again");
    }
}

#[test]
fn a_restart_in_any_phase_leads_to_the_same_end() {
    for lease in [Lease::None, Lease::Minute] {
        for case in all(lease) {
            let endless = case.order.components.iter().all(|c| c.service.is_some());
            for round in 0..14 {
                let mut world = World::new(&case);
                for _ in 0..round {
                    world.round();
                }
                if !world.settled {
                    world.restart();
                }
                if endless {
                    world.until("running", |w| w.saga.phase >= Running);
                    world.tell(Event::Cancel);
                }
                settles(&mut world, if endless { Goal::Cancel } else { Goal::Complete });
            }
        }
    }
}

/// What was reported on the old leader's desired state may be true no more by the time the new one leads.
#[test]
fn after_a_restart_only_the_new_desired_state_confirms() {
    let mut world = at_phase(&solo(Lease::None), Stopping);
    world.deliver(&point("a"));
    let late = world.agent("a").report();
    world.restart();
    world.hear(&late);
    assert_eq!((world.saga.phase, world.saga.confirmed.len()), (Stopping, 0));
    world.round();
    world.round();
    assert!(world.saga.phase > Stopping);
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
