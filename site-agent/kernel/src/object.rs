//! What the driver makes in the kernel, as values that can be compared with what is there.

use crate::owner::Owner;
use ipnet::IpNet;
use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv6Addr},
};

/// One object. The order of the variants is the order of creation; removal goes the other way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// The table of all gates.
    Gates,
    Gate(Gate),
    Link(Link),
    Address(Address),
    Shaper(Shaper),
    Route(Route),
    Rule(Rule),
}

/// Who may talk to whom over a link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gate {
    pub link: String,
    /// Statements of the chain in the language of nftables, except for the last, which drops. Known by their digest alone
    /// when read back.
    pub digest: String,
    pub statements: Vec<String>,
}

/// A VXLAN device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    pub name: String,
    pub vni: u32,
    pub local: IpAddr,
    pub remote: IpAddr,
    /// Traffic class of the outer packets.
    pub tos: u8,
    pub mtu: u32,
    /// `None`: it was made and never marked.
    pub owner: Option<Owner>,
    pub up: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    pub link: String,
    pub address: IpAddr,
    pub prefix: u8,
}

/// A token bucket on a link (HTB), with a finite queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shaper {
    pub link: String,
    /// Octets of frames a second.
    pub rate: u64,
    /// Octets that may leave at once.
    pub burst: u32,
    /// Octets that may wait.
    pub queue: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    pub table: u32,
    pub destination: IpNet,
    pub link: Option<String>,
    pub via: Option<IpAddr>,
    /// Preferred source address.
    pub source: Option<IpAddr>,
    pub kind: RouteKind,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteKind {
    Plain,
    Blackhole,
    /// Outer packets get this list of segments.
    Segments(Vec<Ipv6Addr>),
    /// A segment of this point.
    End,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    pub priority: u32,
    pub from: Option<IpNet>,
    pub to: Option<IpNet>,
    pub arriving: Option<String>,
    pub table: u32,
    pub family: Family,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    V4,
    V6,
}

/// What two objects cannot share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Gates,
    Gate(String),
    Link(String),
    Address(String, IpAddr),
    Shaper(String),
    Route(u32, IpNet),
    Rule(Rule),
}

impl Object {
    pub fn key(&self) -> Key {
        match self {
            Self::Gates => Key::Gates,
            Self::Gate(gate) => Key::Gate(gate.link.clone()),
            Self::Link(link) => Key::Link(link.name.clone()),
            Self::Address(address) => Key::Address(address.link.clone(), address.address),
            Self::Shaper(shaper) => Key::Shaper(shaper.link.clone()),
            Self::Route(route) => Key::Route(route.table, route.destination),
            Self::Rule(rule) => Key::Rule(rule.clone()),
        }
    }

    /// The link that it goes with when that goes.
    pub fn rides(&self) -> Option<&str> {
        match self {
            Self::Address(address) => Some(&address.link),
            Self::Shaper(shaper) => Some(&shaper.link),
            Self::Route(route) => route.link.as_deref(),
            // what lives in tables of its own names the link and does not need it
            Self::Gates | Self::Gate(_) | Self::Link(_) | Self::Rule(_) => None,
        }
    }

    /// Whether they are the same as far as the kernel can tell.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Gate(a), Self::Gate(b)) => a.link == b.link && a.digest == b.digest,
            _ => self == other,
        }
    }

    /// Whether it can become `wanted` as it stands.
    pub fn can_become(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (Self::Link(a), Self::Link(b)) => {
                (&a.name, a.vni, a.local, a.remote, a.tos) == (&b.name, b.vni, b.local, b.remote, b.tos)
            }
            (Self::Address(_) | Self::Rule(_), _) => false,
            _ => self.key() == wanted.key(),
        }
    }
}

/// Everything of one kind of state, such as all that is owned.
pub type Objects = BTreeSet<Object>;
