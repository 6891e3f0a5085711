//! Framed tables of `nvidia-smi`, `npu-smi info` and `mx-smi`: values by the headings above them.

use super::frame::{self, Table, halves};
use crate::{
    accelerator::{self, Accelerator, Condition, Ecc, Job, Slice, Vendor, mig_mode, model},
    snapshot::Snapshot,
    value::{MIB, Value, Why, bytes, celsius, count, parsed, percent, short, text, watts},
};
use std::collections::BTreeMap;

/// One row of a table by heading, in small letters.
type Record = BTreeMap<String, String>;

pub(super) fn nvidia(text: &str, shown: &mut Snapshot) -> bool {
    if !text.contains("NVIDIA-SMI") {
        return false;
    }
    text.lines()
        .filter(|l| l.starts_with("NVIDIA-SMI has failed") || l.starts_with("Failed to"))
        .for_each(|l| shown.note(l));
    let tables = frame::tables(text);
    let mut found = false;
    for table in &tables {
        titles(table, shown);
        if has(table, "pid") {
            continue;
        }
        if has(table, "gi") && has(table, "mig") {
            for record in records(table, shown) {
                mig_row(&record, shown);
            }
        } else if has(table, "bus-id") {
            for record in records(table, shown) {
                let Some(index) = number(&record, "gpu", shown) else { continue };
                found = true;
                shown.row(nvidia_row(index, &record));
            }
        }
    }
    // processes name their card by its number
    for table in tables.iter().filter(|t| has(t, "pid")) {
        jobs(table, "gpu", shown);
    }
    found || !tables.is_empty() && text.contains("NVIDIA-SMI ")
}

fn nvidia_row(index: u32, r: &Record) -> Accelerator {
    let (used, total) = both(get(r, "memory-usage"));
    let (power, limit) = halves(get(r, "pwr:usage/cap"));
    let lost = r.values().any(|v| v.contains("ERR!"));
    Accelerator {
        model: model(get(r, "name")),
        pci: accelerator::pci(get(r, "bus-id")),
        memory_bytes: bytes(total, MIB),
        memory_used_bytes: bytes(used, MIB),
        utilisation_pct: percent(get(r, "gpu-util")),
        power_mw: watts(power),
        power_limit_mw: watts(limit),
        temperature_mc: celsius(get(r, "temp")),
        ecc: Ecc { uncorrected: uncorrected(get(r, "volatile uncorr. ecc")), ..Ecc::default() },
        mig: mig_mode(get(r, "mig m.")),
        condition: if lost { Value::Known(Condition::Failed) } else { Value::default() },
        ..Accelerator::numbered(index, Vendor::Nvidia)
    }
}

/// Used and total; a word stands for both.
fn both(value: &str) -> (&str, &str) {
    match halves(value) {
        (word, "") => (word, word),
        both => both,
    }
}

/// A count; with MIG on the counts are per slice, and `On` or `Off` stands in its place.
fn uncorrected(raw: &str) -> Value<u64> {
    match raw {
        "On" | "Off" | "Enabled" | "Disabled" => Value::Unknown(Why::Said(raw.to_owned())),
        raw => count(raw),
    }
}

fn mig_row(r: &Record, shown: &mut Snapshot) {
    let Some(index) = number(r, "gpu", shown) else { return };
    let (used, total) = halves(r.iter().find(|(k, _)| k.ends_with("memory-usage")).map_or("", |(_, v)| v));
    let slice = Slice {
        index: count(get(r, "mig")),
        gpu_instance: count(get(r, "gi")),
        compute_instance: count(get(r, "ci")),
        memory_bytes: bytes(total, MIB),
        memory_used_bytes: bytes(used, MIB),
        multiprocessors: count(get(r, "sm")),
        ecc_uncorrected: count(get(r, "unc")),
        ..Slice::default()
    };
    shown.row(Accelerator::numbered(index, Vendor::Nvidia)).slices.push(slice);
}

pub(super) fn ascend(text: &str, shown: &mut Snapshot) -> bool {
    if !text.contains("npu-smi") && !text.contains("| NPU") {
        return false;
    }
    let tables = frame::tables(text);
    let mut found = false;
    for table in &tables {
        titles(table, shown);
        if has(table, "process id") || !has(table, "bus-id") {
            continue;
        }
        for r in records(table, shown) {
            let Some(index) = number(&r, "npu", shown) else { continue };
            found = true;
            shown.row(ascend_row(index, &r));
        }
    }
    for table in tables.iter().filter(|t| has(t, "process id")) {
        jobs(table, "npu", shown);
    }
    found
}

fn ascend_row(index: u32, r: &Record) -> Accelerator {
    let hbm = halves(get(r, "hbm-usage(mb)"));
    // chips without HBM have their memory in the other column, the others have nothing there
    let (used, total) = if r.contains_key("hbm-usage(mb)") { hbm } else { halves(get(r, "memory-usage(mb)")) };
    Accelerator {
        part: count(get(r, "chip")),
        model: text(get(r, "name")),
        pci: accelerator::pci(get(r, "bus-id")),
        memory_bytes: bytes(total, MIB),
        memory_used_bytes: bytes(used, MIB),
        utilisation_pct: percent(get(r, "aicore(%)")),
        power_mw: watts(get(r, "power(w)")),
        temperature_mc: celsius(get(r, "temp(c)")),
        condition: health(get(r, "health")),
        ..Accelerator::numbered(index, Vendor::Huawei)
    }
}

pub(super) fn health(raw: &str) -> Value<Condition> {
    parsed(raw, |word| match word.to_ascii_lowercase().as_str() {
        "ok" | "available" => Some(Condition::Ok),
        "warning" | "general warning" | "important warning" => Some(Condition::Degraded),
        "alarm" | "critical" | "emergency warning" | "unavailable" => Some(Condition::Failed),
        _ => None,
    })
}

pub(super) fn metax(text: &str, shown: &mut Snapshot) -> bool {
    if !text.contains("MX-SMI") && !text.contains("MetaX System Management Interface") {
        return false;
    }
    for line in text.lines().filter(|l| l.starts_with("Attached GPUs")) {
        shown.attached = line.split_once(':').map_or_else(Value::default, |(_, n)| count(n));
    }
    let tables = frame::tables(text);
    let mut found = false;
    for table in &tables {
        titles(table, shown);
        if has(table, "pid") || !has(table, "bus-id") {
            continue;
        }
        for r in records(table, shown) {
            let Some(index) = number(&r, "gpu", shown) else { continue };
            found = true;
            let (used, total) = halves(get(&r, "memory-usage"));
            // the total alone has its unit
            let (power, limit) = halves(get(&r, "pwr:usage/cap"));
            shown.row(Accelerator {
                model: text_of(&r, "name"),
                pci: accelerator::pci(get(&r, "bus-id")),
                memory_bytes: bytes(total, MIB),
                memory_used_bytes: bytes(used, MIB),
                utilisation_pct: percent(get(&r, "gpu-util")),
                power_mw: watts(power),
                power_limit_mw: watts(limit),
                temperature_mc: celsius(get(&r, "temp")),
                condition: health(get(&r, "gpu-state")),
                ..Accelerator::numbered(index, Vendor::Metax)
            });
        }
    }
    for table in tables.iter().filter(|t| has(t, "pid")) {
        jobs(table, "gpu", shown);
    }
    found
}

fn text_of(r: &Record, key: &str) -> Value<String> {
    model(get(r, key))
}

/// `Driver Version: 590.48.01` and the like, wherever they stand above a table.
fn titles(table: &Table, shown: &mut Snapshot) {
    for title in &table.titles {
        for part in title.split("  ").map(str::trim).filter(|p| !p.is_empty()) {
            let Some((key, value)) = part.split_once(':') else { continue };
            let (slot, label) = match key.trim() {
                "Driver Version" | "KMD Version" | "Kernel Mode Driver Version" | "Version" => (&mut shown.driver, ""),
                "CUDA Version" | "CUDA UMD Version" => (&mut shown.runtime, "CUDA "),
                "MACA Version" => (&mut shown.runtime, "MACA "),
                _ => continue,
            };
            *slot = std::mem::take(slot).or(text(value).map(|v| format!("{label}{v}")));
        }
    }
}

/// Whether a word stands in the heading.
fn has(table: &Table, word: &str) -> bool {
    let mut cells = table.heading.iter().flatten().map(|cell| cell.to_ascii_lowercase());
    if word.contains(' ') {
        return cells.any(|cell| cell.contains(word));
    }
    cells.any(|cell| cell.split_whitespace().any(|w| w == word))
}

fn get<'a>(record: &'a Record, key: &str) -> &'a str {
    record.get(key).map_or("", String::as_str)
}

/// The number that a record begins with; a record without one is no row.
fn number(r: &Record, key: &str, shown: &mut Snapshot) -> Option<u32> {
    // some tools number the board and the chip in one row, and call the board's number nothing
    let raw = get(r, key);
    let found = raw.parse().ok();
    if found.is_none() {
        shown.note(format!("a row without a number: {:?}", r.values().collect::<Vec<_>>()));
    }
    found
}

/// Every record of a table: as many lines as the heading has.
fn records(table: &Table, shown: &mut Snapshot) -> Vec<Record> {
    let mut records = Vec::new();
    let lines = table.heading.len().max(1);
    for rows in table.groups.iter().flat_map(|g| g.chunks(lines)) {
        let mut record = Record::new();
        for (line, row) in rows.iter().enumerate() {
            for (place, cell) in row.iter().enumerate() {
                match below(table, line, place, cell) {
                    Some(pairs) => pairs.into_iter().for_each(|(key, value)| _ = record.entry(key).or_insert(value)),
                    None => shown.note(format!("not understood in column {}: {cell:?}", place + 1)),
                }
            }
        }
        if !record.is_empty() {
            records.push(record);
        }
    }
    records
}

/// A cell by the heading of its own line, or else by the one line of its column that has as many words: some headings stand
/// upright.
fn below(table: &Table, line: usize, place: usize, cell: &str) -> Option<Vec<(String, String)>> {
    let heading = |line: &Vec<String>| line.get(place).cloned().unwrap_or_default();
    let own = table.heading.get(line).map(heading)?;
    if cell.is_empty() {
        return Some(Vec::new());
    }
    let found = frame::pairs(&own, cell).filter(|pairs| !pairs.is_empty());
    found.or_else(|| table.heading.iter().map(heading).find_map(|h| frame::pairs(&h, cell).filter(|p| !p.is_empty())))
}

/// Rows of a table of processes, one line each.
fn jobs(table: &Table, card: &str, shown: &mut Snapshot) {
    let Some(heading) = table.heading.iter().find(|h| {
        h.iter().any(|c| {
            let lower = c.to_ascii_lowercase();
            lower.contains("process name")
        })
    }) else {
        return;
    };
    // nothing else may stand in a table that says there is nothing
    let listed = |shown: &mut Snapshot, found: &dyn Fn(&Accelerator) -> bool| {
        for device in shown.accelerators.iter_mut().filter(|d| found(d)) {
            if device.jobs.is_not_shown() {
                device.jobs = Value::Known(Vec::new());
            }
        }
    };
    listed(shown, &|_| true);
    for row in table.groups.iter().flatten() {
        let first = row.first().map_or("", String::as_str);
        if first.is_empty() || first.to_ascii_lowercase().starts_with("no ") {
            continue;
        }
        let mut record = Record::new();
        let mut understood = heading.len() == row.len();
        for (heading, cell) in heading.iter().zip(row) {
            match frame::pairs(heading, cell) {
                Some(pairs) => record.extend(pairs),
                None => understood = false,
            }
        }
        let Some(index) = record.get(card).and_then(|n| n.parse::<u32>().ok()).filter(|_| understood) else {
            shown.note(format!("not understood among the processes: {:?}", short(&row.join(" | "))));
            continue;
        };
        let any = |keys: &[&str]| keys.iter().map(|k| get(&record, k)).find(|v| !v.is_empty()).unwrap_or_default();
        let part = count::<u32>(get(&record, "chip"));
        let job = Job {
            pid: count(any(&["pid", "process id"])),
            kind: text(get(&record, "type")),
            name: shortened(any(&["process name"])),
            memory_bytes: bytes(any(&["gpu memory", "usage", "process memory(mb)"]), MIB),
            gpu_instance: count(get(&record, "gi")),
            compute_instance: count(get(&record, "ci")),
        };
        let owner = shown.accelerators.iter_mut().find(|d| {
            d.index.known() == Some(&index) && (part.known().is_none() || d.part.known().is_none() || d.part == part)
        });
        match owner {
            Some(owner) => match &mut owner.jobs {
                Value::Known(jobs) => jobs.push(job),
                unknown @ Value::Unknown(_) => *unknown = Value::Known(vec![job]),
            },
            None => shown.note(format!("a process of card {index}, which is not shown: {:?}", short(&row.join(" ")))),
        }
    }
}

/// Long names lose their beginning.
fn shortened(raw: &str) -> Value<String> {
    match text(raw) {
        Value::Known(name) if name.starts_with("...") => Value::Unknown(Why::Shortened(name)),
        name => name,
    }
}
