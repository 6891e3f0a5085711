//! The overlay on real sockets: chains of overlays in one process, with taps between them that can look and cut.

#![allow(clippy::unwrap_used)]

mod admission;
mod harness;
mod links;
mod paths;
mod stream;
mod transfer;
