//! One suite for every way of carrying a leg.

#![allow(clippy::unwrap_used)] // helpers of tests may fail the test

use rhumb_model::{Bandwidth, LinkId, OrderId, PointName};
use rhumb_naas::{Kernel, KernelPoint, Overlay};
use rhumb_provision::{Ask, LegPurpose, LegSecrets, LegState, PathRole, PathState, RouteProvider};
use rhumb_wire::{Duty, KernelOffer, Role, RoutePurpose, TunnelNumbers, report::RouteKey};
use std::collections::{BTreeMap, BTreeSet};

fn leg(points: &[&str], purpose: LegPurpose, encrypted: bool) -> LegState {
    let links = points.windows(2).map(|pair| LinkId::new(&pair.join("-")).unwrap()).collect();
    let points = points.iter().map(|p| PointName::new(p).unwrap()).collect();
    LegState::new(3, 1, PathState::new(5, links, points, PathRole::Carry), Bandwidth::from_mbps(20), purpose, encrypted)
}

fn keeps_the_contract(provider: &impl RouteProvider) {
    let order = OrderId(uuid::Uuid::from_u128(7));
    let secrets = LegSecrets { hop_base64: "hop".into(), seal_base64: "seal".into() };
    let dataset = || "corpus".to_owned();
    let purposes = [
        LegPurpose::Inbound { dataset: dataset(), offset: 5, bytes: 7 },
        LegPurpose::Outbound { dataset: dataset(), offset: 0, bytes: 9 },
        LegPurpose::Stream,
    ];
    let paths: [&[&str]; 3] = [&["a", "b"], &["a", "r", "b"], &["a", "r", "s", "b"]];
    for purpose in &purposes {
        for points in paths {
            for (encrypted, start) in [(false, false), (true, false), (false, true), (true, true)] {
                let leg = leg(points, purpose.clone(), encrypted);
                let (path, duty) = (&leg.paths[0], if start { Duty::Carry } else { Duty::Measure });
                let ask = Ask { order, generation: 2, leg: &leg, path, duty, start, secrets: &secrets };
                let hops = provider.hops(&ask);
                assert_eq!(hops, provider.hops(&ask), "the same leg, the same hops");

                let at: Vec<_> = hops.iter().map(|(p, _)| p.as_str()).collect();
                assert_eq!(at, points, "every point once, from the source to the sink");
                assert!(hops.iter().all(|(_, r)| r.key == RouteKey { order, generation: 2, leg: 3, path: 5 }));
                assert!(hops.iter().all(|(_, r)| r.duty == duty));
                assert!(hops.iter().all(|(_, r)| r.rate == leg.rate));
                for (i, (_, route)) in hops.iter().enumerate() {
                    let last = i + 1 == hops.len();
                    let role = if i == 0 {
                        Role::Source
                    } else if last {
                        Role::Sink
                    } else {
                        Role::Relay
                    };
                    assert_eq!(route.role, role);
                    assert_eq!(route.next_link.as_ref(), path.links.get(i));
                    assert_eq!(route.previous.as_ref(), i.checked_sub(1).map(|before| &path.points[before]));
                    let end = role != Role::Relay;
                    let sealed = route.key_base64.as_deref();
                    assert_eq!(sealed, (encrypted && end).then_some("seal"), "relays carry what they cannot read");
                    let expected = match purpose {
                        LegPurpose::Inbound { dataset, offset, bytes } => {
                            let (dataset, offset, bytes) = (dataset.clone(), *offset, *bytes);
                            RoutePurpose::Transfer { dataset, offset, bytes, write: false, start }
                        }
                        LegPurpose::Outbound { dataset, offset, bytes } => {
                            let (dataset, offset, bytes) = (dataset.clone(), *offset, *bytes);
                            RoutePurpose::Transfer { dataset, offset, bytes, write: true, start }
                        }
                        LegPurpose::Stream => RoutePurpose::Stream { flow: 1 },
                    };
                    assert_eq!(route.purpose, expected);
                }
                let proofs: BTreeSet<_> = hops.iter().map(|(_, r)| &r.hop_secret_base64).collect();
                assert_eq!(proofs.len(), 1, "all hops know each other by the same secret");
            }
        }
    }
}

#[test]
fn overlay() {
    assert_eq!(Overlay.name(), "overlay");
    keeps_the_contract(&Overlay);
}

/// How the points' agents say that their kernels are.
#[derive(Clone, Copy)]
enum Points {
    WithSegments,
    Plain,
}

fn kernel(points: Points) -> Kernel<impl Fn(&RouteKey, usize) -> Option<u32>> {
    let point = |number: u16, name: &str| {
        let segments = matches!(points, Points::WithSegments);
        let offer = KernelOffer {
            underlay: vec![format!("10.0.0.{number}").parse().unwrap()],
            locator: segments.then(|| format!("fd00:a:{number}::/64").parse().unwrap()),
            segment: segments.then(|| format!("fd00:e:{number}::e").parse().unwrap()),
            numbers: TunnelNumbers { from: 100, to: 199, inside: "10.200.0.0/24".parse().unwrap() },
            networks: Vec::new(),
        };
        (PointName::new(name).unwrap(), KernelPoint { offer, overlay_port: 4_000 + number })
    };
    let points = [point(1, "a"), point(2, "r"), point(3, "s"), point(4, "b")];
    Kernel::new(BTreeMap::from(points), |key, hop| Some(100 + 10 * key.path + hop as u32))
}

/// The tunnels of a path at each of its points, in one line each.
fn tunnels(provider: &Kernel<impl Fn(&RouteKey, usize) -> Option<u32>>, points: &[&str]) -> Vec<String> {
    let leg = leg(points, LegPurpose::Stream, false);
    let secrets = LegSecrets { hop_base64: "hop".into(), seal_base64: "seal".into() };
    let (order, duty) = (OrderId(uuid::Uuid::from_u128(7)), Duty::Carry);
    let ask = Ask { order, generation: 2, leg: &leg, path: &leg.paths[0], duty, start: false, secrets: &secrets };
    let shown = |tunnel: Option<rhumb_wire::Tunnel>| {
        tunnel.map_or("-".to_owned(), |t| format!("{} {}>{} {:?}", t.number, t.local, t.remote, t.segments))
    };
    let routes = provider.routes(&ask).unwrap();
    let lines = routes.into_iter().map(|(point, route)| {
        let kernel = route.kernel.unwrap();
        let peer = kernel.peer.map_or("-".to_owned(), |peer| peer.to_string());
        assert_eq!((kernel.overlay_port, kernel.source.is_private()), (4_004, true));
        format!("{point}: {} | {} | {peer}", shown(kernel.previous), shown(kernel.next))
    });
    lines.collect()
}

#[test]
fn kernel_tunnels_keep_the_contract() {
    for points in [Points::WithSegments, Points::Plain] {
        keeps_the_contract(&kernel(points));
    }
}

#[test]
fn a_path_is_one_tunnel_through_segments_or_a_chain_of_tunnels() {
    assert_eq!(
        tunnels(&kernel(Points::WithSegments), &["a", "r", "s", "b"]),
        [
            "a: - | 150 fd00:a:1::96>fd00:a:4::96 [fd00:e:2::e, fd00:e:3::e] | b",
            "r: - | - | -",
            "s: - | - | -",
            "b: 150 fd00:a:4::96>fd00:a:1::96 [fd00:e:3::e, fd00:e:2::e] | - | a",
        ]
    );
    assert_eq!(
        tunnels(&kernel(Points::Plain), &["a", "r", "b"]),
        [
            "a: - | 150 10.0.0.1>10.0.0.2 [] | b",
            "r: 150 10.0.0.2>10.0.0.1 [] | 151 10.0.0.2>10.0.0.4 [] | -",
            "b: 151 10.0.0.4>10.0.0.2 [] | - | a",
        ]
    );
    assert_eq!(
        tunnels(&kernel(Points::WithSegments), &["a", "b"]),
        ["a: - | 150 10.0.0.1>10.0.0.4 [] | b", "b: 150 10.0.0.4>10.0.0.1 [] | - | a"]
    );
}

#[test]
fn what_no_tunnel_can_carry_goes_through_relays_and_says_why() {
    let leg = leg(&["a", "x", "b"], LegPurpose::Stream, false);
    let secrets = LegSecrets { hop_base64: "hop".into(), seal_base64: "seal".into() };
    let (order, duty) = (OrderId(uuid::Uuid::from_u128(7)), Duty::Carry);
    let ask = Ask { order, generation: 2, leg: &leg, path: &leg.paths[0], duty, start: false, secrets: &secrets };
    let provider = kernel(Points::Plain);
    assert_eq!(provider.routes(&ask).unwrap_err().to_string(), "the agent at x carries no routes in its kernel");
    assert_eq!(provider.hops(&ask), Overlay.hops(&ask));
}
