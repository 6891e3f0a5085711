//! Steering of prefixes by BGP: what an order's routes lead to is announced through a GoBGP daemon, and routers send their
//! traffic there. Speaks the daemon's gRPC interface (GoBGP 3, `apipb.GobgpApi`).
//!
//! Invariants
//! - Only what this driver announced is ever changed or withdrawn: paths from the daemon itself that bear its mark, a large
//!   community (RFC 8092). What others announce stays, and a prefix that they announce is refused.
//! - Every announcement names its orders, each by a large community.
//! - What there should be is stated whole; it is held against what the daemon has, so that neither's restart matters.

mod driver;
mod message;
mod path;

pub use driver::{Applied, Bgp, BgpError};
pub use path::{Announcements, Steer, mark};
