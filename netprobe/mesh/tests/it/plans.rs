//! What holds of every plan.

use crate::world::mix;
use proptest::prelude::*;
use rhumb_mesh::{Cause, Estimator, Measured, MeshConfig, Plan, plan};
use rhumb_model::{Bandwidth, Latency, Span};
use std::collections::BTreeSet;

fn made(points: usize, seed: u64, used: &BTreeSet<(usize, usize)>, config: &MeshConfig) -> Plan {
    let prior = |a: usize, b: usize| {
        let dice = mix(seed ^ (a.min(b) * 1_000 + a.max(b)) as u64);
        (!dice.is_multiple_of(7)).then(|| Latency::from_micros(dice % 200_000))
    };
    plan(points, used, config, |a, b| !(a + b).is_multiple_of(11), prior)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn plans_are_the_same_each_time_and_within_budget(points in 0_usize..90, seed in any::<u64>(), kbps in 5_u64..200, n in 0_usize..40) {
        let config = MeshConfig { budget: Bandwidth::from_kbps(kbps), ..MeshConfig::default() };
        let dice = |i: usize, side: u64| (mix(seed ^ side ^ i as u64) % 100) as usize;
        let used: BTreeSet<_> = (0..n).map(|i| (dice(i, 1 << 33), dice(i, 1 << 34))).collect();
        let plan = made(points, seed, &used, &config);
        prop_assert_eq!(&plan, &made(points, seed, &used, &config));
        prop_assert!(plan.sessions.is_sorted());
        for session in &plan.sessions {
            prop_assert!(session.from != session.to && session.from < points && session.to < points);
            prop_assert!(!(session.from + session.to).is_multiple_of(11));
            prop_assert!(session.interval >= config.interval);
        }
        for point in 0..points {
            prop_assert!(plan.sent_by(point, &config) <= config.budget);
        }
        let planned: BTreeSet<_> = plan.sessions.iter().map(|s| (s.from, s.to)).collect();
        prop_assert_eq!(planned.len(), plan.sessions.len());
        for (a, b) in used.into_iter().filter(|(a, b)| a != b && !(a + b).is_multiple_of(11) && *a.max(b) < points) {
            prop_assert!(planned.contains(&(a, b)) && planned.contains(&(b, a)));
        }
    }
}

#[test]
fn up_to_forty_points_everybody_probes_everybody_at_the_usual_pace_while_the_budget_holds() {
    let config = MeshConfig::default();
    let all = |n| plan(n, &BTreeSet::new(), &config, |_, _| true, |_, _| None);
    assert_eq!(all(40).sessions.len(), 40 * 39);
    assert!(all(40).landmarks.is_empty() && all(40).sessions.iter().all(|s| s.cause == Cause::Full));
    assert_eq!(all(10).sessions.len(), 90);
    // five sessions of 5 packets a second, there and back, are 64 kbit/s; nine would be 115
    assert!(all(6).sessions.iter().all(|s| s.interval == Span::from_micros(200_000)));
    assert!(all(10).sessions.iter().all(|s| s.interval > Span::from_micros(200_000)));
    let sparse = all(41);
    assert!(sparse.sessions.len() < 41 * 40 && !sparse.landmarks.is_empty());
}

#[test]
fn without_points_or_ways_nothing_is_planned() {
    let config = MeshConfig::default();
    assert!(plan(0, &BTreeSet::new(), &config, |_, _| true, |_, _| None).sessions.is_empty());
    assert!(plan(50, &BTreeSet::from([(1, 2)]), &config, |_, _| false, |_, _| None).sessions.is_empty());
    assert!(plan(1, &BTreeSet::from([(0, 0), (0, 9)]), &config, |_, _| true, |_, _| None).sessions.is_empty());
}

/// Fault F54: disconnected points, self-loops, one-way ways, doubled pairs.
#[test]
fn f54_odd_graphs_give_odd_plans_and_no_estimate_where_nothing_is_known() {
    let config = MeshConfig::default();
    // two islands of 30, ways only upwards, a loop and a pair of unknown points in use
    let used = BTreeSet::from([(0, 0), (0, 1), (1, 0), (3, 99)]);
    let possible = |a: usize, b: usize| a < b && a / 30 == b / 30;
    let plan = plan(60, &used, &config, possible, |_, _| None);
    assert!(!plan.sessions.is_empty() && plan.sessions.iter().all(|s| possible(s.from, s.to)));
    assert!(plan.sessions.iter().any(|s| (s.from, s.to) == (0, 1)));
    let measured = plan.sessions.iter().map(|s| (s.from, s.to, Latency::from_micros(5_000)));
    let estimator = Estimator::new(Measured::new(61, measured));
    assert!(estimator.estimate(0, 29).is_some());
    // of another island, of a point that nobody measured, and of one that does not exist
    for (a, b) in [(0, 31), (29, 30), (0, 60), (60, 60), (0, 61)] {
        assert_eq!(estimator.estimate(a, b), None, "{a} {b}");
    }
}
