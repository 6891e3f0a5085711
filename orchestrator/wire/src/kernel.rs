//! Routes that the kernels of the points carry: one tunnel (VXLAN, RFC 7348) for each path of a leg, from its source to its
//! sink, visiting segments on the way (SRv6, RFC 8754) where the path is explicit, or from relay to relay.

use ipnet::{Ipv4Net, Ipv6Net};
use rhumb_model::PointName;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a point's kernel can do, as its agent says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelOffer {
    /// Where other points' tunnels can end here.
    pub underlay: Vec<IpAddr>,
    /// A block of addresses that the underlay leads here, for tunnels through segments; at most a /104, so that every
    /// tunnel's number has an address in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locator: Option<Ipv6Net>,
    /// This point as a segment on others' ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<Ipv6Addr>,
    /// Tunnels that may end here: the same at all points whose kernels are to meet.
    pub numbers: TunnelNumbers,
    /// Networks behind this point that may use routes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<Ipv4Net>,
}

/// A range of tunnel numbers; both ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelNumbers {
    pub from: u32,
    pub to: u32,
    /// Addresses inside tunnels: two for each number, from the first on (RFC 3021). Used by nothing else anywhere.
    pub inside: Ipv4Net,
}

impl TunnelNumbers {
    pub fn contains(&self, number: u32) -> bool {
        (self.from..=self.to).contains(&number)
    }

    /// The two addresses inside a tunnel, the source's first. `None`: the block has no such.
    pub fn inside(&self, number: u32) -> Option<(Ipv4Addr, Ipv4Addr)> {
        let place = number.checked_sub(self.from).filter(|_| number <= self.to)?;
        let low = u32::from(self.inside.network()).checked_add(place.checked_mul(2)?)?;
        let (low, high) = (Ipv4Addr::from(low), Ipv4Addr::from(low.checked_add(1)?));
        (u32::from(low).is_multiple_of(2) && self.inside.contains(&high)).then_some((low, high))
    }
}

impl KernelOffer {
    /// Where the tunnel of a number through segments ends here.
    pub fn address_of(&self, number: u32) -> Option<Ipv6Addr> {
        self.locator.map(|locator| Ipv6Addr::from(u128::from(locator.network()) | u128::from(number)))
    }
}

/// One path of a leg, at one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelRoute {
    /// From the point before; `None` at the source and at a mere segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Tunnel>,
    /// To the point after; `None` at the sink and at a mere segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Tunnel>,
    /// Addresses inside the tunnels, of the path's two ends.
    pub source: Ipv4Addr,
    pub sink: Ipv4Addr,
    /// The other end's name: the two agents meet through the tunnel. `None` between the ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PointName>,
    /// Port of the sink's agent for routes.
    pub overlay_port: u16,
    /// Networks behind source and sink that use the path beside the agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_networks: Vec<Ipv4Net>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sink_networks: Vec<Ipv4Net>,
    /// Who of them may talk to whom; `None`: all of one with all of the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<Pass>>,
    /// The largest packet that must pass whole, in octets; `None`: as much as the way leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// On the outer packets, 0 to 63 (RFC 2474).
    #[serde(default)]
    pub dscp: u8,
}

/// One end of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    /// The same at both ends.
    pub number: u32,
    /// Of the underlay.
    pub local: IpAddr,
    pub remote: IpAddr,
    /// Inside, the two addresses of a /31.
    pub own: Ipv4Addr,
    pub peer: Ipv4Addr,
    /// Visited on the way, in order; then `local` and `remote` are of the ends' locators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<Ipv6Addr>,
}

/// A permission; answers pass too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pass {
    pub from: Ipv4Net,
    pub to: Ipv4Net,
    pub service: Service,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Service {
    Any,
    Icmp,
    Tcp { port: u16 },
    Udp { port: u16 },
}
