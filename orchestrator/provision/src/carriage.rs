//! How a path's points carry it.

use rhumb_wire::KernelRoute;
use serde::{Deserialize, Serialize};

/// What carries a path. It is decided once, when the path is to be built, and stays: a leg comes from one to the other by
/// another path, which stands before the first one goes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carriage {
    /// Relays in the agents.
    #[default]
    Relays,
    /// Not decided yet; nothing of the path is in the network.
    Open,
    /// Tunnels in the points' kernels: what each point has to have, in the order of the path.
    Tunnels(Vec<KernelRoute>),
}

impl Carriage {
    /// The provider's name.
    pub const fn provider(&self) -> &'static str {
        match self {
            Self::Relays | Self::Open => "overlay",
            Self::Tunnels(_) => "kernel",
        }
    }

    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    pub const fn is_tunnels(&self) -> bool {
        matches!(self, Self::Tunnels(_))
    }

    /// The tunnels' numbers, in the order of the path.
    pub fn numbers(&self) -> Vec<u32> {
        let Self::Tunnels(points) = self else { return Vec::new() };
        points.iter().filter_map(|point| point.next.as_ref()).map(|tunnel| tunnel.number).collect()
    }

    pub(crate) fn is_relays(&self) -> bool {
        *self == Self::Relays
    }
}
