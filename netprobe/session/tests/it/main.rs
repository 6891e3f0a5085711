//! Sender and reflector joined by a path of the test's making, on a clock of the test's making.

#![allow(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod available;
mod bandwidth;
mod corpus;
mod directions;
mod extensions;
mod feed;
mod path;
mod records;
mod reflecting;
mod trains;
mod windows;
