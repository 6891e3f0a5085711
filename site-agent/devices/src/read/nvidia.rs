//! `nvidia-smi -q`, as XML (DTD v10 to v13) and as text.

use super::tree::Branch;
use crate::{
    accelerator::{self, Accelerator, Condition, Ecc, Job, PciId, Pcie, Slice, Vendor, hex, mig_mode},
    snapshot::Snapshot,
    value::{MIB, Value, Why, bytes, celsius, count, parsed, percent, short, text, watts},
};

pub(super) fn xml(document: &roxmltree::Document<'_>) -> Snapshot {
    let root = document.root_element();
    let mut shown = Snapshot::default();
    head(&Branch::of_xml(root), &mut shown);
    for gpu in root.children().filter(|n| n.has_tag_name("gpu")) {
        let device = device(&Branch::of_xml(gpu), gpu.attribute("id").unwrap_or_default());
        shown.accelerators.push(device);
    }
    number(&mut shown);
    shown
}

pub(super) fn query(text: &str, shown: &mut Snapshot) -> bool {
    lost(text, shown);
    if !text.contains("NVSMI LOG") && !text.lines().any(|l| l.starts_with("Attached GPUs") && l.contains(" :")) {
        return false;
    }
    let is_gpu = |line: &&str| {
        line.strip_prefix("GPU ").is_some_and(|rest| rest.trim().parse::<accelerator::PciAddress>().is_ok())
    };
    // a table of another maker begins with the same line
    if !text.lines().any(|l| is_gpu(&l)) && !text.contains("NVSMI LOG") {
        return false;
    }
    let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with("===")).collect();
    let starts: Vec<usize> = (0..lines.len()).filter(|i| is_gpu(&lines[*i])).collect();
    head(&Branch::of_lines(lines[..starts.first().copied().unwrap_or(lines.len())].iter().copied()), shown);
    for (i, &start) in starts.iter().enumerate() {
        let end = starts.get(i + 1).copied().unwrap_or(lines.len());
        let body = Branch::of_lines(lines[start + 1..end].iter().copied());
        shown.accelerators.push(device(&body, lines[start].trim_start_matches("GPU ")));
    }
    number(shown);
    true
}

/// Cards of which the tool can only say that they do not answer.
fn lost(text: &str, shown: &mut Snapshot) {
    for line in text.lines().filter(|l| l.starts_with("Unable to determine the device handle for GPU")) {
        shown.note(line);
        let rest = line.trim_start_matches("Unable to determine the device handle for GPU").trim_start();
        let Some((address, why)) = rest.split_once(": ") else { continue };
        let row = Accelerator {
            vendor: Value::Known(Vendor::Nvidia),
            pci: accelerator::pci(address),
            condition: Value::Known(Condition::Failed),
            model: Value::Unknown(Why::Said(short(why))),
            memory_bytes: Value::Unknown(Why::Said(short(why))),
            ..Accelerator::default()
        };
        if row.pci.known().is_some() {
            shown.accelerators.push(row);
        }
    }
}

/// The log lists cards in the order of their numbers, so a complete one numbers them.
fn number(shown: &mut Snapshot) {
    let listed = shown.accelerators.len();
    let complete = shown.attached.known().is_none_or(|n| *n as usize == listed);
    for (i, device) in shown.accelerators.iter_mut().enumerate() {
        device.index = if complete {
            Value::Known(i as u32)
        } else {
            Value::Unknown(Why::Unsettled("the log does not list every card".into()))
        };
    }
}

fn head(root: &Branch, shown: &mut Snapshot) {
    // new drivers announce the end of a key in its value
    let bare = |raw: &str| text(raw.split(" [").next().unwrap_or_default());
    shown.driver = bare(root.value(&["kmd_version", "driver_version"]));
    shown.runtime = bare(root.value(&["cuda_umd_version", "cuda_version"])).map(|v| format!("CUDA {v}"));
    shown.attached = count(root.value(&["attached_gpus"]));
}

fn device(gpu: &Branch, bus: &str) -> Accelerator {
    let power = ["gpu_power_readings", "power_readings"].map(|p| gpu.branch(p));
    let power = |keys: &[&str]| {
        power.iter().flatten().fold(Value::default(), |value: Value<u64>, readings| {
            keys.iter().fold(value, |value, key| value.or(watts(readings.value(&[*key]))))
        })
    };
    let lanes = |raw: &str| parsed(raw, |t| t.trim_end_matches('x').parse().ok());
    let ecc = Ecc { corrected: errors(gpu, true), uncorrected: errors(gpu, false) };
    Accelerator {
        vendor: Value::Known(Vendor::Nvidia),
        model: text(gpu.value(&["product_name"])),
        uuid: text(gpu.value(&["uuid", "gpu_uuid"])),
        serial: text(gpu.value(&["serial", "serial_number"])),
        minor: count(gpu.value(&["minor_number"])),
        pci: accelerator::pci(bus).or(accelerator::pci(gpu.value(&["pci/pci_bus_id", "pci/bus_id"]))),
        pci_id: parsed(gpu.value(&["pci/pci_device_id", "pci/device_id"]), pci_id),
        pcie: Pcie {
            generation: count(gpu.value(&[
                "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
                "pci/gpu_link_info/pcie_generation/current",
            ])),
            generation_max: count(
                gpu.value(&["pci/pci_gpu_link_info/pcie_gen/max_link_gen", "pci/gpu_link_info/pcie_generation/max"]),
            ),
            lanes: lanes(gpu.value(&[
                "pci/pci_gpu_link_info/link_widths/current_link_width",
                "pci/gpu_link_info/link_width/current",
            ])),
            lanes_max: lanes(
                gpu.value(&["pci/pci_gpu_link_info/link_widths/max_link_width", "pci/gpu_link_info/link_width/max"]),
            ),
        },
        memory_bytes: bytes(gpu.value(&["fb_memory_usage/total"]), MIB),
        memory_used_bytes: bytes(gpu.value(&["fb_memory_usage/used"]), MIB),
        utilisation_pct: percent(gpu.value(&["utilization/gpu_util", "utilization/gpu"])),
        power_mw: power(&["power_draw", "average_power_draw", "instant_power_draw", "instantaneous_power_draw"]),
        power_limit_mw: power(&["enforced_power_limit", "current_power_limit", "power_limit"]),
        temperature_mc: celsius(gpu.value(&["temperature/gpu_temp", "temperature/gpu_current_temp"])),
        memory_temperature_mc: celsius(gpu.value(&["temperature/memory_temp", "temperature/memory_current_temp"])),
        condition: condition(gpu, &ecc),
        ecc,
        mig: mig_mode(gpu.value(&["mig_mode/current_mig", "mig_mode/current"])),
        slices: slices(gpu),
        jobs: jobs(gpu),
        ..Accelerator::default()
    }
}

/// `233010DE`: device, then vendor.
pub(super) fn pci_id(raw: &str) -> Option<PciId> {
    let both = hex(raw)?;
    Some(PciId { vendor: both as u16, device: (both >> 16) as u16 })
}

/// The counters since the driver was loaded, summed over the kinds of memory that are counted.
fn errors(gpu: &Branch, corrected: bool) -> Value<u64> {
    let Some(volatile) = gpu.branch("ecc_errors/volatile") else { return Value::default() };
    let (total, mark) =
        if corrected { ("single_bit/total", "_correctable") } else { ("double_bit/total", "_uncorrectable") };
    if volatile.branch(total).is_some() {
        return count(volatile.value(&[total]));
    }
    let parts = volatile.below.iter().filter(|b| {
        // `sram_uncorrectable_parity` is uncorrectable too
        b.key.contains(mark)
    });
    let mut sum: Value<u64> = Value::default();
    for part in parts {
        sum = match (sum, count::<u64>(&part.value)) {
            (Value::Known(a), Value::Known(b)) => Value::Known(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
    }
    sum
}

/// What the driver says is to be done with the card.
pub(super) fn recovery(raw: &str) -> Value<Condition> {
    match text(raw) {
        Value::Known(_) => Value::Known(Condition::Degraded),
        Value::Unknown(Why::Said(none)) if none == "None" => Value::Known(Condition::Ok),
        Value::Unknown(why) => Value::Unknown(why),
    }
}

/// What speaks of trouble, and what it says where there is none.
fn condition(gpu: &Branch, ecc: &Ecc) -> Value<Condition> {
    let mut worst: Option<Condition> = None;
    let mut see = |found: Condition| {
        let rank = |c| [Condition::Ok, Condition::Degraded, Condition::Failed].iter().position(|x| *x == c);
        worst = Some(worst.filter(|w| rank(*w) >= rank(found)).unwrap_or(found));
    };
    if let Value::Known(found) = recovery(gpu.value(&["gpu_recovery_action"])) {
        see(found);
    }
    let flags = [
        ("gpu_reset_status/reset_required", Condition::Failed),
        ("gpu_reset_status/drain_and_reset_recommended", Condition::Degraded),
        ("remapped_rows/remapped_row_failure", Condition::Degraded),
        ("remapped_rows/remapping_failure_occurred", Condition::Degraded),
        ("ecc_errors/unrepairable_memory", Condition::Degraded),
        ("retired_pages/pending_retirement", Condition::Degraded),
    ];
    for (path, bad) in flags {
        match gpu.value(&[path]) {
            "Yes" => see(bad),
            "No" => see(Condition::Ok),
            _ => {}
        }
    }
    match ecc.uncorrected.known() {
        Some(0) => see(Condition::Ok),
        Some(_) => see(Condition::Degraded),
        None => {}
    }
    worst.map_or_else(Value::default, Value::Known)
}

fn slices(gpu: &Branch) -> Vec<Slice> {
    let listed = gpu.branch("mig_devices").into_iter().flat_map(|d| d.all("mig_device"));
    let slice = |b: &Branch| Slice {
        index: count(b.value(&["index"])),
        gpu_instance: count(b.value(&["gpu_instance_id"])),
        compute_instance: count(b.value(&["compute_instance_id"])),
        memory_bytes: bytes(b.value(&["fb_memory_usage/total", "shared_fb_memory_usage/total"]), MIB),
        memory_used_bytes: bytes(b.value(&["fb_memory_usage/used", "shared_fb_memory_usage/used"]), MIB),
        multiprocessors: count(b.value(&["device_attributes/shared/multiprocessor_count"])),
        ecc_uncorrected: count(
            b.value(&["ecc_error_count/volatile_count/sram_uncorrectable", "ecc_errors/volatile/sram_uncorrectable"]),
        ),
        ..Slice::default()
    };
    listed.chain(gpu.all("mig_device")).map(slice).collect()
}

fn jobs(gpu: &Branch) -> Value<Vec<Job>> {
    let Some(processes) = gpu.branch("processes") else { return Value::default() };
    if processes.below.is_empty() && !matches!(processes.value.as_str(), "" | "None") {
        return Value::Unknown(Why::Said(short(&processes.value)));
    }
    let mut jobs = Vec::new();
    // in the text the instances stand before the process they belong to
    let (mut gi, mut ci) = ("", "");
    for b in &processes.below {
        match b.key.as_str() {
            "gpu_instance_id" => gi = &b.value,
            "compute_instance_id" => ci = &b.value,
            "process_id" => jobs.push(job(b, &b.value, gi, ci)),
            "process_info" => {
                jobs.push(job(b, b.value(&["pid"]), b.value(&["gpu_instance_id"]), b.value(&["compute_instance_id"])));
            }
            _ => {}
        }
    }
    Value::Known(jobs)
}

fn job(b: &Branch, pid: &str, gi: &str, ci: &str) -> Job {
    Job {
        pid: count(pid),
        kind: text(b.value(&["type"])),
        name: text(b.value(&["process_name", "name"])),
        memory_bytes: bytes(b.value(&["used_memory", "used_gpu_memory"]), MIB),
        gpu_instance: count(gi),
        compute_instance: count(ci),
    }
}
