//! Prober, reflector and the standalone run over emulated links.

#![allow(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod bandwidth;
mod ledger;
mod namespaces;
mod probing;
mod runs;
mod world;
