//! Whole decisions with all that is said beside them, on 1,000 sites, 3,000 links and 100,000 accelerators of which part
//! is taken: refusals of several kinds with the reasons of all sites and what would help, and plans with the verdict of
//! every site. Beside criterion's own figures it prints, by kind, the median and the most that one took.

use criterion::Criterion;
use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::Order;
use rhumb_placement::{
    Planner, Policy, Request,
    generate::{self, Size},
};
use std::{hint::black_box, time::Duration, time::Instant};

const SEED: u64 = 42;
const SITES: u32 = 1_000;
const SIZE: Size = Size { sites: SITES, links: 3_000, accelerators: 100_000 };
/// Decisions by which the view is partly taken.
const TAKEN: u32 = 200;
const TIMES: usize = 5;

/// No devices are as near to these users.
const SERVICE: &str = "{name: latency, class: inference, components: [
  {name: server, replicas: {min: 1, max: 4}, need: {accelerators: {count: 1, models: [H100, A100]}, cpu: 8}, service: {serves: 10rps, port: 8000}},
  {name: cache, need: {cpu: 4, memory: 16GiB}, service: {serves: 100rps, port: 8001}}],
flows: [{from: region/users-003, to: server, demand: 15rps, rate: 40Mbps, max_latency: 5ms},
  {from: region/users-003, to: cache, demand: 50rps, rate: 10Mbps, max_latency: 30ms}, {from: server, to: cache, rate: 100Mbps, max_latency: 20ms}]}";

/// Orders that the view refuses, by what stands in the way.
fn refused() -> Vec<(&'static str, Order)> {
    let two = |what: &str, flows: &str, rest: &str| {
        let text = format!(
            "{{name: {what}, class: training, components: [
              {{name: trainer, replicas: 2, need: {{accelerators: {{count: 8, models: [H100], interconnect: nvlink}}, cpu: 16, memory: 128GiB}}, work: {{hours: 4, reference: H100}}}},
              {{name: feeder, need: {{cpu: 16, memory: 32GiB}}, work: {{duration: 4h}}}}],
            flows: [{flows}], {rest}}}"
        );
        (what.to_owned(), text)
    };
    let flows = "{from: dataset/data-003, to: feeder, volume: 200GB}, {from: feeder, to: trainer, rate: 500Mbps, max_latency: 60ms}, {from: trainer, to: trainer, rate: 1Gbps, max_latency: 30ms}";
    let all = [
        two("shape", flows, "constraints: {}").1.replace("count: 8", "count: 16"),
        two("model", flows, "constraints: {}").1.replace("[H100]", "[B200]"),
        SERVICE.to_owned(),
        two("bandwidth", &flows.replace("500Mbps", "200Gbps"), "constraints: {max_sites: 3}")
            .1
            .replace("replicas: 2", "replicas: 2, place: {spread: site}"),
        two("budget", flows, "terms: {budget: 10 CNY}").1,
        two("deadline", flows, "terms: {deadline: '2026-12-01T06:17:00Z'}").1,
        two("residency", flows, "constraints: {jurisdictions: [XX]}").1,
        two("label", flows, "constraints: {labels: [secret]}").1,
        two(
            "encryption",
            &flows.replace("volume: 200GB", "volume: 200GB, encrypted: true, max_latency: 2ms"),
            "constraints: {labels: [gov-cloud]}",
        )
        .1,
    ];
    let names = ["shape", "model", "latency", "bandwidth", "budget", "deadline", "residency", "label", "encryption"];
    names.into_iter().zip(all).map(|(name, text)| (name, Order::read(&text).expect("a written order is one"))).collect()
}

fn main() {
    let mut criterion = Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .sample_size(10)
        .configure_from_args();
    let submit: Timestamp = "2026-12-01T03:17:00Z".parse().expect("a written instant is one");
    let policy = Policy::default();
    let planner = taken(submit, &policy);
    // a name on the command line keeps the rest out
    let only = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let wanted = |name: &str| only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    for (kind, order) in refused() {
        if !wanted(&format!("refusal/{kind}")) {
            continue;
        }
        let request = Request::new(&order, submit);
        let decision = planner.place(&request, &policy);
        let Err(reasons) = &decision.outcome else {
            println!("refusal/{kind}: there is a plan");
            continue;
        };
        let named: Vec<&str> = reasons.iter().map(|r| r.reason.as_str()).collect();
        let changes: Vec<String> =
            decision.would_fit_if.iter().map(|c| format!("{} {} -> {}", c.pointer, c.from, c.to)).collect();
        println!("refusal/{kind}: {} sites={} {changes:?}", named.join(","), decision.sites.len());
        report(&format!("decide/{kind}"), || drop(black_box(planner.decide(&request, &policy))));
        report(&format!("refusal/{kind}"), || drop(black_box(planner.place(&request, &policy))));
        criterion
            .bench_function(&format!("refusal/{kind}"), |b| b.iter(|| planner.place(black_box(&request), &policy)));
    }
    let orders = generate::orders(SITES, 200, SEED + 1);
    for kind in (0..5).filter(|kind| wanted(&format!("plan/{kind}"))) {
        let mut turn = orders.iter().skip(kind).step_by(5).cycle();
        report(&format!("plan/{kind}"), || {
            let order = turn.next().expect("the orders come round again");
            let request = Request::new(order, submit);
            drop(black_box(planner.place(&request, &policy)));
        });
    }
    criterion.final_summary();
}

fn taken(submit: Timestamp, policy: &Policy) -> Planner {
    let file = generate::federation(SIZE, SEED);
    let mut planner = Planner::new(View::from_file(&file).expect("a generated federation is sound"));
    for order in generate::orders(SITES, TAKEN, SEED) {
        if let Ok(plan) = planner.decide(&Request::new(&order, submit), policy).outcome {
            planner.apply(&plan, &order).expect("a plan fits the view that it was made on");
        }
    }
    planner
}

fn report(name: &str, mut run: impl FnMut()) {
    let mut times: Vec<Duration> = (0..TIMES)
        .map(|_| {
            let begin = Instant::now();
            run();
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("{name}: p50_us={} max_us={}", times[TIMES / 2].as_micros(), times[TIMES - 1].as_micros());
}
