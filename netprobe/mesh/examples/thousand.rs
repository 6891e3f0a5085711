//! Prints what a mesh of many points costs: `cargo run -p rhumb-mesh --example thousand [POINTS]`.
#![allow(clippy::unwrap_used)] // the simulation is the tests'

#[path = "../tests/it/world.rs"]
mod world;

use rhumb_mesh::MeshConfig;

fn main() {
    let points = std::env::args().nth(1).map_or(1_000, |text| text.parse().unwrap());
    let config = MeshConfig::default();
    for seed in [7, 8, 9] {
        let found = world::World::new(points, seed).run(&config);
        println!(
            "{points} points, seed {seed}: {} sessions (at most {} of one point; a full mesh has {}), {} B/s sent in the \
             mean, {} B/s = {:.1} kbit/s by the busiest; first estimate of every pair after {:.1} s, with bounds {:.1} s; \
             unmeasured pairs: median error {:.1} %, p90 {:.1} %, {:.1} % of the truths within the bounds",
            found.sessions,
            found.most_sessions_of_one,
            points * (points - 1),
            found.mean_bytes_s,
            found.most_bytes_s,
            found.most_bytes_s as f64 * 0.008,
            found.first_coordinates_us as f64 / 1e6,
            found.first_bounds_us as f64 / 1e6,
            found.median_error as f64 / 10.0,
            found.p90_error as f64 / 10.0,
            found.within_bounds as f64 / 10.0,
        );
    }
}
