//! The contract of runtimes, kept by real schedulers that these tests start.
//!
//! Slurm takes the packages slurm-wlm, slurmrestd, slurm-wlm-jwt-plugin and munge, and root. Ray takes `RHUMB_RAY`, the folder
//! of the programs of a Python environment that has `ray[default]`. Where one is absent its tests say so and do nothing;
//! `RHUMB_REQUIRE_PEERS` makes that a failure.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod cluster;
mod free;
mod ray;
mod slurm;
mod slurm_lab;

use runtime_contract::Group;

const SUPERVISOR: &str = env!("CARGO_BIN_EXE_rhumb-supervisor");

/// All of the suite.
const ALL: [Group; 8] = [
    Group::Ends,
    Group::Stops,
    Group::Output,
    Group::Environment,
    Group::Once,
    Group::Others,
    Group::Leases,
    Group::Many,
];

fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap()
}

fn skip(what: &str) {
    assert!(std::env::var_os("RHUMB_REQUIRE_PEERS").is_none(), "{what}");
    println!("skipped: {what}");
}
