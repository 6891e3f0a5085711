//! Processes of this host as a stand for the contract.

use futures::future::BoxFuture;
use rhumb_model::NodeName;
use rhumb_runtimes::{Confinement, ProcessRuntime, ProcessSettings};
use rhumb_wire::report::AssignmentKey;
use runtime_contract::{Stand, lives};
use std::{path::Path, process::Command};

pub const SUPERVISOR: &str = env!("CARGO_BIN_EXE_rhumb-supervisor");

#[derive(Debug)]
pub struct ProcessStand;

impl Stand for ProcessStand {
    type Runtime = ProcessRuntime;

    fn open(&self, _: &str, home: &Path) -> ProcessRuntime {
        let settings = ProcessSettings { confine: Confinement::Off };
        ProcessRuntime::new(home.join("runs"), Some(Path::new(SUPERVISOR)), 4 << 20, &settings).unwrap()
    }

    fn node(&self) -> NodeName {
        NodeName::new("n1").unwrap()
    }

    fn many(&self) -> usize {
        200
    }

    fn has_gangs(&self) -> bool {
        true
    }

    /// A process with the marks of another agent's run of the same name.
    fn foreign<'a>(&'a self, key: &'a AssignmentKey, _: u32) -> BoxFuture<'a, String> {
        let name = format!("{}.{}.{}.{}", key.order, key.generation, key.component, key.replica);
        let child = Command::new("sleep").arg("300").env("RHUMB_KEY", name).env("RHUMB_RUNS", "/elsewhere").spawn();
        let id = child.unwrap().id().to_string();
        Box::pin(async { id })
    }

    fn foreign_lives<'a>(&'a self, id: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async { lives(id.parse().unwrap()) })
    }

    fn end_foreign<'a>(&'a self, id: &'a str) -> BoxFuture<'a, ()> {
        Command::new("kill").args(["-9", id]).status().unwrap();
        Box::pin(async {})
    }

    fn sees_foreign(&self) -> bool {
        false
    }

    fn clean_up<'a>(&'a self, _: &'a AssignmentKey) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}
