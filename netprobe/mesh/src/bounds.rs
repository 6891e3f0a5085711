//! What the triangle inequality says of a pair: `|ac - bc| <= ab <= ac + bc` for every point c that both were measured with.
//!
//! Round trips of the Internet break it now and then (routes are policy, not geometry), so bounds are a hint with a direction,
//! never a measurement.

use crate::Measured;
use rhumb_model::Latency;

/// Least and most that a round trip can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The largest lower bound; 0 where both are equally far from everybody.
    pub low: Latency,
    /// The least upper bound.
    pub high: Latency,
}

impl Bounds {
    /// Of a pair, from the points that both were measured with; `None` where there is none. Where the triangle inequality is
    /// broken and the bounds cross, the upper one counts: a path of that delay was seen.
    pub fn of(measured: &Measured, a: usize, b: usize) -> Option<Self> {
        let (mut left, mut right) = (measured.peers(a).iter().peekable(), measured.peers(b).iter().peekable());
        let (mut low, mut high) = (0, u64::MAX);
        while let (Some((x, ax)), Some((y, by))) = (left.peek(), right.peek()) {
            match x.cmp(y) {
                std::cmp::Ordering::Less => left.next(),
                std::cmp::Ordering::Greater => right.next(),
                std::cmp::Ordering::Equal => {
                    low = low.max(ax.micros().abs_diff(by.micros()));
                    high = high.min(ax.micros().saturating_add(by.micros()));
                    left.next();
                    right.next()
                }
            };
        }
        let bounds = Self { low: Latency::from_micros(low.min(high)), high: Latency::from_micros(high) };
        (high < u64::MAX).then_some(bounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Of points on a line the truth lies within the bounds, and the bounds are those of looking at every third point.
        #[test]
        fn bounds_are_those_of_every_third_point(places in prop::collection::vec(0_u64..1_000_000, 3..12), known in any::<u64>()) {
            let n = places.len();
            let truth = |a: usize, b: usize| places[a].abs_diff(places[b]);
            let pairs: Vec<_> = (0..n).flat_map(|a| (0..a).map(move |b| (a, b))).collect();
            let seen = pairs.iter().enumerate().filter(|(i, _)| known >> (i % 64) & 1 == 1).map(|(_, pair)| *pair);
            let measured = Measured::new(n, seen.map(|(a, b)| (a, b, Latency::from_micros(truth(a, b)))));
            for (a, b) in pairs {
                let thirds: Vec<_> = (0..n).filter_map(|c| Some((measured.rtt(a, c)?.micros(), measured.rtt(b, c)?.micros()))).collect();
                let low = thirds.iter().map(|(x, y)| x.abs_diff(*y)).max();
                let high = thirds.iter().map(|(x, y)| x + y).min();
                let found = Bounds::of(&measured, a, b);
                prop_assert_eq!(found.map(|f| f.low.micros()), low);
                prop_assert_eq!(found.map(|f| f.high.micros()), high);
                if let Some(found) = found {
                    prop_assert!(found.low.micros() <= truth(a, b) && truth(a, b) <= found.high.micros());
                }
            }
        }
    }

    #[test]
    fn bounds_that_cross_are_the_upper_one() {
        let us = Latency::from_micros;
        // 2 says at least 90, 3 says at most 40
        let measured = Measured::new(4, [(0, 2, us(100)), (1, 2, us(10)), (0, 3, us(20)), (1, 3, us(20))]);
        assert_eq!(Bounds::of(&measured, 0, 1), Some(Bounds { low: us(40), high: us(40) }));
        assert_eq!(Bounds::of(&measured, 2, 3).map(|b| b.high), Some(us(30)));
        assert_eq!(Bounds::of(&measured, 0, 0).map(|b| b.low), Some(us(0)));
    }
}
