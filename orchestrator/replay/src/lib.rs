//! Discrete-event replay: the same decision as the live system's, over a workload and simulated time.
//!
//! A [`Workload`] comes from a trace ([`trace`]), a list of orders ([`orders`]) or a generator ([`queues`]). [`replay`]
//! runs it under a [`Policy`]: which job is tried next, where it may go, and what it then takes of nodes and links, for as
//! long as it really runs. Sites and links may fail on the way ([`happening`]). What comes out are the [`Figures`] and a
//! journal that anyone can check.
//!
//! Invariants
//! - Pure: instants, seeds and texts come in; the same input gives the same output, byte for byte.
//! - Sites are taken in order of name and links in order of id, so that the order of the input has no trace.
//! - No device and no link ever carries more than it has, and a gang holds all its devices or none.
//! - A policy sees what has happened, never what will.

mod bill;
mod choose;
pub mod course;
mod dice;
mod engine;
pub mod figures;
pub mod happening;
mod history;
pub mod job;
pub mod journal;
pub mod openb;
pub mod orders;
pub mod plot;
pub mod policy;
mod queue;
pub mod queues;
pub mod scoring;
pub mod time;
pub mod trace;
mod world;

pub use engine::{Durations, ReplayError, Replayed, Setup, replay};
pub use figures::Figures;
pub use happening::Happening;
pub use job::{Job, Workload, WorkloadError};
pub use policy::Policy;
pub use time::Micros;
