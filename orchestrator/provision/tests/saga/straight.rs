//! Orders that nothing happens to.

use crate::{
    cases::{Case, Lease, at, served, service, solo, spread},
    world::World,
};
use rhumb_model::Phase::{
    self, Holding, Releasing, Routing, Running, Settling, Staging, Starting, Stopping, Unrouting,
};
use rhumb_provision::{Event, Goal};
use rhumb_wire::{AssignmentGoal, AssignmentState, RoutePurpose};

const WAY: [Phase; 8] = [Routing, Staging, Starting, Running, Stopping, Unrouting, Releasing, Settling];

fn completes(case: &Case) -> World {
    let mut world = World::new(case);
    assert_eq!(world.saga.phase, Holding);
    world.until("settling", |w| w.settled);
    assert_eq!(world.phases(), WAY);
    assert_eq!((world.saga.goal, world.saga.cause.as_str()), (Goal::Complete, ""));
    assert!(world.saga.dead.is_empty());
    for _ in 0..3 {
        world.round();
    }
    assert!(world.agents.values().all(crate::agent::Agent::is_empty), "something is left at an agent");
    world
}

#[test]
fn one_site_without_flows_completes() {
    for lease in [Lease::None, Lease::Minute] {
        let world = completes(&solo(lease));
        let replica = &world.saga.replicas[0];
        assert_eq!(replica.ran_us, 3_000_000);
        assert_eq!(replica.seen, Some(AssignmentState::Exited));
        assert!(replica.end.as_ref().unwrap().is_success());
        assert!(world.saga.ran_from < world.saga.ran_to);
    }
}

#[test]
fn two_sites_stage_over_a_relay_stream_and_write_back() {
    let world = completes(&spread(Lease::None));
    for leg in world.saga.legs.iter().filter(|l| l.flow != 1) {
        let volume = if leg.flow == 0 { 4_500_000 } else { 2_000_000 };
        assert_eq!(leg.carry().points.len(), 3);
        assert!(leg.carry().points.iter().all(|p| leg.carry().bytes[p] == volume), "{leg:?}");
    }
}

#[test]
fn a_dataset_that_is_there_needs_no_route_and_a_service_ends_with_its_work() {
    let world = completes(&served(Lease::None));
    assert_eq!(world.saga.legs.len(), 1);
    let index = world.saga.replicas.iter().find(|r| r.service).unwrap();
    assert_eq!((index.seen, index.end.as_ref()), (Some(AssignmentState::Stopped), None));
    assert!(index.ran_us >= 3_000_000, "it ran as long as the work did");
}

#[test]
fn a_service_runs_until_it_is_cancelled() {
    let mut world = World::new(&service(Lease::Minute));
    world.until_phase(Running);
    for _ in 0..20 {
        world.round();
    }
    assert_eq!(world.saga.phase, Running);
    world.tell(Event::Cancel);
    world.until("settling", |w| w.settled);
    assert_eq!(world.saga.goal, Goal::Cancel);
    assert!(world.saga.replicas[0].ran_us >= 20_000_000);
    assert_eq!(world.saga.cause, "cancelled by its tenant");
}

/// What each phase asks of the points.
#[test]
fn nothing_moves_or_runs_before_its_time() {
    let mut world = World::new(&spread(Lease::None));
    let mut seen = Vec::new();
    let mut look = |w: &World| {
        if seen.last() == Some(&w.saga.phase) {
            return;
        }
        seen.push(w.saga.phase);
        let shares = w.share(&w.saga);
        let goals: Vec<_> = shares.values().flat_map(|s| s.assignments.iter().map(|a| a.goal)).collect();
        let wanted = match w.saga.phase {
            Starting | Running => vec![AssignmentGoal::Run; 2],
            Stopping | Unrouting => vec![AssignmentGoal::Stop; 2],
            Releasing | Settling => vec![],
            _ => vec![AssignmentGoal::Lease; 2],
        };
        assert_eq!(goals, wanted, "in {}", w.saga.phase);
        let routes: Vec<_> = shares.values().flat_map(|s| &s.routes).collect();
        let routed = matches!(w.saga.phase, Routing | Staging | Starting | Running | Stopping);
        // four legs of three points, two of two
        assert_eq!(routes.len(), if routed { 16 } else { 0 }, "in {}", w.saga.phase);
        for route in routes {
            let RoutePurpose::Transfer { write, start, .. } = route.purpose else { continue };
            let due = if write { w.saga.ran_to.is_some() } else { w.saga.phase >= Staging };
            assert_eq!(start, due, "leg {} in {}", route.key.leg, w.saga.phase);
        }
    };
    for _ in 0..100 {
        look(&world);
        world.round();
    }
    look(&world);
    assert_eq!(seen, [&[Holding][..], &WAY[..]].concat());
}

/// Results move while the order still counts as running, and only once all work has ended.
#[test]
fn results_move_once_the_last_replica_has_ended() {
    let mut world = World::new(&spread(Lease::None));
    world.agent("b").habits.steps = 9;
    world.until("the first end", |w| w.saga.replicas.iter().any(|r| r.end.is_some()));
    for _ in 0..3 {
        world.round();
        assert_eq!((world.saga.phase, world.saga.ran_to), (Running, None));
        assert!(world.saga.legs.iter().filter(|l| l.flow == 2).all(|l| l.carry().bytes.values().all(|n| *n == 0)));
    }
    world.until("the last end", |w| w.saga.ran_to.is_some());
    assert_eq!(world.saga.phase, Running);
    let ended = world.saga.ran_to;
    world.until("settling", |w| w.settled);
    assert_eq!((world.saga.ran_to, world.saga.goal), (ended, Goal::Complete));
}

#[test]
fn the_history_names_every_phase_in_its_own_phase() {
    let world = completes(&solo(Lease::None));
    let texts: Vec<_> = world.notes.iter().map(|n| n.message.clone()).collect();
    assert_eq!(texts, WAY.map(|p| format!("order is {p}")));
    assert!(world.notes.iter().zip(WAY).all(|(n, p)| n.phase == p));
    assert!(world.saga.phase_since > at("2026-11-30T12:00:00Z"));
}
