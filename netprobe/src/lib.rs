//! Sockets and timers around `rhumb-probe-session`: the reflector and the prober an agent runs, and the two standalone
//! commands.
//!
//! Invariants:
//! - a time stamp is taken on a thread that does nothing else, right after the socket gave the packet or right before it gets
//!   it: what else the process does never counts as delay;
//! - probes are spread at random around their interval, so that they do not march in step with anything they measure;
//! - figures come with their counts: what was not measured is absent, not zero.

mod bandwidth;
mod bandwidth_counters;
mod bandwidth_ledger;
mod bandwidth_tcp;
mod engine;
mod error;
mod figures;
mod prober;
mod reflect;
mod send;
mod socket;
mod trains;

pub use bandwidth::{ActiveMethod, BandwidthConfig, BandwidthSummary, bandwidth, measure};
pub use bandwidth_counters::{CounterConfig, counters};
pub use bandwidth_ledger::BandwidthLedger;
pub use error::ProbeError;
pub use figures::LinkFigures;
pub use prober::{Prober, ProberConfig, Target};
pub use reflect::{Reflector, reflect};
pub use rhumb_probe_session::TrainCount;
pub use rhumb_probe_session::{
    BandwidthMethod, Confidence, Ended, Key, KeyError, Mode, ReflectorConfig, ReflectorCounts,
};
pub use send::{SendConfig, SendSummary, send};
pub use socket::read_key;
