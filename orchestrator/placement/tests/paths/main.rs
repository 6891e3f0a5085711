//! Paths and flows against every possibility on small graphs, and demand matrices against their optimum.
#![allow(clippy::unwrap_used)] // helpers of tests stand outside of test functions here

mod algorithm;
mod disjoint;
mod flow;
mod matrix;
mod nets;
mod world;
mod yen;
