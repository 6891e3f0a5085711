//! The contract of runtimes, kept by real schedulers that these tests start.
//!
//! Slurm takes the packages slurm-wlm, slurmrestd, slurm-wlm-jwt-plugin and munge, and root. Ray takes `RHUMB_RAY`, the folder
//! of the programs of a Python environment that has `ray[default]`. Where one is absent its tests say so and do nothing;
//! `RHUMB_REQUIRE_PEERS` makes that a failure.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod cluster;
mod ray;
mod slurm;
mod slurm_lab;

use runtime_contract::Group;
use std::net::TcpListener;

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

/// Ports that nobody listens on, below those that the kernel gives to clients; all different.
fn free_ports(count: usize) -> Vec<u16> {
    let first = 20_000 + (std::process::id() * 37 % 9_000) as u16;
    let held: Vec<TcpListener> =
        (first..31_000).filter_map(|port| TcpListener::bind(("0.0.0.0", port)).ok()).take(count).collect();
    held.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

fn skip(what: &str) {
    assert!(std::env::var_os("RHUMB_REQUIRE_PEERS").is_none(), "{what}");
    println!("skipped: {what}");
}
