//! The matrix of `topo -m`, of any maker, with or without NICs.

use crate::{
    accelerator::{Accelerator, Vendor},
    snapshot::{Nic, Snapshot},
    topology::{ENDS, End, LinkKind, Topology},
    value::{Value, count, parsed, text},
};

/// Columns beside the matrix; their names have several words.
const BESIDE: [&str; 4] = ["CPU Affinity", "NUMA Affinity", "Node Affinity", "GPU NUMA ID"];

pub(super) fn read(raw: &str, shown: &mut Snapshot) -> bool {
    let lines: Vec<&str> = raw.lines().collect();
    let found = (0..lines.len()).find_map(|at| Heading::of(lines[at], lines.get(at + 1..)?).map(|h| (at, h)));
    // AMD's matrices of weights and hops are read with its values
    let Some((at, heading)) = found.filter(|_| !raw.contains("two GPUs")) else { return false };
    let vendor = if raw.contains("MetaX") || raw.contains("MX   =") {
        Value::Known(Vendor::Metax)
    } else if heading.columns.iter().any(|c| c.starts_with("NPU") || c.starts_with("Phy")) {
        Value::Known(Vendor::Huawei)
    } else if raw.contains("NVLink") || lines[at + 1..].iter().any(|l| l.contains("NV")) {
        Value::Known(Vendor::Nvidia)
    } else {
        Value::default()
    };
    heading.fill(&lines[at + 1..], &vendor, shown);
    for line in &lines {
        if let Some((label, name)) = line.trim().split_once(": ").filter(|(label, _)| is_nic(label))
            && let Some(at) = heading.nics().position(|nic| nic == label)
            && let Some(nic) = shown.nics.get_mut(at)
        {
            nic.name = text(name);
        }
    }
    true
}

struct Heading<'a> {
    columns: Vec<&'a str>,
    beside: Vec<&'static str>,
}

/// `GPU0`, `NPU0`, and of cards with two chips `Phy-ID0`.
fn number(label: &str) -> Option<&str> {
    ["GPU", "NPU", "Phy-ID"].iter().find_map(|kind| label.strip_prefix(kind))
}

fn is_accelerator(label: &str) -> bool {
    let number = number(label);
    number.is_some_and(|n| !n.is_empty() && n.len() <= 4 && n.bytes().all(|b| b.is_ascii_digit()))
}

fn is_nic(label: &str) -> bool {
    !is_accelerator(label)
        && label.starts_with(|c: char| c.is_ascii_alphabetic())
        && label.ends_with(|c: char| c.is_ascii_digit())
}

impl<'a> Heading<'a> {
    /// A line of labels; the next lines begin with them.
    fn of(line: &'a str, after: &[&str]) -> Option<Self> {
        let start = BESIDE.iter().filter_map(|name| line.find(name)).min().unwrap_or(line.len());
        let columns: Vec<&str> = line[..start].split_whitespace().collect();
        let (&first, _) = columns.split_first()?;
        let labels = columns.iter().all(|c| is_accelerator(c) || is_nic(c));
        let follows = after.iter().find(|l| !l.trim().is_empty())?.split_whitespace().next() == Some(first);
        if !labels || !is_accelerator(first) || !follows || columns.len() > ENDS {
            return None;
        }
        let mut beside: Vec<(usize, &str)> = BESIDE.iter().filter_map(|n| Some((line.find(n)?, *n))).collect();
        beside.sort_unstable();
        Some(Self { columns, beside: beside.into_iter().map(|(_, n)| n).collect() })
    }

    fn nics(&self) -> impl Iterator<Item = &'a str> {
        self.columns.iter().copied().filter(|c| !is_accelerator(c))
    }

    fn fill(&self, lines: &[&str], vendor: &Value<Vendor>, shown: &mut Snapshot) {
        let mut ends = Vec::new();
        for label in &self.columns {
            if is_accelerator(label) {
                let index = count(number(label).unwrap_or_default());
                let row = Accelerator { index, vendor: vendor.clone(), ..Accelerator::default() };
                shown.accelerators.push(row);
            } else {
                let name = if label.starts_with("NIC") { Value::default() } else { text(label) };
                shown.nics.push(Nic { name, ..Nic::default() });
            }
            let accelerator = is_accelerator(label).then(|| shown.accelerators.len() - 1);
            ends.push(End { label: (*label).to_owned(), accelerator });
        }
        let mut topology = Topology::between(ends);
        let mut seen = vec![false; self.columns.len()];
        for line in lines {
            let mut tokens = line.split_whitespace();
            let Some(at) = tokens.next().and_then(|label| self.columns.iter().position(|c| *c == label)) else {
                if seen.iter().any(|s| *s) {
                    break;
                }
                continue;
            };
            let cells: Vec<&str> = tokens.collect();
            if cells.len() < self.columns.len() {
                shown.note(format!(
                    "the row of {} has {} of {} links",
                    self.columns[at],
                    cells.len(),
                    self.columns.len()
                ));
                continue;
            }
            seen[at] = true;
            for (to, word) in cells.iter().take(self.columns.len()).enumerate() {
                let kind = LinkKind::of(word);
                if let LinkKind::Other(word) = &kind {
                    shown.note(format!("a link of kind {word:?}, which is not known"));
                }
                if (kind == LinkKind::Itself) != (at == to) {
                    shown.note(format!("{} and {} are joined by {word:?}", self.columns[at], self.columns[to]));
                }
                topology.links[at][to] = kind;
            }
            if let Some(position) = topology.ends[at].accelerator {
                let rest = &cells[self.columns.len()..];
                self.beside(rest, &mut shown.accelerators[position]);
            }
        }
        for (label, _) in self.columns.iter().zip(&seen).filter(|(_, seen)| !**seen) {
            shown.note(format!("{label} has a column and no row"));
        }
        let n = self.columns.len();
        let uneven = (0..n).any(|a| (0..a).any(|b| seen[a] && seen[b] && topology.links[a][b] != topology.links[b][a]));
        if uneven {
            shown.note("the matrix says different things in its two directions");
        }
        shown.topology = Some(topology);
    }

    fn beside(&self, cells: &[&str], row: &mut Accelerator) {
        for (name, cell) in self.beside.iter().zip(cells) {
            match *name {
                "CPU Affinity" => {
                    let is_list = |t: &str| t.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b','));
                    row.cpus = parsed(cell, |t| is_list(t).then(|| t.to_owned()));
                }
                "NUMA Affinity" | "Node Affinity" => row.numa = parsed(cell, |t| t.parse().ok()),
                _ => {}
            }
        }
    }
}
