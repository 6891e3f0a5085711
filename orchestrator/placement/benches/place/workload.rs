//! A federation and orders of the size that decisions are measured on: sites on a plane, near points linked first, and
//! orders of two components and three flows.

use rhumb_model::{FederationFile, Order};
use serde_json::{Value, json};

/// Splitmix64: the same everywhere.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

const ZONES: [&str; 5] =
    ["Asia/Shanghai", "Asia/Singapore", "Europe/Berlin", "America/New_York", "America/Los_Angeles"];
const JURISDICTIONS: [&str; 5] = ["CN", "SG", "DE", "US", "US"];

#[derive(Debug)]
pub struct Size {
    pub sites: u64,
    pub links: usize,
    pub accelerators: u64,
}

impl Size {
    pub fn of(sites: u64) -> Self {
        Self { sites, links: sites as usize * 3, accelerators: sites * 100 }
    }

    fn datasets(&self) -> u64 {
        (self.sites / 2).clamp(2, 100)
    }
}

type Spot = (String, i64, i64);

fn apart(p: &Spot, q: &Spot) -> u64 {
    (p.1 - q.1).unsigned_abs() + (p.2 - q.2).unsigned_abs()
}

/// Sites with nodes of eight devices in racks of four, in five price zones.
pub fn federation(size: &Size, seed: u64) -> FederationFile {
    let mut dice = Dice(seed);
    let mut places: Vec<Spot> = Vec::new();
    let mut sites = Vec::new();
    let each = (size.accelerators / size.sites).max(8);
    for i in 0..size.sites {
        let zone = dice.below(5) as usize;
        let (x, y) = (zone as i64 * 3_000 + dice.below(2_500) as i64, dice.below(2_500) as i64);
        let model = dice.one_of(&["H100", "A100", "L40S"]);
        let base = dice.between(800, 1_600);
        let window =
            json!({"from": "22:00", "to": "08:00", "tz": ZONES[zone], "factor": dice.one_of(&[0.5, 0.6, 0.7])});
        let windows: Vec<Value> = if dice.below(2) == 0 { vec![window] } else { vec![] };
        let mut nodes = vec![json!({"count": dice.between(1, 4), "cpu": 64, "memory": "256GiB"})];
        let mut left = each;
        let mut rack = 0;
        while left > 0 {
            let count = left.div_ceil(8).min(4);
            nodes.push(json!({"count": count, "accelerators": {"model": model, "count": 8, "islands": [8]}, "cpu": 96,
                "memory": "1TiB", "rack": format!("r{rack}")}));
            left = left.saturating_sub(count * 8);
            rack += 1;
        }
        sites.push(json!({
            "name": format!("site-{i:04}"),
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
            "nodes": nodes,
        }));
        places.push((format!("site-{i:04}"), x, y));
    }
    let links = links(&mut dice, &places, size.links);
    let some = size.datasets();
    let datasets: Vec<Value> = (0..some)
        .map(|i| {
            let copies: std::collections::BTreeSet<u64> =
                (0..dice.between(1, 3)).map(|_| dice.below(size.sites)).collect();
            let at: Vec<String> = copies.iter().map(|s| format!("site-{s:04}")).collect();
            json!({"name": format!("data-{i:03}"), "size": format!("{}GB", dice.between(10, 4_000)), "at": at})
        })
        .collect();
    let regions: Vec<Value> = (0..some)
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
        "sites": sites,
        "links": links,
        "datasets": datasets,
        "regions": regions,
    });
    FederationFile::read(&document.to_string()).expect("a generated federation is sound")
}

fn links(dice: &mut Dice, places: &[Spot], wanted: usize) -> Vec<Value> {
    let mut links = Vec::new();
    for i in 1..places.len() {
        if let Some(j) = (0..i).min_by_key(|j| (apart(&places[i], &places[*j]), *j)) {
            links.push(link(dice, links.len(), &places[i], &places[j]));
        }
    }
    while links.len() < wanted {
        let a = dice.below(places.len() as u64) as usize;
        let few: Vec<usize> = (0..6).map(|_| dice.below(places.len() as u64) as usize).filter(|b| *b != a).collect();
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
        "capacity": dice.one_of(&["10Gbps", "40Gbps", "100Gbps", "400Gbps"]),
        "latency": format!("{latency}us"),
        "per_gb": format!("0.{:03} CNY", dice.between(5, 150)),
        "per_mbps_hour": format!("0.{:04} CNY", dice.between(10, 300)),
        "jurisdictions": [JURISDICTIONS[(from.1 / 3_000).clamp(0, 4) as usize]],
        "encrypted": dice.below(3) == 0,
    })
}

/// Orders of two components and three flows: rates of 100 Mbit/s to 10 Gbit/s, a third bounded in delay, one in twenty
/// asking for what is nowhere.
pub fn orders(size: &Size, count: u64, seed: u64) -> Vec<Order> {
    let mut dice = Dice(seed ^ 0x5eed);
    (0..count)
        .map(|i| {
            let data = format!("dataset/data-{:03}", dice.below(size.datasets()));
            let users = format!("region/users-{:03}", dice.below(size.datasets()));
            let bounded = dice.below(3) == 0;
            let rate = |dice: &mut Dice| format!("{}Mbps", dice.one_of(&[100, 100, 200, 500, 1_000, 2_000, 5_000, 10_000]));
            let mut between = json!({"from": "feeder", "to": "trainer", "rate": rate(&mut dice)});
            if bounded {
                between["max_latency"] = json!(format!("{}ms", dice.between(5, 40)));
            }
            let replicas = dice.one_of(&[1, 1, 1, 2, 4]);
            let mut trainer = json!({
                "name": "trainer",
                "replicas": replicas,
                "need": {"accelerators": {"count": dice.one_of(&[1, 2, 4, 8]), "models": ["H100", "A100"], "interconnect": "nvlink"},
                    "cpu": 8, "memory": "64GiB"},
                "work": {"hours": dice.between(1, 12), "reference": "H100"},
            });
            let feeder = json!({"name": "feeder", "need": {"cpu": dice.between(2, 16), "memory": "32GiB"}, "work": {"duration": "4h"}});
            let mut terms = json!({});
            let mut flows = vec![json!({"from": data, "to": "feeder", "volume": format!("{}GB", dice.between(50, 2_000))}), between];
            match i % 4 {
                0 => flows.push(json!({"from": "trainer", "to": data, "volume": format!("{}GB", dice.between(1, 50))})),
                1 => {
                    flows.push(json!({"from": data, "to": "trainer", "rate": rate(&mut dice)}));
                    terms["value_per_hour"] = json!(format!("{} CNY", dice.between(5, 60)));
                }
                2 => {
                    trainer["need"]["accelerators"]["precision"] = json!("int8");
                    trainer["need"]["accelerators"]["count"] = json!(1);
                    trainer["replicas"] = json!({"min": 1, "max": 8});
                    trainer["service"] = json!({"serves": "10rps", "port": 8000});
                    trainer.as_object_mut().map(|t| t.remove("work"));
                    let mut demand = json!({"from": users, "to": "trainer", "demand": format!("{}rps", dice.between(5, 40)),
                        "rate": rate(&mut dice)});
                    if bounded {
                        demand["max_latency"] = json!(format!("{}ms", dice.between(20, 60)));
                    }
                    flows.push(demand);
                }
                _ => {
                    flows.push(json!({"from": data, "to": "trainer", "volume": format!("{}GB", dice.between(10, 200))}));
                    terms["deadline"] = json!(format!("2026-12-{:02}T08:00:00Z", dice.between(3, 5)));
                }
            }
            let mut document = json!({"name": format!("order-{i:05}"), "class": if i % 4 == 2 { "inference" } else { "training" }, "components": [trainer, feeder],
                "flows": flows, "terms": terms});
            if dice.below(20) == 0 {
                match dice.below(4) {
                    0 => document["flows"][1]["max_latency"] = json!("1us"),
                    1 => document["terms"]["budget"] = json!("0.5 CNY"),
                    2 => document["components"][0]["need"]["memory"] = json!("4TiB"),
                    _ => document["constraints"] = json!({"labels": ["nowhere"]}),
                }
                if dice.below(4) > 0 && document["flows"][1]["max_latency"] == json!("1us") {
                    document["constraints"] = json!({"max_sites": 2});
                    document["components"][0]["place"] = json!({"spread": "site"});
                    document["components"][0]["replicas"] = json!(2);
                }
            }
            Order::read(&document.to_string()).expect("a generated order is sound")
        })
        .collect()
}

/// A gang of one-device replicas that all share a rack, an NVLink domain or the site.
pub fn gang(replicas: u32, interconnect: &str) -> Order {
    let document = json!({
        "name": "gang", "class": "training",
        "components": [{"name": "gang", "replicas": replicas, "gang": true, "work": {"hours": 6, "reference": "H100"},
            "need": {"accelerators": {"count": 1, "models": ["H100"], "interconnect": interconnect}, "cpu": 2, "memory": "16GiB"}}],
    });
    Order::read(&document.to_string()).expect("a generated order is sound")
}

/// A federation in which one site has room for the gang in one rack and one NVLink domain.
pub fn gang_federation(size: &Size, seed: u64) -> FederationFile {
    let mut file: Value =
        serde_json::from_str(&serde_json::to_string(&federation(size, seed)).expect("it is data")).expect("it is JSON");
    for i in [3, 5] {
        file["sites"][i]["nodes"] = json!([{"count": 64 + i, "accelerators": {"model": "H100", "count": 8, "islands": [8]}, "cpu": 96,
            "memory": "1TiB", "rack": "big", "nvl_domain": "fabric"}]);
    }
    FederationFile::read(&file.to_string()).expect("a generated federation is sound")
}
