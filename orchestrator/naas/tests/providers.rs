//! One suite for every way of carrying a leg.

#![allow(clippy::unwrap_used)] // helpers of tests may fail the test

use rhumb_model::{Bandwidth, LinkId, OrderId, PointName};
use rhumb_naas::Overlay;
use rhumb_provision::{Ask, LegPurpose, LegSecrets, LegState, PathRole, PathState, RouteProvider};
use rhumb_wire::{Duty, Role, RoutePurpose, report::RouteKey};
use std::collections::BTreeSet;

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
