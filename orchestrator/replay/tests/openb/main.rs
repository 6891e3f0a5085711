//! The published fragmentation benchmark: every decision against a naive simulator, every figure counted again from the
//! decisions, and a run of the published files.

#![allow(clippy::unwrap_used)] // helpers of tests may fail the test

mod cases;
mod files;
mod published;
mod recount;
mod reference;
