//! Prober, reflector and the standalone run over emulated links.

#![allow(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod abuse;
mod bandwidth;
mod exact;
mod ledger;
mod marks;
mod namespaces;
mod probing;
mod routers;
mod runs;
mod world;
