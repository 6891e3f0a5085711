//! Faults that others met and reported, on the inputs that they gave.

use rhumb_devices::{Accelerator, Catalogue, Snapshot, Value, Why, inventory, inventory::mean_utilisation_pct};
use rhumb_model::site::Health;

/// dcgm-exporter: a mark of no value was shown as a use of 9.2e18 percent, and a card in slices as idle.
#[test]
fn a_use_that_is_not_known_is_neither_huge_nor_nothing() {
    let Some(case) = public_data::case("H-O19") else { return };
    let mut csv = "index, name, utilization.gpu [%]\n".to_owned();
    for report in case["reports"].as_array().unwrap() {
        let supported = report["supported"].as_bool().unwrap_or(true);
        let shown = if supported { report["util_pct"].to_string() } else { "[N/A]".into() };
        csv += &[&report["gpu"].to_string(), ", NVIDIA A100-SXM4-40GB, ", &shown, "\n"].concat();
    }
    let read = rhumb_devices::read(csv.as_bytes()).unwrap().together();
    let known: Vec<Option<u8>> = read.accelerators.iter().map(|a| a.utilisation_pct.known().copied()).collect();
    assert_eq!(known, [None, None, None, Some(37)]);
    assert_eq!(mean_utilisation_pct(&read), (Some(37), 1));
    let seen = inventory(&read, &Catalogue::built_in());
    let unknown: Vec<u32> = seen.unknown.iter().filter(|u| u.value == "utilisation").map(|u| u.device).collect();
    assert_eq!(unknown, [0, 1, 2]);
}

/// dra-driver-nvidia-gpu: one query that one card does not support stopped the whole agent.
#[test]
fn a_card_whose_memory_cannot_be_asked_is_reported_with_the_others() {
    let Some(case) = public_data::case("H-S02") else { return };
    let card = |gpu: &serde_json::Value| Accelerator {
        index: Value::Known(gpu["id"].as_u64().unwrap() as u32),
        temperature_mc: Value::Known(40_000),
        memory_bytes: match gpu["mem"].as_str() {
            Some("ok") => Value::Known(80 << 30),
            other => Value::Unknown(Why::Failed { call: "memory".into(), error: other.unwrap_or("").to_owned() }),
        },
        ..Accelerator::default()
    };
    let accelerators: Vec<Accelerator> = case["gpus"].as_array().unwrap().iter().map(card).collect();
    let seen = inventory(&Snapshot { accelerators, ..Snapshot::default() }, &Catalogue::built_in());
    assert!(seen.devices.iter().all(|d| d.health == Health::Ok));
    assert_eq!(seen.devices.len(), 2);
    let unknown: Vec<(u32, &str)> =
        seen.unknown.iter().filter(|u| u.value == "memory").map(|u| (u.device, u.why.as_str())).collect();
    assert_eq!(unknown, [(1, "memory: NotSupported")]);
}
