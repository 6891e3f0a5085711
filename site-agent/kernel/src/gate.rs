//! Allow-lists as chains of nftables: one map from links to chains, one chain a link, all in the table that is the
//! driver's own. What a chain does not name is dropped.

use crate::{
    intent::{Allow, Intent, Service, Tunnel},
    object::Gate,
};
use ipnet::Ipv4Net;
use std::fmt::Write as _;

/// The gate of one of a leg's links.
pub(crate) fn gate(link: &str, leg: &Intent, tunnel: &Tunnel) -> Gate {
    let (own, peer) = (Ipv4Net::from(tunnel.own), Ipv4Net::from(tunnel.peer));
    let (source, sink) = (Ipv4Net::from(leg.ends.source), Ipv4Net::from(leg.ends.sink));
    let mut statements = both(own, peer);
    if (source, sink) != (own, peer) && (sink, source) != (own, peer) {
        statements.extend(both(source, sink));
    }
    // a packet too large, or one that has travelled too far: whoever sent it must hear of it
    statements.push("icmp type { destination-unreachable, time-exceeded } return".to_owned());
    match &leg.allow {
        Allow::Networks => {
            let pairs = leg.source.iter().flat_map(|from| leg.sink.iter().map(move |to| (*from, *to)));
            statements.extend(pairs.flat_map(|(from, to)| both(from, to)));
        }
        Allow::Only(passes) => {
            for pass in passes {
                let (from, to) = (pass.from.trunc(), pass.to.trunc());
                let (there, back) = match pass.service {
                    Service::Any => (String::new(), String::new()),
                    Service::Icmp => ("meta l4proto icmp ".to_owned(), "meta l4proto icmp ".to_owned()),
                    Service::Tcp(port) => (format!("tcp dport {port} "), format!("tcp sport {port} ")),
                    Service::Udp(port) => (format!("udp dport {port} "), format!("udp sport {port} ")),
                };
                statements.push(format!("ip saddr {from} ip daddr {to} {there}return"));
                statements.push(format!("ip saddr {to} ip daddr {from} {back}return"));
            }
        }
    }
    Gate { link: link.to_owned(), digest: digest(&statements), statements }
}

fn both(one: Ipv4Net, other: Ipv4Net) -> Vec<String> {
    let (one, other) = (one.trunc(), other.trunc());
    vec![format!("ip saddr {one} ip daddr {other} return"), format!("ip saddr {other} ip daddr {one} return")]
}

/// FNV-1a: chains are known by it when they are read back; nothing secret hangs on it.
fn digest(statements: &[String]) -> String {
    let hash = statements
        .iter()
        .flat_map(|line| line.bytes().chain([0]))
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mut text = String::new();
    // writing to a string cannot fail
    let _ = write!(text, "{hash:016x}");
    text
}

/// The name of a gate's chain says what is in it: a change is another chain, put in place of the first in one step.
pub(crate) fn chain(gate: &Gate) -> String {
    format!("{}-{}", gate.link, gate.digest)
}

/// Link and digest of a chain's name.
pub(crate) fn of_chain(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('-')
}
