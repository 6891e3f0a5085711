//! What carries an order's bytes between points.

pub mod overlay;
