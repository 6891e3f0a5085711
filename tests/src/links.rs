//! Links as they are measured, beside what they are meant to be.

use crate::{
    Demo,
    orders::{int, text},
    remains::items,
    secs, wait_until,
};
use serde_json::Value;

/// Within 10 % and 1 ms of what it should be.
pub fn near(measured_us: i64, expected_us: i64) -> bool {
    (measured_us - expected_us).abs() <= expected_us / 10 + 1_000
}

pub fn all(demo: &Demo) -> Vec<Value> {
    items(&demo.cli.ok(&["link", "list"])).to_vec()
}

pub fn one(demo: &Demo, id: &str) -> Value {
    demo.cli.ok(&["link", "get", id])
}

/// Links without a fresh figure near the configured one.
pub fn astray(links: &[Value]) -> Vec<String> {
    let right = |l: &Value| {
        let measured = l["latency_us"].as_i64().filter(|_| l["stale"] == false && l["estimated"] == false);
        measured.is_some_and(|us| near(us, int(&l["configured_latency_us"])))
    };
    let said = |l: &Value| format!("{}: {} of {}", text(&l["id"]), l["latency_us"], l["configured_latency_us"]);
    links.iter().filter(|l| !right(l)).map(said).collect()
}

/// Waits until decisions see the network as it is meant to be, in every link's p95: on a machine that was busy a moment
/// ago, answers to probes came late.
pub fn settle(demo: &Demo) {
    wait_until(secs(90), "every link's held p95 is near the configured figure", || {
        let right = |l: &Value| {
            let p95 = l["held_rtt_us"]["p95"].as_i64().filter(|_| l["stale"] == false);
            p95.is_some_and(|us| near(us / 2, int(&l["configured_latency_us"])))
        };
        let links = all(demo);
        let wrong: Vec<_> =
            links.iter().filter(|l| !right(l)).map(|l| format!("{}: {}", text(&l["id"]), l["held_rtt_us"])).collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    });
}
