//! Paths in the points' kernels, and what takes their place.

use crate::{
    cases::{self, Case, case, point},
    world::{World, at_phase, settles},
};
use jiff::SignedDuration;
use rhumb_model::Phase::{Holding, Routing, Running, Starting};
use rhumb_provision::{Carriage, Event, Goal, PathRole, Saga, bill, step::step};
use rhumb_wire::{Duty, KernelRoute, RouteEndState, Tunnel};

const NEED: &str = "need: {accelerators: {count: 1}, cpu: 2, memory: 4GiB}";

fn stream() -> Case {
    let yaml = format!(
        "name: pair\nclass: inference\ncomponents:\n\
         - {{name: left, {NEED}, work: {{duration: 1h}}}}\n- {{name: right, {NEED}, work: {{duration: 1h}}}}\n\
         flows:\n- {{from: left, to: right, rate: 10Mbps, max_latency: 20ms}}\n"
    );
    case(&yaml, &[("left", &[("a", 1)]), ("right", &[("b", 1)])], &[(0, "a r b", 10_000, 0)])
}

/// One tunnel from `a` to `b` through `r`.
fn tunnel(number: u32) -> Carriage {
    let address = |text: &str| text.parse().unwrap();
    let near = Tunnel {
        number,
        local: address("fd00::a"),
        remote: address("fd00::b"),
        own: "10.200.0.0".parse().unwrap(),
        peer: "10.200.0.1".parse().unwrap(),
        segments: vec!["fd00::e".parse().unwrap()],
    };
    let route = |previous, next, peer: Option<&str>| KernelRoute {
        previous,
        next,
        source: near.own,
        sink: near.peer,
        peer: peer.map(point),
        overlay_port: 4_000,
        source_networks: Vec::new(),
        sink_networks: Vec::new(),
        allow: None,
        mtu: None,
        dscp: 0,
    };
    let (first, last) = (route(None, Some(near.clone()), Some("b")), route(Some(near.clone()), None, Some("a")));
    Carriage::Tunnels(vec![first, route(None, None, None), last])
}

/// Where the leg's only path is a tunnel.
fn tunnelled(mut world: World) -> World {
    world.saga.legs[0].paths[0].carriage = tunnel(5_001);
    world
}

fn ways(world: &World) -> Vec<(PathRole, &'static str)> {
    world.saga.legs[0].paths.iter().map(|p| (p.role, p.carriage.provider())).collect()
}

fn fail(world: &mut World, at: &str, path: u32) {
    world.agent(at).hops.iter_mut().find(|(k, _)| k.path == path).unwrap().1.state = RouteEndState::Failed;
}

#[test]
fn what_is_to_be_built_is_open_until_it_is_decided_on() {
    let mut world = at_phase(&stream(), Holding);
    assert!(world.saga.open_paths().is_empty(), "nothing is to be built yet");
    world.until_phase(Routing);
    assert_eq!(world.saga.open_paths(), [(0, 0)]);
    let mut decided = step(&world.saga, Event::Watch { sights: Vec::new() }, world.now, world.next());
    decided.carry(0, 0, tunnel(5_001), None);
    assert!(decided.changed && decided.saga.open_paths().is_empty());
    let said = &decided.notes[0].message;
    assert_eq!(said, "flow 0 is carried by the kernel over a-r, r-b: tunnel 5001");
    // once is enough
    decided.carry(0, 0, Carriage::Relays, Some("a late thought".to_owned()));
    assert_eq!((decided.notes.len(), decided.saga.legs[0].carry().carriage.numbers()), (1, vec![5_001]));
    // and it is there after a restart
    let text = serde_json::to_string(&decided.saga).unwrap();
    assert_eq!(serde_json::from_str::<Saga>(&text).unwrap(), decided.saga);
}

#[test]
fn a_tunnel_that_fails_anywhere_gives_way_to_relays_over_the_same_links() {
    for at in ["a", "r", "b"] {
        for phase in [Routing, Running] {
            let mut world = tunnelled(at_phase(&stream(), phase));
            world.round();
            let before = world.saga.clone();
            fail(&mut world, at, 0);
            let failed = world.agent(at).report();
            world.hear(&failed);
            assert_eq!(ways(&world), [(PathRole::Closing, "kernel"), (PathRole::Carry, "overlay")], "{at} {phase}");
            assert_eq!(world.saga.legs[0].paths[0].links, world.saga.legs[0].carry().links);
            let gone = |w: &World| w.saga.legs[0].paths[0].role == PathRole::Gone && w.saga.legs[0].is_active();
            world.until("relays in its place", gone);
            assert_eq!((world.saga.goal, world.saga.generation), (Goal::Complete, 1), "{:?}", world.notes);
            assert_eq!(world.saga.freed_tunnels(&before), [5_001], "its points have said that nothing is left");
            assert!(world.saga.unsure_tunnels().is_empty() && world.saga.freed_tunnels(&world.saga).is_empty());
        }
    }
}

/// Relays have nothing to fall back to: the generation is given up, as ever.
#[test]
fn relays_that_fail_are_not_tried_again() {
    let mut world = tunnelled(at_phase(&stream(), Routing));
    world.round();
    for path in [0, 1] {
        fail(&mut world, "b", path);
        let failed = world.agent("b").report();
        world.hear(&failed);
        world.deliver(&point("b"));
        world.agents.values_mut().for_each(|a| drop(a.report()));
    }
    assert_eq!(world.saga.goal, Goal::Replace, "{:?}", world.notes);
    settles(&mut world, Goal::Replace);
}

#[test]
fn a_tunnel_that_does_not_come_up_is_not_waited_for_until_the_order_is_given_up() {
    let mut world = at_phase(&stream(), Holding);
    world.agent("r").cut = true;
    world.until_phase(Routing);
    let mut world = tunnelled(world);
    for _ in 0..29 {
        world.round();
        world.watch(&[]);
        assert_eq!(ways(&world), [(PathRole::Carry, "kernel")]);
    }
    for _ in 0..3 {
        world.round();
        world.watch(&[]);
    }
    assert_eq!(ways(&world), [(PathRole::Closing, "kernel"), (PathRole::Carry, "overlay")]);
    assert!(world.notes.iter().any(|n| n.message.contains("did not come up within 30 s")), "{:?}", world.notes);
    world.agent("r").cut = false;
    world.until_phase(Starting);
    assert_eq!((world.saga.goal, world.saga.generation), (Goal::Complete, 1));
}

/// While another path is built it is the new one that gives way, and the old one carries on.
#[test]
fn a_next_path_by_tunnel_that_fails_is_built_by_relays() {
    let mut world = tunnelled(at_phase(&stream(), Running));
    world.agents.values_mut().for_each(|a| a.habits.steps = 10_000);
    world.agents.values_mut().for_each(crate::agent::Agent::run_on);
    for _ in 0..5 {
        world.round();
        let latency = rhumb_model::Latency::from_micros(200_000);
        world.watch(&[rhumb_provision::Sight { leg: 0, path: 0, latency }]);
    }
    world.reroute(0, &["s"], PathRole::Next);
    world.saga.legs[0].paths[1].carriage = tunnel(5_002);
    world.round();
    fail(&mut world, "s", 1);
    let failed = world.agent("s").report();
    world.hear(&failed);
    let roles = [(PathRole::Carry, "kernel"), (PathRole::Closing, "kernel"), (PathRole::Next, "overlay")];
    assert_eq!(ways(&world), roles);
    let taken = |w: &World| w.saga.legs[0].carry().path == 2 && w.saga.legs[0].paths[0].role == PathRole::Gone;
    for _ in 0..10 {
        world.round();
        world.watch(&[]);
    }
    assert!(taken(&world), "{:?}", world.saga.legs[0]);
    let share = &world.shares[&point("a")].1;
    assert_eq!(share.routes.iter().map(|r| (r.key.path, r.duty)).collect::<Vec<_>>(), [(2, Duty::Carry)]);
}

/// Nobody may have the number of what may still be there.
#[test]
fn a_number_is_unsure_where_a_point_was_given_up() {
    let mut case = stream();
    case.order.terms.failover = rhumb_model::order::Failover::Lease(rhumb_model::Span::from_micros(10_000_000));
    let mut world = tunnelled(at_phase(&case, Running));
    world.lease_ended("b");
    settles(&mut world, Goal::Replace);
    assert_eq!(world.saga.unsure_tunnels(), [5_001]);
}

#[test]
fn an_agent_that_comes_back_at_another_port_is_reached_there() {
    let mut world = tunnelled(at_phase(&stream(), Running));
    let moved = Event::Moved { point: point("b"), port: 4_711 };
    let done = step(&world.saga, moved, world.now, world.next());
    assert!(done.desired_changed);
    let Carriage::Tunnels(routes) = &done.saga.legs[0].carry().carriage else { panic!("a tunnel stays one") };
    assert!(routes.iter().all(|r| r.overlay_port == 4_711));
    // of a point that no tunnel ends at nothing follows
    world.saga = done.saga;
    for (at, port) in [("b", 4_711), ("r", 4_712), ("a", 4_713)] {
        let done = step(&world.saga, Event::Moved { point: point(at), port }, world.now, world.next());
        assert!(!done.changed, "{at}");
    }
}

#[test]
fn what_came_out_of_a_tunnel_has_passed_each_of_its_links() {
    let mut world = tunnelled(at_phase(&stream(), Running));
    // a segment counts nothing
    let path = &mut world.saga.legs[0].paths[0];
    path.bytes = [(point("a"), 5_000), (point("r"), 0), (point("b"), 4_000)].into();
    world.now += SignedDuration::from_secs(1);
    let items = bill(&world.case.order, &world.saga, &cases::Free);
    let of = |link: &str| items.iter().find(|i| i.kind == "gb_moved" && i.subject == link).unwrap().quantity_micro;
    assert_eq!((of("a-r"), of("r-b")), (4, 4), "4000 bytes in millionths of a GB");
}
