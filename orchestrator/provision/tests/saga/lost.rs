//! Points that are cut off, phases that take too long, and an orchestrator that starts again.

use crate::{
    agent::Message,
    cases::{Lease, all, point, solo, spread},
    world::{LIMIT, MET, World, at_phase, settles},
};
use jiff::SignedDuration;
use rhumb_model::Phase::{Holding, Releasing, Routing, Running, Staging, Starting, Stopping, Unrouting};
use rhumb_provision::{Event, Goal, PathRole, step::step};
use rhumb_wire::AssignmentState;

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
    // c still takes the results, b's replica still runs: each is needed
    for name in ["a", "b", "c"] {
        let mut world = at_phase(&spread(Lease::Minute), Running);
        world.lease_ended(name);
        assert_eq!(world.saga.goal, Goal::Replace, "{name} is needed");
    }
    // r carries: results take another path, and where there is none it is needed
    let mut world = at_phase(&spread(Lease::Minute), Running);
    world.lease_ended("r");
    world.agent("r").hops.clear();
    assert_eq!(world.saga.goal, Goal::Complete);
    for _ in 0..6 {
        world.round();
        world.watch(&[]);
    }
    let stuck: Vec<u32> = world.saga.wants(world.now).iter().map(|w| w.leg).collect();
    assert_eq!(stuck, [4, 5]);
    world.tell(Event::NoPath { leg: 4, role: PathRole::Next, reason: "all links are down".into() });
    assert_eq!(world.saga.goal, Goal::Complete);
    world.lease_ended("r");
    assert_eq!(world.saga.goal, Goal::Replace);
    let mut done = spread(Lease::Minute);
    done.order.flows.truncate(2);
    done.plan.flows.truncate(4);
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

/// Its own work is done: the others' goes on without it.
#[test]
fn a_site_whose_work_has_ended_does_not_stop_the_others() {
    let mut apart = spread(Lease::Minute);
    (apart.order.flows, apart.plan.flows) = (Vec::new(), Vec::new());
    let mut world = World::new(&apart);
    world.agent("b").habits.steps = 20;
    world.until("the end at a", |w| w.saga.replicas[0].end.is_some());
    assert!(!world.lease_ended("a").changed);
    world.until_phase(Stopping);
    world.lease_ended("a");
    settles(&mut world, Goal::Complete);

    let mut world = at_phase(&apart, Running);
    world.lease_ended("b");
    assert_eq!(world.saga.goal, Goal::Replace);
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

/// An orchestrator that was frozen while another took over.
#[test]
fn a_leader_of_an_older_epoch_does_nothing() {
    let mut world = at_phase(&spread(Lease::Minute), Running);
    let old = world.next();
    world.restart();
    world.round();
    assert_eq!(world.saga.barrier.epoch, old.epoch + 1);
    let mut lost = world.agent("a").report();
    lost.assignments[0].state = AssignmentState::Lost;
    let Message { seen, assignments, routes, .. } = lost;
    let report = Event::Report { point: point("a"), seen, assignments, routes };
    for event in [Event::Cancel, report, Event::LeaseEnded { site: point("a") }] {
        let done = step(&world.saga, event.clone(), world.now, old);
        assert!(!done.changed && !done.desired_changed && done.notes.is_empty() && done.saga == world.saga);
        assert!(step(&world.saga, event, world.now, world.next()).changed);
    }
}
