//! The best guess at a pair that was not measured.

use crate::{Bounds, Coordinates, Measured};
use rhumb_model::Latency;

/// A round trip that nobody measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// The guess; between the bounds where there are some.
    pub rtt: Latency,
    /// By the triangle inequality; `None`: the two have no measured peer in common.
    pub bounds: Option<Bounds>,
    /// Where the guess is from.
    pub method: Method,
}

/// Where a guess is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// The coordinates' distance lies within the bounds.
    Coordinates,
    /// The coordinates' distance does not: the bound next to it.
    Bound,
}

/// Answers for every pair of a mesh.
#[derive(Debug, Clone)]
pub struct Estimator {
    measured: Measured,
    coordinates: Coordinates,
}

impl Estimator {
    /// From what was measured.
    pub fn new(measured: Measured) -> Self {
        let coordinates = Coordinates::fit(&measured);
        Self { measured, coordinates }
    }

    /// What was measured.
    pub fn measured(&self) -> &Measured {
        &self.measured
    }

    /// The guess at a pair; `None` where one of the two was measured with nobody. Measured pairs have one too: who asks for
    /// it wants to compare.
    pub fn estimate(&self, a: usize, b: usize) -> Option<Estimate> {
        let distance = Latency::from_micros(self.coordinates.distance_us(a, b)?);
        let bounds = Bounds::of(&self.measured, a, b);
        let within = bounds.map_or(distance, |bounds| distance.clamp(bounds.low, bounds.high));
        let method = if within == distance { Method::Coordinates } else { Method::Bound };
        Some(Estimate { rtt: within.max(Latency::from_micros(1)), bounds, method })
    }
}
