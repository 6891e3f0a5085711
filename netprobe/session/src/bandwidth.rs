//! What the arrivals of a train say of the rate that a link carries.
//!
//! A link that only serialises spreads a train evenly: its rate is the octets over the time. A token-bucket shaper lets its
//! burst through at the speed of the wire and paces the rest, so that a short train, or the mean of a long one, says far too
//! much. The delay of the packets has a knee where the tokens end: the rate is that of the tail after it.
//!
//! The knee is where two straight lines fit the times of arrival best (least squares of time over octets); it counts where
//! the second line is clearly the slower one.

use serde::{Deserialize, Serialize};

use crate::train::Arrival;

/// Fewer arrivals say nothing.
const LEAST_ARRIVALS: usize = 8;
/// Of each side of a knee.
const LEAST_SIDE: usize = 4;
/// Slower by this much after the knee, or there is none.
const KNEE: f64 = 1.25;
/// The host's stack and the receiver's clock cannot resolve faster trains (coalescing, interrupts): no figure above this is
/// credible.
pub const MOST_CREDIBLE_KBPS: u64 = 2_000_000;

/// One train's rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainRate {
    /// Of the tail after the knee, or of the whole train without one.
    pub rate_kbps: u64,
    /// The shaper's burst: octets let through before the knee beyond what the rate allows; `None`: no knee.
    pub burst_bytes: Option<u64>,
    /// Arrivals that the rate is from.
    pub tail: usize,
    /// Packets that did not arrive.
    pub lost: u32,
}

/// The rate of a train of `sent` packets of `packet_bytes` each on the link; `None` where too few arrived, or all at once.
pub fn train_rate(arrivals: &[Arrival], sent: u32, packet_bytes: u64) -> Option<TrainRate> {
    if arrivals.len() < LEAST_ARRIVALS {
        return None;
    }
    let points: Vec<Point> =
        arrivals.iter().enumerate().map(|(i, a)| Point { packets: i as f64, ns: f64::from(a.at_ns) }).collect();
    let lost = sent.saturating_sub(arrivals.len() as u32);
    let knee = knee(&points);
    let tail = &points[knee.unwrap_or(0)..];
    let ns_per_packet = Line::of(tail.iter().copied()).slope()?;
    let kbps = packet_bytes as f64 * 8.0 * 1e6 / ns_per_packet;
    // times of arrival do not fall, so that a slope is finite and above zero
    let rate_kbps = if kbps.is_finite() && kbps >= 1.0 { kbps.min(1e12) as u64 } else { return None };
    // tokens went on coming while the burst passed
    let earned = |k: usize| u128::from(rate_kbps) * u128::from(arrivals[k].at_ns) / 8_000_000;
    let burst_bytes = knee.map(|k| (k as u64 * packet_bytes).saturating_sub(earned(k) as u64));
    Some(TrainRate { rate_kbps, burst_bytes, tail: tail.len(), lost })
}

#[derive(Debug, Clone, Copy)]
struct Point {
    packets: f64,
    ns: f64,
}

/// Sums for a least-squares line.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Line {
    fn of(points: impl Iterator<Item = Point>) -> Self {
        points.fold(Self::default(), Self::with)
    }

    fn with(self, p: Point) -> Self {
        Self {
            n: self.n + 1.0,
            x: self.x + p.packets,
            y: self.y + p.ns,
            xx: self.xx + p.packets * p.packets,
            xy: self.xy + p.packets * p.ns,
            yy: self.yy + p.ns * p.ns,
        }
    }

    fn less(self, other: Self) -> Self {
        Self {
            n: self.n - other.n,
            x: self.x - other.x,
            y: self.y - other.y,
            xx: self.xx - other.xx,
            xy: self.xy - other.xy,
            yy: self.yy - other.yy,
        }
    }

    /// Nanoseconds per packet; `None` where it is not above zero.
    fn slope(&self) -> Option<f64> {
        let (spread, with) = (self.xx - self.x * self.x / self.n, self.xy - self.x * self.y / self.n);
        let slope = with / spread;
        (self.n >= 2.0 && slope > 0.0).then_some(slope)
    }

    /// Sum of the squares of what the line leaves.
    fn rest(&self) -> f64 {
        let (xx, xy) = (self.xx - self.x * self.x / self.n, self.xy - self.x * self.y / self.n);
        let yy = self.yy - self.y * self.y / self.n;
        if xx > 0.0 { (yy - xy * xy / xx).max(0.0) } else { yy.max(0.0) }
    }
}

/// Index of the first arrival of the slower tail.
fn knee(points: &[Point]) -> Option<usize> {
    let all = Line::of(points.iter().copied());
    let mut before = Line::default();
    let mut best: Option<(f64, usize)> = None;
    for (i, point) in points.iter().enumerate() {
        if i >= LEAST_SIDE && points.len() - i >= LEAST_SIDE {
            let rest = before.rest() + all.less(before).rest();
            if best.is_none_or(|(least, _)| rest < least) {
                best = Some((rest, i));
            }
        }
        before = before.with(*point);
    }
    let (_, at) = best?;
    let (head, tail) = (Line::of(points[..at].iter().copied()), Line::of(points[at..].iter().copied()));
    // a head that came all at once has no slope: it is as fast as can be
    let slower = tail.slope()? > KNEE * head.slope().unwrap_or(0.0);
    slower.then_some(at)
}
