//! The saga against simulated agents, the desired states it gives them and the bill it ends with.

#![allow(clippy::unwrap_used)] // helpers of tests may fail the test

mod agent;
mod billing;
mod cases;
mod chaos;
mod files;
mod lost;
mod permutations;
mod routes;
mod straight;
mod trouble;
mod tunnels;
mod world;
