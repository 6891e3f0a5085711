//! Which points everybody measures.

/// Greedy medians: one after the other, the point that brings all points nearest to their next landmark, ties to the lower
/// ordinal. Medians stand among the many; centres (the farthest each time) would stand at the rim, where bounds through them
/// are loose.
pub fn landmarks(points: usize, count: usize, distance_us: impl Fn(usize, usize) -> u64) -> Vec<usize> {
    let mut nearest = vec![u64::MAX / 4; points];
    let mut chosen: Vec<usize> = Vec::with_capacity(count.min(points));
    while chosen.len() < count.min(points) {
        let sum = |candidate: usize| -> u128 {
            let with = |point: usize| if point == candidate { 0 } else { distance_us(candidate, point) };
            (0..points).map(|point| u128::from(nearest[point].min(with(point)))).sum()
        };
        let free = (0..points).filter(|point| !chosen.contains(point));
        let Some(best) = free.min_by_key(|point| (sum(*point), *point)) else { break };
        for (point, near) in nearest.iter_mut().enumerate() {
            *near = (*near).min(if point == best { 0 } else { distance_us(best, point) });
        }
        chosen.push(best);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crowd_gets_one() {
        // three crowds on a line
        let places = [0_u64, 1, 2, 100, 101, 102, 200, 201, 202];
        let mut found = landmarks(9, 3, |a, b| places[a].abs_diff(places[b]));
        found.sort_unstable();
        assert_eq!(found, [1, 4, 7]);
        assert_eq!(landmarks(2, 5, |_, _| 1), [0, 1]);
        assert!(landmarks(0, 3, |_, _| 1).is_empty());
    }
}
