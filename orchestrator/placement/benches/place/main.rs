//! Decisions one after the other on federations of 10, 100 and 1,000 sites, each applied before the next. Beside
//! criterion's medians it prints one line a size with percentiles, rates and the share of proved optima.

use criterion::Criterion;
use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_placement::{LinkNow, Planner, Policy, Request};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

mod workload;

use workload::{Dice, Size};

const SEED: u64 = 42;

fn main() {
    let mut criterion = Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20)
        .configure_from_args();
    let submit: Timestamp = "2026-12-01T03:17:00Z".parse().expect("a written instant is one");
    let mut policy = Policy::default();
    if let Some(nodes) = std::env::var("NODES").ok().and_then(|s| s.parse().ok()) {
        policy.node_budget = nodes;
    }
    // SITES=1000 measures one size alone, SITES=0 only what follows; ORDERS and NODES set the stream's length and the
    // budget of a search, SLOW=1 shows the slowest decisions
    let only: Option<u64> = std::env::var("SITES").ok().and_then(|s| s.parse().ok());
    for sites in [10, 100, 1_000].into_iter().filter(|s| only.is_none_or(|o| o == *s)) {
        let size = Size::of(sites);
        let view = View::from_file(&workload::federation(&size, SEED)).expect("a generated federation is sound");
        stream(&size, &view, submit, &policy);
        let orders = workload::orders(&size, 200, SEED + 1);
        let planner = Planner::new(view);
        let mut next = 0;
        criterion.bench_function(&format!("decide/{sites}"), |b| {
            b.iter(|| {
                next = (next + 1) % orders.len();
                planner.decide(&Request::new(black_box(&orders[next]), submit), &policy)
            });
        });
    }
    if only.is_none_or(|o| o == 0) {
        fold_in(submit, &policy);
        gangs(submit, &policy);
    }
    criterion.final_summary();
}

fn at(times: &mut [Duration], percent: f64) -> u128 {
    times.sort_unstable();
    let index = (times.len() as f64 * percent / 100.0) as usize;
    times.get(index.min(times.len().saturating_sub(1))).map_or(0, Duration::as_micros)
}

/// Decides and applies a stream of orders; the first fifth warms up.
fn stream(size: &Size, view: &View, submit: Timestamp, policy: &Policy) {
    let count = std::env::var("ORDERS").ok().and_then(|s| s.parse().ok()).unwrap_or((size.sites * 2).max(50));
    let warm = count / 5;
    let orders = workload::orders(size, count, SEED);
    let mut planner = Planner::new(view.clone());
    let (mut planned, mut refused) = (Vec::new(), Vec::new());
    let mut proven = 0_u64;
    let mut kinds: Vec<Vec<Duration>> = vec![Vec::new(); 4];
    let mut slow: Vec<(Duration, String)> = Vec::new();
    let (mut busy, mut decisions) = (Duration::ZERO, 0_u64);
    for (i, order) in orders.iter().enumerate() {
        let begin = Instant::now();
        let decision = planner.decide(&Request::new(order, submit), policy);
        let decided = begin.elapsed();
        if let Ok(plan) = &decision.outcome {
            planner.apply(plan, order).expect("a plan fits the view that it was made on");
        }
        if i < warm as usize {
            continue;
        }
        busy += begin.elapsed();
        decisions += 1;
        match &decision.outcome {
            Ok(plan) => {
                proven += u64::from(plan.proven_optimal);
                planned.push(decided);
            }
            Err(_) => refused.push(decided),
        }
        kinds[i % 4].push(decided);
        let what = decision.outcome.err().map_or(String::new(), |r| format!("{:?}", r[0].reason));
        slow.push((decided, format!("{} {:?} {what}", order.name, decision.stats)));
    }
    if std::env::var_os("SLOW").is_some() {
        for k in &mut kinds {
            println!("  kind p50_us={} p90_us={} p99_us={}", at(k, 50.0), at(k, 90.0), at(k, 99.0));
        }
        slow.sort();
        for (time, what) in slow.iter().rev().take(12) {
            println!("  {time:?} {what}");
        }
    }
    let mut all: Vec<Duration> = planned.iter().chain(&refused).copied().collect();
    println!(
        "sites={} decisions={decisions} planned={} refused={} proven_pct={:.2} p50_us={} p90_us={} p99_us={} p999_us={} \
         decisions_per_s={:.0} refusal_p99_us={} rss_mib={}",
        size.sites,
        planned.len(),
        refused.len(),
        proven as f64 * 100.0 / planned.len().max(1) as f64,
        at(&mut all, 50.0),
        at(&mut all, 90.0),
        at(&mut all, 99.0),
        at(&mut all, 99.9),
        decisions as f64 / busy.as_secs_f64(),
        at(&mut refused, 99.0),
        rss_mib(),
    );
}

/// One site's report and the figures of its links, folded into a planner that has decided before.
fn fold_in(submit: Timestamp, policy: &Policy) {
    let size = Size::of(1_000);
    let view = View::from_file(&workload::federation(&size, SEED)).expect("a generated federation is sound");
    let orders = workload::orders(&size, 300, SEED);
    let mut planner = Planner::new(view);
    let mut dice = Dice::new(7);
    let (mut folds, mut after) = (Vec::new(), Vec::new());
    for order in &orders {
        let site = planner.view().sites[dice.below(1_000) as usize].clone();
        let around: Vec<_> = planner
            .view()
            .graph
            .edges(site.point)
            .map(|e| {
                let l = e.weight();
                let latency = rhumb_model::Latency::from_micros(l.latency.micros() + dice.below(50));
                (l.id.clone(), LinkNow { free: l.free, latency, stale: false })
            })
            .collect();
        let begin = Instant::now();
        planner.replace_site(site);
        for (id, now) in &around {
            planner.set_link(id, *now);
        }
        folds.push(begin.elapsed());
        let begin = Instant::now();
        black_box(planner.decide(&Request::new(order, submit), policy));
        after.push(begin.elapsed());
    }
    println!(
        "fold_in_p50_us={} fold_in_p99_us={} decision_after_p50_us={} decision_after_p99_us={}",
        at(&mut folds, 50.0),
        at(&mut folds, 99.0),
        at(&mut after, 50.0),
        at(&mut after, 99.0)
    );
}

/// 512 replicas with a topology, decided and applied.
fn gangs(submit: Timestamp, policy: &Policy) {
    let size = Size::of(1_000);
    let view = View::from_file(&workload::gang_federation(&size, SEED)).expect("a generated federation is sound");
    for interconnect in ["node", "rack", "nvl_domain", "site"] {
        let order = workload::gang(512, interconnect);
        let (mut decide, mut apply, mut proven) = (Vec::new(), Vec::new(), 0);
        for _ in 0..20 {
            let mut planner = Planner::new(view.clone());
            let begin = Instant::now();
            let decision = planner.decide(&Request::new(&order, submit), policy);
            decide.push(begin.elapsed());
            let Ok(plan) = &decision.outcome else { continue };
            proven += u32::from(plan.proven_optimal);
            let begin = Instant::now();
            planner.apply(plan, &order).expect("a plan fits the view that it was made on");
            apply.push(begin.elapsed());
        }
        println!(
            "gang512 {interconnect}: decide_p50_us={} decide_max_us={} apply_p50_us={} proven={proven}/20",
            at(&mut decide, 50.0),
            at(&mut decide, 100.0),
            at(&mut apply, 50.0)
        );
    }
}

fn rss_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}
