//! The site agent: leases this point's devices, runs what the desired state asks for, carries its routes, probes its links.
//!
//! Invariants
//! - The agent is the last word on its own devices: two assignments never hold one device, whatever is asked.
//! - The desired state alone decides what runs; without an answer from the orchestrator what is known goes on, except for
//!   work under a lease, which ends when the lease does.
//! - Work is adopted by its records on disk, never by its name, and a record says `ended` only when nothing of it runs.
//! - A run is started once per key, at most, and a command is an argument vector, never a shell line.

pub mod config;
pub mod dataplane;

mod agent;
mod carrier;
mod client;
mod device;
mod error;
mod fence;
pub mod identity;
mod input;
pub mod lease;
mod passive;
mod probe;
mod record;
mod run;
mod scheduler;
pub mod store;
mod telling;
mod trains;

pub use config::AgentConfig;
pub use error::AgentError;
pub use rhumb_runtimes::{self as runtimes, SUPERVISE, supervise_main};
pub use run::{run, shutdown_asked};

pub(crate) use rhumb_runtimes::{durable, host};
