//! Sites of a generated fleet: where they are, what stands there and what it costs.

use super::{
    Size,
    map::{CITIES, City, Spot, degrees},
};
use crate::dice::Dice;
use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tier {
    Core,
    Cloud,
    Edge,
}

#[derive(Debug)]
pub(super) struct FleetSite {
    pub name: String,
    pub city: usize,
    pub spot: Spot,
    pub tier: Tier,
    pub document: Value,
}

/// Cities that a fleet of so many sites has.
pub(super) fn cities(sites: u32) -> usize {
    (sites as usize / 4).clamp(3, CITIES.len())
}

/// What a device model looks like in a node, and costs by the hour in hundredths of the currency.
struct Kind {
    model: &'static str,
    per_node: u64,
    fen: u64,
    /// Per node.
    cpu: u64,
    memory: &'static str,
}

const KINDS: [Kind; 8] = [
    Kind { model: "H100", per_node: 8, fen: 2_400, cpu: 96, memory: "1TiB" },
    Kind { model: "H200", per_node: 8, fen: 3_000, cpu: 128, memory: "2TiB" },
    Kind { model: "A100", per_node: 8, fen: 1_100, cpu: 96, memory: "1TiB" },
    Kind { model: "910C", per_node: 16, fen: 1_400, cpu: 192, memory: "2TiB" },
    Kind { model: "GB200", per_node: 4, fen: 4_600, cpu: 144, memory: "960GiB" },
    Kind { model: "MI300X", per_node: 8, fen: 2_100, cpu: 128, memory: "1TiB" },
    Kind { model: "L40S", per_node: 4, fen: 700, cpu: 64, memory: "512GiB" },
    Kind { model: "A10", per_node: 2, fen: 320, cpu: 32, memory: "128GiB" },
];

/// Relative rates by precision, as vendors state dense throughput.
pub(super) fn devices() -> Value {
    json!({
        "H100": {"memory": "80GiB", "bf16": 1.0, "fp16": 1.0, "fp8": 1.0, "int8": 1.0},
        "H200": {"memory": "141GiB", "bf16": 1.0, "fp16": 1.0, "fp8": 1.0, "int8": 1.0},
        "A100": {"memory": "80GiB", "bf16": 0.32, "fp16": 0.32, "int8": 0.32},
        "910C": {"memory": "128GiB", "bf16": 0.79, "fp16": 0.79, "int8": 0.76},
        "GB200": {"memory": "186GiB", "bf16": 2.5, "fp16": 2.5, "fp8": 2.5, "int8": 2.5},
        "MI300X": {"memory": "192GiB", "bf16": 1.32, "fp16": 1.32, "fp8": 1.32, "int8": 1.32},
        "L40S": {"memory": "48GiB", "bf16": 0.37, "fp16": 0.37, "fp8": 0.37, "int8": 0.37},
        "A10": {"memory": "24GiB", "bf16": 0.13, "fp16": 0.13, "int8": 0.13},
    })
}

pub(super) fn tier(index: u32) -> Tier {
    // one in twenty is a core site, one in four a cloud's; the rest stands at the edge
    match index {
        i if i % 20 == 0 => Tier::Core,
        i if i % 4 == 1 => Tier::Cloud,
        _ => Tier::Edge,
    }
}

/// All sites; together they have exactly `size.accelerators`.
pub(super) fn sites(dice: &mut Dice, size: Size) -> Vec<FleetSite> {
    let tiers: Vec<Tier> = (0..size.sites).map(tier).collect();
    let weights: Vec<u64> = tiers
        .iter()
        .map(|t| {
            let weight = match t {
                Tier::Core => 1_200,
                Tier::Cloud => 140,
                Tier::Edge => 14,
            };
            weight * dice.between(60, 140)
        })
        .collect();
    let all: u64 = weights.iter().sum();
    let mut left = u64::from(size.accelerators);
    let mut counts: Vec<u64> = Vec::with_capacity(tiers.len());
    for (tier, weight) in tiers.iter().zip(&weights) {
        let step = if *tier == Tier::Edge { 2 } else { 8 };
        let count = (u64::from(size.accelerators) * weight / all / step).max(1) * step;
        counts.push(count.min(left));
        left -= count.min(left);
    }
    // what rounding left over goes to the first core site
    if let Some(first) = counts.first_mut() {
        *first += left;
    }
    (0..size.sites).map(|i| site(dice, i, cities(size.sites), tiers[i as usize], counts[i as usize])).collect()
}

fn site(dice: &mut Dice, index: u32, cities: usize, tier: Tier, devices: u64) -> FleetSite {
    // one site in each city, and most of the others where most is built: in the first cities
    let drawn = dice.below(cities as u64).min(dice.below(cities as u64)) as usize;
    let at = if (index as usize) < cities { index as usize } else { drawn };
    let city = &CITIES[at];
    let around = |dice: &mut Dice| dice.between(0, 120) as i64 - 60;
    let spot = Spot { lat: city.lat + around(dice), lon: city.lon + around(dice) };
    let name = format!("{}-{index:04}", city.name);
    let (nodes, models) = nodes(dice, tier, devices);
    let labels: Vec<&str> = [("iso27001", 60), ("gov-cloud", 25), ("finance", 20), ("research", 30)]
        .into_iter()
        .filter_map(|(label, percent)| dice.chance(percent).then_some(label))
        .collect();
    let document = json!({
        "name": name,
        "tier": match tier { Tier::Core => "core", Tier::Cloud => "cloud", Tier::Edge => "edge" },
        "place": {"lat": degrees(spot.lat), "lon": degrees(spot.lon)},
        "jurisdiction": city.jurisdiction,
        "labels": labels,
        "prices": prices(dice, city, tier, &models),
        "nodes": nodes,
    });
    FleetSite { name, city: at, spot, tier, document }
}

/// Node entries, and the kinds of device in them.
fn nodes(dice: &mut Dice, tier: Tier, devices: u64) -> (Vec<Value>, Vec<&'static Kind>) {
    let (choice, pools, host): (&[usize], u64, Value) = match tier {
        Tier::Core => (
            &[0, 1, 2, 3, 4, 5],
            dice.between(1, 3),
            json!({"count": dice.between(16, 48), "cpu": 128, "memory": "512GiB"}),
        ),
        Tier::Cloud => (&[0, 1, 2, 5, 6], 2, json!({"count": dice.between(6, 16), "cpu": 96, "memory": "384GiB"})),
        Tier::Edge => (&[6, 7], 1, json!({"count": dice.between(2, 4), "cpu": 64, "memory": "256GiB"})),
    };
    let mut kinds: Vec<usize> = Vec::new();
    while kinds.len() < pools as usize {
        let kind = dice.one_of(choice);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let mut entries = Vec::new();
    let mut racks = 0;
    for (i, kind) in kinds.iter().map(|k| &KINDS[*k]).enumerate() {
        let share = devices / pools / 8 * 8;
        let count = if i as u64 + 1 == pools { devices - share * (pools - 1) } else { share };
        let racked = tier == Tier::Core || (tier == Tier::Cloud && dice.chance(50));
        pool(dice, kind, count, racked.then_some(&mut racks), &mut entries);
    }
    entries.push(host);
    (entries, kinds.into_iter().map(|k| &KINDS[k]).collect())
}

/// Nodes of one kind with `devices` in all: by NVLink or supernode domain, by rack, or all alike.
fn pool(dice: &mut Dice, kind: &Kind, devices: u64, racks: Option<&mut u64>, entries: &mut Vec<Value>) {
    let halves = kind.model == "A100" && dice.chance(50);
    let entry = |count: u64, devices: u64| {
        let islands: Vec<u64> = match kind.model {
            "L40S" | "A10" => vec![],
            _ if halves && devices == 8 => vec![4, 4],
            _ => vec![devices],
        };
        let two = if devices.is_multiple_of(2) { vec![devices / 2; 2] } else { vec![devices] };
        let group = json!({"model": kind.model, "count": devices, "islands": islands, "numa": two, "pcie": two});
        json!({"count": count, "accelerators": group, "cpu": kind.cpu, "memory": kind.memory})
    };
    // nodes that share a domain or a rack
    let domain = match kind.model {
        "GB200" => 18,
        "910C" => 32,
        _ => 0,
    };
    let mut nodes = devices / kind.per_node;
    match racks {
        None if nodes > 0 => entries.push(entry(nodes, kind.per_node)),
        None => {}
        Some(racks) => {
            while nodes > 0 {
                let here = nodes.min(if domain > 0 { domain } else { 4 });
                let mut row = entry(here, kind.per_node);
                if domain > 0 {
                    row["nvl_domain"] = json!(format!("d{racks:03}"));
                } else {
                    row["rack"] = json!(format!("r{racks:03}"));
                }
                *racks += 1;
                nodes -= here;
                entries.push(row);
            }
        }
    }
    if !devices.is_multiple_of(kind.per_node) {
        entries.push(entry(1, devices % kind.per_node));
    }
}

fn prices(dice: &mut Dice, city: &City, tier: Tier, models: &[&Kind]) -> Value {
    let dollars = city.continent != "east-asia" && dice.chance(40);
    let level = city.level * dice.between(85, 115) * if tier == Tier::Edge { 115 } else { 100 };
    let amount = |hundredths: u64| {
        let exact = hundredths * level / 10_000;
        // of dollars a seventh is as much
        let (exact, currency) = if dollars { ((exact / 7).max(1), "USD") } else { (exact.max(1), "CNY") };
        format!("{}.{:02} {currency}", exact / 100, exact % 100)
    };
    let mut book = json!({"cpu": amount(dice.between(15, 35)), "memory_gib": amount(dice.between(2, 4))});
    for kind in models {
        book[kind.model] = json!(amount(kind.fen));
    }
    let night = json!({"from": "22:00", "to": "08:00", "tz": city.zone, "factor": dice.one_of(&[0.5, 0.6, 0.7])});
    let peak = json!({"from": "14:00", "to": "18:00", "tz": city.zone, "factor": dice.one_of(&[1.2, 1.5])});
    match dice.below(4) {
        0 => book["windows"] = json!([night, peak]),
        1 => book["windows"] = json!([night]),
        _ => {}
    }
    book
}
