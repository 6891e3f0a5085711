//! Orders whose routes the kernels carry: real orchestrator, agents and packets, in the laboratory's namespaces.

#![allow(clippy::unwrap_used)] // helpers of tests stand outside of test functions here

mod carrier;
mod federation;
