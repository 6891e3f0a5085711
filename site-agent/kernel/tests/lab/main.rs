//! Real packets between network namespaces. Needs root, iproute2, nftables, iperf3 and ping; skipped with a notice without.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // helpers of tests stand outside of test functions here

mod carried;
mod crash;
mod driven;
mod foreign;
mod moved;
mod traffic;
mod world;
