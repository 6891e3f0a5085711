//! What cannot be carried is refused with the reason, and keeps nothing else from being carried.

use crate::world::{intent, tunnel, uplink};
use rhumb_kernel::{Intent, Object, Place, Stance, Tunnel, VniRange, wanted};
use rhumb_model::Bandwidth;
use std::net::Ipv6Addr;

fn reason(change: impl FnOnce(&mut Intent)) -> String {
    let (good, mut bad) = (intent(1, 1), intent(2, 2));
    change(&mut bad);
    let made = wanted(&[bad.clone(), good.clone()], Some(VniRange::new(1, 16).unwrap()), uplink);
    assert_eq!(made.objects, wanted(&[good], None, uplink).objects, "the other leg is built whole");
    made.refused[&bad.owner].to_string()
}

#[test]
fn reasons_name_the_value_and_the_remedy() {
    assert_eq!(reason(|leg| leg.rate = Bandwidth::ZERO), "a rate of 0 moves nothing; reserve some bandwidth");
    assert_eq!(reason(|leg| leg.dscp = 64), "DSCP 64 does not exist; use 0 to 63");
    assert_eq!(
        reason(|leg| leg.mtu = Some(1_451)),
        "packets of 1451 octets do not fit: up0 carries 1500, a tunnel to 10.0.0.2 takes 50 of them, 1450 are left; \
         raise the MTU of up0 or ask for at most 1450"
    );
    let segments = |count: u16| (0..count).map(|n| Ipv6Addr::new(0xfd00, 0xe, 0, 0, 0, 0, 0, n)).collect();
    let by = move |count| {
        reason(move |leg| {
            leg.place = Place::Source { next: tunnel(2, 2, segments(count)) };
            leg.mtu = Some(1_500);
        })
    };
    // 40 of IPv6, 8 and 16 for each segment and the end, 16 of UDP and VXLAN, 14 of Ethernet
    assert!(by(1).contains("takes 110 of them, 1390 are left"), "{}", by(1));
    assert!(by(2).contains("takes 126 of them, 1374 are left"), "{}", by(2));
    let many = reason(move |leg| leg.place = Place::Source { next: tunnel(2, 2, segments(9)) });
    assert!(many.starts_with("only 1262 octets of a packet would be left"), "{many}");
    assert_eq!(
        reason(|leg| leg.place = Place::Source { next: tunnel(17, 2, Vec::new()) }),
        "tunnel number 17 lies outside of this point's pool 1 to 16"
    );
    assert_eq!(
        reason(|leg| leg.place = Place::Source { next: tunnel(1, 2, Vec::new()) }),
        "tunnel number 1 is held by order 00000000-0000-0000-0000-000000000001 generation 1 leg 0 path 0; \
         take another from the pool"
    );
    assert_eq!(
        reason(|leg| leg.place = Place::Source { next: tunnel(2, 9, Vec::new()) }),
        "nothing here leads to 10.0.0.9; add a route of the underlay"
    );
    let twice = reason(|leg| {
        let (mine, theirs) = (tunnel(2, 2, Vec::new()), tunnel(1, 2, Vec::new()));
        leg.place = Place::Source { next: Tunnel { own: theirs.own, peer: theirs.peer, ..mine } };
    });
    assert!(twice.starts_with("the address 10.200.0.0 is that of another tunnel"), "{twice}");
    let same = reason(|leg| leg.place = Place::Source { next: tunnel(2, 1, Vec::new()) });
    assert!(same.contains("must be of one family and differ"), "{same}");
}

#[test]
fn the_newest_that_is_to_carry_does_and_the_others_stand_by() {
    let rules = |legs: &[Intent]| -> Vec<(u32, u32)> {
        let made = wanted(legs, None, uplink).objects;
        let rules = made.iter().filter_map(|object| match object {
            Object::Rule(rule) => Some((rule.priority, rule.table)),
            _ => None,
        });
        rules.collect()
    };
    let old = intent(1, 1);
    let mut new = intent(1, 2);
    new.owner.generation = 2;
    assert_eq!(rules(&[old.clone(), new.clone()]), [(10_002, 1_000_000_002), (20_001, 1_000_000_001)]);
    new.stance = Stance::Standby;
    assert_eq!(rules(&[old.clone(), new.clone()]), [(10_001, 1_000_000_001), (20_002, 1_000_000_002)]);
    new.stance = Stance::Idle;
    assert_eq!(rules(&[old, new]), [(10_001, 1_000_000_001)]);
}
