//! The published fragmentation benchmark in full: every list and policy, means of ten seeds, against what was published.
//! `cargo bench -p rhumb-replay --bench openb`; `RHUMB_DATA` names the folder of the public data.

#![allow(clippy::unwrap_used)] // shared with the tests

#[path = "../tests/openb/files.rs"]
mod files;

use rhumb_replay::openb::Policy;
use std::time::Instant;

const LISTS: [&str; 5] = ["default", "cpu100", "gpushare40", "gpuspec10", "multigpu20"];

fn main() {
    let Some(folder) = files::folder() else { return };
    let summary = String::from_utf8(files::bytes(&folder, "published_summary.csv")).expect("the summary is text");
    println!("list        policy      ours @130   sd    published  difference  decisions/s");
    for list in LISTS {
        let bench = files::bench(&folder, list);
        for policy in Policy::ALL {
            let (mut allocated, mut decisions) = (Vec::new(), 0);
            let start = Instant::now();
            for seed in 42..=51 {
                let outcome = bench.run(policy, seed, &mut |_| {}).expect("the files have the ten seeds");
                allocated.push(outcome.alloc_pct[130]);
                decisions += outcome.decisions;
            }
            let rate = decisions as f64 / start.elapsed().as_secs_f64();
            let mean = allocated.iter().sum::<f64>() / 10.0;
            let deviation = (allocated.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / 9.0).sqrt();
            let published = published(&summary, list, policy);
            let difference = mean - published;
            println!(
                "{list:<11} {policy:<10} {mean:>8.2} {deviation:>6.2} {published:>10.2} {difference:>+10.2} {rate:>12.0}"
            );
        }
    }
}

/// Allocated at 130 % arrived; for our own policy what FGD has.
fn published(summary: &str, list: &str, policy: Policy) -> f64 {
    let name = match policy {
        Policy::Random => "Random",
        Policy::DotProd => "DotProd",
        Policy::Clustering => "GpuClustering",
        Policy::Packing => "GpuPacking",
        Policy::BestFit => "BestFit",
        Policy::Fgd | Policy::Rhumb => "FGD",
    };
    let mark = format!("{list},{name},");
    let row = summary.lines().find(|line| line.starts_with(&mark));
    row.and_then(|row| row.split(',').nth(5)).and_then(|figure| figure.parse().ok()).unwrap_or(f64::NAN)
}
