//! Whose an object of the kernel is.

use rhumb_model::OrderId;
use std::{fmt, str::FromStr};

/// Routes and rules of this driver bear this protocol number (`RTPROT`); numbers above 192 are nobody's by rule.
pub const PROTOCOL: u8 = 200;
/// Tunnels of this driver are in this group of links: unlike a name of its owner it can be given at once, so that a tunnel
/// made just before a crash is known too. `rhmb` in ASCII.
pub const GROUP: u32 = 0x7268_6d62;
/// Tunnels about to go: the kernel removes a whole group in the time of one link.
pub(crate) const GOING: u32 = GROUP + 1;
/// The one nftables table of this driver.
pub const TABLE: &str = "rhumb";
/// Begins the alias of every tunnel.
const PREFIX: &str = "rhumb:";

/// One path of a leg of an order's plan, as one generation of it has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    pub order: OrderId,
    pub generation: u64,
    /// Index in the plan.
    pub leg: u32,
    /// Which of the leg's paths.
    pub path: u32,
}

impl Owner {
    /// What a tunnel's alias says.
    pub fn alias(&self) -> String {
        format!("{PREFIX}{}:{}:{}:{}", self.order, self.generation, self.leg, self.path)
    }

    /// `None`: not an alias of this driver.
    pub fn of_alias(alias: &str) -> Option<Self> {
        let mut parts = alias.strip_prefix(PREFIX)?.split(':');
        let owner = Self {
            order: OrderId::from_str(parts.next()?).ok()?,
            generation: parts.next()?.parse().ok()?,
            leg: parts.next()?.parse().ok()?,
            path: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(owner)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "order {} generation {} leg {} path {}", self.order, self.generation, self.leg, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn an_alias_reads_back_and_others_aliases_do_not() {
        let owner = Owner { order: OrderId(Uuid::from_u128(7)), generation: 3, leg: 1, path: 2 };
        assert_eq!(Owner::of_alias(&owner.alias()), Some(owner));
        for foreign in ["", "uplink", "rhumb:", "rhumb:x:1:2:0", &format!("{}:9", owner.alias())] {
            assert_eq!(Owner::of_alias(foreign), None, "{foreign}");
        }
    }
}
