//! The one WAN emulator: what a federation of sites would see between each other, on one machine.
//!
//! Every directed link gets a UDP front and a TCP front on the loopback interface. What is sent to a front arrives at the
//! link's target after the link's delay, jitter, loss and rate; the answer comes back with the shape of the reverse link.
//! Between network namespaces a cable (feature `cables`) carries whole IP packets in the same way.
//! A control channel is a TCP front whose delay and reachability follow the cheapest un-cut path to the orchestrator.
//!
//! Invariants:
//! - no byte passes a cut link; cutting every link of a point cuts its control channel too;
//! - nothing is reordered within a link, unless its faults say so: jitter moves a packet, never past its predecessor;
//! - every queue is finite: datagrams are dropped at the tail, streams push back on their sender;
//! - UDP and TCP of one directed link share its rate;
//! - all randomness comes from the seed, by one stream per link and purpose.
//!
//! Release is timed by a thread of its own (nanosecond waits), not by the runtime's millisecond timers, so that a 20 ms link
//! measures as 20.1 ms and not as 21.
//!
//! Rates count payload octets. TCP loses no byte: a lost segment shows as what its sender would notice, one more round trip
//! before the bytes arrive.

#[cfg(feature = "cables")]
mod cable;
mod config;
mod control;
mod emulator;
mod error;
mod link;
mod polled;
mod pump;
mod status;
mod tcp;
mod timer;
mod udp;

#[cfg(feature = "cables")]
pub use cable::{Cable, CableEnd, Cables};
pub use config::{ControlConfig, EmulatorConfig, Faults, LinkConfig, LinkShape, ShapePatch};
pub use emulator::Emulator;
pub use error::EmulatorError;
pub use status::{ControlStatus, LinkStatus, Snapshot, Traffic};
