//! A thousand points: what each sends, and when every pair has an estimate.

use crate::world::World;
use rhumb_mesh::{Cause, MeshConfig};

/// Fault F52: a probe mesh grows with the square of its points.
#[test]
fn f52_a_thousand_points_stay_below_100_kbit_s_each() {
    let config = MeshConfig::default();
    let found = World::new(1_000, 7).run(&config);
    eprintln!("{found:?}");
    assert!(found.most_bytes_s * 8 < 100_000, "{found:?}");
    // not a full mesh, nor near to one
    assert!(found.sessions < 1_000 * 60, "{found:?}");
    assert!(found.first_bounds_us < 60_000_000, "{found:?}");
    assert!(found.first_coordinates_us <= found.first_bounds_us, "{found:?}");
    assert!(found.most_sessions_of_one < 100 && found.mean_bytes_s < found.most_bytes_s, "{found:?}");
    assert!(found.median_error < 200 && found.p90_error < 500, "{found:?}");
    assert!(found.within_bounds > 0, "{found:?}");
}

#[test]
fn every_pair_of_the_plan_keeps_to_its_budget_and_all_reach_the_landmarks() {
    let config = MeshConfig::default();
    let plan = World::new(500, 3).plan(&config);
    for point in 0..500 {
        assert!(plan.sent_by(point, &config) <= config.budget, "point {point}");
        let marks = plan.sessions.iter().filter(|s| s.from == point && plan.landmarks.contains(&s.to)).count();
        let own = usize::from(plan.landmarks.contains(&point));
        assert_eq!(marks, config.landmarks - own, "point {point}");
        let near = plan.sessions.iter().filter(|s| s.from == point && s.cause <= Cause::Near).count();
        assert!(near >= config.nearest, "point {point}");
    }
}
