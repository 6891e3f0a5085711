//! Batches: dense instances against proved optima and against trying everything, orders on a view likewise.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that fails stops

mod brute;
mod check;
mod instances;
mod orders;
mod proved;
