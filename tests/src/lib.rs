//! Harness of the system tests: a whole federation of real processes, asked through the command line as a user would.
//!
//! Invariants
//! - One federation at a time in a process: two would starve each other, and their figures would be worth nothing.
//! - No pause stands for a condition: everything is waited for, up to a limit that is named when it is missed.
//! - A federation leaves no process behind, however its test ends; where a test fails, what its processes said is shown.

pub mod balancer;
pub mod cli;
pub mod demo;
pub mod links;
pub mod orders;
pub mod patience;
pub mod processes;
pub mod remains;
pub mod seed;

pub use cli::{Answer, Cli};
pub use demo::Demo;
pub use patience::{secs, wait_until};
