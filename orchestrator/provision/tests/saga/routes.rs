//! Legs whose paths change while the work runs.

use crate::{
    cases::{self, Case, Lease, case, service, spread},
    world::{World, at_phase, settles},
};
use jiff::SignedDuration;
use rhumb_model::{
    Bandwidth, Latency, LinkId,
    Phase::{Holding, Releasing, Routing, Running, Starting, Stopping, Unrouting},
    RouteState,
};
use rhumb_provision::{Event, Goal, LegTerms, PathRole, Present, Saga, Sight, Stamp, bill, step::step};
use rhumb_wire::{Duty, RouteEndState, RouteFigures, TestedRate};

const NEED: &str = "need: {accelerators: {count: 1}, cpu: 2, memory: 4GiB}";

/// A stream by way of `r` that must not take longer than 20 ms.
fn stream() -> Case {
    let yaml = format!(
        "name: pair\nclass: inference\ncomponents:\n\
         - {{name: left, {NEED}, work: {{duration: 1h}}}}\n- {{name: right, {NEED}, work: {{duration: 1h}}}}\n\
         flows:\n- {{from: left, to: right, rate: 10Mbps, max_latency: 20ms}}\n"
    );
    case(&yaml, &[("left", &[("a", 1)]), ("right", &[("b", 1)])], &[(0, "a r b", 10_000, 0)])
}

/// The same with a backup by way of `s`.
fn protected() -> Case {
    let mut case = stream();
    case.order.flows[0].protected = true;
    case.plan.flows[0].backup = ["a-s", "s-b"].map(|l| LinkId::new(l).unwrap()).to_vec();
    case
}

/// Work that does not end by itself within a test.
fn running(case: &Case) -> World {
    let mut world = at_phase(case, Running);
    world.agents.values_mut().for_each(|a| a.habits.steps = 10_000);
    // what runs already has its end set
    world.agents.values_mut().for_each(crate::agent::Agent::run_on);
    world
}

fn sight(path: u32, ms: u64) -> Vec<Sight> {
    vec![Sight { leg: 0, path, latency: Latency::from_micros(ms * 1_000) }]
}

fn roles(world: &World) -> Vec<PathRole> {
    world.saga.legs[0].paths.iter().map(|p| p.role).collect()
}

fn duties(world: &World, at: &str) -> Vec<(u32, Duty)> {
    let share = &world.shares[&cases::point(at)].1;
    share.routes.iter().map(|r| (r.key.path, r.duty)).collect()
}

/// Lets seconds pass in which the links say this of a path.
fn look(world: &mut World, path: u32, ms: u64, seconds: u32) {
    for _ in 0..seconds {
        world.round();
        world.watch(&sight(path, ms));
    }
}

#[test]
fn a_slow_path_is_left_once_another_stands_and_nothing_restarts() {
    let mut world = running(&stream());
    let runs: Vec<_> = world.agents.values().map(|a| a.runs.len()).collect();
    look(&mut world, 0, 200, 2);
    assert!(world.saga.wants(world.now).is_empty(), "a moment is no reason to move");
    look(&mut world, 0, 200, 3);
    assert_eq!(world.saga.legs[0].route_state(world.saga.phase), RouteState::Degraded);
    let wants = world.saga.wants(world.now);
    assert_eq!((wants.len(), wants[0].role, wants[0].bound), (1, PathRole::Next, Some(Latency::from_micros(20_000))));
    assert_eq!(wants[0].not, [["a-r", "r-b"].map(|l| LinkId::new(l).unwrap()).to_vec()]);

    world.reroute(0, &["s"], PathRole::Next);
    assert!(world.saga.wants(world.now).is_empty(), "one at a time");
    assert_eq!(world.saga.legs[0].route_state(world.saga.phase), RouteState::Moving);
    assert_eq!(duties(&world, "a"), [(0, Duty::Carry), (1, Duty::Standby)]);
    assert_eq!(world.saga.legs[0].held_links().len(), 4, "old and new are held");
    // at no time is there no path that may carry
    for _ in 0..8 {
        let duties = duties(&world, "a");
        assert!(duties.iter().any(|(_, duty)| *duty == Duty::Carry), "{duties:?}");
        world.round();
        world.watch(&sight(1, 6));
    }
    assert_eq!(roles(&world), [PathRole::Gone, PathRole::Carry]);
    assert_eq!(world.saga.legs[0].held_links().len(), 2);
    assert!(world.saga.legs[0].trouble.is_none());
    assert!(world.agents["r"].hops.is_empty(), "the old path is torn down");
    assert_eq!(runs, world.agents.values().map(|a| a.runs.len()).collect::<Vec<_>>());
    assert_eq!((world.saga.generation, world.saga.goal), (1, Goal::Complete));
    world.tell(Event::Cancel);
    settles(&mut world, Goal::Cancel);
    assert!(world.agents.values().all(|a| a.hops.is_empty()));
}

#[test]
fn moves_are_held_down_and_counted() {
    let mut world = running(&stream());
    let mut moved = 0;
    let mut between = Vec::new();
    let mut last = None;
    for _ in 0..900 {
        world.round();
        let path = world.saga.legs[0].carry().path;
        // every path is slow
        world.watch(&sight(path, 100));
        if !world.saga.wants(world.now).is_empty() {
            let by = if moved % 2 == 0 { "s" } else { "t" };
            world.reroute(0, &[by], PathRole::Next);
            between.extend(last.map(|at| world.now.duration_since(at)));
            last = Some(world.now);
            moved += 1;
        }
    }
    assert_eq!(moved, world.saga.rules.moves_per_hour, "no more within an hour");
    assert!(between.iter().all(|b| *b >= SignedDuration::from_secs(20)), "{between:?}");
    let told = world.saga.route_attention(world.now).expect("a person should know");
    assert!(told.contains("moved 12 times within an hour"), "{told}");
}

#[test]
fn a_path_at_the_edge_of_its_promise_is_left_alone() {
    let mut world = running(&stream());
    // 20 ms and a tenth: noise; and a spike now and then is none of its own
    look(&mut world, 0, 22, 10);
    for _ in 0..10 {
        look(&mut world, 0, 60, 2);
        look(&mut world, 0, 12, 2);
    }
    assert!(world.saga.legs[0].trouble.is_none() && world.saga.wants(world.now).is_empty());
    // once it is late it takes a good figure, and not just one within the noise, to make it well
    look(&mut world, 0, 30, 5);
    assert!(world.saga.legs[0].trouble.is_some());
    look(&mut world, 0, 21, 5);
    assert!(world.saga.legs[0].trouble.is_some());
    look(&mut world, 0, 19, 1);
    assert!(world.saga.legs[0].trouble.is_none());
}

#[test]
fn where_there_is_no_other_path_a_person_is_told_and_the_work_goes_on() {
    let mut world = running(&stream());
    look(&mut world, 0, 200, 5);
    assert!(world.saga.route_attention(world.now).is_none(), "it is being looked for");
    let reason = "bandwidth (needed 10Mbps, free 0kbps)".to_owned();
    world.tell(Event::NoPath { leg: 0, role: PathRole::Next, reason });
    let told = world.saga.route_attention(world.now).expect("a person should know");
    assert!(told.contains("flow 0 is out of its promise: 200ms over a-r, r-b, 20ms promised"), "{told}");
    assert!(told.contains("free 0kbps"), "{told}");
    assert!(world.saga.wants(world.now).is_empty(), "not asked again at once");
    look(&mut world, 0, 200, 5);
    assert_eq!(world.saga.wants(world.now).len(), 1, "but after a while");
    assert_eq!(world.saga.goal, Goal::Complete);
}

#[test]
fn a_new_path_that_is_no_better_is_given_up_and_not_tried_again() {
    let mut world = running(&stream());
    look(&mut world, 0, 200, 5);
    world.reroute(0, &["s"], PathRole::Next);
    world.agents.values_mut().for_each(|a| a.figures = Some(figures(80, 10_000)));
    look(&mut world, 0, 200, 8);
    assert_eq!(roles(&world), [PathRole::Carry, PathRole::Gone]);
    let avoided = world.saga.legs[0].refused.clone();
    assert_eq!(avoided, [["a-s", "s-b"].map(|l| LinkId::new(l).unwrap()).to_vec()]);
    assert!(bill(&world.case.order, &world.saga, &cases::Free).iter().all(|i| !i.subject.contains('s')));
}

fn figures(one_way_ms: u64, arrived_kbps: u64) -> RouteFigures {
    let tested = TestedRate { sent: Bandwidth::from_mbps(10), arrived: Bandwidth::from_kbps(arrived_kbps) };
    RouteFigures { rtt_us: one_way_ms * 2_000, tested: Some(tested) }
}

#[test]
fn nothing_proceeds_over_a_path_that_does_not_keep_its_promise() {
    for (figures, why) in [
        (figures(35, 10_000), "35ms measured over a-r, r-b, 20ms promised"),
        (figures(5, 4_000), "of 10Mbps sent over a-r, r-b, 4Mbps arrived"),
    ] {
        let mut world = World::new(&stream());
        world.agents.values_mut().for_each(|a| a.figures = Some(figures));
        for _ in 0..10 {
            world.round();
            world.watch(&[]);
        }
        assert_eq!(world.saga.phase, Routing);
        assert_eq!(world.saga.wants(world.now).len(), 1);
        // over another path it does
        let mut other = World { saga: world.saga.clone(), ..World::new(&stream()) };
        (other.agents, other.shares) = (world.agents.clone(), world.shares.clone());
        (other.stamp, other.now) = (world.stamp, world.now);
        other.agents.values_mut().for_each(|a| a.better.push((1, crate::routes::figures(5, 10_000))));
        other.reroute(0, &["s"], PathRole::Next);
        other.until("starting", |w| w.saga.phase >= Starting);
        assert_eq!(roles(&other)[1], PathRole::Carry);
        // without one it is placed again, and the reason is told
        world.tell(Event::NoPath { leg: 0, role: PathRole::Next, reason: "every path crosses link a-r".into() });
        assert_eq!(world.saga.goal, Goal::Replace);
        assert!(
            world.saga.cause.contains(why) && world.saga.cause.contains("every path crosses"),
            "{}",
            world.saga.cause
        );
        settles(&mut world, Goal::Replace);
    }
}

#[test]
fn a_backup_stands_from_the_start_and_takes_over_when_the_source_says_so() {
    let mut world = World::new(&protected());
    world.until_phase(Routing);
    assert_eq!(world.saga.points().len(), 4);
    let mut world = running(&protected());
    assert_eq!(roles(&world), [PathRole::Carry, PathRole::Backup]);
    assert_eq!(duties(&world, "a"), [(0, Duty::Carry), (1, Duty::Standby)]);
    // the relay of the first dies; the source helps itself, then the backup is replaced
    world.agent("r").cut = true;
    world.agent("r").hops.clear();
    world.round();
    world.round();
    assert_eq!(roles(&world), [PathRole::Backup, PathRole::Carry]);
    assert_eq!(duties(&world, "a"), [(0, Duty::Standby), (1, Duty::Carry)]);
    assert!(
        world.notes.iter().any(|n| n.message == "flow 0 has taken to its backup over a-s, s-b"),
        "{:?}",
        world.notes
    );
    look(&mut world, 1, 5, 6);
    let wants = world.saga.wants(world.now);
    assert_eq!((wants.len(), wants[0].role), (1, PathRole::Backup));
    assert!(wants[0].apart.contains(&LinkId::new("a-s").unwrap()));
    world.reroute(0, &["t"], PathRole::Backup);
    look(&mut world, 1, 5, 4);
    assert_eq!(roles(&world), [PathRole::Closing, PathRole::Carry, PathRole::Backup]);
    assert!(world.saga.legs[0].bare.is_none() && world.saga.wants(world.now).is_empty());
    // what r may still have is held until it says that it has it no more
    assert!(world.saga.legs[0].held_links().contains_key(&LinkId::new("a-r").unwrap()));
    world.agent("r").cut = false;
    look(&mut world, 1, 5, 3);
    assert_eq!(roles(&world), [PathRole::Gone, PathRole::Carry, PathRole::Backup]);
}

#[test]
fn a_backup_that_does_better_is_taken_at_once() {
    let mut world = running(&protected());
    for _ in 0..5 {
        world.round();
        world.tell(Event::Watch { sights: [sight(0, 90), sight(1, 5)].concat() });
    }
    assert_eq!(roles(&world), [PathRole::Backup, PathRole::Carry]);
    look(&mut world, 1, 5, 3);
    assert_eq!(world.saga.legs[0].carried_by, 1);
    assert_eq!(roles(&world), [PathRole::Backup, PathRole::Carry], "it does not go back by itself");
}

#[test]
fn a_rate_changes_in_place_and_is_billed_by_time() {
    let mut world = running(&stream());
    let begun = world.saga.ran_from.unwrap();
    for _ in 0..10 {
        world.round();
    }
    let bound = Some(Latency::from_micros(20_000));
    let terms = LegTerms { leg: 0, rate: Bandwidth::from_mbps(40), bound, paths: Present::Follow };
    let at = world.now;
    world.tell(Event::Amend { legs: vec![terms] });
    assert_eq!(roles(&world), [PathRole::Carry]);
    assert!(world.shares[&cases::point("r")].1.routes.iter().all(|r| r.rate == terms.rate));
    for _ in 0..10 {
        world.round();
    }
    let run_us = world.saga.replicas.iter().map(|r| r.ran_us).max().unwrap();
    let before = u64::try_from(at.duration_since(begun).as_micros()).unwrap();
    let items = bill(&world.case.order, &world.saga, &cases::Free);
    let held = items.iter().find(|i| i.kind == "mbps_hours" && i.subject == "a-r").unwrap();
    let mbit_us = 10 * before + 40 * (run_us - before);
    assert_eq!(held.quantity_micro, i64::try_from((mbit_us + 1_800) / 3_600).unwrap());
}

#[test]
fn a_rate_that_the_path_has_not_is_kept_by_another() {
    let mut world = running(&stream());
    let (rate, bound) = (Bandwidth::from_mbps(40), Some(Latency::from_micros(20_000)));
    world.tell(Event::Amend { legs: vec![LegTerms { leg: 0, rate, bound, paths: Present::Stay }] });
    let rates = |w: &World| w.shares[&cases::point("a")].1.routes.iter().map(|r| r.rate.kbps()).collect::<Vec<_>>();
    assert_eq!(rates(&world), [10_000], "what it has it keeps");
    world.reroute(0, &["s"], PathRole::Next);
    assert_eq!(rates(&world), [10_000, 40_000]);
    let held: Vec<_> = world.saga.legs[0].held_links().into_values().map(Bandwidth::kbps).collect();
    assert_eq!(held, [10_000, 40_000, 10_000, 40_000]);
    look(&mut world, 1, 5, 6);
    assert_eq!((roles(&world), rates(&world)), (vec![PathRole::Gone, PathRole::Carry], vec![40_000]));
}

#[test]
fn each_path_is_billed_for_its_own_time_and_bytes() {
    let mut world = running(&stream());
    look(&mut world, 0, 200, 5);
    world.reroute(0, &["s"], PathRole::Next);
    look(&mut world, 1, 5, 6);
    let items = bill(&world.case.order, &world.saga, &cases::Free);
    let of = |link: &str| items.iter().find(|i| i.kind == "mbps_hours" && i.subject == link).unwrap().quantity_micro;
    let run_us = world.saga.replicas.iter().map(|r| r.ran_us).max().unwrap();
    assert!(of("a-r") > 0 && of("a-s") > 0);
    // 10 Mbit/s for the whole run, whichever way
    let all = i64::try_from(run_us * 10 / 3_600).unwrap();
    assert!((of("a-r") + of("a-s") - all).abs() <= 2, "{items:?}");

    let leg = &mut world.saga.legs[0];
    let (a, b) = (cases::point("a"), cases::point("b"));
    leg.paths[0].bytes = [(a.clone(), 700), (cases::point("r"), 700), (b.clone(), 650)].into();
    leg.paths[1].bytes = [(a, 1_700), (cases::point("s"), 1_700), (b, 1_700)].into();
    (leg.paths[0].stood_at, leg.paths[1].skipped) = (700, 700);
    let items = bill(&world.case.order, &world.saga, &cases::Free);
    let of = |link: &str| items.iter().find(|i| i.kind == "gb_moved" && i.subject == link).unwrap().quantity_micro;
    assert_eq!((of("a-r"), of("a-s"), of("s-b")), (1, 1, 1), "700 and 1000 bytes in millionths of a GB, rounded");
}

/// Crash before and after each record of a move, each report twice: it ends on the new path, and nothing is left of the old.
#[test]
fn a_move_survives_a_crash_at_every_record() {
    for after in [false, true] {
        for crash in 0..24 {
            let mut world = running(&stream());
            look(&mut world, 0, 200, 5);
            world.reroute(0, &["s"], PathRole::Next);
            let mut step_count = 0;
            for _ in 0..14 {
                world.pass();
                let points: Vec<_> = world.agents.keys().cloned().collect();
                for point in points {
                    if step_count == crash && !after {
                        // the step is computed and lost
                        let message = world.agent(point.as_str()).report();
                        let event = Event::Report {
                            point: message.point.clone(),
                            seen: message.seen,
                            assignments: message.assignments.clone(),
                            routes: message.routes.clone(),
                        };
                        let next = world.next();
                        step(&world.saga, event, world.now, next);
                        world.restart();
                    }
                    world.sync(&point);
                    if step_count == crash && after {
                        world.restart();
                    }
                    step_count += 1;
                }
                world.watch(&sight(1, 5));
            }
            assert_eq!(roles(&world), [PathRole::Gone, PathRole::Carry], "crash at {crash}, after {after}");
            assert_eq!((world.saga.goal, world.saga.generation), (Goal::Complete, 1));
            assert!(world.agents["r"].hops.is_empty());
        }
    }
}

/// A move and a cancel in every order of arrival: in the end nothing is left, and nothing is held.
#[test]
fn five_hundred_moves_and_cancels_at_once_leave_nothing() {
    for round in 0..500_u32 {
        let case = if round % 3 == 0 { protected() } else { stream() };
        let mut world = running(&case);
        look(&mut world, 0, 200, 4 + round % 3);
        let before = round / 3 % 9;
        let moves = |world: &mut World| {
            world.reroute(0, &[["s", "t"][round as usize % 2]], PathRole::Next);
        };
        if round % 2 == 0 {
            moves(&mut world);
            (0..before).for_each(|_| world.round());
            world.tell(Event::Cancel);
        } else {
            world.tell(Event::Cancel);
            (0..before % 4).for_each(|_| world.round());
            let refused = !world.reroute(0, &["t"], PathRole::Next).changed;
            assert!(refused, "what is being cancelled is not moved");
        }
        settles(&mut world, Goal::Cancel);
        for _ in 0..3 {
            world.round();
        }
        assert!(world.agents.values().all(crate::agent::Agent::is_empty), "round {round}");
    }
}

#[test]
fn a_new_path_fails_without_harm_to_the_work() {
    for failing in ["a", "s", "b"] {
        let mut world = running(&stream());
        look(&mut world, 0, 200, 5);
        world.reroute(0, &["s"], PathRole::Next);
        world.round();
        let key = |k: &rhumb_wire::report::RouteKey| k.path == 1;
        let hop = world.agent(failing).hops.iter_mut().find(|(k, _)| key(k)).unwrap().1;
        hop.state = RouteEndState::Failed;
        look(&mut world, 0, 200, 6);
        assert_eq!(roles(&world), [PathRole::Carry, PathRole::Gone], "failed at {failing}");
        assert_eq!(world.saga.goal, Goal::Complete);
    }
}

#[test]
fn legs_of_former_releases_are_read_as_legs_of_one_path() {
    let text = r#"{"leg":3,"flow":1,"links":["a-r","r-b"],"points":["a","r","b"],"rate":"20Mbps","purpose":"stream",
        "encrypted":false,"seen":{"a":"active"},"bytes":{"a":7}}"#;
    let leg: rhumb_provision::LegState = serde_json::from_str(text).unwrap();
    assert_eq!((leg.carry().points.len(), leg.carry().bytes[&cases::point("a")], leg.is_active()), (3, 7, true));
}

#[test]
fn routes_say_how_they_stand_to_the_end() {
    let mut world = World::new(&service(Lease::None));
    let state = |w: &World| w.saga.legs[0].route_state(w.saga.phase);
    assert_eq!((world.saga.phase, state(&world)), (Holding, RouteState::Building));
    world.until_phase(Running);
    assert_eq!(state(&world), RouteState::Active);
    world.tell(Event::Cancel);
    world.until("unrouting", |w| w.saga.phase >= Unrouting);
    assert_eq!(state(&world), RouteState::Terminating);
    world.until("releasing", |w| w.saga.phase >= Releasing);
    assert_eq!(state(&world), RouteState::Terminated);
    let all: Saga = at_phase(&spread(Lease::None), Stopping).saga;
    assert!(all.wants(world.now).is_empty());
    assert!(Stamp::default() < world.stamp);
}

/// Somebody took a hop away by hand.
#[test]
fn a_hop_that_is_gone_is_told_of() {
    let mut world = running(&stream());
    world.agent("r").hops.clear();
    world.round();
    let drift: Vec<_> = world.notes.iter().filter(|n| n.kind == "drift").map(|n| n.message.as_str()).collect();
    assert_eq!(drift, ["flow 0's hop at r is gone from its path over a-r, r-b"]);
    // and that the path is lost is what follows
    look(&mut world, 0, 5, 6);
    assert_eq!(world.saga.wants(world.now).len(), 1);
}

#[test]
fn what_was_measured_is_told_when_the_order_proceeds() {
    let mut world = World::new(&stream());
    world.agents.values_mut().for_each(|a| a.figures = Some(figures(12, 10_000)));
    world.until_phase(Running);
    let told: Vec<_> = world.notes.iter().filter(|n| n.kind == "route").map(|n| n.message.as_str()).collect();
    assert_eq!(told, ["flow 0 is active over a-r, r-b, 12ms measured"]);
}
