//! What is known of a node's accelerators: output of the makers' tools, read into one model.
//!
//! Invariants
//! - Pure: bytes come in, a model goes out. No runtime, clock, file or process.
//! - A value that is not known is `Unknown` with the reason, never zero and never a guess.
//! - No row is invented: what a tool leaves out is a note. Devices are never told apart by UUID alone.
//! - No input makes it panic, however it was cut or mangled.

pub mod accelerator;
pub mod catalogue;
pub mod inventory;
pub mod read;
pub mod snapshot;
pub mod topology;
pub mod value;

pub use accelerator::{Accelerator, Condition, Ecc, Job, MigMode, PciAddress, PciId, Pcie, Slice, Vendor};
pub use catalogue::Catalogue;
pub use inventory::{Inventory, Unknown, inventory};
pub use read::{Capture, Format, ReadError, Section, read};
pub use snapshot::{Nic, PciFunction, Snapshot};
pub use topology::{LinkKind, Topology};
pub use value::{Value, Why};
