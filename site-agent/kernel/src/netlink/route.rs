//! Routes: of legs in their own tables, and segments of this point.

use super::{Mode, Socket, gone};
use crate::{
    object::{Route, RouteKind},
    owner::PROTOCOL,
    vni::Vni,
    wanted::MAIN,
};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::{
        RouteAddress, RouteAttribute, RouteHeader, RouteLwEnCapType, RouteLwTunnelEncap, RouteMessage, RouteProtocol,
        RouteScope, RouteSeg6IpTunnel, RouteSeg6LocalTunnel, RouteType, Seg6Header, Seg6LocalAction, Seg6Mode,
    },
};
use std::{collections::BTreeMap, io, net::IpAddr};

/// This driver's routes; `names` are all links of the host.
pub(crate) async fn routes(socket: &mut Socket, names: &BTreeMap<u32, String>) -> io::Result<Vec<Route>> {
    let mut found = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut ask = RouteMessage::default();
        ask.header.address_family = family;
        for message in socket.dump(RouteNetlinkMessage::GetRoute(ask)).await? {
            if let RouteNetlinkMessage::NewRoute(route) = message {
                found.extend(read(&route, names));
            }
        }
    }
    Ok(found)
}

/// `None`: somebody else's.
fn read(message: &RouteMessage, names: &BTreeMap<u32, String>) -> Option<Route> {
    if message.header.protocol != RouteProtocol::Other(PROTOCOL) {
        return None;
    }
    let v4 = message.header.address_family == AddressFamily::Inet;
    let prefix = message.header.destination_prefix_length;
    let zero = if v4 { IpAddr::from([0_u8; 4]) } else { IpAddr::from([0_u8; 16]) };
    let mut route = Route {
        table: u32::from(message.header.table),
        destination: net(zero, prefix)?,
        link: None,
        via: None,
        source: None,
        kind: if message.header.kind == RouteType::BlackHole { RouteKind::Blackhole } else { RouteKind::Plain },
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(table) => route.table = *table,
            RouteAttribute::Destination(to) => route.destination = net(address(to)?, prefix)?,
            RouteAttribute::Gateway(via) => route.via = address(via),
            RouteAttribute::PrefSource(source) => route.source = address(source),
            // a blackhole of IPv6 is shown on the loopback
            RouteAttribute::Oif(index) if route.kind != RouteKind::Blackhole => route.link = names.get(index).cloned(),
            RouteAttribute::Encap(encap) => {
                for part in encap {
                    match part {
                        RouteLwTunnelEncap::Seg6(RouteSeg6IpTunnel::Seg6(header)) => {
                            // inserted into the packet itself: the last place is left for its destination
                            let listed = header.segments.iter().filter(|segment| !segment.is_unspecified());
                            route.kind = RouteKind::Segments(listed.copied().collect());
                        }
                        RouteLwTunnelEncap::Seg6Local(RouteSeg6LocalTunnel::Action(Seg6LocalAction::End)) => {
                            route.kind = RouteKind::End;
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    // the number alone might be somebody else's too
    let own = Vni::of_table(route.table).is_some() || (route.table == MAIN && route.kind == RouteKind::End);
    own.then_some(route)
}

fn net(address: IpAddr, prefix: u8) -> Option<IpNet> {
    IpNet::new(address, prefix).ok()
}

fn address(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

impl Socket {
    /// Makes the route, or puts it in place of one to the same destination, in one step.
    pub(crate) async fn put_route(&mut self, route: &Route, index: Option<u32>) -> io::Result<()> {
        self.ask(RouteNetlinkMessage::NewRoute(message(route, index)), Mode::Put).await
    }

    pub(crate) async fn delete_route(&mut self, route: &Route) -> io::Result<()> {
        let mut whole = message(route, None);
        // named by table, destination and protocol: its link may be gone
        whole
            .attributes
            .retain(|attribute| matches!(attribute, RouteAttribute::Destination(_) | RouteAttribute::Table(_)));
        whole.header.kind = if route.kind == RouteKind::Blackhole { RouteType::BlackHole } else { RouteType::Unspec };
        whole.header.scope = RouteScope::NoWhere;
        gone(self.ask(RouteNetlinkMessage::DelRoute(whole), Mode::Act).await)
    }

    /// Which link leads to an address, as the kernel would choose.
    pub(crate) async fn uplink(&mut self, to: IpAddr) -> Option<u32> {
        let mut ask = RouteMessage::default();
        (ask.header.address_family, ask.header.destination_prefix_length) = match to {
            IpAddr::V4(_) => (AddressFamily::Inet, 32),
            IpAddr::V6(_) => (AddressFamily::Inet6, 128),
        };
        ask.attributes.push(RouteAttribute::Destination(to.into()));
        let answers = self.get(RouteNetlinkMessage::GetRoute(ask)).await.ok()?;
        answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewRoute(route) => route.attributes.iter().find_map(|attribute| match attribute {
                RouteAttribute::Oif(index) => Some(*index),
                _ => None,
            }),
            _ => None,
        })
    }
}

fn message(route: &Route, index: Option<u32>) -> RouteMessage {
    let mut message = RouteMessage::default();
    let header = &mut message.header;
    (header.address_family, header.destination_prefix_length) = match route.destination {
        IpNet::V4(net) => (AddressFamily::Inet, Ipv4Net::prefix_len(&net)),
        IpNet::V6(net) => (AddressFamily::Inet6, Ipv6Net::prefix_len(&net)),
    };
    header.protocol = RouteProtocol::Other(PROTOCOL);
    header.scope = RouteScope::Universe;
    header.kind = if route.kind == RouteKind::Blackhole { RouteType::BlackHole } else { RouteType::Unicast };
    if let Ok(small) = u8::try_from(route.table) {
        header.table = small;
    } else {
        header.table = RouteHeader::RT_TABLE_UNSPEC;
        message.attributes.push(RouteAttribute::Table(route.table));
    }
    let attributes = &mut message.attributes;
    if route.destination.prefix_len() > 0 {
        attributes.push(RouteAttribute::Destination(route.destination.network().into()));
    }
    attributes.extend(route.via.map(|via| RouteAttribute::Gateway(via.into())));
    attributes.extend(route.source.map(|source| RouteAttribute::PrefSource(source.into())));
    attributes.extend(index.map(RouteAttribute::Oif));
    match &route.kind {
        RouteKind::Plain | RouteKind::Blackhole => {}
        RouteKind::Segments(segments) => {
            let mut header = Seg6Header::default();
            header.mode = Seg6Mode::Inline;
            header.segments.clone_from(segments);
            // the list ends with the packet's own destination, which the kernel fills in
            header.segments.push(std::net::Ipv6Addr::UNSPECIFIED);
            attributes.push(RouteAttribute::EncapType(RouteLwEnCapType::Seg6));
            let tunnel = RouteSeg6IpTunnel::Seg6(header);
            attributes.push(RouteAttribute::Encap(vec![RouteLwTunnelEncap::Seg6(tunnel)]));
        }
        RouteKind::End => {
            let action = RouteSeg6LocalTunnel::Action(Seg6LocalAction::End);
            attributes.push(RouteAttribute::EncapType(RouteLwEnCapType::Seg6Local));
            attributes.push(RouteAttribute::Encap(vec![RouteLwTunnelEncap::Seg6Local(action)]));
        }
    }
    message
}
