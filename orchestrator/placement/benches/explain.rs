//! Whole decisions with all that is said beside them, on fleets of 10, 100 and 1,000 sites of which part is taken: refusals
//! of every kind with the reasons of all sites and what would help, gangs of 512, and plans with the verdict of every site.
//! For each it prints the time that this thread ran, where the system tells it, and the median of the time that passed, of
//! the decision alone and of the whole. Words on the command line pick kinds, a number alone a size.

use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::Order;
use rhumb_placement::{Decision, Planner, Policy, Request, generate::workload, measure};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

const SEED: u64 = 42;
/// Decisions by which a view is partly taken, for each ten sites.
const TAKEN: u32 = 2;
/// Everything is repeated for so long.
const ENOUGH: Duration = Duration::from_millis(100);
/// Plans that are explained.
const PLANS: usize = 20;

const FLOWS: &str = "{from: dataset/data-003, to: feeder, volume: 200GB}, {from: feeder, to: trainer, rate: 500Mbps, max_latency: 60ms}, {from: trainer, to: trainer, rate: 1Gbps, max_latency: 30ms}";

/// A trainer with its feeder.
fn two(flows: &str, rest: &str) -> String {
    format!(
        "{{name: two, class: training, components: [
          {{name: trainer, replicas: 2, need: {{accelerators: {{count: 4, models: [H100, A100], interconnect: nvlink}}, cpu: 16, memory: 128GiB}}, work: {{hours: 4, reference: H100}}}},
          {{name: feeder, need: {{cpu: 16, memory: 32GiB}}, work: {{duration: 4h}}}}],
        flows: [{flows}], {rest}}}"
    )
}

/// A server near its users with a cache.
fn service(near: &str) -> String {
    format!(
        "{{name: service, class: inference, components: [
          {{name: server, replicas: {{min: 1, max: 4}}, need: {{accelerators: {{count: 1}}, cpu: 8}}, service: {{serves: 10rps, port: 8000}}}},
          {{name: cache, need: {{cpu: 4, memory: 16GiB}}, service: {{serves: 100rps, port: 8001}}}}],
        flows: [{{from: region/users-003, to: server, demand: 15rps, rate: 40Mbps, max_latency: {near}}},
          {{from: region/users-003, to: cache, demand: 50rps, rate: 10Mbps, max_latency: 60ms}}, {{from: server, to: cache, rate: 100Mbps, max_latency: 20ms}}]}}"
    )
}

fn gang(replicas: u32, interconnect: &str, flows: &str) -> String {
    format!(
        "{{name: gang, class: training, components: [
          {{name: trainer, replicas: {replicas}, gang: true, need: {{accelerators: {{count: 1, interconnect: {interconnect}}}, cpu: 1, memory: 4GiB}}, work: {{duration: 1h}}}}],
        flows: [{flows}]}}"
    )
}

/// Orders by what stands in their way.
fn asked() -> Vec<(&'static str, Order)> {
    let plain = two(FLOWS, "constraints: {}");
    let own = |rate: &str, near: &str| format!("{{from: trainer, to: trainer, rate: {rate}, max_latency: {near}}}");
    let all = [
        ("residency", two(FLOWS, "constraints: {jurisdictions: [XX]}")),
        ("label", two(FLOWS, "constraints: {labels: [secret]}")),
        ("capacity", plain.replace("replicas: 2", "replicas: 10000")),
        ("shape", plain.replace("count: 4", "count: 64")),
        ("model", plain.replace("[H100, A100]", "[B200]")),
        ("latency", service("3ms")),
        (
            "bandwidth",
            two(&FLOWS.replace("500Mbps", "200Gbps"), "constraints: {max_sites: 3}")
                .replace("replicas: 2", "replicas: 2, place: {spread: site}"),
        ),
        (
            "between",
            two(&FLOWS.replace("1Gbps", "80Gbps"), "constraints: {max_sites: 3}")
                .replace("replicas: 2", "replicas: 2, place: {spread: site}"),
        ),
        (
            "encryption",
            two(
                &FLOWS.replace("volume: 200GB", "volume: 200GB, encrypted: true, max_latency: 2ms"),
                "constraints: {labels: [gov-cloud]}",
            ),
        ),
        ("deadline", two(FLOWS, "terms: {deadline: '2026-12-01T06:17:00Z'}")),
        ("budget", two(FLOWS, "terms: {budget: 10 CNY}")),
        ("window", two(FLOWS, "terms: {window: {from: '02:00', to: '03:30', tz: Asia/Shanghai}}")),
        ("gang-site", gang(512, "site", "")),
        ("gang-domain", gang(512, "nvl_domain", "")),
        ("gang-rack", gang(512, "rack", "")),
        ("gang-sites", gang(512, "node", &own("1Gbps", "30ms"))),
        ("gang-near", gang(512, "node", &own("1Gbps", "1ms"))),
        ("gang-wide", gang(512, "node", &own("90Gbps", "30ms"))),
        ("gang-huge", gang(10_000, "node", &own("1Gbps", "5ms"))),
    ];
    all.into_iter().map(|(name, text)| (name, Order::read(&text).expect("a written order is one"))).collect()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let (sizes, kinds): (Vec<&String>, Vec<&String>) = words.iter().partition(|w| w.parse::<u32>().is_ok());
    let wanted = |name: &str| kinds.is_empty() || kinds.iter().any(|k| name.contains(k.as_str()));
    let policy = Policy::default();
    let submit = workload::instant();
    for sites in [10, 100, 1_000] {
        if !sizes.is_empty() && !sizes.iter().any(|s| **s == sites.to_string()) {
            continue;
        }
        let (planner, orders) = taken(sites, submit, &policy);
        for (kind, order) in asked() {
            if wanted(kind) {
                report(&format!("{sites}/{kind}"), &planner, &Request::new(&order, submit), &policy);
            }
        }
        for order in measure::gangs(planner.view()) {
            let name = order.name.to_string();
            if wanted(&name) {
                report(&format!("{sites}/{name}"), &planner, &Request::new(&order, submit), &policy);
            }
        }
        if wanted("workload") {
            for order in &orders {
                let request = Request::new(order, submit);
                if planner.decide(&request, &policy).outcome.is_err() {
                    report(&format!("{sites}/workload-{}", order.name), &planner, &request, &policy);
                }
            }
        }
        if wanted("plan") {
            for order in orders.iter().take(PLANS) {
                report(&format!("{sites}/plan-{}", order.name), &planner, &Request::new(order, submit), &policy);
            }
        }
    }
}

/// A fleet partly taken, and further orders for it.
fn taken(sites: u32, submit: Timestamp, policy: &Policy) -> (Planner, Vec<Order>) {
    let file = workload::federation(workload::size(sites), SEED);
    let mut planner = Planner::new(View::from_file(&file).expect("a generated federation is sound"));
    let before = sites * TAKEN / 10;
    let mut orders = workload::orders(&file, before + 200, SEED);
    for order in orders.drain(..before as usize) {
        if let Ok(plan) = planner.decide(&Request::new(&order, submit), policy).outcome {
            planner.apply(&plan, &order).expect("a plan fits the view that it was made on");
        }
    }
    (planner, orders)
}

fn report(name: &str, planner: &Planner, request: &Request, policy: &Policy) {
    let (decide, _) = times(|| planner.decide(request, policy));
    let (place, decision) = times(|| planner.place(request, policy));
    let said = match &decision.outcome {
        Ok(_) => "plan".to_owned(),
        Err(reasons) => {
            let named: Vec<&str> = reasons.iter().map(|r| r.reason.as_str()).collect();
            let changes: Vec<String> =
                decision.would_fit_if.iter().map(|c| format!("{} {} -> {}", c.pointer, c.from, c.to)).collect();
            format!("{}; {}", named.join(","), changes.join("; "))
        }
    };
    println!(
        "{name}: decide cpu_us={} p50_us={} place cpu_us={} p50_us={} {said}",
        decide.0, decide.1, place.0, place.1
    );
}

/// Mean time that this thread ran, and the median of the time that passed, in microseconds.
fn times(mut run: impl FnMut() -> Decision) -> ((u128, u128), Decision) {
    let mut times = Vec::new();
    let (all, begun) = (Instant::now(), ran_us());
    loop {
        let begin = Instant::now();
        let decision = black_box(run());
        times.push(begin.elapsed().as_micros());
        if all.elapsed() > ENOUGH {
            times.sort_unstable();
            let median = times[times.len() / 2];
            let mean = begun.zip(ran_us()).map_or(median, |(before, now)| (now - before) / times.len() as u128);
            return ((mean, median), decision);
        }
    }
}

/// Microseconds that this thread has run, as Linux keeps count: in steps of milliseconds.
fn ran_us() -> Option<u128> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split_whitespace().next()?.parse::<u128>().ok()? / 1_000)
}
