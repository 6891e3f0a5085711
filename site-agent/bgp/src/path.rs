//! Announcements as paths of the daemon, and back.

use crate::message::{
    Any, Family, IPAddressPrefix, LargeCommunitiesAttribute, LargeCommunity, NextHopAttribute, OriginAttribute, Path,
    any, read,
};
use ipnet::Ipv4Net;
use rhumb_model::OrderId;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

/// Where a prefix's traffic is to go, and for whose sake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steer {
    pub next_hop: Ipv4Addr,
    /// As `mark` gives them.
    pub orders: BTreeSet<(u32, u32)>,
}

pub type Announcements = BTreeMap<Ipv4Net, Steer>;

/// IPv4 unicast.
pub(crate) const UNICAST: Family = Family { afi: 1, safi: 1 };
/// Says that a path is this driver's: `rhmb` in ASCII.
const OWN: (u32, u32) = (0x7268_6d62, 0);

/// An order in a large community: the last 64 bits of its number, of which 62 are drawn at random.
pub fn mark(order: OrderId) -> (u32, u32) {
    let low = order.0.as_u64_pair().1;
    ((low >> 32) as u32, low as u32)
}

/// `asn` is the daemon's, in whose name the communities are.
pub(crate) fn path(asn: u32, prefix: Ipv4Net, steer: &Steer) -> Path {
    let community = |(local_data1, local_data2)| LargeCommunity { global_admin: asn, local_data1, local_data2 };
    let communities = std::iter::once(OWN).chain(steer.orders.iter().copied()).map(community).collect();
    Path {
        nlri: Some(nlri(prefix)),
        pattrs: vec![
            // IGP: learned within this network (RFC 4271)
            any("OriginAttribute", &OriginAttribute { origin: 0 }),
            any("NextHopAttribute", &NextHopAttribute { next_hop: steer.next_hop.to_string() }),
            any("LargeCommunitiesAttribute", &LargeCommunitiesAttribute { communities }),
        ],
        family: Some(UNICAST),
        neighbor_ip: String::new(),
    }
}

fn nlri(prefix: Ipv4Net) -> Any {
    let message = IPAddressPrefix { prefix_len: u32::from(prefix.prefix_len()), prefix: prefix.network().to_string() };
    any("IPAddressPrefix", &message)
}

/// What the daemon has of a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// This driver's.
    Own(Ipv4Net, Steer),
    /// Announced here by somebody else.
    Foreign(Ipv4Net),
    /// Learned from a peer, or of no concern.
    Other,
}

pub(crate) fn seen(asn: u32, path: &Path) -> Seen {
    // of its own paths the daemon gives no neighbour's address
    if path.neighbor_ip.parse::<std::net::IpAddr>().is_ok_and(|from| !from.is_unspecified()) {
        return Seen::Other;
    }
    let prefix = path.nlri.as_ref().and_then(|nlri| read::<IPAddressPrefix>("IPAddressPrefix", nlri));
    let Some(prefix) =
        prefix.and_then(|p| Some(Ipv4Net::new(p.prefix.parse().ok()?, u8::try_from(p.prefix_len).ok()?)))
    else {
        return Seen::Other;
    };
    let Ok(prefix) = prefix else { return Seen::Other };
    let attribute = |name| path.pattrs.iter().find(|a| a.type_url == crate::message::url(name));
    let communities = attribute("LargeCommunitiesAttribute")
        .and_then(|a| read::<LargeCommunitiesAttribute>("LargeCommunitiesAttribute", a))
        .map(|all| all.communities)
        .unwrap_or_default();
    let of_asn = communities.iter().filter(|c| c.global_admin == asn).map(|c| (c.local_data1, c.local_data2));
    let mut orders: BTreeSet<(u32, u32)> = of_asn.collect();
    if !orders.remove(&OWN) {
        return Seen::Foreign(prefix);
    }
    let next_hop = attribute("NextHopAttribute").and_then(|a| read::<NextHopAttribute>("NextHopAttribute", a));
    let next_hop = next_hop.and_then(|n| n.next_hop.parse().ok()).unwrap_or(Ipv4Addr::UNSPECIFIED);
    Seen::Own(prefix, Steer { next_hop, orders })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steer() -> Steer {
        let order = OrderId("0193a0c4-7f00-7000-8000-0000deadbeef".parse().unwrap());
        Steer { next_hop: Ipv4Addr::new(10, 60, 0, 3), orders: BTreeSet::from([mark(order), (1, 2)]) }
    }

    #[test]
    fn a_path_reads_back_as_what_was_announced() {
        let prefix: Ipv4Net = "10.12.0.0/24".parse().unwrap();
        let mut made = path(64_512, prefix, &steer());
        assert_eq!(mark(OrderId(uuid::Uuid::nil())), (0, 0));
        assert_eq!(seen(64_512, &made), Seen::Own(prefix, steer()));
        // as the daemon shows its own
        made.neighbor_ip = "<nil>".to_owned();
        assert_eq!(seen(64_512, &made), Seen::Own(prefix, steer()));
        made.neighbor_ip = "10.60.0.2".to_owned();
        assert_eq!(seen(64_512, &made), Seen::Other, "what a peer says is the peer's");
    }

    #[test]
    fn what_bears_no_mark_is_foreign_and_what_cannot_be_read_is_nothing() {
        let prefix: Ipv4Net = "10.12.0.0/24".parse().unwrap();
        let made = path(64_512, prefix, &steer());
        assert_eq!(seen(64_513, &made), Seen::Foreign(prefix), "another network's mark");
        let bare = Path { pattrs: Vec::new(), ..made.clone() };
        assert_eq!(seen(64_512, &bare), Seen::Foreign(prefix));
        for nlri in [None, Some(any("IPAddressPrefix", &IPAddressPrefix { prefix_len: 99, prefix: "x".into() }))] {
            assert_eq!(seen(64_512, &Path { nlri, ..made.clone() }), Seen::Other);
        }
    }
}
