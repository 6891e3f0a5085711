//! What this point's kernel may be used for.

use ipnet::{Ipv4Net, Ipv6Net};
use rhumb_kernel::VniRange;
use rhumb_wire::{KernelOffer, TunnelNumbers};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv6Addr};

/// `routes.kernel` of the agent's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSettings {
    /// Addresses of this host at which other points' tunnels can end.
    pub underlay: Vec<IpAddr>,
    /// A block of addresses that the underlay leads here, for tunnels through segments; at most a /104.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locator: Option<Ipv6Net>,
    /// This point as a segment on others' ways, and the link that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<Segment>,
    /// Tunnels that may be made here.
    pub numbers: VniRange,
    /// Addresses inside tunnels, two for each number; used by nothing else anywhere, and the same at all points.
    pub inside: Ipv4Net,
    /// Networks behind this host that orders' routes may join.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<Ipv4Net>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    pub address: Ipv6Addr,
    /// Any link of this host but the loopback.
    pub link: String,
}

/// The longest prefix of a locator: tunnels' numbers have 24 bits.
const LOCATOR_PREFIX_MAX: u8 = 104;

impl KernelSettings {
    /// What the types do not say by themselves: setting, value and remedy.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String, &'static str)> {
        if self.underlay.is_empty() && self.locator.is_none() && self.segment.is_none() {
            return Err(("routes.kernel.underlay", "[]".to_owned(), "name an address at which tunnels can end"));
        }
        if self.numbers.from > self.numbers.to {
            let value = format!("{} to {}", self.numbers.from, self.numbers.to);
            return Err(("routes.kernel.numbers", value, "write the smaller number first"));
        }
        let count = u64::from(self.numbers.to.number() - self.numbers.from.number()) + 1;
        if (1_u64 << (32 - self.inside.prefix_len())) < 2 * count {
            return Err(("routes.kernel.inside", self.inside.to_string(), "give two addresses for each number"));
        }
        match self.locator {
            Some(locator) if locator.prefix_len() > LOCATOR_PREFIX_MAX => {
                Err(("routes.kernel.locator", locator.to_string(), "give a block of a /104 or larger"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn offer(&self) -> KernelOffer {
        KernelOffer {
            underlay: self.underlay.clone(),
            locator: self.locator,
            segment: self.segment.as_ref().map(|segment| segment.address),
            numbers: TunnelNumbers {
                from: self.numbers.from.number(),
                to: self.numbers.to.number(),
                inside: self.inside,
            },
            networks: self.networks.clone(),
        }
    }
}
