//! A laboratory of four sites and two transit routers in network namespaces of this host, for tests with real packets.
//!
//! ```text
//!  host a - site a ===(10 ms)=== router r1 ===(10 ms)=== site b - host b
//!                 \===( 3 ms)=== router r2 ===( 3 ms)===/            (sites c and d alike)
//! ```
//!
//! Every site has a cable to each router and a network of its own with one host. What goes over `r1` takes 20 ms one way,
//! what goes over `r2` 6 ms. Cables carry 100 Mbit/s and packets of 1,500 octets.
//!
//! Invariant: everything is in namespaces whose names begin with the laboratory's own prefix, so that it can be removed
//! whole by that, whoever made it and however that ended.

mod build;
mod net;

pub use build::{Lab, LabError};
pub use net::{Namespace, within};

use std::net::{Ipv4Addr, Ipv6Addr};

/// A site by its letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Site {
    A,
    B,
    C,
    D,
}

/// A transit router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Router {
    /// 10 ms from every site.
    R1,
    /// 3 ms from every site.
    R2,
}

impl Site {
    pub const ALL: [Self; 4] = [Self::A, Self::B, Self::C, Self::D];

    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D => "d",
        }
    }

    pub(crate) const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// Its address on the cable to a router: what goes from one such to another passes that router.
    pub const fn underlay(self, router: Router) -> Ipv4Addr {
        Ipv4Addr::new(10, 100, 10 * router.number() + self.number(), 1)
    }

    /// The same in IPv6.
    pub const fn underlay_v6(self, router: Router) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, 0x100, router.number() as u16, self.number() as u16, 0, 0, 0, 1)
    }

    /// The `number`th address of a block that the routers lead to this site (a /64).
    pub const fn locator(self, number: u32) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, 0xa, self.number() as u16, 0, 0, 0, (number >> 16) as u16, number as u16)
    }

    /// The site's router in its `net`th network (0 or 1), and its host there: /24 each.
    pub const fn gateway(self, net: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 10 + self.number(), net, 1)
    }

    pub const fn host(self, net: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 10 + self.number(), net, 10)
    }
}

impl Router {
    pub const ALL: [Self; 2] = [Self::R1, Self::R2];

    pub const fn name(self) -> &'static str {
        match self {
            Self::R1 => "r1",
            Self::R2 => "r2",
        }
    }

    pub(crate) const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// One way between it and any site, in microseconds.
    pub const fn delay_us(self) -> u64 {
        match self {
            Self::R1 => 10_000,
            Self::R2 => 3_000,
        }
    }

    /// Its end of a site's cable.
    pub const fn underlay(self, site: Site) -> Ipv4Addr {
        Ipv4Addr::new(10, 100, 10 * self.number() + site.number(), 2)
    }

    pub const fn underlay_v6(self, site: Site) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, 0x100, self.number() as u16, site.number() as u16, 0, 0, 0, 2)
    }

    /// A segment of its own (SRv6), which the sites know the way to.
    pub const fn segment(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, 0xe, self.number() as u16, 0, 0, 0, 0, 0xe)
    }
}

/// Name of a cable, for cutting it.
pub fn cable(site: Site, router: Router) -> String {
    format!("{}-{}", site.name(), router.name())
}
