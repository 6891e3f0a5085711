//! A host asked for its accelerators, processors, memory and network ports.
//!
//! Invariants
//! - Nothing here waits for a driver longer than it has said it would: each of its calls has a thread and a time of its own.
//! - What fails makes one value unknown, with the reason; a card is never lost, and nothing panics.
//! - Files are read below a root folder that the caller names.

pub mod host;
#[cfg(feature = "nvidia")]
pub mod nvml;
pub mod sysfs;

pub use host::{Host, OutputError, output_in, output_of};
