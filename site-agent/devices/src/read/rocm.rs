//! `rocm-smi`: JSON, `GPU[0] : key: value` lines, and its tables without a frame.

use super::ReadError;
use crate::{
    accelerator::{self, Accelerator, PciId, Pcie, Vendor, hex},
    snapshot::Snapshot,
    topology::{ENDS, End, LinkKind, Topology},
    value::{Value, Why, bytes, celsius, count, parsed, percent, short, text, watts},
};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// What is said of one card, or of the system, by key.
type Keys = BTreeMap<String, String>;

/// Vendor number of AMD.
const AMD: u16 = 0x1002;

pub(super) fn json(raw: &str) -> Result<Snapshot, ReadError> {
    // what follows the object is not JSON any more
    let mut stream = serde_json::Deserializer::from_str(raw).into_iter::<Json>();
    let object = match stream.next() {
        Some(Ok(Json::Object(object))) => object,
        Some(Err(e)) => return Err(ReadError::Json(e.to_string())),
        _ => return Err(ReadError::Json("it holds no object".into())),
    };
    let mut cards = BTreeMap::new();
    let mut system = Keys::new();
    for (name, below) in &object {
        let Json::Object(below) = below else { continue };
        let keys =
            below.iter().map(|(k, v)| (k.trim().to_owned(), v.as_str().map_or_else(|| v.to_string(), str::to_owned)));
        match name.strip_prefix("card").and_then(|n| n.parse::<u32>().ok()) {
            Some(index) => _ = cards.insert(index, keys.collect::<Keys>()),
            None => system.extend(keys),
        }
    }
    if cards.is_empty() && system.is_empty() {
        return Err(ReadError::Json("it names no card".into()));
    }
    let mut shown = Snapshot::default();
    for (index, keys) in &cards {
        shown.accelerators.push(card(*index, keys));
    }
    of_system(&system, &mut shown);
    Ok(shown)
}

pub(super) fn values(raw: &str, shown: &mut Snapshot) -> bool {
    let mut cards: BTreeMap<u32, Keys> = BTreeMap::new();
    for line in raw.lines() {
        let Some((index, rest)) = line.trim_start().strip_prefix("GPU[").and_then(|l| l.split_once(']')) else {
            continue;
        };
        let (Ok(index), Some((_, rest))) = (index.trim().parse::<u32>(), rest.split_once(':')) else { continue };
        let keys = cards.entry(index).or_default();
        let Some((key, value)) = rest.trim().split_once(": ").or_else(|| rest.trim().split_once(":\t")) else {
            shown.note(line);
            continue;
        };
        keys.insert(key.trim().to_owned(), value.trim().to_owned());
    }
    for (index, keys) in &cards {
        shown.row(card(*index, keys));
    }
    matrices(raw, shown) || !cards.is_empty()
}

fn card(index: u32, keys: &Keys) -> Accelerator {
    let get = |names: &[&str]| {
        let exact = names.iter().find_map(|n| keys.get(*n));
        exact
            .or_else(|| names.iter().find_map(|n| keys.iter().find(|(k, _)| k.eq_ignore_ascii_case(n)).map(|(_, v)| v)))
            .map_or("", String::as_str)
    };
    let heat = |sensor: &str| celsius(get(&[&format!("Temperature (Sensor {sensor}) (C)")]));
    let (speed, lanes) = link(get(&["pcie clock level"]));
    Accelerator {
        model: name(get(&["Device Name", "Card series", "Card Series"])).or(name(get(&["Card model", "Card Model"]))),
        uuid: text(get(&["Unique ID"])),
        serial: text(get(&["Serial Number"])),
        pci: accelerator::pci(get(&["PCI Bus"])),
        pci_id: parsed(get(&["Device ID", "GPU ID"]), amd),
        pcie: Pcie { generation: speed, lanes, ..Pcie::default() },
        numa: parsed(get(&["(Topology) Numa Node"]), |raw| raw.parse().ok()),
        memory_bytes: bytes(get(&["VRAM Total Memory (B)"]), 1),
        memory_used_bytes: bytes(get(&["VRAM Total Used Memory (B)"]), 1),
        memory_used_pct: percent(get(&["GPU Memory Allocated (VRAM%)"])),
        utilisation_pct: percent(get(&["GPU use (%)"])),
        power_mw: watts(get(&[
            "Average Graphics Package Power (W)",
            "Current Socket Graphics Package Power (W)",
            "Current Graphics Package Power (W)",
        ])),
        power_limit_mw: watts(get(&["Max Graphics Package Power (W)"])),
        temperature_mc: heat("edge").or(heat("junction")),
        memory_temperature_mc: heat("memory"),
        ..Accelerator::numbered(index, Vendor::Amd)
    }
}

fn amd(raw: &str) -> Option<PciId> {
    hex(raw).and_then(|d| u16::try_from(d).ok()).map(|device| PciId { vendor: AMD, device })
}

/// A number stands where the tool does not know the name.
fn name(raw: &str) -> Value<String> {
    parsed(raw, |known| (!known.starts_with("0x")).then(|| known.to_owned()))
}

/// `1 (16.0GT/s x16)`: PCIe generation and lanes.
fn link(raw: &str) -> (Value<u8>, Value<u8>) {
    let Some((speed, lanes)) = raw.split_once('(').and_then(|(_, r)| r.trim_end_matches(')').split_once("GT/s x"))
    else {
        return Default::default();
    };
    (generation(speed.trim()), count(lanes.trim()))
}

/// By the transfer rate of a lane, PCIe base specification.
pub(super) fn generation(gigatransfers: &str) -> Value<u8> {
    parsed(gigatransfers.trim_end_matches(".0"), |speed| {
        Some(match speed {
            "2.5" => 1,
            "5" => 2,
            "8" => 3,
            "16" => 4,
            "32" => 5,
            "64" => 6,
            _ => return None,
        })
    })
}

fn of_system(system: &Keys, shown: &mut Snapshot) {
    shown.driver = text(system.get("Driver version").map_or("", String::as_str));
    let mut pairs: BTreeMap<(u32, u32), (Option<u32>, LinkKind)> = BTreeMap::new();
    for (key, value) in system {
        if let Some(pid) = key.strip_prefix("PID") {
            shown.note(format!(
                "process {pid} ({}) of no card that is named",
                value.split(',').next().unwrap_or_default()
            ));
        }
        let Some((what, pair)) = key.strip_prefix("(Topology) ").and_then(|k| k.split_once(" between DRM devices "))
        else {
            continue;
        };
        let Some((a, b)) = pair.split_once(" and ").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?))) else {
            continue;
        };
        let entry = pairs.entry((a, b)).or_insert((None, LinkKind::Unknown));
        match what {
            "Hops" => entry.0 = value.parse().ok(),
            "Link type" => entry.1 = LinkKind::of(value),
            _ => {}
        }
    }
    join(&pairs, shown);
}

fn join(pairs: &BTreeMap<(u32, u32), (Option<u32>, LinkKind)>, shown: &mut Snapshot) {
    let mut named: Vec<u32> = pairs.keys().flat_map(|(a, b)| [*a, *b]).collect();
    named.sort_unstable();
    named.dedup();
    if named.is_empty() || named.len() > ENDS {
        return;
    }
    let place = |index: u32| shown.accelerators.iter().position(|d| d.index.known() == Some(&index));
    let end = |&index: &u32| End { label: format!("GPU{index}"), accelerator: place(index) };
    let mut topology = Topology::between(named.iter().map(end).collect());
    for ((a, b), (hops, kind)) in pairs {
        let kind = if *kind == LinkKind::Pcie(None) { LinkKind::Pcie(*hops) } else { kind.clone() };
        let at = |index: &u32| named.iter().position(|n| n == index).unwrap_or(usize::MAX);
        topology.join(at(a), at(b), &kind);
    }
    let absent: Vec<&str> =
        topology.ends.iter().filter(|e| e.accelerator.is_none()).map(|e| e.label.as_str()).collect();
    if !absent.is_empty() {
        shown.note(format!("the topology names cards that are not shown: {}", absent.join(", ")));
    }
    shown.topology = Some(topology);
}

/// `--showtopo`: one matrix below each title.
fn matrices(raw: &str, shown: &mut Snapshot) -> bool {
    let mut pairs: BTreeMap<(u32, u32), (Option<u32>, LinkKind)> = BTreeMap::new();
    let (mut title, mut columns) = ("", Vec::new());
    let number = |label: &str| label.strip_prefix("GPU").and_then(|n| n.parse::<u32>().ok());
    for line in raw.lines() {
        let tokens: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with("==") {
            (title, columns) = (line.trim_matches(['=', ' ']), Vec::new());
        } else if !tokens.is_empty() && tokens.iter().all(|t| number(t).is_some()) {
            columns = tokens.iter().filter_map(|t| number(t)).collect();
        } else if let Some(from) = tokens.first().and_then(|t| number(t)) {
            for (to, cell) in columns.iter().zip(&tokens[1..]).filter(|(to, _)| from < **to) {
                let entry = pairs.entry((from, *to)).or_insert((None, LinkKind::Unknown));
                match title {
                    "Hops between two GPUs" => entry.0 = cell.parse().ok(),
                    "Link Type between two GPUs" => entry.1 = LinkKind::of(cell),
                    _ => {}
                }
            }
        }
    }
    if pairs.is_empty() || !raw.contains("between two GPUs") {
        return false;
    }
    for index in pairs.keys().flat_map(|(a, b)| [*a, *b]).collect::<std::collections::BTreeSet<_>>() {
        shown.row(Accelerator::numbered(index, Vendor::Amd));
    }
    join(&pairs, shown);
    true
}

/// Columns by where their headings begin; a second line of headings says what the first one left out.
pub(super) fn table(raw: &str, shown: &mut Snapshot) -> bool {
    let lines: Vec<Vec<char>> = raw.lines().map(|l| l.chars().collect()).collect();
    let is_heading = |line: &Vec<char>| {
        let heads = heads(line);
        heads.first().is_some_and(|(at, h)| *at == 0 && (h == "GPU" || h == "Device")) && heads.len() > 3
    };
    let Some(at) = lines.iter().position(is_heading) else { return false };
    let heads = heads(&lines[at]);
    let mut found = false;
    for line in &lines[at + 1..] {
        let text_line: String = line.iter().collect();
        if text_line.starts_with("==") && found {
            break;
        }
        let cell = |i: usize| -> Option<String> {
            let (start, end) =
                (heads[i].0.min(line.len()), heads.get(i + 1).map_or(line.len(), |h| h.0.min(line.len())));
            // a value that runs over the edge of its column is not cut in two
            let whole = start == 0 || start >= line.len() || line[start - 1] == ' ' || line[start] == ' ';
            whole.then(|| line[start..end].iter().collect::<String>().trim().to_owned())
        };
        let Some(index) = cell(0).and_then(|c| c.parse::<u32>().ok()) else {
            continue;
        };
        found = true;
        let mut row = Accelerator::numbered(index, Vendor::Amd);
        for (i, (_, head)) in heads.iter().enumerate().skip(1) {
            match cell(i) {
                Some(value) => column(head, &value, &mut row),
                None => shown.note(format!("not understood below {head:?}: {text_line:?}")),
            }
        }
        shown.row(row);
    }
    found
}

/// Headings of a line, two blanks apart, with their places.
fn heads(line: &[char]) -> Vec<(usize, String)> {
    let mut heads: Vec<(usize, String)> = Vec::new();
    for (at, c) in line.iter().enumerate() {
        let after_gap = at == 0 || (line[at - 1] == ' ' && (at < 2 || line[at - 2] == ' '));
        if *c == ' ' {
            continue;
        }
        if after_gap {
            heads.push((at, String::new()));
        }
        if let Some((start, head)) = heads.last_mut() {
            while start.saturating_add(head.chars().count()) < at {
                head.push(' ');
            }
            head.push(*c);
        }
    }
    heads
}

fn column(head: &str, value: &str, row: &mut Accelerator) {
    let head = head.split(" (").next().unwrap_or_default();
    match head {
        "Temp" => row.temperature_mc = celsius(value),
        "Power" | "AvgPwr" => row.power_mw = watts(value),
        "PwrCap" => row.power_limit_mw = watts(value),
        "VRAM%" => row.memory_used_pct = percent(value),
        "GPU%" => row.utilisation_pct = percent(value),
        "BUS" => row.pci = accelerator::pci(value),
        "PARTITION ID" => row.part = count(value),
        "Partitions" => {
            // memory mode, compute mode, and since ROCm 6.1 the number of the partition
            let parts: Vec<&str> = value.split(',').map(str::trim).collect();
            row.part = parts.get(2).map_or_else(Value::default, |p| count(p));
        }
        "DID" | "IDs" | "[Model : Revision]" => {
            let first = value.trim_start_matches(['[', '(']).split([',', ' ', ':']).next().unwrap_or_default();
            row.pci_id = match parsed(first, amd) {
                Value::Unknown(Why::Unreadable(_)) => Value::Unknown(Why::Unreadable(short(value))),
                id => id,
            };
        }
        _ => {}
    }
}
