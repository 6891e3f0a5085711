//! Addresses on tunnels' links.

use super::{Mode, Socket, gone, there};
use crate::object::Address;
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope},
};
use std::{collections::BTreeMap, io, net::IpAddr};

/// Addresses on the links of `names`, by index; those that the kernel gives by itself are left out.
pub(crate) async fn addresses(socket: &mut Socket, names: &BTreeMap<u32, String>) -> io::Result<Vec<Address>> {
    let all = socket.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default())).await?;
    let mut found = Vec::new();
    for message in all {
        let RouteNetlinkMessage::NewAddress(message) = message else { continue };
        let Some(link) = names.get(&message.header.index) else { continue };
        if message.header.scope == AddressScope::Link {
            continue;
        }
        let address = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(address) => Some(*address),
            _ => None,
        });
        let plain = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        });
        let Some(address) = address.or(plain) else { continue };
        found.push(Address { link: link.clone(), address, prefix: message.header.prefix_len });
    }
    Ok(found)
}

impl Socket {
    pub(crate) async fn add_address(&mut self, index: u32, address: &Address) -> io::Result<()> {
        there(self.ask(RouteNetlinkMessage::NewAddress(message(index, address)), Mode::New).await)
    }

    pub(crate) async fn delete_address(&mut self, index: u32, address: &Address) -> io::Result<()> {
        gone(self.ask(RouteNetlinkMessage::DelAddress(message(index, address)), Mode::Act).await)
    }
}

fn message(index: u32, address: &Address) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.index = index;
    message.header.prefix_len = address.prefix;
    message.header.family = match address.address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    };
    message.attributes.push(AddressAttribute::Local(address.address));
    message.attributes.push(AddressAttribute::Address(address.address));
    if address.address.is_ipv6() {
        // nobody else has it: it is good at once
        message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    }
    message
}
