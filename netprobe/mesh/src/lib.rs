//! Which pairs of points a mesh measures, and what may be said of the pairs that it does not.
//!
//! A full mesh grows with the square of its points. Beyond a few dozen points a sparse set is measured: the pairs in use, the
//! nearest of each point, and everybody to a few landmarks. The others are bounded by the triangle inequality and estimated by
//! network coordinates within those bounds.
//!
//! Invariants
//! - Pure and deterministic: the same points and figures give the same plan, down to the order of its sessions; nothing that
//!   decides a plan is a float.
//! - What is not measured is an `Estimate`, a type of its own: it cannot be taken for a measurement.
//! - A point sends no more than its budget in any plan, whatever its part in it.
//!
//! Points are ordinals from 0, given out by the caller.

pub mod bounds;
pub mod coordinates;
pub mod estimate;
pub mod landmarks;
pub mod measured;
pub mod plan;

pub use bounds::Bounds;
pub use coordinates::Coordinates;
pub use estimate::{Estimate, Estimator, Method};
pub use measured::Measured;
pub use plan::{Cause, MeshConfig, Plan, Session, plan};
