//! Where the time of decisions goes: one line for each decision of the workload, each applied before the next, slowest last.
//! Times are of this thread's processor, so that others on the machine do not count.
//!
//! `cargo bench -p rhumb-placement --bench decisions -- [SITES [ORDERS [SEED]]]`

use rhumb_federation::View;
use rhumb_model::Order;
use rhumb_placement::{Planner, Policy, Request, generate::workload};
use rustix::time::{ClockId, clock_gettime};

fn main() {
    let numbers: Vec<u32> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let of = |index: usize, default: u32| numbers.get(index).copied().unwrap_or(default);
    let (sites, count, seed) = (of(0, 1_000), of(1, 1_000), u64::from(of(2, 42)));
    let file = workload::federation(workload::size(sites), seed);
    let view = View::from_file(&file).expect("a generated federation is sound");
    let orders = workload::orders(&file, count, seed);
    let policy = Policy::default();
    let mut planner = Planner::new(view);
    let mut lines = Vec::with_capacity(orders.len());
    let (mut all, mut proven, mut planned) = (0, 0, 0);
    for order in &orders {
        let begin = spent();
        let decision = planner.decide(&Request::new(order, workload::instant()), &policy);
        let took = spent() - begin;
        let mut applied = 0;
        let ended = match &decision.outcome {
            Ok(plan) => {
                planned += 1;
                proven += u32::from(plan.proven_optimal);
                let begin = spent();
                planner.apply(plan, order).expect("a plan fits the view that it was made on");
                applied = spent() - begin;
                let sites: Vec<String> = plan
                    .components
                    .iter()
                    .map(|c| {
                        let at = c.assignments.iter().map(|a| format!("{}x{}", a.site, a.replicas));
                        at.collect::<Vec<_>>().join("+")
                    })
                    .collect();
                format!("total={} gap_ppm={} {}", plan.cost.total_micros, plan.gap_ppm, sites.join("/"))
            }
            Err(reasons) => format!("refused {:?}", reasons.first().map(|r| r.reason)),
        };
        all += took + applied;
        let stats = decision.stats;
        lines.push((
            took,
            format!(
                "{took:>9} us apply {applied:>6} us {:>6} nodes {} {} {ended}",
                stats.nodes,
                order.name,
                kind(order)
            ),
        ));
    }
    let mut times: Vec<u128> = lines.iter().map(|(took, _)| *took).collect();
    times.sort_unstable();
    lines.sort();
    for (_, line) in &lines {
        println!("{line}");
    }
    let at = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
    println!(
        "sites={sites} decisions={} planned={planned} proven={proven} p50_us={} p90_us={} p99_us={} max_us={} per_s={:.0}",
        times.len(),
        at(50),
        at(90),
        at(99),
        at(100),
        times.len() as f64 * 1e6 / all as f64,
    );
}

/// Microseconds of processor time.
fn spent() -> u128 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u128 * 1_000_000 + now.tv_nsec as u128 / 1_000
}

/// What makes an order easy or hard: its class, replicas, and of each flow how it is bound.
fn kind(order: &Order) -> String {
    let replicas: Vec<String> = order.components.iter().map(|c| format!("{:?}", c.replicas)).collect();
    let flows: Vec<String> = order
        .flows
        .iter()
        .map(|f| {
            let marks = [
                (f.volume.is_some(), "v"),
                (f.rate.is_some(), "r"),
                (f.demand.is_some(), "d"),
                (f.max_latency.is_some(), "L"),
            ];
            marks.iter().filter(|(on, _)| *on).map(|(_, mark)| *mark).collect()
        })
        .collect();
    let limits = &order.constraints;
    format!(
        "{:?} [{}] {} within={} encrypted={} max_sites={:?} deadline={} budget={}",
        order.class,
        replicas.join(","),
        flows.join(","),
        limits.jurisdictions.len(),
        limits.encrypted,
        limits.max_sites,
        order.terms.deadline.is_some(),
        order.terms.budget.is_some(),
    )
}
