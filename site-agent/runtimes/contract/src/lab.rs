//! Real schedulers on this host, started for a test and ended with it.
//!
//! Slurm takes the packages slurm-wlm, slurmrestd, slurm-wlm-jwt-plugin and munge, and root. Ray takes `RHUMB_RAY`, the folder
//! of the programs of a Python environment that has `ray[default]`. Neither is started unless `RHUMB_PEERS` is set, as
//! `tests/runtimes.sh` does; what is absent then is said, and a failure with `RHUMB_REQUIRE_PEERS`.

mod cluster;
mod ray;
mod slurm;

pub use cluster::{DEVICES, NODES, SlurmLab};
pub use ray::RayStand;
pub use slurm::SlurmStand;

use std::net::TcpListener;

/// Ports that nobody listens on, below those that the kernel gives to clients; all different.
fn free_ports(count: usize) -> Vec<u16> {
    let first = 20_000 + (std::process::id() * 37 % 9_000) as u16;
    let held: Vec<TcpListener> =
        (first..31_000).filter_map(|port| TcpListener::bind(("0.0.0.0", port)).ok()).take(count).collect();
    held.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

fn is_asked_for() -> bool {
    let asked = std::env::var_os("RHUMB_PEERS").is_some();
    if !asked {
        println!("skipped: real schedulers are started by tests/runtimes.sh");
    }
    asked
}

fn skip(what: &str) {
    assert!(std::env::var_os("RHUMB_REQUIRE_PEERS").is_none(), "{what}");
    println!("skipped: {what}");
}
