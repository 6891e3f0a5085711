//! What orders leave behind: nothing.

use crate::{Demo, wait_until};
use serde_json::Value;
use std::time::Duration;

/// Items of a list.
pub fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map_or(&[], Vec::as_slice)
}

/// Every invariant holds.
///
/// # Panics
/// Where one does not.
pub fn audit_is_clean(demo: &Demo) {
    let audit = demo.cli.run(&["audit"]);
    assert_eq!((audit.code, &audit.json["clean"]), (0, &Value::Bool(true)), "{}{}", audit.stdout, audit.stderr);
}

/// Devices, cores, memory and link capacity that are held, routes that exist, processes that work.
pub fn held(demo: &Demo) -> Vec<String> {
    let mut found = Vec::new();
    for site in items(&demo.cli.ok(&["site", "list"])) {
        for node in site["nodes"].as_array().into_iter().flatten() {
            for device in node["devices"].as_array().into_iter().flatten().filter(|d| !d["order"].is_null()) {
                found.push(format!(
                    "device {} of {} at {} is held by {}",
                    device["index"], node["name"], site["name"], device["order"]
                ));
            }
            for (total, free) in [("cpu_milli_total", "cpu_milli_free"), ("memory_bytes_total", "memory_bytes_free")] {
                if node[total] != node[free] {
                    found.push(format!(
                        "{} of {} at {}: {} of {}",
                        free, node["name"], site["name"], node[free], node[total]
                    ));
                }
            }
        }
    }
    for link in items(&demo.cli.ok(&["link", "list"])).iter().filter(|l| l["reserved_kbps"] != 0) {
        found.push(format!("link {} has {} kbps reserved", link["id"], link["reserved_kbps"]));
    }
    for route in items(&demo.cli.ok(&["route", "list"])) {
        found.push(format!("route of {} over {}", route["order"], route["path"]));
    }
    for process in demo.processes().iter().filter(|p| p.environment.contains_key("RHUMB_ORDER")) {
        found.push(format!("process {} works: {}", process.pid, process.command));
    }
    found
}

/// Waits until nothing of any order is left, and every invariant holds.
pub fn nothing_is_left(demo: &Demo, limit: Duration) {
    wait_until(limit, "nothing is left of any order", || match held(demo) {
        found if found.is_empty() => Ok(()),
        found => Err(found.join("; ")),
    });
    audit_is_clean(demo);
}
