//! Delay variation of one direction (RFC 3393, RFC 5481). The clocks of the two ends need not agree: only differences count.

use serde::{Deserialize, Serialize};

use crate::figures::percentile;

/// Least samples a drift between the clocks is read from.
const LEAST_FOR_DRIFT: usize = 32;
/// No two clocks in use drift further apart, in parts per million; a steeper slope is a change of the path.
const MOST_DRIFT_PPM: i128 = 200;

/// Variation of the one-way delay in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variation {
    /// 95th percentile of the delay less the least (PDV).
    pub p95_ns: u64,
    /// 99th percentile of the delay less the least.
    pub p99_ns: u64,
    /// Mean difference, without sign, of the delays of successive probes (IPDV).
    pub successive_ns: u64,
}

/// When a probe was sent, and what the two clocks make of its delay.
pub(crate) type Point = (u64, i64);

impl Variation {
    /// Of probes in the order they were sent; `None` if there is none.
    pub(crate) fn of(points: &[Point]) -> Option<Self> {
        let delays = level(points);
        let steps = delays.windows(2).map(|pair| pair[0].abs_diff(pair[1]));
        let successive_ns = steps.sum::<u64>().checked_div((delays.len() as u64).saturating_sub(1)).unwrap_or(0);
        let mut above = above_least(points);
        above.sort_unstable();
        Some(Self { p95_ns: percentile(&above, 95)?, p99_ns: percentile(&above, 99)?, successive_ns })
    }
}

/// Delays less the least, in the order of the points.
pub(crate) fn above_least(points: &[Point]) -> Vec<u64> {
    let delays = level(points);
    let least = delays.iter().min().copied().unwrap_or(0);
    delays.into_iter().map(|delay| delay.abs_diff(least)).collect()
}

/// Takes out a steady drift of one clock against the other: the line below all points, under which they lie closest (Moon,
/// Skelly and Towsley 1999). On the lower hull that is the edge above the mean of the times.
fn level(points: &[Point]) -> Vec<i64> {
    let flat = || points.iter().map(|point| point.1).collect();
    let Some((start, _)) = points.first().filter(|_| points.len() >= LEAST_FOR_DRIFT) else { return flat() };
    let moved: Vec<(i128, i128)> =
        points.iter().map(|(at, delay)| (i128::from(at.saturating_sub(*start)), i128::from(*delay))).collect();
    let mean = moved.iter().map(|point| point.0).sum::<i128>() / moved.len() as i128;
    let mut hull: Vec<(i128, i128)> = Vec::new();
    for point in &moved {
        while let [.., a, b] = hull[..]
            && (b.0 - a.0) * (point.1 - a.1) <= (point.0 - a.0) * (b.1 - a.1)
        {
            hull.pop();
        }
        hull.push(*point);
    }
    let Some((a, b)) = hull.windows(2).map(|edge| (edge[0], edge[1])).find(|(_, b)| b.0 >= mean) else { return flat() };
    let (run, rise) = (b.0 - a.0, b.1 - a.1);
    if run == 0 || rise.abs() * 1_000_000 > run * MOST_DRIFT_PPM {
        return flat();
    }
    moved.iter().map(|(at, delay)| (delay - rise * (at - a.0) / run) as i64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Every fifth probe meets a queue of 3 ms.
    fn points(drift_ppm: i64, offset_ns: i64) -> Vec<Point> {
        let point = |index: i64| {
            let at = index * 200 * MS;
            let queue = if index % 5 == 0 { 3 * MS } else { 0 };
            (at as u64, offset_ns + 20 * MS + queue + at * drift_ppm / 1_000_000)
        };
        (0..300).map(point).collect()
    }

    #[test]
    fn offset_and_drift_of_the_clocks_do_not_show() {
        let flat = Variation::of(&points(0, 0)).unwrap();
        assert_eq!((flat.p95_ns, flat.p99_ns), (3_000_000, 3_000_000));
        // of 299 steps 119 are of 3 ms
        assert_eq!(flat.successive_ns, 119 * 3_000_000 / 299);
        assert_eq!(Variation::of(&points(0, -267 * MS)), Some(flat));
        for drift_ppm in [50, -80] {
            let drifting = Variation::of(&points(drift_ppm, 5 * MS)).unwrap();
            assert!(drifting.p95_ns.abs_diff(flat.p95_ns) < 2_000, "{drifting:?}");
            assert!(drifting.successive_ns.abs_diff(flat.successive_ns) < 2_000, "{drifting:?}");
        }
    }

    #[test]
    fn a_change_of_the_path_is_no_drift() {
        let stepped: Vec<Point> =
            (0..300).map(|index| (index * 200_000_000, 20 * MS + if index < 150 { 10 * MS } else { 0 })).collect();
        assert_eq!(Variation::of(&stepped).unwrap().p95_ns, 10_000_000);
    }

    #[test]
    fn few_points_vary_as_they_are() {
        assert_eq!(Variation::of(&[]), None);
        let one = Variation::of(&[(0, 5)]).unwrap();
        assert_eq!((one.p95_ns, one.p99_ns, one.successive_ns), (0, 0, 0));
        assert_eq!(Variation::of(&[(0, 5), (1, -2)]).unwrap().successive_ns, 7);
    }
}
