//! One suite for every way of carrying a leg.

#![allow(clippy::unwrap_used)] // helpers of tests may fail the test

use rhumb_model::{Bandwidth, LinkId, OrderId, PointName};
use rhumb_naas::{AsDecided, KernelPoint, Layout, Overlay, Unfit};
use rhumb_provision::{Ask, Carriage, LegPurpose, LegSecrets, LegState, PathRole, PathState, RouteProvider};
use rhumb_wire::{Duty, KernelOffer, Role, RoutePurpose, TunnelNumbers, report::RouteKey};
use std::collections::{BTreeMap, BTreeSet};

fn leg(points: &[&str], purpose: LegPurpose, encrypted: bool) -> LegState {
    let links = points.windows(2).map(|pair| LinkId::new(&pair.join("-")).unwrap()).collect();
    let points = points.iter().map(|p| PointName::new(p).unwrap()).collect();
    LegState::new(3, 1, PathState::new(5, links, points, PathRole::Carry), Bandwidth::from_mbps(20), purpose, encrypted)
}

/// `decide` says how a path through these points is carried.
fn keeps_the_contract(provider: &impl RouteProvider, decide: impl Fn(&[PointName]) -> Carriage) {
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
                let mut leg = leg(points, purpose.clone(), encrypted);
                leg.paths[0].carriage = decide(&leg.paths[0].points);
                let (path, duty) = (&leg.paths[0], if start { Duty::Carry } else { Duty::Measure });
                let ask = Ask { order, generation: 2, leg: &leg, path, duty, start, secrets: &secrets };
                let hops = provider.hops(&ask);
                assert_eq!(hops, provider.hops(&ask), "the same leg, the same hops");
                assert!(hops.iter().all(|(_, r)| r.kernel.is_some() == path.carriage.is_tunnels()));

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
    keeps_the_contract(&Overlay, |_| Carriage::Relays);
    keeps_the_contract(&AsDecided, |_| Carriage::Relays);
    keeps_the_contract(&AsDecided, |_| Carriage::Open);
}

/// How the points' agents say that their kernels are.
#[derive(Clone, Copy)]
enum Points {
    WithSegments,
    Plain,
}

fn offers(points: Points) -> BTreeMap<PointName, KernelPoint> {
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
    BTreeMap::from([point(1, "a"), point(2, "r"), point(3, "s"), point(4, "b")])
}

fn path(points: &[&str]) -> Vec<PointName> {
    points.iter().map(|p| PointName::new(p).unwrap()).collect()
}

/// With the numbers from 150 on.
fn decided(offers: &BTreeMap<PointName, KernelPoint>, path: &[PointName]) -> Carriage {
    let layout = Layout::of(offers, path).unwrap();
    let numbers: Vec<u32> = (150..).take(layout.count()).collect();
    Carriage::Tunnels(layout.carried_by(&numbers).unwrap())
}

/// The tunnels of a path at each of its points, in one line each.
fn tunnels(offers: &BTreeMap<PointName, KernelPoint>, points: &[&str]) -> Vec<String> {
    let shown = |tunnel: Option<rhumb_wire::Tunnel>| {
        tunnel.map_or("-".to_owned(), |t| format!("{} {}>{} {:?}", t.number, t.local, t.remote, t.segments))
    };
    let carriage = decided(offers, &path(points));
    assert_eq!((carriage.provider(), carriage.numbers()[0]), ("kernel", 150));
    let Carriage::Tunnels(routes) = carriage else { panic!("tunnels were decided on") };
    let lines = points.iter().zip(routes).map(|(point, kernel)| {
        let peer = kernel.peer.map_or("-".to_owned(), |peer| peer.to_string());
        assert_eq!((kernel.overlay_port, kernel.source.is_private()), (4_004, true));
        format!("{point}: {} | {} | {peer}", shown(kernel.previous), shown(kernel.next))
    });
    lines.collect()
}

#[test]
fn kernel_tunnels_keep_the_contract() {
    for points in [Points::WithSegments, Points::Plain] {
        let offers = offers(points);
        keeps_the_contract(&AsDecided, |path| decided(&offers, path));
    }
}

#[test]
fn a_path_is_one_tunnel_through_segments_or_a_chain_of_tunnels() {
    assert_eq!(
        tunnels(&offers(Points::WithSegments), &["a", "r", "s", "b"]),
        [
            "a: - | 150 fd00:a:1::96>fd00:a:4::96 [fd00:e:2::e, fd00:e:3::e] | b",
            "r: - | - | -",
            "s: - | - | -",
            "b: 150 fd00:a:4::96>fd00:a:1::96 [fd00:e:3::e, fd00:e:2::e] | - | a",
        ]
    );
    assert_eq!(
        tunnels(&offers(Points::Plain), &["a", "r", "b"]),
        [
            "a: - | 150 10.0.0.1>10.0.0.2 [] | b",
            "r: 150 10.0.0.2>10.0.0.1 [] | 151 10.0.0.2>10.0.0.4 [] | -",
            "b: 151 10.0.0.4>10.0.0.2 [] | - | a",
        ]
    );
    assert_eq!(
        tunnels(&offers(Points::WithSegments), &["a", "b"]),
        ["a: - | 150 10.0.0.1>10.0.0.4 [] | b", "b: 150 10.0.0.4>10.0.0.1 [] | - | a"]
    );
}

#[test]
fn what_no_tunnel_can_carry_says_why() {
    let mut offers = offers(Points::Plain);
    let why = |offers: &BTreeMap<PointName, KernelPoint>, points: &[&str]| {
        Layout::of(offers, &path(points)).unwrap_err().to_string()
    };
    assert_eq!(why(&offers, &["a", "x", "b"]), "the agent at x carries no routes in its kernel");
    let names = path(&["a", "r", "b"]);
    let layout = Layout::of(&offers, &names).unwrap();
    assert_eq!((layout.count(), layout.numbers().from, layout.numbers().to), (2, 100, 199));
    assert_eq!(layout.carried_by(&[150]), Err(Unfit::Count(1, 2)));
    let outside = layout.carried_by(&[150, 200]).unwrap_err().to_string();
    assert_eq!(outside, "tunnel number 200 is not one that r may use");
    offers.get_mut(&names[2]).unwrap().offer.numbers.to = 198;
    assert!(why(&offers, &["a", "r", "b"]).starts_with("r and b have not the same tunnel numbers"));
    offers.get_mut(&names[1]).unwrap().offer.underlay = vec!["fd00::1".parse().unwrap()];
    let names = path(&["a", "r"]);
    let apart = Layout::of(&offers, &names).unwrap().carried_by(&[150]).unwrap_err().to_string();
    assert_eq!(apart, "a and r have no underlay addresses of one family");
}
