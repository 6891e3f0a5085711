//! The mesh: its plans, what a thousand points cost, and estimates against public round trips.
#![allow(clippy::unwrap_used)] // helpers of tests stand outside of test functions here

mod hidden_pairs;
mod plans;
mod thousand;
mod world;
