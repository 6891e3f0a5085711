//! The published files and figures. The whole table: `cargo bench -p rhumb-replay --bench openb`.

use crate::files::{bench, bytes, folder};
use rhumb_replay::openb::{Policy, RunError};

/// The published figures of one seed of the list `default`, columns 0 to 130.
fn published(table: &str, policy: &str, seed: u64, first: usize) -> Vec<f64> {
    let mark = format!(",{policy},1.3,{seed},");
    let row = table.lines().find(|line| line.contains(&mark)).unwrap();
    row.split(',').skip(first).take(131).map(|figure| figure.parse().unwrap()).collect()
}

#[test]
fn one_seed_of_the_published_list_comes_out_as_published() {
    let Some(folder) = folder() else { return };
    let bench = bench(&folder, "default");
    let text = |name: &str| String::from_utf8(bytes(&folder, name)).unwrap();
    let (alloc, frag) = (text("published_alloc_default.csv"), text("published_fragratio_default.csv"));
    // node names are drawn anew in each run: one seed is as far off as the published seeds are from each other
    for (policy, name) in [(Policy::BestFit, "05-BestFit"), (Policy::Fgd, "06-FGD")] {
        let (alloc, frag) = (published(&alloc, name, 42, 5), published(&frag, name, 42, 4));
        let outcome = bench.run(policy, 42, &mut |_| {}).unwrap();
        for (column, far) in [(10, 0.1), (50, 0.1), (100, 0.6), (130, 0.6)] {
            let (ours, theirs) = (outcome.alloc_pct[column], alloc[column]);
            assert!((ours - theirs).abs() < far, "{policy}: {ours} % allocated at {column}, published {theirs}");
        }
        for (column, far) in [(0, 0.05), (50, 1.5), (90, 6.0)] {
            let (ours, theirs) = (outcome.frag_pct[column], frag[column]);
            assert!((ours - theirs).abs() < far, "{policy}: {ours} % fragmented at {column}, published {theirs}");
        }
    }
}

#[test]
fn ours_allocates_more_than_the_published_fgd() {
    let Some(folder) = folder() else { return };
    let outcome = bench(&folder, "default").run(Policy::Rhumb, 43, &mut |_| {}).unwrap();
    assert!(outcome.alloc_pct[130] > 95.39 + 0.2, "{} %", outcome.alloc_pct[130]);
}

#[test]
fn a_seed_without_an_order_is_told_which_there_are() {
    let Some(folder) = folder() else { return };
    let error = bench(&folder, "default").run(Policy::Fgd, 7, &mut |_| {}).unwrap_err();
    assert!(matches!(&error, RunError::Seed { seed: 7, .. }));
    assert!(error.to_string().contains("42, 43, 44"), "{error}");
}
