//! Sockets and timers around `rhumb-probe-session`: the reflector and the prober an agent runs, and the two standalone
//! commands.
//!
//! Invariants:
//! - the kernel tells when a packet came, and a thread that does nothing else takes the time right before one goes: what else
//!   the process does never counts as delay;
//! - probes are spread at random around their interval, so that they do not march in step with anything they measure;
//! - figures come with their counts: what was not measured is absent, not zero.

mod bandwidth;
mod bandwidth_counters;
mod bandwidth_ledger;
mod bandwidth_tcp;
mod clock;
mod engine;
mod error;
mod figures;
mod key;
mod prober;
mod reflect;
mod send;
mod socket;
mod summary;
mod trains;

pub use bandwidth::{ActiveMethod, BandwidthConfig, BandwidthSummary, bandwidth, measure};
pub use bandwidth_counters::{CounterConfig, counters, interface_bytes};
pub use bandwidth_ledger::BandwidthLedger;
pub use error::ProbeError;
pub use figures::{LinkFigures, LinkWindow};
pub use key::{key_from_env, read_key};
pub use prober::{Prober, ProberConfig, Target};
pub use reflect::{Reflector, reflect, reflect_with};
pub use rhumb_probe_session::{
    BandwidthMethod, Change, ClockSource, Confidence, CounterReading, Counting, DirectCounts, Ended, ErrorEstimate,
    Extensions, FarClock, FarCount, IpNet, Key, KeyError, Mode, PathSeen, Record, ReflectorConfig, ReflectorCounts,
    Residual, Spread, TrainCount, residual,
};
pub use send::{SendConfig, send, send_watched};
pub use summary::{SendSummary, WaySummary};
