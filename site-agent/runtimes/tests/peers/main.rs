//! The contract of runtimes, kept by real schedulers that these tests start; see `runtime_contract::lab`.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod cluster;

use runtime_contract::{
    Group,
    lab::{RayStand, SlurmLab, SlurmStand},
    run,
};
use std::{path::Path, sync::Arc};

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

#[test]
fn slurm_keeps_the_contract_by_slurmrestd() {
    let Some(lab) = SlurmLab::start(Path::new(SUPERVISOR)) else { return };
    let access = lab.rest();
    tokio().block_on(run(Arc::new(SlurmStand { lab, access }), &ALL, 8));
}

#[test]
fn slurm_keeps_the_contract_by_its_commands() {
    let Some(lab) = SlurmLab::start(Path::new(SUPERVISOR)) else { return };
    let access = lab.commands();
    tokio().block_on(run(Arc::new(SlurmStand { lab, access }), &ALL, 8));
}

#[test]
fn ray_keeps_the_contract() {
    let Some(stand) = RayStand::start(Path::new(SUPERVISOR)) else { return };
    tokio().block_on(run(Arc::new(stand), &ALL, 4));
}
