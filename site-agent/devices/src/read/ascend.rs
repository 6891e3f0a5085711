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
        let Some(index) = npu.filter(|_| !skip) else { continue };
        // with one chip the blocks need not say which
        let part = if chip.known().is_none() && chips == Value::Known(1) { Value::Known(0) } else { chip.clone() };
        if part.known().is_none() {
            continue;
        }
        let row = shown.row(Accelerator { part, ..Accelerator::numbered(index, Vendor::Huawei) });
        fill(key, value, row);
    }
    started
}

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
        "Chip Name" | "Chip Type" | "Name" if row.model.is_not_shown() => row.model = text(value),
        _ => {}
    }
}
