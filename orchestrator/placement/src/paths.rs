//! Paths by themselves.
pub mod matrix;
pub mod wan;
