//! Round trips of the pairs that were measured.

use rhumb_model::Latency;

/// Round trips by unordered pair of points. A pair that both ends measured has the larger of the two: the worse one is the one
/// that a decision can rely on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// By point: its peers in rising order.
    peers: Vec<Vec<(usize, Latency)>>,
}

impl Measured {
    /// Points `0..points`; pairs that name others, or one point twice, are left out.
    pub fn new(points: usize, pairs: impl IntoIterator<Item = (usize, usize, Latency)>) -> Self {
        let mut peers = vec![Vec::new(); points];
        for (a, b, rtt) in pairs {
            if a != b && a < points && b < points {
                peers[a].push((b, rtt));
                peers[b].push((a, rtt));
            }
        }
        for row in &mut peers {
            // the larger of two comes last and is the one that is kept
            row.sort_unstable_by(|x, y| y.cmp(x));
            row.dedup_by_key(|(peer, _)| *peer);
            row.reverse();
        }
        Self { peers }
    }

    /// How many points there are.
    pub fn points(&self) -> usize {
        self.peers.len()
    }

    /// Whom a point was measured with, in rising order.
    pub fn peers(&self, point: usize) -> &[(usize, Latency)] {
        self.peers.get(point).map_or(&[], Vec::as_slice)
    }

    /// The round trip of a pair, either way round.
    pub fn rtt(&self, a: usize, b: usize) -> Option<Latency> {
        let row = self.peers(a);
        row.binary_search_by_key(&b, |(peer, _)| *peer).ok().map(|at| row[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_of_both_ends_is_kept_and_odd_pairs_are_not() {
        let us = Latency::from_micros;
        let measured = Measured::new(3, [(0, 1, us(10)), (1, 0, us(30)), (0, 1, us(20)), (2, 2, us(1)), (0, 7, us(1))]);
        assert_eq!(measured.rtt(0, 1), Some(us(30)));
        assert_eq!(measured.rtt(1, 0), Some(us(30)));
        assert_eq!(measured.rtt(2, 2), None);
        assert_eq!(measured.peers(0), [(1, us(30))]);
        assert!(measured.peers(9).is_empty());
    }
}
