//! `npu-smi info -t common`, `usages` and the like: blocks of `key : value`, one for each chip.

use super::table::health;
use crate::{
    accelerator::{self, Accelerator, Vendor},
    snapshot::Snapshot,
    value::{MIB, Value, bytes, celsius, count, percent, text, watts},
};

pub(super) fn values(raw: &str, shown: &mut Snapshot) -> bool {
    let (mut npu, mut chip, mut chips): (Option<u32>, Value<u32>, Value<u32>) = Default::default();
    // a block with a name and without a number is the board's own controller
    let mut skip = false;
    let mut started = false;
    for line in raw.lines() {
        let Some((key, value)) = line.split_once(" :").map(|(k, v)| (k.trim(), v.trim())) else { continue };
        if line.trim_start().starts_with(['|', '+']) {
            continue;
        }
        match key {
            "NPU ID" => {
                (npu, chip, chips) = (value.parse().ok(), Value::default(), Value::default());
                (skip, started) = (false, true);
            }
            "Chip Count" => chips = count(value),
            "Chip ID" => (chip, skip) = (count(value), false),
            "Chip Name" if chip.known().is_some() && value == "mcu" => {
                skip = true;
                shown.note(format!("chip {value:?} is no accelerator"));
            }
            _ => {}
        }
        let Some(index) = npu.filter(|_| !skip && KEYS.contains(&key)) else { continue };
        // with one chip the blocks need not say which; before any chip is named it is the card that is spoken of
        let part = if chip.known().is_none() && chips == Value::Known(1) { Value::Known(0) } else { chip.clone() };
        let row = shown.row(Accelerator { part, ..Accelerator::numbered(index, Vendor::Huawei) });
        fill(key, value, row);
    }
    mapping(raw, shown) || started
}

/// `npu-smi info -m`: a table of cards and their chips.
fn mapping(raw: &str, shown: &mut Snapshot) -> bool {
    let mut lines = raw.lines().skip_while(|l| {
        let words: Vec<&str> = l.split_whitespace().collect();
        !(words.starts_with(&["NPU", "ID", "Chip", "ID"]) && l.contains("Chip Name"))
    });
    let Some(heading) = lines.next() else { return false };
    // a number that orders do not see stands between on newer ones
    let names = heading.split("  ").filter(|h| !h.trim().is_empty()).count();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(Ok(npu)), Some(Ok(chip))) = (words.first().map(|w| w.parse()), words.get(1).map(|w| w.parse()))
        else {
            break;
        };
        let name = words.get(names - 1..).unwrap_or_default().join(" ");
        if name.eq_ignore_ascii_case("mcu") {
            continue;
        }
        let row =
            Accelerator { part: Value::Known(chip), model: text(&name), ..Accelerator::numbered(npu, Vendor::Huawei) };
        shown.row(row);
    }
    true
}

/// The keys that say something of a device.
const KEYS: [&str; 19] = [
    "HBM Capacity(MB)",
    "DDR Capacity(MB)",
    "Memory Capacity(MB)",
    "HBM Usage Rate(%)",
    "Aicore Usage Rate(%)",
    "Temperature(C)",
    "Temperature (C)",
    "NPU Real-time Power(W)",
    "Real-time Power(W)",
    "Power Dissipation(W)",
    "Health",
    "Health Status",
    "PCIe Bus Info",
    "Bus Id",
    "BDF",
    "Serial Number",
    "Chip Name",
    "Chip Type",
    "NPU Name",
];

fn fill(key: &str, value: &str, row: &mut Accelerator) {
    match key {
        "HBM Capacity(MB)" => row.memory_bytes = bytes(value, MIB),
        // chips without HBM
        "DDR Capacity(MB)" | "Memory Capacity(MB)" if value != "0" && row.memory_bytes.is_not_shown() => {
            row.memory_bytes = bytes(value, MIB);
        }
        "HBM Usage Rate(%)" => row.memory_used_pct = percent(value),
        "Aicore Usage Rate(%)" => row.utilisation_pct = percent(value),
        "Temperature(C)" | "Temperature (C)" => row.temperature_mc = celsius(value),
        "NPU Real-time Power(W)" | "Real-time Power(W)" | "Power Dissipation(W)" => row.power_mw = watts(value),
        "Health" | "Health Status" => row.condition = health(value),
        "PCIe Bus Info" | "Bus Id" | "BDF" => row.pci = accelerator::pci(value),
        "Serial Number" => row.serial = text(value),
        "Chip Name" | "Chip Type" | "NPU Name" if row.model.is_not_shown() => row.model = text(value),
        _ => {}
    }
}
