//! What every runtime must do, as one suite of cases that is run against each of them, and a fake that passes it.
//!
//! A case makes a site of its own on a [`Stand`], so cases run side by side. It fails by panicking.

#![allow(clippy::unwrap_used)] // all of this is tests

mod cases;
mod fake;
pub mod lab;
mod program;
mod site;
mod suite;

pub use fake::{FakeRuntime, FakeStand};
pub use program::Program;
pub use site::{Site, Stand, lives};
pub use suite::{Case, Group, cases, run};
