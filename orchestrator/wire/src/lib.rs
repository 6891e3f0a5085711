//! The contract between orchestrator and agents: one call, `sync`.
//!
//! The agent posts what it is and what it sees; the answer is the whole desired state of its point. The contract is
//! level-triggered: lost, duplicated, reordered or replayed calls change nothing.
//!
//! Invariants
//! - `(boot_id, seq)` rises strictly within a boot; older reports are ignored.
//! - A desired state carries `epoch` (of the orchestrator's leadership) and `generation` (of the desired state); an agent
//!   refuses lower ones.
//! - Unknown fields are ignored in both directions, so that a version and the next can talk.
//! - Wire types are not domain types: what is read here is checked where it enters the domain.

pub mod desired;
pub mod inventory;
pub mod kernel;
pub mod report;

pub use desired::{
    Assignment, AssignmentGoal, Desired, DevicePart, Duty, FlowEndpoint, InputFile, OutputFile, PairTarget, PeerLink,
    ProbeTarget, Role, Route, RoutePurpose, RunTerms, RunVariant,
};
pub use inventory::{DeviceFigures, Fares, Hearer, InventoryUpdate, NodeChanges, Teller, Telling};
pub use kernel::{KernelOffer, KernelRoute, Pass, Service, Tunnel, TunnelNumbers};
pub use report::{
    AssignmentState, AssignmentStatus, BandwidthFigures, LinkFigures, LogChunk, NodeReport, PairFigures, PathChange,
    PortReport, Report, RouteEndState, RouteFigures, RouteStatus, SyncReply, TestedRate, TrainHeard, UnknownValue,
    WindowFigures,
};

/// Version of this contract; a peer with another major version is refused.
pub const PROTOCOL: u32 = 1;
