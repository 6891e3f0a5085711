//! The control plane over a store that fails where it hurts, with agents played by the tests.

#![allow(clippy::unwrap_used)] // helpers of tests stand outside of test functions here

mod away;
mod cases;
mod checkpoints;
mod devices;
mod faults;
mod herd;
mod lost_answers;
mod measured;
mod mesh;
mod moments;
mod routes;
mod tunnels;
mod world;
