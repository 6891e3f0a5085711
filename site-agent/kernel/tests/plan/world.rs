//! Legs at one point, as many and as odd as may be.

use proptest::prelude::*;
use rhumb_kernel::{Allow, Ends, Intent, Objects, Owner, Pass, Place, Service, Stance, Tunnel, Uplink, Vni, wanted};
use rhumb_model::{Bandwidth, OrderId};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};
use uuid::Uuid;

/// A tunnel from here, by its number.
pub fn tunnel(vni: u32, far: u8, segments: Vec<Ipv6Addr>) -> Tunnel {
    let own = u32::from(Ipv4Addr::new(10, 200, 0, 0)) + 2 * (vni - 1);
    let (own, peer) = (Ipv4Addr::from(own), Ipv4Addr::from(own + 1));
    let v6 = |last: u8| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, last.into(), 0, 0, 0, vni as u16));
    let (local, remote) =
        if segments.is_empty() { ([10, 0, 0, 1].into(), [10, 0, 0, far].into()) } else { (v6(1), v6(far)) };
    Tunnel { vni: Vni::new(vni).unwrap(), local, remote, own, peer, segments }
}

pub fn intent(order: u128, vni: u32) -> Intent {
    let next = tunnel(vni, 2, Vec::new());
    let net = |text: String| vec![text.parse().unwrap()];
    Intent {
        owner: Owner { order: OrderId(Uuid::from_u128(order)), generation: 1, leg: 0, path: 0 },
        ends: Ends { source: next.own, sink: next.peer },
        place: Place::Source { next },
        rate: Bandwidth::from_mbps(50),
        mtu: None,
        dscp: 0,
        stance: Stance::Carrying,
        source: net(format!("10.{order}.1.0/24")),
        sink: net(format!("10.{order}.2.0/24")),
        allow: Allow::Networks,
        protects: None,
    }
}

/// Every address but one is reached by the same device.
pub fn uplink(to: &IpAddr) -> Option<Uplink> {
    (*to != IpAddr::from([10, 0, 0, 9])).then(|| Uplink { device: "up0".to_owned(), mtu: 1_500 })
}

pub fn objects(legs: &[Intent]) -> Objects {
    wanted(legs, None, uplink).objects
}

pub fn legs() -> impl Strategy<Value = Vec<Intent>> {
    prop::collection::vec(leg(), 0..6).prop_map(|legs| {
        // a path is stated once
        let known: BTreeMap<Owner, Intent> = legs.into_iter().map(|leg| (leg.owner, leg)).collect();
        known.into_values().collect()
    })
}

fn leg() -> impl Strategy<Value = Intent> {
    let who = (1_u128..4, 1_u64..3, 0_u32..2, 0_u32..2);
    let how = (1_u32..8, 0_u8..4, 2_u8..4, any::<bool>(), prop::option::of(1_280_u32..1_400));
    let what = (0_u64..3, 0_u8..3, 0_u8..3, any::<bool>());
    (who, how, what).prop_map(|((order, generation, leg, path), (vni, place, far, segments, mtu), what)| {
        let (rate, dscp, stance, only) = what;
        let by = if segments { vec![Ipv6Addr::new(0xfd00, 0xe, 0, 0, 0, 0, 0, u16::from(far))] } else { Vec::new() };
        let (one, other) = (tunnel(vni, far, by.clone()), tunnel(vni + 10, far, by.clone()));
        let place = match place {
            0 => Place::Source { next: one },
            1 => Place::Sink { previous: one },
            2 => Place::Relay { previous: one, next: other },
            _ => Place::Transit { sid: Ipv6Addr::new(0xfd00, 0xe, 0, 0, 0, 0, 0, 9), device: "up0".to_owned() },
        };
        let base = intent(order, vni);
        let pass = Pass { from: base.source[0], to: base.sink[0], service: Service::Tcp(80) };
        Intent {
            owner: Owner { order: base.owner.order, generation, leg, path },
            place,
            rate: Bandwidth::from_mbps(rate * 10),
            mtu,
            dscp,
            stance: [Stance::Idle, Stance::Standby, Stance::Carrying][usize::from(stance)],
            allow: if only { Allow::Only(vec![pass]) } else { Allow::Networks },
            ..base
        }
    })
}
