//! Rules: which packets look into which table.

use super::{Mode, Socket, gone, there};
use crate::{
    object::{Family, Rule},
    owner::PROTOCOL,
    vni::Vni,
};
use ipnet::IpNet;
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::RouteProtocol,
    rule::{RuleAction, RuleAttribute, RuleMessage},
};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// This driver's rules.
pub(crate) async fn rules(socket: &mut Socket) -> io::Result<Vec<Rule>> {
    let mut found = Vec::new();
    for (family, own) in [(AddressFamily::Inet, Family::V4), (AddressFamily::Inet6, Family::V6)] {
        let mut ask = RuleMessage::default();
        ask.header.family = family;
        for message in socket.dump(RouteNetlinkMessage::GetRule(ask)).await? {
            if let RouteNetlinkMessage::NewRule(rule) = message {
                found.extend(read(&rule, own));
            }
        }
    }
    Ok(found)
}

/// `None`: somebody else's.
fn read(message: &RuleMessage, family: Family) -> Option<Rule> {
    let zero = match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let (from, to) = (message.header.src_len, message.header.dst_len);
    let table = u32::from(message.header.table);
    let mut rule = Rule { priority: 0, from: None, to: None, arriving: None, table, family };
    let (mut source, mut destination, mut protocol) = (zero, zero, None);
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            RuleAttribute::Source(address) => source = *address,
            RuleAttribute::Destination(address) => destination = *address,
            RuleAttribute::Iifname(name) => rule.arriving = Some(name.clone()),
            RuleAttribute::Table(table) => rule.table = *table,
            RuleAttribute::Protocol(number) => protocol = Some(*number),
            _ => {}
        }
    }
    if from > 0 {
        rule.from = Some(IpNet::new(source, from).ok()?);
    }
    if to > 0 {
        rule.to = Some(IpNet::new(destination, to).ok()?);
    }
    let own = protocol == Some(RouteProtocol::Other(PROTOCOL)) && Vni::of_table(rule.table).is_some();
    own.then_some(rule)
}

impl Socket {
    pub(crate) async fn add_rule(&mut self, rule: &Rule) -> io::Result<()> {
        there(self.ask(RouteNetlinkMessage::NewRule(message(rule)), Mode::New).await)
    }

    pub(crate) async fn delete_rule(&mut self, rule: &Rule) -> io::Result<()> {
        gone(self.ask(RouteNetlinkMessage::DelRule(message(rule)), Mode::Act).await)
    }
}

fn message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = match rule.family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    };
    message.header.action = RuleAction::ToTable;
    message.attributes.push(RuleAttribute::Table(rule.table));
    message.attributes.push(RuleAttribute::Priority(rule.priority));
    message.attributes.push(RuleAttribute::Protocol(RouteProtocol::Other(PROTOCOL)));
    if let Some(from) = rule.from {
        message.header.src_len = from.prefix_len();
        message.attributes.push(RuleAttribute::Source(from.network()));
    }
    if let Some(to) = rule.to {
        message.header.dst_len = to.prefix_len();
        message.attributes.push(RuleAttribute::Destination(to.network()));
    }
    if let Some(link) = &rule.arriving {
        message.attributes.push(RuleAttribute::Iifname(link.clone()));
    }
    message
}
