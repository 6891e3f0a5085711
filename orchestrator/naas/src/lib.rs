//! Network as a service: the ways of carrying an order's legs, behind `rhumb_provision::RouteProvider`.
//!
//! Invariants
//! - A provider turns a leg into what each point must have; it decides nothing about path or rate.
//! - The same leg gives the same hops, so that applying them twice changes nothing.

pub mod kernel;
pub mod overlay;

pub use kernel::{AsDecided, KernelPoint, Layout, Unfit};
pub use overlay::Overlay;
