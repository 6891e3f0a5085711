//! States of orders and routes; the words are those of TM Forum service ordering.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

macro_rules! words {
    ($(#[$doc:meta])* $type:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $type { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $type {
            pub const ALL: &[Self] = &[$(Self::$variant),+];
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $type {
            type Err = UnknownWord;
            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                Self::ALL.iter().copied().find(|v| v.as_str() == text).ok_or_else(|| UnknownWord {
                    word: text.chars().take(40).flat_map(char::escape_default).collect(),
                    known: Self::ALL.iter().map(|v| v.as_str()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}
pub(crate) use words;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{word}\" is unknown: use one of {known}")]
pub struct UnknownWord {
    pub word: String,
    pub known: String,
}

words! {
    /// State of an order as its tenant sees it.
    OrderState {
        /// Durable, not yet decided on.
        Acknowledged = "acknowledged",
        /// Could not fit even an empty federation, or is not allowed.
        Rejected = "rejected",
        /// Fits later; the reasons say what stands in the way.
        Pending = "pending",
        /// Waits for a person or a window.
        Held = "held",
        InProgress = "inProgress",
        Completed = "completed",
        Partial = "partial",
        Failed = "failed",
        Cancelling = "cancelling",
        Cancelled = "cancelled",
    }
}

impl OrderState {
    /// Final states are final.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Rejected | Self::Completed | Self::Partial | Self::Failed | Self::Cancelled)
    }
}

words! {
    /// Where an order in progress (or cancelling) is on its way.
    Phase {
        Reserving = "reserving",
        Holding = "holding",
        Routing = "routing",
        Staging = "staging",
        Starting = "starting",
        Running = "running",
        Stopping = "stopping",
        Unrouting = "unrouting",
        Releasing = "releasing",
        Settling = "settling",
    }
}

words! {
    RouteState {
        Building = "building",
        Active = "active",
        Degraded = "degraded",
        Moving = "moving",
        Terminating = "terminating",
        Terminated = "terminated",
        Failed = "failed",
    }
}

words! {
    /// Whether a site can be given work.
    SiteState {
        Ready = "ready",
        /// An operator asked that nothing new starts here.
        Draining = "draining",
        /// Not heard of for longer than its lease.
        Lost = "lost",
        /// Configured, but its agent has not reported yet.
        NeverSeen = "never_seen",
    }
}
