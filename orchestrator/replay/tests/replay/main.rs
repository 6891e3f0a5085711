//! Replay from the outside: what never happens, what failures do, and how good the policies are.

#![allow(clippy::unwrap_used)] // helpers of tests may fail the test

mod backfill;
mod bars;
mod checker;
mod failures;
mod files;
mod invariants;
mod orders;
mod world;
