//! The emulator as its users meet it: real sockets on the loopback interface.

#![allow(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod control;
mod datagrams;
mod streams;
mod world;
