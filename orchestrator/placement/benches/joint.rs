//! Joint batches, one by one: cost, bound, and milliseconds (median of five). `cargo bench -p rhumb-placement --bench joint`;
//! `JOINT_FILE` names a file of instances (plain or gzip), by default the 24 of the data folder. Then batches of orders on
//! generated federations, beside what they cost when placed one after the other.

use rhumb_federation::View;
use rhumb_placement::{
    Policy, Request, apply,
    batch::{
        instance,
        solve::{Budget, answer_json, solve},
    },
    decide,
    generate::{self, Size},
    place_batch,
};
use std::{
    env, fs,
    path::PathBuf,
    time::{Duration, Instant},
};

const RUNS: usize = 5;

fn main() {
    instances();
    for (sites, accelerators, orders) in [(10, 160, 10), (10, 160, 30), (100, 1_600, 30)] {
        batch(sites, accelerators, orders);
    }
}

fn batch(sites: u32, accelerators: u32, count: u32) {
    let size = Size { accelerators, ..Size::of(sites) };
    let view = View::from_file(&generate::federation(size, 42)).expect("a generated federation is sound");
    let orders = generate::orders(sites, count, 42);
    let submit = "2026-12-01T03:17:00Z".parse().expect("a written instant is one");
    let requests: Vec<Request> = orders.iter().map(|o| Request::new(o, submit)).collect();
    let policy = Policy::default();
    let mut left = view.clone();
    let (mut placed, mut total) = (0, 0_i64);
    for request in &requests {
        if let Ok(plan) = decide(&left, request, &policy).outcome {
            left = apply(&left, &plan, request.order).expect("a plan fits");
            placed += 1;
            total += plan.cost.total_micros;
        }
    }
    println!("sites={sites} orders={count} one after the other: placed={placed} total_micros={total}");
    let begun = Instant::now();
    let batch = place_batch(&view, &requests, &policy);
    println!(
        "sites={sites} orders={count} batch: placed={} total_micros={} lower_bound_micros={} gap_ppm={} ms={:.0}",
        batch.decisions.iter().filter(|d| d.plan().is_some()).count(),
        batch.total_micros,
        batch.lower_bound_micros,
        batch.gap_ppm,
        begun.elapsed().as_secs_f64() * 1e3,
    );
}

fn instances() {
    let (folder, file) = if let Some(file) = env::var_os("JOINT_FILE") {
        (PathBuf::new(), file.to_string_lossy().into_owned())
    } else {
        let Some(folder) = public_data::folder("facility") else { return };
        (folder, "joint_small.json".to_owned())
    };
    let text = public_data::text(&folder, &file);
    let text = text.expect("the file can be read").expect("the file is there");
    let number = |key: &str| env::var(key).ok().and_then(|v| v.parse::<u64>().ok());
    let default = Budget::default();
    let budget = Budget {
        rounds: number("JOINT_ROUNDS").map_or(default.rounds, |r| r as u32),
        work: number("JOINT_WORK").unwrap_or(default.work),
        seed: number("JOINT_SEED").unwrap_or(default.seed),
    };
    let mut answers = Vec::new();
    for instance in instance::read(&text).expect("the instances are sound") {
        let mut times: Vec<Duration> = Vec::new();
        let mut last = None;
        for _ in 0..RUNS {
            let begun = Instant::now();
            last = Some(solve(&instance, &budget).expect("the instance is in range"));
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        let Some(answer) = last else { return };
        let (total, bound) = (answer.total.0 as f64, answer.lower_bound.0 as f64);
        println!(
            "{:<24} total={} bound={} gap={:.4}% nodes={} p50_ms={:.1}",
            answer.name,
            answer.total,
            answer.lower_bound,
            if total > 0.0 { (total - bound) / total * 100.0 } else { 0.0 },
            answer.nodes,
            times[RUNS / 2].as_secs_f64() * 1e3,
        );
        answers.push(answer_json(&answer, times[RUNS / 2].as_secs_f64() * 1e3));
    }
    if let Some(out) = env::var_os("JOINT_OUT") {
        fs::write(out, serde_json::Value::Array(answers).to_string()).expect("the file can be written");
    }
}
