//! The agent with real processes, and with an orchestrator that does what a test says.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod drivers;
mod lifecycle;
mod orchestrator;
mod probes;
mod recovery;
mod schedulers;
mod tunnels;
mod world;
