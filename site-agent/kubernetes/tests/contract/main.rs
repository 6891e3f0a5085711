//! The contract of runtimes, kept by the Kubernetes runtime against a fake API server that runs pods as processes of this host.
//! It proves how the client deals with the API, and nothing of a real cluster; `deploy/kubernetes/contract.sh` runs the same
//! cases on one.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod dispatch;
mod ends;
mod queues;
mod shape;
mod stand;
mod watches;

use fake_kubernetes::Options;
use runtime_contract::{Group, run};
use stand::FakeStand;
use std::sync::Arc;

fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap()
}

fn keeps(groups: &[Group], width: usize) {
    tokio().block_on(async {
        let stand = Arc::new(FakeStand::start(Options::default()));
        run(stand, groups, width).await;
    });
}

#[test]
fn runs_end_as_told() {
    keeps(&[Group::Ends, Group::Environment], 4);
}

#[test]
fn runs_are_ended() {
    keeps(&[Group::Stops, Group::Leases], 4);
}

#[test]
fn runs_run_once() {
    keeps(&[Group::Once, Group::Others], 4);
}

#[test]
fn runs_are_heard() {
    keeps(&[Group::Output], 4);
}

#[test]
fn many_runs_end_each_in_its_own_way() {
    keeps(&[Group::Many], 1);
}
