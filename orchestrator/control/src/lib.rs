//! Use cases and loops: intake, quote, place, sagas, agents' sync, reconciliation, audit.
//!
//! Invariants
//! - Decisions are made by `rhumb_placement` on a `View`; what it decided is re-validated by the store before it holds.
//! - All changes of an order that has a saga pass through one task (`sagas`), so that no two steps race.
//! - One order at fault stops itself only: its decision, its step and its commit are each apart from the others'.
//! - Every commit is of the epoch that the desk leads: once another one has begun, the store refuses it.
//! - A commit whose answer was lost is looked up before anything is done again.
//! - The desired state of a point is computed from stored sagas alone; a restart changes nothing but the epoch.

mod amend;
pub mod audit;
pub mod base;
mod begin;
mod caller;
pub mod config;
pub mod desk;
mod detour;
pub mod enrolment;
pub mod error;
pub mod history;
pub mod hub;
pub mod intake;
mod judgement;
mod live_view;
mod logs;
pub mod mesh;
pub mod metrics;
mod placer;
mod quote;
mod reconcile;
mod reserve;
mod roll;
mod sagas;
pub mod secrets;
mod sync;
pub mod tenant;
#[cfg(feature = "testing")]
pub mod testing;
pub mod token;

pub use base::Base;
pub use caller::Caller;
pub use config::ServerConfig;
pub use desk::Desk;
pub use error::DeskError;
pub use judgement::Decide;
