//! Single questions on random networks, then every net of the reference table routed split and on single paths.
//!
//! `cargo bench -p rhumb-placement --bench paths [-- PART OF A NAME...]`; the folder of public data is `RHUMB_DATA`, else
//! `../shared/data` beside the project.

use rhumb_model::{Bandwidth, Latency};
use rhumb_placement::paths::{
    Bounds, Edge, Graph, Weight,
    disjoint::{Apart, pair},
    flow::max_flow,
    matrix::{SplitEffort, UnsplitEffort, split, unsplit},
    wan,
    yen::k_shortest,
};
use std::{fs, hint::black_box, time::Instant};

fn main() {
    questions();
    matrices();
}

/// Mean microseconds of each question over pairs of points, on a ring with twice as many chords.
fn questions() {
    println!(
        "{:>6} {:>6} {:>10} {:>16} {:>10} {:>10} {:>10}",
        "points", "links", "4 paths", "within a bound", "pair", "risks", "max flow"
    );
    for points in [38_usize, 100, 500] {
        let graph = network(points);
        let mut state = 7;
        let pairs: Vec<(usize, usize)> =
            (0..50).map(|_| (draw(&mut state, points), draw(&mut state, points))).collect();
        let mean = |ask: &dyn Fn(usize, usize)| {
            let begun = Instant::now();
            for (from, to) in &pairs {
                ask(*from, *to);
            }
            begun.elapsed().as_secs_f64() * 1e6 / pairs.len() as f64
        };
        let free = Bounds::default();
        let bound = Bounds { latency: Some(Latency::from_micros(60_000)), ..free };
        println!(
            "{points:>6} {:>6} {:>10.0} {:>16.0} {:>10.0} {:>10.0} {:>10.0}",
            graph.edges().len(),
            mean(&|from, to| drop(black_box(k_shortest(&graph, from, to, 4, free)))),
            mean(&|from, to| drop(black_box(k_shortest(&graph, from, to, 4, bound)))),
            mean(&|from, to| drop(black_box(pair(&graph, (from, to), free, Apart::Links, 200)))),
            mean(&|from, to| drop(black_box(pair(&graph, (from, to), bound, Apart::Risks, 200)))),
            mean(&|from, to| drop(black_box(max_flow(&graph, from, to, |_| true)))),
        );
    }
}

/// The same numbers everywhere.
fn draw(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % below
}

fn network(points: usize) -> Graph {
    let mut state = 1;
    let mut edges = Vec::new();
    for i in 0..points * 3 {
        let (from, to) =
            if i < points { (i, (i + 1) % points) } else { (draw(&mut state, points), draw(&mut state, points)) };
        let edge = Edge {
            from,
            to,
            cost: Weight(1 + draw(&mut state, 1_000) as u64),
            latency: Latency::from_micros(1_000 + draw(&mut state, 15_000) as u64),
            capacity: Bandwidth::from_mbps(100 + draw(&mut state, 900) as u64),
            risks: vec![draw(&mut state, points)],
        };
        edges.push(Edge { from: to, to: from, ..edge.clone() });
        edges.push(edge);
    }
    Graph::new(points, edges).expect("the points are numbered below their count")
}

fn matrices() {
    let Some(folder) = public_data::folder("wan") else { return };
    let table = fs::read_to_string(folder.join("reference_mlu.csv")).expect("the nets have a table of optima");
    let parts: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    println!(
        "{:<22} {:>14} {:>14} {:>14} {:>8} {:>9} {:>14} {:>14} {:>7} {:>9}",
        "net", "optimum", "bound", "split", "gap ppm", "ms", "no less than", "single paths", "x", "ms"
    );
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let (name, optimum): (_, f64) = (fields[0], fields[5].parse().expect("the table has numbers"));
        if !parts.is_empty() && !parts.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let matrix =
            wan::read(name, |file| public_data::text(&folder, file)).expect("the nets of the table can be read").matrix;
        let begun = Instant::now();
        let many = split(&matrix, SplitEffort::default());
        let split_ms = begun.elapsed().as_secs_f64() * 1e3;
        let begun = Instant::now();
        let one = unsplit(&matrix, UnsplitEffort::default());
        let unsplit_ms = begun.elapsed().as_secs_f64() * 1e3;
        let floor = matrix.largest_demand_over_widest_path().ratio().max(optimum);
        let (split, single) = (many.max_utilisation.ratio(), one.max_utilisation.ratio());
        println!(
            "{name:<22} {optimum:>14.6} {:>14.6} {split:>14.6} {:>8.0} {split_ms:>9.1} {floor:>14.6} {single:>14.6} {:>7.4} {unsplit_ms:>9.1}",
            many.lower_bound.ratio(),
            (split / optimum - 1.) * 1e6,
            single / floor,
        );
    }
}
