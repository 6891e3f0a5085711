//! Decisions on federations of 10, 100 and 1,000 sites. Beside criterion's own figures it prints, per size, decisions per
//! second and the median and 99th percentile of single decisions.

use criterion::Criterion;
use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::Order;
use rhumb_placement::{
    Policy, Request, decide,
    generate::{self, Size},
    place,
};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

const SEED: u64 = 42;
const ORDERS: u32 = 100;
/// Enough for a 99th percentile that ten decisions lie above.
const DECISIONS: usize = 1_000;

fn main() {
    let mut criterion = Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20)
        .configure_from_args();
    let submit: Timestamp = "2026-12-01T03:17:00Z".parse().expect("a written instant is one");
    for sites in [10, 100, 1_000] {
        let file = generate::federation(Size::of(sites), SEED);
        let view = View::from_file(&file).expect("a generated federation is sound");
        let orders = generate::orders(sites, ORDERS, SEED);
        let policy = Policy::default();
        report(sites, &view, &orders, submit, &policy);
        let mut next = 0;
        criterion.bench_function(&format!("place/{sites}"), |b| {
            b.iter(|| {
                next = (next + 1) % orders.len();
                decide(&view, &Request::new(black_box(&orders[next]), submit), &policy)
            });
        });
        if sites <= 100 {
            criterion.bench_function(&format!("explain/{sites}"), |b| {
                b.iter(|| {
                    next = (next + 1) % orders.len();
                    place(&view, &Request::new(black_box(&orders[next]), submit), &policy)
                });
            });
        }
    }
    criterion.final_summary();
}

fn report(sites: u32, view: &View, orders: &[Order], submit: Timestamp, policy: &Policy) {
    let mut times = Vec::with_capacity(DECISIONS);
    let (mut planned, mut proven) = (0_u64, 0_u64);
    let begin = Instant::now();
    for i in 0..DECISIONS {
        let order = &orders[i % orders.len()];
        let start = Instant::now();
        let decision = decide(view, &Request::new(order, submit), policy);
        times.push(start.elapsed());
        planned += u64::from(decision.plan().is_some());
        proven += u64::from(decision.plan().is_some_and(|p| p.proven_optimal));
    }
    let all = begin.elapsed();
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)].as_micros();
    println!(
        "sites={sites} decisions={DECISIONS} planned={planned} proven_optimal={proven} decisions_per_s={:.0} p50_us={} p99_us={}",
        DECISIONS as f64 / all.as_secs_f64(),
        at(50),
        at(99),
    );
}
