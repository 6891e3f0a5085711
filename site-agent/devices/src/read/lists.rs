//! Smaller outputs of `nvidia-smi`: `-L`, `nvlink -s`, `--version`, CSV and the monitors.

use crate::{
    accelerator::{self, Accelerator, Ecc, Job, Pcie, Slice, Vendor, mig_mode},
    snapshot::Snapshot,
    value::{MIB, Value, Why, bytes, celsius, count, percent, short, text, watts},
};
use std::collections::BTreeMap;

pub(super) fn list(raw: &str, shown: &mut Snapshot) -> bool {
    if raw.contains("NVSMI LOG") || raw.contains("+---") {
        return false;
    }
    let mut found = false;
    let mut at: Option<u32> = None;
    for line in raw.lines() {
        if let Some((index, name, uuid)) = card(line) {
            found = true;
            at = Some(index);
            let device = Accelerator::numbered(index, Vendor::Nvidia);
            shown.row(Accelerator { model: text(name), uuid: text(uuid), ..device });
            continue;
        }
        if let Some((key, value)) = line.split_once(':').filter(|_| !line.starts_with([' ', '\t', '|'])) {
            let version = |prefix: &str| text(value).map(|v| format!("{prefix}{v}"));
            found |= match key.trim() {
                "DRIVER version" | "KMD version" => {
                    shown.driver = version("").or(std::mem::take(&mut shown.driver));
                    true
                }
                "CUDA Version" | "CUDA version" | "CUDA UMD version" => {
                    shown.runtime = version("CUDA ").or(std::mem::take(&mut shown.runtime));
                    true
                }
                _ => false,
            };
        }
        let Some(index) = at else { continue };
        let row = shown.row(Accelerator::numbered(index, Vendor::Nvidia));
        below(line.trim(), row);
    }
    found
}

/// `GPU 0: NVIDIA H200 (UUID: GPU-...)`
fn card(line: &str) -> Option<(u32, &str, &str)> {
    let (index, rest) = line.strip_prefix("GPU ")?.split_once(':')?;
    let (name, uuid) = rest.rsplit_once("(UUID:")?;
    Some((index.trim().parse().ok()?, name.trim(), uuid.trim().trim_end_matches(')')))
}

/// What stands below a card's line.
fn below(line: &str, row: &mut Accelerator) {
    if let Some(rest) = line.strip_prefix("MIG ")
        && let Some((profile, rest)) = rest.split_once("Device")
        && let Some((index, uuid)) = rest.split_once(':')
    {
        let uuid = uuid.trim().trim_start_matches("(UUID:").trim_end_matches(')');
        let (index, profile, uuid) = (count(index), text(profile), text(uuid));
        row.slices.push(Slice { index, profile, uuid, ..Slice::default() });
    } else if let Some((link, speed)) = line.strip_prefix("Link ").and_then(|l| l.split_once(':')) {
        if link.trim().parse::<u32>().is_err() {
            return;
        }
        let active = gigabytes(speed);
        let links = row.fabric_links.known().copied().unwrap_or(0);
        row.fabric_links = Value::Known(links + u32::from(active.is_some()));
        if let Some(kbps) = active {
            row.fabric_link_kbps = Value::Known(kbps);
        }
    } else if line.contains("does not have or support Nvlink") || line.contains("all links are inActive") {
        row.fabric_links = Value::Known(0);
    } else if line.to_ascii_lowercase().contains("nvlink") {
        row.fabric_links = Value::Unknown(Why::Said(short(line)));
    }
}

/// `26.562 GB/s`, bytes, as kbit/s; none where the link is not active.
fn gigabytes(speed: &str) -> Option<u64> {
    let number = speed.trim().strip_suffix("GB/s")?.trim();
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let part: String = part.chars().chain("000".chars()).take(3).collect();
    let mega: u64 = whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(part.parse().ok()?)?;
    mega.checked_mul(8_000).filter(|kbps| *kbps > 0)
}

pub(super) fn csv(raw: &str, shown: &mut Snapshot) -> bool {
    let mut heading: Vec<(String, &str)> = Vec::new();
    for line in raw.lines().filter(|l| !l.trim().is_empty()) {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let named = |name: &str| cells.iter().any(|c| c.split(' ').next() == Some(name));
        let identity = ["uuid", "gpu_uuid", "index", "pci.bus_id", "gpu_bus_id", "name", "gpu_name"];
        if cells.len() > 1 && identity.iter().any(|name| named(name)) {
            let split = |cell: &&str| {
                let (name, unit) = cell.split_once(" [").unwrap_or((cell, ""));
                (name.to_owned(), if unit.starts_with("MiB") { "MiB" } else { "" })
            };
            heading = cells.iter().map(split).collect();
            continue;
        }
        if heading.is_empty() {
            continue;
        }
        if cells.len() != heading.len() {
            shown.note(format!("{} values under {} headings: {line:?}", cells.len(), heading.len()));
            continue;
        }
        let row: BTreeMap<&str, &str> = heading.iter().map(|(name, _)| name.as_str()).zip(cells).collect();
        row_of_csv(&row, shown);
    }
    !heading.is_empty()
}

fn row_of_csv(row: &BTreeMap<&str, &str>, shown: &mut Snapshot) {
    let get = |keys: &[&str]| keys.iter().find_map(|k| row.get(k).copied()).unwrap_or_default();
    let either = |keys: &[&str]| {
        keys.iter()
            .fold(Value::default(), |value: Value<u64>, key| value.or(watts(row.get(key).copied().unwrap_or(""))))
    };
    let device = Accelerator {
        index: count(get(&["index"])),
        vendor: Value::Known(Vendor::Nvidia),
        model: text(get(&["name", "gpu_name"])),
        uuid: text(get(&["uuid", "gpu_uuid"])),
        serial: text(get(&["serial", "gpu_serial"])),
        pci: accelerator::pci(get(&["pci.bus_id", "gpu_bus_id"])),
        pci_id: crate::value::parsed(get(&["pci.device_id"]), super::nvidia::pci_id),
        pcie: Pcie {
            generation: count(get(&["pcie.link.gen.current"])),
            generation_max: count(get(&["pcie.link.gen.max"])),
            lanes: count(get(&["pcie.link.width.current"])),
            lanes_max: count(get(&["pcie.link.width.max"])),
        },
        memory_bytes: bytes(get(&["memory.total"]), MIB),
        memory_used_bytes: bytes(get(&["memory.used"]), MIB),
        utilisation_pct: percent(get(&["utilization.gpu"])),
        power_mw: either(&["power.draw", "power.draw.average", "power.draw.instant"]),
        power_limit_mw: either(&["enforced.power.limit", "power.limit"]),
        temperature_mc: celsius(get(&["temperature.gpu"])),
        memory_temperature_mc: celsius(get(&["temperature.memory"])),
        ecc: Ecc {
            corrected: count(get(&["ecc.errors.corrected.volatile.total"])),
            uncorrected: count(get(&["ecc.errors.uncorrected.volatile.total"])),
        },
        condition: super::nvidia::recovery(get(&["gpu_recovery_action"])),
        mig: mig_mode(get(&["mig.mode.current"])),
        ..Accelerator::default()
    };
    if device.index.known().is_none() && device.pci.known().is_none() && device.uuid.known().is_none() {
        shown.note("a row that names no device");
        return;
    }
    shown.driver = std::mem::take(&mut shown.driver).or(text(get(&["driver_version"])));
    shown.attached = std::mem::take(&mut shown.attached).or(count(get(&["count"])));
    let job = row.contains_key("pid").then(|| Job {
        pid: count(get(&["pid"])),
        name: text(get(&["process_name", "name"])),
        memory_bytes: bytes(get(&["used_gpu_memory", "used_memory"]), MIB),
        ..Job::default()
    });
    let known = shown.row(device);
    if let Some(job) = job {
        match &mut known.jobs {
            Value::Known(jobs) => jobs.push(job),
            unknown @ Value::Unknown(_) => *unknown = Value::Known(vec![job]),
        }
    }
}

pub(super) fn monitor(raw: &str, shown: &mut Snapshot) -> bool {
    let mut heading: Vec<&str> = Vec::new();
    let mut found = false;
    for line in raw.lines() {
        if let Some(names) = line.strip_prefix("# gpu").map(|_| line.trim_start_matches("# ")) {
            heading = names.split_whitespace().collect();
            found = true;
            continue;
        }
        let cells: Vec<&str> = line.split_whitespace().collect();
        let Some(index) = cells.first().and_then(|c| c.parse::<u32>().ok()).filter(|_| !heading.is_empty()) else {
            continue;
        };
        if cells.len() < heading.len() {
            shown.note(format!("{} values under {} headings: {line:?}", cells.len(), heading.len()));
            continue;
        }
        let get = |keys: &[&str]| {
            let at = heading.iter().position(|h| keys.contains(h));
            at.and_then(|at| cells.get(at)).copied().unwrap_or_default()
        };
        let row = shown.row(Accelerator::numbered(index, Vendor::Nvidia));
        if heading.contains(&"pid") {
            // a command may have several words and is last
            let name = heading.iter().position(|h| *h == "command").map(|at| cells[at..].join(" ")).unwrap_or_default();
            let jobs = match std::mem::take(&mut row.jobs) {
                Value::Known(jobs) => jobs,
                Value::Unknown(_) => Vec::new(),
            };
            let job = Job {
                pid: count(get(&["pid"])),
                kind: text(get(&["type"])),
                name: text(&name),
                memory_bytes: bytes(get(&["fb"]), MIB),
                ..Job::default()
            };
            let is_new = job.pid.known().is_some() && jobs.iter().all(|j| j.pid != job.pid);
            row.jobs = Value::Known(jobs.into_iter().chain(is_new.then_some(job)).collect());
        } else {
            // of several samples the last one counts
            row.power_mw = watts(get(&["pwr"]));
            row.temperature_mc = celsius(get(&["gtemp", "temp"]));
            row.memory_temperature_mc = celsius(get(&["mtemp"]));
            row.utilisation_pct = percent(get(&["sm"]));
        }
    }
    found
}
