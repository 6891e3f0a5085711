//! Decisions on fleets of 10, 100 and 1,000 sites, each applied before the next. Beside criterion's own figures it prints,
//! per size, decisions per second and the median and 99th percentile of single decisions, refusals, gangs and reports.

use criterion::{BatchSize, Criterion};
use rhumb_federation::View;
use rhumb_placement::{
    Planner, Policy, Request,
    generate::workload,
    measure::{Timings, Trial, measure},
};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

const SEED: u64 = 42;
const ORDERS: u32 = 1_000;

fn main() {
    let mut criterion = Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20)
        .configure_from_args();
    let policy = Policy::default();
    for sites in [10, 100, 1_000] {
        let file = workload::federation(workload::size(sites), SEED);
        let view = View::from_file(&file).expect("a generated federation is sound");
        // no more than fit, so that what is refused is refused for its own sake
        let orders = workload::orders(&file, ORDERS.min(sites * 4), SEED);
        let submit = workload::instant();
        let trial = Trial {
            view: &view,
            orders: &orders,
            submit,
            decisions: ORDERS as usize,
            explained: 20,
            gangs: 20,
            reports: 200,
        };
        let begin = Instant::now();
        report(sites, measure(&trial, &policy, &mut || begin.elapsed()));
        let planner = Planner::new(view.clone());
        let mut next = 0;
        criterion.bench_function(&format!("place/{sites}"), |b| {
            b.iter_batched(
                || {
                    next = (next + 1) % orders.len();
                    next
                },
                |i| planner.decide(&Request::new(black_box(&orders[i]), submit), &policy),
                BatchSize::SmallInput,
            );
        });
    }
    criterion.final_summary();
}

fn report(sites: u32, mut found: Timings) {
    let all: Duration = found.decisions.iter().chain(&found.applied).sum();
    println!(
        "sites={sites} decisions={} refused={} proven_optimal={} not_applied={} decisions_per_s={:.0} p50_us={} p99_us={} \
         apply_p99_us={} refusal_p99_us={} gang512_p99_us={} (kinds, planned: {:?}) view_update_p99_us={}",
        found.decisions.len(),
        found.refused,
        found.proven,
        found.not_applied.len(),
        found.decisions.len() as f64 / all.as_secs_f64(),
        at(&mut found.decisions, 50),
        at(&mut found.decisions, 99),
        at(&mut found.applied, 99),
        at(&mut found.refusals, 99),
        at(&mut found.gangs, 99),
        found.gang_kinds,
        at(&mut found.reports, 99),
    );
}

fn at(times: &mut [Duration], percent: usize) -> u128 {
    times.sort_unstable();
    let rank = (times.len() * percent).div_ceil(100).max(1);
    times.get(rank - 1).map_or(0, Duration::as_micros)
}
