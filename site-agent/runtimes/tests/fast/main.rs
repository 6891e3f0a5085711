//! The contract of runtimes, kept by the fake and by processes of this host.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod alone;
mod confined;
mod process;

use process::ProcessStand;
use runtime_contract::{FakeStand, Group, run};
use std::sync::Arc;

fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap()
}

#[test]
fn the_fake_keeps_the_contract() {
    let all = [
        Group::Ends,
        Group::Stops,
        Group::Output,
        Group::Environment,
        Group::Once,
        Group::Others,
        Group::Leases,
        Group::Many,
    ];
    tokio().block_on(run(Arc::new(FakeStand::default()), &all, 8));
}

#[test]
fn processes_end_as_told() {
    tokio().block_on(run(Arc::new(ProcessStand), &[Group::Ends, Group::Environment], 4));
}

#[test]
fn processes_are_ended() {
    tokio().block_on(run(Arc::new(ProcessStand), &[Group::Stops, Group::Leases], 4));
}

#[test]
fn processes_run_once() {
    tokio().block_on(run(Arc::new(ProcessStand), &[Group::Once, Group::Others], 4));
}

#[test]
fn processes_are_heard() {
    tokio().block_on(run(Arc::new(ProcessStand), &[Group::Output], 4));
}

#[test]
fn many_processes_end_each_in_its_own_way() {
    tokio().block_on(run(Arc::new(ProcessStand), &[Group::Many], 1));
}
