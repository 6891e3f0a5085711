//! Orders of two components and three flows for a generated fleet.
//!
//! Each order is drawn around one site that could take it: its models, labels and jurisdiction are that site's and its
//! delay bounds leave room for the way there, so that an order is refused because what it asks for is taken or rare, not
//! because it makes no sense. One in twenty then asks for something that nobody has.

use super::map::{Spot, fibre_us};
use crate::dice::Dice;
use rhumb_model::{FederationFile, Order, federation_file::SiteEntry, site::Coordinates};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const RATES: [&str; 7] = ["100Mbps", "200Mbps", "500Mbps", "1Gbps", "2Gbps", "5Gbps", "10Gbps"];

pub(super) fn orders(file: &FederationFile, count: u32, dice: &mut Dice) -> Vec<Order> {
    let mut places: BTreeMap<&str, Spot> = BTreeMap::new();
    for site in &file.sites {
        places.insert(site.name.as_str(), site.place.map(spot).unwrap_or_default());
    }
    for point in &file.transit {
        places.insert(point.name.as_str(), point.place.map(spot).unwrap_or_default());
    }
    let sites = file.sites.iter().map(|s| (s.name.as_str(), s)).collect();
    let mut market = Market { pools: pools(file, &places), file, places, sites, dice };
    (0..count).map(|index| market.order(index)).collect()
}

/// Every entry of devices, with the devices up to and with it.
fn pools<'a>(file: &'a FederationFile, places: &BTreeMap<&str, Spot>) -> Vec<(u64, Target<'a>)> {
    let mut pools = Vec::new();
    let mut sum = 0;
    for site in &file.sites {
        for (node, group) in site.nodes.iter().flat_map(|n| n.accelerators.0.iter().map(move |g| (n, g))) {
            sum += u64::from(node.count) * u64::from(group.count);
            let island = group.islands.iter().min().copied().unwrap_or(group.count).into();
            let at = places.get(site.name.as_str()).copied().unwrap_or_default();
            pools.push((sum, Target { site, at, model: group.model.as_str(), island }));
        }
    }
    pools
}

fn spot(at: Coordinates) -> Spot {
    let hundredths = |d: rhumb_model::ratio::Decimal| {
        let exact = d.ratio() * rhumb_model::ratio::Ratio::from_integer(100);
        i64::try_from(exact.floor().to_integer()).unwrap_or(0)
    };
    Spot { lat: hundredths(at.lat), lon: hundredths(at.lon) }
}

/// The site an order is drawn around, and what it has.
#[derive(Clone, Copy)]
struct Target<'a> {
    site: &'a SiteEntry,
    at: Spot,
    model: &'a str,
    /// Devices of that model in one NVLink island, or in one node where it has none.
    island: u64,
}

/// A dataset and the copy that is nearest to the target.
struct Source {
    end: String,
    at: Spot,
    gb: u64,
    /// A copy is in the target's jurisdiction.
    home: bool,
}

struct Market<'a> {
    file: &'a FederationFile,
    places: BTreeMap<&'a str, Spot>,
    /// Sites by name, and each pool of equal devices with the devices up to it.
    sites: BTreeMap<&'a str, &'a SiteEntry>,
    pools: Vec<(u64, Target<'a>)>,
    dice: &'a mut Dice,
}

impl<'a> Market<'a> {
    fn order(&mut self, index: u32) -> Order {
        let target = self.target();
        let (mut document, home) = match self.dice.below(20) {
            0..=6 => self.training(target),
            7..=12 => self.inference(target),
            13..=16 => self.tuning(target),
            _ => self.processing(target),
        };
        document["name"] = json!(format!("order-{index:05}"));
        self.constrain(target, home, &mut document);
        if self.dice.chance(5) {
            self.spoil(&mut document);
        }
        Order::read(&document.to_string()).expect("a generated order is sound")
    }

    /// A pool is drawn as often as it has devices: demand is where supply is.
    fn target(&mut self) -> Target<'a> {
        let all = self.pools.last().map_or(1, |(sum, _)| *sum);
        let drawn = self.dice.below(all);
        let index = self.pools.partition_point(|(sum, _)| *sum <= drawn);
        self.pools[index.min(self.pools.len() - 1)].1
    }

    /// One of three datasets: the one nearest to the target, most of the time.
    fn source(&mut self, target: Target) -> Source {
        let few = if self.dice.chance(80) { 3 } else { 1 };
        let mut best: Option<(u64, Source)> = None;
        for _ in 0..few {
            let Some(data) = self.file.datasets.get(self.dice.below(self.file.datasets.len() as u64) as usize) else {
                continue;
            };
            let copies = data.at.iter().filter_map(|s| self.sites.get(s.as_str()));
            let home = copies.clone().any(|s| s.jurisdiction == target.site.jurisdiction);
            let near = copies
                .filter_map(|s| self.places.get(s.name.as_str()))
                .map(|at| (fibre_us(*at, target.at), *at))
                .min_by_key(|(us, _)| *us);
            let Some((us, at)) = near else { continue };
            if best.as_ref().is_none_or(|(known, _)| us < *known) {
                let gb = data.size.bytes() / 1_000_000_000;
                best = Some((us, Source { end: format!("dataset/{}", data.name), at, gb, home }));
            }
        }
        best.map(|(_, source)| source).expect("a generated fleet has datasets with copies")
    }

    fn rate(&mut self) -> &'static str {
        self.dice.one_of(&RATES)
    }

    /// A third of all flows have a bound: what the way takes with detours, and up to twice that.
    fn bounded(&mut self, mut flow: Value, from: Spot, to: Spot, access_us: u64) -> Value {
        if self.dice.below(3) == 0 {
            let way = fibre_us(from, to) * 2 + 6_000;
            let bound = (way * self.dice.between(100, 200) / 100 + access_us).div_ceil(1_000);
            flow["max_latency"] = json!(format!("{bound}ms"));
        }
        flow
    }

    fn staged(&mut self, source: &Source, to: &str, target: Target) -> Value {
        let gb = self.dice.between(1, source.gb.min(500));
        let mut flow = json!({"from": source.end, "to": to, "volume": format!("{gb}GB")});
        if self.dice.chance(50) {
            flow["rate"] = json!(self.rate());
        }
        self.bounded(flow, source.at, target.at, 0)
    }

    fn stored(&mut self, from: &str, source: &Source, target: Target) -> Value {
        let gb = self.dice.between(1, 100);
        let flow = json!({"from": from, "to": source.end, "volume": format!("{gb}GB"), "rate": self.rate()});
        self.bounded(flow, target.at, source.at, 0)
    }

    fn joined(&mut self, from: &str, to: &str, target: Target) -> Value {
        let flow = json!({"from": from, "to": to, "rate": self.rate()});
        self.bounded(flow, target.at, target.at, 0)
    }

    fn accelerators(&mut self, target: Target, counts: &[u64], precision: &str) -> Value {
        let count = self.dice.one_of(counts).min(target.island);
        let mut models = vec![target.model];
        if self.dice.chance(60) {
            models.push(self.dice.one_of(&["H100", "H200", "A100", "910C", "GB200", "MI300X"]));
        }
        models.sort_unstable();
        models.dedup();
        let mut asked = json!({"count": count, "models": models, "precision": precision});
        // all models but those of the edge have NVLink or its like
        if count > 1 && !["L40S", "A10"].contains(&target.model) && self.dice.chance(60) {
            asked["interconnect"] = json!("nvlink");
        }
        asked
    }

    fn training(&mut self, target: Target) -> (Value, bool) {
        let source = self.source(target);
        let asked = self.accelerators(target, &[2, 4, 8, 8], "fp16");
        let replicas = if target.island >= 4 { self.dice.one_of(&[1, 1, 2, 2, 4]) } else { 1 };
        let document = json!({
            "class": "training",
            "components": [
                {"name": "trainer", "replicas": replicas, "need": {"accelerators": asked, "cpu": 8, "memory": "64GiB"},
                    "work": {"hours": self.dice.between(1, 24), "reference": "H100"}},
                {"name": "feeder", "need": {"cpu": self.dice.one_of(&[4, 8, 16]), "memory": "32GiB"},
                    "work": {"duration": format!("{}h", self.dice.between(1, 24))}},
            ],
            "flows": [
                self.staged(&source, "feeder", target),
                self.joined("feeder", "trainer", target),
                self.stored("trainer", &source, target),
            ],
            "terms": {"value_per_hour": format!("{} CNY", self.dice.between(5, 200))},
        });
        (document, source.home)
    }

    fn inference(&mut self, target: Target) -> (Value, bool) {
        let source = self.source(target);
        let asked = self.accelerators(target, &[1, 1, 2], "int8");
        // of a few regions the nearest: a service stands near its users
        let regions = &self.file.regions;
        let drawn: Vec<usize> = (0..8).map(|_| self.dice.below(regions.len() as u64) as usize).collect();
        let at = |i: usize| self.places.get(regions[i].at.as_str()).copied().unwrap_or_default();
        let users = drawn.into_iter().min_by_key(|i| (fibre_us(at(*i), target.at), *i)).unwrap_or(0);
        let (from, access) = (at(users), regions[users].access.micros());
        let demand = self.dice.between(5, 40);
        let asking = json!({"from": format!("region/{}", regions[users].name), "to": "server",
            "demand": format!("{demand}rps"), "rate": self.rate()});
        let document = json!({
            "class": "inference",
            "components": [
                {"name": "server", "replicas": {"min": 1, "max": 8}, "need": {"accelerators": asked, "cpu": 8, "memory": "32GiB"},
                    "service": {"serves": "10rps", "port": 8000}},
                {"name": "store", "need": {"cpu": 8, "memory": "64GiB"}, "service": {"serves": "1000rps", "port": 9000}},
            ],
            "flows": [
                self.bounded(asking, from, target.at, access),
                self.joined("store", "server", target),
                self.staged(&source, "store", target),
            ],
            "terms": {"horizon": format!("{}h", self.dice.one_of(&[12, 24, 48]))},
        });
        (document, source.home)
    }

    fn tuning(&mut self, target: Target) -> (Value, bool) {
        let source = self.source(target);
        let asked = self.accelerators(target, &[1, 2, 4], "fp16");
        let mut document = json!({
            "class": "tuning",
            "components": [
                {"name": "tuner", "need": {"accelerators": asked, "cpu": 8, "memory": "48GiB"},
                    "work": {"hours": self.dice.between(1, 8), "reference": "H100"}},
                {"name": "judge", "need": {"cpu": 8, "memory": "32GiB"}, "work": {"duration": "2h"}},
            ],
            "flows": [
                self.staged(&source, "tuner", target),
                self.joined("tuner", "judge", target),
                self.stored("judge", &source, target),
            ],
        });
        match self.dice.below(3) {
            // waits for a cheaper hour
            0 => {
                document["terms"] = json!({"deadline": format!("2026-12-{:02}T08:00:00Z", self.dice.between(5, 9))});
            }
            1 => {
                document["terms"] = json!({"deadline": format!("2026-12-01T{:02}:00:00Z", self.dice.between(5, 20)),
                    "late_per_hour": "80 CNY", "value_per_hour": "20 CNY"});
            }
            _ => {}
        }
        (document, source.home)
    }

    fn processing(&mut self, target: Target) -> (Value, bool) {
        let source = self.source(target);
        let sink = self.source(target);
        let worker = self.dice.between(1, 4);
        let document = json!({
            "class": "processing",
            "components": [
                {"name": "reader", "need": {"cpu": 16, "memory": "64GiB"}, "work": {"duration": "2h"}},
                {"name": "worker", "replicas": worker, "need": {"cpu": 32, "memory": "64GiB"}, "work": {"duration": "3h"}},
            ],
            "flows": [
                self.staged(&source, "reader", target),
                self.joined("reader", "worker", target),
                self.stored("worker", &sink, target),
            ],
        });
        (document, source.home && sink.home)
    }

    /// What the target has, some ask for.
    fn constrain(&mut self, target: Target, home: bool, document: &mut Value) {
        let mut constraints = json!({});
        if home
            && let Some(j) = target.site.jurisdiction.as_ref().filter(|_| self.dice.chance(30))
            && document["class"] != "inference"
        {
            constraints["jurisdictions"] = json!([j]);
        }
        let labels: Vec<_> = target.site.labels.iter().collect();
        if !labels.is_empty() && self.dice.chance(12) {
            constraints["labels"] = json!([self.dice.one_of(&labels)]);
        }
        if self.dice.chance(6) {
            constraints["encrypted"] = json!(true);
        }
        if self.dice.chance(10) {
            constraints["max_sites"] = json!(1);
        }
        document["constraints"] = constraints;
        let priority = self.dice.one_of(&[30, 50, 50, 50, 70]);
        if document.get("terms").is_none() {
            document["terms"] = json!({});
        }
        document["terms"]["priority"] = json!(priority);
    }

    /// Asks for one thing that nobody has.
    fn spoil(&mut self, document: &mut Value) {
        match self.dice.below(6) {
            // less than the users' own line takes, or than anything but the spot itself
            0 if document["class"] == "inference" => document["flows"][0]["max_latency"] = json!("900us"),
            0 | 1 => document["terms"]["budget"] = json!("0.01 CNY"),
            2 => document["constraints"]["labels"] = json!(["air-gapped"]),
            3 => {
                document["terms"]["deadline"] = json!("2026-12-01T03:18:00Z");
                if let Some(terms) = document["terms"].as_object_mut() {
                    terms.remove("late_per_hour");
                }
            }
            4 => document["components"][0]["need"]["memory"] = json!("64TiB"),
            _ => document["constraints"]["jurisdictions"] = json!(["AQ"]),
        }
    }
}
