//! Orders with their plans: one of each shape that a saga has to carry.

use jiff::Timestamp;
use rhumb_model::{
    Cost, Currency, Leg, LinkId, ModelName, Order, Plan, PointName, Ratio, SiteName,
    plan::{PlacedComponent, SiteAssignment},
    price::PriceBook,
};
use rhumb_provision::{Prices, Saga, saga::Placement};

#[derive(Debug, Clone)]
pub struct Case {
    pub order: Order,
    pub plan: Plan,
    pub placements: Vec<Placement>,
}

impl Case {
    pub fn saga(&self, generation: u64, now: Timestamp) -> Saga {
        Saga::begin(&self.order, &self.plan, &self.placements, generation, now, ends).expect("plan and order agree")
    }
}

pub fn point(name: &str) -> PointName {
    PointName::new(name).unwrap()
}

pub fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Links are called by their two points, with a dash between them.
pub fn ends(link: &LinkId) -> Option<(PointName, PointName)> {
    let (from, to) = link.as_str().split_once('-')?;
    Some((PointName::new(from).ok()?, PointName::new(to).ok()?))
}

/// Flow, the points of its path, kbit/s, bytes.
pub type PlannedLeg<'a> = (u32, &'a str, u64, u64);

/// `placed`: component, then (site, replicas) by assignment, every replica with one device of `L4`.
pub fn case(yaml: &str, placed: &[(&str, &[(&str, u32)])], legs: &[PlannedLeg<'_>]) -> Case {
    let order = Order::read(yaml).unwrap();
    let mut components = Vec::new();
    let mut placements = Vec::new();
    for (name, sites) in placed {
        let mut assignments = Vec::new();
        let mut replica = 0;
        for (site, replicas) in *sites {
            let (site, model) = (point(site), Some("L4".parse().unwrap()));
            assignments.push(SiteAssignment { site: site.clone(), replicas: *replicas, model, devices_per_replica: 1 });
            for _ in 0..*replicas {
                let (component, node) = (name.parse().unwrap(), "n1".parse().unwrap());
                placements.push(Placement { component, replica, site: site.clone(), node, devices: vec![replica] });
                replica += 1;
            }
        }
        components.push(PlacedComponent { name: name.parse().unwrap(), assignments });
    }
    let legs = legs.iter().map(|leg| planned(&order, leg)).collect();
    let start = at("2026-11-30T12:00:00Z");
    let plan = Plan {
        components,
        flows: legs,
        start,
        finish: start,
        cost: free(),
        lower_bound_micros: 0,
        gap_ppm: 0,
        proven_optimal: true,
    };
    Case { order, plan, placements }
}

fn planned(order: &Order, (flow, path, kbps, bytes): &PlannedLeg<'_>) -> Leg {
    let points: Vec<&str> = path.split(' ').collect();
    let links = points.windows(2).map(|pair| LinkId::new(&pair.join("-")).unwrap()).collect();
    Leg {
        flow: *flow,
        from: order.flows[*flow as usize].from.to_string(),
        to: order.flows[*flow as usize].to.to_string(),
        from_site: point(points[0]),
        to_site: point(points[points.len() - 1]),
        path: links,
        backup: Vec::new(),
        rate_kbps: *kbps,
        volume_bytes: *bytes,
        demand_mrps: 0,
        latency_us: 1_000,
    }
}

fn free() -> Cost {
    Cost {
        total_micros: 0,
        compute_micros: 0,
        path_micros: 0,
        transfer_micros: 0,
        time_micros: 0,
        lateness_micros: 0,
        fragmentation_micros: 0,
        currency: "CNY".parse::<Currency>().unwrap(),
    }
}

/// Whether the order is given up at a site that is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    None,
    Minute,
}

fn terms(lease: Lease) -> &'static str {
    match lease {
        Lease::None => "terms: {}",
        Lease::Minute => "terms: {failover: {lease: 60s}}",
    }
}

const NEED: &str = "need: {accelerators: {count: 1}, cpu: 2, memory: 4GiB}";

/// One replica at one site, no flows.
pub fn solo(lease: Lease) -> Case {
    let yaml = format!(
        "name: solo\nclass: tuning\ncomponents:\n- {{name: tuner, {NEED}, work: {{duration: 1h}}}}\n{}\n",
        terms(lease)
    );
    case(&yaml, &[("tuner", &[("a", 1)])], &[])
}

/// Two sites that take their halves of a dataset over a relay, talk to each other and write results back.
pub fn spread(lease: Lease) -> Case {
    let yaml = format!(
        "name: spread\nclass: training\ncomponents:\n- {{name: trainer, replicas: 2, {NEED}, work: {{duration: 1h}}}}\n\
         flows:\n- {{from: dataset/corpus, to: trainer, volume: 9MB}}\n\
         - {{from: trainer, to: trainer, rate: 10Mbps}}\n\
         - {{from: trainer, to: dataset/model, volume: 4MB}}\n{}\n",
        terms(lease)
    );
    let legs = [
        (0, "c r a", 20_000, 4_500_000),
        (0, "c r b", 20_000, 4_500_000),
        (1, "a b", 10_000, 0),
        (1, "b a", 10_000, 0),
        (2, "a r c", 20_000, 2_000_000),
        (2, "b r c", 20_000, 2_000_000),
    ];
    case(&yaml, &[("trainer", &[("a", 1), ("b", 1)])], &legs)
}

/// A service for users behind a relay.
pub fn service(lease: Lease) -> Case {
    let yaml = format!(
        "name: service\nclass: inference\ncomponents:\n\
         - {{name: server, {NEED}, service: {{serves: 10rps, port: 8000}}}}\n\
         flows:\n- {{from: region/users, to: server, demand: 5rps, rate: 2Mbps}}\n{}\n",
        terms(lease)
    );
    case(&yaml, &[("server", &[("a", 1)])], &[(0, "r a", 2_000, 0)])
}

/// Work at one site that a service at another serves; its data lies where it runs.
pub fn served(lease: Lease) -> Case {
    let yaml = format!(
        "name: served\nclass: processing\ncomponents:\n\
         - {{name: cleaner, replicas: 2, {NEED}, work: {{duration: 1h}}}}\n\
         - {{name: index, {NEED}, service: {{serves: 10rps, port: 8000}}}}\n\
         flows:\n- {{from: dataset/records, to: cleaner, volume: 6MB}}\n\
         - {{from: cleaner, to: index, rate: 5Mbps}}\n{}\n",
        terms(lease)
    );
    let legs = [(0, "a", 0, 6_000_000), (1, "a r b", 5_000, 0)];
    case(&yaml, &[("cleaner", &[("a", 2)]), ("index", &[("b", 1)])], &legs)
}

pub fn all(lease: Lease) -> [Case; 4] {
    [solo(lease), spread(lease), service(lease), served(lease)]
}

/// Nothing costs anything.
pub struct Free;

impl Prices for Free {
    fn book(&self, _: &SiteName) -> Option<&PriceBook> {
        static BOOK: std::sync::LazyLock<PriceBook> = std::sync::LazyLock::new(PriceBook::default);
        Some(&BOOK)
    }

    fn device(&self, _: &SiteName, _: &ModelName) -> Ratio {
        Ratio::from_integer(0)
    }

    fn memory(&self, _: &ModelName) -> Option<rhumb_model::Bytes> {
        None
    }

    fn core(&self, _: &SiteName) -> Ratio {
        Ratio::from_integer(0)
    }

    fn gib(&self, _: &SiteName) -> Ratio {
        Ratio::from_integer(0)
    }

    fn per_gb(&self, _: &LinkId) -> Ratio {
        Ratio::from_integer(0)
    }

    fn per_mbps_hour(&self, _: &LinkId) -> Ratio {
        Ratio::from_integer(0)
    }
}
