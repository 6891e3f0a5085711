//! Links of a generated fleet: access lines, metro rings and a backbone of several carriers, which share ducts and cables.

use super::{
    fleet::{FleetSite, Tier},
    map::{CITIES, Spot, fibre_us, km},
};
use crate::dice::Dice;
use serde_json::{Value, json};

/// A point of presence.
#[derive(Debug)]
pub(super) struct Pop {
    pub name: String,
    pub city: usize,
    pub spot: Spot,
}

/// One or more in each city.
pub(super) fn pops(cities: usize, sites: u32) -> Vec<Pop> {
    let count = (sites as usize / 10).max(cities);
    let pop = |i: usize| Pop {
        name: format!("pop-{}-{}", CITIES[i % cities].name, i / cities),
        city: i % cities,
        spot: CITIES[i % cities].spot(),
    };
    (0..count).map(pop).collect()
}

const CARRIERS: [&str; 5] = ["carrier-a", "carrier-b", "carrier-c", "carrier-d", "carrier-e"];

/// Carriers whose lines are encrypted throughout.
fn encrypts(carrier: &str) -> bool {
    matches!(carrier, "carrier-a" | "carrier-c" | "carrier-e")
}

struct Mesh<'a> {
    dice: &'a mut Dice,
    sites: &'a [FleetSite],
    pops: &'a [Pop],
    links: Vec<Value>,
}

/// `wanted` links, each both ways: enough to join every point, then more of all kinds.
pub(super) fn links(dice: &mut Dice, sites: &[FleetSite], pops: &[Pop], wanted: usize) -> Vec<Value> {
    let mut mesh = Mesh { dice, sites, pops, links: Vec::with_capacity(wanted) };
    for pop in 1..pops.len() {
        // within one jurisdiction where there is one before, so that each is joined by itself
        let own = CITIES[pops[pop].city].jurisdiction;
        let near = |other: &usize| {
            let foreign = CITIES[pops[*other].city].jurisdiction != own;
            (foreign, km(pops[pop].spot, pops[*other].spot), *other)
        };
        if let Some(other) = (0..pop).min_by_key(near) {
            mesh.backbone(pop, other);
        }
    }
    for site in 0..sites.len() {
        mesh.access(site);
    }
    while mesh.links.len() < wanted {
        match mesh.dice.below(10) {
            0..=3 => {
                let site = mesh.dice.below(sites.len() as u64) as usize;
                mesh.access(site);
            }
            4 | 5 => mesh.metro(),
            _ => mesh.shortcut(),
        }
    }
    mesh.links
}

impl Mesh<'_> {
    fn access(&mut self, site: usize) {
        let of = &self.sites[site];
        let here: Vec<usize> = (0..self.pops.len()).filter(|p| self.pops[*p].city == of.city).collect();
        let pop = &self.pops[self.dice.one_of(&here)];
        let capacity = match of.tier {
            Tier::Core => "400Gbps",
            Tier::Cloud => self.dice.one_of(&["100Gbps", "200Gbps"]),
            Tier::Edge => self.dice.one_of(&["10Gbps", "25Gbps", "40Gbps"]),
        };
        let duct = format!("metro-{}-{}", CITIES[of.city].name, self.dice.below(4));
        let ends = [(of.name.clone(), of.spot, of.city), (pop.name.clone(), pop.spot, pop.city)];
        self.add(&ends, capacity, (0, 20), (5, 25), &[duct]);
    }

    /// Two sites of one city, joined directly.
    fn metro(&mut self) {
        let a = self.dice.below(self.sites.len() as u64) as usize;
        let city = self.sites[a].city;
        let others: Vec<usize> = (0..self.sites.len()).filter(|b| *b != a && self.sites[*b].city == city).collect();
        if others.is_empty() {
            return;
        }
        let b = self.dice.one_of(&others);
        let ends = [a, b].map(|i| (self.sites[i].name.clone(), self.sites[i].spot, city));
        let duct = format!("metro-{}-{}", CITIES[city].name, self.dice.below(4));
        let capacity = self.dice.one_of(&["10Gbps", "25Gbps", "100Gbps"]);
        self.add(&ends, capacity, (0, 10), (3, 15), &[duct]);
    }

    /// Of a few points of presence, the nearest; one in ten goes far.
    fn shortcut(&mut self) {
        let a = self.dice.below(self.pops.len() as u64) as usize;
        let few = if self.dice.chance(10) { 1 } else { 6 };
        let other = |dice: &mut Dice| dice.below(self.pops.len() as u64) as usize;
        let others: Vec<usize> = (0..few).map(|_| other(self.dice)).filter(|b| *b != a).collect();
        let near = |b: &usize| (km(self.pops[a].spot, self.pops[*b].spot), *b);
        if let Some(b) = others.into_iter().min_by_key(near) {
            self.backbone(a, b);
        }
    }

    fn backbone(&mut self, a: usize, b: usize) {
        let pop = |i: usize| (self.pops[i].name.clone(), self.pops[i].spot, self.pops[i].city);
        let ends = [pop(a), pop(b)];
        let [mut from, mut to] = [&CITIES[ends[0].2], &CITIES[ends[1].2]];
        if from.name > to.name {
            (from, to) = (to, from);
        }
        let mut shared = vec![format!("duct-{}-{}", from.name, to.name)];
        let sea = from.continent != to.continent;
        if sea {
            let (one, other) = (from.continent.min(to.continent), from.continent.max(to.continent));
            shared.push(format!("cable-{one}-{other}-{}", self.dice.below(3)));
        }
        let abroad = from.jurisdiction != to.jurisdiction;
        let (capacity, per_gb, per_mbps) = match (sea, abroad) {
            (true, _) => (self.dice.one_of(&["100Gbps", "200Gbps"]), (150, 500), (200, 600)),
            (false, true) => (self.dice.one_of(&["100Gbps", "200Gbps", "400Gbps"]), (60, 250), (80, 250)),
            (false, false) => (self.dice.one_of(&["200Gbps", "400Gbps", "800Gbps"]), (10, 90), (20, 90)),
        };
        self.add(&ends, capacity, per_gb, per_mbps, &shared);
    }

    /// Prices in thousandths (per GB) and ten thousandths (per Mbit/s and hour), from and to.
    fn add(
        &mut self,
        ends: &[(String, Spot, usize); 2],
        capacity: &str,
        per_gb: (u64, u64),
        per_mbps: (u64, u64),
        srlg: &[String],
    ) {
        let dice = &mut *self.dice;
        let [from, to] = ends;
        let carrier = dice.one_of(&CARRIERS);
        // equipment at both ends, and detours of up to a quarter
        let latency = fibre_us(from.1, to.1) * dice.between(100, 125) / 100 + dice.between(60, 300);
        let crossed = std::collections::BTreeSet::from([CITIES[from.2].jurisdiction, CITIES[to.2].jurisdiction]);
        self.links.push(json!({
            "id": format!("l{:05}", self.links.len()),
            "from": from.0,
            "to": to.0,
            "both_ways": true,
            "capacity": capacity,
            "latency": format!("{latency}us"),
            "jitter": format!("{}us", latency / 50 + 10),
            "loss": format!("0.00{}%", dice.between(1, 9)),
            "per_gb": format!("0.{:03} CNY", dice.between(per_gb.0, per_gb.1)),
            "per_mbps_hour": format!("0.{:04} CNY", dice.between(per_mbps.0, per_mbps.1)),
            "provider": carrier,
            "jurisdictions": crossed,
            "encrypted": encrypts(carrier),
            "srlg": srlg,
        }));
    }
}
