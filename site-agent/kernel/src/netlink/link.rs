//! Tunnels' links.

use super::{Mode, Socket, gone};
use crate::{
    object::Link,
    owner::{GOING, GROUP, Owner},
};
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{InfoData, InfoKind, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage},
};
use rtnetlink::LinkVxlan;
use std::{io, net::IpAddr};

/// UDP port of VXLAN (RFC 7348).
const PORT: u16 = 4_789;
/// Hops that an outer packet may take.
const TTL: u8 = 64;

/// A link of this host.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) mtu: u32,
    /// `None`: it is somebody else's.
    pub(crate) own: Option<Link>,
    /// Octets received and sent, and packets.
    pub(crate) received: (u64, u64),
    pub(crate) sent: (u64, u64),
}

/// Every link, those of others too: tunnels need their MTU.
pub(crate) async fn links(socket: &mut Socket) -> io::Result<Vec<Seen>> {
    let all = socket.dump(RouteNetlinkMessage::GetLink(LinkMessage::default())).await?;
    let links = all.into_iter().filter_map(|message| match message {
        RouteNetlinkMessage::NewLink(link) => Some(seen(&link)),
        _ => None,
    });
    Ok(links.collect())
}

fn seen(message: &LinkMessage) -> Seen {
    let mut seen =
        Seen { index: message.header.index, name: String::new(), mtu: 0, own: None, received: (0, 0), sent: (0, 0) };
    let (mut group, mut alias, mut data, mut vxlan) = (0, None, None, false);
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => seen.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => seen.mtu = *mtu,
            LinkAttribute::Group(number) => group = *number,
            LinkAttribute::IfAlias(text) => alias = Some(text.as_str()),
            LinkAttribute::Stats64(stats) => {
                seen.received = (stats.rx_bytes, stats.rx_packets);
                seen.sent = (stats.tx_bytes, stats.tx_packets);
            }
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    match info {
                        LinkInfo::Kind(kind) => vxlan = *kind == InfoKind::Vxlan,
                        LinkInfo::Data(InfoData::Vxlan(infos)) => data = Some(infos.as_slice()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    if (group == GROUP || group == GOING) && vxlan {
        let unspecified = IpAddr::from([0; 4]);
        let mut own = Link {
            name: seen.name.clone(),
            vni: 0,
            local: unspecified,
            remote: unspecified,
            tos: 0,
            mtu: seen.mtu,
            // one that was about to go is to be marked anew where it is wanted after all
            owner: alias.filter(|_| group == GROUP).and_then(Owner::of_alias),
            up: message.header.flags.contains(LinkFlags::Up),
        };
        for info in data.unwrap_or_default() {
            match info {
                InfoVxlan::Id(vni) => own.vni = *vni,
                InfoVxlan::Local(address) => own.local = IpAddr::V4(*address),
                InfoVxlan::Local6(address) => own.local = IpAddr::V6(*address),
                InfoVxlan::Group(address) => own.remote = IpAddr::V4(*address),
                InfoVxlan::Group6(address) => own.remote = IpAddr::V6(*address),
                InfoVxlan::Tos(tos) => own.tos = *tos,
                _ => {}
            }
        }
        seen.own = Some(own);
    }
    seen
}

impl Socket {
    /// Makes the link, marked by its group from its first moment, and gives its index.
    pub(crate) async fn add_link(&mut self, link: &Link) -> io::Result<u32> {
        let mut builder = LinkVxlan::new(&link.name, link.vni).port(PORT).ttl(TTL).tos(link.tos).learning(false);
        builder = match link.local {
            IpAddr::V4(local) => builder.local(local),
            IpAddr::V6(local) => builder.local6(local),
        };
        builder = match link.remote {
            IpAddr::V4(remote) => builder.remote(remote),
            IpAddr::V6(remote) => builder.remote6(remote),
        };
        let message = builder.mtu(link.mtu).link_group(GROUP).build();
        self.ask(RouteNetlinkMessage::NewLink(message), Mode::New).await?;
        let index = self.link_index(&link.name).await?;
        self.set_link(index, link).await?;
        Ok(index)
    }

    /// Its marks, its MTU, and up or down.
    pub(crate) async fn set_link(&mut self, index: u32, link: &Link) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.change_mask = LinkFlags::Up;
        if link.up {
            message.header.flags = LinkFlags::Up;
        }
        message.attributes.push(LinkAttribute::Mtu(link.mtu));
        message.attributes.push(LinkAttribute::Group(GROUP));
        if let Some(owner) = &link.owner {
            message.attributes.push(LinkAttribute::IfAlias(owner.alias()));
        }
        self.ask(RouteNetlinkMessage::SetLink(message), Mode::Act).await
    }

    /// Removes links together: one by one each waits for the whole machine to have forgotten it, some 30 ms.
    pub(crate) async fn delete_links(&mut self, indices: &[u32]) -> io::Result<()> {
        for index in indices {
            let mut message = LinkMessage::default();
            message.header.index = *index;
            message.attributes.push(LinkAttribute::Group(GOING));
            gone(self.ask(RouteNetlinkMessage::SetLink(message), Mode::Act).await)?;
        }
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::Group(GOING));
        gone(self.ask(RouteNetlinkMessage::DelLink(message), Mode::Act).await)
    }

    async fn link_index(&mut self, name: &str) -> io::Result<u32> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        let found = self.get(RouteNetlinkMessage::GetLink(message)).await?;
        let index = found.into_iter().find_map(|message| match message {
            RouteNetlinkMessage::NewLink(link) => Some(link.header.index),
            _ => None,
        });
        index.ok_or_else(|| io::Error::other("the link is gone again"))
    }
}
