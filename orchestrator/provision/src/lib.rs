//! The order's saga: what has to happen, in which order, and what undoes it.
//!
//! Invariants
//! - Pure: `step` is a total function of state and event; it reads no clock and does no I/O.
//! - The desired state of every point is a function of the saga alone (`desired`), so that a restart loses nothing.
//! - Devices and routes are given back only after every point concerned has confirmed, on a desired state that no longer
//!   lists them, that nothing is left; or, with a lease, after that lease has ended.
//! - Final is final: an event that comes late changes nothing.

pub mod bill;
pub mod carriage;
pub mod checkpoint;
pub mod desired;
pub mod leg;
pub mod path;
pub mod rules;
pub mod saga;
pub mod step;
pub mod want;

pub use bill::{BillItem, Prices, bill};
pub use carriage::Carriage;
pub use checkpoint::Checkpoint;
pub use desired::{Ask, LegSecrets, PointShare, RouteProvider, desired};
pub use leg::{LegPurpose, LegState, LocalPart, Trouble, sized};
pub use path::{PathRole, PathState};
pub use rules::RouteRules;
pub use saga::{Goal, ReplicaState, RunEnd, Saga, Stamp};
pub use step::{Event, LegTerms, NewPath, Note, Present, Sight, Step, step};
pub use want::Want;
