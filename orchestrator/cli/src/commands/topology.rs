//! A node as a picture in text: its devices below their PCIe switches and NUMA nodes, with their slices.

use crate::show::{bytes, int, list, rate, text};
use serde_json::Value;
use std::collections::BTreeSet;

/// Nodes that are drawn; more are in the table, and all of it in the JSON.
const MOST: usize = 16;

/// What the marks mean.
pub const LEGEND: &str = "devices: . free, # held, % partly held, / in slices, x not well";

/// All nodes of a site, or the first ones.
pub fn pictures(nodes: &[Value]) -> String {
    let mut drawn: Vec<String> =
        nodes.iter().filter(|n| !list(n, "/devices").is_empty()).take(MOST).map(picture).collect();
    if nodes.len() > MOST {
        drawn.push(format!("{} nodes more are not drawn: see -o json", nodes.len() - MOST));
    }
    drawn.join("\n")
}

/// `.` free, `#` held, `%` partly held, `/` in slices, `x` not well.
pub fn mark(device: &Value) -> char {
    match (text(device, "/health").as_str(), text(device, "/mig").as_str(), int(device, "/share").unwrap_or(0)) {
        ("ok", "on", _) => '/',
        ("ok", _, 0) => '.',
        ("ok", _, 1_000..) => '#',
        ("ok", ..) => '%',
        _ => 'x',
    }
}

fn picture(node: &Value) -> String {
    let devices: Vec<&Value> = list(node, "/devices").iter().collect();
    let place = [("rack", "/rack"), ("NVL domain", "/nvl_domain")];
    let place =
        place.iter().filter(|(_, at)| text(node, at) != "-").map(|(word, at)| format!(", {word} {}", text(node, at)));
    let ports = list(node, "/ports").iter().map(|p| {
        let carries = int(p, "/rate_kbps").map_or_else(|| "down".to_owned(), rate);
        format!(", port {} {carries}", text(p, "/name"))
    });
    let mut lines = vec![format!("{}{}{}", text(node, "/name"), place.collect::<String>(), ports.collect::<String>())];
    branch(&mut lines, "", &groups(&devices, "/numa"), "NUMA node", &|lines, indent, below| {
        branch(lines, indent, &groups(below, "/pcie"), "PCIe switch", &|lines, indent, below| {
            leaves(lines, indent, below);
        });
    });
    for (island, members) in groups(&devices, "/island").iter().filter_map(|(island, m)| Some(((*island)?, m))) {
        let members: Vec<String> = members.iter().map(|d| text(d, "/index")).collect();
        lines.push(format!("   NVLink island {island}: {}", members.join(" = ")));
    }
    lines.join("\n")
}

type Group<'a> = (Option<i64>, Vec<&'a Value>);

/// Devices by what they share; those of which it is not known come last.
fn groups<'a>(devices: &[&'a Value], level: &str) -> Vec<Group<'a>> {
    let at = |d: &Value| int(d, level);
    let known: BTreeSet<i64> = devices.iter().filter_map(|d| at(d)).collect();
    let numbers = known.into_iter().map(Some).chain([None]);
    let of = |number: Option<i64>| (number, devices.iter().copied().filter(|d| at(d) == number).collect::<Vec<_>>());
    numbers.map(of).filter(|(_, members)| !members.is_empty()).collect()
}

/// Draws what stands below a branch: lines, indent, cards.
type Below<'b> = &'b dyn Fn(&mut Vec<String>, &str, &[&Value]);

/// One line for each group, with what is below it; a group of which nothing is known has no line of its own.
fn branch(lines: &mut Vec<String>, indent: &str, groups: &[Group<'_>], level: &str, below: Below<'_>) {
    for (at, (number, members)) in groups.iter().enumerate() {
        let Some(number) = number else {
            below(lines, indent, members);
            continue;
        };
        let (turn, next) = corner(at + 1 == groups.len());
        lines.push(format!("{indent}{turn} {level} {number}"));
        below(lines, &format!("{indent}{next}"), members);
    }
}

fn corner(is_last: bool) -> (&'static str, &'static str) {
    if is_last { ("└─", "   ") } else { ("├─", "│  ") }
}

fn leaves(lines: &mut Vec<String>, indent: &str, devices: &[&Value]) {
    for (at, device) in devices.iter().enumerate() {
        let (turn, next) = corner(at + 1 == devices.len());
        lines.push(format!("{indent}{turn} {}", described(device)));
        let slices = list(device, "/slices");
        let open = can_be_cut(device);
        for (number, slice) in slices.iter().enumerate() {
            let (turn, _) = corner(number + 1 == slices.len() && open.is_none());
            let mark = if text(slice, "/order") == "-" { '.' } else { '#' };
            let isolation = text(slice, "/isolation");
            let (number, profile) = (text(slice, "/number"), text(slice, "/profile"));
            lines.push(format!("{indent}{next}{turn} {mark} slice {number}  {profile}  {isolation}"));
        }
        if let Some(open) = open {
            lines.push(format!("{indent}{next}└─ can still be cut: {open}"));
        }
    }
}

fn described(device: &Value) -> String {
    let mut parts = vec![format!("{} {}", mark(device), text(device, "/index")), text(device, "/model")];
    parts.push(bytes(int(device, "/memory_bytes").unwrap_or(0)));
    let fares = [("/utilisation_pct", 1, "%"), ("/temperature_mc", 1_000, "C"), ("/power_mw", 1_000, "W")];
    parts.extend(fares.iter().filter_map(|(at, unit, name)| int(device, at).map(|n| format!("{} {name}", n / unit))));
    let health = text(device, "/health");
    if health != "ok" {
        parts.push(health);
    }
    if text(device, "/isolation") != "-" {
        let share = int(device, "/share").unwrap_or(0);
        parts.push(format!("{}.{} % held in shares, {}", share / 10, share % 10, text(device, "/isolation")));
    }
    parts.extend(list(device, "/notes").iter().filter_map(Value::as_str).map(|note| format!("({note})")));
    parts.join("  ")
}

/// Of a device in slices: of one that is whole it is no news.
fn can_be_cut(device: &Value) -> Option<String> {
    let open = device.pointer("/can_be_cut").and_then(Value::as_object)?;
    let each: Vec<String> = open.iter().map(|(profile, n)| format!("{n} x {profile}")).collect();
    (text(device, "/mig") == "on" && !each.is_empty()).then(|| each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn device(index: u32, numa: Option<u32>, pcie: Option<u32>, island: Option<u32>) -> Value {
        json!({"index": index, "model": "H100", "memory_bytes": 80_000_000_000_u64, "numa": numa, "pcie": pcie,
            "island": island, "health": "ok", "share": 0, "mig": null, "slices": [], "notes": []})
    }

    #[test]
    fn devices_stand_below_their_switches_with_their_slices() {
        let mut sliced = device(1, Some(0), Some(0), Some(0));
        sliced["mig"] = json!("on");
        sliced["slices"] = json!([
            {"number": 0, "profile": "3g.40gb", "order": "held", "isolation": "enforced"},
            {"number": 1, "profile": "1g.10gb", "order": null, "isolation": "enforced"}]);
        sliced["can_be_cut"] = json!({"2g.20gb": 1});
        let mut failed = device(2, Some(1), None, None);
        failed["health"] = json!("failed");
        failed["notes"] = json!(["health: error Xid 79 was reported"]);
        let mut shared = device(0, Some(0), Some(0), Some(0));
        shared["share"] = json!(255);
        shared["isolation"] = json!("advisory");
        shared["temperature_mc"] = json!(41_000);
        let node = json!({"name": "n1", "rack": "r7", "nvl_domain": null, "devices": [shared, sliced, failed],
            "ports": [{"name": "eth0", "rate_kbps": 100_000_000}]});
        let expected = "\
n1, rack r7, port eth0 100Gbps
├─ NUMA node 0
│  └─ PCIe switch 0
│     ├─ % 0  H100  80.0GB  41 C  25.5 % held in shares, advisory
│     └─ / 1  H100  80.0GB
│        ├─ # slice 0  3g.40gb  enforced
│        ├─ . slice 1  1g.10gb  enforced
│        └─ can still be cut: 1 x 2g.20gb
└─ NUMA node 1
   └─ x 2  H100  80.0GB  failed  (health: error Xid 79 was reported)
   NVLink island 0: 0 = 1";
        assert_eq!(picture(&node), expected);
    }

    #[test]
    fn a_node_of_which_no_level_is_known_is_a_list() {
        let node = json!({"name": "n1", "devices": [device(0, None, None, None), device(1, None, None, None)]});
        assert_eq!(picture(&node), "n1\n├─ . 0  H100  80.0GB\n└─ . 1  H100  80.0GB");
    }

    #[test]
    fn devices_show_free_held_shared_sliced_and_broken() {
        let device = |health: &str, mig: &str, share: i64| json!({"health": health, "mig": mig, "share": share});
        let marks = [
            device("ok", "off", 0),
            device("ok", "off", 1_000),
            device("ok", "off", 250),
            device("ok", "on", 500),
            device("failed", "off", 0),
        ];
        assert_eq!(marks.iter().map(mark).collect::<String>(), ".#%/x");
    }
}
