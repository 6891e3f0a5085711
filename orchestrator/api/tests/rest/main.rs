//! The REST interface in process: real router, real control plane, real SQLite, agents played by the tests.

#![allow(clippy::unwrap_used)] // helpers of tests stand outside of test functions here

mod administration;
mod agents;
mod cases;
mod credentials;
mod crowd;
mod desk;
mod devices;
mod documents;
mod enrolment;
mod history;
mod leaks;
mod life;
mod matrix;
mod recovery;
mod requests;
mod stream;
mod tenants;
