//! Estimates against the median round trips between the regions of a cloud, half of the pairs hidden.

use crate::world::mix;
use rhumb_mesh::{Estimator, Measured};
use rhumb_model::Latency;
use std::collections::{BTreeMap, BTreeSet};

/// Two regions by ordinals of their names, and the round trip in microseconds, both ways round together.
type Pair = (usize, usize, u64);

/// How many regions there are, and all pairs.
fn pairs() -> Option<(usize, Vec<Pair>)> {
    let folder = public_data::folder("latency")?;
    let text = public_data::text(&folder, "aws_rtt_p50_1y.csv").unwrap()?;
    let mut rows: BTreeMap<(String, String), f64> = BTreeMap::new();
    for row in csv::Reader::from_reader(text.as_bytes()).deserialize() {
        let (from, to, rtt_ms): (String, String, f64) = row.unwrap();
        rows.insert((from, to), rtt_ms);
    }
    let names: BTreeSet<_> = rows.keys().map(|(from, _)| from.clone()).collect();
    let names: Vec<_> = names.into_iter().collect();
    let mut found = Vec::new();
    for (a, from) in names.iter().enumerate() {
        for (b, to) in names.iter().enumerate().take(a) {
            let ways = [(from, to), (to, from)].map(|(x, y)| rows[&(x.clone(), y.clone())]);
            found.push((a, b, ((ways[0] + ways[1]) * 500.0) as u64));
        }
    }
    Some((names.len(), found))
}

#[test]
fn half_of_a_clouds_pairs_are_estimated_within_a_fifth_at_the_median() {
    let Some((points, mut pairs)) = pairs() else { return };
    assert_eq!((points, pairs.len()), (32, 496));
    for seed in 0..10 {
        pairs.sort_by_key(|(a, b, _)| mix(seed ^ mix((a * 100 + b) as u64)));
        let (known, hidden) = pairs.split_at(pairs.len() / 2);
        let known = known.iter().map(|(a, b, us)| (*a, *b, Latency::from_micros(*us)));
        let estimator = Estimator::new(Measured::new(points, known));
        let error = |(a, b, us): &Pair| estimator.estimate(*a, *b).unwrap().rtt.micros().abs_diff(*us) * 1_000 / us;
        let mut errors: Vec<_> = hidden.iter().map(error).collect();
        errors.sort_unstable();
        let (median, p90) = (errors[errors.len() / 2], errors[errors.len() * 9 / 10]);
        eprintln!("seed {seed}: median error {median}, p90 {p90} per thousand");
        assert!(median <= 200, "seed {seed}: {median} per thousand");
    }
}
