//! Routes of orders in the Linux kernel, as a carrier would build them: one VXLAN tunnel with a shaper, a routing table and
//! rules for each leg, through a list of segments (SRv6) where its path is explicit, with an allow-list at its gate.
//!
//! What there should be is a pure function of the legs ([`wanted`]), what is to be done a pure function of that and of what
//! is there ([`diff`]); [`Kernel`] reads and does, by netlink alone, and [`Driver`] keeps it so.
//!
//! Invariants
//! - Only what bears this driver's mark is ever read as its own, changed or removed: links of its group, routes and rules of
//!   its protocol number, its own nftables table.
//! - The same legs again change nothing; whatever state a crash leaves, the next round makes it what it should be.
//! - A new way stands before an old one goes: in between every packet finds one of the two.
//! - One leg that cannot be built keeps no other from being built.

mod bucket;
mod diff;
mod driver;
mod echo;
mod error;
mod gate;
mod health;
mod intent;
mod object;
mod owner;
mod vni;
mod wanted;

#[cfg(target_os = "linux")]
mod kernel;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod kernel;
#[cfg(target_os = "linux")]
mod netlink;

pub use diff::{Operation, diff};
pub use driver::{Driver, DriverConfig, LegState, LegStatus};
pub use error::KernelError;
pub use health::{Health, Patience};
pub use intent::{Allow, Ends, Intent, Pass, Place, Refusal, Service, Stance, Tunnel, Uplink};
pub use kernel::{Applied, Counters, Kernel};
pub use object::{Address, Family, Gate, Key, Link, Object, Objects, Route, RouteKind, Rule, Shaper};
pub use owner::{GROUP, Owner, PROTOCOL, TABLE};
pub use vni::{PoolError, Vni, VniPool, VniRange};
pub use wanted::{CARRYING, STANDBY, Wanted, wanted};
