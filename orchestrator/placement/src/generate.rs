//! Seeded federations and orders of any size: the same seed gives the same documents. Here small ones of every kind, for
//! tests; in `workload` a realistic fleet and what is ordered of it, for benchmarks.

mod demand;
mod fleet;
mod map;
mod mesh;
pub mod workload;

use crate::dice::Dice;
use rhumb_model::{FederationFile, Order};
use serde_json::{Value, json};

/// How large a federation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub sites: u32,
    /// Links declared both ways; at least enough to join every point.
    pub links: u32,
    pub accelerators: u32,
}

impl Size {
    /// Sites with about four links and 64 accelerators each.
    pub fn of(sites: u32) -> Self {
        Self { sites, links: sites * 2, accelerators: sites * 64 }
    }
}

const ZONES: [&str; 5] =
    ["Asia/Shanghai", "Asia/Singapore", "Europe/Berlin", "America/New_York", "America/Los_Angeles"];
const JURISDICTIONS: [&str; 5] = ["CN", "SG", "DE", "US", "US"];

/// Datasets and regions in a generated federation of so many sites.
fn datasets(sites: u32) -> u32 {
    (sites / 4).clamp(1, 64)
}

fn regions(sites: u32) -> u32 {
    (sites / 4).clamp(1, 32)
}

/// A federation: sites on a plane in five price zones, transit points between them, near points linked first.
pub fn federation(size: Size, seed: u64) -> FederationFile {
    let mut dice = Dice::new(seed);
    let sites = size.sites.max(2);
    let transit = (sites / 5).max(1);
    let mut places: Vec<(String, i64, i64)> = Vec::new();
    let mut site_list = Vec::new();
    let each = (size.accelerators / sites).max(8);
    for i in 0..sites {
        let zone = dice.below(5) as usize;
        let (x, y) = (zone as i64 * 3_000 + dice.below(2_500) as i64, dice.below(2_500) as i64);
        let name = format!("site-{i:04}");
        let model = dice.one_of(&["H100", "A100", "L40S"]);
        let nodes = u64::from(each / 8).max(1);
        let base = dice.between(800, 1_600);
        let window =
            json!({"from": "22:00", "to": "08:00", "tz": ZONES[zone], "factor": dice.one_of(&[0.5, 0.6, 0.7])});
        let windows: Vec<Value> = if dice.below(2) == 0 { vec![window] } else { vec![] };
        site_list.push(json!({
            "name": name,
            "jurisdiction": JURISDICTIONS[zone],
            "labels": if dice.below(3) == 0 { vec!["gov-cloud"] } else { vec![] },
            "prices": {
                "H100": format!("{}.{:02} CNY", base * 2 / 100, base % 100),
                "A100": format!("{}.{:02} CNY", base / 100, base % 100),
                "L40S": format!("{}.{:02} CNY", base / 200, base % 100),
                "cpu": format!("0.{:02} CNY", dice.between(10, 30)),
                "memory_gib": "0.02 CNY",
                "windows": windows,
            },
            "nodes": [
                {"count": nodes, "accelerators": {"model": model, "count": 8, "islands": [8]}, "cpu": 96, "memory": "1TiB"},
                {"count": dice.between(1, 4), "cpu": 64, "memory": "256GiB"},
            ],
        }));
        places.push((name, x, y));
    }
    for i in 0..transit {
        places.push((format!("pop-{i:04}"), dice.below(15_000) as i64, dice.below(2_500) as i64));
    }
    let transit_list: Vec<Value> = (0..transit)
        .map(|i| json!({"name": format!("pop-{i:04}"), "jurisdiction": dice.one_of(&JURISDICTIONS)}))
        .collect();
    let links = links(&mut dice, &places, size.links);
    let data: Vec<Value> = (0..datasets(sites))
        .map(|i| {
            let copies: std::collections::BTreeSet<u64> =
                (0..dice.between(1, 3)).map(|_| dice.below(sites.into())).collect();
            let at: Vec<String> = copies.iter().map(|s| format!("site-{s:04}")).collect();
            json!({"name": format!("data-{i:03}"), "size": format!("{}GB", dice.between(10, 4_000)), "at": at})
        })
        .collect();
    let region_list: Vec<Value> = (0..regions(sites))
        .map(|i| {
            let at = &places[dice.below(places.len() as u64) as usize].0;
            json!({"name": format!("users-{i:03}"), "at": at, "access": format!("{}ms", dice.between(1, 5))})
        })
        .collect();
    let document = json!({
        "currency": "CNY",
        "devices": {
            "H100": {"memory": "80GiB", "fp16": 1.0, "int8": 1.0},
            "A100": {"memory": "80GiB", "fp16": 0.42, "int8": 0.32},
            "L40S": {"memory": "48GiB", "fp16": 0.36, "int8": 0.36},
        },
        "sites": site_list,
        "transit": transit_list,
        "links": links,
        "datasets": data,
        "regions": region_list,
    });
    FederationFile::read(&document.to_string()).expect("a generated federation is sound")
}

type Spot = (String, i64, i64);

fn apart(p: &Spot, q: &Spot) -> u64 {
    (p.1 - q.1).unsigned_abs() + (p.2 - q.2).unsigned_abs()
}

fn links(dice: &mut Dice, places: &[Spot], wanted: u32) -> Vec<Value> {
    let mut links = Vec::new();
    // each point to the nearest before it, so that all are joined
    for i in 1..places.len() {
        if let Some(j) = (0..i).min_by_key(|j| (apart(&places[i], &places[*j]), *j)) {
            links.push(link(dice, links.len(), &places[i], &places[j]));
        }
    }
    while links.len() < wanted as usize {
        let point = |dice: &mut Dice| dice.below(places.len() as u64) as usize;
        let a = point(dice);
        // of a few, the nearest
        let few: Vec<usize> = (0..6).map(|_| point(dice)).filter(|b| *b != a).collect();
        if let Some(b) = few.into_iter().min_by_key(|b| apart(&places[a], &places[*b])) {
            links.push(link(dice, links.len(), &places[a], &places[b]));
        }
    }
    links
}

fn link(dice: &mut Dice, index: usize, from: &Spot, to: &Spot) -> Value {
    // 5 us per km of fibre, and 1.4 km of fibre per km of map
    let latency = (apart(from, to) * 7).max(100);
    json!({
        "id": format!("l{index:05}"),
        "from": from.0,
        "to": to.0,
        "both_ways": true,
        "capacity": dice.one_of(&["1Gbps", "10Gbps", "40Gbps", "100Gbps"]),
        "latency": format!("{latency}us"),
        "per_gb": format!("0.{:03} CNY", dice.between(5, 150)),
        "per_mbps_hour": format!("0.{:04} CNY", dice.between(10, 300)),
        "jurisdictions": [JURISDICTIONS[(from.1 / 3_000).clamp(0, 4) as usize]],
        "encrypted": dice.below(3) == 0,
    })
}

/// `count` orders of five kinds for a federation that `federation` made with so many sites: training near its data,
/// training over several sites, a service near its users, tuning in a cheap window, processing with residency.
pub fn orders(sites: u32, count: u32, seed: u64) -> Vec<Order> {
    let mut dice = Dice::new(seed ^ 0x5eed);
    let sites = sites.max(2);
    (0..count)
        .map(|i| {
            let data = format!("dataset/data-{:03}", dice.below(datasets(sites).into()));
            let users = format!("region/users-{:03}", dice.below(regions(sites).into()));
            let document = match i % 5 {
                0 => json!({"class": "training",
                    "components": [trainer(&mut dice, 1)],
                    "flows": [{"from": data, "to": "trainer"}],
                    "terms": {"value_per_hour": format!("{} CNY", dice.between(5, 60))}}),
                1 => json!({"class": "training",
                    "components": [trainer(&mut dice, 2), {"name": "feeder", "need": {"cpu": 16, "memory": "32GiB"}, "work": {"duration": "4h"}}],
                    "flows": [
                        {"from": data, "to": "feeder", "volume": format!("{}GB", dice.between(50, 500))},
                        {"from": "feeder", "to": "trainer", "rate": "500Mbps", "max_latency": "60ms"},
                        {"from": "trainer", "to": "trainer", "rate": "1Gbps", "max_latency": "30ms"},
                    ]}),
                2 => json!({"class": "inference",
                    "components": [{"name": "server", "replicas": {"min": 1, "max": 8},
                        "need": {"accelerators": {"count": 1, "models": ["A100", "L40S"], "precision": "int8"}, "cpu": 8},
                        "service": {"serves": "10rps", "port": 8000}}],
                    "flows": [{"from": users, "to": "server", "demand": format!("{}rps", dice.between(5, 40)), "rate": "40Mbps",
                        "max_latency": format!("{}ms", dice.between(20, 60))}]}),
                3 => json!({"class": "tuning",
                    "components": [trainer(&mut dice, 1)],
                    "flows": [{"from": data, "to": "trainer", "volume": "20GB"}],
                    "terms": {"deadline": format!("2026-12-{:02}T08:00:00Z", dice.between(2, 3))}}),
                _ => json!({"class": "processing",
                    "components": [{"name": "worker", "replicas": dice.between(1, 4), "need": {"cpu": 32, "memory": "64GiB"}, "work": {"duration": "2h"}}],
                    "flows": [{"from": data, "to": "worker", "volume": "100GB"}, {"from": "worker", "to": data, "volume": "10GB"}],
                    "constraints": {"jurisdictions": [dice.one_of(&JURISDICTIONS)]}}),
            };
            let mut document = document;
            document["name"] = json!(format!("order-{i:05}"));
            Order::read(&document.to_string()).expect("a generated order is sound")
        })
        .collect()
}

fn trainer(dice: &mut Dice, replicas: u32) -> Value {
    json!({
        "name": "trainer",
        "replicas": replicas,
        "need": {"accelerators": {"count": dice.one_of(&[1, 2, 4, 8]), "models": ["H100", "A100"], "interconnect": "nvlink"},
            "cpu": 8, "memory": "64GiB"},
        "work": {"hours": dice.between(1, 12), "reference": "H100"},
    })
}
