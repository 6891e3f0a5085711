//! What one point is to do for one leg of an order.

use crate::{
    owner::Owner,
    vni::{PoolError, Vni},
};
use ipnet::Ipv4Net;
use rhumb_model::Bandwidth;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A leg at this point, complete: nothing is left to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    pub owner: Owner,
    pub place: Place,
    /// Of IP octets inside the tunnel, each way.
    pub rate: Bandwidth,
    /// The largest IP packet that must pass whole; `None`: whatever the way there leaves.
    pub mtu: Option<u32>,
    /// On the outer packets, 0 to 63 (RFC 2474).
    pub dscp: u8,
    pub stance: Stance,
    /// Networks behind the leg's source and behind its sink. Only what goes from one to the other takes the leg.
    pub source: Vec<Ipv4Net>,
    pub sink: Vec<Ipv4Net>,
    /// The addresses inside the tunnels at the leg's two ends.
    pub ends: Ends,
    pub allow: Allow,
    /// The leg that this one stands in for when it is lost.
    pub protects: Option<Owner>,
}

/// Where on the path this point stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Source {
        next: Tunnel,
    },
    /// One tunnel ends here and the next begins.
    Relay {
        previous: Tunnel,
        next: Tunnel,
    },
    Sink {
        previous: Tunnel,
    },
    /// A segment of other points' tunnels: packets pass on by their segment list (RFC 8986, End).
    Transit {
        sid: Ipv6Addr,
        /// A link of this point other than the loopback.
        device: String,
    },
}

/// One end of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnel {
    /// The same at both ends.
    pub vni: Vni,
    /// Of the underlay, both of one family.
    pub local: IpAddr,
    pub remote: IpAddr,
    /// The two addresses of a /31 inside (RFC 3021).
    pub own: Ipv4Addr,
    pub peer: Ipv4Addr,
    /// Points that the outer packets visit on their way, in order (RFC 8754). With any, `local` and `remote` are addresses of
    /// this tunnel alone, which the underlay routes to its two ends.
    pub segments: Vec<Ipv6Addr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    pub source: Ipv4Addr,
    pub sink: Ipv4Addr,
}

/// Whether an order's packets take the leg now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stance {
    /// Built and ready to be probed; no packets but those of its own ends take it.
    Idle,
    /// Taken only where nothing else of the leg carries.
    Standby,
    Carrying,
}

/// Who may talk to whom through the leg. Its ends may always.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Allow {
    /// Whoever is behind its source with whoever is behind its sink.
    #[default]
    Networks,
    /// Only these.
    Only(Vec<Pass>),
}

/// One permission; answers pass too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pass {
    pub from: Ipv4Net,
    pub to: Ipv4Net,
    pub service: Service,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    Any,
    Icmp,
    Tcp(u16),
    Udp(u16),
}

/// How an address of the underlay is reached from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uplink {
    pub device: String,
    pub mtu: u32,
}

/// Why a leg cannot be carried here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("a rate of 0 moves nothing; reserve some bandwidth")]
    NoRate,
    #[error("DSCP {0} does not exist; use 0 to 63")]
    Dscp(u8),
    #[error("{own} and {peer} are not the two addresses of a /31")]
    Inner { own: Ipv4Addr, peer: Ipv4Addr },
    #[error("a tunnel cannot run from {local} to {remote}: the two must be of one family and differ")]
    Families { local: IpAddr, remote: IpAddr },
    #[error("a tunnel through segments needs IPv6 ends, not {local}; give the points IPv6 underlay addresses")]
    Segments { local: IpAddr },
    #[error("tunnel number {vni} is held by {by}; take another from the pool")]
    Held { vni: Vni, by: Owner },
    #[error("the address {address} is that of another tunnel, of {by}; give each tunnel its own")]
    Shared { address: IpAddr, by: Owner },
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error("nothing here leads to {to}; add a route of the underlay")]
    NoUplink { to: IpAddr },
    #[error(
        "packets of {asked} octets do not fit: {device} carries {mtu}, a tunnel to {to} takes {overhead} of them, {left} are left; \
         raise the MTU of {device} or ask for at most {left}"
    )]
    Mtu { asked: u32, device: String, mtu: u32, to: IpAddr, overhead: u32, left: u32 },
    #[error(
        "only {left} octets of a packet would be left inside a tunnel to {to}, IP needs {least}; raise the MTU of {device}"
    )]
    Small { to: IpAddr, device: String, left: u32, least: u32 },
}

/// Ethernet header inside, VXLAN header, UDP header.
const VXLAN_OCTETS: u32 = 14 + 8 + 8;

impl Tunnel {
    /// Octets that the outer headers take of the underlay's MTU.
    pub fn overhead(&self) -> u32 {
        let ip = if self.local.is_ipv4() { 20 } else { 40 };
        let segments = match self.segments.len() as u32 {
            0 => 0,
            // the header itself, the segments, and the tunnel's far end as the last of them
            count => 8 + 16 * (count + 1),
        };
        ip + segments + VXLAN_OCTETS
    }

    /// The addresses that no other tunnel may have.
    pub(crate) fn own_addresses(&self) -> Vec<IpAddr> {
        let mut own = vec![IpAddr::V4(self.own), IpAddr::V4(self.peer)];
        if !self.segments.is_empty() {
            own.extend([self.local, self.remote]);
        }
        own
    }

    /// Where its outer packets go first.
    pub fn first_hop(&self) -> IpAddr {
        self.segments.first().map_or(self.remote, |segment| IpAddr::V6(*segment))
    }
}

impl Intent {
    pub fn tunnels(&self) -> Vec<&Tunnel> {
        match &self.place {
            Place::Source { next } => vec![next],
            Place::Relay { previous, next } => vec![previous, next],
            Place::Sink { previous } => vec![previous],
            Place::Transit { .. } => Vec::new(),
        }
    }

    /// The tunnel that can be probed to tell whether the next point is there.
    pub fn probed(&self) -> Option<&Tunnel> {
        match &self.place {
            Place::Source { next } | Place::Relay { next, .. } => Some(next),
            Place::Sink { previous } => Some(previous),
            Place::Transit { .. } => None,
        }
    }
}
